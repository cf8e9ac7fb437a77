"""Shares by level: languages first, then the sources of each language, and so on. Exact: integers and fractions.

What is shared out are cells, such as the text of one language in one source. A cell has a path: what it is at each
level. The whole is dealt to the items of the first level, what each of these gets to its items of the second level, and
so on. Below the last level, cells keep their proportions. Leaves to others: what cells are, and what becomes of shares
(language_weights for counts, tokcore.train.document_shares for documents).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.learn.language_weights import Mix, Temperature, raise_to_power, scale_to_fixed_point

Path = tuple[str, ...]  # what a cell is, at each level


class Level(NamedTuple):
    """How what an item has is shared among the items below it.

    name: for messages, as in `mix.levels.source`. One of three things decides, and without any, sizes alone do:
      alpha    in proportion to size**alpha; 0: equal
      weights  in proportion to weights[item] * size; 1 if not named
      shares   the named ones get that share; the others share the rest in proportion to their sizes. Where there are no
               others, shares are scaled so that they add up to 1.
    max_epochs: no item gets more than its size times this, or than all below it can take; the others get what is left.
    factors: item's path -> what its target is multiplied with, with alpha.
    """

    name: str
    alpha: Decimal | None = None
    weights: Mapping[str, Decimal] | None = None
    shares: Mapping[str, Decimal] | None = None
    max_epochs: Decimal | None = None
    factors: Mapping[Path, Fraction] | None = None


def add_up_paths(sizes: Mapping[Path, int]) -> dict[Path, int]:
    """The size of each beginning of a path, the empty one included.

    >>> add_up_paths({("en", "web"): 3, ("en", "wiki"): 1})
    {(): 4, ('en',): 4, ('en', 'web'): 3, ('en', 'wiki'): 1}
    """
    found: dict[Path, int] = {}
    for path, size in sizes.items():
        for end in range(len(path) + 1):
            found[path[:end]] = found.get(path[:end], 0) + size
    return found


def share_by_levels(sizes: Mapping[Path, int], levels: Sequence[Level], budget: Fraction) -> dict[Path, Fraction]:
    """What each path gets of the budget.

    sizes: path, with an item for each level -> its size, all positive. Raises ConfigError, naming the level, for a
    budget that cannot be reached, and where shares leave nothing for what they do not name.

    >>> sizes = {("en", "web"): 60, ("en", "wiki"): 20, ("sw", "web"): 20}
    >>> levels = [Level("lang", alpha=Decimal(0)), Level("source", weights={"wiki": Decimal(3)})]
    >>> {path: str(got) for path, got in share_by_levels(sizes, levels, Fraction(100)).items()}
    {('en', 'web'): '25', ('en', 'wiki'): '25', ('sw', 'web'): '50'}
    """
    sums, below = add_up_paths(sizes), dict[Path, list[Path]]()
    for path in sorted(sums, key=lambda one: (len(one), one)):
        if path:
            below.setdefault(path[:-1], []).append(path)
    targets = _find_all_targets(sums, below, levels)
    caps = _find_caps(sums, below, levels, targets)
    if caps is not None and caps[()] < budget:
        capped = next(level.name for level in levels if level.max_epochs is not None)
        raise ConfigError(
            f"{capped}.max_epochs: all text with at most that many repetitions is {math.floor(caps[()])}, and "
            f"{math.floor(budget)} is to be reached: raise it"
        )
    got: dict[Path, Fraction] = {(): budget}
    for above, items in below.items():  # shorter paths come first
        got |= fill({path: targets[path] for path in items}, caps, got[above])
    return {path: got[path] for path in sizes}


def fill(
    targets: Mapping[Path, Fraction], caps: Mapping[Path, Fraction] | None, budget: Fraction
) -> dict[Path, Fraction]:
    """The budget in proportion to the targets, but none more than its cap; what has no place is left.

    >>> got = fill({("a",): Fraction(1), ("b",): Fraction(1)}, {("a",): Fraction(2), ("b",): Fraction(9)}, Fraction(8))
    >>> got == {("a",): 2, ("b",): 6}
    True
    """
    shares = dict.fromkeys(targets, Fraction(0))
    remaining, of_others = budget, sum(targets.values(), Fraction(0))
    there = [path for path, target in targets.items() if target]
    if caps is not None:
        there.sort(key=lambda one: (caps[one] / targets[one], one))  # those that are full first, first
    for path in there:
        part = remaining * targets[path] / of_others
        shares[path] = part if caps is None else min(caps[path], part)
        remaining -= shares[path]
        of_others -= targets[path]
    return shares


def _find_all_targets(
    sums: Mapping[Path, int], below: Mapping[Path, Sequence[Path]], levels: Sequence[Level]
) -> dict[Path, Fraction]:
    """What each item is to get in proportion to those beside it; nothing where nothing below it is to get any."""
    targets: dict[Path, Fraction] = {}
    for above in sorted(below, key=len, reverse=True):
        targets |= _find_targets(levels[len(above)], {path: sums[path] for path in below[above]})
        for path in below[above]:
            if path in below and not any(targets[one] for one in below[path]):
                targets[path] = Fraction(0)
    if not any(targets[path] for path in below[()]):
        raise ConfigError(f"{levels[0].name}: all weights are 0: nothing would be left")
    return targets


def _find_caps(
    sums: Mapping[Path, int],
    below: Mapping[Path, Sequence[Path]],
    levels: Sequence[Level],
    targets: Mapping[Path, Fraction],
) -> dict[Path, Fraction] | None:
    """The most that each beginning of a path can get; None if there is no limit at all."""
    if all(level.max_epochs is None for level in levels):
        return None
    # What has no limit of its own nor below it could take everything: more than any budget that is asked for.
    endless = Fraction(1 << 128)
    caps: dict[Path, Fraction] = {}
    for path in sorted(sums, key=len, reverse=True):
        inside = sum((caps[one] for one in below[path] if targets[one]), Fraction(0)) if path in below else endless
        epochs = levels[len(path) - 1].max_epochs if path else None
        caps[path] = min(inside, Fraction(epochs) * sums[path] if epochs is not None else endless)
    return caps


def _find_targets(level: Level, sizes: Mapping[Path, int]) -> dict[Path, Fraction]:
    """What the items below one are in proportion to."""
    if level.shares is not None:
        return _find_shares(level, sizes)
    if level.alpha is not None:
        factors = level.factors or {}
        return {
            path: raise_to_power(Fraction(size), level.alpha) * factors.get(path, 1) for path, size in sizes.items()
        }
    weights = level.weights or {}
    return {path: Fraction(weights.get(path[-1], Decimal(1))) * size for path, size in sizes.items()}


def _find_shares(level: Level, sizes: Mapping[Path, int]) -> dict[Path, Fraction]:
    told = {item: Fraction(share) for item, share in (level.shares or {}).items()}
    shares = {path: told[path[-1]] for path in sizes if path[-1] in told}
    others = {path: size for path, size in sizes.items() if path not in shares}
    rest = 1 - sum(told.values(), Fraction(0))
    if others and rest <= 0:
        raise ConfigError(
            f"{level.name}.shares: add up to 1, and leave nothing for {min(others)[-1]!r}: name it, too, or lower one"
        )
    size = sum(others.values())
    return {path: shares[path] if path in shares else rest * others[path] / size for path in sizes}


def mix_by_levels(
    paths: Mapping[str, Path],
    sizes: Mapping[str, int],
    sizes_bytes: Mapping[str, int],
    levels: Sequence[Level],
    parameters: dict[str, str],
    budget: int | None = None,
) -> Mix:
    """The integer weight of each cell of counts, whose total keeps its size; as language_weights.mix.

    paths: cell -> what it is at each level. sizes: of cells, in the unit to balance; sizes_bytes: in bytes. budget: of
    the whole in that unit, which caps have to reach; None: its size. Raises ConfigError as share_by_levels.

    >>> paths = {"en/web": ("en", "web"), "sw/web": ("sw", "web")}
    >>> sizes = {"en/web": 30, "sw/web": 10}
    >>> mix_by_levels(paths, sizes, sizes, [Level("lang", alpha=Decimal(1)), Level("source")], {}).weights
    {'en/web': 1, 'sw/web': 1}
    """
    of_paths = _add_up(paths, sizes)
    total = sum(sizes.values())
    got = share_by_levels(of_paths, levels, Fraction(total if budget is None else budget))
    scale = total / sum(got.values(), Fraction(0))
    multipliers = {name: got[path] * scale / of_paths[path] for name, path in paths.items()}
    return scale_to_fixed_point(multipliers, sizes_bytes, parameters)


def find_density_factors(
    paths: Mapping[str, Path],
    depth: int,
    sizes_bytes: Mapping[str, int],
    pretokens: Mapping[str, int],
    exponents: Temperature,
) -> dict[Path, Fraction]:
    """min(density_cap, d)**density of each item of a level, for Level.factors; d: see compute_relative_densities().

    depth: of the level, 0 for the first.
    """
    num_bytes, num = (add_up_paths(_add_up(paths, of)) for of in (sizes_bytes, pretokens))
    mean = Fraction(num_bytes[()], max(1, num[()]))
    cap = Fraction(exponents.density_cap)
    return {
        path: raise_to_power(
            min(cap, Fraction(size, num[path]) / mean if num[path] else Fraction(1)), exponents.density
        )
        for path, size in num_bytes.items()
        if len(path) == depth + 1
    }


def _add_up(paths: Mapping[str, Path], sizes: Mapping[str, int]) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for name, path in paths.items():
        found[path] = found.get(path, 0) + sizes[name]
    return found
