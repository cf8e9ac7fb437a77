"""What the passes of each stage consist of, without Beam: the same work as in pipelines.graph, dealt to slices.

Work items, parts and groups are dealt by their order, the large ones first. So are the objects that collect records.
Merges are claimed. No pass begins before the one that it reads from is done, by whichever slices. One process that has
all of a build does the same tasks (pipelines.stages.local_passes).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from pipelines.local.pool import OnProgress, Workers
from pipelines.local.run_options import RunOptions
from pipelines.slices.session import Session
from pipelines.slices.share_work import SharedWork, Task
from pipelines.store import urls
from pipelines.store.attempts import Attempts
from pipelines.work.collected_results import collect_and_note, list_groups, make_collected_key
from pipelines.work.count_item import CountJob, find_or_count_item, make_item_key
from pipelines.work.encode_item import find_or_encode_item
from pipelines.work.encode_job import EncodeJob
from pipelines.work.gather_part import gather_part, make_part_key
from pipelines.work.item_results import read_items, read_numbered
from pipelines.work.language_totals import refuse_many_languages
from pipelines.work.measure_items import sum_up_item
from pipelines.work.merge_tree import (
    choose_max_runs,
    keep_token_counts,
    merge_to_few,
    order_runs,
    write_merged_table,
)
from pipelines.work.mix_part import MixJob, make_measured_key, make_mixed_key, measure_part, mix_part
from pipelines.work.pack_group import PackJob, make_group_key, pack_group
from pipelines.work.result_keys import make_table_key
from pipelines.work.scatter_item import make_scatter_key, scatter_item
from pipelines.work.token_count_runs import count_groups, make_token_counts_key
from schemas.plan import Plan
from schemas.refs import ItemCounted, ItemEncoded, ItemScattered, MixPart, PackGroup, PartGathered, RunRef, ShufflePart

K = TypeVar("K")


class SlicedPasses:
    """The passes of a build's stages, each done by all slices together. BeamPasses has the same ones."""

    def __init__(
        self,
        session: Session,
        options: RunOptions,
        workers: Workers,
        is_made: Callable[[], bool],
        metrics: MutableMapping[str, dict[str, int]],
    ) -> None:
        """is_made: whether the stage has been committed. metrics: gets what this slice measured, by pass."""
        self._session = session
        self._options = options
        self._workers = workers
        self._is_made = is_made
        self._metrics = metrics

    def count_items(self, plan: Plan, job: CountJob, on_progress: OnProgress) -> dict[str, int]:
        """Count all work items and write the tables of all languages; give what this slice measured.

        Raises what a worker raises, and as SharedWork.run does.
        """
        run = functools.partial(self._run, "count", job.attempts, on_progress)
        metrics = run(self._deal_items(plan, make_item_key, find_or_count_item, (job,), _measure_found))
        run(self._collect(job.attempts, make_item_key, len(plan.items)))
        items = read_items(job.attempts, plan, ItemCounted)
        refuse_many_languages({lang for item in items for lang in item.languages}, job.max_languages)
        runs = _group(((run.key, run.partition), run) for item in items for run in item.runs)
        del items
        max_runs = choose_max_runs(job.num_partitions)
        merges = {key: own for key, own in runs.items() if len(own) > max_runs}
        run(
            [
                Task(_make_merge_key(key), merge_to_few, (job.attempts, _make_merge_key(key), own, max_runs))
                for key, own in merges.items()
            ]
        )
        result_key = make_table_key(job.attempts.identity)
        tables = []
        for lang in sorted({lang for lang, _ in runs}):
            merged = tuple(_make_merge_key(key) for key in merges if key[0] == lang)
            few = tuple(run for key, own in runs.items() if key[0] == lang and key not in merges for run in own)
            tables.append(Task(f"table-{lang}", write_merged_table, (job.attempts, lang, merged, few, result_key)))
        run(tables)
        return metrics

    def encode_items(self, plan: Plan, job: EncodeJob, on_progress: OnProgress) -> dict[str, int]:
        """Encode all work items, and merge what they leave; as count_items."""
        run = functools.partial(self._run, "encode", job.attempts, on_progress)
        metrics = run(self._deal_items(plan, make_item_key, find_or_encode_item, (job,), _measure_found))
        run(self._collect(job.attempts, make_item_key, len(plan.items)))
        items = read_items(job.attempts, plan, ItemEncoded)
        run(_list_merges(job.attempts, {item.item: item for item in items}))
        return metrics

    def scatter_items(self, plan: Plan, job: EncodeJob, num_buckets: int, on_progress: OnProgress) -> dict[str, int]:
        """The first pass of a shuffle; as count_items."""
        run = functools.partial(self._run, "encode", job.attempts, on_progress)
        tasks = self._deal_items(plan, make_scatter_key, scatter_item, (job, num_buckets), _measure_scattered)
        metrics = run(tasks)
        run(self._collect(job.attempts, make_scatter_key, len(plan.items)))
        return metrics

    def gather_parts(self, parts: Sequence[ShufflePart], job: EncodeJob) -> None:
        """The second pass of a shuffle. Raises as count_items does."""
        run = functools.partial(self._run, "shuffle", job.attempts, None)
        run([Task(make_part_key(part.number), gather_part, (job, part), self._deal(part.number)) for part in parts])
        run(self._collect(job.attempts, make_part_key, len(parts)))
        gathered = read_numbered(job.attempts, len(parts), PartGathered, make_part_key)
        run(_list_merges(job.attempts, {part.number: part for part in gathered}))

    def measure_parts(self, parts: Sequence[MixPart], job: MixJob) -> None:
        """The first pass of the mixture stage. Raises as count_items does."""
        tasks = [Task(make_measured_key(one.number), measure_part, (job, one), self._deal(one.number)) for one in parts]
        self._run("measure", job.attempts, None, tasks)

    def mix_parts(self, parts: Sequence[MixPart], job: MixJob) -> None:
        """The second pass of the mixture stage. Raises as count_items does."""
        tasks = [Task(make_mixed_key(one.number), mix_part, (job, one), self._deal(one.number)) for one in parts]
        self._run("mix", job.attempts, None, tasks)

    def pack_groups(self, groups: Sequence[PackGroup], job: PackJob) -> None:
        """The pack stage. Raises as count_items does."""
        tasks = [Task(make_group_key(one.number), pack_group, (job, one), self._deal(one.number)) for one in groups]
        self._run("pack", job.attempts, None, tasks)

    def _run(
        self,
        what: str,
        attempts: Attempts,
        on_progress: OnProgress | None,
        tasks: Sequence[Task],
    ) -> dict[str, int]:
        """Have the tasks done; give what this slice's own add up to."""
        if not tasks:
            return {}
        pool = self._workers.start()
        assert pool is not None  # slices have no engine
        work = SharedWork(self._session, what, attempts, tasks, self._is_made, on_progress)
        measured = {}
        try:
            work.run(pool, self._options.num_workers)
        finally:
            # Even if another slice commits the stage first, which ends this one's pass: the report says who did what.
            if work.metrics:
                measured = self._metrics[what] = dict(sorted(work.metrics.items()))
        return measured

    def _deal(self, rank: int) -> int:
        """The slice whose share a piece of work of that rank is."""
        return rank % self._session.share.of + 1

    def _deal_items(
        self,
        plan: Plan,
        make_key: Callable[[int], str],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        measure: Callable[[Any], Mapping[str, int]],
    ) -> list[Task]:
        return [
            Task(
                make_key(item.number),
                function,
                (*arguments, plan.assignment(item)),
                self._deal(rank),
                item.size_bytes,
                measure,
            )
            for rank, item in enumerate(plan.list_largest_first())
        ]

    def _collect(self, attempts: Attempts, make_key: Callable[[int], str], num: int) -> list[Task]:
        """In a store: the records of many pieces of work into one object."""
        if urls.is_local(attempts.output):
            return []
        return [
            Task(
                make_collected_key(make_key, numbers),
                collect_and_note,
                (attempts, make_key, tuple(numbers)),
                self._deal(group),
            )
            for group, numbers in enumerate(list_groups(num))
        ]


def _list_merges(attempts: Attempts, written: Mapping[int, ItemEncoded | PartGathered]) -> list[Task]:
    """The merges of counts of token ids. written: by number."""
    num = count_groups(len(written))
    counts = _group((number % num, one.token_counts) for number, one in written.items())
    return [Task(make_token_counts_key(one), keep_token_counts, (attempts, one, runs)) for one, runs in counts.items()]


def _group(keyed: Iterable[tuple[K, RunRef]]) -> dict[K, tuple[RunRef, ...]]:
    """Key -> its runs, in one order."""
    grouped: defaultdict[K, list[RunRef]] = defaultdict(list)
    for key, run in keyed:
        grouped[key].append(run)
    return {key: tuple(sorted(runs, key=order_runs)) for key, runs in grouped.items()}


def _make_merge_key(key: tuple[str, int]) -> str:
    lang, partition = key
    return f"merged-{lang}-{partition:03d}"


def _measure_found(result: tuple[ItemCounted | ItemEncoded, bool]) -> Mapping[str, int]:
    return sum_up_item(*result)


def _measure_scattered(item: ItemScattered) -> Mapping[str, int]:
    return sum_up_item(item, False)
