"""tokcore convert: whole folders, from builds and from others; killed and full disks; nothing is replaced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.builds import ROOT, build_file, run, small_corpus, tokcore

from tokcore import open_shards
from tokcore.shards.conversion import Reading
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore_pipelines.look.convert import Report, convert_shards
from tokcore_pipelines.store.crashpoints import CONVERTING_POINTS

IN_ROOT = os.environ | {"PYTHONPATH": str(ROOT)}
SETTINGS = '[learn]\nvocab_size = 400\n[shards]\ntarget_tokens = 1500\nvalidation = "0.2"\n'


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build with shards in every format."""
    folder = tmp_path_factory.mktemp("convert")
    small_corpus(folder)
    formats = ", ".join(f'"{name}"' for name in SHARD_FORMATS)
    path = build_file(folder, settings=f"{SETTINGS}formats = [{formats}]\n".replace('"0.2"', "0.2"))
    run(path, folder / "out")
    return folder / "out"


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def convert_to(source: Path, name: str, target: Path) -> Report:
    return convert_shards(str(source), name, str(target), Reading(), None, "zstd", "")


def test_the_command_says_what_it_wrote(output, tmp_path):
    shards = open_shards(output, "all")
    done = tokcore("convert", output, "--to", "datatrove", "-o", "new", cwd=tmp_path, env=IN_ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"new: {len(shards.paths)} shards, {len(shards)} documents, {shards.num_tokens:,} tokens\n"
    for path in (tmp_path / "new").glob("*.documents"):
        path.unlink()
    done = tokcore("convert", tmp_path / "new", "--to", "arrow", "-o", tmp_path / "rows", "--json")
    assert json.loads(done.stdout)["documents"] == len(shards)
    assert "no languages, ids and sources" in json.loads(done.stdout)["notes"][0]


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_a_folder_is_what_the_build_would_have_written(output, tmp_path, name):
    """Byte for byte, indexes of the folder included, whichever format is read."""
    report = convert_to(output, name, tmp_path / "new")
    shards = open_shards(output, "all")
    assert (report.documents, report.tokens, report.notes) == (len(shards), shards.num_tokens, ())
    found = bytes_below(tmp_path / "new")
    documents = {path: data for path, data in found.items() if path.endswith(".documents")}
    expected = bytes_below(output / "shards" / name)
    assert {path: data for path, data in found.items() if path not in documents} == expected
    assert bool(documents) == (not SHARD_FORMATS[name].has_columns)
    in_build = {Path(path).name: data for path, data in bytes_below(output / "shards" / "documents").items()}
    assert {Path(path).name: data for path, data in documents.items()} == (in_build if documents else {})
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    shutil.copytree(output / "shards", tmp_path / "alone")  # nothing above has the tokenizer
    (tmp_path / "alone" / "manifest.json").unlink()
    for other in ("arrow", "nanogpt"):
        convert_to(tmp_path / "alone" / other, name, tmp_path / other)
        again = {path for path, data in bytes_below(tmp_path / other).items() if found[path] != data}
        # An Arrow file does not say how large the vocabulary is: the largest id does.
        assert not again or (other == "arrow" and all(path.endswith((".documents", "index.json")) for path in again))


@pytest.mark.parametrize("point", CONVERTING_POINTS)
@pytest.mark.parametrize("visit", [1, 3])
def test_killed_anywhere_the_folder_is_absent_or_complete(output, tmp_path, point, visit):
    command = ["convert", output, "--to", "mds", "-o", tmp_path / "new"]
    convert_to(output, "mds", tmp_path / "whole")
    env = os.environ | {"TOKCORE_CRASH": f"{point}:{visit}"}
    words = [sys.executable, "-m", "tokcore_pipelines.cli", *map(str, command)]
    killed = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    reached_once = point != "convert.shard"
    assert killed.returncode == (0 if reached_once and visit > 1 else -9)
    if (tmp_path / "new").exists():
        assert bytes_below(tmp_path / "new") == bytes_below(tmp_path / "whole")
        shutil.rmtree(tmp_path / "new")
    done = tokcore(*command)
    assert done.returncode == 0, done.stderr
    assert bytes_below(tmp_path / "new") == bytes_below(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "whole"]


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_a_full_disk_is_named_and_leaves_nothing(output, tmp_path, name):
    """A limit on the size of files stands for it: writes fail half-way, as they do on a full disk."""
    limit = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); "
    start = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code = start + limit + "sys.argv[0] = 'tokcore'; runpy.run_module('tokcore_pipelines.cli', run_name='__main__')"
    words = [sys.executable, "-c", code, "convert", output, "--to", name, "-o", tmp_path / "new"]
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced(output, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "full", "link"):
        done = tokcore("convert", output, "--to", "mds", "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{name}: is there already" in done.stderr
    done = tokcore("convert", output, "--to", "mds", "-o", tmp_path / "file" / "deep" / "new")
    assert (done.returncode, "a file is in the way" in done.stderr) == (2, True)
    assert tokcore("convert", output, "--to", "mds", "-o", tmp_path / "none" / "new").returncode == 0
    (tmp_path / "empty").mkdir()
    assert tokcore("convert", output, "--to", "mds", "-o", tmp_path / "empty").returncode == 0


def test_mistakes_are_named(output, tmp_path):
    for words, what in (
        ([tmp_path, "--to", "mds"], "no shards in it"),
        ([tmp_path / "none", "--to", "mds"], "there is no such file or folder"),
        ([output, "--to", "mds", "--dtype", "int8"], "--dtype int8: mds has int32 or uint16 or uint32"),
        ([output, "--to", "mds", "--end", "3", "--whole"], "exclude each other"),
        ([output, "--to", "mds", "--vocab-size", "10"], "--vocab-size = 10: expected 257 "),
    ):
        done = tokcore("convert", *words, "-o", tmp_path / "new")
        assert done.returncode == 2
        assert what in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "new").exists()
    done = tokcore("convert", output, "--to", "mds", "-o", "s3://bucket/new")
    assert "only a local folder" in done.stderr


def test_a_folder_that_another_process_makes_is_left_alone(output, tmp_path):
    import fcntl

    with (tmp_path / ".new.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = tokcore("convert", output, "--to", "mds", "-o", tmp_path / "new")
    assert done.returncode == 2
    assert "another process is making it" in done.stderr
