"""The sum of any number of sorted runs, of which few are open at a time: an output may have a table for each part."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import merge_rows, read_run, write_run

MOST_OPEN = 64


def merge_many_rows(
    runs: Sequence[Iterable[CountRows]], multipliers: Sequence[int] | None = None, most_open: int = MOST_OPEN
) -> Iterator[CountRows]:
    """As merge_rows, but with at most most_open runs open at a time. Their sums are kept in temporary files.

    runs: each must open its file only when its first rows are asked for.
    """
    if len(runs) <= most_open:
        yield from merge_rows(runs, multipliers)
        return
    with tempfile.TemporaryDirectory(prefix="tokcore-runs-") as folder:
        paths = []
        for start in range(0, len(runs), most_open):
            few = slice(start, start + most_open)
            paths.append(Path(folder, str(start)))
            with paths[-1].open("wb") as file:
                write_run(file, merge_rows(runs[few], None if multipliers is None else multipliers[few]))
        weighted = None if multipliers is None else [1] * len(paths)  # the limits of weighted counts still hold
        yield from merge_many_rows([*map(_read_file, paths)], weighted, most_open)


def _read_file(path: Path) -> Iterator[CountRows]:
    with path.open("rb") as file:
        yield from read_run(file)
