"""How much a rerun does again: at most what was in flight, and the learn stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builds import build_file, tree
from chaos.schedules import SETTINGS, SOURCES, corpus
from chaos.server import Warm


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    client = Warm()
    yield client
    client.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    corpus(folder)
    return build_file(folder, SOURCES, SETTINGS.format(vocab_size=300))


@pytest.fixture(scope="module")
def whole(path: Path, warm: Warm) -> dict[str, int]:
    """How often an undisturbed build does each piece of work."""
    return dict(warm.build(path, path.parent / "out", hostility=0)["visits"])


# What is killed when -> the work that may be done once more, besides what was left.
PIECES = {
    "count.item": {"count.item", "count.spilled"},
    "merge.written": {"merge.written"},
    "count.table": {"count.table"},
    "encode.shard": {"encode.shard"},
    "encode.item": {"encode.item", "encode.shard"},
    "learn.learned": {"learn.begin", "learn.learned"},
}
WORK = ("count.item", "count.spilled", "merge.written", "count.table", "learn.learned", "encode.shard", "encode.item")


@pytest.mark.parametrize("visit", [1, 3])
@pytest.mark.parametrize("point", PIECES)
def test_a_rerun_does_again_at_most_what_was_in_flight(path, whole, warm, point, visit, tmp_path):
    visit = min(visit, whole[point])
    assert "killed" in warm.build(path, tmp_path / "out", hostility=0, crash=[point, visit])
    again = warm.build(path, tmp_path / "out", hostility=0)
    assert tree(tmp_path / "out") == tree(path.parent / "out")
    for work in WORK:
        # The shards of an item that were not full yet are in flight together: train and validation.
        slack = 2 if work == "encode.shard" else 1
        redone = slack if work in PIECES[point] else 0
        done_before = visit - 1 if work == point else whole[work] if _is_earlier(work, point) else 0
        assert again["visits"].get(work, 0) <= whole[work] - done_before + redone, (work, again["visits"], whole)


def _is_earlier(work: str, point: str) -> bool:
    """Whether all work of that kind was done when the build came to the point: its stage is an earlier one."""
    stages = ("count", "learn", "encode")
    if "merge" in work + point:  # runs are merged while counting, digests while encoding
        return False
    return stages.index(work.split(".")[0]) < stages.index(point.split(".")[0])


@pytest.mark.parametrize(("point", "finished"), [("learn.begin", "count."), ("encode.shard", "learn.")])
def test_a_finished_stage_is_not_touched(path, warm, point, finished, tmp_path):
    assert "killed" in warm.build(path, tmp_path / "out", hostility=0, crash=[point, 1])
    again = warm.build(path, tmp_path / "out", hostility=0)
    assert "root" in again
    assert not [name for name in again["visits"] if name.startswith(finished)]
