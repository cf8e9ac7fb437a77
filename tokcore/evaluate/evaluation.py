"""All measures of several tokenizers on the same texts, as values that JSON knows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tokcore.evaluate.boundaries import NO_COUNTS, Places, tell_boundaries
from tokcore.evaluate.digit_cuts import measure_digits
from tokcore.evaluate.overlap import IdCounts, measure_overlap
from tokcore.evaluate.prediction import measure_prediction
from tokcore.evaluate.residues import measure_residues
from tokcore.evaluate.spread import DIGITS, compute_efficiency, find_quantile
from tokcore.evaluate.token_starts import find_token_starts
from tokcore.evaluate.word_cuts import LEAST_WORDS, count_words, draw_words, measure_retention, probe_words
from tokcore.tokenizer.tokenizer import Tokenizer

_BATCH_BYTES = 1 << 20


def evaluate(
    tokenizers: Mapping[str, Tokenizer],
    texts: Mapping[str, Sequence[bytes]],
    advance: Callable[[int], None] = lambda _: None,
    *,
    threads: int = 1,
) -> dict[str, Any]:
    """{name: {measure: figure, ..., "languages": {lang: {...}}}}: measures are those of tokcore.evaluate.measures.

    texts: language -> texts, UTF-8; at least one that is not empty. advance: told bytes of text measured, for each
    tokenizer. A figure is None where the texts, or the tokenizer, do not have what it is about. "prediction" is
    tokcore.evaluate.prediction's; what is of parallel text is left to tokcore.evaluate.spread. Memory: the words and
    the ids of each language that occur.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> told = evaluate({"own": Tokenizer.load("out/first")}, {"en": [b"low lower lowest"]})
    >>> told["own"]["bytes_per_token"], told["own"]["used_share"]
    (2.666667, 0.019157)
    """
    counts = {name: _Counts(one) for name, one in tokenizers.items()}
    for lang in sorted(texts):
        for batch in _cut_into_batches(texts[lang]):
            places = Places(batch)
            for one in counts.values():
                one.add(lang, batch, places)
            advance(len(tokenizers) * sum(map(len, batch)))
        for one in counts.values():
            one.end_language(lang)
    words = {lang: count_words(of) for lang, of in sorted(texts.items())}
    drawn = {lang: draw_words(of) for lang, of in words.items() if len(of) >= LEAST_WORDS}
    predicted = measure_prediction(tokenizers, texts, threads)
    told = {}
    for name, tokenizer in tokenizers.items():
        languages = {
            lang: {
                **of,
                "retention": measure_retention(tokenizer, words[lang]),
                "typos": probe_words(tokenizer, drawn[lang]) if drawn.get(lang) else None,
            }
            for lang, of in counts[name].tell_languages().items()
        }
        told[name] = {
            **counts[name].tell(),
            **_sum_up_languages(languages),
            **measure_digits(tokenizer),
            "prediction": predicted[name],
            "languages": languages,
        }
    return told


class _Counts:
    """What one tokenizer makes of the texts, as integers that grow, a language after the other."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        special = np.array(sorted(tokenizer.specials.values()), np.int64)
        self._ids = np.union1d(tokenizer.spec.model.ids.astype(np.int64), special)
        self._current = np.zeros(len(self._ids), np.int64)  # how often each is written in the language that is read
        self._written: dict[str, IdCounts] = {}
        self._sizes: Counter[str] = Counter()
        self._boundaries = NO_COUNTS

    def add(self, lang: str, batch: Sequence[bytes], places: Places) -> None:
        encoded = self._tokenizer.encode_strings(batch)
        self._current += np.bincount(np.searchsorted(self._ids, encoded.ids), minlength=len(self._ids))
        self._sizes[lang] += sum(map(len, batch))
        self._boundaries = self._boundaries + places.count(find_token_starts(self._tokenizer, batch, encoded))

    def end_language(self, lang: str) -> None:
        used = np.flatnonzero(self._current)
        self._written[lang] = IdCounts(self._ids[used], self._current[used])
        self._current[:] = 0

    def tell_languages(self) -> dict[str, dict[str, Any]]:
        tokens = {lang: int(of.counts.sum()) for lang, of in self._written.items()}
        return {
            lang: {"tokens": num, "bytes_per_token": _divide(self._sizes[lang], num)} for lang, num in tokens.items()
        }

    def tell(self) -> dict[str, Any]:
        model, specials = self._tokenizer.spec.model, {*self._tokenizer.specials.values()}
        written = np.zeros(len(self._ids), np.int64)
        for of in self._written.values():
            written[np.searchsorted(self._ids, of.ids)] += of.counts
        ordinary = written[np.searchsorted(self._ids, model.ids)]
        known = np.array([id not in specials for id in model.ids.tolist()])
        efficiency = compute_efficiency(ordinary[known].tolist(), int(known.sum()))
        return {
            "tokens": int(written.sum()),
            "bytes_per_token": _divide(self._sizes.total(), int(written.sum())),
            "renyi": efficiency["renyi"],
            "shannon": efficiency["shannon"],
            "used": efficiency["used"],
            "used_share": _divide(efficiency["used"], efficiency["vocabulary"]),
            **tell_boundaries(self._boundaries),
            **measure_residues(model, ordinary.tolist()),
            **measure_overlap(self._written),
        }


def _divide(some: int, every: int) -> float | None:
    return round(some / every, DIGITS) if every else None


def _sum_up_languages(languages: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Means over languages; of words, over those that have 20 or more."""
    kept = [one["retention"] for one in languages.values() if one["retention"] is not None]
    typos = [one["typos"] for one in languages.values() if one["typos"] is not None]

    def average(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return round(statistics.fmean(known), DIGITS) if known else None

    return {
        "bytes_per_token_mean": average([one["bytes_per_token"] for one in languages.values()]),
        "retention": average(kept),
        "retention_p10": round(find_quantile(sorted(kept), 0.1), DIGITS) if kept else None,
        "typos_kept": average([one["kept_share"] for one in typos]),
        "typos_growth": average([one["one_edit"] / one["tokens_per_word"] for one in typos if one["tokens_per_word"]]),
    }


def _cut_into_batches(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start = size = 0
    for end, text in enumerate(texts, 1):
        size += len(text)
        if size >= _BATCH_BYTES or end == len(texts):
            yield texts[start:end]
            start, size = end, 0
