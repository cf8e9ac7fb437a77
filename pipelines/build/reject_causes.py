"""Why most of what a build rejected was rejected: the cause, an example with its line, and what to write instead."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.ledger import FileLedger, PlacedReject
from tokcore_pipelines.build.suggest_fixes import KEYS, describe_fields, find_source, suggest_fix
from tokcore_pipelines.reading.peek import find_fields, find_record_fields, peek
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.streams import LongPiece, Meter, PieceLimit, read_file_blocks, split_lines
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.json_lines import read_lines
from tokcore_pipelines.store.printable import join_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.plan import InputFile, ReadSettings
from tokcore_schemas.stage_table import PLAN, REJECTED

Line = TypeVar("Line")

_MAIN_SHARE = 0.9  # a cause with at least this share of all rejects is the cause
_PEEK_BYTES = 1 << 18
_MOST_RECORDS = 100_000  # that are counted to find a line


def find_main_cause(config: BuildConfig, output: str) -> str:
    """The cause of nearly all rejects of an output in words, and how to fix it; "" if there are several."""
    ledgers = [*read_lines(urls.join(output, REJECTED.name, "files.jsonl"), FileLedger)]
    records, files = Counter[str](), Counter[str]()
    for told in ledgers:
        records.update(told.rejected)
        if told.rejected_file:
            files[told.rejected_file] += 1
    if bool(records) == bool(files):
        return ""  # records here, files there
    ((reason, number),) = (records or files).most_common(1)
    if number < _MAIN_SHARE * (records or files).total():
        return ""
    worst = max(ledgers, key=lambda told: told.rejected.get(reason, 0) if records else told.rejected_file == reason)
    found = _find_file(output, worst.uri)
    rejects = read_lines(urls.join(output, REJECTED.name, "rejected.jsonl"), PlacedReject)
    reject = next((one for one in rejects if one.file == worst.uri), None)
    if found is None or reject is None:
        return ""
    file, settings = found
    pin = storage.FileId(urls.resolve_name(config.base, file.uri), file.size_bytes, file.version)
    seen = peek(pin, _PEEK_BYTES)
    source = find_source(config, settings)
    key = KEYS.get(reason)
    where = config.at("source", source, key) if key else config.at("source", source)
    fields = find_fields(seen, settings)
    if not records:
        of = f" ({files[reason]:,} of {len(ledgers):,} files)"
        fix = suggest_fix(reason, settings, seen, fields)
        return join_lines(f"  {redact(file.uri)}: the whole file: {reason}: {reject.detail}{of}", f"  {where}: {fix}")
    number = worst.rejected[reason]
    what = f"{reason} in {100 * number / worst.records:.4g} % of the records of {redact(file.uri)}"
    place, line = _find_place(pin, settings, reject.record)
    fields = find_record_fields(line) or fields
    fix = suggest_fix(reason, settings, seen, fields)
    if key and worst.documents:
        fix = f"{describe_fields(fields, settings)}; other records are fine: fix these, or exclude the file"
    return join_lines(f"  {what}, first {place}: {reject.detail}", f"  {where}: {fix}")


def _find_file(output: str, uri: str) -> tuple[InputFile, ReadSettings] | None:
    planned = find_manifest(output, PLAN)
    if planned is None:
        return None
    for file in read_lines(urls.join(output, "plan", "files.jsonl"), InputFile):
        if file.uri == uri:
            return file, planned.config.settings[file.settings]
    return None


def _find_place(pin: storage.FileId, settings: ReadSettings, record: int | None) -> tuple[str, bytes]:
    """(where a record is: its line if it is an early one of JSON lines, else its number; the record, if found)."""
    if settings.format == "jsonl" and record is not None and record < _MOST_RECORDS:
        limit = PieceLimit(*[3 * settings.max_document_bytes] * 2)
        seen = number = 0
        try:
            for lines in split_lines(read_file_blocks(pin, 0, pin.size_bytes, settings, Meter()), limit):
                for line in lines:
                    number += 1
                    if line.is_blank if isinstance(line, LongPiece) else not line.strip():
                        continue
                    if seen == record:
                        return f"in line {number}", b"" if isinstance(line, LongPiece) else line
                    seen += 1
        except FileRejected:
            pass
    return f"in record {record}", b""
