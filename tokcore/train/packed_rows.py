"""Packed rows with their ids: documents in, rows of one length out, and which piece of which document is where.

Leaves to others: which piece goes into which row (tokcore.train.packing), and files
(tokcore_pipelines.work.pack_group).
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError
from tokcore.formats.pieces import Pieces
from tokcore.shards.labels import Labels, join_labels, label_strings, repeat_label
from tokcore.shards.token_batch import Ids, Offsets, TokenBatch, join_batches
from tokcore.train.packing import Cut, PackedRows, Strategy, pack

MIXED = "mul"  # language of a row with documents of several, as ISO 639-2 calls them
NONE = "zxx"  # of a row that is padding alone: no linguistic content

_BATCH_TOKENS = 1 << 20


class PackSettings(NamedTuple):
    """How rows are made."""

    length: int  # ids of a row
    strategy: Strategy
    cut: Cut
    keeps_last: bool  # whether the last row of all stays as short as it is
    padding: int  # id that fills rows


class Part(NamedTuple):
    """Documents of one shard that follow each other; or padding that takes the place of some that were removed."""

    shard: str  # [LANG/]SPLIT-ITEM-SHARD; empty: removed ones
    first: int  # number of the first one in the shard
    batch: TokenBatch
    skipped: int = 0  # ids of the first one that are in rows before these

    def slice(self, start: int, end: int) -> Part:
        """Documents start to end, end excluded, of those here."""
        return Part(self.shard, self.first + start, self.batch.slice(start, end))


def fill_gaps(lengths: Sequence[int], padding: int) -> Part:
    """Padding in the place of removed documents. lengths: of each, in ids. padding: the id."""
    num, offsets = len(lengths), np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    tokens, nothing = np.full(int(offsets[-1]), padding, np.int32), np.full(num, -1, np.int64)
    return Part(
        "", 0, TokenBatch(tokens, offsets, [None] * num, repeat_label(NONE, num), repeat_label("", num), nothing)
    )


class RowBatch(NamedTuple):
    """Some rows. rows: as documents without ids and sources. bounds: n + 1 positions in pieces, int64."""

    rows: TokenBatch
    bounds: Offsets
    pieces: Pieces

    def slice(self, start: int, end: int) -> RowBatch:
        """Rows start to end, end excluded, numbered as they were."""
        first, last = int(self.bounds[start]), int(self.bounds[end])
        bounds = self.bounds[start : end + 1] - first
        return RowBatch(self.rows.slice(start, end), bounds, self.pieces.slice(first, last))


def make_rows(parts: Iterable[Part], settings: PackSettings, is_last: bool) -> Iterator[RowBatch]:
    """The rows of these documents, which are packed together; numbered from 0.

    is_last: whether the last row is the last of all. Ids wait in a file without a name, so memory holds only what is
    known of each document. Raises ConfigError for a document that may not be cut, and is longer than a row: it names
    its place.
    """
    with _Waiting() as documents:
        for part in parts:
            documents.add(part)
        known = documents.finish()
        if settings.cut == "never" and settings.strategy != "concatenate":
            known.refuse_longer(settings.length)
        num = 0
        last: RowBatch | None = None
        whole = max(1, len(known.lengths))  # the caller has cut the windows
        for packed in pack([known.lengths], settings.length, settings.strategy, settings.cut, window=whole):
            step = max(1, _BATCH_TOKENS // settings.length)
            for start in range(0, packed.num_rows, step):
                if last is not None:
                    yield last
                end = min(start + step, packed.num_rows)
                last = _fill(known, documents, packed, start, end, num, settings)
                num += end - start
        if last is not None:
            yield _shorten_last(last, settings.length) if is_last and settings.keeps_last else last


class _Known(NamedTuple):
    """What is known of each document that waits, but its ids."""

    lengths: Offsets  # of those that go into these rows
    places: Offsets  # where they begin in the file, in ids
    skipped: Offsets
    shards: Labels
    numbers: Offsets
    names: TokenBatch  # as if all were empty

    def refuse_longer(self, length: int) -> None:
        wrong = np.flatnonzero(self.lengths > length)
        if len(wrong):
            i = int(wrong[0])
            id, source = self.names.ids[i], self.names.sources[i]
            told = [f"document {int(self.numbers[i])} of shard {self.shards[i]}"]
            told += [f"id {id!r}"] if id is not None else []
            told += [f"{source}, ordinal {int(self.names.ordinals[i])}"] if source else []
            raise ConfigError(
                f'pack.cut = "never": {", ".join(told)} has {int(self.lengths[i])} ids, a row has {length}. '
                f'Raise pack.length, or write cut = "long"'
            )


class _Waiting:
    """Documents until all that are packed together are there."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="tokcore-rows-")  # noqa: SIM115 (closed by __exit__)
        self._names: list[TokenBatch] = []
        self._lengths: list[Offsets] = []
        self._shards: list[Labels] = []
        self._numbers: list[Offsets] = []
        self._skipped: list[Offsets] = []

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, part: Part) -> None:
        batch, num = part.batch, part.batch.num_documents
        lengths = np.diff(batch.offsets)
        skipped = np.zeros(num, np.int64)
        if num:
            skipped[0] = part.skipped
        ids = batch.tokens[int(batch.offsets[0]) + part.skipped : int(batch.offsets[-1])]
        self._file.write(np.ascontiguousarray(ids, np.int32).data)
        self._names.append(batch.without_tokens()._replace(metadata=None))
        self._lengths.append(lengths - skipped)
        self._shards.append(repeat_label(part.shard, num))
        self._numbers.append(np.arange(part.first, part.first + num) if part.shard else np.full(num, -1))
        self._skipped.append(skipped)

    def finish(self) -> _Known:
        """All documents, whose ids can be read from now on."""
        none = [np.zeros(0, np.int64)]
        lengths = np.concatenate(none + self._lengths)
        self._file.flush()
        return _Known(
            lengths,
            np.cumsum(lengths) - lengths,
            np.concatenate(none + self._skipped),
            join_labels(self._shards or [repeat_label("", 0)]),
            np.concatenate(none + self._numbers),
            join_batches(self._names),
        )

    def read_ids(self, place: int, ids: Ids) -> None:
        """Fill an array with the ids that begin at a place. A map of the file would count as memory of the process."""
        left, at = ids.view(np.uint8).data, place * ids.itemsize
        while left:
            num = os.preadv(self._file.fileno(), [left], at)
            if not num:
                raise OSError(errno.EIO, "ids that wait to be packed are gone", tempfile.gettempdir())
            left, at = left[num:], at + num


