"""Parts of few work items, each made by one worker process, from its plan to its manifest.

A watcher makes such parts all the time. Beam would take longer to plan and run each pass than its work takes, and most
of that work is waiting for the store. So several parts are made at a time, by as many workers.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pipelines.local.pool import Pool, WorkerDied, Workers
from pipelines.local.progress import StageProgress
from pipelines.local.run_options import RunOptions
from pipelines.local.worker_modules import WORKER_MODULES
from pipelines.stages.make_commit import NewPart, build_part
from pipelines.store.redaction import redact
from pipelines.work.free_memory import freeing_memory
from schemas.commit_log import Part
from schemas.config import BuildConfig
from tokcore.errors import StageError, TokError

MODULES = (*WORKER_MODULES, __name__)  # what workers import at once

_MOST_ITEMS = 16
_MOST_BYTES = 8 << 20  # stored, of all files together: a worker reads them in a few seconds


def is_small(options: RunOptions, part: NewPart) -> bool:
    """Whether one worker process of this machine makes the part."""
    is_here = options.is_local and options.share is None
    return is_here and len(part.plan.items) <= _MOST_ITEMS and part.plan.size_bytes <= _MOST_BYTES


def build_parts(
    config: BuildConfig,
    output: str,
    parts: Sequence[NewPart],
    options: RunOptions,
    progress: StageProgress,
    workers: Workers,
    measured: Counter[str],
) -> list[Part]:
    """As build_part, several parts: first those that are small, by the workers, then each of the others.

    Raises what the first that fails raises, once no other is being made.
    """
    small = [number for number, one in enumerate(parts) if is_small(options, one)]
    made = _Making(config, output, parts, small).run(workers, options.num_workers)
    done = []
    for number, one in enumerate(parts):
        if number in made:
            part, amounts = made[number]
            measured.update(amounts)
        else:
            part = build_part(config, output, one.plan, options, progress, one.inheritance, measured, workers)
        done.append(part)
    return done


@freeing_memory
def make_small_part(config: BuildConfig, output: str, part: NewPart) -> tuple[Part, Mapping[str, int]]:
    """In a worker process: the part, and what its stages measured.

    Raises as build_part does, and StageError in place of what only a defect raises.
    """
    measured: Counter[str] = Counter()
    here = RunOptions(workers=1, here=True)
    try:
        made = build_part(config, output, part.plan, here, StageProgress(level=-1), part.inheritance, measured)
    except (TokError, OSError):
        raise
    except Exception as error:
        raise StageError(redact(f"{type(error).__name__}: {error}")) from error
    finally:
        gc.collect()
    return made, dict(measured)


@dataclasses.dataclass(slots=True)
class _Making:
    """Small parts, some of which are being made."""

    config: BuildConfig
    output: str
    parts: Sequence[NewPart]
    numbers: Sequence[int]  # of those that are small
    made: dict[int, tuple[Part, Mapping[str, int]]] = dataclasses.field(default_factory=dict)
    failures: list[BaseException] = dataclasses.field(default_factory=list)

    def run(self, workers: Workers, num_workers: int) -> Mapping[int, tuple[Part, Mapping[str, int]]]:
        """By number, what became of them."""
        if not self.numbers:
            return {}
        pool = workers.start()
        assert pool is not None  # of this machine
        waiting = iter(self.numbers)
        # Daemons: a process that is told to end does not wait for them.
        threads = [
            threading.Thread(target=self._make, args=(pool, waiting), daemon=True)
            for _ in range(min(num_workers, len(self.numbers)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if any(isinstance(failure, WorkerDied) for failure in self.failures):
            workers.close()  # others start when they are needed
        if self.failures:
            raise self.failures[0]
        return self.made

    def _make(self, pool: Pool, waiting: Iterator[int]) -> None:
        try:
            while not self.failures and (number := next(waiting, None)) is not None:
                self.made[number] = pool.run(make_small_part, self.config, self.output, self.parts[number])
        except BaseException as error:
            self.failures.append(error)
