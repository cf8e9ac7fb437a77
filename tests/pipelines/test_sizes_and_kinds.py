"""What has a file's name and is no such file: told by its size and kind, before it is read, on every command."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.builds import build_file, jsonl, run, write
from support.updates import make_texts, update_here

from tokcore.errors import StageError
from tokcore_pipelines import cli
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.whole_files import check_file
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.read_file import MOST_WHOLE_BYTES
from tokcore_schemas.refs import StoredFile

FOUR_TIB = 1 << 42

KINDS: dict[str, Callable[[Path], object]] = {
    "link to itself": lambda path: path.symlink_to(path.name),
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "sparse": lambda path: (path.touch(), os.truncate(path, FOUR_TIB)),
}
FILES = (
    "README.md",
    "manifest.json",
    "log/1.json",
    "plan/files.jsonl",
    "tokenizer/tokcore.json",
    "shards/manifest.json",
    "shards/arrow",  # the first file in it
    "parts",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    write(folder / "in" / "a.jsonl", jsonl([{"text": text} for text in make_texts("fox", 9)]))
    path = build_file(folder, '[[source]]\nlang = "en"\nfiles = "in/*.jsonl"\n', "[learn]\nvocab_size = 280\n")
    run(path, folder / "out")
    write(folder / "in" / "b.jsonl", jsonl([{"text": "one more fox"}]))
    update_here(path, folder / "out")
    return folder


def put(output: Path, name: str, kind: str) -> str:
    """Put something of that kind in place of a file; its path below the output."""
    path = output / name
    path = path if path.is_file() else next(one for one in sorted(path.rglob("*")) if one.is_file())
    path.unlink()
    KINDS[kind](path)
    return str(path.relative_to(output))


@pytest.mark.parametrize("kind", KINDS)
def test_it_becomes_a_problem_in_the_list(sound, tmp_path, kind):
    """Of the card, too; beside a file that is gone, which is still named."""
    for name in FILES:
        output = Path(shutil.copytree(sound / "out", tmp_path / name.replace("/", "-")))
        # Without the manifests, nobody knows what a README.md that can be read should say.
        with_another = name in ("plan/files.jsonl", "shards/arrow") or (name == "README.md" and kind != "sparse")
        if with_another:
            shutil.rmtree(output / "counts")
        path = put(output, name, kind)
        report = verify(str(output), options=RunOptions(1, here=True))
        assert any(one.startswith(path) for one in report.problems), (path, report.problems)
        if with_another:
            assert any(one.startswith("counts/manifest.json: missing") for one in report.problems), report.problems
        repaired = repair(str(output), options=RunOptions(1, here=True))
        assert repaired.left or verify(str(output), options=RunOptions(1, here=True)).problems == ()


def test_a_sound_size_is_what_is_read(sound, tmp_path, monkeypatch):
    """An oversized file is told by its size, without a byte of it read."""
    output = Path(shutil.copytree(sound / "out", tmp_path / "out"))
    path = put(output, "shards/arrow", "sparse")
    read = []
    monkeypatch.setattr(storage.ReadFile, "read", lambda self, size=-1: read.append(self.url) or b"")
    monkeypatch.setattr(storage.ReadFile, "readall", lambda self: read.append(self.url) or b"")
    stage, _, below = path.partition("/")
    (problem,) = check_file(str(output), stage, StoredFile(below, "", 7210, "0" * 64, "0" * 64))
    assert problem == f"{path}: {FOUR_TIB} bytes, committed with 7210"
    assert read == []


def test_a_file_of_any_size_is_not_read_into_memory(tmp_path):
    KINDS["sparse"](tmp_path / "large")
    with pytest.raises(StageError, match=f"{FOUR_TIB:,} bytes, expected at most {MOST_WHOLE_BYTES:,}"):
        storage.read_bytes(str(tmp_path / "large"))


@pytest.mark.parametrize("name", ["manifest.json", "shards/arrow"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_commands_end_with_a_sentence(sound, tmp_path, capsys, monkeypatch, kind, name):
    shutil.copytree(sound, tmp_path / "all")
    monkeypatch.chdir(tmp_path / "all")
    path = put(Path("out"), name, kind)
    capsys.readouterr()
    for arguments in (["log", "out"], ["show", "out"], ["show", f"out/{path}:0"], ["curve", "out"], ["gc", "out"]):
        with pytest.raises(SystemExit) as ended:
            cli.run(arguments)
        said = capsys.readouterr().err
        assert ended.value.code in (None, 0) or "error: " in said, (arguments, said)
        assert ended.value.code in (None, 0, 2, 3)
