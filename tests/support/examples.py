"""How much random search tests do, by profile: TOKCORE_TEST_PROFILE is change, ci (the default) or proof.

A test says how many examples it tries in `ci`; one variable changes all of them. test_profiles.py holds tests to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

FOUND = Path(__file__).parents[2] / ".hypothesis" / "examples"  # what `proof` found, to be tried first


class Profile(NamedTuple):
    """scale: what numbers of examples and seeds are multiplied by. is_random: other examples in each run."""

    scale: float
    is_random: bool = False


# Two runs of `change` or `ci` try the same, so a failure repeats, and none begins with a change that has no part in it.
PROFILES = {"change": Profile(0.1), "ci": Profile(1), "proof": Profile(10, is_random=True)}
VARIABLE = "TOKCORE_TEST_PROFILE"


def find_profile() -> Profile:
    """The profile that the environment names. Raises ValueError."""
    name = os.environ.get(VARIABLE) or "ci"
    if name not in PROFILES:
        raise ValueError(f"{VARIABLE} = {name}: expected one of {', '.join(PROFILES)}")
    return PROFILES[name]


def load_profile() -> None:
    """Let tests that ask for no number of examples try 100 in `ci`, as Hypothesis would."""
    is_random = find_profile().is_random
    settings.register_profile(
        "tokcore",
        max_examples=scaled(100),
        deadline=None,  # how long an example takes depends more on the machine's other load
        derandomize=not is_random,
        database=DirectoryBasedExampleDatabase(FOUND) if is_random else None,
    )
    settings.load_profile("tokcore")


def scaled(number: int) -> int:
    """What the profile makes of a number for `ci`: at least 1."""
    return max(1, round(number * find_profile().scale))


def examples(number: int, **more: Any) -> settings:
    """Settings for a test that tries this many examples in `ci`: a decorator. more: other settings of Hypothesis."""
    return settings(max_examples=scaled(number), **more)


def seeds(number: int = 10) -> range:
    """Seeds for a test that makes its own random inputs, this many in `ci`."""
    return range(scaled(number))
