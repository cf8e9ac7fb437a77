"""Records of finished work, many in one object of a store, so that the driver asks for few. No Beam.

Each piece of work still leaves a record of its own: a build that was killed goes on from those. What lies here is made
again by every run, from them, so it is never older than they are.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Sequence
from typing import TypeVar

from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.json_lines import parse_lines
from tokcore_pipelines.store.parallel_requests import run_at_once

T = TypeVar("T")

# Records of a gigabyte's work items fit into one; a worker holds them at a time.
RESULTS_PER_OBJECT = 500


def find_group(number: int) -> int:
    """The group, each with an object of its own, of the piece of work of that number."""
    return number // RESULTS_PER_OBJECT


def list_groups(num: int) -> list[range]:
    """The numbers of the pieces of work of each group. num: of all."""
    return [range(start, min(num, start + RESULTS_PER_OBJECT)) for start in range(0, num, RESULTS_PER_OBJECT)]


def collect_results(attempts: Attempts, make_key: Callable[[int], str], numbers: Sequence[int]) -> int:
    """Write the records of the pieces of work of a group into one object; how many they are.

    make_key: the record key of a number. Raises StageError for one that has no record.
    """
    numbers = sorted(set(numbers))
    records = run_at_once(lambda number: attempts.read_record(make_key(number)), numbers)
    first = find_group(numbers[0]) * RESULTS_PER_OBJECT
    with storage.write_attempt(_get_url(attempts, make_key(first))) as file:
        file.write(b"".join(records))
    return len(numbers)


@dataclasses.dataclass(frozen=True, slots=True)
class Collected:
    """The record of a group that was collected."""

    records: int


def make_collected_key(make_key: Callable[[int], str], numbers: Sequence[int]) -> str:
    """The record key of a collected group. numbers: of its pieces of work."""
    return f"collected-{make_key(numbers[0])}"


def collect_and_note(attempts: Attempts, make_key: Callable[[int], str], numbers: Sequence[int]) -> Collected:
    """Collect a group, and leave a record that says so."""
    number = collect_results(attempts, make_key, numbers)
    return attempts.record(make_collected_key(make_key, numbers), Collected(number))


def read_collected(
    attempts: Attempts, make_key: Callable[[int], str], numbers: Sequence[int], cls: type[T]
) -> list[T] | None:
    """The results of a group of pieces of work, in the order of numbers; None if some are not there."""
    url = _get_url(attempts, make_key(numbers[0]))
    found = [*parse_lines(io.BytesIO(storage.read_if_there(url) or b""), url, cls)]
    return found if len(found) == len(numbers) else None


def _get_url(attempts: Attempts, first_key: str) -> str:
    return urls.join(attempts.folder, "collected", f"from-{first_key}.jsonl")
