"""What a build will take and give, estimated from a sample of its input. Each figure says how it came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tokcore.count.pretoken_rows import CountRows
from tokcore.models import MODELS, LearnOptions
from tokcore_pipelines.build.counted_samples import count_samples
from tokcore_pipelines.build.learn_need import find_learn_need
from tokcore_pipelines.build.samples import SourceSample
from tokcore_schemas.config import BuildConfig

_SAMPLE_BYTES = 1 << 24  # of text; more makes the check slow and the estimate hardly better
_WORKER_BYTES = 250_000_000  # of a worker beside its counts
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
    learn_bytes: int  # of memory, about; 0 if nothing is learned
    learn_most_bytes: int  # at most: where a corpus goes on as new as the sample is
    vocab_least: int  # size that the sample alone reaches, with special tokens; 0 if nothing is learned anew
    vocab_most: int  # tokens that a corpus would give that goes on as new as the sample is
    vocab_bound: int  # largest size that the sample alone can reach, with any weights of languages


def estimate(config: BuildConfig, samples: Sequence[SourceSample], workers: int) -> Estimate | None:
    """What a build will take and give; None if the sample holds no text."""
    told = count_samples(config, samples, _SAMPLE_BYTES)
    if told is None:
        return None
    langs = {lang for sample in samples for seen in sample.seen if seen.batch for lang in seen.batch.langs.by_label()}
    kept = told.rows.seen_in(config.learn.min_documents)
    least, most, bound = _estimate_vocabulary(config, kept, workers, told.growth)
    need = find_learn_need(config, told)
    rate = told.sample_bytes / max(told.seconds, 1e-6)
    return Estimate(
        sample_bytes=told.sample_bytes,
        is_whole=told.is_whole,
        text_bytes=round(told.text_bytes),
        counted_bytes=round(told.counted_bytes),
        documents=round(told.documents),
        languages=len(langs),
        pretokens=round(told.pretokens),
        distinct=told.rows.num_rows,
        # Counting, and encoding, which takes about as long.
        seconds=round(_START_SECONDS + 2 * told.text_bytes / (rate * max(1, workers))),
        bytes_per_second=round(rate),
        memory_bytes=workers * (_WORKER_BYTES + min(config.count.memory_bytes, round(told.table_bytes * told.growth))),
        learn_bytes=need.likely_bytes,
        learn_most_bytes=need.most_bytes,
        vocab_least=least,
        vocab_most=most,
        vocab_bound=bound,
    )


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
