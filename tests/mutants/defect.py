"""What a seeded defect is."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    """One mistake.

    where: the function, method, class or assigned name that holds the code: `Class.method`, `Class::method`; with the
    end of its path before it, `build/build.py: run`, only if namesakes hold the same code.
    old: words and signs that follow each other there once; how they are wrapped and indented does not matter.
    new: what they are replaced by. Lines after the first are indented beyond the line where old begins.
    tests: files, or tests in files; at least one of them must fail.
    """

    name: str
    what: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...]


def in_tests(*names: str) -> tuple[str, ...]:
    """Paths of test files, from their places below tests/."""
    return tuple(f"tests/{name}" for name in names)
