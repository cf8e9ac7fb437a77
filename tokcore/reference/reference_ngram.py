"""The n-gram model in plain Python: slow, obvious, and the oracle of the tests.

docs/reference/prediction.md defines it.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tokcore.reference.arrays import Ids
from tokcore.text.texts import Offsets

_START = -1  # stands before each document


def estimate_discounts(counts: Counter[tuple[int, ...]]) -> list[float]:
    """What is taken from a count of 0, 1, 2, and 3 or more."""
    n = [0, *(sum(count == one for count in counts.values()) for one in (1, 2, 3, 4))]
    if min(n[1:]) > 0:
        y = n[1] / (n[1] + 2 * n[2])
        discounts = [0.0, *(i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3))]
        if all(0 < discounts[i] <= i for i in (1, 2, 3)):
            return discounts
    return [0.0, 0.5, 1.0, 1.5]


class KneserNey:
    """Interpolated modified Kneser-Ney over the tokens of documents.

    >>> model = KneserNey([[7, 8], [7, 9]], order=2, num_tokens=10)
    >>> [round(model.find_probability((7,), token), 4) for token in (8, 9, 5)]
    [0.3583, 0.3583, 0.025]
    """

    def __init__(self, documents: list[list[int]], order: int, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        marked = [[_START, *document] for document in documents]
        self.seen = {
            n: Counter(tuple(one[i - n + 1 : i + 1]) for one in marked for i in range(max(n - 1, 1), len(one)))
            for n in range(1, order + 1)
        }
        self.kinds = {n: Counter(gram[1:] for gram in self.seen[n + 1]) for n in range(1, order)}

    def find_probability(self, context: tuple[int, ...], token: int, is_highest: bool = True) -> float:
        """Of a token after a context of fewer than `order` tokens."""
        lower = self.find_probability(context[1:], token, False) if context else 1 / self.num_tokens
        counts = (self.seen if is_highest else self.kinds)[len(context) + 1]
        after = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == context}
        if not after:
            return lower
        discounts = estimate_discounts(counts)
        kept = after.get(token, 0) - discounts[min(after.get(token, 0), 3)]
        return (kept + sum(discounts[min(count, 3)] for count in after.values()) * lower) / sum(after.values())


def predict_by_ngrams(
    ids: Ids, offsets: Offsets, num_learned: int, lengths: Ids, order: int, context_bytes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    """As tokcore.kernel.predict_by_ngrams."""
    documents = [ids[start:end].tolist() for start, end in pairwise(offsets.tolist())]
    model = KneserNey(documents[:num_learned], order, len(lengths))
    bits, contexts = [], []
    for document in documents[num_learned:]:
        marked, sizes = [_START, *document], [0, *lengths[document].tolist()]
        starts = [
            min(i for i in range(end + 1) if end - i < order and sum(sizes[i:end]) <= context_bytes)
            for end in range(1, len(marked))
        ]
        spans = [*enumerate(starts, 1)]
        bits.append(-sum(math.log2(model.find_probability(tuple(marked[i:end]), marked[end])) for end, i in spans))
        contexts.append(sum(sum(sizes[i:end]) for end, i in spans))
    return np.array(bits, np.float64), np.array(contexts, np.uint64)
