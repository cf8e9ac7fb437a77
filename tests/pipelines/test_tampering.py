"""Outputs that somebody tampered with: `repair` ends with 0 only where `verify` does, and never makes it worse."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.builds import build_file, jsonl, run, tree, write
from support.updates import make_texts, update_here

from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions

SOURCES = """
[[source]]
lang = "en"
files = "in/*.jsonl"
id = "id"
"""
# Of the newest commit nothing vouches for what it says of its command, but a later one.
NEWEST = "log/1.json"

SETTINGS = """
[learn]
vocab_size = 280
[shards]
formats = ["arrow", "megatron"]
"""

_HEX = re.compile(r'"(?P<key>\w+)":"(?P<value>[0-9a-f]{64})"')
_NUMBER = re.compile(r'"(?P<key>\w+)":(?P<value>\d+)')


def make(folder: Path, name: str, is_updated: bool) -> Path:
    """An output with one commit after its build; or one of rows, without any."""
    write(
        folder / "in" / "a.jsonl", jsonl([{"id": f"{name}{i}", "text": t} for i, t in enumerate(make_texts(name, 9))])
    )
    path = build_file(folder, SOURCES, SETTINGS + ("" if is_updated else "[pack]\nlength = 64\n"))
    run(path, folder / "out")
    if not is_updated:
        return folder / "out"
    write(folder / "in" / "b.jsonl", jsonl([{"id": f"new {name}", "text": f"one more {name}"}]))
    update_here(path, folder / "out")
    return folder / "out"


def rewrite(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def list_manifests(output: Path) -> list[str]:
    """The files that vouch for others: manifests and the log."""
    found = [*output.rglob("manifest.json"), *output.glob("log/*")]
    return sorted(str(path.relative_to(output)) for path in found)


# -------------------------------------------------------------------------------------- kinds: (name, what it does)

Kind = tuple[str, Callable[[Path, Path], None]]


def edit_values(output: Path) -> Iterator[Kind]:
    """One digit of the first value of each key of each manifest: of hashes and of numbers. Of parts the build's."""
    for name in list_manifests(output):
        if name.startswith("parts/") and name.count("/") > 2:
            continue
        text = (output / name).read_text()
        for pattern in (_HEX, _NUMBER):
            places = {match["key"]: match.start("value") for match in reversed([*pattern.finditer(text)])}
            for key, start in places.items():
                digit = "1" if text[start] != "1" else "2"
                edited = (text[:start] + digit + text[start + 1 :]).encode()
                yield f"{name}: {key}", lambda out, _, n=name, d=edited: rewrite(out / n, d)


def replace_files(output: Path) -> Iterator[Kind]:
    """Files gone, longer, of other bytes; a folder, a FIFO, a link in their places."""

    def change_byte(path: Path) -> None:
        data = path.read_bytes()
        rewrite(path, data[:-1] + bytes([data[-1] ^ 1]) if data else b"x")

    def link_out(path: Path, output: Path) -> None:
        shutil.move(path, output.parent / "outside")
        path.symlink_to(output.parent / "outside")

    def make_instead(make: Callable[[Path], object], path: Path) -> None:
        path.unlink()
        make(path)

    kinds: dict[str, Callable[[Path, Path], object]] = {
        "gone": lambda path, _: path.unlink(),
        "longer": lambda path, _: rewrite(path, path.read_bytes() + b"\n"),
        "changed": lambda path, _: change_byte(path),
        "link out": link_out,
        "folder": lambda path, _: make_instead(Path.mkdir, path),
        "FIFO": lambda path, _: make_instead(os.mkfifo, path),
        "loop": lambda path, _: make_instead(lambda here: here.symlink_to(here.name), path),
    }
    for number, name in enumerate(choose_files(output)):
        for step in (0, 3):  # of each file two kinds, of each kind of file sooner or later all
            kind = [*kinds][(number + step) % len(kinds)]
            yield f"{name}: {kind}", lambda out, _, n=name, k=kind: kinds[k](out / n, out)


def choose_files(output: Path) -> list[str]:
    """What vouches for others, and of each folder one file of each kind; of parts none but these."""
    found = {name: name for name in ("README.md", *list_manifests(output))}
    for path in sorted(output.rglob("*")):
        name = path.relative_to(output)
        if path.is_file() and path.name != "run.json" and name.parts[0] != "parts":  # nothing vouches for run.json
            found.setdefault(f"{name.parent}{name.suffix}", str(name))
    return [*dict.fromkeys(found.values())]


