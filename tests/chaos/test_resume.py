"""A rerun repeats at most the work that was in flight, and the learn stage."""

from __future__ import annotations

import pytest
from support.builds import tree

# Where a build is killed -> the work that may be repeated once, besides what was still to be done.
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
def test_a_rerun_does_again_at_most_what_was_in_flight(path, undisturbed, warm, point, visit, tmp_path):
    visit = min(visit, undisturbed[point])
    assert "killed" in warm.build(path, tmp_path / "out", hostility=0, crash=[point, visit])
    again = warm.build(path, tmp_path / "out", hostility=0)
    assert tree(tmp_path / "out") == tree(path.parent / "out")
    for work in WORK:
        # An item's shards that were not full yet are in flight together: train and validation.
        slack = 2 if work == "encode.shard" else 1
        redone = slack if work in PIECES[point] else 0
        done_before = visit - 1 if work == point else undisturbed[work] if _is_earlier(work, point) else 0
        assert again["visits"].get(work, 0) <= undisturbed[work] - done_before + redone, (
            work,
            again["visits"],
            undisturbed,
        )


def _is_earlier(work: str, point: str) -> bool:
    """Whether all work of that kind is done when a build comes to the point, because its stage is an earlier one."""
    stages = ("count", "learn", "encode")
    if "merge" in work + point:  # runs of counts are merged while others are written
        return False
    return stages.index(work.split(".")[0]) < stages.index(point.split(".")[0])


@pytest.mark.parametrize(("point", "finished"), [("learn.begin", "count."), ("encode.shard", "learn.")])
def test_a_finished_stage_is_not_touched(path, warm, point, finished, tmp_path):
    assert "killed" in warm.build(path, tmp_path / "out", hostility=0, crash=[point, 1])
    again = warm.build(path, tmp_path / "out", hostility=0)
    assert "root" in again
    assert not [name for name in again["visits"] if name.startswith(finished)]
