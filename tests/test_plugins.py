"""A format, a model, a reader and a step of another distribution: found by entry points, tested by our suites."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from support.builds import ROOT, build_file

from tokcore.errors import ConfigError
from tokcore.plugins import plugin_table
from tokcore.plugins.map_step import MapStep
from tokcore.shards.format_table import SHARD_FORMATS, find_format
from tokcore.testing import FormatTests, MapTests, ModelTests, ReaderTests

TOY = ROOT / "tests" / "support" / "toy_distribution"
sys.path.append(str(TOY))
from toy_plugins import Backward, Pairs, Shout, ToyFormat  # noqa: E402

sys.path.remove(str(TOY))


class TestToyFormat(FormatTests):
    format = ToyFormat()


class TestBackward(ModelTests):
    model = Backward()


class TestPairs(ReaderTests):
    reader, proves_end = Pairs(), True
    files: ClassVar = {
        b"a\tsome text\nb\t\n.\n": [{"id": b"a", "text": b"some text"}, {"id": b"b", "text": b""}],
        b".\n": [],
    }


class TestShout(MapTests):
    step = Shout()
    documents = ({"text": "loud"}, {"text": "quiet?", "id": "b"}, {"text": "ß", "lang": "de"})


class ByBatch(MapStep):
    """Looks at what is in a batch together."""

    def run(self, batch):
        return batch.slice(0, max(1, batch.num_rows - 1))


class ByHash(MapStep):
    """Follows from the order of a set."""

    def run(self, batch):
        texts = ["".join({*text}) for text in batch["text"].to_pylist()]
        return pa.RecordBatch.from_arrays([batch["record"], pa.array(texts)], ["record", "text"])


def test_the_suite_finds_steps_that_look_at_more_than_a_document():
    suite = type("Suite", (MapTests,), {"step": ByBatch(), "documents": [{"text": "a"}, {"text": "b"}]})()
    suite.test_it_returns_what_a_step_may()
    with pytest.raises(AssertionError):
        suite.test_each_document_alone_decides()
    suite.step, suite.documents = ByHash(), [{"text": "abcdefghijklmnop"}]
    suite.test_each_document_alone_decides()
    with pytest.raises(AssertionError):
        suite.test_another_process_makes_the_same()
    suite.step = type("Nothing", (MapStep,), {"run": lambda self, batch: batch})()
    with pytest.raises(AssertionError, match="none of the documents"):
        suite.test_it_does_something()


SETTINGS = '[learn]\nmodel = "backward"\n[shards]\nformats = ["arrow", "toy"]'
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
SOURCE = '[[source]]\nlang = "en"\nfiles = "*.pairs"\nid = "id"\n'


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The folder of an installed distribution, which may be changed; only tests that ask for it see it."""
    folder = tmp_path / "installed"
    shutil.copytree(TOY, folder)
    monkeypatch.syspath_prepend(folder)
    plugin_table.forget_entries()
    yield folder
    plugin_table.forget_entries()


