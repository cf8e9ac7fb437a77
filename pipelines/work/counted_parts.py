"""The count tables of an output: those of one build, or of all parts of a commit, which add up."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

from tokcore.count.pretoken_rows import CountRows
from tokcore.count.sum_of_runs import merge_many_rows
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.work.stored_tables import StoredTable
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.manifest import FileEntry
from tokcore_schemas.stage_manifests import CountedLanguage, CountsManifest, TableAbout
from tokcore_schemas.stage_table import COUNTS


@dataclasses.dataclass(frozen=True, slots=True)
class CountedPart:
    """What one build counted."""

    url: str  # of the build's output
    made: CountsManifest


@dataclasses.dataclass(frozen=True, slots=True)
class CountedParts:
    """What some builds counted, together."""

    parts: tuple[CountedPart, ...]
    split: str = ""  # of whose documents; empty: of all

    @property
    def _entries(self) -> Iterator[tuple[str, FileEntry[TableAbout]]]:
        """(URL of the build's output, table)."""
        return (
            (part.url, entry)
            for part in self.parts
            for entry in part.made.files
            if self.split in ("", entry.about.split)
        )

    @property
    def keyed_tables(self) -> list[tuple[CountKey, StoredTable]]:
        """(key, table) of each count table, by language; of a language each part, split and source may have one."""
        found = [(entry.about.key, StoredTable.of(url, entry)) for url, entry in self._entries]
        return sorted(found, key=lambda one: one[0].lang)

    @property
    def tables(self) -> list[tuple[str, StoredTable]]:
        """(language, table) of each count table, as keyed_tables."""
        return [(key.lang, table) for key, table in self.keyed_tables]

    @property
    def sized_files(self) -> list[tuple[CountKey, str, int]]:
        """(key, URL, rows) of each file of the count tables: all rows of one, or those of a range."""
        return [(key, *file) for key, table in self.keyed_tables for file in table.files]

    def read_rows(self, lang: str) -> Iterator[CountRows]:
        """The rows of a language: those of its tables, those of the same pre-token added up."""
        runs = [table.read() for name, table in self.tables if name == lang]
        if runs:
            yield from runs[0] if len(runs) == 1 else merge_many_rows(runs)

    @property
    def rows_of_tables(self) -> list[int]:
        """The number of rows of each table."""
        return [entry.about.rows for _, entry in self._entries]

    @property
    def most_rows(self) -> int:
        """A bound of the rows of all tables together; what several of them have counts several times."""
        return sum(self.rows_of_tables)

    @property
    def least_rows(self) -> int:
        """A bound from below of the distinct rows of all tables together."""
        return max(self.rows_of_tables, default=0)

    @property
    def most_bytes(self) -> int:
        """A bound of the bytes of all pre-tokens; as of most_rows."""
        return sum(entry.about.pretoken_bytes for _, entry in self._entries)

    @property
    def languages(self) -> dict[str, CountedLanguage]:
        """Language -> its totals; rows as of most_rows. Of a split, what was counted of it: all else is of all."""
        found: dict[str, CountedLanguage] = {}
        for part in self.parts:
            for lang, more in part.made.languages.items():
                found[lang] = _add(found[lang], more) if lang in found else more
        if self.split:
            found = {lang: _choose_split(of, self.split) for lang, of in found.items()}
        return dict(sorted(found.items()))


def _add(one: CountedLanguage, other: CountedLanguage) -> CountedLanguage:
    masked = None if one.masked is None or other.masked is None else Counter(one.masked) + Counter(other.masked)
    return CountedLanguage(
        documents=one.documents + other.documents,
        text_bytes=one.text_bytes + other.text_bytes,
        counted_documents=one.counted_documents + other.counted_documents,
        counted_bytes=one.counted_bytes + other.counted_bytes,
        pretokens=one.pretokens + other.pretokens,
        rows=one.rows + other.rows,
        masked_bytes=None if masked is None else (one.masked_bytes or 0) + (other.masked_bytes or 0),
        masked=None if masked is None else dict(sorted(masked.items())),
        origins=(*one.origins, *other.origins),
    )


def _choose_split(of: CountedLanguage, split: str) -> CountedLanguage:
    own = [one for one in of.origins if one.split == split]
    return dataclasses.replace(
        of,
        counted_documents=sum(one.counted_documents for one in own),
        counted_bytes=sum(one.counted_bytes for one in own),
        pretokens=sum(one.pretokens for one in own),
        origins=tuple(own),
    )


Pins = tuple[tuple[str, str], ...]  # (URL of an output, sha256 of the manifest of its counts)


def pin_parts(counted: CountedParts) -> Pins:
    """What another process needs to read the same tables."""
    return tuple((part.url, part.made.as_input().sha256) for part in counted.parts)


def read_pinned_parts(pins: Sequence[tuple[str, str]]) -> CountedParts:
    """What was pinned. Raises StageError if a manifest is another one by now."""
    meanwhile = "the tokenizer was learned"
    parts = [CountedPart(url, read_manifest(url, COUNTS, sha256, meanwhile)) for url, sha256 in pins]
    return CountedParts(tuple(parts))
