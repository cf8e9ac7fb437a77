"""Learning by all slices of a build, or by workers of an engine, where rows do not fit in the memory of one host.

The first slice that gets here decides, and records it; all of them then do the tasks of each round together. On an
engine learn.memory_bytes decides, which is the memory of a worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from operator import attrgetter
from typing import Any

from tokcore.count.pretoken_tables import BLOCK_ROWS
from tokcore.errors import LearnError
from tokcore.learn.rounds import MergesSoFar, Round, divide_memory
from tokcore.models import MODELS
from tokcore_pipelines.build.stage import BuildRun
from tokcore_pipelines.local.terminal import format_size
from tokcore_pipelines.run.task import Step, do_steps
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.counted_parts import CountedParts
from tokcore_pipelines.work.item_results import read_record, read_records
from tokcore_pipelines.work.learn_from_disk import LEAST_BYTES, READ_BYTES, can_learn_from_disk, describe_round
from tokcore_pipelines.work.learn_memory import (
    LEAST_LEFT_BYTES,
    find_learn_memory,
    find_read_bytes,
    find_row_bytes,
)
from tokcore_pipelines.work.learn_model import find_rounds_options, weigh_tables
from tokcore_pipelines.work.learn_rounds import (
    GatheredWords,
    PartOfRound,
    PartOfWords,
    RoundMerges,
    RoundsJob,
    TableGroup,
    bound_part,
    choose_floor,
    cut_part,
    deal_tables,
    gather_words,
    learn_merges,
    list_groups,
    read_merges,
)

PLAN_KEY = "rounds"  # of the record
MAX_BOUND_BITS = 24  # 128 MiB from each part in each round; more bounds would hardly cut more
_MAX_PARTS = 64  # on an engine
_DEALT_ROW_BYTES = 256  # of memory, for a row that waits to be dealt


@dataclasses.dataclass(frozen=True, slots=True)
class RoundsPlan:
    """How all slices learn. Parts are a power of two; 0: the rows fit in memory, and one slice learns alone."""

    parts: int = 0
    part_bytes: int = 0  # of memory, for a part
    host_bytes: int = 0  # of memory, for a host
    threads: int = 1  # that learn from the pieces; 0: all that a worker may use


def learn_together(
    run: BuildRun, sizes: tuple[int, ...], counted: CountedParts, attempts: Attempts
) -> MergesSoFar | None:
    """The merges of the largest size; None unless there are several hosts, and the rows do not fit in one's memory.

    Raises LearnError as learning does; what the tasks of slices raise.
    """
    is_alone = run.session is None and (run.options.is_local or run.config.learn.memory_bytes is None)
    if is_alone or run.config.mix.strategy == "parity" or not can_learn_from_disk(run.config):
        return None
    weighed = weigh_tables(run.config, counted)
    plan = attempts.result(PLAN_KEY, RoundsPlan)
    if plan is None:
        plan = attempts.record(PLAN_KEY, _plan(run, weighed.counted))
    if not plan.parts:
        return None
    options = find_rounds_options(run.config, weighed.mix, max(sizes))
    weights = ((weighed.find_weight(run.config, key), url, rows) for key, url, rows in weighed.counted.sized_files)
    groups = list_groups([(url, weight, rows) for weight, url, rows in weights if weight is not None], plan.parts)
    bits = min(MAX_BOUND_BITS, divide_memory(plan.part_bytes).bound_bits)
    job = RoundsJob(
        attempts,
        len(groups),
        plan.parts,
        divide_memory(plan.part_bytes)._replace(bound_bits=bits),
        divide_memory(plan.host_bytes)._replace(bound_bits=bits),
        max(BLOCK_ROWS, plan.part_bytes // _DEALT_ROW_BYTES),
        plan.threads,
        MODELS[run.config.learn.model].count_merges(options),
        options.min_count,
        run.config.learn.min_documents,
        options.max_token_bytes,
        bool(options.end_of_word),
        _find_need(run, weighed.counted) + LEAST_LEFT_BYTES,
    )
    host = "slice" if run.session is not None else "worker"
    limit = format_size(plan.host_bytes + READ_BYTES)
    run.progress.say(
        f"note: the pre-tokens do not fit in the memory of one {host} ({limit}). All {host}s learn from them, in "
        f"rounds: the same merges, in several times as long"
    )
    with run.progress.stage("learn"):
        reach("learn.begin")
        steps = make_steps(job, groups, lambda told: run.progress.say(describe_round(told)))
        return do_steps(run.find_executor(attempts), steps, attempts)


def _plan(run: BuildRun, counted: CountedParts) -> RoundsPlan:
    """counted: what is learned from."""
    size_bytes = run.config.learn.memory_bytes
    if run.session is not None:
        available = find_learn_memory(run.config)
        size_bytes = None if available is None else available.size_bytes
    needed = _find_need(run, counted)
    if size_bytes is None or needed <= size_bytes:
        return RoundsPlan()
    host_bytes = size_bytes - READ_BYTES
    least_bytes = max(LEAST_BYTES, find_read_bytes(counted.rows_of_tables) - READ_BYTES)
    if run.session is None:
        hosts, part_bytes, threads = min(_MAX_PARTS, -(-needed // size_bytes)), host_bytes, 0
    else:
        threads = run.options.num_workers
        hosts, part_bytes = run.session.share.of * threads, size_bytes // threads - READ_BYTES
        if part_bytes < least_bytes:
            hosts, part_bytes = run.session.share.of, host_bytes
    if part_bytes < least_bytes:
        return RoundsPlan()  # the slice that learns raises TooLittleMemoryError
    return RoundsPlan(1 << (hosts - 1).bit_length(), part_bytes, host_bytes, threads)


def _find_need(run: BuildRun, counted: CountedParts) -> int:
    """How many bytes of memory one host needs that learns alone, at most."""
    return find_row_bytes(run.config, counted.most_rows, counted.most_bytes) * counted.most_rows


def _make_step(function: Callable[..., Any], job: RoundsJob, pieces: Sequence[Any]) -> Step:
    return Step(function.__name__.replace("_", " "), function, (job,), pieces, attrgetter("key"), is_dealt=False)


def make_steps(
    job: RoundsJob, groups: list[TableGroup], on_round: Callable[[Round], None]
) -> Generator[Step, bool, MergesSoFar]:
    """All rounds; what they found. on_round: hears of each. Raises LearnError if no pre-token is left to learn from."""
    yield _make_step(deal_tables, job, groups)
    parts = [PartOfWords(number) for number in range(job.num_parts)]
    yield _make_step(gather_words, job, parts)
    gathered = read_records(job.attempts, (part.key for part in parts), GatheredWords)
    if not any(part.size_bytes for part in gathered):
        raise LearnError(
            f"learn.min_documents = {job.min_documents}: no pre-token is in that many documents. Lower it, or count "
            f"more documents."
        )
    number, so_far = 0, MergesSoFar()
    while not so_far.is_over(job.num_merges, job.min_count):
        number += 1
        last = PartOfRound("merges", number)
        if job.attempts.result(last.key, RoundMerges) is None:
            yield _make_step(bound_part, job, [PartOfRound("bounds", number, part.number) for part in parts])
            yield _make_step(choose_floor, job, [PartOfRound("floor", number)])
            yield _make_step(cut_part, job, [PartOfRound("pieces", number, part.number) for part in parts])
            yield _make_step(learn_merges, job, [last])
        made = read_record(job.attempts, last.key, RoundMerges)
        on_round(Round(number, made.num, made.known[0], made.pieces))
        so_far = read_merges(job, number)
    return so_far
