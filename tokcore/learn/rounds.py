"""BPE learning when the words do not fit in memory: in rounds, each of which reads all of them twice.

A round finds all merges down to a limit, from what is left of the words when they are cut at pairs below it
(tokcore.kernel.FloorRound says why that is exact). The limit is as low as the memory allows; then comes the next round,
with a lower one. It is a count; and where very many pairs have the same, a place in their order. So the merges, and
their counts, are those of tokcore.learn.merges. Several processes may share a round: each has some of the words. Leaves
to others: where words lie, and who does what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
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
_NO_LIMIT = kernel.PairLimit(2**64)


class TooLittleRoomError(LearnError):
    """A round has room for not even one merge."""


class Round(NamedTuple):
    """What a round gave, for those who watch."""

    number: int  # from 1
    num_merges: int  # so far
    floor: int  # all merges with a higher count are found
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


class MergesSoFar(NamedTuple):
    """What rounds have found. Begin with the defaults."""

    left: kernel.Ids = np.zeros(0, np.int32)
    right: kernel.Ids = np.zeros(0, np.int32)
    counts: Counts = np.zeros(0, np.uint64)
    known: kernel.PairLimit = _NO_LIMIT  # no pair is left that it admits

    def is_over(self, num_merges: int, min_count: int) -> bool:
        """Whether there are that many merges, or no more."""
        return len(self.left) >= num_merges or not kernel.PairLimit(max(1, min_count)).is_below(self.known)

    def begin_round(
        self, sizes: RoundSizes, max_token_bytes: int = 0, threads: int = 1, ends_words: bool = False
    ) -> kernel.FloorRound:
        """A round that goes on from here."""
        return kernel.FloorRound(self.left, self.right, ends_words, max_token_bytes, threads, *sizes)

    def guess_floor(self, highest: int, num_merges: int, min_count: int) -> int:
        """Where the pieces of the next round begin: below what is known, and at min_count at least.

        highest: of its bounds. By guess, somewhat less than the last merge's count: counts fall by about the same
        factor whenever the rank doubles, as the kernel's learner has it.
        """
        if len(self.counts) < 2:
            guess = min(highest >> 10, self.known.floor - 1)
        else:
            rank = len(self.counts)
            factor = min(0.4, float(self.counts[-1]) / float(self.counts[(rank - 1) // 2]))
            guess = int(0.7 * float(self.counts[-1]) * factor ** math.log2(num_merges / rank))
            guess = min(guess, self.known.floor // 4)
        return max(1, min_count, guess)

    def learn(self, one: kernel.FloorRound, num_merges: int, threads: int = 1) -> MergesSoFar:
        """These and the merges of a round that has all pieces. Raises TooLittleRoomError if it has room for none."""
        limit = one.limit
        found = one.learn(num_merges - len(self.left), threads)
        if not len(found[0]) and not limit.is_below(self.known):
            raise TooLittleRoomError(
                "the memory is too small to learn in: what is left of the pre-tokens around their most frequent pairs "
                "does not fit."
            )
        left, right = np.concatenate([self.left, found[0]]), np.concatenate([self.right, found[1]])
        return MergesSoFar(left, right, np.concatenate([self.counts, found[2]]), limit)


def find_highest(limits: Iterable[kernel.PairLimit]) -> kernel.PairLimit:
    """That of a round that has the pieces of several rounds, from theirs.

    >>> find_highest([kernel.PairLimit(7), kernel.PairLimit(7, 260), kernel.PairLimit(5, 3)])
    PairLimit(floor=7, last=260)
    """
    return max(limits, key=lambda limit: (limit.floor, -limit.last))


def show_rows(one: kernel.FloorRound, rows: Iterator[CountRows]) -> None:
    """Show a round all its rows for the first time. Raises LearnError if their counts are too large to add up."""
    try:
        for some in rows:
            one.add_counts(some.keys, some.counts)
    except OverflowError as error:
        raise LearnError(f"the counts of the table are too large: {error}. Divide them by a common factor.") from error


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
) -> MergesSoFar:
    """Up to num_merges merges, as kernel.learn_merges gives them from all rows at once.

    read: gives the rows, each time the same ones. ends_words: the last byte of a pre-token is another symbol, as in
    tokcore.models.word_ends. on_round: hears of each round when it is over.
    Raises LearnError if counts are too large to add up, or sizes too small to find any merge.
    """
    so_far, number = MergesSoFar(), 0
    while not so_far.is_over(num_merges, min_count):
        number += 1
        one = so_far.begin_round(sizes, max_token_bytes, threads, ends_words)
        show_rows(one, read())
        one.begin_pieces(so_far.guess_floor(one.highest_bound, num_merges, min_count))
        for rows in read():
            one.add_pieces(rows.keys, rows.counts)
        num_pieces = one.num_pieces
        so_far = so_far.learn(one, num_merges, threads)
        if merges_done is not None:
            merges_done[0] = len(so_far.left)
        on_round(Round(number, len(so_far.left), so_far.known.floor, num_pieces))
    return so_far
