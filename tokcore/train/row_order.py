"""The order in which a loader gives rows: a shuffle that is a function of a seed, and mixtures in integers.

Nothing is sorted or stored: where a position leads is computed from the position alone, for trillions of rows as for
ten.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError
from tokcore.formats.partition_names import list_keys

Rows = npt.NDArray[np.int64]

# Rows of one pattern of a mixture, the sum of its weights after their greatest common divisor is taken out.
MOST_WEIGHT = 1 << 16
_MOST_NAMED = 20  # in a message

_PREFIX = b"tokcore-row-order-v1\0"
_ROUNDS = 8
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64


class Permutation:
    """A bijection of 0, ..., size - 1 that a seed, an epoch and the number of a stream decide.

    A Feistel network over the smallest power of two that is at least size, 4 or more. A number is cut into its low
    bits (half of them, rounded down) and its high bits. Eight times one part is changed by exclusive or with a hash of
    the other, the high part first. What leads outside goes through the network again until it is inside. The hash is
    that of splitmix64, over the part plus a key: the sha256 of `tokcore-row-order-v1`, a zero byte, the seed in
    decimal digits, a zero byte, epoch, stream and size (uint64, little-endian) is four keys of 64 bits; round i uses
    key i mod 4, plus i.

    >>> order = Permutation(5, seed=7, epoch=0, stream=0)
    >>> sorted(order(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, seed: int, epoch: int, stream: int) -> None:
        self.size = size
        bits = max(2, (size - 1).bit_length())
        self._low_bits = np.uint64(bits // 2)
        self._low = np.uint64((1 << (bits // 2)) - 1)
        self._high = np.uint64((1 << (bits - bits // 2)) - 1)
        told = _PREFIX + str(seed).encode() + b"\0" + struct.pack("<QQQ", epoch, stream, size)
        words = struct.unpack("<4Q", hashlib.sha256(told).digest())
        self._keys = [np.uint64((words[i % 4] + i) % 2**64) for i in range(_ROUNDS)]

    def __call__(self, positions: Rows) -> Rows:
        """Where each position leads. positions: int64, each from 0 to size - 1."""
        rows = self._mix(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(rows >= self.size)):
            rows[outside] = self._mix(rows[outside])
        return rows.astype(np.int64)

    def _mix(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        low, high = values & self._low, values >> self._low_bits
        for i, key in enumerate(self._keys):
            if i % 2:
                low = low ^ (_hash(high + key) & self._low)
            else:
                high = high ^ (_hash(low + key) & self._high)
        mixed: npt.NDArray[np.uint64] = (high << self._low_bits) | low
        return mixed


def _hash(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MULTIPLIERS[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MULTIPLIERS[1])
    return values ^ (values >> np.uint64(31))


def spread(weights: Sequence[int]) -> list[int]:
    """The number of a stream for each place of a pattern: stream i occurs weights[i] times, as evenly as can be.

    Occurrence j of a stream with weight w belongs at (2j + 1) / 2w of the pattern; equal places go by number.

    >>> spread([3, 1])
    [0, 0, 1, 0]
    """
    common = math.lcm(*weights)
    places = [((2 * j + 1) * (common // weight), i) for i, weight in enumerate(weights) for j in range(weight)]
    return [i for _, i in sorted(places)]


class RowOrder:
    """Which row of which stream is at each position of an epoch.

    Without weights the streams follow each other; with shuffle, all rows of all streams are permuted. With weights,
    the pattern of spread() repeats. Each stream gives its rows in its own permuted order, again and again, and goes on
    in the next epoch where it was: every row of it comes up once before any comes twice.
    """

    def __init__(
        self, sizes: Sequence[int], seed: int, epoch: int, shuffle: bool, weights: Sequence[int] | None = None
    ) -> None:
        """sizes: rows of each stream. weights: of each stream, positive."""
        self.num_rows = sum(sizes)
        self._sizes = sizes
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(sizes, np.int64))])
        self._seed, self._shuffle = seed, shuffle
        self._weights = None
        self._epoch = epoch
        if weights is None:
            self._whole = self._make(self.num_rows, epoch, 0) if self.num_rows else None
            return
        common = math.gcd(*weights)
        self._weights = [weight // common for weight in weights]
        if sum(self._weights) > MOST_WEIGHT:
            raise ConfigError(
                f"mixture: its weights sum up to {sum(self._weights)} without their common divisor, "
                f"more than {MOST_WEIGHT}: round them"
            )
        pattern = np.array(spread(self._weights))
        self._pattern = pattern
        # How many rows of its stream are before each place of the pattern.
        self._before = np.zeros(len(pattern), np.int64)
        for i in range(len(sizes)):
            where = np.flatnonzero(pattern == i)
            self._before[where] = np.arange(len(where))
        self._passes: dict[tuple[int, int], Permutation | None] = {}

    def __call__(self, positions: Rows) -> tuple[Rows, Rows]:
        """(stream, row of the stream) at each position. positions: int64, below num_rows."""
        if self._weights is None:
            rows = positions if self._whole is None else self._whole(positions)
            streams = np.searchsorted(self._starts, rows, side="right") - 1
            return streams, rows - self._starts[streams]
        # Positions go on over epochs, too, so that a stream goes on where it was.
        total = positions + self._epoch * self.num_rows
        places = total % len(self._pattern)
        streams = self._pattern[places]
        taken = total // len(self._pattern) * np.array(self._weights)[streams] + self._before[places]
        sizes = np.array(self._sizes, np.int64)[streams]
        rows = taken % sizes
        for stream, number in np.unique(np.stack([streams, taken // sizes]), axis=1).T.tolist():
            where = np.flatnonzero((streams == stream) & (taken // sizes == number))
            if (order := self._find_pass(stream, number)) is not None:
                rows[where] = order(rows[where])
        return streams, rows

    def _make(self, size: int, number: int, stream: int) -> Permutation | None:
        return Permutation(size, self._seed, number, stream) if self._shuffle else None

    def _find_pass(self, stream: int, number: int) -> Permutation | None:
        key = (stream, number)
        if key not in self._passes:
            if len(self._passes) > 4 * len(self._sizes):
                self._passes.clear()
            self._passes[key] = self._make(self._sizes[stream], number, stream + 1)
        return self._passes[key]


def find_keys(mixture: Mapping[str, int]) -> list[str]:
    """The keys of the partitions that a mixture names; none if it names languages.

    Raises ConfigError if one has other keys than another: a row would be of both.

    >>> find_keys({"topic=code": 3, "topic=web": 1}), find_keys({"en": 1})
    (['topic'], [])
    """
    first = next(iter(mixture), "")
    for name in mixture:
        if list_keys(name) != list_keys(first):
            raise ConfigError(f"mixture: {name!r} and {first!r} have different keys: name the same keys in each")
    return list_keys(first)


def check_weights(mixture: Mapping[str, int], found: Sequence[str]) -> None:
    """Raise ConfigError unless each weight is a positive integer, of a stream that is there."""
    if not mixture:
        raise ConfigError("mixture: names no language or partition")
    for name, weight in mixture.items():
        if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
            raise ConfigError(f"mixture: {name} = {weight!r}: expected a positive integer")
        if name not in found:
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            named = ", ".join(map(repr, found[:_MOST_NAMED])) or "none"
            raise ConfigError(
                f"mixture: no shards of {name!r}: there are {named}{more}. "
                f'They are found by the folder of their language or partition: build with [shards] by = "lang" or '
                f"partition_by"
            )
