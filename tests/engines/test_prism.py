"""The demo and a stream on Prism: equal bytes, work in processes of Prism, ports on loopback only."""

from __future__ import annotations

import json
import os

from golden.test_demo import DEMO_ROOT
from support.builds import tokcore
from support.documents_together import CODE, leave_by_hand, list_texts, write_build
from support.drivers import LIMIT_S, Driver, telling
from support.engines import find_free_port, find_prism, running
from support.forging import damage, require_each_once
from support.listening import is_loopback, watched
from support.streams import begin, land, require_exactly_once, wait_until_held


def test_the_demo(tmp_path):
    port, output, said = find_free_port(), tmp_path / "out", tmp_path / "prism.log"
    engine = ("--engine=prism", "--shared-filesystem", "--set", f"engine.endpoint=127.0.0.1:{port}")
    with (
        said.open("wb") as log,
        watched() as seen,
        running([find_prism(), "--serve_http=false", f"--job_port={port}"], port, log) as prism,
    ):
        done = tokcore("build", "deploy/demo/build.toml", "--output", output, *engine, timeout=LIMIT_S)
        verify = ("verify", output, "--work", tmp_path / "work", "--json", *engine)
        sound = tokcore(*verify, "--decode", "all", timeout=LIMIT_S)
        damaged = damage(output, ["shards/arrow/*.arrow", "counts/*.parquet", "tokenizer/tokcore.json"])
        found = tokcore(*verify, timeout=LIMIT_S)
    assert done.returncode == 0, f"{done.stderr}\nPrism said:\n{said.read_text()}"
    assert (sound.returncode, json.loads(sound.stdout)["num_decoded"]) == (0, 477), sound.stderr
    assert found.returncode == 1, found.stderr
    require_each_once(json.loads(found.stdout)["problems"], damaged)
    assert json.loads((output / "manifest.json").read_bytes())["root"] == DEMO_ROOT
    for stage in ("counts", "shards"):
        told = json.loads((output / stage / "run.json").read_bytes())
        assert told["processes"]
        for worker in told["processes"]:
            assert prism.pid in worker["ancestors"]
            assert told["process"] not in (worker["process"], *worker["ancestors"])
    assert seen
    assert all(map(is_loopback, seen)), seen


def test_documents_as_a_loop_leaves_them(tmp_path):
    """Metadata, attributes, [[map]], [mask], [[filter]] and [dedup] together: the bytes of a local build."""
    path = write_build(tmp_path, "paragraph")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(CODE), os.environ.get("PYTHONPATH", "")])}
    port, said = find_free_port(), tmp_path / "prism.log"
    engine = ("--engine=prism", "--shared-filesystem", f"--set=engine.endpoint=127.0.0.1:{port}")
    with (
        said.open("wb") as log,
        running([find_prism(), "--serve_http=false", f"--job_port={port}"], port, log, environment),
    ):
        build = ("build", path, "--output", tmp_path / "out", "--allow-code")
        done = tokcore(*build, *engine, timeout=LIMIT_S, env=environment)
        verify = ("verify", tmp_path / "out", "--work", tmp_path / "work", "--decode", "all", "--json", "--allow-code")
        sound = tokcore(*verify, *engine, timeout=LIMIT_S, env=environment)
    assert done.returncode == 0, f"{done.stderr}\nPrism said:\n{said.read_text()}"
    kept, _ = leave_by_hand("paragraph")
    assert list_texts(tmp_path / "out") == kept
    assert (sound.returncode, json.loads(sound.stdout)["num_decoded"]) == (0, len(kept)), sound.stderr
    local = tokcore("build", path, "--output", tmp_path / "local", "--allow-code", env=environment)
    assert local.returncode == 0, local.stderr
    mine, theirs = (json.loads((tmp_path / name / "manifest.json").read_bytes()) for name in ("out", "local"))
    assert mine["root"] == theirs["root"]


def test_a_stream(tmp_path):
    """Files that land, and new versions of them, while Prism follows; SIGTERM drains. Each version is read once."""
    path = begin(tmp_path)
    port, said = find_free_port(), tmp_path / "prism.log"
    engine = ("--engine=prism", "--shared-filesystem", f"--set=engine.endpoint=127.0.0.1:{port}")
    command = ("watch", path, "--output", tmp_path / "out", "--streaming", *engine)
    with (
        said.open("wb") as log,
        watched() as seen,
        running([find_prism(), "--serve_http=false", f"--job_port={port}"], port, log),
        Driver(tmp_path / "driver.log", *command) as driver,
        telling(driver.describe, said.read_text),
    ):
        for name in "defghi":
            land(tmp_path, name)
        wait_until_held(path, driver)
        land(tmp_path, "d", version=2)
        land(tmp_path, "a", version=3)
        land(tmp_path, "k")
        wait_until_held(path, driver)
        driver.process.terminate()
        assert driver.finish() == 0
        assert "nothing is half done" in driver.told
    assert seen
    assert all(map(is_loopback, seen)), seen
    require_exactly_once(path)
