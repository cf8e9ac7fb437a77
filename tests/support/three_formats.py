"""One corpus in three formats, so that what a test finds in it is found by each of their readers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.builds import jsonl, write

import tokcore as tk

NAMES = ("a.jsonl", "b.csv", "c.parquet")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of the same keys."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerows([[*rows[0]], *([*row.values()] for row in rows)])
    write(path, file.getvalue().encode())


def write_thirds(
    folder: Path, documents: Sequence[dict[str, Any]], in_csv: Callable[[dict[str, Any]], Mapping[str, Any]] = dict
) -> None:
    """Write each third document to one of NAMES. in_csv: a document as csv has it."""
    write(folder / NAMES[0], jsonl(documents[::3]))
    write_csv(folder / NAMES[1], [in_csv(one) for one in documents[1::3]])
    pq.write_table(pa.Table.from_pylist([*documents[2::3]]), folder / NAMES[2], row_group_size=9)


def list_ids(output: Path) -> list[str | None]:
    """The ids of all documents of an output, sorted."""
    shards = tk.open_shards(output, split="all")
    return sorted(shards.document(i).id for i in range(len(shards)))
