"""What deploy/watch has for those who operate watchers: units, probes and alerts name what there is."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.builds import build_file, build_here
from support.updates import SETTINGS, SOURCES, write_corpus
from test_watch import WATCH, get, wait_for

from pipelines.watch.meters import Meters
from pipelines.watch.read_status import read_status
from schemas.build_tables import WatchTable

PLACE = Path(__file__).parents[2] / "deploy" / "watch"
PORT = WatchTable().listen.rpartition(":")[2]


def read_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(PLACE / "tokcore-watch.service")
    return unit


def read_container() -> tuple[dict, dict]:
    """(the pod, its container)"""
    pod = yaml.safe_load((PLACE / "kubernetes.yaml").read_text())["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    return pod, container


@pytest.mark.parametrize("of", ["systemd", "kubernetes"])
def test_the_command_of_a_unit_watches(tmp_path, of):
    write_corpus(tmp_path)
    build_here(build_file(tmp_path, SOURCES, SETTINGS + WATCH), tmp_path / "out")
    text = (
        read_unit()["Service"]["ExecStart"].removeprefix("/usr/bin/env ")
        if of == "systemd"
        else read_container()[1]["args"][0].removeprefix("exec ").replace("0.0.0.0:9464", "127.0.0.1:0")
    )
    command = text.replace("tokcore", f"exec {sys.executable} -m pipelines.cli", 1)
    environment = {**os.environ, "BUILD": str(tmp_path / "build.toml"), "OPTIONS": "--workers 1"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(["sh", "-c", command], env=environment, stderr=log)
    try:
        wait_for(lambda: [one["role"] for one in read_status(str(tmp_path / "out"))["watchers"]] == ["commits"])
        if of == "kubernetes":
            address = re.search(r"http://(\S+) has", (tmp_path / "log").read_text())[1]
            for probe in ("livenessProbe", "readinessProbe"):
                path = read_container()[1][probe]["httpGet"]["path"]
                wait_for(lambda path=path: get(address, path)[0] == 200)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def test_there_is_time_to_drain():
    pod, container = read_container()
    drain = WatchTable().drain_seconds
    assert pod["spec"]["terminationGracePeriodSeconds"] > drain
    assert int(read_unit()["Service"]["TimeoutStopSec"]) > drain
    assert {str(container["ports"][0]["containerPort"]), pod["metadata"]["annotations"]["prometheus.io/port"]} == {PORT}


def test_alerts_are_about_what_is_measured():
    measured = {line.split()[2] for line in Meters().write().decode().splitlines() if line.startswith("# TYPE")}
    (group,) = yaml.safe_load((PLACE / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        named = set(re.findall(r"tokcore_\w+", rule["expr"]))
        assert named, rule
        assert named <= measured
        assert "tokcore status" in rule["annotations"]["summary"] or "machines" in rule["annotations"]["summary"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_unit():
    done = subprocess.run(
        ["systemd-analyze", "verify", PLACE / "tokcore-watch.service"], capture_output=True, text=True, check=False
    )
    assert "Unknown" not in done.stderr, done.stderr
