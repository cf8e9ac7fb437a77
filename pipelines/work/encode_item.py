"""What a worker of the encode stage does: tokenize one work item into shards. No Beam.

A work item writes whole documents and closes a shard at the first document that reaches the target, so boundaries
depend on plan and documents only. As in the count stage, records in the attempt folder carry the results: one for
the item, and before that one for each shard that is full.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tokcore.errors import IdentityError
from tokcore.shards.labels import repeat_label
from tokcore.shards.token_batch import TokenBatch, add_ids
from tokcore.text.texts import Texts
from tokcore.tokenizer.encoded_batch import Encoded
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.input_range import Batch
from tokcore_pipelines.reading.metadata import make_metadata
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.choose_splits import choose_splits
from tokcore_pipelines.work.count_item import make_item_key
from tokcore_pipelines.work.encode_job import EncodeJob, Positions
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.inherit_item import (
    Inherited,
    find_inherited,
    require_inherited_sums,
    subtract_counts,
    subtract_languages,
    take_over_shards,
)
from tokcore_pipelines.work.item_reader import ItemReader, LanguageTally, add_documents, write_rejects_to
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.left_out_documents import Leaving, count_tokens
from tokcore_pipelines.work.result_keys import make_shards_key
from tokcore_pipelines.work.shard_attempt import EncodedDocuments
from tokcore_pipelines.work.shard_streams import ShardStreams
from tokcore_pipelines.work.shards_without_removed import thin_shards
from tokcore_pipelines.work.token_count_runs import write_id_run
from tokcore_schemas.draws import compute_draw_seed, make_randomness
from tokcore_schemas.plan import AssignedRange, Assignment
from tokcore_schemas.refs import ItemEncoded, LanguageCounts, RangeLedger

_loading = threading.Lock()


def encode_item(job: EncodeJob, assignment: Assignment) -> ItemEncoded:
    """Tokenize a work item into shards. Shards that an interrupted attempt finished are kept. Their documents are read
    again, because a stream can only be read from its start, but not tokenized again.

    Raises StageError for an input that cannot be read or has changed, IdentityError for another tokenizer.
    """
    return find_or_encode_item(job, assignment)[0]


def find_or_encode_item(job: EncodeJob, assignment: Assignment) -> tuple[ItemEncoded, bool]:
    """What encode_item gives, and whether an earlier attempt had left it."""
    key = make_item_key(assignment.number)
    if (done := job.attempts.result(key, ItemEncoded)) is not None:
        report_progress("read", assignment.size_bytes)
        return done, True
    if job.inherits and (own := find_inherited(job.attempts, assignment)) is not None:
        return job.attempts.record(key, _inherit_item(job, assignment, own)), True
    tokenizer = load_job_tokenizer(job)
    spelled: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        rejects = stack.enter_context(job.attempts.new_file(f"item-{assignment.number:05d}.rejects", skip_empty=True))
        reader = ItemReader(
            assignment, job.base, write_rejects_to(rejects.file), job.attempts.output, job.max_languages
        )
        streams = ShardStreams(job, assignment.number, make_shards_key(job.settings_sha256, assignment), stack)
        for source, batch in reader:
            for part in cut_into_slices(batch.texts):
                texts = Texts(batch.texts.data, batch.texts.offsets[part.start : part.stop + 1])
                spelled.update(tokenizer.spelled_special(texts))
                langs = batch.langs[part]
                splits = choose_splits(job.config, batch, part, source.settings.validation)
                where = list(range(part.start, part.stop))
                of = streams.of(langs, splits, make_metadata(batch.fields, job.partition_columns, where))
                rest = streams.unfinished(of)
                if len(rest):
                    tokens, pretokens = encode_texts(job, tokenizer, source, batch, part, texts, rest)
                    streams.write(EncodedDocuments(tokens, pretokens), [of[i] for i in rest.tolist()])
        shards, counts = streams.close()
    reach("encode.item")
    recorded = job.attempts.record(
        key,
        ItemEncoded(
            item=assignment.number,
            ledgers=tuple(reader.ledgers),
            languages=add_up_languages([reader.languages(), *(one.languages for one in shards)]),
            shards=tuple(one.shard for one in shards),
            hashed=add_up_hashed(one.hashed for one in shards),
            token_counts=write_id_run(job.attempts, f"item-{assignment.number:05d}", counts),
            special_text=dict(sorted(spelled.items())),
            rejects=rejects.stored(""),
        ),
    )
    return recorded, False


def _inherit_item(job: EncodeJob, assignment: Assignment, own: Inherited) -> ItemEncoded:
    """The record of an item whose shards are those of another part of the output.

    The one that bears the sums has those of that part, less what the items brought that are gone.
    """
    result_key = make_shards_key(job.settings_sha256, assignment)
    if own.item.is_thinned:
        taken = thin_shards(job, own.item.output, assignment, own.item.shards, result_key)
    else:
        taken = take_over_shards(job.attempts, own.item.output, assignment.number, own.item.shards, result_key)
    left = subtract_leaving(job, own)
    reach("encode.item")
    return ItemEncoded(
        item=assignment.number,
        ledgers=(*own.item.ledgers, *left.ledgers),
        languages=left.languages,
        shards=taken.shards,
        hashed=taken.hashed,
        token_counts=write_id_run(job.attempts, f"item-{assignment.number:05d}", taken.token_counts),
        special_text=left.special_text,
        rejects=own.rejects,
    )


class Left(NamedTuple):
    """What is left of the sums of another part, over all inherited items."""

    languages: dict[str, LanguageCounts]
    special_text: dict[str, int]  # special tokens that texts spell
    ledgers: tuple[RangeLedger, ...]  # of files from which documents were removed


def subtract_leaving(job: EncodeJob, own: Inherited) -> Left:
    """What an inherited item has of the sums; nothing if it is not the one that bears them."""
    if not own.item.bears_sums:
        return Left({}, {}, ())
    less = require_inherited_sums(job.attempts)
    tokenizer = load_job_tokenizer(job)
    spelled: Counter[str] = Counter()
    tallies: defaultdict[str, LanguageTally] = defaultdict(LanguageTally)
    tokens: list[dict[str, LanguageCounts]] = []
    encode = tokenizer.encode_texts_with_special if job.config.special_text == "special" else tokenizer.encode_texts
    leaving = Leaving(less, job.base)
    alike = frozenset(less.shuffled.alike if less.shuffled is not None else ())
    for one in leaving.read(lambda: tokenizer):
        batch = one.batch
        add_documents(tallies, batch)
        spelled.update(tokenizer.spelled_special(batch.texts))
        if one.uri in alike:  # these stay in their shards
            continue
        for part in cut_into_slices(batch.texts):
            texts = Texts(batch.texts.data, batch.texts.offsets[part.start : part.stop + 1])
            pretokens = encode(texts).pretokens
            for lang, where in batch.langs[part].by_label().items():
                tallies[lang].num_pretokens += int(pretokens[where].sum())
    leaves = [*((one.shards, None) for one in less.gone), *((one.shards, less.removed) for one in less.thinned)]
    for shards, removed in leaves:
        tokens = [add_up_languages([*tokens, *count_tokens(less.output, shards, removed, job.unknown)])]
    gone = add_up_languages([{lang: tally.freeze() for lang, tally in tallies.items()}, *tokens])
    return Left(
        subtract_languages(less.languages, gone), subtract_counts(less.special_text, spelled), leaving.list_ledgers()
    )


def cut_into_slices(texts: Texts, slice_bytes: int = 4 << 20) -> Iterator[slice]:
    """Runs of documents of about slice_bytes, so that memory follows neither the batch nor the number of tokens."""
    start = 0
    while start < texts.num_texts:
        limit = texts.offsets[start] + slice_bytes
        end = max(start + 1, int(np.searchsorted(texts.offsets, limit, side="right")) - 1)
        yield slice(start, end)
        start = end


def encode_texts(
    job: EncodeJob,
    tokenizer: Tokenizer,
    source: AssignedRange,
    batch: Batch,
    part: slice,
    texts: Texts,
    where: Positions,
) -> tuple[TokenBatch, Positions]:
    """The documents at these positions of a part of the batch, and how many pre-tokens each has. texts: of the part."""
    encode = _choose_encode(job, tokenizer, batch, where + part.start)
    ids, offsets, pretokens = encode(texts.take(where))
    ids, offsets = add_ids(ids, offsets, job.prepend, job.append)
    at = (where + part.start).tolist()
    return (
        TokenBatch(
            tokens=ids,
            offsets=offsets,
            ids=[batch.get_id(i) for i in at],
            langs=batch.langs.take(at),
            sources=repeat_label(source.uri, len(at)),
            # The record's number in its range, plus the range's first byte: unique and ascending within a file.
            ordinals=batch.ordinals[at] + source.start,
            metadata=make_metadata(batch.fields, job.settings.metadata, at),
        ),
        pretokens,
    )


def _choose_encode(job: EncodeJob, tokenizer: Tokenizer, batch: Batch, where: Positions) -> Callable[[Texts], Encoded]:
    """What encodes these documents of a batch."""
    config = job.config
    with_special = config.special_text == "special"
    if (randomness := make_randomness(config)) is None:
        return tokenizer.encode_texts_with_special if with_special else tokenizer.encode_texts
    seeds = [compute_draw_seed(config.seed or 0, config.epoch or 0, batch.compute_key(i)) for i in where.tolist()]
    return functools.partial(
        tokenizer.draw_texts,
        randomness=randomness,
        seeds=np.array(seeds, np.uint64),
        with_special=with_special,
    )


def load_job_tokenizer(job: EncodeJob) -> Tokenizer:
    """The tokenizer of a job, loaded once a process. Raises IdentityError if another one is there."""
    with _loading:  # a worker of an engine has threads, which come at the same time
        return _load_tokenizer(job.tokenizer, job.tokenizer_sha256, job.settings.fingerprint)


@functools.lru_cache(maxsize=2)
def _load_tokenizer(url: str, sha256: str, fingerprint: str) -> Tokenizer:
    tokenizer = Tokenizer(TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, sha256))
    if tokenizer.fingerprint != fingerprint:
        raise IdentityError(
            f"{url}: its fingerprint is {tokenizer.fingerprint}, the build was started with {fingerprint}"
        )
    return tokenizer
