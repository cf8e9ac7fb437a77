"""How much memory learning will need, told from a sample before any work, and what becomes of it if it does not fit.

The number of distinct pre-tokens grows with the text by a power of it (Heaps' law). The share of the sample's that it
has once is about that power: on our texts the estimate was 0.4 to 1.3 of the truth, up to 440 times the sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokcore.count.pretoken_rows import Counts
from tokcore.models import MODELS
from tokcore_pipelines.build.counted_samples import CountedSamples, count_samples
from tokcore_pipelines.build.samples import Finding, SourceSample
from tokcore_pipelines.local.memory import Available
from tokcore_pipelines.local.terminal import format_size
from tokcore_pipelines.work.learn_from_disk import ROUNDS_BYTES, can_learn_from_disk
from tokcore_pipelines.work.learn_memory import NOT_IN_ROUNDS, find_learn_memory, find_row_bytes
from tokcore_schemas.config import BuildConfig

_SAMPLE_BYTES = 1 << 21  # of text, before a build
_STORED_BYTE_NEEDS = 500  # bytes of memory, at most, about: a text of many short and new pre-tokens, well compressed
_MARGIN = 2  # times as much as the estimate may be needed


class LearnNeed(NamedTuple):
    """Of memory; zeros if nothing is learned."""

    likely_bytes: int
    most_bytes: int  # where a corpus goes on as new as the sample is


def estimate_rows(counts: Counts, growth: float) -> int:
    """Distinct pre-tokens of growth times as much text as has these counts of them.

    >>> estimate_rows(np.array([1, 1, 2, 5], np.uint64), 100.0)
    40
    """
    once = np.count_nonzero(counts == 1) / max(1, len(counts))
    return round(len(counts) * growth**once)


def find_learn_need(config: BuildConfig, told: CountedSamples) -> LearnNeed:
    """What learning from all files needs, in memory."""
    if not _learns(config):
        return LearnNeed(0, 0)
    rows = told.rows
    row_bytes = find_row_bytes(config, rows.num_rows, rows.keys.size_bytes)
    likely, most = estimate_rows(rows.counts, told.growth), round(rows.num_rows * told.growth)
    return LearnNeed(row_bytes * likely, row_bytes * most)


def check_learn_need(config: BuildConfig, need: LearnNeed, is_local: bool = True) -> Iterator[Finding]:
    """That learning may not fit in memory, and what becomes of it then."""
    available = _find_available(config, is_local)
    likely, most = need.likely_bytes, min(need.most_bytes, _MARGIN * need.likely_bytes)
    if available is None or most <= available.size_bytes:
        return
    needs = "needs about" if likely > available.size_bytes else "may need up to"
    then = "In rounds it does with that: the same merges, in several times as long"
    if not can_learn_from_disk(config):
        then = f"Where it does not fit it is refused: {NOT_IN_ROUNDS}"
    elif available.size_bytes < ROUNDS_BYTES:
        then = f"Where it does not fit it is refused: learning in rounds takes {format_size(ROUNDS_BYTES)}"
    text = (
        f"learning {needs} {format_size(likely if likely > available.size_bytes else most)} of memory, and "
        f"{available.limit} leaves {format_size(available.size_bytes)}. {then}"
    )
    yield Finding(config.at("learn"), text, stops=False)


def may_lack_memory(config: BuildConfig, stored_bytes: int, is_local: bool) -> bool:
    """Whether there is so much text for the memory that it is worth a look what learning needs."""
    available = _find_available(config, is_local) if _learns(config) else None
    return available is not None and _STORED_BYTE_NEEDS * stored_bytes > available.size_bytes


def check_samples_need(config: BuildConfig, samples: Sequence[SourceSample], is_local: bool) -> Iterator[Finding]:
    """As check_learn_need, from samples."""
    if (told := count_samples(config, samples, _SAMPLE_BYTES)) is not None:
        yield from check_learn_need(config, find_learn_need(config, told), is_local)


def _learns(config: BuildConfig) -> bool:
    """Whether a model is learned from pre-tokens."""
    return config.tokenizer is None and (
        config.extended is not None or "min_documents" in MODELS[config.learn.model].uses
    )


def _find_available(config: BuildConfig, is_local: bool) -> Available | None:
    """What learning may take; of an engine's workers only the build file tells."""
    if is_local:
        return find_learn_memory(config)
    limit = config.learn.memory_bytes
    return None if limit is None else Available(limit, f"learn.memory_bytes = {limit}")
