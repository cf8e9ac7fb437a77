"""`tokcore verify OUTPUT --rebuild SHARD`: compute one shard again from its pinned inputs, elsewhere, and compare.

Plan and tokenizer are taken from the output, once their hashes were checked; nothing in the output is written.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from tokcore.errors import ConfigError
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.commit import require_output
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK
from tokcore_pipelines.check.chain import read_manifests
from tokcore_pipelines.check.decoded_files import describe_decoded, find_decoded
from tokcore_pipelines.check.recount import require_whole
from tokcore_pipelines.check.shards_made_again import Compared, compare, make_again
from tokcore_pipelines.check.whole_files import check_file
from tokcore_schemas.manifest import AnyManifest, FileEntry
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import PLAN, TOKENIZER


@dataclasses.dataclass(frozen=True, slots=True)
class Rebuilt:
    """What computing a shard again gave; the shard is sound if problems is empty."""

    shard: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]  # what differs and may
    documents: int
    tokens: int
    size_bytes: int
    seconds: float


def rebuild(output: str, name: str, base: str = "") -> Rebuilt:
    """Encode the work item of a shard again and compare the shard's files with what was committed.

    name: the shard's, or the path of one of its files. base: as for verify. Raises ConfigError if there is no such
    output or shard, StageError naming the input that changed, if one did.
    """
    started = time.monotonic()
    require_output(output)
    read = read_manifests(output)
    problems = [*read.problems.values()]

    def finish(shard: str, compared: Compared, documents: int = 0, tokens: int = 0, size_bytes: int = 0) -> Rebuilt:
        return Rebuilt(shard, *compared, documents, tokens, size_bytes, time.monotonic() - started)

    if problems:
        return finish(name, Compared(tuple(problems), ()))
    stored = Stored(output, read.found, base)
    require_whole(stored)
    made, shard = _find(stored, name)
    # What it follows from, its tokenizer alone among what describes that; and what it is.
    needed: list[tuple[str, FileEntry[Any]]] = [(PLAN.name, entry) for entry in stored.get(PLAN).files]
    needed += [(TOKENIZER.name, stored.get(TOKENIZER).file(FILE_NAME))]
    if PLAN.name not in made.inputs:
        source = stored.get_source(made)
        needed += [(source.stage, entry) for entry in source.files]
    if problems := [wrong for stage, entry in needed for wrong in check_file(output, stage, entry)]:
        return finish(name, Compared(tuple(problems), ()))
    if PLAN.name in made.inputs and find_decoded(stored.plan):
        raise ConfigError(
            f"--rebuild {name}: {describe_decoded(stored.plan)}, since the source was gone, so there is nothing to "
            f"compute it from. `tokcore verify` checks all that is stored"
        )
    wrong = [wrong for file in shard.files for wrong in check_file(output, made.stage, file)]
    ways: list[Compared] = []
    # As inputs are read now, or else as earlier releases read them.
    for one in (stored, stored.as_before()) if PLAN.name in made.inputs else (stored,):
        with make_again(one, made, shard.facts.item) as (attempts, record):
            found = compare(output, attempts, shard, record.shards, wrong)
        ways.append(found)
        if not found.problems:
            break
    compared = min(ways, key=lambda one: len(one.problems))
    facts, size_bytes = shard.facts, sum(file.size_bytes for file in shard.files)
    return finish(facts.shard, compared, facts.documents, facts.tokens, size_bytes)


def _find(stored: Stored, name: str) -> tuple[AnyManifest, ShardRef]:
    """The shard of that name, and the manifest that names it. Those of later stages have its folder before them."""
    stages = [stage for stage, work in WORK.items() if work.again is not None]
    stage, _, wanted = name.partition("/")
    if stage not in stages:
        stage, wanted = stages[0], name
    made: Any = stored.stages.get(stage)
    shards = list_named_shards(made) if made is not None else []
    found = [shard for shard in shards if wanted in _list_names(shard)]
    if len(found) != 1:
        examples = ", ".join(s.facts.place for s in (found or shards)[:3])
        there = f"; there is, e.g., {examples}" if examples else ": this build has none of that kind"
        raise ConfigError(f"--rebuild {name}: {len(found) or 'no'} shards of that name{there}")
    return made, found[0]


def _list_names(shard: ShardRef) -> set[str]:
    """What a user may call it: its names, and the paths of its files, with or without the result key."""
    facts = shard.facts
    paths = {file.path for file in shard.files}
    return {facts.shard, facts.place, facts.stem, *paths, *(path.replace(facts.stem, facts.place) for path in paths)}
