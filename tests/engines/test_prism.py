"""The demo on Prism: equal bytes, work in processes of Prism, ports on loopback only."""

from __future__ import annotations

import json

from golden.test_demo import DEMO_ROOT
from support.builds import tokcore
from support.drivers import LIMIT_S
from support.engines import find_free_port, find_prism, running
from support.listening import is_loopback, watched


def test_the_demo(tmp_path):
    port, output, said = find_free_port(), tmp_path / "out", tmp_path / "prism.log"
    engine = ("--engine=prism", "--shared-filesystem", "--set", f"engine.endpoint=127.0.0.1:{port}")
    with (
        said.open("wb") as log,
        watched() as seen,
        running([find_prism(), "--serve_http=false", f"--job_port={port}"], port, log) as prism,
    ):
        done = tokcore("build", "deploy/demo/build.toml", "--output", output, *engine, timeout=LIMIT_S)
    assert done.returncode == 0, f"{done.stderr}\nPrism said:\n{said.read_text()}"
    assert json.loads((output / "manifest.json").read_bytes())["root"] == DEMO_ROOT
    for stage in ("counts", "shards"):
        told = json.loads((output / stage / "run.json").read_bytes())
        assert told["processes"]
        for worker in told["processes"]:
            assert prism.pid in worker["ancestors"]
            assert told["process"] not in (worker["process"], *worker["ancestors"])
    assert seen
    assert all(map(is_loopback, seen)), seen
