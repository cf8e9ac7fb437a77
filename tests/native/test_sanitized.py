"""The kernel alone, without Python, under sanitizers, compared with plain implementations of the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.examples import scaled
from support.sanitized import NotPossibleError, Programs

from tokcore import _native


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_masks_and_id_counts(sanitized: Programs) -> None:
    run(*sanitized("audit_check"), str(scaled(5000)))


@pytest.mark.parametrize("implementation", _native.implementations())
def test_encoder(sanitized: Programs, implementation: str) -> None:
    run(*sanitized("encoder_check"), str(scaled(120)), implementation)


def test_json_lines(sanitized: Programs) -> None:
    run(*sanitized("json_lines_check"), str(scaled(40_000)))


def test_counting_and_learning(sanitized: Programs) -> None:
    run(*sanitized("learner_check"), str(scaled(40)))


def test_counting_and_learning_share_no_memory_by_mistake(tmp_path: Path) -> None:
    try:
        programs = Programs(tmp_path, sanitizers="thread")
    except NotPossibleError as error:
        pytest.skip(str(error))  # as in conftest.py; also, not every compiler has this sanitizer
    run(*programs("learner_check"), str(scaled(8)))


def test_scanners(sanitized: Programs) -> None:
    run(*sanitized("scanner_check"), str(scaled(3000)))
