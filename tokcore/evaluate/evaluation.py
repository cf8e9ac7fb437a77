"""All measures of several tokenizers on the same texts, as values that JSON knows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """What one tokenizer makes of the texts, as integers that grow."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        special = np.array(sorted(tokenizer.specials.values()), np.int64)
        self._ids = np.union1d(tokenizer.spec.model.ids.astype(np.int64), special)
        self._written: dict[str, npt.NDArray[np.int64]] = {}
        self._sizes: dict[str, int] = {}
        self._boundaries = NO_COUNTS

    def add(self, lang: str, batch: Sequence[bytes], places: Places) -> None:
        encoded = self._tokenizer.encode_strings(batch)
        written = np.bincount(np.searchsorted(self._ids, encoded.ids), minlength=len(self._ids))
        self._written[lang] = self._written.get(lang, 0) + written
        self._sizes[lang] = self._sizes.get(lang, 0) + sum(map(len, batch))
        self._boundaries = self._boundaries + places.count(find_token_starts(self._tokenizer, batch, encoded))

    def tell_languages(self) -> dict[str, dict[str, Any]]:
        tokens = {lang: int(written.sum()) for lang, written in self._written.items()}
        return {
            lang: {"tokens": num, "bytes_per_token": round(self._sizes[lang] / num, DIGITS)}
            for lang, num in tokens.items()
            if num
        }

    def tell(self) -> dict[str, Any]:
        model = self._tokenizer.spec.model
        written = sum(self._written.values(), np.zeros(len(self._ids), np.int64))
        efficiency = compute_efficiency(written.tolist(), len(model.ids))
        ids = {lang: IdCounts(self._ids[of > 0], of[of > 0]) for lang, of in self._written.items()}
        return {
            "tokens": int(written.sum()),
            "bytes_per_token": round(sum(self._sizes.values()) / int(written.sum()), DIGITS),
            "renyi": efficiency["renyi"],
            "shannon": efficiency["shannon"],
            "used": efficiency["used"],
            "used_share": round(efficiency["used"] / efficiency["vocabulary"], DIGITS),
            **tell_boundaries(self._boundaries),
            **measure_residues(model, written[np.searchsorted(self._ids, model.ids)].tolist()),
            **measure_overlap(ids),
        }


def _sum_up_languages(languages: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Means over languages; of words, over those that have 20 or more."""
    kept = [one["retention"] for one in languages.values() if one["retention"] is not None]
    typos = [one["typos"] for one in languages.values() if one["typos"] is not None]

    def average(values: Sequence[float]) -> float | None:
        return round(statistics.fmean(values), DIGITS) if values else None

    return {
        "bytes_per_token_mean": average([one["bytes_per_token"] for one in languages.values()]),
        "retention": average(kept),
        "retention_p10": round(find_quantile(sorted(kept), 0.1), DIGITS) if kept else None,
        "typos_kept": average([one["kept_share"] for one in typos]),
        "typos_growth": average([one["one_edit"] / one["tokens_per_word"] for one in typos]),
    }


def _cut_into_batches(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start = size = 0
    for end, text in enumerate(texts, 1):
        size += len(text)
        if size >= _BATCH_BYTES or end == len(texts):
            yield texts[start:end]
            start, size = end, 0
