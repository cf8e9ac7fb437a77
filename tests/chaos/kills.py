"""Kill a build at chosen points and run it again: the same files must come out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.server import Warm
from support.builds import tree


def check_kills(build_file: Path, points: Sequence[tuple[str, int]], expected: dict[str, str], folder: Path) -> None:
    """Kill a build at each point, run it again under other conditions, and compare every file of its output.

    points: (crash point, number of the visit to it). expected: tree() of an output that was built undisturbed.
    """
    warm = Warm()
    try:
        for point, visit in points:
            output = folder / f"{point}-{visit}"
            done = warm.build(build_file, output, crash=[point, visit], hostility=0.3, seed=visit)
            assert "killed" in done, done
            assert "root" in warm.build(build_file, output, hostility=0.3, seed=visit + 1)
            assert tree(output) == expected
    finally:
        warm.close()
