"""Small parts of an output, each made by one worker process, from its plan to its manifest.

A watcher makes such parts all the time. Most of that work is waiting for the store, so several workers make parts at a
time, each a whole one.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence

from tokcore.errors import StageError, TokError
from tokcore_pipelines.history.make_commit import NewPart, PartBuilder
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.local.pool import WorkerDied
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import Part
from tokcore_schemas.config import BuildConfig

MODULES = (*WORKER_MODULES, __name__)  # what workers import at once

MOST_ITEMS = 16
_MOST_BYTES = 8 << 20  # stored, of all files together: a worker reads them in a few seconds


def is_small(options: RunOptions, part: NewPart) -> bool:
    """Whether one worker process on this machine should make the part."""
    is_here = options.is_local and options.share is None
    return is_here and len(part.plan.items) <= MOST_ITEMS and part.plan.size_bytes <= _MOST_BYTES


def build_parts(builder: PartBuilder, parts: Sequence[NewPart], measured: Counter[str]) -> list[Part]:
    """Build several parts: the small ones in the builder's workers first, then the others one by one.

    Raises the first error of a part, after the workers have finished the parts that they had begun.
    """
    made = _build_small(builder, parts)
    done = []
    for number, one in enumerate(parts):
        if number in made:
            part, amounts = made[number]
            measured.update(amounts)
        else:
            part = builder.build(one, measured)
        done.append(part)
    return done


@freeing_memory
def make_small_part(config: BuildConfig, output: str, part: NewPart) -> tuple[Part, Mapping[str, int]]:
    """Build a part in a worker process; return it and what its stages measured.

    Raises what PartBuilder.build raises. An unexpected exception becomes a StageError, so that a watcher survives it.
    """
    measured: Counter[str] = Counter()
    here = PartBuilder(config, output, RunOptions(workers=1, here=True), StageProgress(level=-1))
    try:
        made = here.build(part, measured)
    except (TokError, OSError):
        raise
    except Exception as error:
        raise StageError(redact(f"{type(error).__name__}: {error}")) from error
    finally:
        storage.forget_fetched()  # the files of this part, which the next one does not read
        gc.collect()
    return made, dict(measured)


def _build_small(builder: PartBuilder, parts: Sequence[NewPart]) -> dict[int, tuple[Part, Mapping[str, int]]]:
    """Number -> the part and what was measured, of those that workers make."""
    made: dict[int, tuple[Part, Mapping[str, int]]] = {}
    numbers = [number for number, one in enumerate(parts) if is_small(builder.options, one)]
    workers = builder.workers
    if not numbers or workers is None:
        return made
    pool = workers.start()
    assert pool is not None  # is_small() leaves out engines, which have workers of their own
    waiting = iter(numbers)
    failure: BaseException | None = None
    while True:
        while pool.has_room and failure is None and (number := next(waiting, None)) is not None:
            pool.begin(make_small_part, (builder.config, builder.output, parts[number]), number)
        try:
            if (ended := pool.wait()) is None:
                break
            made[ended[0]] = ended[1]
        except WorkerDied:
            workers.close()  # others start when they are needed
            raise
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return made
