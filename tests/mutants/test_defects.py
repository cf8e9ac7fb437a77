"""Every seeded defect still applies, and the tests that must catch it are there. `make mutants` runs them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from mutants.defects import DEFECTS, Defect

ROOT = Path(__file__).parents[2]


def test_there_are_enough_of_both_languages():
    names = [defect.name for defect in DEFECTS]
    assert len(names) == len(set(names)) >= 45
    assert sum(defect.path.endswith(".py") for defect in DEFECTS) >= 20
    assert sum(defect.path.endswith((".cpp", ".h")) for defect in DEFECTS) >= 20


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_applies_and_its_tests_are_there(defect: Defect):
    text = (ROOT / defect.path).read_text()
    assert text.count(defect.old) == 1, f"{defect.path}: what {defect.name} replaces is not there once"
    assert defect.new != defect.old
    if defect.path.endswith(".py"):
        ast.parse(text.replace(defect.old, defect.new))
    assert defect.tests
    for test in defect.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).name.startswith("test_")
        tests = re.findall(r"^def (test_\w+)", (ROOT / file).read_text(), re.MULTILINE)
        assert tests, file
        assert not name or name in tests, test
