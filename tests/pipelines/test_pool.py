"""The local runner's workers: results, errors, deaths, orphans, ports."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from support.builds import ROOT, build_file, jsonl, run, texts, write

from pipelines.graph.local_pool import SharedPool
from pipelines.local.pool import Pool, WorkerDied, Workers
from pipelines.local.run_options import RunOptions
from pipelines.local.worker import report_progress
from pipelines.stages import stage_passes
from pipelines.stages.stage_passes import count_worthwhile_workers
from schemas.plan import InputFile, Plan
from tokcore.errors import StageError


@pytest.fixture(scope="module", autouse=True)
def served_workers() -> None:
    """Workers start here as they do for users."""


def test_results_and_errors_come_back():
    with contextlib.closing(Pool(2)) as pool:
        assert pool.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            pool.run(divmod, 7, 0)
        assert pool.run(os.getpid) in pool.process_ids


def test_work_is_spread_over_all_workers():
    with contextlib.closing(Pool(2)) as pool, ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: pool.run(time.sleep, 0.2), range(4)))
        assert set(threads.map(lambda _: pool.run(os.getpid), range(64))) <= set(pool.process_ids)


def test_copies_of_a_transform_reach_their_pool_and_no_other():
    with contextlib.closing(Pool(1)) as pool, contextlib.closing(Pool(1)) as other:
        shared, of_other = SharedPool(pool), SharedPool(other)
        copied = pickle.dumps((shared, of_other))
        for copy, own in zip(pickle.loads(copied), (pool, other), strict=True):
            assert copy.run(os.getpid) in own.process_ids
    done = subprocess.run(
        [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)[0].run(print)"],
        input=copied,
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    assert b"StageError: the worker processes of the local runner are not in this process" in done.stderr


def test_a_head_start_does_each_call_once(tmp_path):
    """run() waits for the call that has begun; if it is asked again, it does it again."""
    reported = []
    with contextlib.closing(Pool(2)) as pool:
        calls = [(str(tmp_path / "a"),), (str(tmp_path / "b"),)]
        with pool.head_start(append_line, calls, lambda what, amount: reported.append((what, amount))):
            assert [pool.run(append_line, *call) for call in calls] == ["1", "1"]
            assert pool.run(append_line, *calls[0]) == "2"
            assert pool.run(append_line, str(tmp_path / "c")) == "1"
        assert reported == [("read", 1), ("read", 1)]
        assert pool.run(append_line, *calls[1]) == "2"


def test_a_head_start_goes_on_with_the_next_call(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    with contextlib.closing(Pool(1)) as pool:
        with pool.head_start(append_line, [(str(path),) for path in paths], None):
            deadline = time.monotonic() + 60
            while not all(path.exists() for path in paths):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert [pool.run(append_line, str(path)) for path in paths] == ["1"] * 3
        assert [pool.run(append_line, str(path)) for path in paths] == ["2"] * 3


def test_a_call_that_has_not_begun_is_done_where_it_is_asked_for(tmp_path):
    """Nothing of a head start goes on after its block either."""
    wait, path, never = tmp_path / "wait", tmp_path / "path", tmp_path / "never"
    os.mkfifo(wait)
    calls = [(str(wait),), (str(path),), (str(never),)]
    with contextlib.closing(Pool(1)) as pool, ThreadPoolExecutor(1) as other:
        with pool.head_start(append_line_after, calls, None):
            asked = other.submit(pool.run, append_line_after, str(path))
            time.sleep(0.2)
            assert not path.exists()
        wait.write_text("go on")
        assert asked.result() == "1"
        assert pool.run(append_line_after, str(path)) == "2"
    assert not never.exists()


def append_line_after(path: str) -> str:
    """append_line(); for a pipe, what someone writes into it."""
    return Path(path).read_text() if Path(path).is_fifo() else append_line(path)


def test_a_head_start_raises_where_its_result_is_asked_for():
    with contextlib.closing(Pool(1)) as pool:
        with pool.head_start(divmod, [(1, 0)], None):
            time.sleep(0.2)
            assert pool.run(divmod, 7, 2) == (3, 1)
            with pytest.raises(ZeroDivisionError):
                pool.run(divmod, 1, 0)
        with pool.head_start(divmod, [(1, 0)], None):
            pass  # the result is never asked for
        assert pool.run(divmod, 7, 2) == (3, 1)


def append_line(path: str) -> str:
    """The number of lines, after one more."""
    with Path(path).open("a+") as file:
        file.write("line\n")
        file.seek(0)
        num = len(file.readlines())
    report_progress("read", 1)
    return str(num)


def test_a_killed_worker_is_named_and_nothing_hangs():
    with contextlib.closing(Pool(2)) as pool, ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(pool.run, time.sleep, 30) for _ in range(4)]
        time.sleep(0.3)
        for pid in pool.process_ids:
            os.kill(pid, signal.SIGKILL)
        errors = [call.exception(timeout=10) for call in calls]
    assert all(isinstance(error, WorkerDied) for error in errors)
    assert any("killed by SIGKILL" in str(error) and "resumes" in str(error) for error in errors)
    assert issubclass(WorkerDied, StageError)


def test_closing_ends_workers_in_the_middle_of_their_work():
    with ThreadPoolExecutor(1) as threads:
        with contextlib.closing(Pool(1)) as pool:
            call = threads.submit(pool.run, time.sleep, 60)
            time.sleep(0.2)
            pids = pool.process_ids
        assert isinstance(call.exception(timeout=10), WorkerDied)
    assert not any(psutil.pid_exists(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # its new parent will collect it
    except psutil.NoSuchProcess:
        return False


DRIVER = """
import sys, threading, time
from pipelines.local.pool import Pool
pool = Pool(2)
threading.Thread(target=pool.run, args=(time.sleep, 60), daemon=True).start()
print(*pool.process_ids, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_driver(how):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        assert len(pids) == 2
        connections = [c for pid in (driver.pid, *pids) for c in psutil.Process(pid).net_connections("inet")]
        assert connections == []
        driver.send_signal(how)
        driver.wait()
    deadline = time.monotonic() + 3  # a second, and more for a busy machine
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived its driver"
        time.sleep(0.02)


def test_workers_end_with_their_driver_however_little_they_have_imported():
    """The lifeline is watched before what takes long: a worker that cannot import anything yet still notices."""
    read, write = os.pipe()
    slow = [sys.executable, "-X", "importtime", "-m", "pipelines.local.lifeline", str(read)]
    worker = subprocess.Popen(slow, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(read,), cwd=ROOT)
    with worker:
        assert worker.stderr is not None
        while b"threading" not in worker.stderr.readline():
            pass
        os.close(write)
        os.close(read)
        assert b"pipelines.local.worker" not in worker.stderr.read()
        assert worker.wait(timeout=10) == 1


def test_a_stopped_worker_that_wakes_after_its_driver_is_gone_ends():
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with driver:
        assert driver.stdout is not None
        workers = [psutil.Process(int(word)) for word in driver.stdout.readline().split()]
        for worker in workers:
            worker.suspend()
        driver.kill()
        driver.wait()
    time.sleep(0.2)
    assert all(worker.status() == psutil.STATUS_STOPPED for worker in workers)
    for worker in workers:
        worker.resume()
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]


