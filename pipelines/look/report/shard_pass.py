"""One pass over all shards of an output: exact totals, lengths of documents, and texts drawn by hash.

A text is drawn if the digest of its language and token ids is among the smallest of its language. So all copies of a
text are drawn together, and the same documents give the same draw whatever the order, the formats and the shards are.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.formats.provenance import get_provenance_path
from tokcore.models.model import Ids
from tokcore.shards.labels import Labels
from tokcore.shards.token_batch import TokenBatch, compute_document_digests
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.look.report.metadata_tally import MetadataTally
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote, find_main_files, open_provenance
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import ShardsManifest

# Lengths of contexts, in tokens, for which documents that fit are counted.
CONTEXTS = (512, 2048, 4096, 8192, 32_768, 131_072)

_DENSE_IDS = 1 << 22


@dataclasses.dataclass(slots=True)
class Amount:
    """Documents, their tokens (prepended and appended ones included), and the bytes that these spell."""

    documents: int = 0
    tokens: int = 0
    text_bytes: int = 0

    def add(self, lengths: npt.NDArray[np.int64], text_bytes: npt.NDArray[np.int64]) -> None:
        """Add documents, by the tokens and the bytes of each."""
        self.documents += len(lengths)
        self.tokens += int(lengths.sum())
        self.text_bytes += int(text_bytes.sum())


class DrawnText(NamedTuple):
    """A text that was drawn. copies: documents of its language that have just these ids; the rest is of the first."""

    key: int  # the first 8 bytes of its digest
    copies: int
    lang: str
    source: str
    document_id: str | None
    ids: Ids  # int32, without prepended and appended ones


class ShardPass(NamedTuple):
    """What one pass over all shards found. fits: language -> documents that are at most as long as each of CONTEXTS."""

    amounts: dict[tuple[str, str], Amount]  # (language, source) ->
    fits: dict[str, list[int]]
    drawn: dict[str, list[DrawnText]]  # language -> by key
    is_whole: dict[str, bool]  # language -> whether every text was drawn
    by_split: dict[tuple[str, str], Amount]  # (split, language) ->
    metadata: dict[str, dict[str, Any]]  # as MetadataTally.finish gives it


class _Draw:
    """The texts of one language with the smallest keys, all copies counted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[int, DrawnText] = {}
        self.limit = 1 << 64  # keys below it may still be drawn
        self.is_whole = True

    def add(self, key: int, make: Callable[[], DrawnText]) -> None:
        if (known := self._kept.get(key)) is not None:
            self._kept[key] = known._replace(copies=known.copies + 1)
            return
        self._kept[key] = make()
        if len(self._kept) > 2 * self._size:
            self._drop()

    def _drop(self) -> None:
        if len(self._kept) <= self._size:
            return
        keys = sorted(self._kept)
        self._kept = {key: self._kept[key] for key in keys[: self._size]}
        self.limit, self.is_whole = keys[self._size], False

    def finish(self) -> list[DrawnText]:
        self._drop()
        return [self._kept[key] for key in sorted(self._kept)]


