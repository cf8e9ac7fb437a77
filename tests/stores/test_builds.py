"""Whole builds from and to each store, and every command on what they made; equal to the build on local disks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from stores.files import put, read, remove, tree
from stores.servers import STARTS, Store
from support.builds import find_file, jsonl, texts, tokcore, write
from support.builds import tree as local_tree

from tokcore.train.loader import Loader
from tokcore_pipelines.cli import commands

BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang = "en"
files = "data/en*.jsonl.zst"
id = "id"
[[source]]
lang = "zh"
files = ["data/zh.jsonl"]
id = "id"
[learn]
vocab_size = [290, 300]
[pack]
length = 64
"""


class Built(NamedTuple):
    """The same corpus built on disks and in a store, from a build file beside it."""

    store: Store
    folder: str  # URL of the build file's folder
    local: Path

    @property
    def output(self) -> str:
        return f"{self.folder}/out"

    def run(self, *arguments: str | Path, code: int = 0, stdin: str = "") -> str:
        """What a command prints, which must end with this code. It runs here: each process imports for seconds."""
        done = CliRunner().invoke(commands, [str(one) for one in arguments], stdin, env=self.store.environment)
        assert done.exit_code == code, done.output
        return done.stderr if code > 1 else done.stdout


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local")
    for name, lang in (("en-0.jsonl.zst", "en"), ("en-1.jsonl.zst", "en"), ("zh.jsonl", "zh")):
        documents = [{"id": f"{name}-{i}", "text": text} for i, text in enumerate(texts(lang, 15, len(name)))]
        write(folder / "data" / name, jsonl(documents))
    (folder / "build.toml").write_text(BUILD)
    done = tokcore("build", folder / "build.toml", "--workers", "2")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module", params=list(STARTS))
def built(request: pytest.FixtureRequest, local: Path) -> Iterator[Built]:
    with STARTS[request.param]() as store:
        made = Built(store, store.fresh(), local)
        for path in (local / "build.toml", *sorted((local / "data").iterdir())):
            put(store, f"{made.folder}/{path.relative_to(local)}", path.read_bytes())
        done = tokcore("build", f"{made.folder}/build.toml", "--workers", "2", env=store.variables(), timeout=200)
        assert done.returncode == 0, done.stderr
        store.proxy.reset()
        yield made


def test_the_root_and_all_bytes_are_those_of_a_local_build(built: Built) -> None:
    """Pins differ, and with them plan/, result keys, and what names files by them."""
    ours = json.loads(read(built.store, f"{built.output}/manifest.json"))
    theirs = json.loads((built.local / "out/manifest.json").read_bytes())
    assert ours["root"] == theirs["root"]
    here, there = (
        {re.sub(r"-[0-9a-f]{12}", "", path): sha256 for path, sha256 in one.items()}
        for one in (tree(built.store, built.output), local_tree(built.local / "out"))
    )
    assert sorted(here) == sorted(there)
    differ = {path for path in here if here[path] != there[path]}
    expected = {"plan/files.jsonl", "shards/megatron/data_path.train", "packed/megatron/data_path.train"}
    assert {path for path in differ if not path.endswith("manifest.json")} == expected


def test_verify(built: Built) -> None:
    report = json.loads(built.run("verify", built.output, "--decode", "all", "--json"))
    assert report["num_decoded"] == 45
    assert report["problems"] == []
    for shard in ("train-00000-00000", "packed/train-00000-00000"):
        assert "every byte is the same" in built.run("verify", built.output, "--rebuild", shard)


def test_show(built: Built) -> None:
    shard = json.loads(built.run("show", built.output, "--json"))[0]
    for path in shard["files"]:
        if path.endswith(".arrow") or (path.endswith(".bin") and built.store.kind == "s3"):
            url = f"{built.output}/shards/{path}"
            described = json.loads(built.run("show", url, "--json"))
            assert (described["documents"], described["path"]) == (shard["documents"], url)
            document = json.loads(built.run("show", f"{url}:1", "--json"))
            same = find_file(built.local / "out", re.sub(r"-[0-9a-f]{12}", "", f"shards/{path}"))
            here = json.loads(built.run("show", f"{same}:1", "--json"))
            assert {**document, "source": ""} == {**here, "source": ""}
            assert document["text"]
    stranger = built.run("show", f"{built.output}/shards/arrow/other.arrow", code=2)
    assert "other.arrow: no shard of" in stranger
    assert "tokcore show" in stranger