def run(toy: Path, folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(toy)!r}); from tokcore_pipelines.start import main; main()"
    environment = {"PYTHONPATH": str(toy), "PATH": "/usr/bin:/bin"}
    told = [sys.executable, "-c", code, *map(str, command)]
    return subprocess.run(told, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def read_manifest(output: Path, stage: str) -> dict:
    return json.loads((output / stage / "manifest.json").read_bytes())


def test_a_build_uses_all_three_and_its_identity_says_so(toy, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.pairs").write_bytes(b"1\tone\n2\t\xc3\xa9\n.\n")
    (corpus / "b.pairs").write_bytes(b"3\tcut")
    build_file(corpus, SOURCE, SETTINGS, build="max_rejected = 1")
    done = run(toy, corpus, "build", "build.toml", "--output", "out")
    assert done.returncode == 0, done.stderr
    output = corpus / "out"
    plan, tokenizer, shards = (read_manifest(output, stage) for stage in ("plan", "tokenizer", "shards"))
    assert plan["config"]["settings"][0]["plugin"] == "tokcore-toy 1.2"
    assert tokenizer["config"]["plugins"] == {"backward": "tokcore-toy 1.2"}
    assert shards["config"]["plugins"] == {"toy": "tokcore-toy 1.2"}
    assert shards["totals"]["files"]["rejected"] == {"corrupt": 1}
    for command in (["verify", "out", "--decode", "all"], ["show", "out"], ["check", "build.toml"]):
        done = run(toy, corpus, *command)
        assert done.returncode == 0, done.stderr
    from tokcore import open_shards

    (output / "shards" / "arrow").rename(corpus / "elsewhere")
    found = open_shards(output / "shards" / "toy")
    end = 256
    assert [ids.tolist() for ids in found] == [[255 - byte for byte in b"one"] + [end], [60, 86, end]]


def test_a_step_runs_where_it_is_allowed_and_its_version_is_in_the_identity(toy, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.jsonl").write_text('{"text": "one"}\n{"text": "why?"}\n{"text": "two"}\n')
    source = '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n[[map]]\nrun = "shout"\n'
    build_file(corpus, source, '[learn]\nmodel = "byte"')
    with (toy / "toy_plugins.py").open("a") as file:
        file.write("open('ran', 'w').close()\n")
    refused = run(toy, corpus, "build", "build.toml", "--output", "out")
    assert refused.returncode != 0
    assert not (corpus / "ran").exists(), "it is not imported either"
    assert "[[map]] would run shout" in refused.stderr
    done = run(toy, corpus, "build", "build.toml", "--output", "out", "--allow-code")
    assert done.returncode == 0, done.stderr
    assert "shout: 1" in done.stdout
    (rule,) = read_manifest(corpus / "out", "plan")["config"]["settings"][0]["maps"]
    assert (rule["name"], rule["distribution"]) == ("shout", "tokcore-toy 1.2")
    found = run(toy, corpus, "verify", "out", "--decode", "all", "--allow-code")
    assert "2 documents decoded and equal to their source" in found.stdout
    with (toy / "toy_plugins.py").open("a") as file:
        file.write("# nothing says which files the distribution has, as of one that is being worked on\n")
    done = run(toy, corpus, "build", "build.toml", "--output", "out", "--allow-code")
    assert "[[map]] was" in done.stderr
    (toy / "tokcore_toy-1.2.dist-info" / "METADATA").write_text(METADATA.format("tokcore-toy", 2))
    done = run(toy, corpus, "build", "build.toml", "--output", "out", "--allow-code")
    assert done.returncode != 0
    assert "tokcore-toy 2" in done.stderr
    done = run(toy, corpus, "verify", "out", "--decode", "all", "--allow-code")
    assert "is not that of the plan" in done.stdout + done.stderr


def test_another_version_is_another_identity(toy, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.pairs").write_bytes(b"1\tone\n.\n")
    build_file(corpus, SOURCE, SETTINGS)
    assert run(toy, corpus, "build", "build.toml", "--output", "out").returncode == 0
    (toy / "tokcore_toy-1.2.dist-info" / "METADATA").write_text(METADATA.format("tokcore-toy", 2))
    done = run(toy, corpus, "build", "build.toml", "--output", "out")
    assert done.returncode != 0
    assert 'was "tokcore-toy 1.2", now "tokcore-toy 2"' in done.stderr
    shutil.rmtree(toy / "tokcore_toy-1.2.dist-info")
    done = run(toy, corpus, "verify", "out")
    assert done.returncode != 0
    assert "'toy' is no format of shards: this release, and what is installed, know" in done.stdout + done.stderr


def test_names_of_ours_are_not_looked_for_and_those_of_others_are_found(toy):
    assert "toy" in SHARD_FORMATS
    assert SHARD_FORMATS.list_others() == ["toy"]
    assert "toy" not in [*SHARD_FORMATS]
    assert SHARD_FORMATS.find_versions(["arrow", "toy"]) == {"toy": "tokcore-toy 1.2"}
    assert SHARD_FORMATS.find_versions(["arrow"]) is None
    assert find_format("toy").name == "toy"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("toy = toy_plugins:Nothing", "cannot be loaded: AttributeError"),
        ("toy = no_such_module:ToyFormat", "cannot be loaded: ModuleNotFoundError"),
        ("toy = toy_plugins:Pairs", "expected a class that derives from tokcore.formats.shard_format.ShardFormat"),
        ("other = toy_plugins:ToyFormat", "calls itself 'toy'"),
    ],
)
def test_what_is_not_what_it_says_is_refused_by_name(toy, entry, why):
    (toy / "tokcore_toy-1.2.dist-info" / "entry_points.txt").write_text(f"[tokcore.formats]\n{entry}\n")
    with pytest.raises(ConfigError, match=rf"of tokcore-toy 1\.2, an entry point of tokcore\.formats .*{why}"):
        find_format(entry.partition(" ")[0])


def test_two_distributions_with_one_name_are_refused(toy):
    shutil.copytree(toy / "tokcore_toy-1.2.dist-info", toy / "another-3.dist-info")
    (toy / "another-3.dist-info" / "METADATA").write_text(METADATA.format("another", 3))
    with pytest.raises(ConfigError, match="has that name, too"):
        find_format("toy")


def test_a_name_of_nobody_lists_those_of_others_too(toy, tmp_path):
    build_file(tmp_path, SOURCE, '[shards]\nformats = ["toi"]')
    done = run(toy, tmp_path, "check", "build.toml")
    assert done.returncode != 0
    assert "parquet, toy. Did you mean toy?" in done.stderr
