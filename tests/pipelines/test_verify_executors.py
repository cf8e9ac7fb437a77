"""Verification by every executor: each damaged file is named once, and a run that was killed goes on."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.builds import build_file, run_once, small_corpus, tokcore
from support.forging import Forger, damage, require_each_once
from support.slices import SliceProcesses

from tokcore.errors import ConfigError, StageError
from tokcore.files.canonical_json import parse_canonical
from tokcore_pipelines.check import verification, verify_tasks
from tokcore_pipelines.check.verify import Report, verify
from tokcore_pipelines.local.run_options import DIRECT, RunOptions
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_schemas.verified import FilesToHash, FileToHash

EVERY_STAGE = """
[plan]
range_bytes = 2000
[learn]
vocab_size = 300
[shards]
target_tokens = 1500
formats = ["arrow", "megatron"]
[shuffle]
seed = 3
[mixture]
strategy = "natural"
[pack]
length = 64
"""
DAMAGED = [
    *("counts/*.parquet", "shards/arrow/*.arrow", "shards/megatron/*.bin", "mixed/arrow/*.arrow"),
    *("packed/arrow/*.arrow", "tokenizer/tokcore.json"),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    run_once(build_file(folder, settings=EVERY_STAGE), folder / "out")
    return folder


def by_workers(output: Path, work: Path, **options: object) -> Report:
    return verify(str(output), options=RunOptions(2), **options)


def by_direct(output: Path, work: Path, **options: object) -> Report:
    how = RunOptions(2).with_engine(DIRECT, "", ("--runner=FnApiRunner",))
    return verify(str(output), options=how, work=str(work), **options)


EXECUTORS = {"workers": by_workers, "direct": by_direct}


@pytest.fixture(params=EXECUTORS)
def by(request, monkeypatch) -> Callable[..., Report]:
    """verify, by an executor that the size of the output would not ask for."""
    monkeypatch.setattr(verification, "WORTH_BYTES", 0)
    return EXECUTORS[request.param]


def without_time(report: Report) -> Report:
    return dataclasses.replace(report, seconds=0)


def test_a_report_is_the_same_by_every_executor(corpus, output, tmp_path, by):
    here = verify(str(output), decode=None, base=str(corpus), options=RunOptions(here=True))
    assert here.problems == ()
    assert without_time(by(output, tmp_path / "work", decode=None, base=str(corpus))) == without_time(here)


def test_each_damaged_file_is_named_once(output, tmp_path, by):
    damaged = damage(output, DAMAGED)
    require_each_once([*by(output, tmp_path / "work").problems], damaged)


def test_an_edit_that_was_hashed_again_is_named_as_here(corpus, tmp_path, by):
    """What only reading tells: shards, and a part of the mixture."""
    run_once(build_file(corpus, name="plain.toml"), tmp_path / "out")
    forger = Forger(tmp_path / "out")
    for number, depth in ((0, 2), (1, 3)):
        name = forger.shard_names()[number]
        batch = forger.read_arrow(f"arrow/{name}.arrow")
        forger.write_shard(name, batch.take(range(1, batch.num_documents)), ["arrow", "megatron"])
        forger.hash_again(depth)
        here = verify(str(tmp_path / "out"), options=RunOptions(here=True)).problems
        assert here
        assert by(tmp_path / "out", tmp_path / f"work{number}").problems == here
        forger.restore()


# -------------------------------------------------------------------------------------------------------------- records


def list_records(work: Path) -> dict[str, dict]:
    paths = work.rglob("done/*.json")
    return {path.name: parse_canonical(path.read_bytes(), str(path)) for path in paths}


def test_records_hold_size_and_version_of_each_file(output, tmp_path):
    assert not verify(str(output), work=str(tmp_path / "work")).problems
    seen = [file for record in list_records(tmp_path / "work").values() for file in record.get("files", ())]
    listed = storage.list_footprints(str(output))
    named = {path for path in listed if not path.endswith(("manifest.json", "run.json"))}
    assert {file["path"] for file in seen} == named
    assert len(seen) == len(named)
    for file in seen:
        there = listed[file["path"]]
        assert (file["size_bytes"], file["version"]) == (there.size_bytes, f"{there.size_bytes} {there.version}")


def test_what_was_verified_is_not_read_again_unless_it_changed(output, tmp_path, monkeypatch):
    read: list[str] = []
    check, recount = verify_tasks.check_file, verify_tasks.recount_table
    monkeypatch.setattr(verify_tasks, "check_file", lambda *given: read.append(given[2].path) or check(*given))
    monkeypatch.setattr(verify_tasks, "recount_table", lambda *given: read.append("table") or recount(*given))
    monkeypatch.setattr("tokcore_pipelines.check.verify_pieces.HASHED_FILES", 1)
    first = verify(str(output), work=str(tmp_path / "work"))
    assert read
    read.clear()
    assert without_time(verify(str(output), work=str(tmp_path / "work"))) == without_time(first)
    assert read == []
    (path,) = damage(output, ["shards/megatron/*.bin"])
    require_each_once([*verify(str(output), work=str(tmp_path / "work")).problems], [path])
    assert read == [path.removeprefix("shards/")]
    read.clear()
    require_each_once([*verify(str(output), work=str(tmp_path / "work")).problems], [path])
    assert read == [path.removeprefix("shards/")], "what was wrong is looked at again"
    read.clear()
    verify(str(output), work=str(tmp_path / "other"))
    assert path.removeprefix("shards/") in read
    assert len(read) > 1


def test_a_piece_that_an_engine_tries_again_is_taken_from_its_record(output, tmp_path, monkeypatch):
    """An engine that lost an answer asks for the piece again, and does not look for records first."""
    read: list[str] = []
    monkeypatch.setattr(verify_tasks, "check_file", lambda *given: read.append(given[2].path) or [])
    job = verify_tasks.VerifyJob(Attempts(str(tmp_path / "work"), "verify", "0" * 64), str(output), "", "run")
    piece = FilesToHash(".", (FileToHash("shards", "manifest.json", 1, "0" * 64, "1"),))
    assert verify_tasks.hash_files(job, piece) == verify_tasks.hash_files(job, piece)
    assert read == ["manifest.json"]


def test_a_run_that_was_killed_goes_on(output, tmp_path, monkeypatch):
    """Where a piece fails, those before it have their records."""
    monkeypatch.setattr("tokcore_pipelines.check.verify_pieces.HASHED_FILES", 1)
    done: list[tuple[str, str]] = []
    check, most = verify_tasks.check_file, 5

    def check_some(output, stage, file):
        if len(done) == most:
            raise KeyboardInterrupt
        done.append((stage, file.path))
        return check(output, stage, file)

    monkeypatch.setattr(verify_tasks, "check_file", check_some)
    with pytest.raises(KeyboardInterrupt):
        verify(str(output), work=str(tmp_path / "work"))
    most = 0
    assert not verify(str(output), work=str(tmp_path / "work")).problems
    assert len(done) == len(set(done)), "a file was read twice"
    named = {path for path in storage.list_footprints(str(output)) if not path.endswith(("manifest.json", "run.json"))}
    assert len(done) == len(named)


def test_where_records_have_to_be_and_cannot_be(output, tmp_path):
    done = tokcore("verify", output, "--slice", "1/2")
    assert (done.returncode, "--work: missing" in done.stderr) == (2, True)
    done = tokcore("verify", output, "--engine", "direct")
    assert (done.returncode, "--work: missing" in done.stderr) == (2, True)
    for inside in (output, output / "work"):
        with pytest.raises(ConfigError, match="is in the output"):
            verify(str(output), work=str(inside))
    done = tokcore("verify", output, "--work", tmp_path, "--set", "learn.vocab_size=3")
    assert (done.returncode, "only what engine and storage say" in done.stderr) == (2, True)
    done = tokcore("verify", output, "--work", tmp_path, "--engine", "flink")
    assert (done.returncode, "OUTPUT = " in done.stderr, "--shared-filesystem" in done.stderr) == (2, True, True)
    done = tokcore("verify", output, "--work", tmp_path, "--prove", "README.md")
    assert done.returncode == 2


# --------------------------------------------------------------------------------------------------------------- slices


class Verifying(SliceProcesses):
    """Slices that verify an output."""

    def __init__(self, output: Path, work: Path, of: int, *options: str, lease: float = 2) -> None:
        super().__init__("", work, of, *options, lease=lease)
        self.command = ["verify", str(output), "--work", str(work)]


def test_slices_find_each_damaged_file_once_though_some_are_killed(output, tmp_path):
    damaged = damage(output, DAMAGED)
    with Verifying(output, tmp_path / "work", 3, "--json", lease=1) as slices:
        lost = slices.start(2)
        slices.wait_for_sign(2)
        lost.send(signal.SIGKILL)
        hosts = [slices.start(number) for number in (1, 3)]
        for code, out, err in [host.wait() for host in hosts]:
            assert code == 1, err
            require_each_once(json.loads(out)["problems"], damaged)


def test_a_slice_that_is_not_to_wait_names_the_others(output, tmp_path):
    codes = []
    with Verifying(output, tmp_path / "work", 2, "--no-wait") as slices:
        for number in (1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2):
            code, out, err = slices.start(number).wait()
            codes.append(code)
            if code == 0:
                break
            assert code == 4, err
            assert f"verify-hash: slice {number}/2 has done its share, and needs" in err or "needs slice" in err
    assert codes[-1] == 0
    assert "tables, shards, ledgers and manifests agree" in out


def test_a_stage_that_fails_is_an_error(corpus, output, tmp_path, by):
    """An input that changed is no problem of the output."""
    (tmp_path / "moved").mkdir()
    small_corpus(tmp_path / "moved")
    with (tmp_path / "moved/ru.jsonl").open("ab") as file:
        file.write(b"\n")
    with pytest.raises(StageError, match="input changed since it was planned"):
        by(output, tmp_path / "work", decode=None, base=str(tmp_path / "moved"))