def test_commands_that_look(built: Built, tmp_path: Path) -> None:
    differ = json.loads(built.run("diff", built.output, built.local / "out", "--json", code=1))
    assert list(differ) == ["inputs"]
    assert all("mtime_ns" in line for line in differ["inputs"]["changed"]["first"])
    audit = json.loads(built.run("audit", built.output, "--sources", "--json"))
    there = json.loads(built.run("audit", built.local / "out", "--sources", "--json"))
    assert {**audit, "output": ""} == {**there, "output": ""}
    for size in ((), ("--vocab-size", "290")):
        built.run("export", built.output, *size, "--to", "tiktoken", "-o", tmp_path / "ranks", "--force")
        built.run("export", built.local / "out", *size, "--to", "tiktoken", "-o", tmp_path / "local", "--force")
        assert (tmp_path / "ranks").read_bytes() == (tmp_path / "local").read_bytes()
    for name, taken in (("ranks", 0), ("ranks", 0), ("out/manifest.json", 2)):  # equal content is no conflict
        arguments = ("export", built.output, "--to", "tiktoken", "-o", f"{built.folder}/{name}")
        assert ("is there already, with other content" in built.run(*arguments, code=taken)) == (taken > 0)
    built.run("export", built.output, "--to", "huggingface", "-o", f"{built.folder}/hugging")
    exported = read(built.store, f"{built.folder}/hugging/tokenizer.json")
    assert exported == (built.local / "out/tokenizer/tokenizer.json").read_bytes()
    built.run("export", built.local / "out", "--to", "tiktoken", "-o", tmp_path / "local", "--force")
    assert read(built.store, f"{built.folder}/ranks") == (tmp_path / "local").read_bytes()
    page = f"{built.folder}/page.html"
    assert "on this machine only" in built.run("report", built.output, "-o", page, code=2)
    assert "check" in built.run("init", f"{built.folder}/data", "-o", tmp_path / "build.toml")
    assert "nothing to do" in built.run("check", f"{built.folder}/build.toml") + built.run(
        "build", f"{built.folder}/build.toml"
    )


def test_commands_of_shards_and_tokenizers(built: Built, tmp_path: Path) -> None:
    """Those that read a tokenizer, tables or shards give what they give for the local build."""
    local = built.local / "out"
    here, there = (json.loads(built.run("curve", one, "--json")) for one in (built.output, local))
    assert here == there
    ids = built.run("tokenize", "-", "--ids", "--tokenizer", built.output, stdin="the 人 of")
    assert ids == built.run("tokenize", "-", "--ids", "--tokenizer", local, stdin="the 人 of")
    assert built.run("decode-ids", "--tokenizer", built.output, stdin=ids) == "the 人 of"
    for name, output in (("here", built.output), ("there", local)):
        built.run("convert", output, "--to", "nanogpt", "-o", tmp_path / name)
    here, there = (
        [sha256 for path, sha256 in local_tree(tmp_path / name).items() if path.endswith(".bin")]
        for name in ("here", "there")
    )
    assert here
    assert here == there, "ids; documents files say where texts came from"
    refused = built.run("fsck", f"{built.output}/shards/arrow", code=2)
    assert "fsck reads local files: copy them here, or run `tokcore verify`" in refused


@pytest.mark.parametrize("built", ["s3"], indirect=True)  # a build takes long: one store shows it
@pytest.mark.parametrize("change", ["none", "learn.vocab_size=310"])
def test_stages_of_another_output_are_taken_over(built: Built, change: str) -> None:
    """No record is counted again where only the tokenizer differs, nor tokenized where nothing does."""
    output = f"{built.folder}/{change}"
    arguments = ["--output", output, "--from", built.output, "--workers", "1", "-v"]
    arguments += ["--set", change] if change != "none" else []
    done = tokcore("build", f"{built.folder}/build.toml", *arguments, env=built.store.variables(), timeout=200)
    assert done.returncode == 0, done.stderr
    worked = {line.split()[0] for line in done.stderr.splitlines() if " MB/s" in line}
    assert worked == (set() if change == "none" else {"encode"})
    assert json.loads(built.run("verify", output, "--json"))["problems"] == []
    here, there = (json.loads(read(built.store, f"{one}/manifest.json"))["root"] for one in (output, built.output))
    assert (here == there) == (change == "none")


def test_packed_rows_are_read_at_a_url(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in built.store.environment.items():
        monkeypatch.setenv(name, value)
    here, there = (Loader(f"{one}/packed", 64, 4, seed=1) for one in (built.output, built.local / "out"))
    assert here.num_rows == there.num_rows > 4
    assert here[0].tokens.tolist() == there[0].tokens.tolist()
    assert here[0].cu_seqlens.tolist() == there[0].cu_seqlens.tolist()


def test_gc_and_repair(built: Built) -> None:
    before = tree(built.store, built.output)
    put(built.store, f"{built.output}/shards/arrow/left.arrow", b"of a killed build")
    collected = json.loads(built.run("gc", built.output, "--older-than", "0", "--json"))
    assert collected["removed"] == ["shards/arrow/left.arrow"]
    for path in before:
        if re.fullmatch(r"shards/arrow/train-00000-00000-\w+\.arrow", path):
            remove(built.store, f"{built.output}/{path}")
        elif re.fullmatch(r"counts/en-\w+\.parquet|packed/pieces/train-00000-00000-\w+\.pieces", path):
            put(built.store, f"{built.output}/{path}", b"damaged")
    assert tree(built.store, built.output) != before
    built.run("repair", built.output)
    assert tree(built.store, built.output) == before
