"""Bytes per token, characters per token and tokens per word, of every tokenizer: by language, source and script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.text.scripts import SCRIPTS
from tokcore_pipelines.look.report.estimates import Drawing
from tokcore_pipelines.look.report.shard_pass import Amount, DrawnText, ShardPass
from tokcore_pipelines.look.report.text_measures import Amounts, Measured

# More files than this are told by their folders.
_MOST_FILES = 100


def group_sources(amounts: Mapping[tuple[str, str], Amount]) -> dict[str, str]:
    """Source -> what the report calls it: its URI, or its folder where there are more than 100 files.

    >>> group_sources({("en", f"texts/{i}.txt"): Amount() for i in range(101)})["texts/7.txt"]
    'texts/'
    """
    sources = {source for _, source in amounts}
    if len(sources) <= _MOST_FILES:
        return {source: source for source in sources}
    return {source: source[: source.rfind("/") + 1] or source for source in sources}


def compare_tokenizers(
    names: Sequence[str], read: ShardPass, texts: Sequence[DrawnText], measured: Measured, drawing: Drawing
) -> dict[str, Any]:
    """{"languages": ..., "sources": ..., "scripts": ..., "all": ...}: group -> sizes and a row for each tokenizer."""
    langs = np.array([text.lang for text in texts], object)
    called = group_sources(read.amounts)
    sources = np.array([called[text.source] for text in texts], object)
    base = (measured.text_bytes, measured.characters, measured.words)

    def describe(among: npt.NDArray[np.bool_] | None) -> dict[str, Any]:
        chosen = np.ones(len(texts), bool) if among is None else among
        rows = {
            name: _estimate(drawing, base, tokens, among, partial)
            for name, tokens, partial in zip(names, measured.tokens, measured.partial, strict=True)
        }
        return {**_count(chosen, measured, drawing), "tokenizers": rows}

    return {
        "all": describe(None),
        "languages": {lang: describe(langs == lang) for lang in sorted(set(langs))},
        "sources": {source: describe(sources == source) for source in sorted(set(sources))},
        "scripts": _compare_by_script(names, measured, drawing),
    }


def _count(chosen: npt.NDArray[np.bool_], measured: Measured, drawing: Drawing) -> dict[str, int]:
    return {
        "drawn_texts": int(chosen.sum()),
        "drawn_documents": int(drawing.copies[chosen].sum()),
        "drawn_bytes": int((measured.text_bytes * drawing.copies)[chosen].sum()),
    }


def _estimate(
    drawing: Drawing,
    base: tuple[Amounts, Amounts, Amounts],
    tokens: Amounts,
    among: npt.NDArray[np.bool_] | None,
    partial: Amounts | None,
) -> dict[str, Any]:
    text_bytes, characters, words = base
    told = {
        "bytes_per_token": drawing.estimate(text_bytes, tokens, among),
        "characters_per_token": drawing.estimate(characters, tokens, among),
        "tokens_per_word": drawing.estimate(tokens, words, among),
    }
    if partial is not None:
        told["partial_share"] = drawing.estimate(partial, tokens, among)
    return told


def _compare_by_script(names: Sequence[str], measured: Measured, drawing: Drawing) -> dict[str, Any]:
    found = {}
    text_bytes, characters, words = measured.by_script
    for number, script in enumerate(SCRIPTS):
        if not text_bytes[:, number].any():
            continue
        base = (text_bytes[:, number], characters[:, number], words[:, number])
        found[script] = {
            "drawn_texts": int((characters[:, number] > 0).sum()),
            "drawn_bytes": int((text_bytes[:, number] * drawing.copies).sum()),
            "tokenizers": {
                name: _estimate(drawing, base, tokens[:, number], None, None)
                for name, tokens in zip(names, measured.tokens_by_script, strict=True)
                if tokens is not None
            },
        }
    return found


def find_copies(texts: Sequence[DrawnText]) -> dict[str, dict[str, int]]:
    """Language -> drawn texts, their documents, texts that several documents have, documents beyond the first."""
    found: dict[str, Counter[str]] = {}
    for text in texts:
        of = found.setdefault(text.lang, Counter(texts=0, documents=0, repeated_texts=0, extra_documents=0))
        of.update(texts=1, documents=text.copies)
        of.update(repeated_texts=int(text.copies > 1), extra_documents=text.copies - 1)
    return {lang: dict(of) for lang, of in sorted(found.items())}
