"""One verification: who does its pieces of work, where their records are, and how far it is. No Beam.

The work is steps of tasks, as that of stages (tokcore_pipelines.run). Without a folder for records these go to one of
this machine, which ends with the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tokcore import __version__
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore_pipelines.check.verify_tasks import VerifyJob, forget_problems, make_piece_key
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.here import Here
from tokcore_pipelines.run.slices.session import Session
from tokcore_pipelines.run.task import Step
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.item_results import read_records
from tokcore_schemas.manifest import AnyManifest

T = TypeVar("T")

_WORKER_MODULES = ("tokcore_pipelines.check.verify_tasks",)
# Less than this is done before workers have started.
WORTH_BYTES = 16 << 20
_RECORDS_AT_ONCE = 64  # each may name hundreds of files
_ON_ENGINES = 8  # workers that an engine may be expected to have
_VERSION = 1  # of pieces and records


@dataclasses.dataclass(frozen=True)
class PiecesOf:
    """The pieces of a step, made when they are asked for, so that there may be any number."""

    make: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.make()

    def __len__(self) -> int:
        return self._sizes[0]

    @property
    def size_bytes(self) -> int:
        """Of all pieces."""
        return self._sizes[1]

    @functools.cached_property
    def _sizes(self) -> tuple[int, int]:
        num = size_bytes = 0
        for piece in self.make():
            num += 1
            size_bytes += piece.size_bytes
        return num, size_bytes


@dataclasses.dataclass(slots=True)
class Verification:
    """How the pieces of a verification are done."""

    job: VerifyJob
    options: RunOptions
    progress: StageProgress
    workers: Workers
    session: Session | None

    def do(
        self, title: str, function: Callable[[VerifyJob, Any], T], pieces: PiecesOf, cls: type[T]
    ) -> Iterator[tuple[Any, T]]:
        """Have all pieces done; (piece, record) of each, in their order. title: for people. cls: of records."""
        total, left = pieces.size_bytes, self._find_left(pieces)
        step = Step(f"verify-{title.replace(' ', '-')}", function, (self.job,), left, make_piece_key)
        with self.progress.stage(title, total, minor=True) as shown:
            shown.advance(total - left.size_bytes)
            if len(left):
                self._choose(left.size_bytes).do(step, self.job.attempts, shown.report, Counter())
            shown.advance(max(0, total - shown.done))  # what is done here, or by others, reports nothing
        of_all = iter(pieces)
        while some := list(itertools.islice(of_all, _RECORDS_AT_ONCE)):
            records = read_records(self.job.attempts, map(make_piece_key, some), cls)
            yield from zip(some, records, strict=True)

    @property
    def num_at_once(self) -> int:
        """How many pieces are done at a time, at least; for slices the same on all hosts."""
        if self.session is not None:
            return self.session.share.of
        return self.options.num_workers if self.options.is_local else _ON_ENGINES

    def _find_left(self, pieces: PiecesOf) -> PiecesOf:
        """Those that no earlier run has done. Slices deal all of them, and look for records themselves."""
        if self.session is not None or not self.job.is_kept:
            return pieces
        done = frozenset(storage.list_tree(urls.join(self.job.attempts.folder, "done")))
        return PiecesOf(lambda: (piece for piece in pieces if f"{make_piece_key(piece)}.json" not in done))

    def _choose(self, total: int) -> Any:
        options = self.options
        is_own = options.is_local and self.session is None
        if is_own and (total < WORTH_BYTES or urls.find_scheme(self.job.output) == "memory"):
            return Here()
        return choose_executor(options, self.workers, self.progress.say, self.session)


@contextlib.contextmanager
def open_verification(
    output: str, head: AnyManifest | None, base: str, work: str, options: RunOptions, progress: StageProgress
) -> Iterator[Verification]:
    """What does the pieces while the block runs. head: of the output; records of another are not found.

    work: URL of the folder of records; empty: they are not kept. Raises ConfigError if they have to be, or cannot be.
    """
    if not work and (options.share is not None or not options.is_local):
        raise ConfigError("--work: missing. Name a folder or URL that all hosts see, where they note what is verified")
    if work and f"{work.rstrip('/')}/".startswith(f"{output.rstrip('/')}/"):
        raise ConfigError(f"--work {redact(work)}: is in the output, which is not to be changed. Name another folder")
    of = head.content_id() if head is not None else ""
    identity = hash_sha256(write_canonical_json({"of": of, "release": __version__, "version": _VERSION}))
    with contextlib.ExitStack() as stack:
        folder = work or stack.enter_context(storage.make_scratch_folder("tokcore-verify-"))
        job = VerifyJob(Attempts(folder, "verify", identity), output, base, uuid.uuid4().hex, is_kept=bool(work))
        workers = stack.enter_context(contextlib.closing(Workers(options, _WORKER_MODULES)))
        if work and options.share is None:  # slices are started again and again while others are at work
            forget_problems(job.attempts)
        session = Session(folder, options.share, progress.say) if options.share is not None else None
        try:
            if session is not None:
                session.begin()
            yield Verification(job, options, progress, workers, session)
        except BaseException as error:
            if session is not None:
                session.end(error)
            raise
        if session is not None:
            session.end()
