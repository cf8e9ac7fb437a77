"""Which test files can see that a file of the tree changed, and from how far."""

from __future__ import annotations

import ast
import functools
import re
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from lints.import_graph import PACKAGES, Graph, whole_graph
from support.source import nodes_of, parse

# What all tests run with.
EVERYTHING = ("pyproject.toml", "Makefile", "tests/conftest.py")
# What reaches Python through one module.
DOORS = {"tokcore/native/": "tokcore/kernel.py"}
# Tests that read all files of a kind, whose names they need not say.
READERS = {
    ".md": ("tests/test_examples.py", "tests/test_promises.py", "tests/test_walks.py"),
    ".h": ("tests/native/", "tests/fuzz/"),
    ".cpp": ("tests/native/", "tests/fuzz/"),
}
# Folders of the tree whose names say nothing about a file.
FOLDERS = (*PACKAGES, "tests", "deploy")


def tests_that_see(changed: Iterable[str], root: Path) -> set[str]:
    """The test files whose outcome these changed files can change; all paths are below the root."""
    return set(count_steps(changed, root))


def count_steps(changed: Iterable[str], root: Path) -> dict[str, int]:
    """Each test file that sees one of the changed files, and over how many imports the nearest one is: itself 0.

    A conftest.py, and what it imports from tests/, is seen by all tests below it. What it imports of the product is
    seen only by tests that name one of its fixtures: the others get processes that are warm, and nothing else.
    """
    changed = set(changed)
    gone = frozenset(path for path in changed if path.endswith(".py") and not (root / path).exists())
    importers = _importers(root, gone)
    steps: dict[str, int] = {}
    for path in sorted(changed):
        for file, count in _reach(importers, _starts(path, root, importers)).items():
            steps[file] = min(count, steps.get(file, count))
    tests = find_tests(root)
    for conftest, helpers in _helpers(root).items():
        if helpers & changed:
            below = conftest.removesuffix("conftest.py")
            steps.update({test: min(1, steps.get(test, 1)) for test in tests if test.startswith(below)})
    if changed & set(EVERYTHING):
        steps.update({test: min(1, steps.get(test, 1)) for test in tests})
    return {test: steps[test] for test in tests if test in steps}


@functools.cache
def find_tests(root: Path) -> tuple[str, ...]:
    """The test files that pytest collects, sorted, below the root."""
    return tuple(sorted(path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")))


def _starts(path: str, root: Path, importers: Mapping[str, set[str]]) -> dict[str, int]:
    """The Python files that stand for a changed file, and how many steps away they are from it."""
    starts: dict[str, int] = {}
    for folder, door in DOORS.items():
        if path.startswith(folder):
            starts[door] = 0
    for ending, readers in READERS.items():
        if path.endswith(ending):
            starts.update({test: 1 for test in find_tests(root) if test.startswith(readers)})
    if path.endswith("/__init__.py"):  # runs when anything of its package is imported
        package = path.removesuffix("__init__.py")
        starts.update({file: 0 for file in importers if file.rpartition("/")[0] + "/" == package})
    if path.endswith(".py"):
        starts[path] = 0
    else:
        starts.update(dict.fromkeys(_naming(path, root, has_readers=bool(starts)), 1))
    return starts


def _naming(path: str, root: Path, has_readers: bool) -> set[str]:
    """Python files whose strings name a file and its folder; if none do, those that name the rarest part of its path.

    has_readers: others are known, so only tests that name the file itself are looked for.
    """
    names = _names(root)
    file, folder = PurePosixPath(path), PurePosixPath(path).parent
    named = {one for one, parts in names.items() if {file.name, folder.name or file.name} <= parts}
    if has_readers:
        return {one for one in named if one.startswith("tests/") and folder.name}
    if named:
        return named
    telling = [part for part in file.parts if part not in FOLDERS and len(part) > 2]  # not a language's two letters
    by_part = [{one for one, parts in names.items() if part in parts} for part in telling]
    beside = {one for one in names if folder.name and PurePosixPath(one).is_relative_to(folder)}
    return min((found for found in by_part if found), key=len, default=beside)


@functools.cache
def _names(root: Path) -> dict[str, set[str]]:
    """The parts of paths that the strings of each Python file hold."""
    found = {}
    for path in whole_graph(root):
        strings = (node.value for node in nodes_of((root / path).read_text()) if isinstance(node, ast.Constant))
        words = (re.findall(r"[\w.*-]+", text) for text in strings if isinstance(text, str) and len(text) < 200)
        found[path] = {word for line in words for word in line}
    return found


@functools.cache
def _importers(root: Path, gone: frozenset[str]) -> dict[str, set[str]]:
    """Each file, and the files that import it. Tests import a conftest.py above them if they name a fixture of it."""
    graph = whole_graph(root, gone)
    importers: dict[str, set[str]] = {path: set() for path in [*graph, *gone]}
    for path, imported in graph.items():
        for file in imported:
            importers[file].add(path)
    for conftest in _conftests(graph):
        fixtures = _fixtures((root / conftest).read_text())
        below = conftest.removesuffix("conftest.py")
        importers[conftest].update(
            path for path in graph if path.startswith(below) and fixtures & _asked((root / path).read_text())
        )
    return importers


def _reach(importers: Mapping[str, set[str]], starts: Mapping[str, int]) -> dict[str, int]:
    steps: dict[str, int] = {}
    waiting = deque(sorted(starts.items(), key=lambda start: start[1]))
    while waiting:
        path, count = waiting.popleft()
        if path not in steps:
            steps[path] = count
            waiting.extend((file, count + 1) for file in importers.get(path, ()))
    return steps


def _conftests(graph: Graph) -> list[str]:
    return [path for path in graph if path.endswith("/conftest.py")]


def _helpers(root: Path) -> dict[str, set[str]]:
    """Each conftest.py, with itself and the files of tests/ that it imports."""
    graph = whole_graph(root)
    found = {}
    for conftest in _conftests(graph):
        helpers, waiting = set(), [conftest]
        while waiting:
            helpers.add(path := waiting.pop())
            waiting += [file for file in graph[path] if file.startswith("tests/") and file not in helpers]
        found[conftest] = helpers
    return found


def _fixtures(text: str) -> set[str]:
    """The fixtures that the text of a conftest.py defines, but those that all tests get."""
    functions = [node for node in parse(text).body if isinstance(node, ast.FunctionDef)]
    decorators = {one.name: [ast.unparse(each) for each in one.decorator_list] for one in functions}
    return {
        name for name, lines in decorators.items() if any("fixture" in line and "autouse" not in line for line in lines)
    }


def _asked(text: str) -> set[str]:
    """Names of arguments, and strings, as usefixtures has them."""
    nodes = nodes_of(text)
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return strings | {node.arg for node in nodes if isinstance(node, ast.arg)}
