"""A stage that tokcore does not have: every shard once more, its documents in reverse order, in the format arrow."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile, list_paths
from tokcore.shards.token_batch import join_batches
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.shard_files import list_shard_files
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, name_inputs, run_stage
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import DerivedWork
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.encode_job import ShardJob
from tokcore_pipelines.work.new_shard import NewShard
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_schemas.manifest import Manifest
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards, make_shard_settings
from tokcore_schemas.stage_manifests import CorpusAbout, Nothing
from tokcore_schemas.stage_table import SHARDS, TOKENIZER, Stage

NAME, FORMAT = "turned", "arrow"


@dataclasses.dataclass(frozen=True, slots=True)
class TurnedConfig:
    formats: tuple[str, ...]
    target_tokens: int
    compression: str
    dtype: str


@dataclasses.dataclass(frozen=True, slots=True)
class TurnedTotals:
    shards: int
    documents: int
    tokens: int
    fingerprint: str


TurnedManifest = Manifest[TurnedConfig, TurnedTotals, Nothing, ShardFacts | CorpusAbout]


@dataclasses.dataclass(frozen=True, slots=True)
class Turned:
    """The shards of a work item."""

    shards: tuple[ShardRef, ...]


def turn(
    output: str, config: TurnedConfig, totals: Any, attempts: Attempts, sources: Sequence[ShardRef], number: int
) -> Turned:
    """Write the shards of a work item. totals: of the tokenizer. sources: all shards of the build."""
    own = [shard for shard in sources if shard.facts.item == number]
    settings = make_shard_settings(config, totals.fingerprint, totals.vocab_size)
    return Turned(tuple(_turn(output, ShardJob(attempts, config, settings), shard) for shard in own))


def _turn(output: str, job: ShardJob[Any], shard: ShardRef) -> ShardRef:
    facts = dataclasses.replace(shard.facts, result_key=make_table_key(job.attempts.identity))
    path = urls.join(output, SHARDS.name, list_paths(SHARD_FORMATS[FORMAT], shard.facts.stem)[0])
    documents = join_batches(list(FormatFile(FORMAT, path).open().batches()))
    documents = documents.take([*range(documents.num_documents)][::-1])
    with contextlib.ExitStack() as stack:
        new = NewShard(job, facts, stack)
        new.write(documents)
        return new.close()


def make(run: BuildRun) -> TurnedManifest:
    shards, learned = require_manifest(run.output, SHARDS), require_manifest(run.output, TOKENIZER)
    of = shards.config
    key = StageKey(
        NAME, TurnedConfig((FORMAT,), of.target_tokens, of.compression, of.dtype), name_inputs(shards, learned)
    )
    sources, vocab_size = list_named_shards(shards), learned.totals.vocab_size

    def work(attempts: Attempts) -> Made[TurnedTotals, Nothing, ShardFacts | CorpusAbout]:
        numbers = range(1 + max(shard.facts.item for shard in sources))
        turned = [turn(run.output, key.config, learned.totals, attempts, sources, number) for number in numbers]
        totals = add_up(turned, learned.totals.fingerprint)
        job = ShardJob(attempts, key.config, make_shard_settings(key.config, totals.fingerprint, vocab_size))
        about = CorpusAbout(totals.documents, totals.tokens)
        return Made(list_shard_files(job, [shard for one in turned for shard in one.shards], about), totals)

    return run_stage(run, key, work)


def add_up(turned: Sequence[Turned], fingerprint: str) -> TurnedTotals:
    facts = [shard.facts for one in turned for shard in one.shards]
    return TurnedTotals(len(facts), sum(one.documents for one in facts), sum(one.tokens for one in facts), fingerprint)


def again(stored: Stored, attempts: Attempts, number: int) -> Turned:
    sources = list_named_shards(stored.get(SHARDS))
    return turn(stored.url, stored.get(TURNED).config, stored.get(TOKENIZER).totals, attempts, sources, number)


def count(stored: Stored) -> int:
    return 1 + max(shard.facts.item for shard in list_named_shards(stored.get(SHARDS)))


def sum_up(stored: Stored, turned: Sequence[Turned], _: Sequence[Any]) -> tuple[TurnedTotals, dict[str, Nothing]]:
    return add_up(turned, stored.get(TOKENIZER).totals.fingerprint), {}


TURNED = Stage(
    name=NAME,
    manifest=TurnedManifest,
    command="turn",
    made_from=((SHARDS.name,), (TOKENIZER.name,)),
    does="Write every shard once more, its documents in reverse order.",
    done="turned",
    is_derived=True,
)
WORK = DerivedWork(title="turned", make=make, again=again, count=count, record=Turned, sum_up=sum_up)
