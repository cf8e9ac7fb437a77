"""Count tables as they are stored: one file, or parts, each a file, whose rows one after another are the table's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import join_parts, read_table
from tokcore.errors import ChecksumError
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.manifest import FileEntry
from tokcore_schemas.stage_manifests import TableAbout


@dataclasses.dataclass(frozen=True, slots=True)
class StoredTable:
    """A count table of an output."""

    files: tuple[tuple[str, int], ...]  # (URL, rows), in order

    @classmethod
    def of(cls, output: str, entry: FileEntry[TableAbout]) -> StoredTable:
        """A table that the manifest of the counts of an output names."""
        rows = [part.rows for part in entry.parts] or [entry.about.rows]
        own = (urls.join(output, "counts", file.path) for file in entry.list_files())
        return cls(tuple(zip(own, rows, strict=True)))

    def read(self) -> Iterator[CountRows]:
        """Its rows, in order. Each file is opened when its first ones are asked for.

        Raises FormatError for files that are no count table, or do not follow each other.
        """
        return join_parts((redact(url), read_table_file(url)) for url, _ in self.files)


def read_table_file(url: str) -> Iterator[CountRows]:
    """The rows of a file of a count table, which is opened when the first ones are asked for."""
    with storage.open_read(url) as file:
        yield from read_table(file)


def read_whole_files(folder: str, files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Iterator[CountRows]]]:
    """(URL, rows) of each file of a count table, as join_parts takes them, once its bytes were compared.

    files: (path below the folder, sha256), in order. Of a store, one at a time is on this machine.
    Raises ChecksumError for other bytes: they may decode, too.
    """
    for path, sha256 in files:
        with copy_if_remote(folder, [path]) as place:
            url = redact(urls.join(folder, path))
            if storage.compute_sha256(f"{place}/{path}") != sha256:
                raise ChecksumError(f"{url}: its bytes are not those that were committed")
            yield url, read_table(f"{place}/{path}")
