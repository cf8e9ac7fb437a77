"""Documents from a place on, and searches among them that give what they find as they find it.

A search ends after 100 hits, or when the client has gone; where it ended, the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tokcore.labels import Labels
from tokcore.odd_tokens import spell_token
from tokcore.shards import Shards
from tokcore.token_batch import Ids, TokenBatch
from tokcore.tokenizer import Tokenizer

MOST_HITS = 100

_NEWS_SECONDS = 0.5  # between two lines that say how far a search is
_CONTEXT_BYTES = 48
_CONTEXT_IDS = 8

Hit = dict[str, Any]
Find = Callable[[TokenBatch, int], Iterator[Hit]]  # in the rows of a batch from a number on


def scan_batches(shards: Shards, start: int) -> Iterator[tuple[int, TokenBatch, int]]:
    """(number of the first document, batch, first row that counts) of all batches that hold documents from start on."""
    number = 0
    for file in shards.list_files():
        if number + file.num_documents <= start:
            number += file.num_documents
            continue
        sources: Labels | None = None
        row = 0
        for batch in file.open().batches():
            if sources is None and not any(batch.sources.names) and (provenance := file.find_provenance()):
                sources = provenance.sources
            end = row + batch.num_documents
            if number + end > start:
                named = batch if sources is None else batch._replace(sources=sources[row:end])
                yield number + row, named, max(start - number - row, 0)
            row = end
        number += file.num_documents


def search(shards: Shards, start: int, find: Find) -> Iterator[Hit]:
    """Hits, {"scanned": documents} now and then, and last {"next": where to go on} or {"done": true}."""
    hits = 0
    said = time.monotonic()
    for first, batch, row in scan_batches(shards, start):
        for hit in find(batch, row):
            hit["number"] = first + hit.pop("row")
            yield hit
            hits += 1
            if hits >= MOST_HITS:
                following = hit["number"] + 1
                yield {"next": following} if following < len(shards) else {"done": True}
                return
        if (now := time.monotonic()) - said >= _NEWS_SECONDS:
            said = now
            yield {"scanned": first + batch.num_documents}
    yield {"done": True}


def find_language(lang: str) -> Find:
    """Documents of a language; of every language if it is empty."""

    def find(batch: TokenBatch, row: int) -> Iterator[Hit]:
        of = np.arange(batch.num_documents) if not lang else batch.langs.by_label().get(lang, np.zeros(0, np.int64))
        for i in of[of >= row].tolist():
            yield _describe(batch, i)

    return find


def find_document_id(text: str) -> Find:
    """Documents whose id is this text, or contains it."""

    def find(batch: TokenBatch, row: int) -> Iterator[Hit]:
        for i in range(row, batch.num_documents):
            name = batch.ids[i]
            if name is not None and text in name:
                yield _describe(batch, i)

    return find


def find_token(id: int, tokenizer: Tokenizer) -> Find:
    """Documents that hold an id, with the ids around its first occurrence."""

    def find(batch: TokenBatch, row: int) -> Iterator[Hit]:
        offsets = batch.offsets - batch.offsets[0]
        places = np.flatnonzero(batch.tokens == id)
        rows = np.searchsorted(offsets, places, side="right") - 1
        found, at, times = np.unique(rows, return_index=True, return_counts=True)
        for i, first, number in zip(found.tolist(), places[at].tolist(), times.tolist(), strict=True):
            if i >= row:
                start, end = (int(offsets[i]), int(offsets[i + 1]))
                low, high = max(first - _CONTEXT_IDS, start), min(first + 1 + _CONTEXT_IDS, end)
                parts = (batch.tokens[low:first], batch.tokens[first : first + 1], batch.tokens[first + 1 : high])
                yield {
                    **_describe(batch, i),
                    "times": number,
                    "token": first - start,
                    "context": [_spell(tokenizer, part) for part in parts],
                }

    return find


def find_text(text: str, tokenizer: Tokenizer) -> Find:
    """Documents whose text holds this text, with what is around its first occurrence."""
    wanted = text.encode("utf-8", "surrogateescape")

    def find(batch: TokenBatch, row: int) -> Iterator[Hit]:
        for i in range(row, batch.num_documents):
            start, end = (int(place - batch.offsets[0]) for place in batch.offsets[i : i + 2])
            data = tokenizer.decode(batch.tokens[start:end])
            if (at := data.find(wanted)) >= 0:
                after = at + len(wanted)
                parts = (data[max(at - _CONTEXT_BYTES, 0) : at], wanted, data[after : after + _CONTEXT_BYTES])
                yield {
                    **_describe(batch, i),
                    "times": data.count(wanted),
                    "byte": at,
                    "context": [spell_token(part)[1:-1] for part in parts],
                }

    return find


def _describe(batch: TokenBatch, i: int) -> Hit:
    return {
        "row": i,
        "id": batch.ids[i],
        "lang": batch.langs[i],
        "source": batch.sources[i],
        "tokens": int(batch.offsets[i + 1] - batch.offsets[i]),
    }


def _spell(tokenizer: Tokenizer, ids: Ids) -> str:
    return spell_token(tokenizer.decode(ids))[1:-1]
