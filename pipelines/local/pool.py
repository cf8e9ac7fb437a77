"""Worker processes of this machine: plain pipes, no ports, no orphans, no hang when one dies.

The work that costs time (one work item, one merge) is a plain function: this machine's workers get it through a `Pool`,
the workers of an engine call it directly. A worker does not import Beam. Only this module and
tokcore_pipelines.local.worker know the protocol: pickled (function, arguments) go down one pipe, which no other process
can write to, and replies come up another.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Literal, NoReturn, TypeVar, cast

from tokcore.errors import StageError
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.retries import count_retry

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


class Pool:
    """Worker processes, of which each does one call at a time. One thread uses it."""

    def __init__(self, workers: int, modules: Sequence[str] = ()) -> None:
        """workers: number of processes. modules: what they import at once, so that the first request need not wait."""
        if workers < 1:
            raise ValueError(f"workers = {workers}: must be at least 1")
        self._on_progress: OnProgress | None = None
        # Every worker holds the read end; the kernel closes the write end with this process, however it ends.
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._modules = modules
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._ended: deque[tuple[Any, bool, Any]] = deque()  # (tag, whether it went well, result or error) of calls
        self._selector = selectors.DefaultSelector()
        self._running = 0  # calls whose result wait() will give
        self._obituary = ""  # why it can be used no more
        self.grow(workers)

    def grow(self, workers: int) -> None:
        """Start workers until the pool has this many."""
        for number in range(len(self._workers), workers):
            worker = _Worker(number, self._lifeline_read, self._modules)
            self._workers.append(worker)
            self._idle.append(worker)
            self._selector.register(worker.replies, selectors.EVENT_READ, worker)

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """function(*arguments), computed by a worker, while no other call is under way.

        Raises what the function raises, and WorkerDied if a worker process ends.
        """
        self.begin(function, arguments)
        return cast("T", self._take())

    def run_all(self, calls: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]) -> Iterator[tuple[int, Any]]:
        """(position, result) of each call (function, arguments), as they end.

        A call is asked for when a worker is there for it, so there may be any number of them. Raises the first error,
        without waiting for the other calls.
        """
        waiting = enumerate(calls)
        try:
            while True:
                while self.has_room and (one := next(waiting, None)) is not None:
                    self.begin(*one[1], tag=one[0])
                if (ended := self.wait()) is None:
                    return
                yield ended
        finally:
            self.forget()

    @property
    def has_room(self) -> bool:
        """Whether fewer calls are under way than there are workers."""
        return self._running < len(self._workers)

    def begin(self, function: Callable[..., Any], arguments: tuple[Any, ...], tag: Any = None) -> None:
        """Have a worker begin function(*arguments), as soon as one is idle. tag: what wait() calls it by."""
        while not self._idle:
            self._listen(None)
        if self._obituary:
            raise WorkerDied(self._obituary)
        worker = self._idle.pop(0)
        worker.function, worker.tag = function, tag
        self._running += 1
        data = memoryview(pack((function, arguments)))
        try:
            while data:
                data = data[worker.requests.write(data) :]
        except BrokenPipeError:
            self._bury(worker)

    def wait(self, timeout: float | None = None) -> tuple[Any, Any] | None:
        """(tag, result) of a call that has ended; None if none is under way, or none ends within `timeout` seconds.

        Raises what the function raised, and WorkerDied if a worker process ends.
        """
        while self._running and not self._ended:
            if not self._listen(timeout):
                break
        if not self._ended:
            return None
        tag = self._ended[0][0]
        return tag, self._take()

    def forget(self) -> None:
        """Drop the results of all calls under way. Their workers are idle again once they end."""
        self._ended.clear()
        self._running = 0
        for worker in self._workers:
            worker.tag = _FORGOTTEN

    def settle(self) -> None:
        """Wait until all calls that are under way have ended, whatever they give."""
        self.forget()
        with suppress(WorkerDied):
            while len(self._idle) < len(self._workers):
                self._listen(None)

    def _take(self) -> Any:
        """What the call gave that ended first."""
        while not self._ended:
            self._listen(None)
        _, ok, value = self._ended.popleft()
        self._running -= 1
        if not ok:
            raise value
        return value

    def _listen(self, timeout: float | None) -> bool:
        """Take what workers send, until a call ends; False once the time is over. Raises WorkerDied if one ends."""
        if self._obituary:
            raise WorkerDied(self._obituary)
        end = None if timeout is None else time.monotonic() + timeout
        idle = len(self._idle)
        while len(self._idle) == idle:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = self._selector.select(left)
            if not ready and left is not None:
                return False
            for key, _ in ready:
                self._hear(key.data)
        return True

    def _hear(self, worker: _Worker) -> None:
        """Take one message of a worker."""
        try:
            kind, value = receive(worker.replies)
        except EOFError:
            self._bury(worker)
        if kind == "retry":
            count_retry(value)  # this process counts for all
        elif kind == "progress":
            if self._on_progress is not None:
                self._on_progress(*value)
        else:
            self._idle.append(worker)
            if worker.tag is not _FORGOTTEN:
                self._ended.append((worker.tag, kind == "result", value))

    def _bury(self, worker: _Worker) -> NoReturn:
        """Say how a worker ended. The pool is of no use any more: what the others do might go on for hours."""
        self._obituary = worker.obituary()
        raise WorkerDied(self._obituary) from None

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
        self._obituary = self._obituary or "the worker pool was closed"
        self._selector.close()
        for worker in self._workers:
            worker.kill()
        for descriptor in (self._lifeline_read, self._lifeline_write):
            os.close(descriptor)

    @property
    def process_ids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]


_FORGOTTEN = object()  # the tag of a call whose result is dropped


class _Worker:
    function: Any = "its start"  # what it does, or did last
    tag: Any = None

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
                [sys.executable, "-P", "-m", "tokcore_pipelines.local.lifeline", str(lifeline), *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,  # what a buffer holds, a selector does not see
                pass_fds=(lifeline,),
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.requests: BinaryIO = self.process.stdin  # type: ignore[assignment]
        self.replies: BinaryIO = self.process.stdout  # type: ignore[assignment]

    def obituary(self) -> str:
        """How the process ended, in the middle of what."""
        task = getattr(self.function, "__name__", str(self.function))
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
        for pipe in (self.requests, self.replies):
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


def pack(message: Any) -> bytes:
    """A message as it goes through a pipe."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(data)) + data


def send(pipe: BinaryIO, message: Any) -> None:
    """Write one message, all of it."""
    data = memoryview(pack(message))
    while data:
        data = data[pipe.write(data) :]
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Read one message. Raises EOFError if the other side has ended."""
    (size,) = _HEADER.unpack(_read(pipe, _HEADER.size))
    return pickle.loads(_read(pipe, size))


def _read(pipe: BinaryIO, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (more := pipe.read(size - len(data))):
            raise EOFError
        data += more
    return bytes(data)
