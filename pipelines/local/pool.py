"""Worker processes for the local runner: plain pipes, no ports, no orphans, no hang when one dies.

Beam decides where and when; for small passes, pipelines.stages.local_passes does. The work that costs time (one work
item, one merge) is a plain function: the local runner calls it through `Pool.run`, every other runner calls it
directly. A worker does not import Beam. Only this module and pipelines.local.worker know the protocol: pickled
(function, arguments) go down one pipe, which no other process can write to, and replies come up another.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

from pipelines.local.run_options import RunOptions
from pipelines.store.retries import count_retry
from tokcore.errors import StageError

T = TypeVar("T")

# What workers report: stored bytes that were read, bytes of sorted runs that are to be merged into tables, bytes that
# were. A merge of several runs into one reports a change of the second, which may be negative.
Report = Literal["read", "runs", "merged"]
OnProgress = Callable[[Report, int], None]

_HEADER = struct.Struct("<Q")
# For glibc; other C libraries ignore it. A worker keeps up to 64 MB of freed memory: the next block or batch is about
# as large as the last, and fresh pages can cost more than the work done in them. glibc may raise its limits to these
# values by itself.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}


class WorkerDied(StageError):  # noqa: N818 - an outcome, not a fault of ours
    """A worker process died. Nothing of its unfinished work is visible, and a rerun resumes."""


class _Begun(NamedTuple):
    """A call that began before run() was asked for it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    result: Future[Any]


class Pool:
    """Worker processes. Any number of threads may call run()."""

    def __init__(self, workers: int, modules: Sequence[str] = ()) -> None:
        """workers: number of processes. modules: what they import at once, so that the first request need not wait."""
        if workers < 1:
            raise ValueError(f"workers = {workers}: must be at least 1")
        self._on_progress: OnProgress | None = None
        self._begun: list[_Begun] = []
        self._ahead: deque[_Begun] = deque()  # what workers begin next, unless run() is asked for it before
        self._taking = threading.Lock()  # of these two
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        # Every worker holds the read end; the kernel closes the write end with this process, however it ends.
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._modules = modules
        self._workers: list[_Worker] = []
        self._closed = threading.Event()
        self._obituary = "the worker pool was closed"
        self.grow(workers)

    def grow(self, workers: int) -> None:
        """Start workers until the pool has this many."""
        for number in range(len(self._workers), workers):
            worker = _Worker(number, self._lifeline_read, self._modules)
            self._workers.append(worker)
            self._idle.put(worker)

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """function(*arguments), computed by an idle worker.

        Raises what the function raises, and WorkerDied if the worker process ends.
        """
        if (begun := self._take_begun(function, arguments)) is not None:
            return begun.result()  # type: ignore[no-any-return]  # it is what function returned
        return self._call(function, arguments, self._on_progress)

    @contextmanager
    def head_start(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], on_progress: OnProgress | None
    ) -> Iterator[None]:
        """Have workers begin function(*call) for the calls, in their order. While the block runs, run() with equal
        arguments waits for the result if the call has begun. If it has not, run() does it.

        Only the first run() of each does: who asks again wants it done again. on_progress gets what workers report.
        """

        def work(begun: _Begun | None) -> None:
            while begun is not None:
                try:
                    begun.result.set_result(self._call(begun.function, begun.arguments, on_progress))
                except BaseException as error:  # run() raises it, if anyone asks
                    begun.result.set_exception(error)
                begun = self._begin_next(ahead)

        # A thread whose call outlasts the block must not go on with the calls of the next block.
        ahead = self._ahead = deque(_Begun(function, call, Future()) for call in calls)
        for _ in range(min(len(self._workers), len(ahead))):
            threading.Thread(target=work, args=(self._begin_next(ahead),), daemon=True).start()
        try:
            yield
        finally:
            with self._taking:
                self._begun.clear()
                ahead.clear()

    def _begin_next(self, ahead: deque[_Begun]) -> _Begun | None:
        with self._taking:
            if not ahead:
                return None
            self._begun.append(ahead.popleft())
            return self._begun[-1]

    def _take_begun(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any] | None:
        """The result of a call that has begun; None for any other call, which no worker will begin by itself."""
        with self._taking:
            for calls in (self._begun, self._ahead):
                for begun in calls:
                    if begun.function is function and begun.arguments == arguments:
                        calls.remove(begun)
                        return begun.result if calls is self._begun else None
        return None

    def _call(self, function: Callable[..., T], arguments: tuple[Any, ...], on_progress: OnProgress | None) -> T:
        worker = self._idle.get()
        if worker is None:  # the pool broke or was closed while we waited: wake the next waiting thread
            self._idle.put(None)
            raise WorkerDied(self._obituary)
        try:
            ok, value = worker.call(function, arguments, on_progress)
        except (EOFError, BrokenPipeError) as error:
            if not self._closed.is_set():
                self._obituary = worker.obituary(getattr(function, "__name__", str(function)))
            self._idle.put(None)
            raise WorkerDied(self._obituary) from error
        self._idle.put(worker)
        if not ok:
            raise value
        return value  # type: ignore[no-any-return]  # by the protocol it is what function returned

    @contextmanager
    def reporting_to(self, on_progress: OnProgress | None) -> Iterator[None]:
        """While the block runs, on_progress gets what workers report."""
        self._on_progress = on_progress
        try:
            yield
        finally:
            self._on_progress = None

    def close(self) -> None:
        """End all workers at once, whatever they are doing."""
        self._closed.set()
        self._idle.put(None)
        for worker in self._workers:
            worker.kill()
        for descriptor in (self._lifeline_read, self._lifeline_write):
            os.close(descriptor)

    @property
    def process_ids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]


