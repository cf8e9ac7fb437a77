"""Metadata, attributes, [[map]], [mask], [[filter]] and [dedup] in one build: what a loop leaves, each time."""

from __future__ import annotations

import os

import polars as pl
import pytest
from support.builds import run, tokcore
from support.documents_together import CODE, ITEMS, SETTINGS, find_code, leave_by_hand, list_texts, write_build
from support.slices import SliceProcesses

import tokcore as tk
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.inherited_records import read_ledgers
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store.allowed_code import allowing_code
from tokcore_schemas.stage_table import WHOLE

POINTS = {"text": ("read.batch:5", "dedup.judged:1"), "paragraph": ("dedup.listed:3", "encode.item:2")}  # of kills


@pytest.fixture(autouse=True)
def _allowed(monkeypatch):
    find_code()
    monkeypatch.setenv("PYTHONPATH", str(CODE), prepend=os.pathsep)
    with allowing_code(True):
        yield


@pytest.fixture(scope="module", params=["text", "paragraph"])
def by(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, by):
    folder = tmp_path_factory.mktemp(by)
    find_code()
    with allowing_code(True):
        run(write_build(folder, by), folder / "out")
    return folder


def read_root(output):
    return require_manifest(str(output), WHOLE).root


def build(path, output, *options, **how):
    return tokcore("build", path, "--output", output, "--allow-code", *options, cwd=path.parent, **how)


def test_shards_and_ledgers_have_what_a_loop_leaves(folder, by):
    kept, dropped = leave_by_hand(by)
    assert min(dropped[why] for why in ("tidy", "good", "test")) > 9
    assert dropped["duplicate"] > 30 or by == "paragraph"
    assert list_texts(folder / "out") == kept
    records = require_manifest(str(folder / "out"), WHOLE).totals.records
    assert records.read == records.documents + sum(dropped.values())
    by_reason = dict.fromkeys(dropped, 0)
    for reasons in records.filtered.values():
        for why, num in reasons.items():
            by_reason[why] += num
    assert by_reason == dropped
    for one in read_ledgers(str(folder / "out")).values():
        assert one.records == one.documents + one.num_filtered
    receipt = (folder / "out/rejected/overlaps.jsonl").read_text()
    assert receipt.count("\n") == len(ITEMS)


def test_metadata_and_decoded_texts_are_those_of_the_sources(folder, by):
    report = verify(str(folder / "out"), decode=None, base=str(folder))
    assert (report.problems, report.num_decoded) == ((), len(leave_by_hand(by)[0]))
    shards = tk.open_shards(folder / "out", split="all")
    assert all(shards.metadata(i)["url"].startswith("https://") for i in range(len(shards)))
    if by == "text":
        texts = pl.Series([*list_texts(folder / "out").values()])
        assert len(texts.unique()) == len(texts)


def test_workers_engine_order_and_cuts_change_no_document(folder, by, tmp_path):
    root = read_root(folder / "out")
    options = ("--engine", "direct") if by == "text" else ("--workers", "2")
    done = build(folder / "build.toml", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    assert read_root(tmp_path / "out") == root
    range_bytes = 900 if by == "text" else 1 << 20
    other = tmp_path / "other"
    run(write_build(other, by, SETTINGS.replace("4000\n[learn]", f"{range_bytes}\n[learn]"), order=1), other / "out")
    assert list_texts(other / "out") == leave_by_hand(by)[0]
    mine, theirs = (require_manifest(str(one / "out"), WHOLE).totals for one in (other, folder))
    assert mine.documents_digest == theirs.documents_digest


def test_a_finished_build_is_found_again(folder, by):
    done = build(folder / "build.toml", folder / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing to do: built on" in done.stdout


def test_kills_change_no_byte(folder, by, tmp_path):
    for point in POINTS[by]:
        killed = build(
            folder / "build.toml", tmp_path / "out", "--workers=1", env={**os.environ, "TOKCORE_CRASH": point}
        )
        assert killed.returncode != 0, point
    done = build(folder / "build.toml", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert read_root(tmp_path / "out") == read_root(folder / "out")


def test_slices_make_the_same_build(tmp_path):
    path = write_build(tmp_path, "paragraph")
    run(path, tmp_path / "out")
    with SliceProcesses(path, tmp_path / "sliced", 2, "--allow-code") as slices:
        for one in [slices.start(number) for number in (1, 2)]:
            code, _, err = one.wait()
            assert code == 0, err
    assert read_root(tmp_path / "sliced") == read_root(tmp_path / "out")
