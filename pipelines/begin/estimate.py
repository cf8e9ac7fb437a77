"""What a build will take and give, estimated from a sample of its input. Each figure says how it came."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokcore import kernel
from tokcore.count.pretoken_rows import CountRows
from tokcore.models import MODELS, LearnOptions
from tokcore.text.masking import add_texts
from tokcore.text.normalize import Normalizer
from tokcore.text.texts import Texts
from tokcore_pipelines.build.samples import Seen, SourceSample
from tokcore_pipelines.reading.records import BATCH_BYTES, BATCH_RECORDS, Batch
from tokcore_pipelines.work.learn_memory import find_row_bytes
from tokcore_schemas.config import BuildConfig, make_pretokenizer
from tokcore_schemas.input_format import COLUMN_FORMATS

_SAMPLE_BYTES = 1 << 24  # of text; more makes the check slow and the estimate hardly better
_WORKER_BYTES = 250_000_000  # of a worker beside its counts
_MERGE_COST_BYTES = 64  # of a distinct pre-token in a worker's table, besides its own bytes, about
_START_SECONDS = 3  # of a build without work


class Estimate(NamedTuple):
    """Estimated from sample_bytes of text. All but the speed and the time follow from the sample alone."""

    sample_bytes: int  # of text
    is_whole: bool  # whether the sample is the whole corpus
    text_bytes: int
    counted_bytes: int  # what the normalizer makes of the text
    documents: int
    languages: int  # in the sample
    pretokens: int
    distinct: int  # pre-tokens in the sample
    seconds: int
    bytes_per_second: int  # of text that one worker counts
    memory_bytes: int  # at most, of all workers together
    learn_bytes: int  # of memory, at most: where a corpus goes on as new as the sample is; 0 if none are learned
    vocab_least: int  # size that the sample alone reaches, with special tokens; 0 if nothing is learned anew
    vocab_most: int  # tokens that a corpus would give that goes on as new as the sample is
    vocab_bound: int  # largest size that the sample alone can reach, with any weights of languages


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


def estimate(config: BuildConfig, samples: Sequence[SourceSample], workers: int) -> Estimate | None:
    """What a build will take and give; None if the sample holds no text."""
    counter = kernel.Counter(make_pretokenizer(config).native_name or "gpt2", config.count.max_pretoken_bytes)
    num_seen = sum(seen.batch is not None for sample in samples for seen in sample.seen)
    told = [_count_sample(config, sample, counter, _SAMPLE_BYTES // max(1, num_seen)) for sample in samples]
    useful = [
        (sample, one) for sample, one in zip(samples, told, strict=True) if one.stored_bytes and one.counted_bytes
    ]
    langs = {lang for sample in samples for seen in sample.seen if seen.batch for lang in seen.batch.langs.by_label()}
    if not useful:
        return None
    sample_bytes = sum(one.taken_bytes for _, one in useful)
    # Sources that tell nothing are taken for as dense as the others.
    known_bytes = sum(sample.stored_bytes for sample, _ in useful)
    scale = sum(sample.stored_bytes for sample in samples) / max(1, known_bytes)
    texts = [(sample.stored_bytes * one.text_bytes / one.stored_bytes, one) for sample, one in useful]
    is_whole = all(one.is_whole for one in told)

    def estimate_sum(name: str) -> float:
        if is_whole:
            return float(sum(getattr(one, name) for one in told))
        return float(scale * sum(size * getattr(one, name) / one.taken_bytes for size, one in texts))

    text_bytes, pretokens = estimate_sum("taken_bytes"), estimate_sum("pretokens")
    growth = max(1.0, pretokens / max(1, counter.num_pretokens))
    distinct, table_bytes = counter.num_rows, round(counter.memory_bytes * growth)
    rows, growth = counter.take(), 1.0 if is_whole else growth
    row_bytes = find_row_bytes(config, distinct, rows.keys.size_bytes)
    least, most, bound = _estimate_vocabulary(config, rows.seen_in(config.learn.min_documents), workers, growth)
    rate = sample_bytes / max(sum(one.seconds for one in told), 1e-6)
    return Estimate(
        sample_bytes=sample_bytes,
        is_whole=is_whole,
        text_bytes=round(text_bytes),
        counted_bytes=round(estimate_sum("counted_bytes")),
        documents=round(estimate_sum("documents")),
        languages=len(langs),
        pretokens=round(pretokens),
        distinct=distinct,
        # Counting, and encoding, which takes about as long.
        seconds=round(_START_SECONDS + 2 * text_bytes / (rate * max(1, workers))),
        bytes_per_second=round(rate),
        memory_bytes=workers * (_WORKER_BYTES + min(config.count.memory_bytes, table_bytes)),
        learn_bytes=0 if config.tokenizer else row_bytes * round(distinct * growth),
        vocab_least=least,
        vocab_most=most,
        vocab_bound=bound,
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


def _estimate_vocabulary(config: BuildConfig, rows: CountRows, threads: int, growth: float) -> tuple[int, int, int]:
    """(tokens that the counted text gives, tokens that growth times as much would give, what it gives at most).

    Zeros if none are learned, or if they are learned after those of another tokenizer.
    """
    if config.tokenizer is not None or config.extended is not None:
        return 0, 0, 0
    given = 256 + len(config.special)  # however little text there is
    bound = given + max(1, 2 * rows.keys.size_bytes)  # of a character there may be two tokens
    least = _find_largest_vocabulary(config, rows, bound, threads)
    return least, given + int((least - given) * growth), bound


def _measure_stored_bytes(seen: Seen, batch: Batch) -> float | None:
    """The bytes of the file that hold the batch; None if they are unknown."""
    if seen.peek.stored in COLUMN_FORMATS:
        is_full = batch.texts.size_bytes >= BATCH_BYTES or batch.num_records >= BATCH_RECORDS
        return None if is_full else seen.file.size_bytes
    return seen.peek.stored_bytes


def _take_first(texts: Texts, size_bytes: int) -> Texts:
    """The first texts of some that have no more than size_bytes together, at least one."""
    ends = texts.offsets[1:] - texts.offsets[0]
    num = max(1, int(np.searchsorted(ends, size_bytes, side="right")))
    return Texts(texts.data, texts.offsets[: num + 1]) if texts.num_texts > num else texts


def _find_largest_vocabulary(config: BuildConfig, rows: CountRows, bound: int, threads: int) -> int:
    """How many tokens the counted text gives, special ones included, with the limits of the build file."""
    model = MODELS[config.learn.model]
    if not model.uses:  # it learns nothing
        return config.vocab_size
    options = LearnOptions(
        vocab_size=bound,
        num_special=len(config.special),
        min_count=config.learn.min_count,
        max_token_bytes=config.learn.max_token_bytes,
        threads=threads,
        end_of_word=config.end_of_word,
        layout=config.layout,
        character_coverage=config.learn.character_coverage,
        superset=config.learn.superset,
    )
    return len(model.learn(lambda: (rows.keys, rows.counts), options).tokens) + len(config.special)
