"""What `tokcore show` shows of an output: its shards. Of one of them: tokcore_pipelines.look.show_document."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tokcore.errors import ConfigError, FormatError
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.commit import find_manifest, get_manifest_url, require_manifest
from tokcore_pipelines.build.read_log import is_updated, locate_part, read_log
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.manifests import find_manifest_file
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import OWN
from tokcore_schemas.cut_manifest import read_files, read_head
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.stage_table import SHARDS, STAGES, WHOLE, Stage

if TYPE_CHECKING:
    from tokcore_pipelines.build.output import Output

BETWEEN = "/shards/"  # what is between an output and a shard in a URL


class ListedShards(NamedTuple):
    """Shards as a manifest lists them, and what all of them hold."""

    shards: list[dict[str, Any]]  # in the manifest's order; maybe the first ones only
    number: int
    documents: int  # rows, of packed ones
    tokens: int
    partitions: dict[str, PartitionSums]  # of all shards; empty unless they are kept apart so


class PartitionSums(NamedTuple):
    """What the shards of a partition hold."""

    shards: int
    documents: int
    tokens: int
    size_bytes: int  # stored

    def add(self, shard: dict[str, Any]) -> PartitionSums:
        """The sums with a listed shard, too."""
        return PartitionSums(
            self.shards + 1,
            self.documents + shard["documents"],
            self.tokens + shard["tokens"],
            self.size_bytes + shard["size_bytes"],
        )


def list_shards(output: str, most: int | None = None) -> ListedShards:
    """The shards that an output's manifest names. Raises ConfigError if there is none.

    output: the URL of the output, or of one of its folders with shards, such as `packed` or `mixed`, whose are listed
    then. most: how many to read at most.
    """
    url = output
    output, stage = find_stage(output)
    if urls.is_local(url) and not storage.exists(get_manifest_url(output, stage.name)):
        _refuse_shards_alone(url)
    read = _find_manifest(output, stage)
    totals = read_head(read())["totals"]
    held = totals.get("records", totals)
    documents, tokens = totals.get("rows", held["documents"]), totals["tokens"] + totals.get("padding", 0)
    listed = _group_files(read_files(read()))
    shards = [*itertools.islice(listed, most)]
    partitions = _sum_up_partitions(itertools.chain(shards, listed)) if "partition" in (shards or [{}])[0] else {}
    return ListedShards(shards, totals["shards"], documents, tokens, partitions)


def _refuse_shards_alone(url: str) -> None:
    """Raise ConfigError if shards are in a folder, and no output is, as `tokcore convert` leaves it."""
    # Loads all formats, which a list by a manifest does not need.
    from tokcore.shards.opened_shards import open_shards

    folder = urls.get_local_path(url)
    if any(folder.glob("*/manifest.json")):
        return
    with contextlib.suppress(FormatError):
        shards = open_shards(folder, split="all").list_files()
        raise ConfigError(
            f"{redact(url)}: is no output, but a folder of {format_count(len(shards), 'shard')}, which no manifest "
            f"lists. Show one: `tokcore show {shards[0].path}`; or a document of all: `tokcore show {redact(url)}:0`."
        )


def _sum_up_partitions(shards: Iterable[dict[str, Any]]) -> dict[str, PartitionSums]:
    sums: dict[str, PartitionSums] = {}
    for shard in shards:
        sums[shard["partition"]] = sums.get(shard["partition"], PartitionSums(0, 0, 0, 0)).add(shard)
    return dict(sorted(sums.items()))


def _group_files(files: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The shards that files are of: those of a shard follow each other."""
    of_shards = (file for file in files if "shard" in file["about"])
    for about, of_shard in itertools.groupby(of_shards, lambda file: file["about"]):
        own = [*of_shard]
        yield {
            "shard": ShardFacts(**about).stem,
            **{name: about[name] for name in ("partition", "split", "documents", "tokens") if name in about},
            "size_bytes": sum(file["size_bytes"] for file in own),
            "files": [file["path"] for file in own],
        }


def _find_manifest(output: str, stage: Stage[Any]) -> Callable[[], Iterable[bytes]]:
    """What gives the manifest of a stage as it is stored, in parts.

    If the manifest of the build has its hash, it is what tokcore wrote, and need not be checked field by field: there
    may be very many.
    """
    found, build = find_manifest_file(get_manifest_url(output, stage.name)), find_manifest(output, WHOLE)
    named = build.inputs.get(stage.name) if build is not None else None
    if found is None or named is None or found.sha256 != named.sha256:
        made: AnyManifest = require_manifest(output, stage, "build")
        return made.write
    return found.read_unchecked


def list_shards_at(output: Output, most: int | None = None) -> ListedShards:
    """The shards of all parts of an output at a commit, named from the output on: parts/KEY/shards/NAME.

    most: as for list_shards. Raises ConfigError if the output is not finished.
    """
    totals = output.log.totals(output.number)
    shards: list[dict[str, Any]] = []
    partitions: dict[str, PartitionSums] = {}
    for part in output.named:
        prefix = "" if part.path == OWN else f"{part.path}/shards/"
        own = list_shards(locate_part(output.url, part), most)
        for name, sums in own.partitions.items():
            before = partitions.get(name, PartitionSums(0, 0, 0, 0))
            partitions[name] = PartitionSums(*map(sum, zip(before, sums, strict=True)))
        shards += (
            {**shard, "shard": prefix + shard["shard"], "files": [prefix + path for path in shard["files"]]}
            for shard in own.shards[: None if most is None else most - len(shards)]
        )
    held = (totals.shards, totals.documents, totals.tokens)
    return ListedShards(shards, *held, dict(sorted(partitions.items())))


def find_stage(url: str) -> tuple[str, Stage[Any]]:
    """The output and the stage whose shards a URL means. An output may have the name of a stage.

    Of an output that was updated, OUTPUT/mixed and so on are those of its newest commit.

    Raises ConfigError for the folder of a stage that leaves no shards.
    """
    above, _, last = url.rstrip("/").rpartition("/")
    derived = [one for one in STAGES.values() if one.is_derived]
    named = {one.name: one for one in (SHARDS, *derived)}.get(last)
    if named is not None and named.is_derived and is_updated(above) and find_manifest(above, WHOLE) is not None:
        log = read_log(above)  # what follows from all documents is in one part
        return locate_part(above, log.parts()[-1]), named
    if last in STAGES and named is None and storage.exists(get_manifest_url(above, last)):
        raise ConfigError(
            f"{redact(url)}: holds what the stage {last} leaves, and no shards: `tokcore show {redact(above)}` lists "
            f"those of its output"
        )
    if named is None or storage.exists(get_manifest_url(url, SHARDS.name)):
        return url, SHARDS
    return above, named


def names_a_shard(url: str) -> bool:
    """Whether a URL is of a shard, not of an output."""
    return not urls.get_local_path(url).is_dir() if urls.is_local(url) else BETWEEN in url
