"""What is done in each stage: a row for each, in the order of schemas.stage_table.

A stage that is made out of finished stages alone has all that it needs in its row: it is built, printed, verified,
rebuilt and repaired by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pipelines.stages.mix_corpus import mix_corpus, show_receipts, tell_mixture
from pipelines.stages.pack_corpus import pack_corpus, tell_packed
from pipelines.stages.stage import BuildRun
from schemas.manifest import AnyManifest
from schemas.stage_manifests import TokenizerManifest, TokenizersManifest
from schemas.stage_table import COUNTS, MIXED, PACKED, PLAN, REJECTED, SHARDS, TOKENIZER, TOKENIZERS


@dataclasses.dataclass(frozen=True, slots=True)
class StageWork:
    """What is done in a stage."""

    # Makes it out of the finished stages, or finds it made; None if the build does not ask for it. No function: the
    # build itself makes it, with the plan at hand.
    make: Callable[[BuildRun], AnyManifest | None] | None = None
    title: str = ""  # under which the end of a build names its folder; "": not at all
    tell: Callable[[Any], list[str]] | None = None  # what stands beside the folder, and lines that follow it
    show: Callable[[Any], list[str]] | None = None  # what `tokcore show` says of it, besides its shards


def _tell_size(made: TokenizerManifest) -> list[str]:
    return [f"{made.totals.vocab_size:,} ids"]


def _tell_sizes(made: TokenizersManifest) -> list[str]:
    return [f"{', '.join(f'{size:,}' for size, _ in made.totals.list_ascending())} ids"]


WORK: dict[str, StageWork] = {
    PLAN.name: StageWork(),
    REJECTED.name: StageWork(),
    COUNTS.name: StageWork(),
    TOKENIZERS.name: StageWork(title="tokenizers", tell=_tell_sizes),
    TOKENIZER.name: StageWork(title="tokenizer", tell=_tell_size),
    SHARDS.name: StageWork(title="shards"),
    MIXED.name: StageWork(mix_corpus, "mixture", tell_mixture, show_receipts),
    PACKED.name: StageWork(pack_corpus, "rows", tell_packed),
}
