"""The walks of a document and of a count in pipelines/README.md: each hop exists and is reached from the one before.

A hop is a numbered line: a link to a file, a function or class in it, and where it is called if not in the hop before.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "pipelines"
_HOP = re.compile(r"(\d+)\. \[[^]]+\]\(([^)]+)\) `([\w.]+)`(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Hop:
    """One step of a walk."""

    number: int
    file: Path
    function: str  # or Class.method, or a class
    callers: tuple[Path, ...]  # files named in place of the hop before


def hops(walk: str) -> list[Hop]:
    """The hops below the heading of that name."""
    text = (FOLDER / "README.md").read_text().split(f"## The walk of {walk}\n")[1].split("\n## ")[0]
    found = []
    for item in re.split(r"\n(?=\d+\. )", text)[1:]:
        match = _HOP.match(item)
        assert match, f"not a hop: {item}"
        number, file, function, rest = match.groups()
        callers = tuple(FOLDER / link for link in re.findall(r"\]\(([^)]+)\)", rest.partition("Called in")[2]))
        found.append(Hop(int(number), FOLDER / file, function, callers))
    return found


def defined(file: Path) -> set[str]:
    """Names of a module's functions and classes, and Class.method of its methods."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def used(file: Path) -> set[str]:
    """Every name that a module's code reads, its own definitions and its imports left out."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize("walk", ["a document", "a count"])
def test_every_hop_exists(walk):
    found = hops(walk)
    assert [hop.number for hop in found] == list(range(1, 11))
    for hop in found:
        assert hop.file.is_file(), hop
        assert hop.function in defined(hop.file), hop


@pytest.mark.parametrize("walk", ["a document", "a count"])
def test_every_hop_is_reached(walk):
    found = hops(walk)
    for before, hop in itertools.pairwise(found):
        for file in hop.callers or (before.file,):
            assert hop.function.rpartition(".")[2] in used(file), (hop, file)


def test_the_walks_meet_all_rooms_that_carry_them():
    rooms = {
        hop.file.resolve().relative_to(FOLDER.parent).parts[:2]
        for walk in ("a document", "a count")
        for hop in hops(walk)
    }
    assert {("pipelines", room) for room in ("build", "run", "work", "reading")} <= rooms
    assert {"pipelines", "tokcore"} <= {package for package, _ in rooms}
