"""Learning that has too little memory is refused with the figure, before it starts, and never killed by the system."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.builds import build_file, run, small_corpus

from tokcore.count.pretoken_tables import BLOCK_ROWS
from tokcore.count.sum_of_runs import MOST_OPEN
from tokcore.errors import StageError
from tokcore_pipelines.local import memory
from tokcore_pipelines.local.memory import Available, find_available
from tokcore_pipelines.work.learn_memory import (
    find_row_bytes,
    require_memory,
    require_memory_to_go_on,
    require_memory_to_read,
)
from tokcore_schemas.config import load_config

MACHINE = "MemTotal:  9 kB\nMemAvailable:  5000 kB\n"
STAT = "anon 700000\nfile 300000\nactive_file 100000\ninactive_file 200000\n"
STAT_1 = "cache 1\ninactive_file 7\ntotal_inactive_file 200000\ntotal_active_file 100000\n"


@pytest.mark.parametrize(
    ("told", "files", "size_bytes", "limit"),
    [
        ("0::/\n", {}, 5_120_000, "this machine"),
        (
            "0::/a\n",
            {"a/memory.max": "max\n", "a/memory.current": "9\n", "a/memory.stat": STAT},
            5_120_000,
            "this machine",
        ),
        # Pages of files count as free.
        (
            "0::/a/b\n",
            {"a/memory.max": "2000000\n", "a/memory.current": "1000000\n", "a/memory.stat": STAT},
            1_300_000,
            "the control group of this process",
        ),
        (
            "4:memory:/a\n1:cpu:/\n",
            {
                "memory/a/memory.limit_in_bytes": "2000000\n",
                "memory/a/memory.usage_in_bytes": "1900000\n",
                "memory/a/memory.stat": STAT_1,
            },
            400_000,
            "the control group of this process",
        ),
    ],
)
def test_the_least_of_all_limits_is_what_there_is(
    tmp_path: Path, told: str, files: dict[str, str], size_bytes: int, limit: str
):
    written = {"proc/meminfo": MACHINE, "proc/self/cgroup": told}
    for name, text in (written | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert find_available(tmp_path) == Available(size_bytes, limit)


def test_where_the_system_tells_nothing_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert find_available(tmp_path) is None
    monkeypatch.setattr(memory, "find_available", lambda: None)
    require_memory(10**6, 190)


def test_the_need_follows_from_the_model_and_the_length_of_pretokens(tmp_path: Path):
    config = load_config(str(build_file(tmp_path)))
    assert (find_row_bytes(config, 10, 0), find_row_bytes(config, 10, 131), find_row_bytes(config, 0, 0)) == (
        55,
        121,
        55,
    )
    pieces = dataclasses.replace(config, learn=dataclasses.replace(config.learn, model="unigram"))
    assert find_row_bytes(pieces, 10, 131) == 190


def test_the_need_is_compared_to_the_byte():
    require_memory(1000, 120, available=Available(120 * 1000, "this machine"))
    require_memory(1000, 120, held_bytes=90, available=Available(120 * 1000 - 90, "this machine"))
    with pytest.raises(StageError, match=r"need about 120\.0 kB of memory \(90 bytes of it is held\), and"):
        require_memory(1000, 120, held_bytes=90, available=Available(120 * 1000 - 91, "this machine"))
    with pytest.raises(
        StageError, match=r"12\.00 M distinct pre-tokens need about 2\.3 GB of memory, and this machine"
    ):
        require_memory(12_000_000, 190, available=Available(10**9, "this machine"))


def test_reading_many_tables_is_compared_too():
    """Each open table holds its first block."""
    assert require_memory_to_read([10, 20], Available(80 * 30, "a limit")) == 80 * 30
    with pytest.raises(StageError, match=r"reading the count tables needs about 2\.4 kB of memory, and a limit"):
        require_memory_to_read([10, 20], Available(80 * 30 - 1, "a limit"))
    assert require_memory_to_read([1 << 40] * 100, Available(1 << 40, "a limit")) == 80 * BLOCK_ROWS * MOST_OPEN


def test_while_rows_are_read_what_is_left_is_compared():
    plenty = Available(1 << 30, "a limit")
    require_memory_to_go_on(10**6, 2 * 10**6, 190, 0, plenty)
    with pytest.raises(
        StageError,
        match=r"7,000,000 to 9,000,000 distinct pre-tokens need 1\.3 GB to 1\.7 GB of memory \(9 bytes of it",
    ):
        require_memory_to_go_on(7 * 10**6, 9 * 10**6, 190, 9, plenty)
    with pytest.raises(StageError, match="10 to 11 distinct pre-tokens"):
        require_memory_to_go_on(10, 11, 190, 10**6, Available((8 << 20) - 1, "a limit"))
    require_memory_to_go_on(11, 11, 190, 10**6, Available(0, "a limit"))  # all is read: what reading held is given up


def test_reading_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is left falls while tables are read, as by other programs: refused, before the system ends the process."""
    small_corpus(tmp_path)
    left = iter([10**9] * 3)
    found = lambda: Available(next(left, 0), "a limit")  # noqa: E731
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", found)
    with pytest.raises(
        StageError, match=r"distinct pre-tokens need .* of memory \(.* of it is held\), and a limit leaves 0 bytes"
    ):
        run(build_file(tmp_path), tmp_path / "out")


def test_a_build_is_refused_and_goes_on_where_there_is_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The count tables stay. Both ways to find the rows: before they are read, and after."""
    small_corpus(tmp_path)
    path = build_file(tmp_path)
    for settings in ("", "min_documents = 2"):
        path = build_file(tmp_path, settings=f"[learn]\nvocab_size = 400\n{settings}\n")
        output = tmp_path / f"out{len(settings)}"
        with monkeypatch.context() as patched:
            patched.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: Available(500, "a limit"))
            with pytest.raises(StageError, match=r"a limit leaves 500 bytes.*run the same command again"):
                run(path, output)
            assert (output / "counts" / "manifest.json").exists()
        assert run(path, output).totals.vocab_size == 400
