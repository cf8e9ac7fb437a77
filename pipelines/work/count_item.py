"""What a worker of the count stage does with one work item: count it. No Beam.

Tables are files; runs and tables travel as refs. A finished piece of work is recorded in the stage's attempt folder,
where the next attempt finds it; the records are also how results reach the driver, on every runner.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.count.keyed_runs import Piece, group_by_key, merge_keyed_rows
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import join_parts
from tokcore.count.signed_rows import subtract_rows
from tokcore.errors import ChecksumError, LedgerError, StageError, TokError
from tokcore.text.masking import add_texts
from tokcore.text.normalize import Normalizer
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Texts
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.input_range import Batch
from tokcore_pipelines.reading.records import take_documents
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_pipelines.work.choose_splits import choose_splits
from tokcore_pipelines.work.inherit_item import (
    Inherited,
    find_inherited,
    require_inherited_sums,
    subtract_counts,
    subtract_languages,
)
from tokcore_pipelines.work.item_reader import ItemReader, LanguageTally, add_documents, write_rejects_to
from tokcore_pipelines.work.key_ranges import (
    HashedKeys,
    KeyRanges,
    choose_ranges,
    find_ranges,
    read_sample,
    record_ranges,
)
from tokcore_pipelines.work.left_out_documents import Leaving, Read
from tokcore_pipelines.work.merge_tree import make_counted_key
from tokcore_pipelines.work.runs import read_sections, write_run_file
from tokcore_pipelines.work.stored_tables import read_whole_files
from tokcore_schemas.count_key import CountKey, parse_count_key
from tokcore_schemas.document import is_selected
from tokcore_schemas.inheritance import InheritedSums
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ItemCounted, LanguageCounts, RunFile
from tokcore_schemas.stage_manifests import CountsConfig

_SAMPLE_BYTES = 128 << 10  # of text, of each sampled input


@dataclasses.dataclass(frozen=True, slots=True)
class CountJob:
    """What every worker of the count stage needs to know."""

    attempts: Attempts
    config: CountsConfig
    base: str  # folder against which relative uris are resolved
    memory_bytes: int
    num_ranges: int  # of keys, into which counts are dealt
    mask: tuple[str, ...] = ()  # names of MASK_PRESETS
    inherits: bool = False  # whether some work items are those of another part of the output
    max_languages: int = 0  # of a work item; 0: no limit


def count_item(job: CountJob, assignment: Assignment) -> ItemCounted:
    """Count the pre-tokens of a work item by key; its counters go to disk whenever they pass job.memory_bytes.

    Raises StageError for an input that cannot be read or has changed since it was planned.
    """
    return find_or_count_item(job, assignment)[0]


def find_or_count_item(job: CountJob, assignment: Assignment) -> tuple[ItemCounted, bool]:
    """What count_item gives, and whether an earlier attempt had left it."""
    key = make_counted_key(assignment.number)
    if (done := job.attempts.result(key, ItemCounted)) is not None:
        report_progress("read", assignment.size_bytes)
        report_progress("runs", sum(run.size_bytes for run in done.runs))
        return done, True
    if job.inherits and (own := find_inherited(job.attempts, assignment)) is not None:
        counted = _inherit_item(job, assignment.number, own)
        reach("count.item")
        return job.attempts.record(key, counted), True
    name = f"item-{assignment.number:05d}"
    ranges = find_or_choose_ranges(job)
    tables = LanguageTables(job.attempts, name, job.config.max_pretoken_bytes, ranges, job.mask)
    with job.attempts.new_file(f"{name}.rejects", skip_empty=True) as rejects:
        reader = ItemReader(
            assignment, job.base, write_rejects_to(rejects.file), job.attempts.output, job.max_languages
        )
        read = (Read(one.settings, batch) for one, batch in reader)
        _count_batches(job, tables, read, reader.tallies)
    reach("count.item")
    runs = tables.close()
    report_progress("runs", sum(run.size_bytes for run in runs))
    recorded = job.attempts.record(
        key,
        ItemCounted(
            item=assignment.number,
            ledgers=tuple(reader.ledgers),
            languages=reader.languages(),
            runs=runs,
            masked={lang: dict(sorted(matches.items())) for lang, matches in sorted(tables.masked.items())},
            rejects=rejects.stored(""),
            origins=tables.list_origins() if job.config.apart_by else None,
        ),
    )
    return recorded, False


def _count_batches(
    job: CountJob, tables: LanguageTables, read: Iterable[Read], tallies: Mapping[str, LanguageTally]
) -> None:
    """Count documents into tables. tallies: of each language, which what is read may add to as it comes."""
    config = job.config
    normalizer, pretokenizer = Normalizer(config.normalize), Pretokenizer.from_spec(config.pretokenize)
    share, seed = Decimal(config.sample), config.seed or 0
    for one in read:
        batch = one.batch
        source = one.settings.name if "source" in config.apart_by else ""
        splits = _find_splits(config, one) if "split" in config.apart_by else None
        for lang, where in batch.langs.by_label().items():
            if share < 1:
                where = where[[is_selected(batch.compute_key(int(i)), seed, "sample", share) for i in where]]
            for split, of_split in _deal(where, splits):
                chosen = normalizer.apply(batch.texts.take(of_split))
                tables.add(CountKey(lang, split, source), chosen, pretokenizer, tallies[lang])
        tables.spill_if_over(job.memory_bytes)


def _find_splits(config: CountsConfig, read: Read) -> npt.NDArray[np.str_]:
    """The split of each document of a batch."""
    num = read.batch.texts.num_texts
    if read.split:
        return np.full(num, read.split)
    return np.array(choose_splits(config, read.batch, slice(0, num), read.settings.validation), np.str_)


def _deal(
    where: npt.NDArray[np.int64], splits: npt.NDArray[np.str_] | None
) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """(split, which of the documents are of it) for each that has some. splits: of all; None: not told apart."""
    if splits is None:
        dealt = {"": where}
    else:
        dealt = {split: where[splits[where] == split] for split in ("train", "validation")}
    return ((split, own) for split, own in dealt.items() if len(own))


def make_item_key(number: int) -> str:
    """The record key of a work item that is encoded."""
    return f"item-{number:05d}"


def _inherit_item(job: CountJob, number: int, own: Inherited) -> ItemCounted:
    """The record of an item that another part of the output has counted.

    The one that bears the sums has what that part counted, less what the items brought that are gone.
    """
    if not own.item.bears_sums:
        return ItemCounted(number, own.item.ledgers, {}, (), {}, own.rejects)
    less = require_inherited_sums(job.attempts)
    tables = LanguageTables(job.attempts, "gone", job.config.max_pretoken_bytes, KeyRanges(), job.mask)
    tallies: defaultdict[str, LanguageTally] = defaultdict(LanguageTally)
    leaving = Leaving(less, job.base)
    for read in leaving.read(lambda: load_tokenizer(less.output)):
        add_documents(tallies, read.batch)
        _count_batches(job, tables, [read], tallies)
    gone = tables.close()
    languages = subtract_languages(less.languages, {lang: tally.freeze() for lang, tally in tallies.items()})
    origins = subtract_languages(less.origins or {}, tables.list_origins()) if job.config.apart_by else None
    keys = [key for key, counts in (languages if origins is None else origins).items() if counts.num_pretokens]
    with job.attempts.new_file("inherited.runs", skip_empty=True) as new:
        dealt = find_or_choose_ranges(job).deal(_subtract_tables(job.attempts, less, sorted(keys), gone))
        runs = write_run_file(new.file, new.attempt, dealt)
    reach("inherit.counts")
    report_progress("runs", runs.size_bytes)
    masked = {lang: subtract_counts(less.masked.get(lang, {}), tables.masked.get(lang, {})) for lang in languages}
    ledgers = (*own.item.ledgers, *leaving.list_ledgers())
    return ItemCounted(number, ledgers, languages, (runs,), masked if job.mask else {}, own.rejects, origins)


def _subtract_tables(
    attempts: Attempts, less: InheritedSums, keys: Sequence[str], gone: Sequence[RunFile]
) -> Iterator[Piece]:
    """The rows of tables, less those of run files. keys: spelled, in order.

    Raises StageError if a table is damaged, LedgerError if more would be subtracted than it holds.
    """
    runs = [run for file in gone for run in file.list_runs()]
    leaving = group_by_key(merge_keyed_rows(read_sections(attempts, runs)))
    head = next(leaving, None)
    for key in keys:
        while head is not None and head[0] < key:  # of a table of which nothing stays
            head = next(leaving, None)
        own = iter(()) if head is None or head[0] != key else head[1]
        yield from ((key, rows) for rows in _subtract_table(less, parse_count_key(key), own))


def _subtract_table(less: InheritedSums, key: CountKey, gone: Iterator[CountRows]) -> Iterator[CountRows]:
    """The rows of a table, less others. Raises as _subtract_tables."""
    table, folder = less.tables[key.spell()], urls.join(less.output, "counts")
    files = ((file.path, file.sha256) for file in table.list_files())
    try:
        yield from subtract_rows(join_parts(read_whole_files(folder, files)), gone)
    except ChecksumError as error:
        raise StageError(f"{error}. `tokcore repair` makes the file again") from error
    except LedgerError as error:
        raise LedgerError(
            f"{redact(urls.join(folder, table.path))}: language {key.lang}: {error}. The table does not match the "
            f"documents that its build read. `tokcore verify {redact(less.output)}` says more; nothing was committed"
        ) from error


def find_or_choose_ranges(job: CountJob) -> KeyRanges:
    """The ranges of keys into which all workers of the stage deal their counts.

    The first that needs them chooses them by the beginning of some inputs, spread over the plan.
    """
    if job.num_ranges == 1:
        return KeyRanges()
    if (found := find_ranges(job.attempts)) is not None:
        return found
    tables = LanguageTables(job.attempts, "sample", job.config.max_pretoken_bytes, KeyRanges(), job.mask)
    tallies: defaultdict[str, LanguageTally] = defaultdict(LanguageTally)
    for assignment in read_sample(job.attempts):
        with contextlib.suppress(TokError):  # whoever counts it says what is wrong
            for one, batch in ItemReader(assignment, job.base, output=job.attempts.output):
                read = Read(one.settings, _take_first(batch))
                _count_batches(job, tables, [read], tallies)
                break
    return record_ranges(job.attempts, choose_ranges([*tables.take()], job.num_ranges))


def _take_first(batch: Batch) -> Batch:
    """The first documents of a batch that has some."""
    offsets = batch.texts.offsets
    num = int(np.searchsorted(offsets, offsets[0] + _SAMPLE_BYTES))
    return take_documents(batch, np.arange(min(max(1, num), batch.texts.num_texts)))


class LanguageTables:
    """A counter for each key of a table; written out as sorted runs, all in one file, when they grow too large."""

    def __init__(
        self,
        attempts: Attempts,
        name: str,
        max_pretoken_bytes: int,
        ranges: KeyRanges | HashedKeys,
        mask: tuple[str, ...] = (),
    ) -> None:
        self._attempts = attempts
        self._name = name
        self._max_pretoken_bytes = max_pretoken_bytes
        self._ranges = ranges
        self._mask = mask
        self.masked: dict[str, Counter[str]] = {}  # language -> preset -> spans, if there is a mask
        self._counters: dict[CountKey, kernel.Counter] = {}
        self._origins: defaultdict[CountKey, LanguageTally] = defaultdict(LanguageTally)
        self._files: list[RunFile] = []

    def add(self, key: CountKey, texts: Texts, pretokenizer: Pretokenizer, tally: LanguageTally) -> None:
        """Count texts of a key. tally: of its language."""
        counter = self._counters.get(key)
        if counter is None:
            # A user's own pattern is split outside; the counter's own pattern is not used then.
            counter = kernel.Counter(pretokenizer.native_name or "gpt2", self._max_pretoken_bytes)
            self._counters[key] = counter
        before = counter.num_pretokens
        masked = add_texts(counter, texts, pretokenizer, self._mask)
        if self._mask:
            self.masked.setdefault(key.lang, Counter()).update(masked.matches)
        tally.masked_bytes += masked.size_bytes
        for one in (tally, self._origins[key]):
            one.num_counted += texts.num_texts
            one.counted_bytes += texts.size_bytes
            one.num_pretokens += counter.num_pretokens - before

    def list_origins(self) -> dict[str, LanguageCounts]:
        """Spelled key -> what was counted of it."""
        return {key.spell(): tally.freeze() for key, tally in sorted(self._origins.items())}

    def spill_if_over(self, memory_bytes: int) -> None:
        if sum(counter.memory_bytes for counter in self._counters.values()) > memory_bytes:
            self._spill()

    def close(self) -> tuple[RunFile, ...]:
        self._spill()
        return tuple(self._files)

    def take(self) -> Iterator[Piece]:
        """All rows, in the order of keys; then there are none. Each counter gives its memory back in turn."""
        counters = {key.spell(): counter for key, counter in self._counters.items()}
        self._counters.clear()
        for spelled in sorted(counters):
            yield spelled, counters.pop(spelled).take()

    def _spill(self) -> None:
        if not self._counters:
            return
        with self._attempts.new_file(f"{self._name}-{len(self._files):03d}.runs") as new:
            self._files.append(write_run_file(new.file, new.attempt, self._ranges.deal(self.take())))
        reach("count.spilled")
