"""Run each fuzz target on the inputs kept for it, and on some new ones from one seed. `make fuzz` runs for longer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fuzz import row_files
from fuzz.artifacts import KINDS, fuzz_artifacts
from fuzz.targets import TARGETS, folders, fuzz, replay
from support.examples import scaled
from support.sanitized import Programs

# About two seconds each.
RUNS = {
    "automaton": 1000,
    "scan": 120,
    "encode": 60,
    "count": 400,
    "count_ids": 600,
    "drop_tokens": 300,
    "find_masks": 4000,
    "find_strings": 4000,
    "json_lines": 4000,
    "learn": 150,
    "learn_characters": 60,
    "learn_pieces": 40,
    "merge_rows": 6000,
    "pieces": 40,
    "predict": 2000,
    "rank_tokens": 2500,
    "symbols": 150,
    "tokenizer_lists": 3000,
    "wordpiece": 2500,
}


@pytest.mark.parametrize("target", TARGETS)
def test_kernel(target: str, sanitized: Programs, tmp_path: Path) -> None:
    (program,) = sanitized(f"fuzz_{target}")
    assert len(folders(target)) == 2, "there are examples, and inputs that are replayed"
    done = replay(program, target, tmp_path)
    assert done.returncode == 0, done.stdout
    done = fuzz(program, target, 1, f"-runs={scaled(RUNS[target])}", tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_defect_stops_the_program_and_leaves_its_input(sanitized: Programs, tmp_path: Path) -> None:
    (program,) = sanitized("fuzz_defective")
    done = fuzz(program, "defective", 1, "-runs=1000000", tmp_path)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stdout
    (crash,) = tmp_path.glob("fuzz_defective-crash-*")
    assert b"x" in crash.read_bytes()
    assert subprocess.run([program, crash], cwd=tmp_path, capture_output=True).returncode != 0


def test_artifacts(tmp_path: Path) -> None:
    reason = fuzz_artifacts([*KINDS], 1, tmp_path, runs=scaled(300))
    assert not reason, reason


@pytest.mark.parametrize("kind", row_files.KINDS)
def test_row_files(kind: str, tmp_path: Path) -> None:
    reason = row_files.fuzz_row_files(kind, 1, tmp_path, runs=scaled(300))
    assert not reason, reason
