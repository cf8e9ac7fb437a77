"""How numbers are cut: in threes from the left, in threes from the right, or digit by digit. Numbers are drawn by hash.

Models reckon better with digits that are grouped from the right (Singh and Strouse, 2024).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tokcore.evaluate.spread import DIGITS
from tokcore.evaluate.token_starts import find_token_starts
from tokcore.tokenizer.tokenizer import Tokenizer

NUMBERS_OF_A_LENGTH = 100
LENGTHS = (4, 5, 7, 8, 10, 11)  # those of which threes from the left and from the right differ


def draw_number(digits: int, which: int) -> str:
    """A number of that many digits, drawn by a hash; its first digit is not 0.

    >>> [draw_number(5, which) for which in range(3)]
    ['50870', '57284', '24427']
    """
    drawn = int.from_bytes(hashlib.sha256(f"tokcore-probe-number {digits} {which}".encode()).digest())
    return str(10 ** (digits - 1) + drawn % (9 * 10 ** (digits - 1)))


def measure_digits(tokenizer: Tokenizer) -> dict[str, Any]:
    """The shares of drawn numbers that are cut in each way; None where tokens do not spell the number.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> measure_digits(Tokenizer.load("out/first"))  # it has learned no numbers
    {'digits_left': 0.0, 'digits_right': 0.0, 'digits_single': 1.0}
    """
    numbers = [draw_number(digits, which) for digits in LENGTHS for which in range(NUMBERS_OF_A_LENGTH)]
    encoded = tokenizer.encode_strings(numbers)
    starts = find_token_starts(tokenizer, [number.encode() for number in numbers], encoded)
    if not starts.known.all():
        return dict.fromkeys(_WAYS)
    counted = dict.fromkeys(_WAYS, 0)
    begins = np.diff(starts.before) > 0
    base = 0
    for number in numbers:
        size = len(number)
        cuts = {place for place in range(1, size) if begins[base + place]}
        for name, find in _WAYS.items():
            counted[name] += cuts == find(size)
        base += size
    return {name: round(times / len(numbers), DIGITS) for name, times in counted.items()}


# Where numbers of a length are cut, each way.
_WAYS: dict[str, Callable[[int], set[int]]] = {
    "digits_left": lambda size: {*range(3, size, 3)},
    "digits_right": lambda size: {size - place for place in range(3, size, 3)},
    "digits_single": lambda size: {*range(1, size)},
}
