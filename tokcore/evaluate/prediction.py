"""Bits per byte of tokenizers beside each other: among those of the same size, on texts that are dealt in two.

Vocabularies of different sizes are never compared: a larger one needs more text to learn from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tokcore.evaluate.ngram import Predictability, Predicted, Ratio, average, compare_predictability
from tokcore.evaluate.spread import DIGITS
from tokcore.tokenizer.tokenizer import Tokenizer

LEAST_TEXTS = 10  # different ones, of a language that is predicted
MOST_LARGER = 1.02  # times the smallest vocabulary of those that count as the same size
_PREDICTED = 5  # one text in five


class Dealt(NamedTuple):
    """The texts of a language: to learn from, and to predict."""

    learned: list[bytes]
    predicted: list[bytes]


def deal_texts(texts: Iterable[bytes]) -> Dealt:
    """Of the different texts, in the order of their sha256, every fifth is predicted. Empty ones are left out.

    >>> [len(part) for part in deal_texts(b"%d" % i for i in range(12))]
    [10, 2]
    """
    different = sorted({*texts} - {b""}, key=lambda text: hashlib.sha256(text).digest())
    predicted = different[_PREDICTED - 1 :: _PREDICTED]
    return Dealt([text for i, text in enumerate(different, 1) if i % _PREDICTED], predicted)


def group_sizes(sizes: Mapping[str, int]) -> list[list[str]]:
    """Names whose sizes differ by 2 % or less, the smallest first; of a group, in the order in which they are given.

    >>> group_sizes({"a": 32768, "b": 100277, "c": 32769})
    [['a', 'c'], ['b']]
    """
    groups: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: sizes[name]):
        if groups and sizes[name] <= MOST_LARGER * sizes[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    return [[name for name in sizes if name in group] for group in groups]


def measure_prediction(
    tokenizers: Mapping[str, Tokenizer], texts: Mapping[str, Sequence[bytes]], threads: int = 1
) -> dict[str, dict[str, Any]]:
    """Name -> {"beside": names of its size, "equal_data": ..., "equal_tokens": ..., "languages": {lang: the two}}.

    A figure is {"value", "margin"} in bits per byte; of all languages it is their mean, and None without any. Languages
    with fewer than ten different texts are left out. Of a language, "learned_tokens" and "context_bytes" stand beside
    each figure: the tokens that were learned from, and the mean bytes from which a token was predicted.
    """
    dealt = {lang: deal_texts(of) for lang, of in sorted(texts.items())}
    dealt = {lang: of for lang, of in dealt.items() if sum(map(len, of)) >= LEAST_TEXTS}
    told: dict[str, dict[str, Any]] = {}
    for group in group_sizes({name: tokenizer.vocab_size for name, tokenizer in tokenizers.items()}):
        predicted = compare_predictability(
            {name: tokenizers[name] for name in group},
            {lang: of.learned for lang, of in dealt.items()},
            {lang: of.predicted for lang, of in dealt.items()},
            threads=threads,
        )
        told |= {name: {"beside": group, **_tell(predicted[name])} for name in group}
    return told


def _tell(languages: Mapping[str, Predictability]) -> dict[str, Any]:
    means = {
        key: _round(average([getattr(one, key).bits_per_byte for one in languages.values()])) if languages else None
        for key in Predictability._fields
    }
    by_lang = {lang: {key: _tell_one(one) for key, one in both._asdict().items()} for lang, both in languages.items()}
    return {**means, "languages": by_lang}


def _tell_one(one: Predicted) -> dict[str, Any]:
    return {
        **_round(one.bits_per_byte),
        "learned_tokens": one.learned_tokens,
        "context_bytes": round(one.mean_context_bytes, DIGITS),
    }


def _round(ratio: Ratio) -> dict[str, float | None]:
    return {
        "value": round(ratio.value, DIGITS),
        "margin": None if ratio.margin is None else round(ratio.margin, DIGITS),
    }
