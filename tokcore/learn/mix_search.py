"""A search for weights that reach stated targets: which mixes are tried, and in which order. No float, no chance.

Weights move by factors of 2**(1/4). A pattern search goes from the mix that it is given: along each direction it tries
more and less, stays where that is better, and halves its step where nothing is. What a mix is worth is asked of the
caller, who learns a tokenizer and measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tokcore.learn.language_weights import raise_to_power

_STEPS = (4, 2, 1)  # in quarters of a doubling
_DIGITS = 4  # of a weight


class Worth(NamedTuple):
    """What a mix is worth; the smaller, the better.

    broken: by which part of themselves floors are missed, added up. missed: the same of targets. tokens: of the
    measured text.
    """

    broken: Fraction
    missed: Fraction
    tokens: int


class Try(NamedTuple):
    """A mix that was tried."""

    weights: Mapping[str, Decimal]
    worth: Worth
    moved: str  # the direction, with its sign; empty of the first one
    is_better: bool  # than all before it


class Direction(NamedTuple):
    """Items whose weights move together."""

    name: str
    items: tuple[str, ...]


def search_weights(
    start: Mapping[str, Fraction],
    sizes: Mapping[str, int],
    list_directions: Callable[[int], Sequence[Direction]],
    measure: Callable[[Mapping[str, Decimal]], Worth],
    most_tries: int,
) -> list[Try]:
    """All that was tried, in order; the last one that is better is the best.

    start: item -> its factor. sizes: of items; factors are scaled so that all together keep their size.
    list_directions: is given the number of the best try so far, and asked before each round. measure: is asked once for
    each mix. Ends at most_tries, or where no step helps.

    >>> def measure(weights):
    ...     return Worth(Fraction(0), abs(Fraction(weights["sw"]) / Fraction(weights["en"]) - 3), 0)
    >>> factors, sizes = {"en": Fraction(1), "sw": Fraction(1)}, {"en": 2, "sw": 1}
    >>> tries = search_weights(factors, sizes, lambda best: [Direction("sw", ("sw",))], measure, 9)
    >>> [(one.moved, *map(str, one.weights.values())) for one in tries if one.is_better]
    [('', '1', '1'), ('sw +', '0.75', '1.5'), ('sw +', '0.6213', '1.757')]
    """
    whole = sum(sizes.values())

    def spell(levels: Mapping[str, int]) -> dict[str, Decimal]:
        factors = {item: factor * _raise_two(levels[item]) for item, factor in start.items()}
        scale = whole / sum((factors[item] * sizes[item] for item in factors), Fraction(0))
        return {item: round_weight(factor * scale) for item, factor in factors.items()}

    levels = dict.fromkeys(start, 0)
    tries = [_try(spell(levels), measure, "", None)]
    best = tries[0].worth
    seen = [tries[0].weights]
    for step in _STEPS:
        improved = True
        while improved:
            improved = False
            number = max(place for place, one in enumerate(tries) if one.is_better)
            for direction in list_directions(number):
                for sign in (1, -1):
                    while True:  # on, as long as it helps
                        moved = {item: at + sign * step * (item in direction.items) for item, at in levels.items()}
                        weights = spell(moved)
                        if weights in seen:
                            break
                        if len(tries) >= most_tries:
                            return tries
                        seen.append(weights)
                        tries.append(_try(weights, measure, f"{direction.name} {'+' if sign > 0 else '-'}", best))
                        if not tries[-1].is_better:
                            break
                        levels, best, improved = moved, tries[-1].worth, True
    return tries


def _try(
    weights: Mapping[str, Decimal],
    measure: Callable[[Mapping[str, Decimal]], Worth],
    moved: str,
    best: Worth | None,
) -> Try:
    worth = measure(weights)
    return Try(weights, worth, moved, best is None or worth < best)


def _raise_two(quarters: int) -> Fraction:
    """2**(quarters / 4), to 80 digits."""
    whole, rest = divmod(quarters, 4)
    doubled = Fraction(2) ** whole
    return doubled * raise_to_power(Fraction(2), Decimal(rest) / 4) if rest else doubled


def round_weight(factor: Fraction) -> Decimal:
    """A factor with four digits, so that a build file can have it.

    >>> round_weight(Fraction(2, 3)), round_weight(Fraction(123456)), round_weight(Fraction(1, 1))
    (Decimal('0.6667'), Decimal('123500'), Decimal('1'))
    """
    digits = len(str(int(factor))) if factor >= 1 else 0
    while factor * Fraction(10) ** -digits < Fraction(1, 10):
        digits -= 1
    rounded = round(factor * Fraction(10) ** (_DIGITS - digits))
    exact = Decimal(rounded).scaleb(digits - _DIGITS)
    return Decimal(format(exact.normalize(), "f"))


def miss_at_least(value: Fraction, goal: Fraction) -> Fraction:
    """By which part of the goal a value is too small; 0 if it is not.

    >>> miss_at_least(Fraction(3), Fraction(4)), miss_at_least(Fraction(5), Fraction(4))
    (Fraction(1, 4), Fraction(0, 1))
    """
    return max(Fraction(0), (goal - value) / goal)


def miss_at_most(value: Fraction, goal: Fraction) -> Fraction:
    """By which part of the goal a value is too large; 0 if it is not."""
    return max(Fraction(0), (value - goal) / goal)


def find_exact_quantile(values: Sequence[Fraction], share: Fraction) -> Fraction:
    """The quantile of values, between two of them by their distance.

    >>> find_exact_quantile([Fraction(2), Fraction(5)], Fraction(9, 10))
    Fraction(47, 10)
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
