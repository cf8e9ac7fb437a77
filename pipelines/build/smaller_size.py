"""A build of a smaller vocabulary out of another output, `--from`: its tokenizer is cut, its documents taken apart.

No text is read. The tokenizer is what learning would give, and shards are cut as encoding would cut them, so manifests
and root are those of a build that does both.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from tokcore.errors import ConfigError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.tokenizer.smaller import Smaller, find_smaller, make_smaller
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.item_steps import apart_steps
from tokcore_pipelines.build.shard_files import list_shard_files
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey
from tokcore_pipelines.build.token_count_table import read_token_counts, write_token_counts
from tokcore_pipelines.run.task import Items, do_steps
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.tokenizers import load_checked_spec
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.language_totals import refuse_many_partitions, sum_up_encoded
from tokcore_pipelines.work.learn_model import Learned
from tokcore_pipelines.work.make_jobs import make_special_tokens
from tokcore_pipelines.work.result_keys import make_shuffled_key
from tokcore_pipelines.work.take_apart import ApartJob
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import LanguageCounts, ShufflePart
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import (
    CorpusAbout,
    EncodedLanguage,
    LearnedConfig,
    ParityMix,
    ShardsConfig,
    ShardsManifest,
    ShardsTotals,
    TokenizerManifest,
)
from tokcore_schemas.stage_table import SHARDS, TOKENIZER


def cut_tokenizer(run: BuildRun, key: StageKey[Any]) -> Learned | None:
    """What the output run.reuse learned, cut to the size of this build; None if it learned something else."""
    theirs = find_manifest(run.reuse, TOKENIZER) if run.reuse else None
    own, learned = key.config, theirs.config if theirs is not None else None
    if theirs is None or not isinstance(own, LearnedConfig) or not isinstance(learned, LearnedConfig):
        return None
    is_alike = dataclasses.replace(learned, vocab_size=own.vocab_size) == own and theirs.inputs == key.inputs
    follows_size = isinstance(own.mix, ParityMix)  # then other weights were learned with
    if not is_alike or own.extends or follows_size or not _is_of_this_release(theirs):
        return None
    try:
        spec, special = load_checked_spec(run.reuse, theirs), make_special_tokens(run.config)
        cut = make_smaller(spec, run.config.vocab_size, special)
    except ConfigError:  # a vocabulary that cannot be cut may still be learned
        return None
    return Learned({run.config.vocab_size: cut.spec}, theirs.totals.mix, theirs.languages, theirs.totals.levels)


class LargerShards(NamedTuple):
    """Shards of the same documents under a larger vocabulary."""

    output: str  # URL
    made: ShardsManifest
    learned: TokenizerManifest
    smaller: Smaller | None  # None: of the same vocabulary, dealt to other folders


def find_larger_shards(run: BuildRun, key: StageKey[ShardsConfig], learned: TokenizerManifest) -> LargerShards | None:
    """The shards of run.reuse, if those of this build follow from them; None if they do not.

    That is so of a larger vocabulary, all else equal, and of other languages or partitions that are kept apart.
    """
    made = find_manifest(run.reuse, SHARDS) if run.reuse else None
    theirs = find_manifest(run.reuse, TOKENIZER) if made is not None else None
    if made is None or theirs is None or made.inputs.get(TOKENIZER.name) != theirs.as_input():
        return None
    own = key.config
    dealt_alike = dataclasses.replace(made.config, by=own.by, partition_by=own.partition_by, bins=own.bins)
    if dealt_alike == own != made.config and made.inputs == key.inputs and _is_of_this_release(made):
        return LargerShards(run.reuse, made, theirs, None)
    is_alike = made.config == own and {**made.inputs, TOKENIZER.name: learned.as_input()} == key.inputs
    is_drawn = made.config.dropout or made.config.sampling
    if not is_alike or is_drawn or theirs.totals.vocab_size <= learned.totals.vocab_size:
        return None
    if not _is_of_this_release(made):
        return None
    found = find_smaller(load_checked_spec(run.reuse, theirs), load_checked_spec(run.output, learned))
    return None if found is None else LargerShards(run.reuse, made, theirs, found)


def _is_of_this_release(made: AnyManifest) -> bool:
    return StageKey(made.stage, made.config, made.inputs).identity == made.identity


def take_corpus_apart(
    run: BuildRun, plan: Plan, job: EncodeJob, larger: LargerShards
) -> Made[ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]:
    """The shards of this build, made of those under a larger vocabulary, or of those in other folders.

    Raises LedgerError if documents were lost on the way.
    """
    attempts, before = job.attempts, larger.made.totals
    num_tokens = before.tokens if larger.smaller is None else _count_tokens(larger.output, larger.smaller)
    apart = ApartJob(
        encode=job,
        source=ShardSource.of(larger.output, larger.made),
        tokenizer=urls.join(larger.output, TOKENIZER.name, FILE_NAME),
        tokenizer_sha256=larger.learned.file(FILE_NAME).sha256,
        num_parts=choose_num_parts(before.tokens, job.config.target_tokens),
        num_documents=before.records.documents,
        num_tokens=before.tokens,
        is_refined=_refines(job.config, larger.made.config),
    )
    pieces = Items(plan) if job.config.shuffle is None else _list_parts(job, plan, num_tokens)
    shown_as, size_bytes = "cut anew" if larger.smaller is None else "take apart", plan.size_bytes
    with run.progress.stage(shown_as, size_bytes if job.config.shuffle is None else -1) as shown:
        taken = do_steps(run.find_executor(attempts), apart_steps(apart, pieces), attempts, shown.report)
    run.take_turn(attempts)
    refuse_many_partitions(taken.partitions, run.config.shards.max_partitions)
    held, hashed, tokens = taken.held, taken.hashed, taken.languages
    languages = {
        lang: LanguageCounts(
            one.documents, one.text_bytes, 0, 0, one.pretokens, _count(tokens, lang), num_unknown=one.unknown or 0
        )
        for lang, one in larger.made.languages.items()
    }
    ledger.check_documents(before.records.documents, held.documents, held.tokens, languages, hashed.documents)
    token_counts = write_token_counts(attempts, taken.pieces, num_tokens)
    totals = dataclasses.replace(
        before,
        shards=held.shards,
        tokens=num_tokens,
        documents_digest=hashed.digest,
        fingerprint=job.settings.fingerprint,
    )
    return Made(
        list_shard_files(job, taken.shards, CorpusAbout(before.records.documents, num_tokens), [token_counts]),
        totals,
        {lang: sum_up_encoded(one, job.unknown is not None) for lang, one in languages.items()},
    )


def _count_tokens(output: str, smaller: Smaller) -> int:
    """The tokens of an output's documents under a smaller vocabulary."""
    table, lists = read_token_counts(output), smaller.lists
    counted = zip(table["id"].to_pylist(), table["count"].to_pylist(), strict=True)
    return sum(len(lists[id]) * count for id, count in counted)


def _refines(own: ShardsConfig, theirs: ShardsConfig) -> bool:
    """Whether all documents of one of our folders come from one of theirs, so that they are in order there."""
    keys = ("lang",) if own.by == "lang" else own.partition_by
    their_keys = ("lang",) if theirs.by == "lang" else theirs.partition_by
    bins, their_bins = own.bins or {}, theirs.bins or {}
    return all(key in keys and bins.get(key) == their_bins.get(key) for key in their_keys)


def _count(tokens: dict[str, LanguageCounts], lang: str) -> int:
    return tokens[lang].num_tokens if lang in tokens else 0


def _list_parts(job: EncodeJob, plan: Plan, num_tokens: int) -> list[ShufflePart]:
    """The parts of the shuffle of this build. num_tokens: in all."""
    num, result_key = (
        choose_num_parts(num_tokens, job.config.target_tokens),
        make_shuffled_key(job.settings_sha256, plan),
    )
    return [ShufflePart(number, num, 0, result_key, ()) for number in range(num)]