def _fill(
    known: _Known, waiting: _Waiting, packed: PackedRows, start: int, end: int, first: int, settings: PackSettings
) -> RowBatch:
    """Rows start to end of some packed ones. first: the number of the first of them."""
    low, high = int(packed.bounds[start]), int(packed.bounds[end])
    bounds = packed.bounds[start : end + 1] - low
    documents, starts, lengths = (column[low:high] for column in packed[1:])
    tokens = np.full((end - start, settings.length), settings.padding, np.int32)
    flat = tokens.reshape(-1)
    rows = np.repeat(np.arange(end - start), np.diff(bounds))
    before = np.cumsum(lengths) - lengths
    targets = rows * settings.length + before - np.repeat(before[bounds[:-1]], np.diff(bounds))
    sources = known.places[documents] + starts
    for target, source, length in zip(targets.tolist(), sources.tolist(), lengths.tolist(), strict=True):
        waiting.read_ids(source, flat[target : target + length])
    names = known.names.take(documents.tolist())
    pieces = Pieces(
        rows + first,
        known.shards.take(documents),
        known.numbers[documents],
        starts + known.skipped[documents],
        lengths,
        list(names.ids),
        names.langs,
        names.sources,
        names.ordinals,
    )
    num = end - start
    batch = TokenBatch(
        flat,
        np.arange(num + 1, dtype=np.int64) * settings.length,
        [None] * num,
        _find_languages(names.langs, pieces.are_gaps, bounds),
        repeat_label("", num),
        np.arange(first, first + num, dtype=np.int64),
    )
    return RowBatch(batch, bounds, pieces)


def _find_languages(langs: Labels, are_gaps: npt.NDArray[np.bool_], bounds: Offsets) -> Labels:
    """The language of each row, or MIXED, or NONE. langs: of pieces, at least one in each row."""
    least = np.minimum.reduceat(np.where(are_gaps, len(langs.names), langs.codes), bounds[:-1])
    most = np.maximum.reduceat(np.where(are_gaps, -1, langs.codes), bounds[:-1])
    return label_strings(
        NONE if high < 0 else langs.names[low] if low == high else MIXED
        for low, high in zip(least.tolist(), most.tolist(), strict=True)
    )


def _shorten_last(batch: RowBatch, length: int) -> RowBatch:
    """The same rows, the last of them without its padding."""
    rows = batch.rows
    offsets = rows.offsets.copy()
    offsets[-1] -= length - int(batch.pieces.lengths[batch.bounds[-2] :].sum())
    return batch._replace(rows=rows._replace(tokens=rows.tokens[: int(offsets[-1])], offsets=offsets))
