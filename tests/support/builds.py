"""Small corpora and builds for tests: real formats, run through the same code as the command line."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import zstandard
from support.command_server import can_serve, run_command

from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import BuildConfig, load_config, parse_config
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.stage_table import WHOLE

ROOT = Path(__file__).parents[2]

WORDS = {
    lang: words.split()
    for lang, words in {
        "en": "the of and to in a is that for it was on with as be at by this had not are but from or have an they",
        "ru": "и в не на я быть он с что а по это она этот к но они мы весь который из у то за свой",
        "zh": "的 一 是 不 了 人 我 在 有 他 这 为 之 大 来 以 个 中 上 们 到 说 国 和 地 也",
        "hi": "के में की है और से का को पर इस होता कि जो कर मे गया करने किया लिये अपने ने बनी नहीं तो",
    }.items()
}


def texts(lang: str, num: int, seed: int = 0) -> list[str]:
    """Documents of a language: random words, some punctuation, digits and line breaks."""
    chance = random.Random(f"{lang}-{seed}")
    glue = "" if lang == "zh" else " "
    return [
        glue.join(
            chance.choice(WORDS[lang]) + chance.choice(["", "", "", ",", ". ", "\n", " 2024"]) for _ in range(40)
        ).strip()
        for _ in range(num)
    ]


def jsonl(documents: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(document, ensure_ascii=False).encode() + b"\n" for document in documents)


def write(path: Path, data: bytes) -> Path:
    """Write a file, compressed as its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zst":
        data = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    elif path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    path.write_bytes(data)
    return path


# Where run_once() keeps outputs while tests run; tests/conftest.py sets it.
kept: Path | None = None


def small_corpus(folder: Path) -> None:
    """Write about 100 documents in four languages, four files and three formats, of one time: builds pin it."""
    for lang, suffix in (("en", "jsonl.zst"), ("ru", "jsonl"), ("zh", "jsonl.gz")):
        documents = [{"id": f"{lang}-{i}", "text": text} for i, text in enumerate(texts(lang, 30))]
        write(folder / f"{lang}.{suffix}", jsonl(documents))
    write(folder / "hi.txt", "\n\n\n".join(texts("hi", 12)).encode())
    for name in ("en.jsonl.zst", "ru.jsonl", "zh.jsonl.gz", "hi.txt"):
        os.utime(folder / name, (SMALL_TIME, SMALL_TIME))


SMALL_TIME = 1_700_000_000
SOURCES = """
[[source]]
lang = "en"
files = "en.jsonl.zst"
id = "id"
[[source]]
lang = "ru"
files = ["ru.jsonl"]
id = "id"
[[source]]
lang = "zh"
files = "zh.jsonl.gz"
id = "id"
[[source]]
lang = "hi"
files = "hi.txt"
separator = "\\n\\n\\n"
"""
REVERSED_SOURCES = "".join("[[source]]" + table for table in reversed(SOURCES.split("[[source]]")[1:]))

SETTINGS = """
[plan]
range_bytes = 4000
[learn]
vocab_size = 400
[shards]
target_tokens = 2000
"""


def build_file(
    folder: Path, sources: str = SOURCES, settings: str = SETTINGS, name: str = "build.toml", build: str = ""
) -> Path:
    """A build file in the corpus's folder."""
    path = folder / name
    path.write_text(f'version = 1\n[build]\noutput = "out"\n{build}\n{sources}\n{settings}\n')
    return path


def cut_corpus(folder: Path) -> str:
    """Write the documents of small_corpus, the Russian ones in two files; return the sources that read them."""
    small_corpus(folder)
    (folder / "ru.jsonl").unlink()
    documents = [{"id": f"ru-{i}", "text": text} for i, text in enumerate(texts("ru", 30))]
    write(folder / "ru1.jsonl.gz", jsonl(documents[17:]))
    write(folder / "ru2.jsonl", jsonl(documents[:17]))
    return SOURCES.replace('["ru.jsonl"]', '["ru2.jsonl", "ru1.jsonl.gz"]')


def make_config(settings: str) -> BuildConfig:
    """The build file that the small corpus and these settings make, as it is read; no file is there."""
    return parse_config(f'version = 1\n[build]\noutput = "out"\n{SOURCES}\n{settings}\n', "build.toml")


# Beam's own runner, in this process.
ON_BEAM = ("--runner=FnApiRunner",)


def run(path: Path, output: Path, workers: int = 0, runner: tuple[str, ...] = ()) -> BuildManifest:
    """Run a build. workers: processes, which do the work; 0: this thread does all of it.

    runner: Beam's options.
    """
    options = RunOptions(workers or 1, runner, here=not workers and not runner)
    return Build(load_config(str(path)), options, str(output)).run()


def run_once(path: Path, output: Path) -> BuildManifest:
    """As run(path, output), but an equal build of these tests is made once and copied.

    All files beside the build file are its inputs. A copy, because tests edit outputs in place: a link would hand the
    edit on. For fixtures of files of tests, not where the product is patched, which does nothing to a copy.
    """
    if kept is None:
        return run(path, output)
    told = [path.read_text(), *((one.name, one.stat().st_mtime_ns, hash_file(one)) for one in list_inputs(path))]
    folder = kept / hashlib.sha256(json.dumps(told).encode()).hexdigest()
    kept.mkdir(exist_ok=True)
    with (kept / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given up when the file is closed
        if not folder.exists():
            run(path, output)
            shutil.copytree(output, folder)
            (folder / "base").write_text(str(path.parent))
    if not output.exists():
        shutil.copytree(folder, output, ignore=lambda of, _: ["base"] if Path(of) == folder else [])
        for file in output.rglob("run.json"):  # which say where inputs are
            file.write_text(file.read_text().replace((folder / "base").read_text(), str(path.parent)))
    manifest = find_manifest(str(output), WHOLE)
    assert manifest is not None
    return manifest


def list_inputs(path: Path) -> list[Path]:
    """The files beside a build file, in order."""
    return sorted(one for one in path.parent.iterdir() if one.is_file() and one.suffix != ".toml")


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tokcore(
    *arguments: str | Path,
    cwd: str | Path = ROOT,
    input: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own."""
    command = [sys.executable, "-m", "tokcore_pipelines.cli", *map(str, arguments)]
    environment = os.environ if env is None else env
    if can_serve(environment):
        done = run_command([*map(str, arguments)], cwd, input, environment, timeout)
        return subprocess.CompletedProcess(command, *done)
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, input=input, env=environment, timeout=timeout
    )


def find_file(output: Path, name: str) -> Path:
    """A file of an output by its path without its result key: shards/arrow/train-00000-00000.arrow."""
    if (output / name).exists():
        return output / name
    path = output / name
    (found,) = (file for file in path.parent.iterdir() if drop_result_key(file.name) == path.name)
    return found


def drop_result_key(name: str) -> str:
    """The name of a shard or a count table as if it had no result key."""
    return re.sub(r"-[0-9a-f]{12}(?=[._])", "", name)


def drop_result_keys(path: PurePath) -> str:
    """The path as if no folder or file in it had a result key."""
    return "/".join(map(drop_result_key, path.parts))


def tree(output: Path) -> dict[str, str]:
    """Every file of an output but run.json -> sha256."""
    return {
        str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(output.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }
