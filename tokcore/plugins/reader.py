"""What a reader of input files of another distribution must offer, and the table of readers.

Our own readers are in pipelines/reading: they know of rejected records, ranges and limits. One of another distribution
only turns a file into records; the build does the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from tokcore.plugins.plugin_table import PluginTable

Value = str | bytes | int | None


class Reader(ABC):
    """A format of input files: derive from it. A file is read by one worker, from its start to its end.

    >>> class Lines(Reader):
    ...     suffixes = (".lines",)
    ...
    ...     def read(self, file):
    ...         for line in file:
    ...             yield {"text": line.removesuffix(b"\\n")}
    >>> import io
    >>> [*Lines().read(io.BytesIO(b"one\\ntwo"))]
    [{'text': b'one'}, {'text': b'two'}]
    """

    # The ends of names, in lower case, by which files are known. None: `format` of the source must say it.
    suffixes: tuple[str, ...] = ()

    @abstractmethod
    def read(self, file: BinaryIO) -> Iterator[Mapping[str, Value]]:
        """The records of a file, in order: field -> value. text, id, lang_field and group of a source name fields.

        file: decompressed, and read forward only. A file may be read twice, so nothing but its bytes may decide.
        Raises FormatError for a file that is damaged or cut: it is then rejected whole, with that reason. No record is
        used before the last one came, so this may be raised as late as that.
        """


# By the name that `format` of a source may have.
READERS: PluginTable[Reader] = PluginTable("tokcore.readers", Reader, {})  # type: ignore[type-abstract]


def find_reader_of(suffix: str) -> str | None:
    """The name of the reader whose files end in a suffix, such as ".srt"; None if there is none."""
    return next((name for name in READERS.list_others() if suffix in READERS[name].suffixes), None)
