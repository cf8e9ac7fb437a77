"""Several requests to a store at a time: an answer takes some 25 ms, and most of it is waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

One = TypeVar("One")
Result = TypeVar("Result")

MOST = 16  # requests under way
MOST_FILES = 4  # whole files under way, each of which takes some blocks of up to 16 MiB


def run_at_once(function: Callable[[One], Result], inputs: Iterable[One], most: int = MOST) -> list[Result]:
    """The results of a function that waits, in the order of the inputs. Raises what the first that fails raises.

    most: how many calls may be under way.
    """
    waiting = list(inputs)
    if len(waiting) < 2:
        return [function(one) for one in waiting]
    with ThreadPoolExecutor(min(most, len(waiting))) as threads:
        return list(threads.map(function, waiting))
