"""A few dozen schedules of faults; `make chaos` plays a thousand. schedules.py says what must hold in each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chaos.schedules import KINDS, Lab, kind_of, opened_lab, play

from pipelines.store.crashpoints import POINTS

SEEDS = range(34)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with opened_lab() as lab:
        yield lab


def test_a_build_comes_by_every_crash_point(lab):
    assert set(lab.visits) == set(POINTS)


def test_there_are_schedules_of_every_kind():
    assert {kind_of(seed) for seed in SEEDS} == set(KINDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens(lab, seed):
    play(lab, seed)
