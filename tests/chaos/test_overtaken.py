"""Two equal builds write one output. One is done and has removed the working folders while the other is still at work:
that one finds what is there and ends as if it had made it."""

from __future__ import annotations

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
