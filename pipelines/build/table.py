"""What is done in each stage: a row for each, in the order of tokcore_schemas.stage_table.

A stage that is made out of finished stages alone has all that it needs in its row: it is built, printed, verified,
rebuilt and repaired by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tokcore.learn.parity import describe_parity
from tokcore_pipelines.build import mix_corpus, pack_corpus
from tokcore_pipelines.build.count_corpus import name_tables, recount_tables
from tokcore_pipelines.build.dedup_corpus import recount_drops
from tokcore_pipelines.build.encode_corpus import encode_again
from tokcore_pipelines.build.make_tokenizer import recount_sizes, recount_tokenizer
from tokcore_pipelines.build.mixed_levels import tell_levels
from tokcore_pipelines.build.plan_corpus import recount_plan
from tokcore_pipelines.build.recount_shards import HeldShards, recount_shards
from tokcore_pipelines.build.rejects import recount_rejected
from tokcore_pipelines.build.stage import BuildRun, Made
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.store.attempts import Attempts
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.refs import GroupPacked, PartMeasured, PartMixed
from tokcore_schemas.stage_manifests import TokenizerManifest, TokenizersManifest
from tokcore_schemas.stage_table import COUNTS, DEDUP, MIXED, PACKED, PLAN, REJECTED, SHARDS, TOKENIZER, TOKENIZERS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """What is done in a stage that the build makes itself, with the plan at hand."""

    title: str = ""  # under which the end of a build names its folder; "": not at all
    tell: Callable[[Any], list[str]] | None = None  # what stands beside the folder, and lines that follow it
    show: Callable[[Any], list[str]] | None = None  # what `tokcore show` says of it, besides its shards
    # What its manifest has to say: the stage's own sum of records, which say what its files hold. None: shards alone.
    recount: Callable[[Stored, Any], Made[Any, Any, Any]] | None = None
    is_quick: bool = True  # recounting it reads no more than its manifest and small files
    as_said: Callable[[Any], Any] | None = None  # the records that its manifest speaks of, with nothing read
    # Makes a piece of it once more, in a working folder: the record of a worker, with the shards that are `item` of it.
    again: Callable[[Stored, Attempts, int], Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a stage that is made out of finished ones asks of these before it is made."""

    count: Callable[[Stored], int]  # of pieces that are measured
    measure: Callable[[Stored, int], Any]
    record: type[Any]  # what `measure` gives


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DerivedWork(StageWork):
    """What is done in a stage that is made out of finished ones, and of nothing else. Its files are shards."""

    make: Callable[[BuildRun], AnyManifest | None]  # or finds it made; None if the build does not ask for it
    again: Callable[[Stored, Attempts, int], Any]
    count: Callable[[Stored], int]  # of these pieces
    record: type[Any]  # what `again` gives
    measured: Measured | None = None  # what the sums need besides
    # How the records of all pieces, and what was measured, add up: (totals, languages) as the manifest has them.
    sum_up: Callable[[Stored, Sequence[Any], Sequence[Any]], tuple[Any, Any]]


def _tell_size(made: TokenizerManifest) -> list[str]:
    return [f"{made.totals.vocab_size:,} ids", *tell_levels(made), *describe_parity(made.totals.mix)]


def _tell_sizes(made: TokenizersManifest) -> list[str]:
    return [f"{', '.join(f'{size:,}' for size, _ in made.totals.list_ascending())} ids"]


WORK: dict[str, StageWork] = {
    PLAN.name: StageWork(recount=recount_plan),
    DEDUP.name: StageWork(recount=recount_drops),
    REJECTED.name: StageWork(recount=recount_rejected),
    COUNTS.name: StageWork(recount=recount_tables, as_said=name_tables),
    TOKENIZERS.name: StageWork(title="tokenizers", tell=_tell_sizes, recount=recount_sizes, is_quick=False),
    TOKENIZER.name: StageWork(title="tokenizer", tell=_tell_size, recount=recount_tokenizer, is_quick=False),
    SHARDS.name: StageWork(title="shards", again=encode_again, recount=recount_shards, as_said=HeldShards.said_by),
    MIXED.name: DerivedWork(
        make=mix_corpus.mix_corpus,
        title="mixture",
        tell=mix_corpus.tell_mixture,
        show=mix_corpus.show_receipts,
        again=mix_corpus.mix_again,
        count=mix_corpus.count_parts,
        record=PartMixed,
        measured=Measured(count=mix_corpus.count_source_parts, measure=mix_corpus.measure_again, record=PartMeasured),
        sum_up=mix_corpus.sum_up_again,
    ),
    PACKED.name: DerivedWork(
        make=pack_corpus.pack_corpus,
        title="rows",
        tell=pack_corpus.tell_packed,
        again=pack_corpus.pack_again,
        count=pack_corpus.count_groups,
        record=GroupPacked,
        sum_up=pack_corpus.sum_up_again,
    ),
}
