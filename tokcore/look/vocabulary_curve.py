"""The vocabulary curve: how many tokens texts have at every size of a vocabulary, from one learned BPE.

Merges are learned one after the other, and encoding merges in the same order. So the ids of a text under the first
merges alone follow from its ids under all of them: each token of a later merge falls into its two parts.
Leaves to others: which texts (pipelines), learning (merges).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore.kernel import Ids

Numbers = npt.NDArray[np.int64]


def count_parts(merges: Ids, size: int) -> Numbers:
    """How many tokens of a smaller vocabulary each token falls into, int64 [256 + len(merges)].

    merges: int32 [m, 2], pairs of ids, merge i makes 256 + i. size: of that vocabulary, 256 + the merges that it keeps.

    >>> count_parts(np.array([[0, 1], [256, 256], [257, 0]], np.int32), 257)[256:].tolist()
    [1, 2, 3]
    """
    parts = [1] * size
    for left, right in merges[size - 256 :].tolist():
        parts.append(parts[left] + parts[right])
    return np.array(parts[: 256 + len(merges)], np.int64)


def count_tokens_by_size(merges: Ids, num_by_id: npt.NDArray[np.uint64], sizes: Sequence[int]) -> list[int]:
    """How many tokens the texts have with a vocabulary of each size.

    num_by_id: uint64 [256 + len(merges)], how often each id occurs under all merges. sizes: 256 to 256 + len(merges).
    Exact for any counts. Raises ValueError for another size.

    >>> count_tokens_by_size(np.array([[0, 1], [256, 256]], np.int32), np.array([0] * 257 + [5], np.uint64), [256, 258])
    [20, 5]
    """
    most = 256 + len(merges)
    if wrong := [size for size in sizes if not 256 <= size <= most]:
        raise ValueError(f"size {wrong[0]}: expected 256 to {most}")
    found = np.flatnonzero(num_by_id)
    counts = num_by_id[found].tolist()
    return [
        sum(count * num for count, num in zip(counts, count_parts(merges, size)[found].tolist(), strict=True))
        for size in sizes
    ]
