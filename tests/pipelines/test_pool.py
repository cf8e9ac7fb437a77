"""The workers of one machine: results, errors, deaths, orphans, ports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import psutil
import pytest
from support.builds import ROOT, build_file, jsonl, run, texts, write

from tokcore.errors import StageError
from tokcore_pipelines.local.pool import Pool, WorkerDied, Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.run.workers import count_worthwhile_workers
from tokcore_schemas.plan import InputFile, Plan


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
    with contextlib.closing(Pool(2)) as pool:
        list(pool.run_all([(time.sleep, (0.2,))] * 2))
        found = {pid for _, pid in pool.run_all([(os.getpid, ())] * 64)}
        assert found == set(pool.process_ids)


def test_calls_are_asked_for_when_a_worker_is_there_for_them():
    """So there may be any number of them."""
    asked: list[int] = []

    def list_calls():
        for number in range(6):
            asked.append(number)
            yield divmod, (number, 2)

    with contextlib.closing(Pool(2)) as pool:
        found = {}
        for number, result in pool.run_all(list_calls()):
            assert len(asked) <= len(found) + 3
            found[number] = result
    assert found == {number: divmod(number, 2) for number in range(6)}


def test_what_nobody_waits_for_any_more_is_in_nobodys_way():
    """Its worker is used again once it is idle, and what it gives is dropped; an error, too."""
    with contextlib.closing(Pool(2)) as pool:
        with pytest.raises(ZeroDivisionError):
            list(pool.run_all([(divmod, (1, 0)), (time.sleep, (0.5,)), (print, ())]))
        assert pool.has_room
        assert pool.wait(0) is None
        pool.begin(time.sleep, (0.2,), "slow")
        pool.begin(divmod, (1, 0), "fails")
        pool.forget()
        assert sorted(result for _, result in pool.run_all([(divmod, (n, 2)) for n in range(9)])) == [
            divmod(n, 2) for n in range(9)
        ]
        pool.settle()
        assert len(pool._idle) == 2


def test_waiting_ends_in_time():
    with contextlib.closing(Pool(1)) as pool:
        assert pool.run(divmod, 7, 2) == (3, 1)
        pool.begin(time.sleep, (0.5,), "asleep")
        assert not pool.has_room
        began = time.monotonic()
        assert pool.wait(0.05) is None
        assert time.monotonic() - began < 0.4
        assert pool.wait() == ("asleep", None)
        assert pool.wait() is None, "nothing is under way"
        pool.begin(time.sleep, (0.1,), "settles")
        pool.settle()
        assert pool.wait() is None


def test_large_messages_pass():
    """Larger than what a pipe holds, both ways."""
    data = os.urandom(3 << 20)
    with contextlib.closing(Pool(1)) as pool:
        assert pool.run(bytes.__add__, data, b"x") == data + b"x"


def test_a_killed_worker_is_named_and_nothing_hangs():
    with contextlib.closing(Pool(2)) as pool:
        pool.begin(time.sleep, (30,))
        pool.begin(time.sleep, (30,))
        for pid in pool.process_ids:
            os.kill(pid, signal.SIGKILL)
        errors = []
        for call in (pool.wait, pool.wait, lambda: pool.run(divmod, 7, 2)):
            with pytest.raises(WorkerDied, match=r"killed by SIGKILL .* during sleep\. .* resumes") as caught:
                call()
            errors.append(str(caught.value))
        assert len({*errors}) == 1
    assert issubclass(WorkerDied, StageError)


def test_closing_ends_workers_in_the_middle_of_their_work():
    with contextlib.closing(Pool(1)) as pool:
        pool.begin(time.sleep, (60,))
        pids = pool.process_ids
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(WorkerDied, match="the worker pool was closed"):
        pool.wait()


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # its new parent will collect it
    except psutil.NoSuchProcess:
        return False


DRIVER = """
import sys, time
from tokcore_pipelines.local.pool import Pool
pool = Pool(2)
pool.begin(time.sleep, (60,))
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
    slow = [sys.executable, "-X", "importtime", "-m", "tokcore_pipelines.local.lifeline", str(read)]
    worker = subprocess.Popen(slow, stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(read,), cwd=ROOT)
    with worker:
        assert worker.stderr is not None
        while b"threading" not in worker.stderr.readline():
            pass
        os.close(write)
        os.close(read)
        assert b"tokcore_pipelines.local.worker" not in worker.stderr.read()
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
        while found != {*pool.process_ids}:
            found |= {pid for _, pid in pool.run_all([(os.getpid, ())] * 64)}


@pytest.mark.parametrize(("workers", "numbers"), [(None, (1, 2, 4)), (3, (3, 3, 3))])
def test_as_many_workers_start_as_are_worth_it_or_as_options_say(workers, numbers, monkeypatch):
    monkeypatch.setattr("tokcore_pipelines.local.run_options.count_cores", lambda: 4)
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

    monkeypatch.setattr("tokcore_pipelines.local.pool.Pool", Counted)
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in texts("en", 9)]))
    source = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
    build = build_file(tmp_path, source, "[learn]\nvocab_size = 300\n")
    run(build, tmp_path / "out", 1)
    assert len(started) == 1
    run(build, tmp_path / "out", 1)
    assert len(started) == 1, "a finished build needs none"
    assert not any(psutil.pid_exists(pid) for pid in started[0].process_ids)


def test_a_build_does_each_work_item_once(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.jsonl", jsonl([{"text": text} for text in texts("en", 20)]))
    source = '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n'
    path = build_file(tmp_path, source, "[learn]\nvocab_size = 300\n[plan]\nrange_bytes = 5000\n")
    called = []
    begin = Pool.begin

    def count_called(self, function, arguments, tag=None):
        if function.__name__.startswith("find_or_"):
            called.append((function.__name__, arguments[1].number))
        begin(self, function, arguments, tag)

    monkeypatch.setattr(Pool, "begin", count_called)
    run(path, tmp_path / "out", workers=2)
    assert len({*called}) > 4
    assert len(called) == len({*called})
