"""What was rejected: gathered from the workers' files, each record numbered within its file."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping

from pipelines.store import storage
from pipelines.store.attempts import Attempts
from schemas.plan import Plan
from schemas.refs import RangeLedger, RejectRef, StoredFile
from tokcore.canonical import canonical_json, parse_canonical
from tokcore.jsonable import from_jsonable

REJECTED = "rejected.jsonl"
LEDGER = "files.jsonl"


def write_rejects(attempts: Attempts, plan: Plan, ranges: Iterable[RangeLedger], parts: Iterable[str]) -> StoredFile:
    """One file with the rejects of all work items, in the order of files and records.

    parts: URLs of what the workers wrote, in the order of items.
    """
    first = first_records(ranges)
    with attempts.new_file(REJECTED) as new:
        for part in parts:
            with io.BufferedReader(storage.open_read(part)) as lines:
                for line in lines:
                    reject = from_jsonable(RejectRef, parse_canonical(line, part), part)
                    new.file.write(_placed(plan, first, reject))
    return new.stored(REJECTED)


def first_rejects(url: str, limit: int = 5) -> list[str]:
    """The first rejects of a committed file, a line each, for a message."""
    with io.BufferedReader(storage.open_read(url)) as lines:
        rejects = [parse_canonical(line, url) for line in itertools.islice(lines, limit)]
    return [f"{r['file']}: {_record_name(r['record'])}: {r['reason']}: {r['detail']}" for r in rejects]


def _record_name(record: int | None) -> str:
    return "the whole file" if record is None else f"record {record}"


def first_records(ranges: Iterable[RangeLedger]) -> dict[tuple[int, int], int]:
    """(file, start of a range) -> number, within the file, of the first record that the range owns."""
    first: dict[tuple[int, int], int] = {}
    file, record = -1, 0
    for r in sorted(ranges, key=lambda r: (r.file, r.start)):
        if r.file != file:
            file, record = r.file, 0
        first[r.file, r.start] = record
        record += r.num_records
    return first


def _placed(plan: Plan, first: Mapping[tuple[int, int], int], reject: RejectRef) -> bytes:
    return canonical_json(
        {
            "file": plan.files[reject.file].uri,
            "record": None if reject.record is None else first[reject.file, reject.start] + reject.record,
            "reason": reject.reason,
            "detail": reject.detail,
            "sample": reject.sample,
        }
    )
