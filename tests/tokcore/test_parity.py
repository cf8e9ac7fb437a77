"""Weights that follow the premium: the rule of a round against whole numbers, the choice of a round, odd lines."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import ConfigError, LearnError
from tokcore.learn.language_weights import Mix, mix, raise_weights
from tokcore.learn.parallel_text import OddLines, parse_parallel_text, take_odd_lines
from tokcore.learn.parity import (
    ONE,
    ROUNDS,
    Round,
    compute_excess,
    learn_by_premium,
    move_factors,
)

SIZES = {"code": 500, "de": 4000, "en": 9000, "km": 300}

tokens_of_languages = st.dictionaries(
    st.sampled_from(["en", "de", "km", "my", "dz"]), st.integers(0, 10**7), min_size=1
).map(lambda found: {"en": 1000, **found})
targets = st.decimals("1", "10", places=2)


def move_by_hand(factor: int, num: int, base: int, target: Decimal) -> int:
    """move_factors of one language, in whole numbers alone: the fourth power, its bounds, the rounding, the bounds."""
    hundredths = int(target * 100)
    above, below = (100 * num) ** 4, (hundredths * max(1, base)) ** 4
    if above >= 2 * below:
        above, below = 2, 1
    elif 2 * above <= below:
        above, below = 1, 2
    quotient, rest = divmod(factor * above, below)
    quotient += 2 * rest > below or (2 * rest == below and quotient % 2)
    return max(65_536, min(3 * 65_536, quotient))


@given(tokens_of_languages, targets, st.data())
def test_a_round_moves_factors_as_whole_numbers_do(tokens, target, data):
    factors = {lang: data.draw(st.integers(ONE, 3 * ONE)) for lang in tokens}
    moved = move_factors(factors, tokens, "en", target)
    assert moved == {lang: move_by_hand(factors[lang], num, tokens["en"], target) for lang, num in tokens.items()}


@given(tokens_of_languages, targets)
def test_excess_is_what_premiums_are_above_the_target(tokens, target):
    wanted = sum(max(0.0, num / (float(target) * max(1, tokens["en"])) - 1) for num in tokens.values())
    assert float(compute_excess(tokens, "en", target)) == pytest.approx(wanted, abs=1e-9)
    above = Round(1, tokens, "en", target).above
    assert {*above} == {lang for lang, num in tokens.items() if num * 100 > int(target * 100) * max(1, tokens["en"])}
    assert bool(above) == (compute_excess(tokens, "en", target) > 0)


@given(st.dictionaries(st.sampled_from([*SIZES]), st.integers(ONE, 3 * ONE)))
def test_raised_weights_keep_the_size_and_the_proportions(factors):
    begin = mix(SIZES, SIZES, alpha="0.6")
    raised = raise_weights(begin, SIZES, {lang: Fraction(of, ONE) for lang, of in factors.items()})

    def multiplier(of: Mix, lang: str) -> float:
        return of.weights[lang] * of.scale_divisor / 2**of.scale_bits

    weighed = {lang: multiplier(raised, lang) * size for lang, size in SIZES.items()}
    assert sum(weighed.values()) == pytest.approx(sum(SIZES.values()), rel=1e-6)
    for lang in SIZES:
        by = multiplier(raised, lang) / multiplier(begin, lang) / (multiplier(raised, "en") / multiplier(begin, "en"))
        assert by == pytest.approx(factors.get(lang, ONE) / factors.get("en", ONE), rel=1e-6)


def follow(answers: Sequence[dict[str, int]], target: str = "1.5") -> tuple[Mix, int, list[Mix]]:
    """learn_by_premium where round N takes the tokens answers[N]: the mix, the place of what was taken, all mixes."""
    seen: list[Mix] = []

    def learn(of: Mix) -> int:
        seen.append(of)
        return len(seen) - 1

    odd = OddLines({lang: [lang.encode()] for lang in answers[0]}, "0" * 64)
    chosen, learned = learn_by_premium(
        mix(SIZES, SIZES), SIZES, odd, Decimal(target), learn, lambda number, lines: answers[number][lines[0].decode()]
    )
    return chosen, learned, seen


def test_the_best_round_stays():
    begin, worse, best = ({"en": 100, "de": 150, "km": km} for km in (300, 290, 200))
    chosen, place, seen = follow([begin, worse, best, worse, best, begin])
    assert (place, chosen.weights) == (2, seen[2].weights)
    assert chosen.parameters["round"] == 3
    assert chosen.parameters["parallel_tokens"] == best
    assert chosen.parameters["parallel_tokens_at_first"] == begin
    assert (chosen.parameters["above_target"], chosen.parameters["reference"]) == ("km", "en")
    # Where all are at the target, the fewest tokens decide, and then the first round.
    above, near, fewer = {"en": 100, "de": 200}, {"en": 100, "de": 149}, {"en": 99, "de": 140}
    chosen, place, seen = follow([above, near, fewer, near, fewer, near])
    assert (place, chosen.parameters["above_target"]) == (2, "")


def test_only_languages_above_the_target_are_raised():
    chosen, _, seen = follow([{"en": 100, "de": 150, "km": 300}] * ROUNDS)
    assert len(seen) == 3
    first, last = seen[0], seen[-1]
    ratio = {lang: Fraction(last.weights[lang], first.weights[lang]) for lang in SIZES}
    assert float(ratio["km"] / ratio["en"]) == pytest.approx(3, rel=1e-6)  # the most that it may be
    assert float(ratio["de"] / ratio["en"]) == pytest.approx(1, rel=1e-6)
    assert float(ratio["code"] / ratio["en"]) == pytest.approx(1, rel=1e-6)  # which has no parallel text
    assert first.weights == mix(SIZES, SIZES).weights
    assert chosen.parameters["alpha"] == "0.7"


def test_rounds_end_where_no_weight_moves():
    chosen, place, seen = follow([{"en": 100, "de": 150}] * ROUNDS)
    assert (place, len(seen), chosen.parameters["rounds"], chosen.parameters["round"]) == (0, 1, 1, 1)
    capped = [{"en": 100, "km": 450}] * ROUNDS
    _, place, seen = follow(capped)  # twice, then three times, the most
    assert (place, len(seen)) == (0, 3)


def test_text_of_one_language_is_not_enough():
    with pytest.raises(
        LearnError, match=r"mix.parallel: has text of 1 of the languages .* it has en, xx, and the corp"
    ):
        learn_by_premium(
            mix(SIZES, SIZES), SIZES, take_odd_lines({"en": [b"a"], "xx": [b"b"]}), Decimal(2), lambda of: 0, len
        )


def test_even_lines_and_compression_change_nothing():
    files = {"en.txt": b"one\ntwo\nthree\n", "de.txt": b"eins\nzwei\ndrei"}
    others = {
        "en.txt": b"one\n2\nthree",
        "de.txt.zst": zstandard.ZstdCompressor().compress(b"eins\n2\ndrei\n"),
        "index.json": b"{}",
    }
    first, second = (take_odd_lines(parse_parallel_text(of, of.__getitem__, "x")) for of in (files, others))
    assert first == second
    assert first.lines == {"de": [b"eins", b"drei"], "en": [b"one", b"three"]}
    files["de.txt"] = b"eins\nzwei\nvier"
    assert take_odd_lines(parse_parallel_text(files, files.__getitem__, "x")).sha256 != first.sha256


def test_files_of_unequal_length_are_named():
    files = {"en.txt": b"one\ntwo", "de.txt": b"eins"}
    with pytest.raises(ConfigError, match=r"x: en\.txt has 2 lines, de has 1"):
        parse_parallel_text(files, files.__getitem__, "x")