def test_the_workers_of_a_build_start_once_and_serve_all_stages():
    workers = Workers(RunOptions(workers=1), ["json.tool"])
    with contextlib.closing(workers):
        pool = workers.start()
        assert pool is not None
        assert workers.start() is pool
        assert pool.run(eval, "'json.tool' in __import__('sys').modules")
        reports: list[tuple[str, int]] = []
        with pool.reporting_to(lambda what, num_bytes: reports.append((what, num_bytes))):
            pool.run(report_progress, "read", 7)
        pool.run(report_progress, "read", 8)  # no one reads progress any more
        assert reports == [("read", 7)]
        (pid,) = pool.process_ids
    assert not psutil.pid_exists(pid)
    workers.close()


def test_runners_with_workers_of_their_own_get_none():
    assert Workers(RunOptions(workers=2, runner=("--runner=PrismRunner",)), []).start() is None


def test_a_pool_grows():
    with contextlib.closing(Pool(1)) as pool:
        (first,) = pool.process_ids
        pool.grow(3)
        pool.grow(2)  # it has more already
        assert pool.process_ids[0] == first
        found: set[int] = set()
        with ThreadPoolExecutor(3) as threads:
            while found != {*pool.process_ids}:
                found |= {*threads.map(lambda _: pool.run(os.getpid), range(64))}


