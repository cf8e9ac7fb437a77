"""Documents from a place on, and searches among them that give what they find as they find it.

A search ends after 100 hits, or when the client has gone; where it ended, the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tokcore.formats.provenance import Provenance
from tokcore.look.odd_tokens import spell_token
from tokcore.look.token_search import TokenSearcher
from tokcore.shards.opened_shards import ShardDocument, Shards
from tokcore.shards.token_batch import Ids, TokenBatch
from tokcore.tokenizer.tokenizer import Tokenizer

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
        provenance: Provenance | None = None
        row = 0
        for batch in file.open().batches():
            if provenance is None and not any(batch.sources.names):
                provenance = file.find_provenance()
            end = row + batch.num_documents
            if number + end > start:
                if provenance is not None:
                    batch = batch._replace(sources=provenance.sources[row:end], ordinals=provenance.ordinals[row:end])
                yield number + row, batch, max(start - number - row, 0)
            row = end
        number += file.num_documents


def find_record(shards: Shards, wanted: ShardDocument) -> int | None:
    """The number of the first document of the same record; None if there is none. Reads shards until it is found."""
    for first, batch, _ in scan_batches(shards, 0):
        if wanted.source not in batch.sources.names:
            continue
        rows = np.flatnonzero(batch.sources.codes == batch.sources.names.index(wanted.source))
        if wanted.id is None:
            found = rows[batch.ordinals[rows] == wanted.ordinal].tolist()
        else:
            found = [row for row in rows.tolist() if batch.ids[row] == wanted.id]
        if found:
            return first + int(found[0])
    return None


def is_same_record(one: ShardDocument, other: ShardDocument) -> bool:
    """Whether two documents are of one record: by source and id, or its number where the source names no ids.

    Numbers alone would not do: they depend on how a build cuts its files.
    """
    same = one.ordinal == other.ordinal if one.id is None else one.id == other.id
    return same and one.source == other.source


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


def find_text(text: str, tokenizer: Tokenizer, searcher: TokenSearcher | None) -> Find:
    """Documents whose text holds this text, with what is around its first occurrence.

    searcher: of the tokenizer; it says which documents are worth decoding. Without it all are.
    """
    wanted = text.encode("utf-8", "surrogateescape")
    looked_for = None if searcher is None else searcher.look_for(wanted)

    def find(batch: TokenBatch, row: int) -> Iterator[Hit]:
        offsets = batch.offsets - batch.offsets[0]
        rows = np.arange(batch.num_documents)
        if looked_for is not None:
            rows = np.unique(np.searchsorted(offsets, looked_for.find(batch.tokens), side="right") - 1)
        for i in rows[rows >= row].tolist():
            ids = batch.tokens[offsets[i] : offsets[i + 1]]
            data = tokenizer.decode(ids)
            if (at := data.find(wanted)) >= 0:
                after = at + len(wanted)
                parts = (data[max(at - _CONTEXT_BYTES, 0) : at], wanted, data[after : after + _CONTEXT_BYTES])
                starts = tokenizer.offsets(ids).bytes[:, 0]
                yield {
                    **_describe(batch, i),
                    "times": data.count(wanted),
                    "byte": at,
                    "token": int(np.searchsorted(starts, at, side="right")) - 1,
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
