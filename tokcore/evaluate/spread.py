"""How evenly ids are used, and how evenly languages pay: entropies, quantiles, the Gini coefficient."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

ALPHA = 2.5  # of the Rényi efficiency, as Zouhar et al. (2023) found it to predict best
DIGITS = 6  # of a figure, after the point


def compute_efficiency(counts: Sequence[int], vocab_size: int) -> dict[str, Any]:
    """Rényi and Shannon entropy of the ids that are used, as shares of the logarithm of the vocabulary's size.

    >>> compute_efficiency([5, 5, 5, 5], 4)
    {'renyi': 1.0, 'shannon': 1.0, 'used': 4, 'vocabulary': 4}
    """
    used = [count for count in counts if count]
    total = sum(used)
    if not total or vocab_size < 2:
        return {"renyi": None, "shannon": None, "used": len(used), "vocabulary": vocab_size}
    shares = [count / total for count in used]
    most = math.log(vocab_size)
    renyi = math.log(math.fsum(share**ALPHA for share in shares)) / (1 - ALPHA)
    shannon = -math.fsum(share * math.log(share) for share in shares)
    return {
        "renyi": round(renyi / most, DIGITS),
        "shannon": round(shannon / most, DIGITS),
        "used": len(used),
        "vocabulary": vocab_size,
    }


def summarize_premiums(tokens: Mapping[str, int], reference: str) -> dict[str, Any]:
    """Premiums, their median and 90th percentile over all other languages, and the Gini coefficient of the tokens.

    >>> told = summarize_premiums({"en": 10, "sw": 20, "km": 50}, "en")
    >>> told["premiums"], told["median"], told["p90"], told["gini"]
    ({'en': 1.0, 'sw': 2.0, 'km': 5.0}, 3.5, 4.7, 0.333333)
    """
    base = max(tokens[reference], 1)
    premiums = {lang: round(number / base, DIGITS) for lang, number in tokens.items()}
    others = sorted(number / base for lang, number in tokens.items() if lang != reference)
    return {
        "premiums": premiums,
        "median": round(statistics.median(others), DIGITS),
        "p90": round(find_quantile(others, 0.9), DIGITS),
        "gini": round(compute_gini(list(tokens.values())), DIGITS),
    }


def find_quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of ascending values, between two of them by their distance.

    >>> find_quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def compute_gini(values: Sequence[int]) -> float:
    """The Gini coefficient: 0 if all are equal, near 1 if one has all.

    >>> compute_gini([5, 5, 5]), compute_gini([0, 0, 0, 12])
    (0.0, 0.75)
    """
    ordered = sorted(values)
    total = sum(ordered)
    if not total:
        return 0.0
    weighted = sum((2 * place - len(ordered) - 1) * value for place, value in enumerate(ordered, 1))
    return weighted / (len(ordered) * total)
