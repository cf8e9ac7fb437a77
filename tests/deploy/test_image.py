"""The recipe of the image: bases by digest, packages by hash, no root; `make image-check` runs what it does."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy" / "image"
RECIPE = (IMAGE / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^\s*#.*\n", "", RECIPE)).splitlines()
DIGEST = "@sha256:" + "0" * 64

sys.path.insert(0, str(IMAGE))
from lock_requirements import EXTRAS, list_build_requirements, list_requirements  # noqa: E402


def find(word: str) -> list[str]:
    """What follows an instruction, each time it is there."""
    return [line.removeprefix(word).strip() for line in INSTRUCTIONS if line.startswith(f"{word} ")]


def read_lock(name: str) -> dict[str, str]:
    """Package -> version. Each has hashes, and nothing else is in the file."""
    found = {}
    for block in re.split(r"(?m)^(?=\S)", (IMAGE / name).read_text()):
        if block.strip() and not block.startswith("#"):
            head, *hashes = block.replace("\\\n", "\n").split()
            package, _, pinned = head.partition("==")
            assert pinned, block
            assert hashes
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), block
            found[package.lower().replace("_", "-")] = pinned
    return found


def test_bases_are_arguments_without_defaults():
    arguments = find("ARG")
    assert arguments
    assert all(re.fullmatch(r"[A-Z_]+_IMAGE", one) for one in arguments), "a default would be a base without a digest"
    for base in find("FROM"):
        assert re.fullmatch(r"\$\{[A-Z_]+_IMAGE\}( AS \w+)?", base), base


@pytest.mark.parametrize(
    ("python", "launcher", "code"),
    [
        (f"python{DIGEST}", f"gcr.io/launcher{DIGEST}", 0),
        ("python:3.11", f"gcr.io/launcher{DIGEST}", 1),
        (f"python{DIGEST}", "", 1),
        (f"python{DIGEST}0", f"gcr.io/launcher{DIGEST}", 1),
    ],
)
def test_a_base_without_digest_is_refused(python, launcher, code):
    (check,) = [line for line in find("RUN") if line.startswith("for image in")]
    done = subprocess.run(
        ["sh", "-c", check],
        env={"PYTHON_IMAGE": python, "LAUNCHER_IMAGE": launcher, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == code


def test_it_runs_as_nobody_and_starts_our_worker():
    assert find("USER") == ["10001:10001"]
    assert find("ENTRYPOINT") == ['["tokcore-worker"]']
    assert INSTRUCTIONS.index("USER 10001:10001") > max(
        number for number, line in enumerate(INSTRUCTIONS) if line.startswith(("RUN", "COPY"))
    )


def test_packages_come_by_hash_or_from_the_wheelhouse():
    commands = re.findall(r"pip (?:install|wheel) [^&]*", " && ".join(find("RUN")))
    assert len(commands) == 4
    for command in commands:
        assert {"--require-hashes", "--no-index", "--no-build-isolation"} & set(command.split()), command


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_the_lock_holds_what_pyproject_asks_for(name):
    pinned = read_lock(name)
    pyproject = ROOT / "pyproject.toml"
    of_image = name == "requirements.txt"
    asked = list_requirements(pyproject, EXTRAS) if of_image else list_build_requirements(pyproject)
    wanted = [Requirement(one) for one in asked]
    assert wanted
    for one in wanted:
        found = pinned.get(one.name.lower().replace("_", "-"))
        assert found, f"{one.name}: run deploy/image/lock_requirements.py"
        assert one.specifier.contains(found), f"{one}: {found} is locked; run deploy/image/lock_requirements.py"


def test_the_image_has_the_beam_that_tests_run_with():
    assert read_lock("requirements.txt")["apache-beam"] == version("apache-beam")


def test_what_the_recipe_copies_is_sent_to_the_builder():
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in find("COPY"):
        for source in line.split()[:-1]:
            if source != "." and not line.startswith("--from"):
                assert any(source == one or source.startswith(f"{one}/") for one in sent), source


def test_digests_are_what_the_registry_tells(tmp_path):
    docker = tmp_path / "docker"
    told = f"sha256:{'1a' * 32}"
    for answer, code in ((told, 0), ("sha256:short", 1)):
        docker.write_text(f"#!/bin/sh\necho {answer}\n")
        docker.chmod(0o755)
        done = subprocess.run(
            [IMAGE / "find_digests.sh"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True
        )
        assert done.returncode == code
    docker.write_text(f"#!/bin/sh\necho {told}\n")
    done = subprocess.run(
        [IMAGE / "find_digests.sh"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True
    )
    names = [line.partition("=")[2] for line in done.stdout.splitlines()]
    assert [name.partition("=")[0] for name in names] == find("ARG")[:2]
    assert all(name.endswith(f"@{told}") for name in names)
