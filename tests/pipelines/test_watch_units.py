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
from support.builds import build_file, run
from support.installed_servers import find_server
from support.updates import SETTINGS, SOURCES, write_corpus
from test_watch import WATCH, get, wait_for

from tokcore_pipelines.watch.meters import Meters
from tokcore_pipelines.watch.read_status import read_status
from tokcore_schemas.build_tables import WatchTable

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
    run(build_file(tmp_path, SOURCES, SETTINGS + WATCH), tmp_path / "out")
    text = (
        read_unit()["Service"]["ExecStart"].removeprefix("/usr/bin/env ")
        if of == "systemd"
        else read_container()[1]["args"][0].removeprefix("exec ").replace("0.0.0.0:9464", "127.0.0.1:0")
    )
    command = text.replace("tokcore", f"exec {sys.executable} -m tokcore_pipelines.cli", 1)
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


def test_a_pod_starts_no_more_workers_than_it_has_cores():
    """Else as many as the node has cores, whatever the pod asked for."""
    _, container = read_container()
    (options,) = [one["value"] for one in container["env"] if one["name"] == "OPTIONS"]
    assert options == f"--workers {container['resources']['requests']['cpu']}"


def test_alerts_are_about_what_is_measured():
    measured = {line.split()[2] for line in Meters().write().decode().splitlines() if line.startswith("# TYPE")}
    (group,) = yaml.safe_load((PLACE / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        named = set(re.findall(r"tokcore_\w+", rule["expr"]))
        assert named, rule
        assert named <= measured
        assert "tokcore status" in rule["annotations"]["summary"] or "machines" in rule["annotations"]["summary"]


# Alert -> what is scraped every minute for two hours, and when it must fire.
FIRES = {
    "TokcoreNobodyCommits": ({'tokcore_has_turn{pod="a"}': "0", 'tokcore_has_turn{pod="b"}': "0"}, "6m"),
    "TokcoreBehind": ({"tokcore_oldest_waiting_seconds": "1000"}, "6m"),
    "TokcoreQuarantine": ({"tokcore_quarantined_files": "1"}, "1m"),
    "TokcoreFails": ({'tokcore_failures_total{what="look"}': "0+2x120"}, "30m"),
    "TokcoreDrift": ({'tokcore_drift_exceeded{figure="unseen"}': "1"}, "61m"),
    "TokcoreStoreInTrouble": ({"tokcore_store_retries": "0+90x120", "tokcore_worker_retries_total": "0+1x120"}, "30m"),
}
QUIET = {
    'tokcore_has_turn{pod="a"}': "0",
    'tokcore_has_turn{pod="b"}': "1",
    "tokcore_oldest_waiting_seconds": "30",
    "tokcore_quarantined_files": "0",
    'tokcore_failures_total{what="look"}': "3",
    'tokcore_drift_exceeded{figure="unseen"}': "0",
    "tokcore_store_retries": "0+1x120",
    "tokcore_worker_retries_total": "0+1x120",
}


@pytest.mark.proof
def test_prometheus_fires_each_alert_when_it_must_and_no_other(tmp_path):
    promtool = find_server("promtool", "promtool")
    rules = yaml.safe_load((PLACE / "alerts.yaml").read_text())
    assert {rule["alert"] for rule in rules["groups"][0]["rules"]} == {*FIRES}
    for rule in rules["groups"][0]["rules"]:
        rule.pop("annotations")  # promtool would compare them, too
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))

    def make_case(series: dict[str, str], at: str, fires: str) -> dict:
        given = {name: values if "x" in values else f"{values}x120" for name, values in series.items()}
        found = re.search(r'figure="(\w+)"', "".join(series)) if fires == "TokcoreDrift" else None
        labels = {"figure": found[1]} if found else {}
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in given.items()],
            "alert_rule_test": [
                {"eval_time": at, "alertname": name, "exp_alerts": [{"exp_labels": labels}] * (name == fires)}
                for name in FIRES
            ],
        }

    cases = [make_case(QUIET | series, at, name) for name, (series, at) in FIRES.items()]
    cases.append(make_case(QUIET, "90m", ""))
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    for command in (["check", "rules", PLACE / "alerts.yaml"], ["test", "rules", tmp_path / "cases.yaml"]):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.proof
def test_prometheus_reads_the_metrics():
    promtool = find_server("promtool", "promtool")
    done = subprocess.run([promtool, "check", "metrics"], input=Meters().write(), capture_output=True, check=False)
    assert done.returncode in (0, 3), done.stderr  # 3: advice on names
    assert b"error while linting" not in done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_unit():
    done = subprocess.run(
        ["systemd-analyze", "verify", PLACE / "tokcore-watch.service"], capture_output=True, text=True, check=False
    )
    assert "Unknown" not in done.stderr, done.stderr
