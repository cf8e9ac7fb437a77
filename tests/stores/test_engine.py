"""Builds on an engine whose hosts share nothing with the driver but a store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from stores.files import put, read
from stores.servers import Store
from support.builds import jsonl, texts, tokcore, write
from support.engines import find_free_port, make_job_server, running

from tokcore_pipelines.local.engines import find_worker_program

BUILD = """
version = 1
[build]
output = "out"
[[source]]
lang = "en"
files = "en.jsonl"
[learn]
vocab_size = 300
"""


def test_workers_find_the_store_where_the_build_file_says(s3: Store, tmp_path: Path) -> None:
    """The pool knows the keys, but not the endpoint: the driver tells its workers what [storage] holds."""
    documents = jsonl([{"text": text} for text in texts("en", 20)])
    write(tmp_path / "en.jsonl", documents)
    (tmp_path / "build.toml").write_text(BUILD)
    assert tokcore("build", tmp_path / "build.toml").returncode == 0
    endpoint = s3.environment["AWS_ENDPOINT_URL"]
    folder = s3.fresh()
    put(s3, f"{folder}/en.jsonl", documents)
    put(s3, f"{folder}/build.toml", f'{BUILD}[storage]\ns3 = {{ endpoint_url = "{endpoint}" }}\n'.encode())
    ignorant = {name: value for name, value in s3.variables().items() if name != "AWS_ENDPOINT_URL"}
    pool, server = find_free_port(), find_free_port()
    with (
        running([find_worker_program(), f"--pool={pool}"], pool, env={**os.environ, **ignorant}),
        running(make_job_server(server), server),
    ):
        done = tokcore(
            *("build", f"{folder}/build.toml", "--engine=portable", "--set", f"engine.endpoint=127.0.0.1:{server}"),
            *("--set", "engine.environment=external", "--set", f"engine.worker=127.0.0.1:{pool}"),
            env=s3.variables(),
            timeout=200,
        )
    assert done.returncode == 0, done.stderr
    ours = json.loads(read(s3, f"{folder}/out/manifest.json"))
    theirs = json.loads((tmp_path / "out/manifest.json").read_bytes())
    assert ours["root"] == theirs["root"]


DRIVERS_KEY = "access-key-of-the-driver"
NO_KERNEL = """
import sys

class NoKernel:
    def find_spec(self, name, path=None, target=None):
        if name == "tokcore._native":
            raise ImportError("not installed here")

sys.meta_path.insert(0, NoKernel())
"""


def test_a_driver_without_the_kernel(s3: Store, tmp_path: Path) -> None:
    """It drives a whole build. After planning it reads no source, and no count table: learning is on a worker, too."""
    documents = jsonl([{"text": text} for text in texts("en", 20)])
    write(tmp_path / "en.jsonl", documents)
    (tmp_path / "build.toml").write_text(BUILD)
    assert tokcore("build", tmp_path / "build.toml").returncode == 0
    write(tmp_path / "no-kernel" / "sitecustomize.py", NO_KERNEL.encode())
    folder = s3.fresh()
    put(s3, f"{folder}/en.jsonl", documents)
    put(s3, f"{folder}/build.toml", BUILD.encode())
    driver = {**s3.variables(), "AWS_ACCESS_KEY_ID": DRIVERS_KEY, "PYTHONPATH": str(tmp_path / "no-kernel")}
    local = tokcore("build", f"{folder}/build.toml", "--output", f"{folder}/local", env=driver)
    assert local.returncode != 0
    assert "native kernel cannot be loaded" in local.stderr
    s3.proxy.reset()
    pool, server = find_free_port(), find_free_port()
    with (
        running([find_worker_program(), f"--pool={pool}"], pool, env=s3.variables()),
        running(make_job_server(server), server),
    ):
        done = tokcore(
            *("build", f"{folder}/build.toml", "--engine=portable", "--set", f"engine.endpoint=127.0.0.1:{server}"),
            *("--set", "engine.environment=external", "--set", f"engine.worker=127.0.0.1:{pool}"),
            env=driver,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr
    ours = json.loads(read(s3, f"{folder}/out/manifest.json"))
    assert ours["root"] == json.loads((tmp_path / "out/manifest.json").read_bytes())["root"]
    workers = {s3.environment["AWS_ACCESS_KEY_ID"]}
    asked = s3.proxy.requests
    places = [i for i, one in enumerate(asked) if one.key.endswith("/out/plan/manifest.json")]
    planned = next(i for i in places if asked[i].operation == "PutObject")
    assert DRIVERS_KEY in {one.account for one in asked[:planned] if one.key.endswith("/en.jsonl")}
    later = [one for one in asked[planned:] if one.operation == "GetObject"]
    assert {one.account for one in later if one.key.endswith("/en.jsonl")} == workers
    assert {one.account for one in later if one.key.endswith(".parquet") and "/out/counts/" in one.key} == workers


def test_a_driver_without_storage_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from tokcore_pipelines.store import options

    monkeypatch.setenv("TOKCORE_STORAGE", "")
    options.take_options('{"s3": {"region": "there"}}')
    assert options.find_option("s3", "region") == "there"
    options.take_options("")
    assert options.find_option("s3", "region") is None
