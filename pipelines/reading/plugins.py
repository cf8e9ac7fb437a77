"""Input files by the readers of other distributions: records become documents, with the checks of all formats."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokcore.errors import FormatError, StageError
from tokcore.plugins.reader import READERS, Reader
from tokcore_pipelines.reading.fields import add_document, fill
from tokcore_pipelines.reading.records import Batch, BatchBuilder, FileRejected
from tokcore_schemas.field_template import list_paths
from tokcore_schemas.plan import ReadSettings


def find_reader(settings: ReadSettings) -> Reader:
    """The reader of a plan. Raises StageError unless it is installed here, in the version that the plan names."""
    found = READERS.find_version(settings.format)
    if found != settings.plugin:
        raise StageError(
            f"{settings.format}: the reader of the plan is that of {settings.plugin}, and here is "
            f"{found or 'none'}. Install {settings.plugin.replace(' ', '==')} wherever workers run."
        )
    return READERS[settings.format]


def read_records(reader: Reader, blocks: Iterable[bytes], settings: ReadSettings) -> Iterator[Batch]:
    """The documents of a whole file, in batches. Raises FileRejected, maybe as late as at the end."""
    builder = BatchBuilder(settings)
    try:
        for record in reader.read(io.BufferedReader(_Blocks(blocks))):
            text, name, lang, group = (
                fill(setting, [_as_bytes(record, path) for path in list_paths(setting)]) if setting else None
                for setting in (settings.text, settings.id, settings.lang_field, settings.group)
            )
            values = [_as_bytes(record, one.name) for one in settings.fields]
            missing = _describe_fields(record)
            add_document(builder, settings, "field", text, name, lang, missing, group=group, values=values)
            if builder.is_full:
                yield builder.take()
    except FileRejected:
        raise
    except FormatError as error:
        raise FileRejected("corrupt", str(error)) from error
    yield builder.take()


def _as_bytes(record: Mapping[str, Any], name: str) -> Any:
    value = record.get(name)
    # A lone surrogate has no UTF-8: what stands for it is refused as any other bytes that are none.
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


def _describe_fields(record: Mapping[str, Any]) -> str:
    return f"; the record has {', '.join(map(str, record)) or 'no fields'}"


class _Blocks(io.RawIOBase):
    """A file to read forward, of what comes in blocks."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
