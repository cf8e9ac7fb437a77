"""Token shards as trainers read them: one sequence of documents over all files of a build or a folder.

Leaves to others: the formats (tokcore.formats) and whether the files are the committed ones (tokcore verify).
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

from tokcore.errors import FormatError, IdentityError
from tokcore.formats.arrow_shards import ArrowShard
from tokcore.formats.megatron import BIN, DOCUMENTS, IDX, MegatronShard
from tokcore.token_batch import Ids

SPLITS = ("train", "validation", "all")

# Shards that are kept open at a time, each a memory map and an index.
MAX_OPEN = 64


class ShardDocument(NamedTuple):
    """Where a document came from: source and ordinal name the record; id is None where the source names none."""

    id: str | None
    lang: str
    source: str
    ordinal: int


class _Shard(Protocol):
    def __len__(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    def tokens(self, row: int) -> Ids: ...
    def columns(self, row: int) -> tuple[str | None, str, str, int]: ...


class Shards(Sequence[Ids]):
    """Documents of several shards, in the order of the files; shards[i] is an int32 array, read-only.

    From `.bin` files the arrays are views of the mapped file. Files are opened when a document of theirs is asked
    for. Pickles by its paths; use one instance a thread.
    """

    def __init__(self, paths: Sequence[str], sizes: Sequence[int] | None = None) -> None:
        """paths: .arrow or .bin files. sizes: documents of each, where a manifest tells; else every file is opened."""
        self.paths = tuple(paths)
        self._open = functools.lru_cache(MAX_OPEN)(_open_shard)
        sizes = [len(self._open(path)) for path in self.paths] if sizes is None else sizes
        self._starts = [0, *accumulate(sizes)]
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | list[Ids]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        shard, row = self._find(index)
        return shard.tokens(row)

    def __iter__(self) -> Iterator[Ids]:
        return (self[i] for i in range(len(self)))

    def document(self, index: int) -> ShardDocument:
        """id, lang, source and ordinal of a document."""
        shard, row = self._find(index)
        return ShardDocument(*shard.columns(row))

    @property
    def fingerprint(self) -> str:
        """Of the tokenizer that wrote all of them; "" if there is no shard. Raises IdentityError if they differ."""
        if self._fingerprint is None:
            found = {self._open(path).fingerprint: path for path in self.paths}
            if len(found) > 1:
                one, other = sorted(found.values())[:2]
                raise IdentityError(f"{one} and {other} were written with different tokenizers")
            self._fingerprint = next(iter(found), "")
        return self._fingerprint

    @property
    def num_tokens(self) -> int:
        """Of all documents; opens every file."""
        return sum(len(tokens) for tokens in self)

    def _find(self, index: int) -> tuple[_Shard, int]:
        index = operator.index(index)
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        # bisect_right: of several empty shards that start here, the last one holds the document
        low, high = 0, len(self._starts)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._starts[middle] <= position else (low, middle)
        shard = self._open(self.paths[low - 1])
        if len(shard) != self._starts[low] - self._starts[low - 1]:
            raise FormatError(f"{self.paths[low - 1]}: {len(shard)} documents, its manifest says another number")
        return shard, position - self._starts[low - 1]

    def __reduce__(self) -> tuple[Any, ...]:
        sizes = [end - start for start, end in zip(self._starts, self._starts[1:], strict=False)]
        return Shards, (self.paths, sizes)

    def __repr__(self) -> str:
        return f"<Shards: {len(self)} documents in {len(self.paths)} files>"


def open_shards(path: str, split: str = "train") -> Shards:
    """The shards at a local path: a build's output, a folder of shards, or one .arrow or .bin file.

    split: train, validation or all; a single file is opened whatever it holds. Where a manifest is there, only what
    it names is read. Of a build that wrote both formats, the `.bin` files are taken.
    Raises FormatError if there are no shards or one is damaged.
    """
    if split not in SPLITS:
        raise ValueError(f"split = {split!r}: expected one of {', '.join(SPLITS)}")
    place = Path(path)
    if place.is_dir():
        found = _named(place)
        if found is None:
            found = [(str(file), None, file.name) for file in sorted(place.rglob("*")) if _is_shard(file.name)]
        if not found:
            raise FormatError(f"{path}: no shards in it. Is the build finished?")
        if any(name.endswith(BIN) for _, _, name in found):
            found = [entry for entry in found if entry[2].endswith(BIN)]
        chosen = [
            entry for entry in found if split == "all" or entry[2].startswith(split + "-") or not _planned(entry[2])
        ]
        sizes = [size for _, size, _ in chosen if size is not None]
        return Shards([file for file, _, _ in chosen], sizes if len(sizes) == len(chosen) else None)
    for suffix in ("", BIN):
        if Path(path + suffix).is_file():
            return Shards([str(path).removesuffix(IDX) + BIN if path.endswith(IDX) else path + suffix])
    raise FormatError(f"{path}: there is no such file or folder")


def describe(path: str) -> dict[str, Any]:
    """What the header of one shard says: format, tokenizer, documents, tokens."""
    shards = open_shards(path, split="all")
    if len(shards.paths) != 1:
        raise FormatError(f"{path}: a folder of {len(shards.paths)} shards; name one of them")
    return {
        "path": shards.paths[0],
        "format": "megatron" if shards.paths[0].endswith(BIN) else "arrow",
        "dtype": "int32",
        "documents": len(shards),
        "tokens": shards.num_tokens,
        "tokenizer": shards.fingerprint,
    }


def _named(place: Path) -> list[tuple[str, int | None, str]] | None:
    """(path, documents, file name) of the shards below place that the nearest manifest names, in its order."""
    if (place / "shards" / "manifest.json").is_file():
        place = place / "shards"
    for root in (place, *place.parents[:3]):
        manifest = root / "manifest.json"
        if not manifest.is_file():
            continue
        try:
            content = json.loads(manifest.read_bytes())
            if content["stage"] != "shards":
                return None
            files = [(root / entry["path"], entry["about"]["documents"]) for entry in content["files"]]
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{manifest}: not a manifest of shards: {error!r}") from error
        return [
            (str(file), documents, file.name)
            for file, documents in files
            if _is_shard(file.name) and file.is_relative_to(place)
        ]
    return None


def _is_shard(name: str) -> bool:
    return name.endswith(BIN) or (name.endswith(".arrow") and not name.endswith(DOCUMENTS))


def _planned(name: str) -> bool:
    return name.startswith(("train-", "validation-"))


def _open_shard(path: str) -> _Shard:
    return MegatronShard(path.removesuffix(BIN)) if path.endswith(BIN) else ArrowShard(path)
