"""Weights that follow the premium: languages that pay too much for the same sentences get more, round by round.

A round learns a tokenizer and counts its tokens for parallel sentences. A language's premium is its tokens divided by
those of a reference. The weight of one above the target is then raised, that of one below is lowered, but never below
the weight that it began with. All numbers are integers and fractions, so every machine gets the same weights: see
docs/reference/mixing.md. Within a round weights do not move, so rounds may learn in any way that learning may.
Leaves to others: the weights to begin with (language_weights), the sentences (parallel_text), learning (models).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeVar

from tokcore.errors import LearnError
from tokcore.learn.language_weights import Mix, raise_weights
from tokcore.learn.parallel_names import pair_languages
from tokcore.learn.parallel_text import FIRST_REFERENCES, OddLines

DEFAULT_TARGET = Decimal("1.5")
ROUNDS = 6  # of learning, at most; the first one has the weights to begin with
EXPONENT = 4  # of premium / target, which a round multiplies a language's factor by
MOST_IN_A_ROUND = 2  # the most that a round multiplies or divides a factor by
MOST = 3  # the largest factor
ONE = 1 << 16  # a factor of 1: factors are whole multiples of 2**-16

_MOST_NAMED = 12

Learned = TypeVar("Learned")


class Round(NamedTuple):
    """What a round gave. number: from 1. tokens: language -> its tokens for the odd lines."""

    number: int
    tokens: dict[str, int]
    reference: str
    target: Decimal

    @property
    def above(self) -> list[str]:
        """The languages whose premium is above the target, the highest first."""
        most = Fraction(self.target) * max(1, self.tokens[self.reference])
        return sorted((lang for lang, num in self.tokens.items() if num > most), key=lambda lang: -self.tokens[lang])


def learn_by_premium(
    mix: Mix,
    sizes_bytes: Mapping[str, int],
    odd: OddLines,
    target: Decimal,
    learn: Callable[[Mix], Learned],
    count_tokens: Callable[[Learned, Sequence[bytes]], int],
    on_round: Callable[[Round], None] = lambda told: None,
) -> tuple[Mix, Learned]:
    """The mix of the best round, and what was learned with it.

    mix: the weights to begin with. learn: what is learned with a mix. count_tokens: its tokens for some lines.
    Of the rounds, the one with the smallest excess is taken; of several, the one with the fewest tokens in all, then
    the first.
    Raises LearnError if fewer than two languages have parallel text.
    """
    named = pair_languages(sorted(mix.weights), odd.lines.keys())
    langs = [*named]
    if len(langs) < 2:
        raise LearnError(
            f"mix.parallel: has text of {len(langs)} of the languages that are learned from, and two are needed: it "
            f"has {_name(sorted(odd.lines))}, and the corpus {_name(sorted(mix.weights))}. A file is named as the "
            f"corpus names its language, or as FLORES-200 does: sw.txt, swh_Latn.txt"
        )
    reference = choose_reference(langs, sizes_bytes)
    factors = dict.fromkeys(langs, ONE)
    rounds: list[Round] = []
    best: tuple[tuple[Fraction, int], Mix, Learned, Round] | None = None
    for number in range(1, ROUNDS + 1):
        mixed = raise_weights(mix, sizes_bytes, {lang: Fraction(factors[lang], ONE) for lang in langs})
        learned = learn(mixed)
        tokens = {lang: count_tokens(learned, odd.lines[named[lang]]) for lang in langs}
        rounds.append(Round(number, tokens, reference, target))
        on_round(rounds[-1])
        judged = compute_excess(tokens, reference, target), sum(tokens.values())
        if best is None or judged < best[0]:
            best = judged, mixed, learned, rounds[-1]
        moved = move_factors(factors, tokens, reference, target)
        if moved == factors:  # the next round would give the same
            break
        factors = moved
    assert best is not None
    _, mixed, learned, chosen = best
    told: dict[str, str | int | dict[str, int]] = {
        "target_premium": format(target.normalize(), "f"),
        "parallel_sha256": odd.sha256,
        "parallel_lines": len(odd.lines[named[reference]]),
        "reference": reference,
        "rounds": len(rounds),
        "round": chosen.number,
        "above_target": " ".join(chosen.above),
        "parallel_tokens": chosen.tokens,
        "parallel_tokens_at_first": rounds[0].tokens,
    }
    return dataclasses.replace(mixed, parameters={**mix.parameters, "strategy": "parity", **told}), learned


def choose_reference(langs: list[str], sizes_bytes: Mapping[str, int]) -> str:
    """The language that the others are compared with: English, or else the one with most text, or the first such.

    >>> choose_reference(["de", "en"], {"de": 9, "en": 1}), choose_reference(["de", "fr"], {"de": 1, "fr": 9})
    ('en', 'fr')
    """
    named = [lang for lang in FIRST_REFERENCES if lang in langs]
    return named[0] if named else min(langs, key=lambda lang: (-sizes_bytes[lang], lang))


def compute_excess(tokens: Mapping[str, int], reference: str, target: Decimal) -> Fraction:
    """The objective: how far premiums are above the target, as a share of it; the sum over languages. Exact.

    >>> compute_excess({"en": 10, "de": 12, "km": 30}, "en", Decimal("1.5"))
    Fraction(1, 1)
    """
    most = Fraction(target) * max(1, tokens[reference])
    return sum((max(Fraction(0), num / most - 1) for num in tokens.values()), Fraction(0))


def move_factors(
    factors: Mapping[str, int], tokens: Mapping[str, int], reference: str, target: Decimal
) -> dict[str, int]:
    """The factors of the next round, in 2**-16: each times (premium / target)**4, within 1/2 and 2, and within 1 and 3.

    Rounded to the nearest, to even at a half.

    >>> move_factors({"en": ONE, "de": ONE, "km": 2 * ONE}, {"en": 10, "de": 16, "km": 15}, "en", Decimal("1.5"))
    {'en': 65536, 'de': 84839, 'km': 131072}
    """
    most = Fraction(target) * max(1, tokens[reference])
    moved = {}
    for lang, factor in factors.items():
        step = min(max((tokens[lang] / most) ** EXPONENT, Fraction(1, MOST_IN_A_ROUND)), Fraction(MOST_IN_A_ROUND))
        moved[lang] = min(max(round(factor * step), ONE), MOST * ONE)
    return moved


def describe_round(told: Round) -> str:
    """What a round gave, in a line.

    >>> describe_round(Round(2, {"en": 10, "km": 17, "de": 12}, "en", Decimal("1.5")))
    'round 2 of up to 6: premiums up to 1.700, above 1.5: km 1.700'
    """
    base = max(1, told.tokens[told.reference])
    premiums = {lang: f"{num / base:.3f}" for lang, num in told.tokens.items()}
    highest = max(told.tokens, key=lambda lang: told.tokens[lang])
    above = _name([f"{lang} {premiums[lang]}" for lang in told.above]) if told.above else "none"
    return f"round {told.number} of up to {ROUNDS}: premiums up to {premiums[highest]}, above {told.target}: {above}"


def describe_parity(mix: Mapping[str, object]) -> list[str]:
    """What the mix of a manifest says of premiums, a line or two; nothing if no weights followed them.

    >>> tokens = {"en": 10, "km": 17, "de": 12}
    >>> describe_parity({"reference": "en", "target_premium": "1.5", "parallel_tokens": tokens, "above_target": "km"})
    ['weights followed the premium: highest 1.700 (km), above 1.5: km 1.700']
    >>> describe_parity({"strategy": "natural"})
    []
    """
    tokens, reference = mix.get("parallel_tokens"), mix.get("reference")
    if not isinstance(tokens, dict) or not isinstance(reference, str):
        return []
    premiums = {lang: f"{num / max(1, tokens[reference]):.3f}" for lang, num in tokens.items()}
    highest = max(tokens, key=lambda lang: (tokens[lang], lang))
    above = [f"{lang} {premiums[lang]}" for lang in str(mix["above_target"]).split()]
    return [
        f"weights followed the premium: highest {premiums[highest]} ({highest}), above {mix['target_premium']}: "
        f"{_name(above)}"
    ]


def _name(names: Iterable[str]) -> str:
    listed = [*names]
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"{', '.join(listed[:_MOST_NAMED]) or 'none'}{more}"
