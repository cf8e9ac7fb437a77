"""What a worker of the count stage does with one work item: count it. No Beam.

Tables are files; runs and tables travel as refs. A finished piece of work is recorded in the stage's attempt folder,
where the next attempt finds it; the records are also how results reach the driver, on every runner.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from tokcore import kernel
from tokcore.count.pretoken_tables import merge_rows, read_table, split_rows
from tokcore.count.signed_rows import subtract_rows
from tokcore.errors import LedgerError, StageError
from tokcore.text.masking import add_texts
from tokcore.text.normalize import Normalizer
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Texts
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.input_range import Batch
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_pipelines.work.inherit_item import (
    Inherited,
    find_inherited,
    require_inherited_sums,
    subtract_counts,
    subtract_languages,
)
from tokcore_pipelines.work.item_reader import ItemReader, LanguageTally, add_documents, write_rejects_to
from tokcore_pipelines.work.left_out_documents import Leaving
from tokcore_pipelines.work.runs import read_sections, write_section
from tokcore_schemas.document import is_selected
from tokcore_schemas.inheritance import InheritedSums
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ItemCounted, RunRef


@dataclasses.dataclass(frozen=True, slots=True)
class CountJob:
    """What every worker of the count stage needs to know."""

    attempts: Attempts
    base: str  # folder against which relative uris are resolved
    pattern: dict[str, str]  # Pretokenizer.spec
    normalize: tuple[str, ...]
    max_pretoken_bytes: int
    memory_bytes: int
    sample: str  # exact decimal
    seed: int
    num_partitions: int
    mask: tuple[str, ...] = ()  # names of MASK_PRESETS
    inherits: bool = False  # whether some work items are those of another part of the output
    max_languages: int = 0  # of a work item; 0: no limit


def count_item(job: CountJob, assignment: Assignment) -> ItemCounted:
    """Count the pre-tokens of a work item, per language; its table goes to disk whenever it passes job.memory_bytes.

    Raises StageError for an input that cannot be read or has changed since it was planned.
    """
    return find_or_count_item(job, assignment)[0]


def find_or_count_item(job: CountJob, assignment: Assignment) -> tuple[ItemCounted, bool]:
    """What count_item gives, and whether an earlier attempt had left it."""
    key = make_item_key(assignment.number)
    if (done := job.attempts.result(key, ItemCounted)) is not None:
        report_progress("read", assignment.size_bytes)
        report_progress("runs", sum(run.size_bytes for run in done.runs))
        return done, True
    if job.inherits and (own := find_inherited(job.attempts, assignment)) is not None:
        counted = _inherit_item(job, assignment.number, own)
        reach("count.item")
        return job.attempts.record(key, counted), True
    name = f"item-{assignment.number:05d}"
    tables = LanguageTables(job.attempts, name, job.max_pretoken_bytes, job.num_partitions, job.mask)
    with job.attempts.new_file(f"{name}.rejects", skip_empty=True) as rejects:
        reader = ItemReader(
            assignment, job.base, write_rejects_to(rejects.file), job.attempts.output, job.max_languages
        )
        _count_batches(job, tables, (batch for _, batch in reader), reader.tallies)
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
        ),
    )
    return recorded, False


def _count_batches(
    job: CountJob, tables: LanguageTables, batches: Iterable[Batch], tallies: Mapping[str, LanguageTally]
) -> None:
    """Count documents into tables. tallies: of each language, which the batches may add to as they come."""
    normalizer, pretokenizer = Normalizer(job.normalize), Pretokenizer.from_spec(job.pattern)
    share = Decimal(job.sample)
    for batch in batches:
        for lang, where in batch.langs.by_label().items():
            if share < 1:
                where = where[[_is_sampled(job, share, batch, int(i)) for i in where]]
            if len(where):
                chosen = normalizer.apply(batch.texts.take(where))
                tables.add(lang, chosen, pretokenizer, tallies[lang])
        tables.spill_if_over(job.memory_bytes)


def make_item_key(number: int) -> str:
    """The record key of a work item."""
    return f"item-{number:05d}"


def _is_sampled(job: CountJob, share: Decimal, batch: Batch, i: int) -> bool:
    return is_selected(batch.compute_key(i), job.seed, "sample", share)


def _inherit_item(job: CountJob, number: int, own: Inherited) -> ItemCounted:
    """The record of an item that another part of the output has counted.

    The one that bears the sums has what that part counted, less what the items brought that are gone.
    """
    if not own.item.bears_sums:
        return ItemCounted(number, own.item.ledgers, {}, (), {}, own.rejects)
    less = require_inherited_sums(job.attempts)
    tables = LanguageTables(job.attempts, "gone", job.max_pretoken_bytes, 1, job.mask)
    tallies: defaultdict[str, LanguageTally] = defaultdict(LanguageTally)
    leaving = Leaving(less, job.base)
    for batch in leaving.read(lambda: load_tokenizer(less.output)):
        add_documents(tallies, batch)
        _count_batches(job, tables, [batch], tallies)
    gone = tables.close()
    languages = subtract_languages(less.languages, {lang: tally.freeze() for lang, tally in tallies.items()})
    runs = [
        _subtract_table(job.attempts, less, lang, [run for run in gone if run.key == lang])
        for lang, counts in languages.items()
        if counts.num_pretokens
    ]
    reach("inherit.counts")
    report_progress("runs", sum(run.size_bytes for run in runs))
    masked = {lang: subtract_counts(less.masked.get(lang, {}), tables.masked.get(lang, {})) for lang in languages}
    ledgers = (*own.item.ledgers, *leaving.list_ledgers())
    return ItemCounted(number, ledgers, languages, tuple(runs), masked if job.mask else {}, own.rejects)


def _subtract_table(attempts: Attempts, less: InheritedSums, lang: str, gone: Sequence[RunRef]) -> RunRef:
    """A run with the rows of a language's table, less those of runs.

    Raises StageError if the table is damaged, LedgerError if more would be subtracted than it holds.
    """
    path = less.tables[lang].path
    with (
        copy_if_remote(urls.join(less.output, "counts"), [path]) as folder,
        attempts.new_file(f"inherited-{lang}.run") as new,
    ):
        if storage.compute_sha256(f"{folder}/{path}") != less.tables[lang].sha256:
            raise StageError(
                f"{redact(urls.join(less.output, 'counts', path))}: its bytes are not those that were committed. "
                f"`tokcore repair` makes the file again"
            )
        rows = subtract_rows(read_table(f"{folder}/{path}"), merge_rows(read_sections(attempts, gone)))
        try:
            return write_section(new.file, new.attempt, lang, 0, rows)
        except LedgerError as error:
            url = redact(urls.join(less.output, "counts", path))
            raise LedgerError(
                f"{url}: language {lang}: {error}. The table does not match the documents that its build read. "
                f"`tokcore verify {redact(less.output)}` says more; nothing was committed"
            ) from error


class LanguageTables:
    """One counter per language; written out as sorted runs, all in one file, when they grow too large."""

    def __init__(
        self, attempts: Attempts, name: str, max_pretoken_bytes: int, num_partitions: int, mask: tuple[str, ...] = ()
    ) -> None:
        self._attempts = attempts
        self._name = name
        self._max_pretoken_bytes = max_pretoken_bytes
        self._num_partitions = num_partitions
        self._mask = mask
        self.masked: dict[str, Counter[str]] = {}  # language -> preset -> spans, if there is a mask
        self._counters: dict[str, kernel.Counter] = {}
        self._runs: list[RunRef] = []
        self._num_spills = 0

    def add(self, lang: str, texts: Texts, pretokenizer: Pretokenizer, tally: LanguageTally) -> None:
        counter = self._counters.get(lang)
        if counter is None:
            # A user's own pattern is split outside; the counter's own pattern is not used then.
            counter = kernel.Counter(pretokenizer.native_name or "gpt2", self._max_pretoken_bytes)
            self._counters[lang] = counter
        before = counter.num_pretokens
        masked = add_texts(counter, texts, pretokenizer, self._mask)
        if self._mask:
            self.masked.setdefault(lang, Counter()).update(masked.matches)
        tally.masked_bytes += masked.size_bytes
        tally.num_counted += texts.num_texts
        tally.counted_bytes += texts.size_bytes
        tally.num_pretokens += counter.num_pretokens - before

    def spill_if_over(self, memory_bytes: int) -> None:
        if sum(counter.memory_bytes for counter in self._counters.values()) > memory_bytes:
            self._spill()

    def close(self) -> tuple[RunRef, ...]:
        self._spill()
        return tuple(self._runs)

    def _spill(self) -> None:
        if not self._counters:
            return
        name = f"{self._name}-{self._num_spills:03d}.runs"
        self._num_spills += 1
        with self._attempts.new_file(name) as new:
            for lang in sorted(self._counters):
                for partition, rows in enumerate(split_rows(self._counters[lang].take(), self._num_partitions)):
                    if len(rows.counts):
                        self._runs.append(write_section(new.file, new.attempt, lang, partition, [rows]))
        self._counters.clear()
        reach("count.spilled")
