"""How much random search tests do is said in one place: support/examples.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings
from support.examples import PROFILES, VARIABLE, examples, load_profile, scaled, seeds

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def own_profile():
    """The profile of this run again."""
    yield
    load_profile()


@pytest.mark.parametrize(
    ("name", "numbers"), [("change", (20, 1, 1)), ("ci", (200, 4, 10)), ("proof", (2000, 40, 100))]
)
def test_a_profile_scales_examples_and_seeds(name, numbers, monkeypatch):
    monkeypatch.setenv(VARIABLE, name)
    load_profile()
    assert (examples(200).max_examples, scaled(4), len(seeds())) == numbers
    assert settings().max_examples == scaled(100)
    assert settings().deadline is None


def test_only_the_proof_is_random_and_remembers(monkeypatch):
    kept = {}
    for name in PROFILES:
        monkeypatch.setenv(VARIABLE, name)
        load_profile()
        kept[name] = (settings().derandomize, examples(5).database is not None)
    assert kept == {"change": (True, False), "ci": (True, False), "proof": (False, True)}


def test_another_profile_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(ValueError, match=f"{VARIABLE} = fast: expected one of change, ci, proof"):
        load_profile()


def test_no_test_sets_a_number_of_examples_that_no_profile_changes():
    pattern = re.compile(r"max_examples\s*=\s*\d")
    assert [str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if pattern.search(path.read_text())] == []
    assert pattern.search("@settings(max_examples" + "=20)")