def mix_outputs(output: Path) -> Iterator[Kind]:
    """Folders, manifests and commits of another output, links to folders, a hole in the log, files of nobody."""

    def swap(name: str) -> Callable[[Path, Path], None]:
        def done(out: Path, other: Path) -> None:
            path = out / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            (shutil.copytree if (other / name).is_dir() else shutil.copy)(other / name, path)

        return done

    def link_out(name: str) -> Callable[[Path, Path], None]:
        def done(out: Path, _: Path) -> None:
            shutil.move(out / name, out.parent / "outside")
            (out / name).symlink_to(out.parent / "outside")

        return done

    def lose(name: str) -> Callable[[Path, Path], None]:
        return lambda out, _: shutil.rmtree(out / name)

    stages = sorted(path.parent.name for path in output.glob("*/manifest.json"))
    parts = [str(path.relative_to(output)) for path in output.glob("parts/*")]
    for stage in stages:
        yield f"{stage} of another output", swap(stage)
        yield f"manifest of {stage} of another output", swap(f"{stage}/manifest.json")
    for name in ("manifest.json", "README.md", *(["log/1.json"] if parts else [])):
        yield f"{name} of another output", swap(name)
    for name in (*stages, "shards/arrow", *([*parts, f"{parts[0]}/shards", "log", "parts"] if parts else [])):
        yield f"{name}: link out", link_out(name)
        yield f"{name}: lost", lose(name)

    def hole(out: Path, _: Path) -> None:
        (out / "log" / "1.json").rename(out / "log" / "2.json")

    def twice(out: Path, _: Path) -> None:
        shutil.copy(out / "log" / "1.json", out / "log" / "2.json")

    def stray(path: str) -> Callable[[Path, Path], None]:
        return lambda out, _: (out / path).write_bytes(b"hello")

    if parts:
        yield "a hole in the log", hole
        yield "a commit twice", twice
    for path in ("shards/arrow/more.arrow", "notes.txt", "tokenizer/.hidden", *(["log/notes.txt"] if parts else [])):
        yield f"{path}: of nobody", stray(path)


def consistent_lies(output: Path) -> Iterator[Kind]:
    """A manifest edited, and the hash of it corrected in that of the build."""

    def edit(stage: str, change: Callable[[dict], object]) -> Callable[[Path, Path], None]:
        def done(out: Path, _: Path) -> None:
            made = json.loads((out / stage / "manifest.json").read_bytes())
            change(made)
            data = write_canonical_json(made)
            rewrite(out / stage / "manifest.json", data)
            build = json.loads((out / "manifest.json").read_bytes())
            build["inputs"][stage]["sha256"] = hashlib.sha256(data).hexdigest()
            rewrite(out / "manifest.json", write_canonical_json(build))

        return done

    for stage in sorted(path.parent.name for path in output.glob("*/manifest.json")):
        yield f"{stage}: a size, hashed again", edit(stage, lambda made: made["files"][-1].update(size_bytes=9))
        yield (
            f"{stage}: a content, hashed again",
            edit(stage, lambda made: made["files"][-1].update(content_sha256="0" * 64)),
        )
        yield f"{stage}: a file left out, hashed again", edit(stage, lambda made: made["files"].pop())


GROUPS = (edit_values, replace_files, mix_outputs, consistent_lies)


@pytest.mark.parametrize("is_updated", [True, False], ids=["updated", "rows"])
def test_repair_ends_with_0_only_where_verification_does(tmp_path, is_updated):
    sound, other = make(tmp_path / "one", "fox", is_updated), make(tmp_path / "two", "goose", is_updated)
    before = tree(sound)
    kinds = [kind for group in GROUPS for kind in group(sound)]
    wrong = []
    healed = 0
    for name, tamper in kinds:
        output = Path(shutil.copytree(sound, tmp_path / "tampered" / "out", copy_function=os.link))
        tamper(output, other)
        untouched = {path for path, digest in tree(output).items() if before.get(path) == digest}
        report = repair(str(output), options=RunOptions(1, here=True))
        after = tree(output)
        if any(after.get(path) != before[path] for path in untouched):
            wrong.append(f"{name}: repair changed a sound file")
        if not report.left:
            healed += 1
            if problems := verify(str(output), options=RunOptions(1, here=True)).problems:
                wrong.append(f"{name}: repaired, and {problems}")
            elif {**after, NEWEST: ""} != {**before, NEWEST: ""}:
                wrong.append(f"{name}: repaired, and not as it was")
        shutil.rmtree(tmp_path / "tampered")
    assert not wrong, "\n".join(wrong)
    assert 10 < healed < len(kinds) / 2
