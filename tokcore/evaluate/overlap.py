"""What two languages share of a vocabulary: their ids, and how alike they use them."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.evaluate.spread import DIGITS

LEAST_TOKENS = 1000  # of a language that is compared


class IdCounts(NamedTuple):
    """The ids that occur, ascending, and how often: int64 both."""

    ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class Overlap(NamedTuple):
    """divergence: Jensen-Shannon, in bits: 0 if ids are used alike, 1 if none is shared. shared: of all ids of both."""

    divergence: float
    shared: float


def compare(one: IdCounts, other: IdCounts) -> Overlap:
    """The overlap of two languages. Each has at least one token.

    >>> compare(IdCounts(np.array([1, 2]), np.array([3, 3])), IdCounts(np.array([2]), np.array([5])))
    Overlap(divergence=0.311278, shared=0.5)
    """
    _, left, right = np.intersect1d(one.ids, other.ids, assume_unique=True, return_indices=True)
    p, q = one.counts / one.counts.sum(), other.counts / other.counts.sum()
    # An id of one language alone adds its share; one of both less.
    both = p[left] + q[right]
    common = float((p[left] * np.log2(2 * p[left] / both) + q[right] * np.log2(2 * q[right] / both)).sum())
    alone = 2.0 - float(both.sum())
    shared = len(left) / (len(one.ids) + len(other.ids) - len(left))
    return Overlap(round(max(common + alone, 0.0) / 2, DIGITS), round(shared, DIGITS))


def measure_overlap(languages: Mapping[str, IdCounts]) -> dict[str, Any]:
    """The mean over all pairs of languages with at least 1,000 tokens, and of each its nearest; None of fewer than two.

    nearest: language -> (the one it diverges least from, by how much).
    """
    large = {lang: of for lang, of in languages.items() if int(of.counts.sum()) >= LEAST_TOKENS}
    if len(large) < 2:
        return {"divergence": None, "shared_ids": None, "nearest": {}}
    found = {(a, b): compare(large[a], large[b]) for a, b in itertools.combinations(sorted(large), 2)}
    nearest = {
        lang: min((one.divergence, other) for pair, one in found.items() if lang in pair for other in {*pair} - {lang})
        for lang in sorted(large)
    }
    return {
        "divergence": round(statistics.fmean(one.divergence for one in found.values()), DIGITS),
        "shared_ids": round(statistics.fmean(one.shared for one in found.values()), DIGITS),
        "nearest": {lang: [other, divergence] for lang, (divergence, other) in nearest.items()},
    }
