"""Which file imports which: at its top, inside its functions, and by name, as `import_module` and `python -m` do."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.source import nodes_of

PACKAGES = ("tokcore", "schemas", "pipelines")
# What a folder is imported as, where that is not its name: by the link of that name.
NAMES = {"schemas": "tokcore_schemas", "pipelines": "tokcore_pipelines"}
_FOLDERS = {name: folder for folder, name in NAMES.items()}

# Paths below the root, with slashes: what each file imports.
Graph = dict[str, set[str]]


class Import(NamedTuple):
    """A dotted name that is imported, or from which a name is imported, and the line."""

    name: str
    line: int


def find_python(root: Path, folders: Iterable[str] = PACKAGES) -> list[str]:
    """The Python files of these folders, sorted, as paths below the root."""
    return sorted(path.relative_to(root).as_posix() for folder in folders for path in (root / folder).rglob("*.py"))


def imports_of(text: str) -> Iterator[Import]:
    """What the text of a file imports. A relative import starts with its dots.

    >>> [one.name for one in imports_of("import a.b\\ndef f():\\n    from c import d, e")]
    ['a.b', 'c.d', 'c.e']
    """
    for node in nodes_of(text):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (Import(f"{module}.{alias.name}", node.lineno) for alias in node.names)


def files_of(name: str, files: frozenset[str], folders: Iterable[str] = ("",)) -> set[str]:
    """The files behind a dotted name: a module, a package, or a module that has the last part of the name.

    folders: where top-level names are looked for, each with a slash at its end.

    >>> sorted(files_of("a.b.c", frozenset({"a/b.py", "a/__init__.py"})))
    ['a/b.py']
    """
    first, dot, rest = name.partition(".")
    path = (_FOLDERS.get(first, first) + dot + rest).replace(".", "/")
    outer = path.rpartition("/")[0]
    for folder in folders:
        candidates = [f"{folder}{path}.py", f"{folder}{path}/__init__.py"]
        if outer:
            candidates += [f"{folder}{outer}.py", f"{folder}{outer}/__init__.py"]
        if found := next((candidate for candidate in candidates if candidate in files), None):
            return {found}
    return set()


def module_of(path: str) -> str:
    """The name by which a file below the root is imported.

    >>> module_of("pipelines/work/__init__.py"), module_of("tokcore/errors.py")
    ('tokcore_pipelines.work', 'tokcore.errors')
    """
    folder, slash, inner = path.removesuffix(".py").removesuffix("/__init__").partition("/")
    return f"{NAMES.get(folder, folder)}{slash}{inner}".replace("/", ".")


def names_in_texts(text: str) -> Iterator[str]:
    """Dotted names that strings of the file spell: `"a.b"`, and `f"a.{x}"` with each word that another string is."""
    words, prefixes = set(), set()
    for node in nodes_of(text):
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(first := node.values[0], ast.Constant):
            if re.fullmatch(r"(\w+\.)+", str(first.value)):
                prefixes.add(str(first.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"\w+(\.\w+)+", node.value):
                yield node.value
            elif node.value.isidentifier():
                words.add(node.value)
    yield from (prefix + word for prefix in prefixes for word in words)


def product_graph(root: Path) -> Graph:
    """What the files of the three packages import of each other, by import statements alone."""
    texts = {path: (root / path).read_text() for path in find_python(root)}
    files = frozenset(texts)
    return {
        path: {file for one in imports_of(text) for file in files_of(one.name, files)} - {path}
        for path, text in texts.items()
    }


@functools.cache
def whole_graph(root: Path, gone: frozenset[str] = frozenset()) -> Graph:
    """What the files of the packages and of the tests import, or name in a string.

    Tests find modules beside them, in tests/ and in the root, as pytest does. gone: files that are no longer there, but
    which others may still import.
    """
    texts = {path: (root / path).read_text() for path in find_python(root, (*PACKAGES, "tests"))}
    files = frozenset(texts) | gone
    graph: Graph = {}
    for path, text in texts.items():
        beside = path.rpartition("/")[0] + "/"
        folders = (beside, "tests/", "") if path.startswith("tests/") else ("",)
        names = {one.name for one in imports_of(text)} | set(names_in_texts(text))
        graph[path] = {file for name in names for file in files_of(name, files, folders)} - {path}
    return graph


def find_circle(graph: Graph) -> list[str]:
    """Files that import each other in a circle, the first one again at the end; empty if there is none.

    >>> find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    ['b', 'c', 'b']
    """
    left = {path: set(imported) for path, imported in graph.items()}
    while free := [path for path, imported in left.items() if not imported & left.keys()]:
        for path in free:
            del left[path]
    if not left:
        return []
    walk = [min(left)]
    while walk[-1] not in walk[:-1]:
        walk.append(min(left[walk[-1]] & left.keys()))
    return walk[walk.index(walk[-1]) :]