class _Worker:
    def __init__(self, number: int, lifeline: int, modules: Sequence[str]) -> None:
        self.number = number
        # A worker must be able to import what this process can import. It needs no linear algebra, whose library would
        # start a thread per core when numpy is imported.
        path = os.pathsep.join(p for p in sys.path if p)
        environment = {**_MEMORY, **os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        # Ctrl-C and a scheduler's SIGTERM go to the whole process group, but only the parent handles them. A worker
        # inherits the mask, so it is protected while it still imports.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pipelines.local.lifeline", str(lifeline), *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(lifeline,),
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._requests: BinaryIO = self.process.stdin  # type: ignore[assignment]
        self._replies: BinaryIO = self.process.stdout  # type: ignore[assignment]

    def call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], on_progress: OnProgress | None
    ) -> tuple[bool, Any]:
        send(self._requests, (function, arguments))
        while True:
            kind, value = receive(self._replies)
            if kind == "retry":
                count_retry(value)  # this process counts for all
                continue
            if kind != "progress":
                return kind == "result", value
            if on_progress is not None:
                on_progress(*value)

    def obituary(self, task: str) -> str:
        code = self.process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        hint = " (out of memory? try fewer --workers)" if code == -signal.SIGKILL else ""
        return (
            f"worker {self.number} (process {self.process.pid}) {how}{hint} during {task}. "
            f"Nothing half-done is visible; run the same command again and it resumes."
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self._requests, self._replies):
            with suppress(BrokenPipeError):  # a request that was not sent yet
                pipe.close()


class Workers:
    """The pool of a build: started when a stage first needs it, kept for the next stage."""

    def __init__(self, options: RunOptions, modules: Sequence[str]) -> None:
        """modules: what workers need for their first request."""
        self._options = options
        self._modules = modules
        self.most = options.num_workers  # the size of the pool that start() returns
        self._pool: Pool | None = None

    def start_first(self) -> None:
        """Start one worker, which imports meanwhile; all of them if their number is fixed."""
        self._start(self.most if self._is_fixed else 1)

    def limit(self, num: int) -> None:
        """Let start() start at most num workers (at least 1). An explicit --workers stays as it is."""
        if not self._is_fixed:
            self.most = min(self._options.num_workers, num)

    def start(self) -> Pool | None:
        """The pool, whose processes import what they need meanwhile; None if the work is done elsewhere."""
        return self._start(self.most)

    def _start(self, num: int) -> Pool | None:
        if self._options.is_local and not self._options.here:
            if self._pool is None:
                self._pool = Pool(num, self._modules)
            self._pool.grow(num)
        return self._pool

    @property
    def _is_fixed(self) -> bool:
        """Whether the number of workers does not depend on the corpus."""
        return self._options.workers is not None or self._options.share is not None

    def close(self) -> None:
        """End all workers. start() starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def send(pipe: BinaryIO, message: Any) -> None:
    """Write one message and flush it."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_HEADER.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read one message. Raises EOFError if the other side has ended."""
    header = pipe.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    (size,) = _HEADER.unpack(header)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