def read_all_shards(
    parts: Sequence[tuple[str, ShardsManifest]], tokenizer: Tokenizer, sample: int, advance: Callable[[int], None]
) -> ShardPass:
    """Read every document once. parts: URL and shards of each part of an output.

    sample: texts to draw of each language. advance: told documents read.
    Memory: the drawn texts, and a number for each language and source. Raises FormatError for a damaged shard.
    """
    config = parts[0][1].config
    added = len(config.prepend), len(config.append)
    sizes = _Sizes(tokenizer)
    amounts: defaultdict[tuple[str, str], Amount] = defaultdict(Amount)
    by_split: defaultdict[tuple[str, str], Amount] = defaultdict(Amount)
    fits: dict[str, list[int]] = {}
    draws: dict[str, _Draw] = {}
    metadata = MetadataTally()
    batches = itertools.chain.from_iterable(_read_batches(url, list_named_shards(made)) for url, made in parts)
    for split, batch in batches:
        metadata.add(batch.metadata)
        lengths = np.diff(batch.offsets)
        text_bytes = sizes.add_up(batch)
        for lang, where in batch.langs.by_label().items():
            fit = fits.setdefault(lang, [0] * len(CONTEXTS))
            for i, context in enumerate(CONTEXTS):
                fit[i] += int((lengths[where] <= context).sum())
            by_split[split, lang].add(lengths[where], text_bytes[where])
            for source, of in batch.sources.take(where).by_label().items():
                amounts[lang, source].add(lengths[where[of]], text_bytes[where[of]])
        _draw_texts(batch, added, sample, draws)
        advance(batch.num_documents)
    drawn = {lang: draw.finish() for lang, draw in sorted(draws.items())}
    is_whole = {lang: draw.is_whole for lang, draw in draws.items()}
    return ShardPass(dict(amounts), fits, drawn, is_whole, dict(by_split), metadata.finish())


def _draw_texts(batch: TokenBatch, added: tuple[int, int], sample: int, draws: dict[str, _Draw]) -> None:
    digests = compute_document_digests(batch.langs, batch.tokens, batch.offsets - batch.offsets[0])
    keys = np.frombuffer(b"".join(digest[:8] for digest in digests), ">u8").astype(np.uint64)
    for lang, where in batch.langs.by_label().items():
        draw = draws.setdefault(lang, _Draw(sample))
        below = where if draw.limit == 1 << 64 else where[keys[where] < np.uint64(draw.limit)]
        for row in below.tolist():
            key = int(keys[row])
            if key < draw.limit:
                draw.add(key, lambda key=key, row=row: _take_text(batch, row, key, added))  # type: ignore[misc]


def _take_text(batch: TokenBatch, row: int, key: int, added: tuple[int, int]) -> DrawnText:
    start, end = (int(place - batch.offsets[0]) for place in batch.offsets[row : row + 2])
    ids = batch.tokens[start + added[0] : end - added[1]].copy()
    return DrawnText(key, 1, batch.langs[row], batch.sources[row], batch.ids[row], ids)


def _read_batches(output: str, shards: list[ShardRef]) -> Iterator[tuple[str, TokenBatch]]:
    """(split, documents) of all shards. Sources are beside shuffled shards, and nowhere of those of WriteShards."""
    for shard in shards:
        with copy_shard_if_remote(output, shard) as folder:
            file = find_main_files(shard, folder)[0]
            is_hidden = any(one.path == get_provenance_path(shard.facts.stem) for one in shard.files)
            sources: Labels | None = None
            row = 0
            for batch in file.open().batches():
                if sources is None and is_hidden and not any(batch.sources.names):
                    sources = open_provenance(file).sources
                end = row + batch.num_documents
                yield shard.facts.split, batch if sources is None else batch._replace(sources=sources[row:end])
                row = end


class _Sizes:
    """The bytes that the ids of each document spell; special tokens spell none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = tokenizer.spec.model
        self._ids, self._sizes = model.ids, model.sizes.astype(np.int64)
        self._dense: npt.NDArray[np.int64] | None = None
        if tokenizer.vocab_size <= _DENSE_IDS:
            self._dense = np.zeros(tokenizer.vocab_size, np.int64)
            self._dense[self._ids] = self._sizes

    def add_up(self, batch: TokenBatch) -> npt.NDArray[np.int64]:
        if self._dense is not None:
            of_ids = self._dense[batch.tokens]
        else:
            places = np.minimum(np.searchsorted(self._ids, batch.tokens), len(self._ids) - 1)
            of_ids = np.where(self._ids[places] == batch.tokens, self._sizes[places], 0)
        before = np.zeros(len(of_ids) + 1, np.int64)
        np.cumsum(of_ids, out=before[1:])
        found: npt.NDArray[np.int64] = np.diff(before[batch.offsets - batch.offsets[0]])
        return found
