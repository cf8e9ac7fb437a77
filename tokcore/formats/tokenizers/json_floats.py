"""Numbers in JSON as tokenizers reads them: its parser rounds twice, so it may miss the nearest double."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,6}))?")
_MAX_DIGITS = 2**64  # it gathers digits in an integer of 64 bits
_MOST_POWER = 308  # of ten, by which it multiplies or divides


def parse_float(text: str) -> float:
    """The number that tokenizers reads. Raises ValueError for a text that is no number.

    >>> parse_float("-11.5"), float("-13.558939790995723"), parse_float("-13.558939790995723")
    (-11.5, -13.558939790995723, -13.558939790995725)
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.80} is no number")
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    digits = 0
    for i, digit in enumerate(whole):
        if digits * 10 + int(digit) >= _MAX_DIGITS:
            exponent += len(whole) - i  # it passes over the other digits
            break
        digits = digits * 10 + int(digit)
    for digit in fraction:
        if digits * 10 + int(digit) >= _MAX_DIGITS:
            break
        digits, exponent = digits * 10 + int(digit), exponent - 1
    if exponent > _MOST_POWER:
        return float(text)
    value = float(digits)
    while exponent < -_MOST_POWER and value:
        value, exponent = value / 1e308, exponent + _MOST_POWER
    value = value * float(f"1e{exponent}") if exponent >= 0 else value / float(f"1e{-exponent}")
    return -value if sign else value


def write_float(number: float) -> str:
    """A text that parse_float, and so tokenizers, reads as that number; the shortest text if none is found.

    >>> write_float(-11.5), write_float(-13.558939790995723)
    ('-11.5', '-13558939790995722e-15')
    """
    if parse_float(repr(number)) == number:
        return repr(number)
    # Rounding twice moves the number by a few units of its last digits: try texts that are as far off the other way.
    for places in (16, 17, 18):
        digits, _, power = f"{abs(number):.{places}e}".partition("e")
        near = int(digits.replace(".", ""))
        for step in range(-40, 41):
            text = f"{'-' if number < 0 else ''}{near + step}e{int(power) - places}"
            if parse_float(text) == number:
                return text
    return repr(number)
