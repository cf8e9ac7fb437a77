"""The two ledgers: every record read is a document or a reject, every stored byte is in an accepted or a rejected file.

Computed from what the workers recorded, never from a runner's metrics. No balance, no commit: every check here raises
LedgerError. What the workers of the stage recorded is not to be trusted then, and is not used again.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tokcore.errors import LedgerError, StageError
from tokcore.files.canonical_json import hash_pieces, list_canonical_lines
from tokcore.files.jsonable import LEFT_OUT, to_jsonable
from tokcore_pipelines.work.language_totals import add_up_languages, add_up_nested, format_ratio
from tokcore_schemas.count_key import parse_count_key
from tokcore_schemas.packed_rows import PackedRows, Row, SortedRows
from tokcore_schemas.plan import Plan, take_share
from tokcore_schemas.refs import LanguageCounts, OverlapRef, RangeLedger, TableRef
from tokcore_schemas.stage_manifests import CountedLanguage, FileTotals, LedgerTotals, RecordTotals


@dataclasses.dataclass(frozen=True, slots=True)
class FileLedger:
    """A line of files.jsonl: what became of one input file."""

    uri: str
    stored_bytes: int
    records: int
    documents: int
    text_bytes: int
    rejected: dict[str, int]
    rejected_file: str
    skipped: dict[str, int] | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    removed: int = dataclasses.field(default=0, metadata=LEFT_OUT)  # documents that tombstones leave out
    # Language -> rule and reason -> records that a filter dropped.
    filtered: dict[str, dict[str, int]] | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    respelled: dict[str, int] | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    # Language -> kind -> spans that a mask found.
    masked: dict[str, dict[str, int]] | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    # Language -> line or paragraph, and bytes -> number that are duplicates, and left out of documents.
    cut: dict[str, dict[str, int]] | None = dataclasses.field(default=None, metadata=LEFT_OUT)
    overlaps: tuple[OverlapRef, ...] = dataclasses.field(default=(), metadata=LEFT_OUT)  # in order

    @property
    def num_filtered(self) -> int:
        """Records that were documents and that filters dropped."""
        return sum(sum(by_reason.values()) for by_reason in (self.filtered or {}).values())


# The fields but the last one, which is of other objects.
_OF_RANGE, _OF_FILE = (
    tuple(field.name for field in dataclasses.fields(kind) if field.name != "overlaps")
    for kind in (RangeLedger, FileLedger)
)


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedReject:
    """A line of rejected.jsonl: one rejected record, or one rejected file (record is None)."""

    file: str  # uri
    record: int | None  # within the file
    reason: str
    detail: str
    sample: str  # capped and escaped


def balance_ledgers(
    plan: Plan, ledgers: Iterable[RangeLedger], languages: Mapping[str, LanguageCounts]
) -> Sequence[FileLedger]:
    """The ledger of each planned file, in plan order. There may be ten million, so they are packed.

    Raises LedgerError if a planned range is missing or doubled, or records, bytes or languages do not add up: the lines
    that the ranges of a file own are all of its bytes, and each once.
    """
    files = PackedRows(_flatten_file, _build_file)
    ranges = _match_ranges(plan, ledgers)
    ahead = next(ranges, None)
    for index in range(len(plan.files)):
        own = []
        while ahead is not None and ahead.file == index:
            own.append(ahead)
            ahead = next(ranges, None)
        files.append(_make_file_ledger(plan, index, own))
    check_languages(files, languages)
    return files


def _match_ranges(plan: Plan, ledgers: Iterable[RangeLedger]) -> Iterator[RangeLedger]:
    """The ledgers of all planned ranges, by file and place. Raises LedgerError as balance_ledgers does."""
    planned = SortedRows(list, _build_range, _get_place)
    for item in plan.items:
        for one in item.ranges:
            planned.add((one.file, one.start, one.end))
    read = SortedRows(flatten_ledger, build_ledger, lambda one: (one.file, one.start))
    for ledger in ledgers:
        read.add(ledger)
    found, last, strangers = iter(read), (-1, -1), 0
    ahead = next(found, None)
    for file, start, end in planned:
        while ahead is not None and (ahead.file, ahead.start) < (file, start):
            strangers += _require_first(plan, ahead, last)
            ahead = next(found, None)
        if ahead is None or (ahead.file, ahead.start) != (file, start):
            raise LedgerError(f"{plan.files[file].uri}: no worker accounts for bytes {start} to {end}")
        pinned = plan.files[file]
        _check_range(pinned.uri, ahead, take_share(pinned.size_bytes, pinned.length, start, end))
        yield ahead
        last = file, start
        ahead = next(found, None)
    while ahead is not None:
        strangers += _require_first(plan, ahead, last)
        ahead = next(found, None)
    if strangers:
        raise LedgerError(f"{strangers} ranges were read that the plan does not have")


def _require_first(plan: Plan, ledger: RangeLedger, last: tuple[int, int]) -> int:
    """1, for a range that the plan does not have. Raises LedgerError if it is the one before, again."""
    if (ledger.file, ledger.start) == last:
        raise LedgerError(f"{plan.files[ledger.file].uri}: the range at byte {ledger.start} was read twice")
    return 1


def _check_range(uri: str, found: RangeLedger, size_bytes: int) -> None:
    """Raise LedgerError unless a range has the planned size, and its records add up."""
    if found.size_bytes != size_bytes:
        raise LedgerError(f"{uri}: range at byte {found.start} has {found.size_bytes} bytes, not as planned")
    num_rejected = sum(found.rejected.values())
    num_filtered = sum(sum(one.values()) for one in (found.filtered or {}).values())
    if found.num_records != found.num_documents + num_rejected + num_filtered + found.num_removed:
        raise LedgerError(
            f"{uri}: {found.num_records} records were read, {found.num_documents} became documents, "
            f"{num_rejected} were rejected, {num_filtered} filtered, and {found.num_removed} left out, since "
            f"they were removed"
        )


def flatten_ledger(one: RangeLedger) -> Row:
    """A ledger as JSON values."""
    return [*(getattr(one, name) for name in _OF_RANGE), _flatten_overlaps(one.overlaps)]


def build_ledger(*row: Any) -> RangeLedger:
    """The inverse of flatten_ledger."""
    return RangeLedger(*(*row[:-1], _build_overlaps(row[-1])))


def _flatten_file(one: FileLedger) -> Row:
    return [*(getattr(one, name) for name in _OF_FILE), _flatten_overlaps(one.overlaps)]


def _build_file(*row: Any) -> FileLedger:
    return FileLedger(*(*row[:-1], _build_overlaps(row[-1])))


def _flatten_overlaps(overlaps: Iterable[OverlapRef]) -> list[Any]:
    return [[ref.record, ref.rule, ref.items] for ref in overlaps]


def _build_overlaps(rows: Iterable[Any]) -> tuple[OverlapRef, ...]:
    return tuple(OverlapRef(record, rule, tuple(map(tuple, items))) for record, rule, items in rows)


def _build_range(*row: int) -> tuple[int, ...]:
    return row


def _get_place(one: tuple[int, ...]) -> tuple[int, ...]:
    return one[:2]


def check_languages(files: Sequence[FileLedger], languages: Mapping[str, LanguageCounts]) -> None:
    """Raises LedgerError unless documents and bytes of text are as many by file as by language."""
    for name, of_files, of_languages in (
        ("documents", sum(f.documents for f in files), sum(c.num_documents for c in languages.values())),
        ("text bytes", sum(f.text_bytes for f in files), sum(c.text_bytes for c in languages.values())),
    ):
        if of_files != of_languages:
            raise LedgerError(f"{of_files} {name} by file, {of_languages} by language: the ledger does not balance")


def _make_file_ledger(plan: Plan, index: int, ranges: list[RangeLedger]) -> FileLedger:
    file = plan.files[index]
    if sum(r.size_bytes for r in ranges) != file.size_bytes:
        raise LedgerError(
            f"{file.uri}: planned with {file.size_bytes} bytes, accounted for {sum(r.size_bytes for r in ranges)}"
        )
    rejected: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    respelled: Counter[str] = Counter()
    for r in ranges:
        rejected.update(r.rejected)
        skipped.update(r.skipped or {})
        respelled.update(r.respelled or {})
    rejected_file = next((r.rejected_file for r in ranges if r.rejected_file), "")
    if not rejected_file and (read := sum(r.read_bytes for r in ranges)) != file.size_bytes:
        raise LedgerError(f"{file.uri}: planned with {file.size_bytes} bytes, its records are {read}")
    return FileLedger(
        uri=file.uri,
        stored_bytes=file.size_bytes,
        records=sum(r.num_records for r in ranges),
        documents=sum(r.num_documents for r in ranges),
        text_bytes=sum(r.text_bytes for r in ranges),
        rejected=dict(sorted(rejected.items())),
        rejected_file=rejected_file,
        skipped=dict(sorted(skipped.items())) or None,
        removed=sum(r.num_removed for r in ranges),
        filtered=add_up_nested(r.filtered for r in ranges),
        respelled=dict(sorted(respelled.items())) or None,
        masked=add_up_nested(r.masked for r in ranges),
        cut=add_up_nested(r.cut for r in ranges),
        overlaps=tuple(
            dataclasses.replace(one, record=first + one.record)
            for r, first in zip(ranges, _number_first(ranges), strict=True)
            for one in r.overlaps
        ),
    )


def _number_first(ranges: Sequence[RangeLedger]) -> Iterator[int]:
    """The number of the first record of each range within the file."""
    return itertools.accumulate((r.num_records for r in ranges[:-1]), initial=0) if ranges else iter(())


def sum_up_ledgers(files: Sequence[FileLedger]) -> LedgerTotals:
    """Both ledgers summed up, as manifests carry them."""
    records: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    respelled: Counter[str] = Counter()
    for file in files:
        records.update(file.rejected)
        skipped.update(file.skipped or {})
        respelled.update(file.respelled or {})
        if file.rejected_file:
            whole[file.rejected_file] += 1
    return LedgerTotals(
        RecordTotals(
            read=sum(f.records for f in files),
            documents=sum(f.documents for f in files),
            rejected=dict(sorted(records.items())),
            skipped=dict(sorted(skipped.items())) or None,
            removed=sum(f.removed for f in files),
            filtered=add_up_nested(f.filtered for f in files),
            respelled=dict(sorted(respelled.items())) or None,
            masked=add_up_nested(f.masked for f in files),
            cut=add_up_nested(f.cut for f in files),
        ),
        FileTotals(
            planned=len(files),
            rejected=dict(sorted(whole.items())),
            stored_bytes_planned=sum(f.stored_bytes for f in files),
            stored_bytes_rejected=sum(f.stored_bytes for f in files if f.rejected_file),
        ),
        text_bytes=sum(f.text_bytes for f in files),
    )


def compute_rejected_share(totals: LedgerTotals) -> Decimal:
    """The larger of rejected records among read ones and rejected stored bytes among planned ones."""
    records, files = totals.records, totals.files
    return max(
        _compute_share(sum(records.rejected.values()), records.read),
        _compute_share(files.stored_bytes_rejected, files.stored_bytes_planned),
        # A rejected empty file has no bytes to weigh.
        _compute_share(sum(files.rejected.values()), files.planned) if not files.stored_bytes_planned else Decimal(0),
    )


def _compute_share(part: int, whole: int) -> Decimal:
    return Decimal(part) / Decimal(whole) if whole else Decimal(0)


def write_files_table(files: Iterable[FileLedger]) -> Iterator[bytes]:
    """The ledgers of all files as canonical JSON lines, many at a time."""
    return list_canonical_lines(map(to_jsonable, files))


def check_counted(
    languages: Mapping[str, LanguageCounts], tables: Iterable[TableRef], sampled: bool, normalized: bool
) -> None:
    """Raises LedgerError unless every document that was read was counted, and every pre-token is in a table.

    sampled: whether some documents are not counted on purpose. normalized: whether their texts changed on the way.
    """
    for lang, counts in languages.items():
        if counts.num_counted > counts.num_documents or (not sampled and counts.num_counted < counts.num_documents):
            raise LedgerError(f"{lang}: {counts.num_documents} documents were read, {counts.num_counted} counted")
        if not (sampled or normalized) and counts.counted_bytes != counts.text_bytes:
            raise LedgerError(f"{lang}: {counts.text_bytes} bytes of text were read, {counts.counted_bytes} counted")
    in_tables: Counter[str] = Counter()
    for table in tables:
        in_tables[table.lang] += table.num_pretokens
    for lang, counts in languages.items():
        if in_tables[lang] != counts.num_pretokens:
            raise LedgerError(
                f"count table {lang}: holds {in_tables[lang]} pre-tokens, {counts.num_pretokens} were counted"
            )


def check_origins(
    languages: Mapping[str, LanguageCounts], origins: Mapping[str, LanguageCounts], tables: Iterable[TableRef]
) -> None:
    """Raises LedgerError unless all that was counted of a language is of one of its splits and sources, once.

    origins: by the spelled keys of tables.
    """
    added = add_up_languages({parse_count_key(key).lang: counts} for key, counts in origins.items())
    for lang, counts in languages.items():
        told = added.get(lang, LanguageCounts(0, 0))
        wanted = counts.num_counted, counts.counted_bytes, counts.num_pretokens
        if (found := (told.num_counted, told.counted_bytes, told.num_pretokens)) != wanted:
            raise LedgerError(
                f"{lang}: (documents, bytes, pre-tokens) {wanted} were counted, {found} by split and source"
            )
    in_tables = {table.key.spell(): table.num_pretokens for table in tables}
    for key, counts in origins.items():
        if in_tables.get(key, 0) != counts.num_pretokens:
            raise LedgerError(
                f"count table {key}: holds {in_tables.get(key, 0)} pre-tokens, {counts.num_pretokens} were counted"
            )


class ReadOtherwiseError(LedgerError):
    """Counting and encoding read other documents from the same files."""


def check_read_alike(
    counted: Mapping[str, CountedLanguage],
    counted_files: str,
    languages: Mapping[str, LanguageCounts],
    files: Iterable[bytes],
) -> None:
    """Raises ReadOtherwiseError unless counting and encoding read the same of every language and file.

    counted: the languages of the counts manifest. counted_files: sha256 of the table of files that counting committed.
    files: that table, as encoding has it.
    """
    for lang in sorted({*counted, *languages}):
        then, read = counted.get(lang), languages.get(lang, LanguageCounts(0, 0))
        before = {"documents": then.documents if then else 0, "text_bytes": then.text_bytes if then else 0}
        now = {"documents": read.num_documents, "text_bytes": read.text_bytes}
        if before != now:
            raise ReadOtherwiseError(f"{lang}: counting had read {before}, encoding read {now}")
    if hash_pieces(files) != counted_files:
        raise ReadOtherwiseError(
            "encoding read other numbers of records, documents or bytes from some file than counting did"
        )


def check_documents(
    documents: int, written: int, tokens: int, languages: Mapping[str, LanguageCounts], num_hashed: int
) -> None:
    """Raises LedgerError unless every document read is in a shard and digested, and tokens add up.

    written, tokens: what shards hold.
    """
    if not documents == written == num_hashed:
        raise LedgerError(f"{documents} documents were read, {written} written to shards, {num_hashed} digested")
    if tokens != sum(counts.num_tokens for counts in languages.values()):
        raise LedgerError(f"shards hold {tokens} tokens, the languages' sum differs")


def check_unknown(languages: Mapping[str, LanguageCounts], limit: Decimal, name: str) -> None:
    """Raise StageError if more of the tokens are unknown ones than the limit allows. name: of the setting."""
    unknown = sum(counts.num_unknown for counts in languages.values())
    tokens = sum(counts.num_tokens for counts in languages.values())
    if unknown <= limit * tokens:
        return
    worst = sorted(languages.items(), key=lambda one: (-one[1].num_unknown, one[0]))[:5]
    said = ", ".join(f"{lang}: {counts.num_unknown:,} of {counts.num_tokens:,}" for lang, counts in worst)
    raise StageError(
        f"{name} = {limit}: {unknown:,} of {tokens:,} tokens are unknown ones, {format_ratio(100 * unknown, tokens)} % "
        f"({said}). Use a tokenizer that knows these texts, remove these sources, or raise the limit."
    )
