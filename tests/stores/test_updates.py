"""Updates in each store: commits equal to those on local disks, killed or not, and what readers see of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stores.files import put, read, tree
from stores.servers import STARTS
from support.builds import build_file, tokcore
from support.updates import SETTINGS, SOURCES, make_texts, write_corpus, write_file

CRASH = {"TOKCORE_CRASH": "update.built:1"}


def list_inputs(folder: Path) -> list[Path]:
    return [folder / "build.toml", *sorted((folder / "en").iterdir()), *sorted((folder / "mixed").iterdir())]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A corpus, its build and two updates on local disks."""
    folder = tmp_path_factory.mktemp("local")
    write_corpus(folder)
    build_file(folder, SOURCES, SETTINGS)
    done = tokcore("build", folder / "build.toml", "--workers", "2")
    assert done.returncode == 0, done.stderr
    write_file(folder, "en/e.jsonl", make_texts("e", 5))
    commits = [json.loads(tokcore("update", folder / "build.toml", "--json").stdout)]
    write_file(folder, "en/e.jsonl", make_texts("other", 3))
    commits.append(json.loads(tokcore("update", folder / "build.toml", "--json").stdout))
    return commits


@pytest.mark.parametrize("kind", list(STARTS))
def test_commits_are_those_of_local_disks(kind, local, tmp_path):
    write_corpus(tmp_path)
    build_file(tmp_path, SOURCES, SETTINGS)
    with STARTS[kind]() as store:
        folder = store.fresh()

        def run(command: str, *arguments: str, **more: str) -> str:
            env = {**store.variables(), **more}
            done = tokcore(command, *arguments, env=env, timeout=200)
            assert done.returncode == 0 or more, done.stderr
            return done.stdout

        for path in list_inputs(tmp_path):
            put(store, f"{folder}/{path.relative_to(tmp_path).as_posix()}", path.read_bytes())
        run("build", f"{folder}/build.toml", "--workers", "2")
        before = tree(store, f"{folder}/out")
        put(store, f"{folder}/en/e.jsonl", write_file(tmp_path, "en/e.jsonl", make_texts("e", 5)).read_bytes())
        run("update", f"{folder}/build.toml", **CRASH)
        assert "log/1.json" not in tree(store, f"{folder}/out")
        first = json.loads(run("update", f"{folder}/build.toml", "--json"))
        after = tree(store, f"{folder}/out")
        changed = {path for path in before if after[path] != before[path]}
        assert changed == {"README.md"}, "the dataset card alone follows commits"
        put(store, f"{folder}/en/e.jsonl", write_file(tmp_path, "en/e.jsonl", make_texts("other", 3)).read_bytes())
        second = json.loads(run("update", f"{folder}/build.toml", "--json"))
        for mine, theirs in zip((first, second), local, strict=True):
            assert (mine["root"], mine["totals"], mine["why"]) == (theirs["root"], theirs["totals"], theirs["why"])
        assert json.loads(read(store, f"{folder}/out/log/2.json")) == second
        assert json.loads(run("update", f"{folder}/build.toml", "--json")) is None
        report = json.loads(run("verify", f"{folder}/out", "--decode", "all", "--json"))
        assert (report["problems"], report["root"]) == ([], second["root"])
        assert report["num_decoded"] == second["totals"]["documents"]
        code = (
            "import sys, tokcore\n"
            "for at in (None, 0, 1, 2):\n"
            "    shards = tokcore.open_shards(sys.argv[1], 'all', at=at)\n"
            "    rows = tokcore.open_counts(sys.argv[1], 'en', at=at).num_rows\n"
            "    print(len(shards), sum(map(len, shards)), rows > 9)\n"
        )
        lines = subprocess.run(
            [sys.executable, "-c", code, f"{folder}/out"],
            env=store.variables(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert lines[0] == lines[3] == f"{second['totals']['documents']} {second['totals']['tokens']} True"
        assert lines[2] == f"{first['totals']['documents']} {first['totals']['tokens']} True"
        assert lines[1].endswith("True")
