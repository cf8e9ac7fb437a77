"""What a build will take and give, estimated from a sample of its input. Each figure says how it came."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipelines.reading.records import BATCH_BYTES, BATCH_RECORDS, Batch
from pipelines.stages.source_checks import Seen, SourceSample
from schemas.config import BuildConfig, pretokenizer_of
from schemas.input_format import COLUMN_FORMATS
from tokcore import kernel
from tokcore.masking import add_texts
from tokcore.models import MODELS, LearnOptions
from tokcore.normalize import Normalizer
from tokcore.texts import Texts

_SAMPLE_BYTES = 1 << 24  # of text; more makes the check slow and the estimate hardly better
_WORKER_BYTES = 250_000_000  # of a worker beside its counts
_MERGE_COST_BYTES = 64  # of a distinct pre-token in a worker's table, besides its own bytes, about
_START_SECONDS = 3  # of a build without work


class Estimate(NamedTuple):
    """Estimated from sample_bytes of text. All but seconds follow from the sample alone."""

    sample_bytes: int  # of text
    is_whole: bool  # whether the sample is the whole corpus
    text_bytes: int
    pretokens: int
    distinct: int  # pre-tokens in the sample
    seconds: int
    memory_bytes: int  # at most, of all workers together
    vocab_least: int  # tokens that the sample alone gives, special ones included; 0 if none are learned
    vocab_most: int  # tokens that a corpus would give that goes on as new as the sample is


def estimate(config: BuildConfig, samples: Sequence[SourceSample], workers: int) -> Estimate | None:
    """What a build will take and give; None if the sample holds no text."""
    texts_of = [[(seen, seen.batch) for seen in sample.seen if seen.batch is not None] for sample in samples]
    num_seen = max(1, sum(len(one) for one in texts_of))
    normalizer, pretokenizer = Normalizer(config.normalize.steps), pretokenizer_of(config)
    counter = kernel.Counter(pretokenizer.native_name or "gpt2", config.count.max_pretoken_bytes)
    text_bytes = pretokens = 0.0
    sample_bytes = 0
    is_whole = True
    unknown: list[SourceSample] = []
    seconds = 0.0
    for sample, read in zip(samples, texts_of, strict=True):
        stored = in_text = counted = 0.0
        before = counter.num_pretokens
        for seen, batch in read:
            if (of_file := _stored_bytes_of(seen, batch)) is not None:
                stored += of_file
                in_text += batch.texts.size_bytes
            chosen = normalizer.apply(_first(batch.texts, _SAMPLE_BYTES // num_seen))
            started = time.perf_counter()
            add_texts(counter, chosen, pretokenizer, config.count.mask)
            seconds += time.perf_counter() - started
            counted += chosen.size_bytes
            is_whole = is_whole and seen.peek.is_whole and chosen.size_bytes == batch.texts.size_bytes
        is_whole = is_whole and len(read) == len(sample.files)
        if not stored or not counted:
            unknown.append(sample)
            continue
        of_source = sample.stored_bytes * in_text / stored
        text_bytes += of_source
        pretokens += of_source * (counter.num_pretokens - before) / counted
        sample_bytes += int(counted)
    if not sample_bytes:
        return None
    # Sources that tell nothing are taken for as dense as the others.
    known = sum(sample.stored_bytes for sample in samples) - sum(sample.stored_bytes for sample in unknown)
    scale = 1 + sum(sample.stored_bytes for sample in unknown) / max(1, known)
    text_bytes, pretokens = text_bytes * scale, pretokens * scale
    distinct, sampled = counter.num_rows, counter.num_pretokens
    table_bytes = counter.memory_bytes * max(1.0, pretokens / max(1, sampled))
    least = most = 0
    if config.tokenizer is None:
        least = _largest_vocabulary(config, counter, workers)
        growth = 1 if is_whole else max(1.0, pretokens / max(1, sampled))
        most = 256 + len(config.special) + int((least - 256 - len(config.special)) * growth)
    rate = sample_bytes / max(seconds, 1e-6) * max(1, workers)
    return Estimate(
        sample_bytes=sample_bytes,
        is_whole=is_whole,
        text_bytes=round(text_bytes),
        pretokens=round(pretokens),
        distinct=distinct,
        seconds=round(_START_SECONDS + 2 * text_bytes / rate),  # counting, and encoding, which takes about as long
        memory_bytes=workers * (_WORKER_BYTES + min(config.count.memory_bytes, round(table_bytes))),
        vocab_least=least,
        vocab_most=most,
    )


def _stored_bytes_of(seen: Seen, batch: Batch) -> float | None:
    """The bytes of the file that hold the batch; None if they are unknown."""
    if seen.peek.stored in COLUMN_FORMATS:
        is_full = batch.texts.size_bytes >= BATCH_BYTES or batch.num_records >= BATCH_RECORDS
        return None if is_full else seen.file.size_bytes
    return seen.peek.stored_bytes


def _first(texts: Texts, size_bytes: int) -> Texts:
    """The first texts of some that have no more than size_bytes together, at least one."""
    ends = texts.offsets[1:] - texts.offsets[0]
    num = max(1, int(np.searchsorted(ends, size_bytes, side="right")))
    return Texts(texts.data, texts.offsets[: num + 1]) if texts.num_texts > num else texts


def _largest_vocabulary(config: BuildConfig, counter: kernel.Counter, threads: int) -> int:
    """How many tokens the counted text gives, special ones included, with the limits of the build file."""
    model = MODELS[config.learn.model]
    if not model.uses:  # it learns nothing
        return config.vocab_size
    rows = counter.take().seen_in(config.learn.min_documents)
    options = LearnOptions(
        vocab_size=256 + len(config.special) + max(1, rows.keys.size_bytes),
        num_special=len(config.special),
        min_count=config.learn.min_count,
        max_token_bytes=config.learn.max_token_bytes,
        threads=threads,
    )
    return len(model.learn(lambda: (rows.keys, rows.counts), options).tokens) + len(config.special)
