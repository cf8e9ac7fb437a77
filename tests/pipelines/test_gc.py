"""tokcore gc: removes what no manifest names, keeps everything that one names, and leaves running builds alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.builds import ROOT, build_file, tokcore, tree

from tokcore.errors import ConfigError
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store import storage

LEFTOVERS = ("_attempts/shards-0123/files/piece", "_attempts/shards-0123/done/item.json", "shards/arrow/old.arrow")


def leave(output: Path) -> None:
    for path in LEFTOVERS:
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (output / path).write_bytes(b"12345")


def test_what_no_manifest_names_goes(output):
    before = tree(output)
    leave(output)
    (output / "notes.txt").write_text("mine")
    (output / "elsewhere").symlink_to(output.parent)
    (output / "shards" / "link").symlink_to(output / "counts")
    assert verify(str(output)).problems != ()
    planned = gc(str(output), "0", dry_run=True)
    assert set(planned.removed) == {*LEFTOVERS, "shards/link"}
    assert set(tree(output)) > set(before)
    collected = gc(str(output), "0")
    assert collected.removed == planned.removed
    assert collected.size_bytes >= 15
    assert collected.left == ("elsewhere", "notes.txt")
    for name in collected.left:
        (output / name).unlink()
    assert tree(output) == before
    assert not (output / "_attempts").exists()
    assert verify(str(output)).problems == ()
    again = gc(str(output), "0")
    assert (again.removed, again.left, again.youngest_seconds) == ((), (), None)


def test_nothing_young_goes(output):
    leave(output)
    assert gc(str(output)).too_young
    assert gc(str(output)).removed == ()
    assert not gc(str(output), "0s", dry_run=True).too_young
    now = time.time()
    for name in LEFTOVERS:
        os.utime(output / name, (now - 1e6, now - 1e6))  # mtimes are old, as those of copied files, ctimes are not
    assert gc(str(output), "5m").too_young


def test_order_of_removal_leaves_no_record_of_what_is_gone(output):
    leave(output)
    (output / "_attempts" / "shards.claim").write_text("{}")
    removed = gc(str(output), "0", dry_run=True).removed
    assert removed[0] == "_attempts/shards-0123/done/item.json"
    assert removed[-1] == "_attempts/shards.claim"


def test_a_build_that_begins_meanwhile_stops_it(output, monkeypatch):
    """It may lean on what is there: but no record of it is left."""
    leave(output)
    young = output / "_attempts" / "at-work.0123"
    remove_files = storage.remove_files

    def remove(url, paths):
        remove_files(url, paths)
        young.write_bytes(b"")

    monkeypatch.setattr(storage, "remove_files", remove)
    assert gc(str(output), "0").removed == ("_attempts/shards-0123/done/item.json",)
    assert young.exists()
    assert (output / "shards/arrow/old.arrow").exists()


def test_nothing_goes_where_a_manifest_cannot_be_read(output):
    leave(output)
    path = output / "counts" / "manifest.json"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ConfigError, match=r"counts/manifest.json.*nothing is removed"):
        gc(str(output), "0")
    assert all((output / name).exists() for name in LEFTOVERS)


def test_a_folder_that_is_no_build(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds no build"):
        gc(str(tmp_path), "0")
    with pytest.raises(ConfigError, match="no output"):
        gc(str(tmp_path / "nothing"), "0")
    with pytest.raises(ConfigError, match="older-than 5 weeks"):
        gc(str(tmp_path), "5 weeks")


def test_a_killed_build_and_a_running_one(corpus, output, tmp_path):
    """gc removes nothing of a running build, and keeps a young claim of a killed one."""
    command = [sys.executable, "-m", "tokcore_pipelines.cli", "build"]
    command += [str(corpus / "build.toml"), "--output", str(tmp_path / "o")]
    killed = subprocess.run(
        command, cwd=ROOT, capture_output=True, check=False, env={**os.environ, "TOKCORE_CRASH": "stage.published:3"}
    )
    assert killed.returncode == -signal.SIGKILL
    other = build_file(corpus, settings="[plan]\nrange_bytes = 4000\n[count]\nmax_pretoken_bytes = 16\n", name="o.toml")
    refused = tokcore("count", other, "--output", tmp_path / "o")
    assert refused.returncode == 2
    assert "`tokcore gc` makes room" in refused.stderr
    assert gc(str(tmp_path / "o")).too_young
    shutil.copytree(tmp_path / "o", tmp_path / "given up")
    gc(str(tmp_path / "given up"), "0")
    assert tokcore("count", other, "--output", tmp_path / "given up").returncode == 0
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None:
        assert gc(str(tmp_path / "o")).removed == ()
    assert process.communicate()[1] is not None
    assert process.returncode == 0
    gc(str(tmp_path / "o"), "0")  # what the refused build left
    assert tree(tmp_path / "o") == tree(output)


def test_the_command(output):
    leave(output)
    young = tokcore("gc", output)
    assert young.returncode == 0
    assert "nothing removed: a file of unfinished work changed 0 minutes ago" in young.stdout
    dry = tokcore("gc", output, "--dry-run", "--older-than", "0")
    assert dry.stdout.splitlines()[-1] == "3 files, 15 bytes would be removed"
    machine = json.loads(tokcore("gc", output, "--older-than", "0s", "--json").stdout)
    assert sorted(machine["removed"]) == sorted(LEFTOVERS)
    assert machine["size_bytes"] == 15
    assert tokcore("gc", output / "nothing").returncode == 2
