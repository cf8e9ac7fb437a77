"""The short table of the README, out of the tables of a run: our ratio to the best other library, in every row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from measuring import Table
from pipeline import FLOOR

# Of each kind of table, the columns that are compared: (head, what it adds to the title, whether larger is better).
COLUMNS = (
    ("cold", ", cold", True),
    ("steady", ", steady", True),
    ("MB per CPU second", "", True),
    ("without start-up: MB per CPU second", ", without start-up", True),
    ("merge, s", ", merging alone", False),
    ("both, s", ", count and merge", False),
)
UNSORTED = "tokcore, rows not sorted yet"  # what the others' counts are
# Differences below this are the machine's.
NOISE = 0.97


class Comparison(NamedTuple):
    """One comparison: how many times as fast as the best other library we are."""

    what: str
    peer: str
    ratio: float


def section(record: dict[str, Any]) -> str:
    """Markdown: the table of comparisons, and what was slower than a peer."""
    tables = [Table(**table) for tables in record["tables"].values() for table in tables]
    rows = [row for table in tables for row in _comparisons(table)]
    inputs = [row for table in tables for row in _inputs(table)]
    lines = ["| | best other library | tokcore is faster by |", "|---|---|--:|"]
    lines += [f"| {row.what} | {row.peer} | {_shown(row.ratio)} |" for row in rows]
    if inputs:
        held = sum(row.ratio >= NOISE for row in inputs)
        lines.append(f"| {len(inputs)} pathological inputs | as fast as the best of all, or faster | {held} of them |")
    slower = [f"{row.what} ({row.peer}, {_shown(row.ratio)})" for row in rows + inputs if row.ratio < NOISE]
    verdict = f"Slower than a peer: {'; '.join(slower)}." if slower else "No peer was faster."
    return "\n".join(lines) + f"\n\n{verdict}\n"


def _shown(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2f}"


def _comparisons(table: Table) -> Iterator[Comparison]:
    if "2 threads" in table.title:
        return
    for head, suffix, larger_is_better in COLUMNS:
        if head not in table.head:
            continue
        column = table.head.index(head)
        numbers = {
            str(row[0]): row[column] if larger_is_better else 1 / row[column]
            for row in sorted(table.rows, key=lambda row: str(row[0]))  # "tokcore" before its variants
            if isinstance(row[column], float) and row[column] > 0 and "differ" not in str(row[-1])
        }
        others = {name: value for name, value in numbers.items() if not name.startswith("tokcore") and name != FLOOR}
        ours = next((numbers[name] for name in numbers if name.split(",")[0] == "tokcore"), None)
        if ours and others:
            best = max(others, key=lambda name: others[name])
            yield Comparison(table.title + suffix, best, ours / others[best])
            if unsorted := numbers.get(UNSORTED):
                yield Comparison(f"{table.title}, ours unsorted as theirs", best, unsorted / others[best])


def _inputs(table: Table) -> Iterator[Comparison]:
    """The rows of the table of pathological inputs, which has a column a library."""
    if "Pathological" not in table.title:
        return
    for row in table.rows:
        times = {name: _number(value) for name, value in zip(table.head[1:], row[1:], strict=True)}
        ours = times["tokcore"]
        others = {name: value for name, value in times.items() if value is not None and not name.startswith("tokcore")}
        if ours and others:
            best = min(others, key=lambda name: others[name])
            yield Comparison(str(row[0]), best, others[best] / ours)


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:  # an error, or other ids
        return None
