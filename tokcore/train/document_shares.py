"""Mixtures of training documents: how many tokens each language or source gets, and how often its documents come.

Exact: integers and fractions, powers to 80 digits. tokcore.learn.language_weights weighs the counts that a tokenizer is
learned from; here whole documents are taken and repeated. Leaves to others: which documents have which hash
(tokcore_schemas.copies).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.learn import language_weights as mixing
from tokcore.learn.level_shares import Level, Path, share_by_levels

# More would have each worker read the shards that often.
MOST_COPIES = 1024

_SPAN = 1 << 64
_ROUNDING = Fraction(1, 10**30)  # powers may be that much too small


class Copies(NamedTuple):
    """How often documents come: `whole` times, and once more each one whose hash of 64 bits is below `cut`."""

    whole: int
    cut: int

    @property
    def most(self) -> int:
        """How often a document may come."""
        return self.whole + (self.cut > 0)


def share_tokens(
    sizes: Mapping[str, int],
    strategy: str,
    *,
    alpha: Decimal | None = None,
    weights: Mapping[str, Decimal] | None = None,
    tokens: int | None = None,
    max_epochs: Decimal | None = None,
) -> dict[str, int]:
    """How many tokens of each language or source a mixture is to have.

    sizes: name -> its tokens. strategy: one of
      natural      in proportion to the sizes
      temperature  in proportion to size**alpha
      unimax       equal
      weights      in proportion to weights[name] * size; 1 if not named
    tokens: of the mixture; None: as many as there are, for weights the sum of weights[name] * size. max_epochs: none
    gets more than its size times this; the others share what is left of the tokens, in their proportions.
    Raises ConfigError if there is nothing to mix, a weight has no size, or the tokens cannot be reached.

    >>> share_tokens({"en": 900, "sw": 100}, "temperature", alpha=Decimal("0.5"))
    {'en': 750, 'sw': 250}
    >>> share_tokens({"en": 900, "sw": 100}, "unimax", max_epochs=Decimal(2))
    {'en': 800, 'sw': 200}
    >>> share_tokens({"en": 900, "sw": 100}, "weights", weights={"en": Decimal("0.5"), "sw": Decimal(3)})
    {'en': 450, 'sw': 300}
    """
    there = {name: size for name, size in sorted(sizes.items()) if size}
    targets = _find_targets(there, strategy, alpha, weights or {}, sizes)
    wanted = sum(targets.values(), Fraction(0)) if strategy == "weights" else Fraction(sum(there.values()))
    budget = wanted if tokens is None else Fraction(tokens)
    caps = None if max_epochs is None else {name: Fraction(max_epochs) * size for name, size in there.items()}
    shares = _fill(targets, caps, budget)
    return {name: math.floor(shares.get(name, 0) + _ROUNDING) for name in sizes}


def share_tokens_by_levels(
    paths: Mapping[str, Path], sizes: Mapping[Path, int], levels: Sequence[Level], budget: int
) -> dict[str, int]:
    """How many tokens each path of a mixture by levels gets, by its name. paths: name -> path; sizes: its tokens.

    Raises ConfigError as level_shares.share_by_levels, and if there is nothing to mix.

    >>> paths = {"en/web": ("en", "web"), "sw/web": ("sw", "web")}
    >>> levels = [Level("mixture.levels.lang", alpha=Decimal(0)), Level("mixture.levels.source")]
    >>> share_tokens_by_levels(paths, {("en", "web"): 90, ("sw", "web"): 10}, levels, 60)
    {'en/web': 30, 'sw/web': 30}
    """
    if not sizes:
        raise ConfigError("mixture: there are no training documents to mix")
    shares = share_by_levels(sizes, levels, Fraction(budget))
    return {name: math.floor(shares.get(path, 0) + _ROUNDING) for name, path in paths.items()}


def _find_targets(
    there: Mapping[str, int],
    strategy: str,
    alpha: Decimal | None,
    weights: Mapping[str, Decimal],
    sizes: Mapping[str, int],
) -> dict[str, Fraction]:
    """What the tokens are in proportion to; only of those that get any."""
    if not there:
        raise ConfigError("mixture: there are no training documents to mix")
    if unknown := sorted(weights.keys() - sizes.keys()):
        known = ", ".join(sorted(sizes))
        raise ConfigError(f"mixture.weights.{unknown[0]}: no training document is of it, only of {known}")
    if strategy == "temperature":
        assert alpha is not None
        return mixing.compute_temperature_targets(there, mixing.DEFAULT._replace(alpha=alpha, density=Decimal(0)))
    if strategy == "unimax":
        return dict.fromkeys(there, Fraction(1))
    if strategy == "natural":
        return {name: Fraction(size) for name, size in there.items()}
    targets = {name: Fraction(weights.get(name, Decimal(1))) * size for name, size in there.items()}
    if not any(targets.values()):
        raise ConfigError("mixture.weights: are all 0: nothing would be in the mixture")
    return {name: target for name, target in targets.items() if target}


def _fill(
    targets: Mapping[str, Fraction], caps: Mapping[str, Fraction] | None, budget: Fraction
) -> dict[str, Fraction]:
    """The budget in proportion to the targets, but none more than its cap."""
    if caps is None:
        whole = sum(targets.values(), Fraction(0))
        return {name: budget * target / whole for name, target in targets.items()}
    reachable = sum((caps[name] for name in targets), Fraction(0))
    if reachable < budget:
        raise ConfigError(
            f"mixture.tokens = {math.floor(budget)}: cannot be reached: with mixture.max_epochs there are at most "
            f"{math.floor(reachable)}. Lower mixture.tokens or raise mixture.max_epochs."
        )
    shares: dict[str, Fraction] = {}
    remaining, of_others = budget, sum(targets.values(), Fraction(0))
    # Those that are full first, first.
    for name in sorted(targets, key=lambda one: (caps[one] / targets[one], one)):
        shares[name] = min(caps[name], remaining * targets[name] / of_others)
        remaining -= shares[name]
        of_others -= targets[name]
    return shares


def choose_copies(name: str, wanted: int, cells: Sequence[int]) -> Copies:
    """How often documents come, so that they have about `wanted` tokens.

    cells: their tokens, by equal intervals of their hashes; a power of two of them. Within an interval hashes are taken
    to be spread evenly, so what comes out differs from what is wanted by less than the tokens of one interval.
    Raises ConfigError if they would come too often. name: of the language or source.

    >>> choose_copies("en", 250, [60, 40]) == Copies(2, (1 << 63) * 50 // 60)
    True
    """
    size = sum(cells)
    if not size:
        return Copies(0, 0)
    whole, rest = divmod(wanted, size)
    if whole >= MOST_COPIES:
        raise ConfigError(
            f"mixture: documents of {name!r} would come {whole} times, expected at most {MOST_COPIES}: they have "
            f"{size} tokens, {wanted} are wanted. Set mixture.max_epochs, or give it a smaller share."
        )
    width, before = _SPAN // len(cells), 0
    for number, tokens in enumerate(cells):
        if before + tokens >= rest:
            return Copies(whole, width * number + width * (rest - before) // tokens if rest > before else 0)
        before += tokens
    raise AssertionError("rest is below size")


def count_wanted(copies: Copies, cells: Sequence[int]) -> int:
    """About how many tokens documents have that come that often, as choose_copies() counts them.

    cells: as for choose_copies.

    >>> count_wanted(Copies(2, (1 << 63) * 50 // 60), [60, 40])
    249
    """
    full, rest = divmod(copies.cut, width := _SPAN // len(cells))
    return copies.whole * sum(cells) + sum(cells[:full]) + (cells[full] * rest // width if rest else 0)
