"""Mixing: the integer weight of each language, from exact decimals. No float anywhere.

A language's counts are multiplied by its weight before merges are learned from the sum of all languages. Weights are
fixed-point multipliers r = q / p: p is a language's share of the corpus in the chosen unit, q its target share. So the
total size stays the same, and a weighted count divided by the scale reads like a count. Sizes come from counting, and
pretoken_tables.merge_rows applies the weights.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tokcore.errors import ConfigError, LearnError

STRATEGIES = ("temperature", "unimax", "natural", "weights")  # parity begins with those of temperature


class Temperature(NamedTuple):
    """How far temperature mixing goes: see compute_temperature_targets()."""

    alpha: Decimal
    density: Decimal
    density_cap: Decimal


# tests/benchmarks/fairness.py measures what each costs and gives.
DEFAULT = Temperature(Decimal("0.7"), Decimal("0.8"), Decimal(5))
PRESETS: Mapping[str, Temperature] = {"fair": Temperature(Decimal("0.55"), Decimal(2), Decimal(3))}

# Digits of the decimal arithmetic; its ln and exp are correctly rounded, so every machine gets the same weights.
_CONTEXT = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_EVEN, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
MAX_DENSITY = 8
_MAX_SCALE_BITS = 32
_MIN_SCALE_BITS = 10
_COUNT_BITS = 62  # weighted bytes stay below 2**62, so no sum of weighted counts passes 2**63, even after rounding


@dataclasses.dataclass(frozen=True, slots=True)
class Mix:
    """Integer weights of languages, and the scale of counts multiplied with them.

    weights: language -> factor on its counts, at least 1: max(1, round(r * 2**scale_bits)) for the multiplier r,
    divided by the greatest common divisor of all of them, scale_divisor.
    parameters: the settings they were computed from, as the build file spells them.
    """

    weights: dict[str, int]
    scale_bits: int
    scale_divisor: int
    parameters: dict[str, str | int | dict[str, int]]

    @property
    def scale(self) -> float:
        """What one occurrence adds to a weighted count, where the mixing weight is 1."""
        return (1 << self.scale_bits) / self.scale_divisor

    def scaled_min_count(self, min_count: int) -> int:
        """The smallest weighted count that is at least min_count when divided by the scale."""
        return -(-(min_count << self.scale_bits) // self.scale_divisor)

    def describe(self) -> dict[str, str | int | dict[str, int]]:
        """All fields as integers and strings, for a manifest."""
        return {
            **self.parameters,
            "scale_bits": self.scale_bits,
            "scale_divisor": self.scale_divisor,
            "weights": dict(sorted(self.weights.items())),
        }


def mix(
    sizes: Mapping[str, int],
    sizes_bytes: Mapping[str, int],
    *,
    strategy: str = "temperature",
    alpha: Decimal | str = DEFAULT.alpha,
    density: Decimal | str = Decimal(0),
    density_cap: Decimal | str = DEFAULT.density_cap,
    pretokens: Mapping[str, int] | None = None,
    weights: Mapping[str, Decimal] | None = None,
    max_epochs: Decimal | int | None = None,
    budget: int | None = None,
) -> Mix:
    """The weights of a build.

    sizes: language -> size in the unit to balance. sizes_bytes: the same languages in bytes, which bounds the weighted
    counts. pretokens: how many pre-tokens each has; required if density is not 0. strategy: one of
      temperature  shares become proportional to share**alpha, times a power of the bytes per pre-token: see
                   compute_temperature_targets()
      unimax       as equal as possible without repeating a language more than max_epochs times: see
                   compute_unimax_targets()
      natural      every weight is 1
      weights      multiply counts with weights[language], or with 1 for a language that is not named
    Raises ConfigError for parameters out of range, LearnError for sizes that have no weights.
    """
    _check_sizes(sizes)
    if sizes.keys() != sizes_bytes.keys():
        raise ConfigError(f"sizes and bytes name different languages: {sorted(sizes.keys() ^ sizes_bytes.keys())}")
    if strategy == "temperature":
        exponents = Temperature(Decimal(alpha), Decimal(density), Decimal(density_cap))
        parameters, multipliers = _weigh_by_temperature(sizes, sizes_bytes, exponents, pretokens)
    elif strategy == "unimax":
        parameters, multipliers = _weigh_by_unimax(sizes, max_epochs, budget)
    elif strategy == "natural":
        parameters, multipliers = {}, dict.fromkeys(sizes, Fraction(1))
    elif strategy == "weights":
        parameters, multipliers = _weigh_by_table(sizes, weights or {})
    else:
        raise ConfigError(f"mix.strategy = {strategy!r}: expected one of {', '.join(STRATEGIES)}")
    return scale_to_fixed_point(multipliers, sizes_bytes, {"strategy": strategy, **parameters})


_Multipliers = tuple[dict[str, str], dict[str, Fraction]]  # the parameters that decide them; language -> multiplier


def _weigh_by_temperature(
    sizes: Mapping[str, int],
    sizes_bytes: Mapping[str, int],
    exponents: Temperature,
    pretokens: Mapping[str, int] | None,
) -> _Multipliers:
    parameters = {"alpha": _spell_plain(exponents.alpha)}
    densities = None
    if exponents.density:
        parameters |= {"density": _spell_plain(exponents.density), "density_cap": _spell_plain(exponents.density_cap)}
        if pretokens is None:
            raise ConfigError("mix.density needs the number of pre-tokens of each language")
        densities = compute_relative_densities(sizes_bytes, pretokens)
    return parameters, _compute_multipliers(sizes, compute_temperature_targets(sizes, exponents, densities))


def _weigh_by_unimax(sizes: Mapping[str, int], max_epochs: Decimal | int | None, budget: int | None) -> _Multipliers:
    if max_epochs is None:
        raise ConfigError("mix.max_epochs is missing: unimax needs it. Set it, for example to 4.")
    total = sum(sizes.values()) if budget is None else budget
    parameters = {"max_epochs": _spell_plain(Decimal(max_epochs)), "budget": str(total)}
    return parameters, _compute_multipliers(sizes, compute_unimax_targets(sizes, total, max_epochs))


def _weigh_by_table(sizes: Mapping[str, int], weights: Mapping[str, Decimal]) -> _Multipliers:
    given = {lang: Decimal(weight) for lang, weight in weights.items()}
    if unknown := sorted(given.keys() - sizes.keys()):
        known = ", ".join(sorted(sizes))
        raise ConfigError(f"mix.weights.{unknown[0]}: the corpus has no such language, only {known}")
    parameters = {}
    for lang, weight in sorted(given.items()):
        if not (weight.is_finite() and weight > 0):
            raise ConfigError(
                f"mix.weights.{lang} = {weight}: must be above 0. To leave a language out, remove its source."
            )
        if weight != 1:
            parameters[f"weights.{lang}"] = _spell_plain(weight)
    return parameters, {lang: Fraction(given.get(lang, Decimal(1))) for lang in sizes}


def compute_mixing_weights(sizes: Mapping[str, int], alpha: Decimal | str) -> dict[str, int]:
    """The weights of the temperature strategy, for sizes in bytes.

    >>> compute_mixing_weights({"en": 9, "sw": 1}, "1")
    {'en': 1, 'sw': 1}
    """
    return mix(sizes, sizes, alpha=alpha).weights


def compute_relative_densities(sizes_bytes: Mapping[str, int], pretokens: Mapping[str, int]) -> dict[str, Fraction]:
    """Bytes per pre-token of each language, divided by that of all languages together; exact.

    A language without pre-tokens, of which nothing is learned, has 1.

    >>> compute_relative_densities({"en": 500, "km": 300}, {"en": 100, "km": 20})
    {'en': Fraction(3, 4), 'km': Fraction(9, 4)}
    """
    mean = Fraction(sum(sizes_bytes.values()), max(1, sum(pretokens.values())))
    return {
        lang: Fraction(size, pretokens[lang]) / mean if pretokens[lang] else Fraction(1)
        for lang, size in sizes_bytes.items()
    }


def compute_temperature_targets(
    sizes: Mapping[str, int], exponents: Temperature, densities: Mapping[str, Fraction] | None = None
) -> dict[str, Fraction]:
    """Target size per language, up to a common factor: size**alpha * min(density_cap, its density)**density.

    To 80 digits. alpha: 1 keeps natural shares, 0 makes languages equal. densities: of compute_relative_densities; not
    needed if the exponent density is 0. Where a language's script spends many bytes on a word, or its pre-tokens are
    long, the second factor gives it more tokens. Raises ConfigError for exponents out of range.

    >>> exponents = Temperature(Decimal("0.5"), Decimal(0), Decimal(5))
    >>> targets = compute_temperature_targets({"en": 9, "sw": 1}, exponents)
    >>> round(targets["en"] / sum(targets.values()), 6)
    Fraction(3, 4)
    """
    _check_sizes(sizes)
    alpha, density, density_cap = exponents
    if not (alpha.is_finite() and 0 <= alpha <= 1):
        raise ConfigError(f"mix.alpha = {alpha}: must be from 0 (languages equal) to 1 (natural shares)")
    if not (density.is_finite() and 0 <= density <= MAX_DENSITY):
        raise ConfigError(f"mix.density = {density}: must be from 0 (no effect) to {MAX_DENSITY}")
    if not (density_cap.is_finite() and density_cap >= 1):
        raise ConfigError(f"mix.density_cap = {density_cap}: must be at least 1")
    if not density:
        return {lang: raise_to_power(Fraction(size), alpha) for lang, size in sizes.items()}
    assert densities is not None
    cap = Fraction(density_cap)
    return {
        lang: raise_to_power(Fraction(size), alpha) * raise_to_power(min(cap, densities[lang]), density)
        for lang, size in sizes.items()
    }


def raise_to_power(base: Fraction, exponent: Decimal) -> Fraction:
    """base**exponent; exact for 0 and 1, else to 80 digits.

    >>> abs(raise_to_power(Fraction(9), Decimal("0.5")) - 3) < Fraction(1, 10**70)
    True
    """
    if exponent in (0, 1):
        return base if exponent else Fraction(1)
    number = _CONTEXT.divide(Decimal(base.numerator), Decimal(base.denominator))
    return Fraction(_CONTEXT.exp(_CONTEXT.multiply(_CONTEXT.ln(number), exponent)))


def compute_unimax_targets(sizes: Mapping[str, int], budget: int, max_epochs: Decimal | int) -> dict[str, Fraction]:
    """Each language's part of the budget, in its unit: equal, but at most max_epochs times its size (UniMax, 2023).

    Exact. Raises ConfigError for parameters out of range, LearnError if the languages cannot fill the budget.

    >>> compute_unimax_targets({"a": 1, "b": 10, "c": 100}, 30, 4) == {"a": 4, "b": 13, "c": 13}
    True
    """
    _check_sizes(sizes)
    epochs = Fraction(max_epochs)
    if epochs <= 0:
        raise ConfigError(f"mix.max_epochs = {max_epochs}: must be above 0")
    if budget < 1:
        raise ConfigError(f"mix.budget = {budget}: must be at least 1")
    reachable = epochs * sum(sizes.values())
    if reachable < budget:
        raise LearnError(
            f"mix.budget = {budget} cannot be filled: all languages {max_epochs} times over are "
            f"{math.floor(reachable)}. Lower mix.budget or raise mix.max_epochs."
        )
    shares: dict[str, Fraction] = {}
    remaining = Fraction(budget)
    for index, lang in enumerate(sorted(sizes, key=lambda name: (sizes[name], name))):
        shares[lang] = min(remaining / (len(sizes) - index), epochs * sizes[lang])
        remaining -= shares[lang]
    return {lang: shares[lang] for lang in sizes}


def raise_weights(mix: Mix, sizes_bytes: Mapping[str, int], factors: Mapping[str, Fraction]) -> Mix:
    """The mix with some languages' multipliers times a factor, and all of them divided so that the size in bytes stays.

    sizes_bytes: of all languages of the mix.

    >>> raised = raise_weights(mix({"en": 3, "sw": 1}, {"en": 3, "sw": 1}), {"en": 3, "sw": 1}, {"sw": Fraction(5)})
    >>> compute_shares({"en": 3, "sw": 1}, raised.weights)["sw"]
    ('0.250000', '0.698551')
    """
    own = {lang: Fraction(weight * mix.scale_divisor, 1 << mix.scale_bits) for lang, weight in mix.weights.items()}
    targets = {lang: own[lang] * sizes_bytes[lang] * factors.get(lang, 1) for lang in own}
    return scale_to_fixed_point(_compute_multipliers(sizes_bytes, targets), sizes_bytes, mix.parameters)


def compute_shares(sizes: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, tuple[str, str]]:
    """(share before, share after weighting) of each language in some unit, as decimals with six digits.

    >>> compute_shares({"en": 2, "sw": 1}, {"en": 1, "sw": 2})
    {'en': ('0.666667', '0.500000'), 'sw': ('0.333333', '0.500000')}
    """
    return compare_shares(sizes, {lang: size * weights[lang] for lang, size in sizes.items()})


def compare_shares(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[str, str]]:
    """(share of the first sizes, share of the second) of each name, as decimals with six digits.

    >>> compare_shares({"web": 2, "wiki": 1}, {"web": 2, "wiki": 2})
    {'web': ('0.666667', '0.500000'), 'wiki': ('0.333333', '0.500000')}
    """
    whole = sum(before.values()), sum(after.values())
    return {
        name: (_format_six_digits(size, whole[0]), _format_six_digits(after[name], whole[1]))
        for name, size in before.items()
    }


def _compute_multipliers(sizes: Mapping[str, int], targets: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """r = q / p of each language, for target sizes up to a common factor."""
    factor = sum(sizes.values()) / sum(targets.values(), Fraction(0))
    return {lang: targets[lang] * factor / size for lang, size in sizes.items()}


def scale_to_fixed_point(
    multipliers: Mapping[str, Fraction],
    sizes_bytes: Mapping[str, int],
    parameters: Mapping[str, str | int | dict[str, int]],
) -> Mix:
    """The integer weights of multipliers, and their scale. Raises LearnError for a corpus too large for 64 bits."""
    weighted_bytes = math.ceil(sum((multipliers[lang] * size for lang, size in sizes_bytes.items()), Fraction(0)))
    scale_bits = min(_MAX_SCALE_BITS, _COUNT_BITS - weighted_bytes.bit_length())
    if scale_bits < _MIN_SCALE_BITS:
        raise LearnError(
            f"the weighted corpus has {weighted_bytes} bytes: weighted counts of more than "
            f"2**{_COUNT_BITS - _MIN_SCALE_BITS} bytes do not fit 64-bit integers. Count a sample (count.sample)."
        )
    # round() of a Fraction is exact and goes to even at a half.
    scaled = {lang: max(1, round(r * 2**scale_bits)) for lang, r in multipliers.items()}
    divisor = math.gcd(*scaled.values())
    return Mix({lang: weight // divisor for lang, weight in scaled.items()}, scale_bits, divisor, dict(parameters))


def _check_sizes(sizes: Mapping[str, int]) -> None:
    if not sizes:
        raise LearnError("there is no language to mix: the corpus is empty")
    for lang, size in sorted(sizes.items()):
        if size < 1:
            raise LearnError(f"language {lang!r} has size {size} in the unit of the mix: it cannot be given a weight")


def _format_six_digits(part: int, whole: int) -> str:
    millionths = round(Fraction(part * 10**6, whole)) if whole else 0
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"


def _spell_plain(number: Decimal) -> str:
    """The one spelling of a value: 0.3 for 0.30 and for 3e-1."""
    return format(number.normalize(_CONTEXT), "f")
