"""The steps over work items, and those that add up what they leave: records into few objects, counts into tables."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tokcore_pipelines.build.counted_items import CountedItems, add_up_items
from tokcore_pipelines.build.encoded_items import IdMerges, ReadItems, WrittenShards
from tokcore_pipelines.run.task import Items, Step, name_by_number
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.collected_results import collect_and_note, list_groups, make_collected_key
from tokcore_pipelines.work.combining import Combining, add_up_counts, add_up_token_counts
from tokcore_pipelines.work.count_item import CountJob, find_or_count_item, make_item_key
from tokcore_pipelines.work.encode_item import find_or_encode_item
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.gather_beside import gather_beside
from tokcore_pipelines.work.gather_part import DealtRuns, Parts, gather_part, make_part_key
from tokcore_pipelines.work.item_results import iterate_alone, iterate_numbered, read_records
from tokcore_pipelines.work.key_ranges import find_ranges, note_sample, require_ranges
from tokcore_pipelines.work.language_totals import refuse_many_languages
from tokcore_pipelines.work.measure_items import sum_up_item
from tokcore_pipelines.work.merge_tree import (
    FAN_IN,
    MergesOfLevel,
    gather_runs,
    keep_token_counts,
    list_last_files,
    make_counted_key,
    merge_files,
)
from tokcore_pipelines.work.range_tables import (
    PartsOfTables,
    RangeToTables,
    join_table,
    list_shared_tables,
    write_range,
)
from tokcore_pipelines.work.result_keys import make_shuffled_key, make_table_key
from tokcore_pipelines.work.scatter_item import make_scatter_key, scatter_item
from tokcore_pipelines.work.survey_shards import find_before, make_surveyed_key, survey_part
from tokcore_pipelines.work.take_apart import ApartJob, take_item_apart, take_part_apart
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import (
    ItemCounted,
    ItemEncoded,
    ItemScattered,
    PartGathered,
    PartSurveyed,
    PartToSurvey,
    ShufflePart,
)
from tokcore_schemas.shuffle import choose_num_buckets, choose_num_parts

T = TypeVar("T")
StepsOf = Generator[Step, bool, T]


def count_steps(plan: Plan, job: CountJob) -> StepsOf[CountedItems]:
    """Count all work items, and write all tables; what was recorded of the items, added up."""
    attempts, result_key = job.attempts, make_table_key(job.attempts.identity)
    if job.num_ranges > 1 and find_ranges(attempts) is None:
        note_sample(attempts, plan)
    combining = Combining(make_counted_key, add_up_counts(job.num_ranges, result_key))
    of_item = name_by_number(make_counted_key)
    step = Step("count", find_or_count_item, (job,), Items(plan), of_item, _measure_found, combining=combining)
    goes_on = yield from do_collected(step, attempts)
    items = add_up_items(iterate_numbered(attempts, len(plan.items), ItemCounted, make_counted_key))
    if goes_on:
        return items
    refuse_many_languages(items.languages, job.max_languages)
    level, num = 0, len(plan.items)
    while num > FAN_IN:
        merges = MergesOfLevel(level, num)
        yield Step("merge", merge_files, (attempts,), merges, _get_key, is_dealt=False)
        level, num = level + 1, len(merges)
    gathered = gather_runs(list_last_files(attempts, level, num))
    if not gathered:
        return items
    ranges = require_ranges(attempts, job.num_ranges)
    last = [RangeToTables(number, runs) for number, runs in gathered.items()]
    yield Step("table", write_range, (attempts, ranges, result_key), last, _get_key, is_dealt=False)
    shared = list_shared_tables(read_records(attempts, map(_get_key, last), PartsOfTables))
    yield Step("whole table", join_table, (attempts, result_key), shared, _get_key, is_dealt=False)
    return items


def encode_steps(plan: Plan, job: EncodeJob) -> StepsOf[tuple[ReadItems, WrittenShards]]:
    """Tokenize all work items, and add up their counts of token ids; what was recorded of the items, added up."""
    combining = Combining(make_item_key, add_up_token_counts(len(plan.items)))
    of_item = name_by_number(make_item_key)
    step = Step("encode", find_or_encode_item, (job,), Items(plan), of_item, _measure_found, combining=combining)
    goes_on = yield from do_collected(step, job.attempts)
    read = ReadItems()
    items = map(read.add, iterate_numbered(job.attempts, len(plan.items), ItemEncoded, make_item_key))
    written = yield from _gather_shards(job.attempts, len(plan.items), items, goes_on)
    return read, written


def _gather_shards(
    attempts: Attempts, num: int, parts: Iterable[ItemEncoded | PartGathered], goes_on: bool
) -> StepsOf[WrittenShards]:
    """What num work items or parts wrote; unless an engine does that, their counts of token ids are added up."""
    written, merges = WrittenShards(), IdMerges(num)
    for part in parts:
        written.add(part)
        if not goes_on:
            merges.add(part.token_counts)
    if not goes_on:
        yield Step("add up", keep_token_counts, (attempts,), merges, _get_key, is_dealt=False)
    return written


def scatter_steps(plan: Plan, job: EncodeJob) -> StepsOf[tuple[ReadItems, DealtRuns]]:
    """The first pass of a shuffle: tokenize all work items; what was recorded of them, added up, and their runs."""
    shared = (job, choose_num_buckets(plan.size_bytes))
    of_item = name_by_number(make_scatter_key)
    combining = Combining(make_scatter_key)
    step = Step("encode", scatter_item, shared, Items(plan), of_item, _measure_scattered, combining=combining)
    yield from do_collected(step, job.attempts)
    read, runs = ReadItems(), DealtRuns()
    for item in iterate_numbered(job.attempts, len(plan.items), ItemScattered, make_scatter_key):
        runs.add(read.add(item))
    return read, runs


def gather_steps(plan: Plan, job: EncodeJob, runs: DealtRuns, target_tokens: int) -> StepsOf[WrittenShards]:
    """The second pass of a shuffle: put each part of the documents in order; what was recorded of the parts, added up.

    runs: of the first pass. target_tokens: of a shard.
    """
    num_tokens = runs.tokens
    gather = gather_part
    if job.inherits:
        num_tokens += yield from _survey_steps(job)
        gather = gather_beside
    num_parts = choose_num_parts(num_tokens, target_tokens)
    result_key = make_shuffled_key(job.settings_sha256, plan)
    parts = Parts(num_parts, choose_num_buckets(plan.size_bytes), result_key, runs)
    combining = Combining(make_part_key, add_up_token_counts(num_parts))
    step = Step("shuffle", gather, (job,), parts, name_by_number(make_part_key), combining=combining)
    goes_on = yield from do_collected(step, job.attempts)
    gathered = iterate_numbered(job.attempts, num_parts, PartGathered, make_part_key)
    return (yield from _gather_shards(job.attempts, num_parts, gathered, goes_on))


def _survey_steps(job: EncodeJob) -> StepsOf[int]:
    """Look at the shuffled shards that a part takes over; how many tokens of them stay."""
    facts = find_before(job.attempts).facts
    parts = [PartToSurvey(number) for number in range(facts.num_parts)]
    yield Step("survey", survey_part, (job,), parts, name_by_number(make_surveyed_key))
    surveyed = iterate_alone(job.attempts, facts.num_parts, PartSurveyed, make_surveyed_key)
    return facts.num_tokens - sum(shard.leaving_tokens for part in surveyed for shard in part.shards)


def apart_steps(job: ApartJob, pieces: Items | Sequence[ShufflePart]) -> StepsOf[WrittenShards]:
    """Take the documents of all work items, or of all parts of a shuffle, apart; what they recorded, added up."""
    combining = Combining(make_part_key, add_up_token_counts(len(pieces)))
    take = take_item_apart if isinstance(pieces, Items) else take_part_apart
    step = Step("take apart", take, (job,), pieces, name_by_number(make_part_key), combining=combining)
    goes_on = yield from do_collected(step, job.attempts)
    taken = iterate_numbered(job.attempts, len(pieces), PartGathered, make_part_key)
    return (yield from _gather_shards(job.attempts, len(pieces), taken, goes_on))


def do_collected(step: Step, attempts: Attempts) -> StepsOf[bool]:
    """A step, and in a store the records of many of its pieces into one object; whether an engine goes on by itself."""
    goes_on = yield step
    assert step.combining is not None
    make_key = step.combining.make_key
    if make_key is not None and not goes_on and not urls.is_local(attempts.output):
        groups = [tuple(numbers) for numbers in list_groups(len(step.pieces))]

        def key(numbers: tuple[int, ...]) -> str:
            return make_collected_key(make_key, numbers)

        yield Step("collect", collect_and_note, (attempts, make_key), groups, key)
    return goes_on


def _get_key(piece: Any) -> str:
    return str(piece.key)


def _measure_found(result: tuple[ItemCounted | ItemEncoded, bool]) -> Mapping[str, int]:
    return sum_up_item(*result)


def _measure_scattered(item: ItemScattered) -> Mapping[str, int]:
    return sum_up_item(item, False)
