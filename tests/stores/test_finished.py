"""A finished build in a store is known by its build file: its inputs are neither listed nor asked for again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stores.files import put
from stores.servers import Store
from support.builds import jsonl, texts, tokcore

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.finished_build import find_finished
from tokcore_pipelines.store.storage import read_bytes, remove_file
from tokcore_schemas.config import load_config

NUM_FILES = 12
BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang = "en"
files = ["in/*.jsonl"]
id = "id"
[learn]
vocab_size = 300
"""


@pytest.fixture(scope="module")
def built(_s3: Store) -> str:
    """A bucket's folder with a build file, its inputs, and what was built of them. Tests leave it as it is."""
    folder = _s3.fresh()
    for number in range(NUM_FILES):
        put(_s3, f"{folder}/in/{number}.jsonl", make_input(number))
    put(_s3, f"{folder}/build.toml", BUILD.encode())
    done = tokcore("build", f"{folder}/build.toml", "--workers", "1", env=_s3.variables(), timeout=200)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(s3_here: Store, built: str) -> str:
    return built


def make_input(number: int) -> bytes:
    return jsonl([{"id": f"{number}-{i}", "text": text} for i, text in enumerate(texts("en", 5, number))])


def open_build(folder: str, name: str = "build.toml", replace: str = "") -> Build:
    return Build(load_config(f"{folder}/{name}", read_url=read_bytes), replace=replace)


def test_its_inputs_are_not_listed_again(s3: Store, folder: str) -> None:
    done = tokcore("build", f"{folder}/build.toml", env=s3.variables(), timeout=200)
    assert done.returncode == 0, done.stderr
    assert "`tokcore check` looks for changed inputs" in done.stderr
    own = folder.removeprefix("s3://")
    assert not [one for one in s3.proxy.requests if one.key.startswith(f"{own}/in")]
    count = s3.proxy.count()
    assert count.keys() <= {"ListObjects", "HeadObject", "GetObject"}
    assert count["ListObjects"] <= 8, "one for each stage, whose files must still be there"
    assert count.total() <= 32, count


def test_other_patterns_or_settings_are_another_build(s3: Store, folder: str) -> None:
    for change in (("in/*.jsonl", "in/[0-5].jsonl"), ("300", "301")):
        put(s3, f"{folder}/other.toml", BUILD.replace(*change).encode())
        with pytest.raises(ConfigError, match="the output holds a different build"):
            open_build(folder, "other.toml").run()


def test_a_changed_input_is_found_by_check_and_by_replace(
    s3: Store, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = open_build(folder).run()
    put(s3, f"{folder}/in/3.jsonl", make_input(99))
    assert open_build(folder).run() == finished
    checked = tokcore("check", f"{folder}/build.toml", env=s3.variables(), timeout=200)
    assert checked.returncode != 0
    assert "in/3.jsonl was modified" in checked.stdout + checked.stderr
    monkeypatch.setattr(Build, "_planned", lambda build: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        open_build(folder, replace="plan").run()
    put(s3, f"{folder}/in/3.jsonl", make_input(3))


def test_a_file_of_it_that_is_gone_is_named(s3: Store, folder: str) -> None:
    manifest = json.loads(read_bytes(f"{folder}/out/shards/manifest.json"))
    url = f"{folder}/out/shards/{manifest['files'][0]['path']}"
    data = read_bytes(url)
    remove_file(url)
    with pytest.raises(StageError, match=r"shards/[^ ]*: missing\. `tokcore repair"):
        open_build(folder).run()
    put(s3, url, data)


def test_inputs_on_a_disk_are_looked_at(s3: Store, folder: str, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_bytes(make_input(1))
    put(s3, f"{folder}/both.toml", BUILD.replace('["in/*.jsonl"]', f'["in/1.jsonl", "{tmp_path}/*.jsonl"]').encode())
    config = load_config(f"{folder}/both.toml", read_url=read_bytes)
    s3.proxy.reset()
    assert find_finished(f"{folder}/out", config, None) is None
    assert [one.key.rpartition("/out/")[2] for one in s3.proxy.requests] == ["manifest.json"]
