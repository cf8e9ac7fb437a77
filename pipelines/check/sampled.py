"""What `tokcore verify --sample` looks at, a drawn share of the shards and count tables; how much that finds. No Beam.

A piece is a count table, or all shards of a work item, a part or a group. Manifests, small files and the sizes of all
files are looked at anyhow.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from tokcore.errors import ConfigError
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.commit import get_path_below
from tokcore_pipelines.store.storage import Footprint
from tokcore_schemas.manifest import AnyManifest, FileEntry
from tokcore_schemas.stage_manifests import TableAbout

Piece = int | str  # number of a work item, part or group; path of a table


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """How much to look at. Equal seeds draw equal pieces of an output."""

    share: Decimal
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"--sample {self.share}: expected more than 0 and at most 1, such as 0.01")

    def draw(self, made: AnyManifest) -> frozenset[Piece]:
        """Pieces of a stage: the share, rounded up, of each stage that has any."""
        pieces = {piece for entry in made.files if (piece := get_piece(entry)) is not None}
        ordered = sorted(pieces, key=lambda one: hashlib.sha256(f"{self.seed}/{made.stage}/{one}".encode()).digest())
        return frozenset(ordered[: math.ceil(self.share * len(ordered))])


def parse_sample(share: str, seed: int) -> Sample:
    """The sample of a share as people write it. Raises ConfigError for what is none.

    >>> parse_sample("0.01", 7)
    Sample(share=Decimal('0.01'), seed=7)
    """
    try:
        return Sample(Decimal(share), seed)
    except InvalidOperation as error:
        raise ConfigError(f"--sample {share}: expected a number, such as 0.01") from error


def get_piece(entry: FileEntry[Any]) -> Piece | None:
    """The piece that a file is of; None for a small file, which is always looked at."""
    if isinstance(entry.about, ShardFacts):
        return entry.about.item
    return entry.path if isinstance(entry.about, TableAbout) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn of one build."""

    of: Mapping[str, frozenset[Piece]]  # stage -> its pieces

    def has(self, stage: str, piece: Piece | None) -> bool:
        """Whether a piece is to be looked at."""
        return piece is None or piece in self.of.get(stage, ())


def count_pieces(manifests: Collection[AnyManifest]) -> int:
    """How many pieces there are."""
    return sum(len({piece for e in made.files if (piece := get_piece(e)) is not None}) for made in manifests)


def check_sizes(there: Mapping[str, Footprint], files: Iterable[tuple[str, FileEntry[Any]]]) -> Iterator[str]:
    """What is wrong with the sizes of files that were not drawn. there: as they are listed."""
    for stage, entry in files:
        path = get_path_below(stage, entry.path)
        if path not in there:
            yield f"{path}: missing"
        elif (size := there[path].size_bytes) != entry.size_bytes:
            yield f"{path}: {size} bytes, committed with {entry.size_bytes}"


def compute_chance(pieces: int, drawn: int, damaged: int) -> float:
    """The probability that drawn pieces have one of the damaged ones among them.

    >>> [round(compute_chance(100, 10, damaged), 3) for damaged in (1, 20, 91)]
    [0.1, 0.905, 1.0]
    """
    return 1 - math.comb(pieces - min(damaged, pieces), drawn) / math.comb(pieces, drawn)


def describe_sample(pieces: int, drawn: int, seed: int) -> str:
    """What was looked at, and what would have been found."""
    chances = {number: compute_chance(pieces, drawn, number) for number in (1, 10, 100, 1000) if number <= pieces}
    told = ", ".join(f"{100 * chance:.3g} % with {number:,} damaged" for number, chance in chances.items())
    return f"{drawn:,} of {pieces:,} pieces drawn (seed {seed}); one would have been found in {told}"
