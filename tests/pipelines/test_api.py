"""Builds from Python: the functions do what the commands do, in any thread, as often as one likes."""

from __future__ import annotations

import concurrent.futures
import doctest
import inspect
import json
import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.builds import ROOT, build_file, jsonl, run_once, texts, tokcore

import tokcore_pipelines
from tokcore.errors import ConfigError, LearnError
from tokcore_pipelines import Build, Learn, Output, Progress, Source

DOCUMENTS = [{"id": f"en-{i}", "text": text} for i, text in enumerate(texts("en", 20))]
SOURCE = '[[source]]\nlang = "en"\nfiles = "en*.jsonl"\nid = "id"'
LEARN = "[learn]\nvocab_size = 300"
IN_PYTHON = Build(sources=[Source(lang="en", files="en*.jsonl", id="id")], learn=Learn(vocab_size=300))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working folder: a corpus, its build file and, by that, the output `out`."""
    (tmp_path / "en.jsonl").write_bytes(jsonl(DOCUMENTS))
    run_once(build_file(tmp_path, SOURCE, LEARN), tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_build_in_python_is_that_of_its_build_file(folder):
    output = tokcore_pipelines.build(IN_PYTHON, output="python", workers=1)
    assert output == Output(str(folder / "python"))
    assert output.root == Output(str(folder / "out")).root
    assert tokcore_pipelines.build(folder / "build.toml") == Output(str(folder / "out")), "finished, so nothing is done"


def test_what_an_output_has(folder):
    output = Output(str(folder / "out"))
    shards, tokenizer = output.open_shards(), output.tokenizer
    assert [shards.document(i).id for i in range(20)] == [one["id"] for one in DOCUMENTS]
    assert tokenizer.decode(shards[3]) == DOCUMENTS[3]["text"].encode() + b"<|endoftext|>"
    assert output.totals.tokens == sum(map(len, shards)) == output.manifest("shards").totals.tokens
    assert output.counts("en").num_rows > 10
    assert output.manifest("build").root == output.root
    assert output.log() == ()
    with pytest.raises(ConfigError, match=r"stage = 'count': expected one of plan, "):
        output.manifest("count")
    with pytest.raises(ConfigError, match=r"mixed/manifest.json: not there. Run `tokcore mix`"):
        output.manifest("mixed")


def test_settings_replace_those_of_the_file(folder):
    how = {"output": "small", "workers": 1}
    small = tokcore_pipelines.build("build.toml", **how, learn={"vocab_size": 280})
    assert small.tokenizer.vocab_size == 280
    again = tokcore_pipelines.build("build.toml", **how, learn=Learn(vocab_size=290), replace="learn")
    assert again == small
    assert small.tokenizer.vocab_size == 290


def test_an_output_follows_updates_and_removals(folder):
    assert tokcore_pipelines.update("build.toml", workers=1) is None
    (folder / "en-2.jsonl").write_bytes(jsonl([{"id": "late", "text": "late text"}]))
    output = Output(str(folder / "out"))
    before = output.root
    commit = tokcore_pipelines.update("build.toml", workers=1)
    assert output.log() == (commit,)
    assert output.totals.records.documents == 21
    removed = tokcore_pipelines.remove(output, ids=["late"], workers=1)
    assert (removed.documents, len(output.log()), output.totals.records.documents) == (1, 2, 20)
    assert [len(output.open_shards(at=number)) for number in (0, 1, 2)] == [20, 21, 20]
    assert output.root == output.log()[1].root != before
    assert tokcore_pipelines.verify(output, decode="all").problems == ()
    with pytest.raises(ConfigError, match="what is to be removed"):
        tokcore_pipelines.remove(output)


def test_they_say_what_the_commands_say(folder):
    for call, command in (
        (lambda: tokcore_pipelines.check("build.toml"), ["check", "build.toml"]),
        (lambda: tokcore_pipelines.check(IN_PYTHON, output="other"), ["check", "build.toml", "--output", "other"]),
    ):
        done = tokcore(*command, "--json", cwd=folder)
        ours, theirs = json.loads(json.dumps(call())), json.loads(done.stdout)
        for told in (ours, theirs):
            for measured in ("seconds", "bytes_per_second"):
                (told["estimates"] or {}).pop(measured, None)
        assert ours == theirs
    next(path for path in (folder / "out" / "shards").rglob("train-*") if path.is_file()).write_bytes(b"x")
    report = tokcore_pipelines.verify("out")
    done = tokcore("verify", "out", "--json", cwd=folder)
    assert report.problems
    assert list(report.problems) == json.loads(done.stdout)["problems"]


def test_a_report_is_numbers_and_on_demand_a_page(folder):
    told = tokcore_pipelines.report("out", folder / "page.html", sample=5)
    assert told["corpus"]["documents"] == 20
    assert json.loads((folder / "page.json").read_text()) == json.loads(json.dumps(told))
    with pytest.raises(ConfigError, match="is there already"):
        tokcore_pipelines.report("out", folder / "page.html")


def test_progress_is_told_and_nothing_is_printed(folder, capfd):
    told: list[Progress] = []
    tokcore_pipelines.build(IN_PYTHON, output="told", workers=1, progress=told.append)
    assert capfd.readouterr() == ("", "")
    lines = [one.text.split()[0] for one in told if not one.stage]
    assert [name for name in lines if name in ("count", "learn", "encode")] == ["count", "learn", "encode"]
    tokcore_pipelines.build(IN_PYTHON, output="shown", workers=1, progress=True)
    assert "encode" in capfd.readouterr().err


def test_warnings_are_those_of_python(folder):
    documents = [*DOCUMENTS, *({"id": f"odd-{i}"} for i in range(3))]
    (folder / "en.jsonl").write_bytes(jsonl(documents))
    with pytest.warns(UserWarning, match="would be rejected"):
        tokcore_pipelines.build(IN_PYTHON, output="warned", workers=1, build={"max_rejected": 1})
    with pytest.raises(ConfigError, match=r"learn\.vocab_size = 1: must be at least 257"):
        tokcore_pipelines.build(IN_PYTHON, output="warned", learn={"vocab_size": 1})
    with pytest.raises(ConfigError, match=r"build\.toml: is a build file; name its output instead: .*/out"):
        tokcore_pipelines.verify("build.toml")


def test_threads_take_turns(folder):
    made: list[Output] = []

    def make(name: str) -> None:
        made.append(tokcore_pipelines.build(IN_PYTHON, output=name, workers=1))

    started = [threading.Thread(target=make, args=(name,)) for name in ("a", "b")]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert sorted(Path(output.url).name for output in made) == ["a", "b"]
    assert len({output.root for output in made}) == 1


def test_a_tokenizer_with_tokens_of_one_document_is_not_pushed(folder, monkeypatch):
    pushed: list[tuple[Any, ...]] = []
    monkeypatch.setattr("tokcore.tokenizer.tokenizer.push_files", lambda *about: pushed.append(about) or "url")
    assert Output(str(folder / "out")).push_to_hub("org/name") == "url"
    assert pushed.pop()[0] == "org/name"
    (folder / "en.jsonl").write_bytes(jsonl([*DOCUMENTS, {"id": "odd", "text": "hunter2secret " * 40}]))
    output = tokcore_pipelines.build(IN_PYTHON, output="odd", workers=1)
    with pytest.raises(LearnError, match=r"tokens come from one document each.*hunter"):
        output.push_to_hub("org/name")
    assert not pushed
    assert output.push_to_hub("org/name", allow_one_document=True) == "url"


SCRIPT = """
import multiprocessing
import threading

