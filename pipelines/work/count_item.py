"""What a worker of the count stage does with one work item: count it. No Beam.

Tables are files; runs and tables travel as refs. A finished piece of work is recorded in the stage's attempt folder,
where the next attempt finds it; the records are also how results reach the driver, on every runner.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from decimal import Decimal

from pipelines.local.worker import report_progress
from pipelines.reading.input_range import Batch
from pipelines.store.attempts import Attempts
from pipelines.store.crashpoints import reach
from pipelines.work.item_reader import ItemReader, LanguageTally, write_rejects_to
from pipelines.work.runs import write_section
from schemas.document import is_selected
from schemas.plan import Assignment
from schemas.refs import ItemCounted, RunRef
from tokcore import kernel
from tokcore.masking import add_texts
from tokcore.normalize import Normalizer
from tokcore.pretoken_tables import split_rows
from tokcore.pretokenize import Pretokenizer
from tokcore.texts import Texts


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
    name = f"item-{assignment.number:05d}"
    tables = LanguageTables(job.attempts, name, job.max_pretoken_bytes, job.num_partitions, job.mask)
    normalizer, pretokenizer = Normalizer(job.normalize), Pretokenizer.from_spec(job.pattern)
    share = Decimal(job.sample)
    with job.attempts.new_file(f"{name}.rejects", skip_empty=True) as rejects:
        reader = ItemReader(assignment, job.base, write_rejects_to(rejects.file))
        for _, batch in reader:
            for lang, where in batch.langs.by_label().items():
                if share < 1:
                    where = where[[_is_sampled(job, share, batch, int(i)) for i in where]]
                if len(where):
                    chosen = normalizer.apply(batch.texts.take(where))
                    tables.add(lang, chosen, pretokenizer, reader.tallies[lang])
            tables.spill_if_over(job.memory_bytes)
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


def make_item_key(number: int) -> str:
    """The record key of a work item."""
    return f"item-{number:05d}"


def _is_sampled(job: CountJob, share: Decimal, batch: Batch, i: int) -> bool:
    return is_selected(batch.compute_key(i), job.seed, "sample", share)


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
