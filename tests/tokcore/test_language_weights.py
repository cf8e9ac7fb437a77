"""Mixing: integer weights against exact arithmetic, published examples, and independence of order."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.count.pretoken_rows import make_rows
from tokcore.count.pretoken_tables import merge_rows
from tokcore.errors import ConfigError, LearnError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.learn.language_weights import (
    Mix,
    Temperature,
    compute_mixing_weights,
    compute_relative_densities,
    compute_shares,
    compute_temperature_targets,
    compute_unimax_targets,
    mix,
)
from tokcore.learn.merges import learn_rows

GOLDEN = {
    "strategy": "temperature",
    "alpha": "0.3",
    "scale_bits": 26,
    "scale_divisor": 1,
    "weights": {"en": 48752662, "ru": 137571641, "sw": 62466068157, "zu": 154795224365357},
}

sizes_of_languages = st.dictionaries(
    st.text("abcdefgh", min_size=2, max_size=3), st.integers(1, 10**12), min_size=1, max_size=12
)
alphas = st.decimals(0, 1, places=4)


def multiplier(result: Mix, lang: str) -> Fraction:
    return Fraction(result.weights[lang] * result.scale_divisor, 2**result.scale_bits)


@given(sizes_of_languages, alphas)
def test_weights_turn_shares_into_powers_of_shares(sizes: dict[str, int], alpha: Decimal) -> None:
    result = mix(sizes, sizes, alpha=alpha)
    total = sum(sizes.values())
    powers = {lang: (size / total) ** float(alpha) for lang, size in sizes.items()}
    for lang, size in sizes.items():
        wanted = powers[lang] / sum(powers.values()) * total / size
        resolution = 2.0**-result.scale_bits
        assert float(multiplier(result, lang)) == pytest.approx(wanted, rel=1e-9, abs=resolution)
    assert math.gcd(*result.weights.values()) == 1


@given(sizes_of_languages, alphas)
def test_weighted_corpus_keeps_its_size_and_fits_64_bits(sizes: dict[str, int], alpha: Decimal) -> None:
    result = mix(sizes, sizes, alpha=alpha)
    weighted = sum(size * result.weights[lang] * result.scale_divisor for lang, size in sizes.items())
    assert weighted < 2**63
    total = sum(sizes.values())
    assert abs(Fraction(weighted, 2**result.scale_bits) - total) <= Fraction(total, 2**result.scale_bits) + 1


@given(sizes_of_languages, alphas)
def test_order_of_languages_changes_nothing(sizes: dict[str, int], alpha: Decimal) -> None:
    turned = dict(reversed(sizes.items()))
    assert mix(turned, turned, alpha=alpha).describe() == mix(sizes, sizes, alpha=alpha).describe()


@given(sizes_of_languages)
def test_alpha_one_natural_and_equal_weights_are_all_unweighted(sizes: dict[str, int]) -> None:
    ones = dict.fromkeys(sizes, 1)
    for result in (
        mix(sizes, sizes, alpha="1"),
        mix(sizes, sizes, strategy="natural"),
        mix(sizes, sizes, strategy="weights"),
        mix(sizes, sizes, strategy="weights", weights=dict.fromkeys(sizes, Decimal("2.5"))),
    ):
        assert result.weights == ones
    assert mix(sizes, sizes, alpha="1.0").scaled_min_count(7) == 7


def test_alpha_one_learns_what_is_learned_without_weights() -> None:
    tables = {
        "en": make_rows([(b"abc", 5, 1), (b"bcd", 2, 1)]),
        "sw": make_rows([(b"bcd", 4, 1), (b"ccc", 1, 1)]),
    }
    result = mix({"en": 900, "sw": 7}, {"en": 900, "sw": 7}, alpha="1")
    plain, weighted = (
        next(merge_rows([[tables[lang]] for lang in sorted(tables)], multipliers))
        for multipliers in (None, [result.weights[lang] for lang in sorted(tables)])
    )
    options = {"vocab_size": 300, "allow_smaller": True}
    found = learn_rows(weighted.keys, weighted.counts, min_count=result.scaled_min_count(2), **options)
    expected = learn_rows(plain.keys, plain.counts, min_count=2, **options)
    assert len(found.pairs) > 0
    np.testing.assert_array_equal(found.pairs, expected.pairs)
    np.testing.assert_array_equal(found.counts, expected.counts)


@pytest.mark.parametrize(
    ("alpha", "en", "sw"),
    [
        ("0", "0.500000", "0.500000"),
        ("0.3", "0.659073", "0.340927"),
        ("0.5", "0.750000", "0.250000"),
        ("0.7", "0.823182", "0.176818"),
        ("1", "0.900000", "0.100000"),
    ],
)
def test_reference_points(alpha: str, en: str, sw: str) -> None:
    sizes = {"en": 900, "sw": 100}
    assert compute_shares(sizes, compute_mixing_weights(sizes, alpha)) == {
        "en": ("0.900000", en),
        "sw": ("0.100000", sw),
    }


def test_weights_are_these_on_every_machine() -> None:
    sizes = {"en": 33_012_345_678, "ru": 7_500_000_001, "sw": 1_200_003, "zu": 17}
    assert mix(sizes, sizes, alpha="0.3").describe() == GOLDEN


def test_weights_have_more_digits_than_a_float() -> None:
    sizes, alpha = {"en": 500_000_000, "sw": 700_001, "zu": 1}, Decimal("0.3")
    result = mix(sizes, sizes, alpha=alpha)
    with decimal.localcontext(prec=200):
        powers = {lang: Fraction(Decimal(size) ** alpha) for lang, size in sizes.items()}
    factor = Fraction(sum(sizes.values()) * 2**result.scale_bits) / sum(powers.values())
    exact = {lang: round(factor * powers[lang] / size) for lang, size in sizes.items()}
    assert exact["zu"] > 2**50
    assert {lang: weight * result.scale_divisor for lang, weight in result.weights.items()} == exact


def test_unit_of_balance_and_bytes_may_differ() -> None:
    result = mix({"en": 10, "th": 10}, {"en": 1000, "th": 3000}, alpha="0.3")
    assert result.weights == {"en": 1, "th": 1}
    with pytest.raises(ConfigError, match="different languages"):
        mix({"en": 1}, {"sw": 1})


def test_unimax_published_example() -> None:
    sizes = {"fao": 549707867, "isl": 10027573389, "ekk": 42541080893, "swe": 179955884499, "fas": 184595788282}
    found = compute_unimax_targets(sizes, 250 * 10**9, 4)
    assert {name: found[name] for name in ("fao", "isl")} == {"fao": 2198831468, "isl": 40110293556}
    assert {f"{float(found[name]):.2f}" for name in ("ekk", "swe", "fas")} == {"69230291658.67"}
    assert sum(found.values()) == 250 * 10**9


@given(sizes_of_languages, st.integers(1, 20))
def test_unimax_fills_the_budget_and_repeats_nothing_too_often(sizes: dict[str, int], max_epochs: int) -> None:
    budget = sum(sizes.values())
    found = compute_unimax_targets(sizes, budget, max_epochs)
    assert sum(found.values()) == budget
    capped = {lang for lang in sizes if found[lang] == max_epochs * sizes[lang]}
    assert all(found[lang] <= max_epochs * sizes[lang] for lang in sizes)
    free = {found[lang] for lang in sizes.keys() - capped}
    assert len(free) <= 1
    assert all(found[lang] <= share for share in free for lang in capped)
    assert mix(sizes, sizes, strategy="unimax", max_epochs=max_epochs).weights.keys() == sizes.keys()


def test_unimax_without_enough_text_is_an_error() -> None:
    with pytest.raises(LearnError, match=r"cannot be filled.*40"):
        compute_unimax_targets({"a": 3, "b": 7}, 41, 4)
    with pytest.raises(ConfigError, match="max_epochs is missing"):
        mix({"a": 1}, {"a": 1}, strategy="unimax")
    with pytest.raises(ConfigError, match="max_epochs = 0"):
        compute_unimax_targets({"a": 1}, 1, 0)
    with pytest.raises(ConfigError, match="budget = 0"):
        compute_unimax_targets({"a": 1}, 0, 1)


def test_explicit_weights_multiply_counts() -> None:
    sizes = {"en": 100, "sw": 100, "zu": 100}
    result = mix(sizes, sizes, strategy="weights", weights={"en": Decimal("0.5"), "sw": Decimal(3)})
    assert result.weights == {"en": 1, "sw": 6, "zu": 2}
    assert result.scaled_min_count(2) == 4
    thirds = mix(sizes, sizes, strategy="weights", weights={"en": Decimal(3), "sw": Decimal(6), "zu": Decimal(9)})
    assert (thirds.weights, thirds.scaled_min_count(4)) == ({"en": 1, "sw": 2, "zu": 3}, 2)
    for weights, message in (({"xx": Decimal(1)}, "xx: the corpus has no"), ({"en": Decimal(0)}, "above 0")):
        with pytest.raises(ConfigError, match=message):
            mix(sizes, sizes, strategy="weights", weights=weights)


@given(sizes_of_languages, alphas, st.integers(0, 10**6), st.integers(0, 2**50))
def test_scaled_minimum_is_exactly_the_minimum_times_the_scale(
    sizes: dict[str, int], alpha: Decimal, least: int, count: int
) -> None:
    result = mix(sizes, sizes, alpha=alpha)
    below = Fraction(count * result.scale_divisor, 2**result.scale_bits) < least
    assert (count < result.scaled_min_count(least)) == below


def test_scale_shrinks_with_the_corpus_until_it_is_too_large() -> None:
    large = {"en": 10**13, "sw": 10**9}
    assert mix(large, large).scale_bits == 62 - sum(large.values()).bit_length()
    huge = {"en": 2**52, "sw": 1}
    with pytest.raises(LearnError, match="sample"):
        mix(huge, huge)


def test_a_language_never_gets_weight_zero() -> None:
    sizes = {"en": 2**50, "sw": 1}
    small_scale = mix(sizes, sizes, strategy="weights", weights={"sw": Decimal("1e-9")})
    assert small_scale.weights["sw"] == 1


def test_parameters_out_of_range_are_refused() -> None:
    for alpha in ("-0.1", "1.1", "NaN", "Infinity"):
        with pytest.raises(ConfigError, match="alpha"):
            compute_temperature_targets({"a": 1}, Temperature(Decimal(alpha), Decimal(0), Decimal(1)))
    with pytest.raises(ConfigError, match="strategy"):
        mix({"a": 1}, {"a": 1}, strategy="uniform")
    with pytest.raises(LearnError, match="empty"):
        mix({}, {})
    with pytest.raises(LearnError, match="'sw' has size 0"):
        mix({"en": 1, "sw": 0}, {"en": 1, "sw": 1})


def test_description_fits_a_manifest() -> None:
    result = mix({"en": 9, "sw": 1}, {"en": 9, "sw": 1}, alpha="0.30")
    assert result.describe()["alpha"] == "0.3"
    assert write_canonical_json(result.describe())


def test_shares_of_nothing() -> None:
    assert compute_shares({"en": 0}, {"en": 3}) == {"en": ("0.000000", "0.000000")}


# -------------------------------------------------------------------------------------------------------------- density

pretokens_of_languages = st.dictionaries(
    st.text("abcdefgh", min_size=2, max_size=3),
    st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)),
    min_size=1,
    max_size=12,
)


@given(pretokens_of_languages, alphas, st.decimals(0, 3, places=3), st.decimals(1, 9, places=2))
def test_density_multiplies_by_a_power_of_bytes_per_pretoken(numbers, alpha, density, cap):
    sizes = {lang: size for lang, (size, _) in numbers.items()}
    pretokens = {lang: num for lang, (_, num) in numbers.items()}
    result = mix(sizes, sizes, alpha=alpha, density=density, density_cap=cap, pretokens=pretokens)
    total = sum(sizes.values())
    mean = total / sum(pretokens.values())
    powers = {
        lang: size ** float(alpha) * min(float(cap), size / pretokens[lang] / mean) ** float(density)
        for lang, size in sizes.items()
    }
    for lang, size in sizes.items():
        wanted = powers[lang] / sum(powers.values()) * total / size
        assert float(multiplier(result, lang)) == pytest.approx(wanted, rel=1e-9, abs=2.0**-result.scale_bits)


def test_density_of_zero_is_the_rule_without_it():
    sizes = {"en": 90, "km": 10}
    with_zero = mix(sizes, sizes, alpha="0.3", density="0.0", pretokens={"en": 9, "km": 1})
    assert with_zero == mix(sizes, sizes, alpha="0.3")
    assert "density" not in with_zero.parameters


def test_weights_with_density_are_these_on_every_machine():
    sizes = {"en": 33_000_000, "km": 1_100_000, "zh": 5_800_000}
    pretokens = {"en": 7_000_000, "km": 60_000, "zh": 400_000}
    result = mix(sizes, sizes, alpha="0.7", density="0.8", density_cap="5", pretokens=pretokens)
    assert result.describe() == {
        "strategy": "temperature",
        "alpha": "0.7",
        "density": "0.8",
        "density_cap": "5",
        "scale_bits": 32,
        "scale_divisor": 2,
        "weights": {"en": 1297261578, "km": 10666559486, "zh": 5369267251},
    }
    doubled = {lang: num * 2 for lang, num in pretokens.items()}  # only ratios matter
    assert mix(sizes, sizes, alpha="0.7", density="0.8", pretokens=doubled).weights == result.weights


def test_a_cap_bounds_what_density_gives():
    sizes = {"en": 10**9, "xx": 1000}
    pretokens = {"en": 2 * 10**8, "xx": 1}  # a thousand bytes in one pre-token
    densities = compute_relative_densities(sizes, pretokens)
    assert densities["xx"] > 100
    capped, larger = (
        compute_temperature_targets(sizes, Temperature(Decimal(1), Decimal(1), Decimal(cap)), densities)["xx"]
        for cap in (3, 6)
    )
    assert (capped, larger) == (3000, 6000)


def test_a_language_without_pretokens_has_the_density_of_the_corpus():
    assert compute_relative_densities({"a": 8, "b": 4}, {"a": 2, "b": 0}) == {"a": Fraction(2, 3), "b": 1}
    assert compute_relative_densities({"a": 8}, {"a": 0}) == {"a": 1}


def test_density_without_pretokens_is_refused():
    with pytest.raises(ConfigError, match=r"mix\.density needs the number of pre-tokens"):
        mix({"a": 1}, {"a": 1}, density="0.5")


@pytest.mark.parametrize(("density", "cap"), [("-0.1", "5"), ("8.1", "5"), ("nan", "5"), ("1", "0.99"), ("1", "inf")])
def test_density_out_of_range_is_refused(density, cap):
    with pytest.raises(ConfigError, match=r"mix\.density"):
        mix({"a": 1}, {"a": 1}, density=density, density_cap=cap, pretokens={"a": 1})
