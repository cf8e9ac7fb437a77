"""The command line: every command, as a user types it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from builds import ROOT, SETTINGS, build_file, small_corpus, tokcore, tree
from tokenizers import Tokenizer as HuggingFaceTokenizer

import tokcore as api


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    small_corpus(folder)
    build_file(folder)
    return folder


@pytest.fixture(scope="module")
def built(corpus: Path) -> Path:
    done = tokcore("build", corpus / "build.toml", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "102 records read = 102 documents + 0 rejected" in done.stdout
    assert "root" in done.stdout
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["count", "learn", "encode"]
    return corpus / "out"


def test_check_does_no_work(corpus, tmp_path):
    done = tokcore("check", corpus / "build.toml", "--output", tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert "4 files" in done.stdout
    assert not (tmp_path / "none").exists()
    report = json.loads(tokcore("check", corpus / "build.toml", "--json").stdout)
    assert report["files"] == 4
    assert report["settings"]["tokenizer"]["vocab_size"] == 400


def test_stages_one_by_one_give_the_build(corpus, built, tmp_path):
    for command in ("count", "learn", "encode"):
        done = tokcore(command, corpus / "build.toml", "--output", tmp_path / "out")
        assert done.returncode == 0, done.stderr
    again = tokcore("build", corpus / "build.toml", "--output", tmp_path / "out", "--json")
    assert again.stderr == ""  # nothing was left to do
    assert json.loads(again.stdout)["root"] == json.loads((built / "manifest.json").read_bytes())["root"]


def test_a_stage_without_the_one_before(corpus, tmp_path):
    done = tokcore("learn", corpus / "build.toml", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "tokcore count" in done.stderr


def test_show(built):
    shard = built / "shards" / "arrow" / "train-00000-00000.arrow"
    assert "documents: " in tokcore("show", shard).stdout
    document = json.loads(tokcore("show", f"{shard}:1", "--json").stdout)
    assert document["tokens"] == api.open_shards(shard)[1].tolist()
    assert document["id"] == "en-1"
    far = tokcore("show", f"{shard}:99999")
    assert far.returncode == 2
    assert "numbered from 0" in far.stderr


@pytest.mark.parametrize("text", ["Hello  world\n", "и в не\t的 एक", "", "<|endoftext|>"])
def test_pipes(built, text):
    ids = tokcore("encode-text", "--tokenizer", built, input=text)
    assert ids.returncode == 0, ids.stderr
    assert [int(word) for word in ids.stdout.split()] == api.Tokenizer.load(built).encode(text).tolist()
    assert tokcore("decode-ids", "--tokenizer", built / "tokenizer", input=ids.stdout).stdout == text


def test_ids_that_are_none(built):
    assert "'x7' is not a token id" in tokcore("decode-ids", "--tokenizer", built, input="1 x7").stderr
    assert tokcore("decode-ids", "--tokenizer", built, input="99999").returncode != 0


def test_export(built, tmp_path):
    assert tokcore("export", built, "--to", "huggingface", "-o", tmp_path / "t.json").returncode == 0
    assert tokcore("export", built, "--to", "tiktoken", "-o", tmp_path / "t.tiktoken").returncode == 0
    assert tokcore("export", built, "--to", "gpt2", "-o", tmp_path / "gpt2").returncode == 0
    text = "и в не на я the of and 的一是 2024\n\n के में"
    ours = api.Tokenizer.load(built).encode(text).tolist()
    assert HuggingFaceTokenizer.from_file(str(tmp_path / "t.json")).encode(text).ids == ours
    again = api.Tokenizer.from_tiktoken(tmp_path / "t.tiktoken", pattern="cl100k")
    assert again.encode(text).tolist() == ours
    assert sorted(path.name for path in (tmp_path / "gpt2").iterdir()) == ["merges.txt", "vocab.json"]
    assert (tmp_path / "t.json").read_bytes() == (built / "tokenizer" / "tokenizer.json").read_bytes()


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ("[lern]\nvocab_size = 1\n", 2, "Did you mean learn?"),
        ("[learn]\nvocab_size = 100\n", 2, "must be at least 257"),
        ("[learn]\nvocab_size = 30000\n", 3, "allow_smaller"),
    ],
)
def test_exit_codes(corpus, settings, code, message, tmp_path):
    path = build_file(corpus, settings=settings, name="wrong.toml")
    done = tokcore("build", path, "--output", tmp_path / "out")
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_usage(corpus):
    assert tokcore("build").returncode == 2
    assert tokcore("build", "nothing.toml").returncode == 2
    assert "at least 1" in tokcore("build", corpus / "build.toml", "--workers", "0", "--output", corpus / "w").stderr
    assert tokcore("--help").returncode == 0
    assert tokcore("--version").returncode == 0


def test_counts_serve_another_tokenizer(corpus, built, tmp_path):
    """As the README says: the counts of one build, copied, are found by the next."""
    for stage in ("plan", "rejected", "counts"):
        shutil.copytree(built / stage, tmp_path / "out" / stage)
    path = build_file(corpus, settings=SETTINGS.replace("vocab_size = 400", "vocab_size = 500"), name="second.toml")
    done = tokcore("build", path, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["learn", "encode"]


def test_a_worker_that_dies_is_named_and_the_same_command_resumes(corpus, built, tmp_path):
    command = [
        sys.executable,
        "-m",
        "pipelines.cli",
        "build",
        str(corpus / "build.toml"),
        "--output",
        str(tmp_path / "o"),
    ]
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (workers := psutil.Process(driver.pid).children()):
        time.sleep(0.01)
    workers[0].kill()
    _, message = driver.communicate(timeout=60)
    assert driver.returncode == 3
    assert f"process {workers[0].pid}) was killed by SIGKILL" in message
    assert "run the same command again" in message
    assert "Traceback" not in message
    psutil.wait_procs(workers, timeout=10)
    assert not any(worker.is_running() for worker in workers)
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    assert tree(tmp_path / "o") == tree(built)