@pytest.mark.parametrize(("workers", "numbers"), [(None, (1, 2, 4)), (3, (3, 3, 3))])
def test_as_many_workers_start_as_are_worth_it_or_as_options_say(workers, numbers, monkeypatch):
    monkeypatch.setattr("pipelines.local.run_options.count_cores", lambda: 4)
    with contextlib.closing(Workers(RunOptions(workers), [])) as pool:
        pool.start_first()
        found = [len(pool._pool.process_ids)]
        for most in (2, 9):
            pool.limit(most)
            found.append(len(pool.start().process_ids))
        assert (*found,) == numbers


@pytest.mark.parametrize(
    ("files", "size_bytes", "most"),
    [(1, 0, 1), (15, 500_000, 1), (1, 2 << 20, 1), (2, (2 << 20) + 1, 2), (640, 6400, 10), (3, 5 << 30, 2560)],
)
def test_more_text_or_more_files_are_worth_more_workers(files, size_bytes, most):
    sizes = [size_bytes // files] * (files - 1)
    sizes.append(size_bytes - sum(sizes))
    plan = Plan([InputFile(f"{i:04}.jsonl", size, "1", 0) for i, size in enumerate(sizes)], (), (), ())
    assert count_worthwhile_workers(plan) == most


def test_a_build_keeps_its_workers_from_stage_to_stage(tmp_path, monkeypatch):
    """Each start costs as much as a small stage."""
    started = []

    class Counted(Pool):
        def __init__(self, workers: int, modules: Sequence[str] = ()) -> None:
            started.append(self)
            super().__init__(workers, modules)

    monkeypatch.setattr("pipelines.local.pool.Pool", Counted)
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 9)]))
    source = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
    build = build_file(tmp_path, source, "[learn]\nvocab_size = 300\n")
    run(build, tmp_path / "out", 1)
    assert len(started) == 1
    run(build, tmp_path / "out", 1)
    assert len(started) == 1, "a finished build needs none"
    assert not any(psutil.pid_exists(pid) for pid in started[0].process_ids)


@pytest.mark.parametrize("ahead", [1, 8])
def test_a_build_does_each_work_item_once(tmp_path, monkeypatch, ahead):
    """The first ones begin while Beam is imported, and Beam gets their results."""
    monkeypatch.setattr(stage_passes, "MOST_AHEAD", ahead)
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.jsonl", jsonl([{"text": text} for text in texts("en", 20)]))
    source = '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n'
    path = build_file(tmp_path, source, "[learn]\nvocab_size = 300\n[plan]\nrange_bytes = 5000\n")
    begun, called = [], []
    head_start, call = Pool.head_start, Pool._call

    def count_begun(self, function, calls, on_progress):
        calls = [*calls]
        begun.extend((function.__name__, assignment.number) for _, assignment in calls)
        return head_start(self, function, calls, on_progress)

    def count_called(self, function, arguments, on_progress):
        if function.__name__.startswith("find_or_"):
            called.append((function.__name__, arguments[1].number))
        return call(self, function, arguments, on_progress)

    monkeypatch.setattr(Pool, "head_start", count_begun)
    monkeypatch.setattr(Pool, "_call", count_called)
    run(path, tmp_path / "out", workers=2)
    assert len({*called}) > 4
    assert len(begun) == (4 if ahead == 1 else len({*called})), "for each stage and each of two workers"
    assert len(called) == len({*called})
    assert {*begun} <= {*called}