multiprocessing.set_start_method("spawn")

import tokcore_pipelines
from tokcore_pipelines import Build, Learn, Source

pages = Build(sources=[Source(lang="en", files="en*.jsonl", id="id")], learn=Learn(vocab_size=300))
roots = [tokcore_pipelines.build(pages, output=name, workers=2).root for name in ("one", "two")]


def build_here():
    roots.append(tokcore_pipelines.build(pages, output="three", workers=2).root)


thread = threading.Thread(target=build_here)
thread.start()
thread.join()
print(*roots)
"""


def test_a_script_needs_no_guard(folder):
    """Twice in a process and from a thread, at its top, where children are spawned."""
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [Output(str(folder / "out")).root] * 3


def test_a_spawned_process_builds(folder):
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as processes:
        made = processes.submit(tokcore_pipelines.build, IN_PYTHON, output="spawned", workers=1).result()
    assert made.root == Output(str(folder / "out")).root
    assert made.url == str(folder / "spawned")


def test_without_the_packages_of_builds_a_call_says_what_to_install(monkeypatch):
    from tokcore_pipelines.api import open_build

    monkeypatch.setattr(open_build, "describe_missing", lambda: "builds need packages that are not installed")
    with pytest.raises(ImportError, match="builds need packages"):
        tokcore_pipelines.verify("out")


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "pipelines" / "api" / "README.md"
    failed, attempted = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert attempted > 15


LIGHT = """
import sys
import tokcore_pipelines
assert not {"numpy", "pyarrow", "click", "tokcore_schemas.config"} & set(sys.modules), sorted(sys.modules)
"""
CALLS = """
import tokcore_pipelines
from tokcore_pipelines import build, check, verify
import tokcore_pipelines.build.commit as commit
import tokcore_pipelines.check.verify
assert all(map(callable, (tokcore_pipelines.build, build, tokcore_pipelines.check, check, verify)))
assert commit.find_manifest.__module__ == "tokcore_pipelines.build.commit"
"""


@pytest.mark.parametrize("first", [LIGHT, "import tokcore_pipelines.build.commit, tokcore_pipelines.check.gc\n"])
def test_names_of_rooms_are_functions_and_packages(first):
    done = subprocess.run([sys.executable, "-c", first + CALLS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken = ["config", "output", "progress", "allow_code", "settings"]
    assert [*inspect.signature(tokcore_pipelines.check).parameters] == taken
