"""Read documents from files in your own Beam pipelines, as a build reads its sources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam

from tokcore_pipelines.run.engines.across import pass_errors, run_here
from tokcore_pipelines.run.engines.coders import import_in_workers
from tokcore_pipelines.run.engines.measure import count_in_metrics
from tokcore_pipelines.run.engines.spread_items import RankedItem, Spread, rank_piece
from tokcore_pipelines.store.allowed_code import allow_code, require_code_allowed
from tokcore_pipelines.work.read_source import Record, list_source_items, parse_source, read_item
from tokcore_schemas.document import Document, RejectedRecord
from tokcore_schemas.plan import Assignment


class ReadRecords(NamedTuple):
    """What ReadDocuments returns: every record is in one of the two, but for those that filters drop."""

    documents: beam.PCollection[Document]
    rejected: beam.PCollection[RejectedRecord]


class ReadDocuments(beam.PTransform):
    """PBegin -> (PCollection[Document], PCollection[RejectedRecord]): the documents of files, and what was rejected.

    files, settings: those of a [[source]] of a build file, with the same defaults; lang or lang_field is required. Also
    metadata, map (a list), mask and filter (a list): tables as in a build file, which change and drop documents in its
    order. What these drop is in neither collection; counters say how many, as `filtered:NAME`. allow_code: whether
    functions that map names may run. Duplicates are found among all documents, by builds alone.
    base: folder against which relative patterns are resolved; None: the current one. Raises ConfigError at once for
    wrong settings. Files are listed and pinned when the pipeline runs: one that changes meanwhile fails the pipeline.
    The input is bounded; the order is unspecified.

    >>> import pathlib
    >>> _ = pathlib.Path("pages.jsonl").write_text('{"id": "page-1", "text": "a cat"}\\n{"id": "page-2"}\\n')
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     documents, rejected = pipeline | ReadDocuments("pages.jsonl", lang="en", id="id")
    ...     _ = documents | beam.Map(lambda document: print(document.id, document.text))
    page-1 b'a cat'
    """

    def __init__(
        self, files: str | list[str], base: str | None = None, *, allow_code: bool = False, **settings: Any
    ) -> None:
        super().__init__()
        self._allows_code = allow_code
        self._settings = {"files": files, **settings}
        self._base = str(Path.cwd()) if base is None else base
        for rule in parse_source(self._settings, self._base).maps:  # parsed to refuse wrong settings at once
            if not allow_code:
                require_code_allowed(rule.run)

    def expand(self, begin: beam.pvalue.PBegin) -> ReadRecords:
        import_in_workers(begin.pipeline)
        records = (
            begin
            | "Source" >> beam.Create([json.dumps(self._settings)], reshuffle=False).with_output_types(str)
            | "ListFiles" >> beam.ParDo(_ListFiles(self._base, self._allows_code)).with_output_types(RankedItem)
            | "Spread" >> Spread(Assignment)
            | "ReadItem" >> beam.ParDo(_ReadItem(self._base, self._allows_code)).with_output_types(Record)
        )
        return ReadRecords(
            records | "Documents" >> beam.FlatMap(_list_documents).with_output_types(Document),
            records | "Rejected" >> beam.FlatMap(_list_rejected).with_output_types(RejectedRecord),
        )


class _Reading(beam.DoFn):
    def __init__(self, base: str, allows_code: bool) -> None:
        self._base = base
        self._allows_code = allows_code

    def setup(self) -> None:
        if self._allows_code:
            allow_code(True)


class _ListFiles(_Reading):
    def process(self, settings: str) -> Iterator[RankedItem]:
        for rank, assignment in run_here(lambda: list(list_source_items(json.loads(settings), self._base))):
            yield rank_piece(rank, assignment)


class _ReadItem(_Reading):
    def process(self, assignment: Assignment) -> Iterator[Record]:
        num_documents = text_bytes = 0
        dropped: Counter[str] = Counter()
        for record in pass_errors(read_item(assignment, self._base, dropped)):
            if record.document is not None:
                num_documents += 1
                text_bytes += len(record.document.text)
            if record.rejected is not None:
                count_in_metrics("ReadDocuments", {"rejected": 1, f"rejected:{record.rejected.reason}": 1})
            yield record
        count_in_metrics(
            "ReadDocuments",
            {"documents": num_documents, "text_bytes": text_bytes, "stored_bytes": assignment.size_bytes},
        )
        count_in_metrics("ReadDocuments", {f"filtered:{reason}": num for reason, num in dropped.items()})


def _list_documents(record: Record) -> list[Document]:
    return [] if record.document is None else [record.document]


def _list_rejected(record: Record) -> list[RejectedRecord]:
    return [] if record.rejected is None else [record.rejected]
