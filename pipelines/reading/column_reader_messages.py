"""What a reader process and its parent say to each other. No pickle: the reader has hostile bytes in its memory.

A message is a letter, a length and a body. The parent asks for a file. The reader asks for bytes of it, gives batches,
and says how it ended. Bytes and batches travel through a piece of memory that both share, which costs a tenth of what a
pipe costs; a batch that is too large for it is the body of its message. The parent answers each use of that memory, so
only one of them writes to it.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import struct
import tempfile
from typing import Annotated, Any, BinaryIO, TypeVar

import numpy as np

from tokcore.errors import FormatError
from tokcore.files.jsonable import Place, Read, from_jsonable
from tokcore.shards.labels import Labels
from tokcore.text.texts import Texts
from tokcore_pipelines.reading.records import Batch, Reject
from tokcore_schemas.plan import ReadSettings

SHARED_BYTES = 1 << 23

# From the parent.
REQUEST = b"?"  # a Request
DONE = b"d"  # what was asked for is in the shared memory; or a batch was taken out of it
# From the reader.
READ = b"r"  # position, length: wants these bytes of the file
BATCH = b"b"  # a batch, in the shared memory if the body says no more than its length
REJECTED = b"x"  # a Rejected
FAILED = b"f"  # a defect of ours: traceback
END = b"e"

PLACE = struct.Struct("<QQ")
_HEAD = struct.Struct("<cQ")
_LENGTH = struct.Struct("<Q")


T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """The parent wants the batches of a file."""

    settings: ReadSettings
    size_bytes: int  # of the file
    memory_bytes: int  # address space that the reader may have
    kept_bytes: int  # limits.KEPT_BYTES
    in_memory_bytes: int  # limits.IN_MEMORY_BYTES
    start: int = 0  # rows to read: those of the row groups that begin in [start, end)
    end: int = 0  # 0: the whole file, which is read to its end first


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """The file is rejected whole, as FileRejected says."""

    reason: str
    detail: str


def _read_ids(value: Any, place: Place) -> list[str] | None:
    """As Batch has them. Looked at all together: there is one for each document."""
    if value is None or (type(value) is list and set(map(type, value)) <= {str}):
        return value
    raise place.error("null or a list of str", value)


def _read_values(value: Any, place: Place) -> list[Any]:
    """The values of a field, as Batch has them."""
    if type(value) is list and set(map(type, value)) <= {str, int, float, bool, type(None)}:
        return value
    raise place.error("a list of strings, numbers and booleans", value)


@dataclasses.dataclass(frozen=True, slots=True)
class _BatchHead:
    """What of a batch is no array."""

    texts: int  # how many
    ids: Annotated[list[str] | None, Read(_read_ids)]
    groups: Annotated[list[str] | None, Read(_read_ids)]
    langs: tuple[str, ...]
    rejects: tuple[tuple[int | None, str, str, str], ...]  # the fields of Reject
    records: int
    fields: dict[str, Annotated[list[Any], Read(_read_values)]] = dataclasses.field(default_factory=dict)


def write_body(message: Request | Rejected | _BatchHead) -> bytes:
    """The body of such a message."""
    return json.dumps(message, default=_list_fields).encode()


def _list_fields(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}


def read_body(cls: type[T], body: bytes) -> T:
    """The message of such a body. Raises FormatError if it is none: the sender may have been taken over."""
    name = f"{cls.__name__.strip('_')} of a reader process"
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: {error}") from error
    return from_jsonable(cls, value, name)


def create_shared_file() -> int:
    """Descriptor of the memory that both sides share."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("reader")
    else:
        with tempfile.TemporaryFile() as named:
            file = os.dup(named.fileno())
    os.truncate(file, SHARED_BYTES)
    return file


def send(pipe: BinaryIO, kind: bytes, *parts: Any) -> None:
    """Write one message; parts: buffers."""
    pipe.write(_HEAD.pack(kind, _measure(parts)))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def receive(pipe: BinaryIO) -> tuple[bytes, bytes]:
    """Read one message: (kind, body). Raises EOFError if the other side has ended."""
    head = pipe.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    kind, length = _HEAD.unpack(head)
    body = pipe.read(length)
    if len(body) < length:
        raise EOFError
    return kind, body


def send_batch(pipe: BinaryIO, shared: mmap.mmap, batch: Batch) -> None:
    """Give a batch to the parent, which must have answered all that was sent before."""
    parts = _pack(batch)
    if (size_bytes := _measure(parts)) > SHARED_BYTES:
        send(pipe, BATCH, *parts)
        return
    at = 0
    for part in parts:
        shared[at : at + len(part)] = part
        at += len(part)
    send(pipe, BATCH, _LENGTH.pack(size_bytes))


def take_batch(body: bytes, shared: mmap.mmap) -> Batch:
    """The batch of a BATCH message. Raises FormatError for another form, ValueError if its parts do not fit."""
    if len(body) == _LENGTH.size:
        body = shared[: _LENGTH.unpack(body)[0]]
    (length,) = _LENGTH.unpack_from(body)
    head = read_body(_BatchHead, body[8 : 8 + length])
    num, at = head.texts, 8 + length
    offsets = np.frombuffer(body, np.int64, num + 1, at)
    ordinals = np.frombuffer(body, np.int64, num, at + offsets.nbytes)
    codes = np.frombuffer(body, np.int32, num, at + offsets.nbytes + ordinals.nbytes)
    data = np.frombuffer(body, np.uint8, -1, at + offsets.nbytes + ordinals.nbytes + codes.nbytes)
    if offsets[0] != 0 or offsets[-1] != len(data) or (np.diff(offsets) < 0).any():
        raise ValueError("a reader process sent texts that lie outside of their batch")
    if head.ids is not None and len(head.ids) != num:
        raise ValueError(f"a reader process sent {len(head.ids)} ids of {num} texts")
    if head.groups is not None and len(head.groups) != num:
        raise ValueError(f"a reader process sent {len(head.groups)} groups of {num} texts")
    if any(len(values) != num for values in head.fields.values()):
        raise ValueError(f"a reader process sent fields of another number of documents than {num}")
    return Batch(
        texts=Texts(data, offsets),
        ids=head.ids,
        langs=Labels(head.langs, codes),
        ordinals=ordinals,
        rejects=[Reject(*reject) for reject in head.rejects],
        num_records=head.records,
        groups=head.groups,
        fields=head.fields,
    )


def _pack(batch: Batch) -> list[Any]:
    texts, langs = batch.texts, batch.langs
    head = _BatchHead(
        texts.num_texts,
        batch.ids,
        batch.groups,
        langs.names,
        tuple(batch.rejects),
        batch.num_records,
        dict(batch.fields),
    )
    told = write_body(head)
    told += b" " * (-len(told) % 8)  # what follows is aligned
    arrays: tuple[Any, ...] = (texts.offsets, batch.ordinals, langs.codes, texts.data)
    return [_LENGTH.pack(len(told)), told, *(memoryview(array).cast("B") for array in arrays if array.nbytes)]


def _measure(parts: Any) -> int:
    return sum(map(len, parts))
