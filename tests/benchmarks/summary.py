"""The README's table of speed, from the tables of a run: how many times as fast as the best other library we are.

It has a row for each table of the run, and for encoding a row for each form in which texts are passed. RESULTS.md has
all figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from measuring import Table
from pipeline import FLOOR
from vocabularies import TITLE

LOAD = "load, s"
# The columns that are compared: (head, what the README calls it, whether larger is better).
COLUMNS = (
    ("cold", "cold", True),
    ("steady", "steady", True),
    ("MB per CPU second", "", True),
    ("without start-up: MB per CPU second", "without start-up", True),
    ("merge, s", "merging alone", False),
    ("both, s", "with counting", False),
    (LOAD, "", False),
    ("new", "new", False),
    ("known", "known", False),
)
# How the name of a library ends that was given the texts in this form.
BUFFER = ", one buffer"
STRINGS = ", list of str"
UNSORTED = "tokcore, rows not sorted yet"  # as the others' counts are
# A ratio of at least this counts as equal: the machine's noise is as large.
NOISE = 0.97


class Comparison(NamedTuple):
    """One ratio: how many times as fast as the best other library we are."""

    row: str  # of the README's table
    column: str  # "" if the row has only one
    peer: str
    ratio: float


def section(record: dict[str, Any]) -> str:
    """Markdown: the table of comparisons, and a sentence that names what was slower than another library."""
    tables = [Table(**table) for tables in record["tables"].values() for table in tables]
    compared = [comparison for table in tables for comparison in _comparisons(table)]
    inputs = [comparison for table in tables for comparison in _inputs(table)]
    lines = ["| | best other library | times as fast |", "|---|---|---|"]
    for row in dict.fromkeys(comparison.row for comparison in compared):
        cells = [comparison for comparison in compared if comparison.row == row]
        peers = " / ".join(dict.fromkeys(cell.peer.removesuffix(BUFFER) for cell in cells))
        ratios = "; ".join(f"{_shown(cell.ratio)} {cell.column}".strip() for cell in cells)
        lines.append(f"| {row} | {peers} | {ratios} |")
    if inputs:
        held = sum(row.ratio >= NOISE for row in inputs)
        lines.append(f"| {len(inputs)} pathological inputs, Arrow | the best for each | at least as fast in {held} |")
    slower = [f"{one.row}, {one.column} ({one.peer})" for one in compared + inputs if one.ratio < NOISE]
    told = f"Slower than another library: {'; '.join(slower)}."
    verdict = told if slower else "In these rows, no other library was faster."
    return "\n".join(lines) + f"\n\n{verdict}\n"


def _shown(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= NOISE else f"{ratio:.2f}"


def _comparisons(table: Table) -> Iterator[Comparison]:
    if "2 threads" in table.title:
        return
    if table.title.startswith(TITLE):
        yield from _vocabulary(table)
        return
    title = table.title.removesuffix(", 1 thread")
    for head, column, larger_is_better in COLUMNS:
        if head not in table.head:
            continue
        at = table.head.index(head)
        numbers = {
            str(row[0]): row[at] if larger_is_better else 1 / row[at]
            for row in sorted(table.rows, key=lambda row: str(row[0]))  # "tokcore" before its variants
            if isinstance(row[at], float) and row[at] > 0 and "differ" not in str(row[-1])
        }
        others = {name: value for name, value in numbers.items() if not name.startswith("tokcore") and name != FLOOR}
        ours = next((numbers[name] for name in numbers if name.split(",")[0] == "tokcore"), None)
        if not ours or not others:
            continue
        best = max(others, key=lambda name: others[name])
        strings = numbers.get(f"tokcore{STRINGS}")
        yield Comparison(f"{title}, Arrow" if strings else title, column, best, ours / others[best])
        if strings:
            given_strings = {name: value for name, value in others.items() if not name.endswith(BUFFER)}
            best = max(given_strings, key=lambda name: given_strings[name])
            yield Comparison(f"{title}{STRINGS}", column, best.removesuffix(STRINGS), strings / given_strings[best])
        if unsorted := numbers.get(UNSORTED):
            yield Comparison(title, "unsorted, like theirs", best, unsorted / others[best])


def _vocabulary(table: Table) -> Iterator[Comparison]:
    """The rows of a published vocabulary: the least ratio of all texts, their geometric mean, and loading."""
    ours = next(row for row in table.rows if row[0] == "tokcore")
    others = [row for row in table.rows if not str(row[0]).startswith("tokcore") and row[-1] == "equal"]
    if not others:
        return
    found = []
    for at, head in enumerate(table.head[:-1]):
        if at:
            best = max(others, key=lambda row: row[at] if head != LOAD else -row[at])
            ratio = ours[at] / best[at]
            found.append(
                Comparison(table.title, "loading", str(best[0]), 1 / ratio)
                if head == LOAD
                else Comparison(table.title, "at least", str(best[0]), ratio)
            )
    texts = [one for one in found if one.column != "loading"]
    least = min(texts, key=lambda one: one.ratio)
    yield least
    yield least._replace(column="on average", ratio=statistics.geometric_mean([one.ratio for one in texts]))
    yield from (one for one in found if one.column == "loading")


def _inputs(table: Table) -> Iterator[Comparison]:
    """The rows of the table of pathological inputs, which has a column for each library."""
    if "Pathological" not in table.title:
        return
    for row in table.rows:
        times = {name: _number(value) for name, value in zip(table.head[1:], row[1:], strict=True)}
        ours = times["tokcore"]
        others = {name: value for name, value in times.items() if value is not None and not name.startswith("tokcore")}
        if ours and others:
            best = min(others, key=lambda name: others[name])
            yield Comparison(f"Pathological: {row[0]}", "Arrow", best, others[best] / ours)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:  # an error, or other ids
        return None
