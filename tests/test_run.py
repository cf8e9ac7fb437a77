"""`make test` and `make proof`: what each runs, what files may cost, and a machine without any server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import run
from run import BUDGETS, TESTS, WAITING, find_exceeded, find_places, measure_pace

# Files that ask for each kind of server: stores, engines, a browser, tools of Prometheus and Terraform.
ASKING = (
    "browser/test_view_page.py",
    "deploy/test_terraform.py",
    "engines",
    "pipelines/test_engines.py",
    "pipelines/test_jobs.py",
    "pipelines/test_watch_units.py",
    "stores/test_accounts.py",
    "stores/test_dataflow_jobs.py",
    "stores/test_notifications.py",
)


def test_each_file_is_in_a_set_and_has_a_budget():
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {*find_places("test"), *find_places("proof")} == files
    assert {*WAITING} <= files
    budgets = json.loads(BUDGETS.read_text())
    assert {f"tests/{file}" for file in files} == set(budgets), "run make test and make proof, then tests/run.py record"


@pytest.mark.parametrize(
    ("costs", "exceeded"),
    [
        ({"a": 10, "b": 20, "c": 30}, []),
        ({"a": 19, "b": 20, "c": 30}, []),  # a half more and five seconds
        ({"a": 21, "b": 20, "c": 30}, ["a"]),
        ({"a": 20, "b": 40, "c": 60}, []),  # a machine of half the speed
        ({"a": 90, "b": 40, "c": 60}, ["a"]),
        ({"a": 10, "new": 4}, []),
        ({"a": 10, "new": 6}, ["new"]),
    ],
)
def test_a_file_that_costs_more_than_its_budget_is_found(costs: dict[str, int], exceeded: list[str]):
    budgets = {"a": {"cpu_s": 10.0}, "b": {"cpu_s": 20.0}, "c": {"cpu_s": 30.0}}
    costs_s = {file: {"cpu_s": float(cost)} for file, cost in costs.items()}
    found = find_exceeded(costs_s, budgets, measure_pace(costs_s, budgets))
    assert [*found] == exceeded


def test_a_file_that_is_cheap_alone_keeps_its_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """What ran beside it made it expensive. One that is expensive alone, too, is found."""
    file = "tests/test_walks.py"
    monkeypatch.setattr(run, "COSTS", tmp_path)
    monkeypatch.setattr(run, "BUDGETS", tmp_path / "budgets.json")
    for budget, exceeded in ((60, []), (-60, [file])):
        run.BUDGETS.write_text(json.dumps({file: {"cpu_s": budget}}))
        assert [*run.confirm({file: "too expensive beside others"}, "test", pace=1)] == exceeded


@pytest.mark.parametrize(
    ("failing", "code", "last"),
    [
        (("once", "once"), 0, "5 passed, 0 failed, 0 skipped"),
        (("once", "once", "once"), 1, "2 passed, 3 failed, 0 skipped"),
        (("once", "always"), 1, "3 passed, 2 failed, 0 skipped"),
    ],
)
def test_what_fails_once_is_unsteady(monkeypatch, tmp_path, capfd, failing, code, last):
    """Few such tests are named and let pass; what fails again, alone, fails the run."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_one.py").write_text(
        "import pathlib, pytest\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_one(number):\n"
        f"    how = dict(enumerate({failing})).get(number)\n"
        "    been = pathlib.Path(__file__).with_name(f'been-{number}')\n"
        "    assert how is None or how == 'once' and been.exists() or been.write_text('') > 0\n"
    )
    for name in [one for one in os.environ if one.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    for name, place in {"ROOT": tmp_path, "TESTS": tests, "COSTS": tmp_path / "costs", "BUDGETS": tests / "no"}.items():
        monkeypatch.setattr(run, name, place)
    (tests / "test_waits.py").write_text("def test_waits(): pass\n")
    monkeypatch.setattr(run, "find_places", lambda _: ["test_one.py", "test_waits.py"])
    monkeypatch.setattr(run, "WAITING", ("test_waits.py",))
    assert run.run_tests("test", 1) == code
    said = capfd.readouterr().out
    assert said.strip().splitlines()[-1] == last
    assert ("unsteady" in said) == (code == 0)


def test_costs_are_those_of_the_processes_that_tests_start(tmp_path: Path):
    """Of a child that works for a second, and of one command in the server that tests use."""
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['support.costs']\n")
    (tmp_path / "test_one.py").write_text(
        "import subprocess, sys\n"
        "def test_one():\n"
        "    code = 'import time\\nwhile time.process_time() < 1: pass'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    told = tmp_path / "costs.json"
    environment = {**os.environ, "TOKCORE_TEST_COSTS": str(told), "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
    for name in [one for one in environment if one.startswith("PYTEST_")]:
        del environment[name]
    for options in ([], ["--numprocesses=2"]):
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", tmp_path, *options, tmp_path]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        [(file, cost)] = json.loads(told.read_text()).items()
        assert (file, cost["tests"]) == ("test_one.py", 1)
        assert 0.9 <= cost["cpu_s"] < 3


def test_without_servers_tests_are_skipped_by_name():
    """All look-ups find nothing, whatever is installed here. No test fails, and each says what to run."""
    environment = {**os.environ, "TOKCORE_TEST_SERVERS": "none"}
    for name in [one for one in environment if one.startswith("PYTEST_")]:
        del environment[name]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "proof", *(TESTS / place for place in ASKING)]
    done = subprocess.run(command, cwd=run.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for title in (
        "Flink",
        "Prism",
        "Beam's boot",
        "moto",
        "fake-gcs-server",
        "Azurite",
        "hclfmt",
        "promtool",
    ):
        assert re.search(rf"SKIPPED .* {title} is not installed: run make", done.stdout), f"{title}\n{done.stdout}"
    assert "run make browser" in done.stdout
