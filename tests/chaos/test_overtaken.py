"""Two equal commands write one output. One is done and has removed the working folders while the other is at work:
that one finds what is there and ends as if it had made it."""

from __future__ import annotations

import shutil

import pytest
from chaos.schedules import start_and_stand_still, woken
from support.builds import tree

from tokcore_pipelines.store.crashpoints import POINTS


@pytest.mark.parametrize("point", POINTS)
def test_an_equal_build_may_be_done_at_any_moment_of_another(path, undisturbed, warm, point, tmp_path):
    times = undisturbed[point]
    for visit in sorted({1, (times + 1) // 2, times}):
        output = tmp_path / str(visit) / "out"
        number = start_and_stand_still(warm, path, output, [point, visit], hostility=0)
        faster = warm.build(path, output, hostility=0, verify=True)
        slower = woken(warm, number)
        assert "root" in slower, (visit, slower)
        assert slower["root"] == faster["root"]
        assert faster["problems"] == []
        assert tree(output) == tree(path.parent / "out")


LEARNED = 290  # tokens
# In their order: the last is where files have their names already.
POINTS_OF_LEARNING = ("write.before_sync", "create.after_link", "learn.begin", "learn.learned", "learn.published")


def test_an_equal_command_may_have_learned_at_any_moment_of_another(path, undisturbed, warm, tmp_path):
    assert undisturbed
    how = {"hostility": 0, "command": ["learn", LEARNED]}
    alone = tmp_path / "alone"
    shutil.copytree(path.parent / "out", alone)
    visits = warm.build(path, alone, **how)["visits"]
    moments = [(point, visit + 1) for point in POINTS_OF_LEARNING for visit in range(visits.get(point, 0))]
    assert len(moments) > len(POINTS_OF_LEARNING)
    for point, visit in moments:
        output = tmp_path / f"{point}-{visit}"
        shutil.copytree(path.parent / "out", output)
        number = start_and_stand_still(warm, path, output, [point, visit], **how)
        faster = warm.build(path, output, **how)
        slower = woken(warm, number)
        assert slower.get("fingerprint") == faster["fingerprint"], (point, visit, slower)
        assert tree(output) == tree(alone)
