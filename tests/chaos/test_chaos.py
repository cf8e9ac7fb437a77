"""Some schedules of faults; `make chaos` plays a thousand. schedules.py says what must hold in each."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from chaos.schedules import KINDS, Lab, check_ended, choose_seeds, kind_of, leave_alone, opened_lab, play
from support.examples import scaled

from tokcore_pipelines.store.crashpoints import MIXING_POINTS, PACKING_POINTS, POINTS

# Only a build that mixes and packs comes there.
DERIVING_POINTS = {**MIXING_POINTS, **PACKING_POINTS}

SEEDS = choose_seeds(scaled(10))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with opened_lab() as lab:
        yield lab


def test_a_build_comes_by_every_crash_point(lab):
    assert set(lab.visits["a"]) == set(POINTS)
    assert set(lab.visits["c"]) == {*POINTS, *DERIVING_POINTS}


# A store can neither sync, link nor rename, so a build does nothing of that there.
ONLY_LOCAL = {"publish.before_link", "publish.after_link", "merge.named"}


@pytest.mark.parametrize(
    ("name", "point"),
    [*(("a", point) for point in POINTS if point not in ONLY_LOCAL), *(("c", point) for point in DERIVING_POINTS)],
)
def test_killed_anywhere_with_a_store(lab, name, point):
    """Its creation is atomic, and files get their final names at once: what a kill left is found again, or made."""
    times = lab.store_visits[name][point]
    for visit in sorted({1, times}):
        output = lab.new_output()
        where = f"faultfs://{output}"
        crash = [point, visit]
        done = lab.warm.build(lab.build_files[name], where, inputs="faultfs", crash=crash, hostility=0)
        assert "killed" in done, done
        check_ended(lab, name, output, done)
        leave_alone(lab, random.Random(visit), name, output, where, "faultfs")


def test_there_are_schedules_of_every_kind():
    assert {kind_of(seed) for seed in SEEDS} == set(KINDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens(lab, seed):
    play(lab, seed)
