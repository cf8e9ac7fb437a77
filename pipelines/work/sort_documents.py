"""Documents of one shard, sorted by id, then content: in memory while they are few, else in sorted files. No Beam."""

from __future__ import annotations

import contextlib
import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from tokcore_schemas.document import Document, compute_document_key

_SIZES = struct.Struct("<III")
_RECORD_BYTES = 200  # of a document beside its text, about


class Sortable(NamedTuple):
    """A document as it is compared: those without id come first."""

    has_id: bool
    id: bytes
    text: bytes
    lang: str


def choose_bucket(document: Document, num_buckets: int) -> int:
    """The bucket of a document, below num_buckets: by a hash of its language and id, or of its text if it has no id."""
    key = compute_document_key(document.lang, document.id, _get_bytes(document))
    return int.from_bytes(key[:8], "big") % num_buckets


@contextlib.contextmanager
def sort_documents(documents: Iterable[Document], memory_bytes: int) -> Iterator[SortedDocuments]:
    """The documents in order. They can be read any number of times while the block runs."""
    with contextlib.ExitStack() as stack:
        runs: list[IO[bytes]] = []
        waiting: list[Sortable] = []
        waiting_bytes = 0
        for document in documents:
            text = _get_bytes(document)
            waiting.append(Sortable(document.id is not None, (document.id or "").encode(), text, document.lang))
            waiting_bytes += len(text) + _RECORD_BYTES
            if waiting_bytes >= memory_bytes:
                waiting.sort()
                file = stack.enter_context(tempfile.TemporaryFile())
                for one in waiting:
                    _write(file, one)
                runs.append(file)
                waiting, waiting_bytes = [], 0
        waiting.sort()
        yield SortedDocuments(runs, waiting)


class SortedDocuments:
    """Iterates over documents in order."""

    def __init__(self, runs: list[IO[bytes]], rest: list[Sortable]) -> None:
        self._runs = runs
        self._rest = rest

    def __iter__(self) -> Iterator[Sortable]:
        for file in self._runs:
            file.seek(0)
        return heapq.merge(*map(_read, self._runs), self._rest)

    @property
    def num_runs(self) -> int:
        """How many sorted files there are."""
        return len(self._runs)


def _get_bytes(document: Document) -> bytes:
    return document.text.encode() if isinstance(document.text, str) else document.text


def _write(file: IO[bytes], one: Sortable) -> None:
    lang = one.lang.encode()
    # An id of None is told from an empty one by the top bit of the length of the language, which is short.
    file.write(_SIZES.pack(len(lang) | one.has_id << 31, len(one.id), len(one.text)) + lang + one.id + one.text)


def _read(file: IO[bytes]) -> Iterator[Sortable]:
    while head := file.read(_SIZES.size):
        lang, id, text = _SIZES.unpack(head)
        name = file.read(lang & 0x7FFFFFFF).decode()
        yield Sortable(bool(lang >> 31), file.read(id), file.read(text), name)
