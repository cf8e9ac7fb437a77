"""The examples in deploy/slices, each played with three processes, one of them killed, on a disk and on S3."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from stores.files import put, read
from stores.servers import Store
from support.builds import ROOT, SETTINGS, build_file, run, small_corpus
from support.slices import SliceProcess, SliceProcesses

EXAMPLES = ROOT / "deploy" / "slices"
NUM = 3
OPTIONS = "--workers=1 --lease=2"


class Corpus(NamedTuple):
    """A corpus with its build file on a disk and, for builds there, in a store."""

    folder: Path
    root: str  # of the local build


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    return Corpus(folder, run(build_file(folder, settings=SETTINGS), folder / "local").root)


class Place(NamedTuple):
    """Where a build file is, and its output."""

    build: str
    output: str
    environment: Mapping[str, str]
    store: Store | None

    def read_root(self) -> str:
        if self.store is None:
            return json.loads(Path(self.output, "manifest.json").read_bytes())["root"]
        return json.loads(read(self.store, f"{self.output}/manifest.json"))["root"]


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    name = request.node.name.replace("[", "-").rstrip("]")
    text = (corpus.folder / "build.toml").read_text().replace('output = "out"', f'output = "{name}"')
    if request.param == "disk":
        path = corpus.folder / f"{name}.toml"
        path.write_text(text)
        yield Place(str(path), str(corpus.folder / name), os.environ, None)
        return
    store: Store = request.getfixturevalue("s3_here")
    folder = store.fresh()
    put(store, f"{folder}/build.toml", text.encode())
    for path in sorted(corpus.folder.iterdir()):
        if path.is_file() and path.suffix != ".toml":
            put(store, f"{folder}/{path.name}", path.read_bytes())
    yield Place(f"{folder}/build.toml", f"{folder}/{name}", store.variables(), store)


# ------------------------------------------------------------------------------------------- what each scheduler does


def start_slurm(slices: SliceProcesses, place: Place, number: int, folder: Path) -> SliceProcess:
    """As sbatch does for a task of an array. srun is one that takes its options and runs the rest.

    Slurm's own gives a step no more than one core unless it is told, so it must be.
    """
    script = EXAMPLES / "slurm.sbatch"
    (array,) = re.findall(r"^#SBATCH --array=(\d+)-(\d+)$", script.read_text(), re.MULTILINE)
    assert array[0] == "1"
    srun = folder / "srun"
    if not srun.exists():  # written once: a file that is being written cannot be run
        srun.write_text('#!/bin/sh\ntest "$1" = "--cpus-per-task=2" || exit 1\nshift\nexec "$@"\n')
        srun.chmod(0o755)
    environment = make_environment(place, folder) | {
        "SLURM_ARRAY_TASK_ID": str(number),
        "SLURM_ARRAY_TASK_COUNT": str(NUM),
        "SLURM_CPUS_PER_TASK": "2",
    }
    return slices.run(["sh", script, place.build, *OPTIONS.split()], environment)


def start_kubernetes(slices: SliceProcesses, place: Place, number: int, folder: Path) -> SliceProcess:
    """As a kubelet does: it puts variables in where $(NAME) stands, and leaves $(what is none) alone."""
    job = yaml.safe_load((EXAMPLES / "kubernetes.yaml").read_text())
    assert (job["kind"], job["spec"]["completionMode"]) == ("Job", "Indexed")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one["value"] for one in container["env"]}
    assert int(told["SLICES"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    assert told["OPTIONS"] == f"--workers {container['resources']['requests']['cpu']}"
    told |= {"BUILD": place.build, "SLICES": str(NUM), "OPTIONS": OPTIONS, "JOB_COMPLETION_INDEX": str(number - 1)}

    def put_in(text: str) -> str:
        return re.sub(r"\$\(([A-Za-z0-9_]+)\)", lambda one: told.get(one[1], one[0]), text.replace("$$", "$"))

    command = [put_in(one) for one in [*container["command"], *container["args"]]]
    return slices.run(command, make_environment(place, folder) | told)


def start_systemd(slices: SliceProcesses, place: Place, number: int, folder: Path) -> SliceProcess:
    """As systemd does: %i is the instance, ${NAME} a variable, $NAME one that is cut into words."""
    unit = configparser.RawConfigParser()
    unit.optionxform = str
    unit.read(EXAMPLES / "tokcore-slice@.service")
    told = {"BUILD": place.build, "SLICES": str(NUM), "OPTIONS": OPTIONS}
    command: list[str] = []
    for word in shlex.split(unit["Service"]["ExecStart"].replace("%i", str(number))):
        if re.fullmatch(r"\$\w+", word):
            command += told[word[1:]].split()
        else:
            command.append(re.sub(r"\$\{(\w+)\}", lambda one: told[one[1]], word))
    return slices.run(command, make_environment(place, folder) | told)


def make_environment(place: Place, folder: Path) -> dict[str, str]:
    """That of a host where tokcore is installed."""
    return {**place.environment, "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("start", "is_restarted"),
    [(start_slurm, False), (start_kubernetes, True), (start_systemd, True)],
    ids=["slurm", "kubernetes", "systemd"],
)
def test_an_example(place, corpus, tmp_path, start, is_restarted):
    """One host is killed as soon as it shows itself. Whether it comes back or not, the root is the local one."""
    with SliceProcesses(place.build, place.output, NUM) as slices:
        hosts = {2: start(slices, place, 2, tmp_path)}
        slices.wait_for_sign(2)  # before others start, who could be done before it comes
        hosts |= {number: start(slices, place, number, tmp_path) for number in (1, 3)}
        hosts[2].send(signal.SIGKILL)
        assert hosts.pop(2).wait()[0] == -signal.SIGKILL
        if is_restarted:
            hosts[2] = start(slices, place, 2, tmp_path)
        for host in hosts.values():
            code, out, err = host.wait(300)
            assert code == 0, err
            assert f"root       {corpus.root}" in out
    assert place.read_root() == corpus.root
    assert slices.list_working() == []
