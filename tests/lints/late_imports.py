"""Our own modules are imported at the top of a file; where a function imports one, a comment says what that spares."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from lints.import_graph import NAMES, find_python
from lints.offence import Offence
from support.source import nodes_of

_OURS = {"tokcore", *NAMES.values()}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def find_offences(root: Path) -> Iterator[Offence]:
    """All imports of our own modules in functions of pipelines that have no comment."""
    for path in find_python(root, ("pipelines",)):
        for line in late_imports(text := (root / path).read_text()):
            if not _is_explained(text.split("\n"), line):
                what = "imports a module of ours in a function, and does not say why"
                yield Offence(path, line, what, "Import it at the top, or say in a comment above what this spares")


def late_imports(text: str) -> list[int]:
    """The lines in functions that import a module of ours.

    >>> late_imports("import tokcore.a\\ndef f():\\n    import os\\n    from tokcore.b import c")
    [4]
    """
    functions = (node for node in nodes_of(text) if isinstance(node, _FUNCTIONS))
    inside = {node for function in functions for node in ast.walk(function)}
    names = (
        (node.lineno, [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
        for node in inside
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    return sorted(line for line, modules in names if any(name.split(".")[0] in _OURS for name in modules))


def _is_explained(lines: list[str], line: int) -> bool:
    """Whether a comment is on a line, or above it and the imports that it follows."""
    while "#" not in lines[line - 1]:
        line -= 1
        if line == 0 or not lines[line - 1].strip().startswith(("from ", "import ", "#")):
            return False
    return True
