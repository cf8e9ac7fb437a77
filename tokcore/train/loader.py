"""Batches of rows for training, from token shards in any format: shuffled, mixed, dealt to ranks, resumable.

A row is `length` ids that follow each other over documents and shards; what is left at the end, fewer than `length`
ids, is in no row. No torch is imported; `torch.utils.data.DataLoader(loader, batch_size=None, num_workers=n)` works.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError
from tokcore.formats.partition_names import find_partition, pick_keys
from tokcore.kernel import IdParts
from tokcore.shards.opened_shards import OpenableShard, open_shards
from tokcore.shards.token_batch import Ids
from tokcore.train.removed_documents import RemovedNames, read_removed_names
from tokcore.train.row_order import RowOrder, Rows, check_weights, find_keys
from tokcore.train.row_streams import RowReader, RowStream
from tokcore.train.weights_file import read_whole_weights

# Rows that are looked up together: what a row costs is then a copy of its ids.
CHUNK_ROWS = 8192

# Batches that are read ahead where each read is a request.
_READ_AHEAD = 8

_VERSION = 1


class Batch(NamedTuple):
    """What a step gives a rank.

    tokens: int32, (rows, length). cu_seqlens: int32, ascending from 0 to rows * length: the bounds of documents in the
    rows back to back; each row begins one. step: its number, from 0. loss_mask: of a loader that masks, and of rows
    from which documents were removed in place, uint8, (rows, length): 0 where padding took the place of a removed
    document, else 1.
    """

    tokens: Ids
    cu_seqlens: Ids
    step: int
    loss_mask: npt.NDArray[np.uint8] | None = None


class Loader:
    """Batches of rows, one for each step: len(loader), loader[step], and iteration.

    Row k of the order goes to rank (k // batch_size) % world_size. The last step may have fewer rows, on some ranks
    none: every row is given once. Pickles by its paths; memory does not grow with the corpus, but for 8 bytes per
    document of open shards in formats other than Megatron's.

    >>> from tokcore.train.loader import Loader
    >>> loader = Loader("out/first", length=4, batch_size=2, shuffle=False)
    >>> len(loader), loader[0].tokens.tolist(), loader[0].cu_seqlens.tolist()
    (1, [[257, 258, 259, 258], [260, 83, 261, 257]], [0, 4, 7, 8])
    """

    _chunk: tuple[int, _Chunk] | None  # the steps that were looked up last
    _num_steps: int

    def __init__(
        self,
        url: str | os.PathLike[str],
        length: int,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = True,
        mixture: Mapping[str, int] | str | os.PathLike[str] | None = None,
        split: str = "train",
        read_ahead: int | None = None,
        at: int | None = None,
        removed: Literal["", "mask"] = "",
        padding: int = 0,
    ) -> None:
        """url: what open_shards takes. length: ids of a row. batch_size: rows of a step on one rank.

        seed, epoch: decide the order; another epoch, another order. mixture: language -> integer weight, or partition,
        as topic=code/quality=3, all of the same keys; or a file of weights, as tokcore.train.weights_file reads it.
        Rows of each come in proportion to its weight, and again when all have been given; what is not named, or has the
        weight 0 in a file, is not read. An epoch has as many rows as those that are named have together. read_ahead:
        batches that are read before they are asked for, while iterating; None: 8 if shards are read at a URL, where
        each read is a request, and else none. at: as for open_shards.

        removed: "mask" puts the id padding in the place of documents that a later commit has removed, and gives each
        batch a loss_mask; rows keep their number, so a state that was saved before goes on. Where rows hold padding in
        the place of documents that were removed in place, there is a loss_mask without it.

        Raises ConfigError for arguments that do not fit together or a corpus of less than one row, and what open_shards
        raises.
        """
        for name, value, least in (("length", length, 1), ("batch_size", batch_size, 1), ("world_size", world_size, 1)):
            if value < least:
                raise ConfigError(f"{name} = {value}: must be at least {least}")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank = {rank}: must be from 0 to {world_size - 1}, world_size - 1")
        for name, number in (("epoch", epoch), ("read_ahead", read_ahead or 0)):
            if number < 0:
                raise ConfigError(f"{name} = {number}: must be at least 0")
        self.length, self.batch_size, self.rank, self.world_size = length, batch_size, rank, world_size
        self._seed, self._epoch, self._shuffle = seed, epoch, shuffle
        if isinstance(mixture, (str, os.PathLike)):
            mixture = read_whole_weights(os.fspath(mixture))
        self._mixture = dict(sorted(mixture.items())) if mixture is not None else None
        if removed not in ("", "mask"):
            raise ConfigError(f'removed = {removed!r:.80}: expected "mask", or "" for none')
        if not 0 <= padding < 2**31:
            raise ConfigError(f"padding = {padding}: expected an id, from 0 to 2^31 - 1")
        self._padding = padding if removed else None
        names = read_removed_names(os.fspath(url)) if removed else None
        files = open_shards(url, split, at=at).list_files()
        self._masks = bool(removed) or any(file.has_gaps for file in files)
        is_remote = any(file.files and not file.cache for file in files)
        self._read_ahead = read_ahead if read_ahead is not None else _READ_AHEAD * is_remote
        self._streams = _make_streams(files, self._mixture, names)
        for stream in self._streams:
            stream.align(length)
        self._sizes = [stream.num_tokens // length for stream in self._streams]
        for stream, size in zip(self._streams, self._sizes, strict=True):
            if not size:
                raise ConfigError(f"{url}: {stream.num_tokens} ids{stream.name}: no row of length = {length}")
        self._first = 0  # row of the order at which step 0 begins
        self._given = 0  # steps of the last iteration
        self._forget()

    @property
    def num_rows(self) -> int:
        """The rows of an epoch, on all ranks together.

        >>> loader.num_rows
        2
        """
        return sum(self._sizes)

    @property
    def num_full_steps(self) -> int:
        """The steps in which every rank gets batch_size rows.

        >>> loader.num_full_steps
        1
        """
        return (self.num_rows - self._first) // (self.batch_size * self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch at its first row.

        >>> loader.set_epoch(0)
        """
        if epoch < 0:
            raise ConfigError(f"epoch = {epoch}: must be at least 0")
        self._epoch, self._first, self._given = epoch, 0, 0
        self._forget()

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """What continues after some steps, on any number of ranks: rows consumed, and what their order depends on.

        step: steps that were given on each rank; None: those of the last iteration in this process. Workers of a
        DataLoader iterate in other processes: there, give the last batch's step + 1.

        >>> loader.state_dict(1)["rows"]
        2
        """
        steps = self._given if step is None else step
        if not 0 <= steps <= len(self):
            raise ConfigError(f"step = {steps}: there are {len(self)} steps")
        rows = min(self.num_rows, self._first + steps * self.batch_size * self.world_size)
        return {"version": _VERSION, "rows": rows, "epoch": self._epoch, **self._describe_order()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the rows that a state has consumed, whatever its world_size and batch_size were.

        Raises ConfigError if its rows were in another order: other shards, seed, length, shuffle or mixture.

        >>> loader.load_state_dict(loader.state_dict(1))
        >>> len(loader)
        0
        >>> loader.set_epoch(0)
        """
        told = {"version": _VERSION, **self._describe_order()}
        for name, value in told.items():
            if state.get(name) != value:
                raise ConfigError(f"the state has {name} = {state.get(name)!r:.80}, this loader {value!r:.80}")
        rows = state["rows"]
        if not 0 <= rows <= self.num_rows:
            raise ConfigError(f"the state has rows = {rows}: there are {self.num_rows}")
        self._epoch, self._first, self._given = state["epoch"], rows, 0
        self._forget()

    def _describe_order(self) -> dict[str, Any]:
        return {
            "seed": self._seed,
            "length": self.length,
            "shuffle": self._shuffle,
            "mixture": self._mixture,
            "num_rows": self.num_rows,
        }

    def __len__(self) -> int:
        return self._num_steps

    def __iter__(self) -> Iterator[Batch]:
        self._given = 0
        for step, batch in enumerate(self._iterate_ahead() if self._read_ahead else map(self.__getitem__, self._steps)):
            self._given = step + 1
            yield batch

    @property
    def _steps(self) -> range:
        return range(len(self))

    def _iterate_ahead(self) -> Iterator[Batch]:
        """All batches in order. Threads read those that come next, as many as read_ahead says."""
        waiting: deque[Future[Batch]] = deque()
        # Shards are opened, and rows are found, in this thread.
        with ThreadPoolExecutor(self._read_ahead, "tokcore-loader") as threads:
            try:
                for step in self._steps:
                    waiting.append(threads.submit(self._find_batch(step)))
                    if len(waiting) > self._read_ahead:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for one in waiting:
                    one.cancel()

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step. Raises IndexError, and FormatError naming a damaged shard."""
        if not 0 <= step < self._num_steps:
            raise IndexError(f"step {step} of {self._num_steps}")
        return self._find_batch(step)()

    def _find_batch(self, step: int) -> Callable[[], Batch]:
        """What reads the batch of a step."""
        steps = max(1, CHUNK_ROWS // self.batch_size)
        number = step // steps
        if self._chunk is None or self._chunk[0] != number:
            self._chunk = (number, self._look_up(range(number * steps, min(len(self), (number + 1) * steps))))
        return functools.partial(self._chunk[1].take, step - number * steps, step)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in ("_order", "_chunk")}
        return {**state, "_streams": [stream.close() for stream in self._streams]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __repr__(self) -> str:
        each = f"{self.batch_size} rows of {self.length} ids"
        return f"<Loader: {len(self)} steps of {each} on each of {self.world_size} ranks>"

    def _forget(self) -> None:
        weights = list(self._mixture.values()) if self._mixture is not None else None
        self._order = RowOrder(self._sizes, self._seed, self._epoch, self._shuffle, weights)
        self._chunk = None
        self._num_steps = -(-(self.num_rows - self._first) // (self.batch_size * self.world_size))

    def _find_rows(self, steps: Rows) -> tuple[Rows, Rows]:
        """The first position in the order of each step of this rank, and the one after its last."""
        # Blocks of batch_size rows are counted from row 0, unless another batch_size has consumed part of one.
        odd = self._first % self.batch_size
        block = self._first // self.batch_size + steps * self.world_size
        block += (self.rank - block) % self.world_size
        start = odd + block * self.batch_size
        return np.minimum(start, self.num_rows), np.minimum(start + self.batch_size, self.num_rows)

    def _look_up(self, steps: range) -> _Chunk:
        starts, ends = self._find_rows(np.arange(steps.start, steps.stop))
        sizes = ends - starts
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        streams, rows = self._order(np.repeat(starts, sizes) + within)
        return _Chunk(self._streams, streams, rows, sizes, self.length, self._masks, self._padding)


def _make_streams(
    files: Sequence[OpenableShard], mixture: Mapping[str, int] | None, removed: RemovedNames | None
) -> list[RowStream]:
    """All shards as one stream, or one for each language or partition of a mixture."""
    if mixture is None:
        return [RowStream(files, "", removed)]
    keys = find_keys(mixture)
    by_name: dict[str, list[OpenableShard]] = {}
    for file in files:
        folder = Path(file.path).parent
        by_name.setdefault(pick_keys(find_partition(folder), keys) if keys else folder.name, []).append(file)
    check_weights(mixture, sorted(filter(None, by_name)))
    return [RowStream(by_name[name], f" of {name}", removed) for name in mixture]


class _Chunk:
    """Some steps, looked up: where the ids of each row are, and the bounds of documents in it."""

    def __init__(
        self,
        streams: Sequence[RowStream],
        of_rows: Rows,
        rows: Rows,
        sizes: Rows,
        length: int,
        masks: bool = False,
        padding: int | None = None,
    ) -> None:
        """of_rows: the stream of each row. rows: numbers in the streams. sizes: rows of each step.

        masks: whether there are loss masks. padding: takes the place of removed documents; None: what is there stays.
        """
        self._length = length
        self._masks = masks
        self._padding = padding
        self._masked: list[tuple[Rows, Rows]] = []  # from where to where, as if all rows were back to back
        self._sizes = sizes.tolist()
        self._readers: list[RowReader] = []
        # On a rank without rows there are no others.
        self._found = [_Pieces(*[np.zeros(0, np.int64)] * len(_Pieces._fields))]
        for number, stream in enumerate(streams):
            where = np.flatnonzero(of_rows == number)
            self._look_up(stream, where, rows[where] * length)
        pieces = self._sort_pieces()
        # Pieces follow each other as their ids do in the rows.
        self._parts = _make_parts(self._readers, pieces)
        last_rows = np.cumsum(sizes)
        self._last = np.searchsorted(pieces.rows, last_rows).tolist()
        self._bounds, self._last_bounds = self._find_bounds(pieces, sizes * length)
        self._last_ids = (last_rows * length).tolist()

    def _look_up(self, stream: RowStream, where: Rows, begins: Rows) -> None:
        """Note the pieces of rows, and the bounds in them. begins: of rows, in ids of the stream."""
        ends = begins + self._length
        shard = np.searchsorted(stream.starts, begins, side="right") - 1
        at = np.zeros(len(where), np.int64)  # ids of a row that are found
        while len(where):
            for number in np.unique(shard).tolist():
                own = np.flatnonzero(shard == number)
                first, last = int(stream.starts[number]), int(stream.starts[number + 1])
                if last > first:
                    start, end = begins[own] + at[own] - first, np.minimum(ends[own], last) - first
                    self._add(stream.open(number), where[own], at[own], start, end)
                    self._mask(stream.find_removed(number), where[own] * self._length + at[own], start, end)
                    at[own] += end - start
            more = np.flatnonzero(begins + at < ends)
            where, begins, ends, shard, at = where[more], begins[more], ends[more], shard[more] + 1, at[more]

    def _add(self, reader: RowReader, rows: Rows, at: Rows, start: Rows, end: Rows) -> None:
        """Note pieces of a shard, from start to end, each of which is at a place in its row."""
        counts, places = reader.find_bounds(start, end)
        readers = np.full(len(rows), len(self._readers))
        self._readers.append(reader)
        places = places + np.repeat(rows * self._length + at - start, counts)
        self._found.append(_Pieces(rows, at, readers, start, end, counts, places))

    def _mask(self, removed: tuple[Rows, Rows], places: Rows, start: Rows, end: Rows) -> None:
        """Note what is removed of pieces of a shard, from start to end, each of which begins at a place."""
        first = np.searchsorted(removed[1], start, side="right")
        counts = np.maximum(np.searchsorted(removed[0], end) - first, 0)
        piece = np.repeat(np.arange(len(start)), counts)
        which = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts) + first[piece]
        moved = (places - start)[piece]
        begins, ends = np.maximum(removed[0][which], start[piece]), np.minimum(removed[1][which], end[piece])
        self._masked.append((begins + moved, ends + moved))

    def _sort_pieces(self) -> _Pieces:
        """All pieces in the order of rows, but their bounds in the order in which pieces were found."""
        *columns, places = map(np.concatenate, zip(*self._found, strict=True))
        order = np.lexsort((columns[1], columns[0]))
        counts = columns[-1]
        begins = (np.cumsum(counts) - counts)[order]
        rows, at, readers, starts, ends, counts = (column[order] for column in columns)
        moved = np.arange(len(places)) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return _Pieces(rows, at, readers, starts, ends, counts, places[moved])

    def _find_bounds(self, pieces: _Pieces, ids: Rows) -> tuple[Ids, list[int]]:
        """Bounds of each step, each once, as if its rows were back to back, with the end of the last; where they end.

        ids: of each step.
        """
        # Each piece begins with a bound: of its row, or of its shard. Each step ends with one.
        counts = pieces.counts + 1
        heads = np.cumsum(counts) - counts
        keys = np.empty(int(counts.sum()), np.int64)
        keys[heads] = pieces.rows * self._length + pieces.at
        others = np.ones(len(keys), bool)
        others[heads] = False
        keys[others] = pieces.places
        # Empty documents have their bounds at one place.
        fresh = np.ones(len(keys), bool)
        fresh[1:] = keys[1:] != keys[:-1]
        keys = keys[fresh]
        step_ends = np.cumsum(ids)
        last = np.searchsorted(keys, step_ends)
        of_steps = np.diff(last, prepend=0)
        within = keys - np.repeat(step_ends - ids, of_steps)
        bounds = np.insert(within, last, ids).astype(np.int32)
        return bounds, (last + np.arange(1, len(last) + 1)).tolist()

    def take(self, number: int, step: int) -> Batch:
        """The batch of one of the steps."""
        tokens = np.empty((self._sizes[number], self._length), np.int32)
        self._parts.copy(self._last[number - 1] if number else 0, self._last[number], tokens.reshape(-1))
        first = self._last_bounds[number - 1] if number else 0
        bounds = self._bounds[first : self._last_bounds[number]].copy()
        return Batch(tokens, bounds, step, self._mask_tokens(tokens, self._last_ids[number] - tokens.size))

    def _mask_tokens(self, tokens: Ids, begin: int) -> npt.NDArray[np.uint8] | None:
        """The loss mask of a step whose ids begin there; None if nothing is to be masked. Puts padding into tokens."""
        if not self._masks:
            return None
        mask = np.ones(tokens.size, np.uint8)
        for starts, ends in self._masked:
            own = (starts < begin + tokens.size) & (ends > begin)
            for start, end in zip(starts[own].tolist(), ends[own].tolist(), strict=True):
                mask[max(0, start - begin) : end - begin] = 0
        if self._padding is not None:
            tokens.reshape(-1)[mask == 0] = self._padding
        return mask.reshape(tokens.shape)


class _Pieces(NamedTuple):
    """Parts of rows, each in one shard: the row, where in it, the reader, and from where to where it is there.

    counts: bounds of documents within each. places: of those bounds, as if all rows were back to back.
    """

    rows: Rows
    at: Rows
    readers: Rows
    starts: Rows
    ends: Rows
    counts: Rows
    places: Rows


class _ReadParts:
    """Parts of shards whose formats make copies of them: as kernel.IdParts, of mapped ones."""

    def __init__(self, readers: Sequence[RowReader], pieces: _Pieces) -> None:
        of_pieces = map(readers.__getitem__, pieces.readers.tolist())
        self._parts = list(zip(of_pieces, pieces.starts.tolist(), pieces.ends.tolist(), strict=True))

    def copy(self, first: int, last: int, ids: Ids) -> Ids:
        if first < last:
            parts = [reader.part(start, end) for reader, start, end in self._parts[first:last]]
            np.concatenate(parts, out=ids, casting="same_kind")
        return ids


def _make_parts(readers: Sequence[RowReader], pieces: _Pieces) -> IdParts | _ReadParts:
    mapped = [ids for reader in readers if (ids := reader.mapped) is not None]
    if len(mapped) < len(readers):
        return _ReadParts(readers, pieces)
    return IdParts(mapped, pieces.readers, pieces.starts, pieces.ends)
