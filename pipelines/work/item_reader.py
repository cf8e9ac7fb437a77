"""The documents of a work item, with its ledgers: what every reading stage shares.

Reading follows from bytes and configuration alone, so two stages that read the same item keep equal ledgers;
the build compares them.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tokcore.errors import LedgerError, StageError
from tokcore.files.canonical_json import Sha256Writer, write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore.shards.labels import Labels
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.beside import locate_beside
from tokcore_pipelines.reading.input_range import Batch, FileRejected, Meter, Reject, read_documents
from tokcore_pipelines.reading.records import take_documents
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import open_tombstones
from tokcore_pipelines.work.drop_lists import Drops
from tokcore_pipelines.work.language_totals import add_up_nested, refuse_many_languages
from tokcore_pipelines.work.read_tokens import read_tokens
from tokcore_schemas.plan import AssignedRange, Assignment
from tokcore_schemas.refs import LanguageCounts, OverlapRef, RangeLedger, RejectRef


def write_rejects_to(file: Sha256Writer) -> Callable[[RejectRef], object]:
    """What writes each reject as a line of canonical JSON."""
    return lambda ref: file.write(write_canonical_json(to_jsonable(ref)))


@dataclasses.dataclass(slots=True)
class LanguageTally:
    """LanguageCounts while they grow."""

    num_documents: int = 0
    text_bytes: int = 0
    num_counted: int = 0
    counted_bytes: int = 0
    num_pretokens: int = 0
    num_tokens: int = 0
    masked_bytes: int = 0
    num_unknown: int = 0

    def freeze(self) -> LanguageCounts:
        return LanguageCounts(*_get_counts(self))


_get_counts = operator.attrgetter(*(field.name for field in dataclasses.fields(LanguageTally)))


def add_documents(tallies: dict[str, LanguageTally], batch: Batch) -> None:
    """Add the documents of a batch, and their bytes, to the tallies of their languages."""
    for lang, where in batch.langs.by_label().items():
        tally = tallies.setdefault(lang, LanguageTally())
        tally.num_documents += len(where)
        tally.text_bytes += int(np.diff(batch.texts.offsets)[where].sum())


class ItemReader:
    """Iterates over (range, batch of accepted documents) of a work item; afterwards holds its ledgers."""

    def __init__(
        self,
        assignment: Assignment,
        base: str,
        on_reject: Callable[[RejectRef], object] | None = None,
        output: str = "",
        max_languages: int = 0,
    ) -> None:
        """base: folder against which relative uris are resolved. on_reject: is told of each reject.

        output: URL of the output that is made; its parts are where documents without a source are, and it has files
        that say what was removed.
        max_languages: of a work item; 0 for no limit. Iterating raises StageError at the first batch that has more.
        """
        self._output = output
        self._assignment = assignment
        self._drops = Drops(assignment.drops)
        self._base = base
        self._on_reject = on_reject
        self._max_languages = max_languages
        self.ledgers: list[RangeLedger] = []
        self.tallies: dict[str, LanguageTally] = {}

    def __iter__(self) -> Iterator[tuple[AssignedRange, Batch]]:
        ranges = self._assignment.ranges
        for input_range, file in zip(ranges, storage.read_ahead(map(self._pin, ranges)), strict=True):
            meter = Meter()
            told = 0
            for read in self._read(input_range, file, meter):
                yield read
                # A reader may look beyond the end of its range.
                now = min(meter.stored_bytes, input_range.stored_bytes)
                report_progress("read", now - told)
                told = now
            report_progress("read", input_range.stored_bytes - told)

    def _read(
        self, r: AssignedRange, file: storage.FileId | None, meter: Meter
    ) -> Iterator[tuple[AssignedRange, Batch]]:
        num_records = num_documents = text_bytes = num_removed = 0
        rejected, skipped, respelled = Counter[str](), Counter[str](), Counter[str]()
        filtered: list[Mapping[str, Mapping[str, int]]] = []
        masked: list[Mapping[str, Mapping[str, int]]] = []
        cut: list[Mapping[str, Mapping[str, int]]] = []
        overlaps: list[OverlapRef] = []
        rejected_file = ""
        last_ordinal = -1
        removed = open_tombstones(r.settings.removed, self._output) if r.settings.removed is not None else None
        try:
            for batch in self._open(r, file, meter):
                if np.any(np.diff(batch.ordinals, prepend=last_ordinal) <= 0):
                    raise LedgerError(f"{r.uri}: a record of the range at byte {r.start} came twice, or out of order")
                last_ordinal = int(batch.ordinals[-1]) if len(batch.ordinals) else last_ordinal
                num_records += batch.num_records
                batch = self._drops.leave_out(r, batch)
                respelled.update(batch.respelled)
                filtered.append(batch.filtered)
                masked.append(batch.masked)
                cut.append(batch.cut)
                overlaps += batch.overlaps
                if removed is not None:
                    batch, num = _leave_out(batch, removed)
                    num_removed += num
                num_documents += batch.texts.num_texts
                text_bytes += batch.texts.size_bytes
                skipped.update(batch.skipped)
                for reject in batch.rejects:
                    rejected[reject.reason] += 1
                    self._reject(r, reject)
                add_documents(self.tallies, batch)
                refuse_many_languages(self.tallies, self._max_languages)
                reach("read.batch")
                if batch.texts.num_texts:
                    yield r, batch
            self._drops.close(r)
        except FileRejected as error:  # raised before anything was yielded
            if r.extent and r.rejection is None:
                raise StageError(
                    f"{r.uri}: was sound when its ranges were proved, and is not any more: {error}. Nothing half-done "
                    f"is visible; if the file was replaced, run `tokcore build` with --replace plan."
                ) from error
            rejected_file = error.reason
            if r.start == 0:  # the other ranges of the file say the same
                self._reject(r, Reject(None, error.reason, error.detail, ""))
        self.ledgers.append(
            RangeLedger(
                file=r.file,
                start=r.start,
                size_bytes=r.stored_bytes,
                read_bytes=meter.stored_bytes,
                num_records=num_records,
                num_documents=num_documents,
                text_bytes=text_bytes,
                rejected=dict(sorted(rejected.items())),
                rejected_file=rejected_file,
                skipped=dict(sorted(skipped.items())) or None,
                num_removed=num_removed,
                filtered=add_up_nested(filtered),
                respelled=dict(sorted(respelled.items())) or None,
                masked=add_up_nested(masked),
                cut=add_up_nested(cut),
                overlaps=tuple(overlaps),
            )
        )

    def _pin(self, r: AssignedRange) -> storage.FileId | None:
        """The file of a range; None if its documents are decoded from tokens."""
        if r.settings.decoded_from:
            return None
        return storage.FileId(urls.resolve_name(self._base, r.uri), r.size_bytes, r.version)

    def _open(self, r: AssignedRange, file: storage.FileId | None, meter: Meter) -> Iterator[Batch]:
        if file is None:
            return read_tokens(self._output, r, meter)
        if r.rejection is not None:
            raise FileRejected(r.rejection.reason, r.rejection.detail)
        return read_documents(file, r.start, r.end, locate_beside(r.settings, self._base), meter, r.extent)

    def _reject(self, r: AssignedRange, reject: Reject) -> None:
        if self._on_reject is not None:
            # A rejected record may be one that was to be removed, and what is quoted from it would stay.
            detail, sample = ("", "") if r.settings.removed is not None else (reject.detail, reject.sample)
            self._on_reject(RejectRef(r.file, r.start, reject.record, reject.reason, detail, sample))

    def languages(self) -> dict[str, LanguageCounts]:
        return {lang: tally.freeze() for lang, tally in sorted(self.tallies.items())}


def _leave_out(batch: Batch, removed: TombstoneLookup) -> tuple[Batch, int]:
    """(the batch without the documents that were removed, how many these are)."""
    goes = mark_removed(batch.ids, batch.langs, removed)
    return (take_documents(batch, np.flatnonzero(~goes)), int(goes.sum())) if goes.any() else (batch, 0)


def mark_alone(ids: Sequence[str | None] | None, langs: Labels, removed: TombstoneLookup) -> npt.NDArray[np.bool_]:
    """Whether each document was removed by its id, and its duplicates were not."""
    alone = mark_removed(ids, langs, removed)
    for lang, where in langs.by_label().items():
        if removed.has("lang", lang):
            alone[where] = False
    for i in np.flatnonzero(alone).tolist():
        alone[i] = not removed.has("equal", (ids or ())[i] or "")
    return alone


def keep_removed(batch: Batch, removed: TombstoneLookup) -> Batch:
    """The documents of a batch that were removed."""
    return take_documents(batch, np.flatnonzero(mark_removed(batch.ids, batch.langs, removed)))


def mark_removed(ids: Sequence[str | None] | None, langs: Labels, removed: TombstoneLookup) -> npt.NDArray[np.bool_]:
    """Whether each document was removed, by its id, if it has one, or its language."""
    goes = removed.mark("id", ids) if ids is not None else np.zeros(len(langs), bool)
    for lang, where in langs.by_label().items():
        if removed.has("lang", lang):
            goes[where] = True
    return goes
