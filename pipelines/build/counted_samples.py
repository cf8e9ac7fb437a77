"""The first documents of some files, counted, and what they tell of all files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokcore import kernel
from tokcore.count.pretoken_rows import CountRows
from tokcore.text.masking import add_texts
from tokcore.text.normalize import Normalizer
from tokcore.text.texts import Texts
from tokcore_pipelines.build.samples import Seen, SourceSample
from tokcore_pipelines.reading.records import BATCH_BYTES, BATCH_RECORDS, Batch
from tokcore_schemas.config import BuildConfig, make_pretokenizer
from tokcore_schemas.input_format import COLUMN_FORMATS


class CountedSamples(NamedTuple):
    """What was counted, and what all files have, as far as it follows from that."""

    sample_bytes: int  # of text, counted
    seconds: float  # that counting took
    rows: CountRows  # of the sample
    table_bytes: int  # of memory, while it was counted
    is_whole: bool  # whether the sample is the whole corpus
    text_bytes: float  # of all files, as the rest
    counted_bytes: float
    documents: float
    pretokens: float
    growth: float  # pre-tokens of all files for each one in the sample


class _Sampled(NamedTuple):
    """What the sample of one source tells."""

    is_whole: bool  # whether the sample is the whole source
    stored_bytes: float  # of the files, as far as it is known which of their bytes hold the sample
    text_bytes: int  # in those bytes
    taken_bytes: int  # of text, which were counted
    counted_bytes: int  # what the normalizer made of them
    documents: int  # in the counted bytes
    pretokens: int  # in the counted bytes
    seconds: float  # that counting took


def count_samples(config: BuildConfig, samples: Sequence[SourceSample], most_bytes: int) -> CountedSamples | None:
    """Count about most_bytes of text, of all files that were looked at; None if they hold no text."""
    counter = kernel.Counter(make_pretokenizer(config).native_name or "gpt2", config.count.max_pretoken_bytes)
    num_seen = sum(seen.batch is not None for sample in samples for seen in sample.seen)
    told = [_count_sample(config, sample, counter, most_bytes // max(1, num_seen)) for sample in samples]
    useful = [
        (sample, one) for sample, one in zip(samples, told, strict=True) if one.stored_bytes and one.counted_bytes
    ]
    if not useful:
        return None
    # Sources that tell nothing are taken for as dense as the others.
    known_bytes = sum(sample.stored_bytes for sample, _ in useful)
    scale = sum(sample.stored_bytes for sample in samples) / max(1, known_bytes)
    texts = [(sample.stored_bytes * one.text_bytes / one.stored_bytes, one) for sample, one in useful]
    is_whole = all(one.is_whole for one in told)

    def estimate_sum(name: str) -> float:
        if is_whole:
            return float(sum(getattr(one, name) for one in told))
        return float(scale * sum(size * getattr(one, name) / one.taken_bytes for size, one in texts))

    pretokens, table_bytes = estimate_sum("pretokens"), counter.memory_bytes
    growth = 1.0 if is_whole else max(1.0, pretokens / max(1, counter.num_pretokens))
    return CountedSamples(
        sample_bytes=sum(one.taken_bytes for _, one in useful),
        seconds=sum(one.seconds for one in told),
        rows=counter.take(),
        table_bytes=table_bytes,
        is_whole=is_whole,
        text_bytes=estimate_sum("taken_bytes"),
        counted_bytes=estimate_sum("counted_bytes"),
        documents=estimate_sum("documents"),
        pretokens=pretokens,
        growth=growth,
    )


def _count_sample(config: BuildConfig, sample: SourceSample, counter: kernel.Counter, most_bytes: int) -> _Sampled:
    """Count the beginning of each file that was looked at, about most_bytes of it."""
    normalizer, pretokenizer = Normalizer(config.counting_steps), make_pretokenizer(config)
    read = [(seen, seen.batch) for seen in sample.seen if seen.batch is not None]
    is_whole = sample.is_whole
    before = counter.num_pretokens
    stored = seconds = 0.0
    in_text = taken_bytes = counted = documents = 0
    for seen, batch in read:
        if (of_file := _measure_stored_bytes(seen, batch)) is not None:
            stored += of_file
            in_text += batch.texts.size_bytes
        taken = _take_first(batch.texts, most_bytes)
        chosen = normalizer.apply(taken)
        started = time.perf_counter()
        add_texts(counter, chosen, pretokenizer, config.count.mask)
        seconds += time.perf_counter() - started
        taken_bytes += taken.size_bytes
        counted += chosen.size_bytes
        documents += taken.num_texts
        is_whole = is_whole and taken.num_texts == batch.texts.num_texts
    pretokens = counter.num_pretokens - before
    return _Sampled(is_whole, stored, in_text, taken_bytes, counted, documents, pretokens, seconds)


def _measure_stored_bytes(seen: Seen, batch: Batch) -> float | None:
    """The bytes of the file that hold the batch; None if they are unknown."""
    if seen.num_rows:
        return seen.file.size_bytes * batch.num_records / seen.num_rows
    if seen.peek.stored in COLUMN_FORMATS:
        is_full = batch.texts.size_bytes >= BATCH_BYTES or batch.num_records >= BATCH_RECORDS
        return None if is_full else seen.file.size_bytes
    return seen.peek.stored_bytes


def _take_first(texts: Texts, size_bytes: int) -> Texts:
    """The first texts of some that have no more than size_bytes together, at least one."""
    ends = texts.offsets[1:] - texts.offsets[0]
    num = max(1, int(np.searchsorted(ends, size_bytes, side="right")))
    return Texts(texts.data, texts.offsets[: num + 1]) if texts.num_texts > num else texts
