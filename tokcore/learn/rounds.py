"""BPE learning when the words do not fit in memory: in rounds, each of which reads all of them twice.

A round finds all merges whose counts reach a floor, from what is left of the words when they are cut at rarer pairs
(tokcore.kernel.FloorRound says why that is exact). The floor is as low as the memory allows; then comes the next round,
with a lower one. So the merges, and their counts, are those of tokcore.learn.merges. Leaves to others: where words lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.errors import LearnError

LEAST_BYTES = 1 << 20
# Of memory for each piece: a place in the table while pieces are cut again, so twice, or what learning from it takes;
# with a quarter of all memory for bounds. Reckoned from the sizes of what is kept.
_PIECE_BYTES = 176
_PIECE_SYMBOLS = 6  # more are seldom left of a word; where they are, there is room for fewer pieces
_NO_FLOOR = 2**64


class Round(NamedTuple):
    """What a round gave, for those who watch."""

    number: int  # from 1
    num_merges: int  # so far
    floor: int  # all merges with at least this count are found
    num_pieces: int  # that were left of the words


class RoundSizes(NamedTuple):
    """How much a round keeps in memory."""

    bound_bits: int
    max_pieces: int
    max_symbols: int


def divide_memory(memory_bytes: int) -> RoundSizes:
    """What fits in that many bytes, learning from the pieces included.

    >>> divide_memory(1 << 30)
    RoundSizes(bound_bits=25, max_pieces=6100805, max_symbols=36604830)
    """
    pieces = min(max(memory_bytes, LEAST_BYTES) // _PIECE_BYTES, 2**32 - 2)
    return RoundSizes(int(math.log2(max(memory_bytes, LEAST_BYTES) // 32)), pieces, pieces * _PIECE_SYMBOLS)


def learn_in_rounds(
    read: Callable[[], Iterator[CountRows]],
    sizes: RoundSizes,
    num_merges: int,
    min_count: int = 2,
    max_token_bytes: int = 0,
    threads: int = 1,
    ends_words: bool = False,
    merges_done: npt.NDArray[np.int64] | None = None,
    on_round: Callable[[Round], None] = lambda told: None,
) -> tuple[kernel.Ids, kernel.Ids, Counts]:
    """(left, right, count) of up to num_merges merges, as kernel.learn_merges gives them from all rows at once.

    read: gives the rows, each time the same ones. ends_words: the last byte of a pre-token is another symbol, as in
    tokcore.models.word_ends. on_round: hears of each round when it is over.
    Raises LearnError if counts are too large to add up, or sizes too small to find any merge.
    """
    left, right = np.zeros(0, np.int32), np.zeros(0, np.int32)
    counts = np.zeros(0, np.uint64)
    least, known = max(1, min_count), _NO_FLOOR  # no pair is left whose count reaches what is known
    number = 0
    while len(left) < num_merges and known > least:
        number += 1
        one = kernel.FloorRound(left, right, ends_words, max_token_bytes, threads, *sizes)
        try:
            for rows in read():
                one.add_counts(rows.keys, rows.counts)
        except OverflowError as error:
            raise LearnError(
                f"the counts of the table are too large: {error}. Divide them by a common factor."
            ) from error
        one.begin_pieces(max(least, _guess_floor(one.highest_bound, counts, num_merges, known)))
        for rows in read():
            one.add_pieces(rows.keys, rows.counts)
        floor, num_pieces = one.floor, one.num_pieces
        found = one.learn(num_merges - len(left), threads)
        if not len(found[0]) and floor >= known:
            raise LearnError(
                "the memory is too small to learn in: what is left of the pre-tokens around their most frequent pairs "
                "does not fit."
            )
        left, right = np.concatenate([left, found[0]]), np.concatenate([right, found[1]])
        counts = np.concatenate([counts, found[2]])
        known = floor
        if merges_done is not None:
            merges_done[0] = len(left)
        on_round(Round(number, len(left), floor, num_pieces))
    return left, right, counts


def _guess_floor(highest: int, counts: Counts, num_merges: int, known: int) -> int:
    """Where a round begins: at somewhat less than the last merge's count, by guess, but below what is known.

    Counts fall by about the same factor whenever the rank doubles, as the kernel's learner has it.
    """
    if len(counts) < 2:
        return min(highest >> 10, known - 1)
    rank = len(counts)
    factor = min(0.4, float(counts[-1]) / float(counts[(rank - 1) // 2]))
    guess = int(0.7 * float(counts[-1]) * factor ** math.log2(num_merges / rank))
    return min(guess, known // 4)
