"""Finds the piece of code that a seeded defect replaces: by the name of what holds it, and word by word.

A defect names a function, a method (`Class.method`, in C++ `Class::method`), a class, or what a value is assigned to.
Where that stands does not matter, nor how its lines are wrapped and indented. So code can move to another file, and
what surrounds it can change, while the defect stays as it is.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mutants import cpp_definitions
from support.source import parse

# What holds code that a defect may change. Of the tests: programs that other tests start.
FOLDERS = ("tokcore", "schemas", "pipelines", "tests/engines")


class AnchorError(Exception):
    """No code, or more than one piece of it, is what a defect names."""


class Definition(NamedTuple):
    """Where something is defined: the text of the file from start to end, in characters."""

    path: str  # below the root of the tree
    start: int
    end: int


class Token(NamedTuple):
    """A word, or a sign, and where it stands in its text."""

    text: str
    start: int
    end: int


Definitions = dict[str, list[Definition]]


def find_definitions(root: Path) -> Definitions:
    """All definitions of the tree, by their qualified names. Overloads, and namesakes in other files, share one."""
    found: Definitions = defaultdict(list)
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        relative = path.relative_to(root).as_posix()
        if path.suffix == ".py":
            places = python_definitions(path.read_text())
        elif path.suffix in (".cpp", ".h") and "generate" not in path.name:
            places = cpp_definitions.find_all(path.read_text())
        else:
            continue
        for name, start, end in places:
            found[name].append(Definition(relative, start, end))
    return found


def python_definitions(text: str) -> Iterator[tuple[str, int, int]]:
    """(qualified name, start, end) of each function, class and assigned name, decorators included.

    Loops of a module or class have the names that they assign; what runs as a program is called __main__.

    >>> text = "class A:\\n    size = 1\\n    def f(self): pass\\n"
    >>> [(name, text[start:end].strip()) for name, start, end in python_definitions(text)][1:]
    [('A.size', 'size = 1'), ('A.f', 'def f(self): pass')]
    """
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def inside(body: Sequence[ast.stmt], outer: str) -> Iterator[tuple[str, int, int]]:
        for node in body:
            first = node.lineno
            names: list[str] = []
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [node.name]
                first = min([first, *(one.lineno for one in node.decorator_list)])
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For) and not outer.endswith("()."):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
                names = ["__main__"]
            for name in names:
                yield outer.replace("()", "") + name, lines[first - 1], lines[node.end_lineno or first]
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, f"{outer}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from inside(node.body, f"{outer}{node.name}().")
            else:
                for part in ("body", "orelse", "finalbody"):
                    yield from inside(getattr(node, part, []), outer)

    return inside(parse(text).body, "")


@functools.cache
def split_code(text: str) -> tuple[Token, ...]:
    """Words and signs, without space, and without the comma that a formatter puts before a closing bracket.

    >>> [token.text for token in split_code("f(a,\\n  b,\\n)")] == [token.text for token in split_code("f(a, b)")]
    True
    """
    tokens = [Token(one.group(), one.start(), one.end()) for one in re.finditer(r"\w+|[^\w\s]", text)]
    after = [*tokens[1:], Token("", 0, 0)]
    return tuple(one for one, then in zip(tokens, after, strict=True) if one.text != "," or then.text not in (*")]}",))


def find_code(text: str, fragment: str) -> list[tuple[int, int]]:
    """Where the words and signs of the fragment follow each other in the text: (start, end) of each place."""
    tokens, wanted = split_code(text), [token.text for token in split_code(fragment)]
    words = [token.text for token in tokens]
    return [
        (tokens[at].start, tokens[at + len(wanted) - 1].end)
        for at, word in enumerate(words)
        if wanted and word == wanted[0] and words[at : at + len(wanted)] == wanted
    ]


def locate(root: Path, definitions: Definitions, where: str, fragment: str) -> Definition:
    """The one place of the fragment in what `where` names: `Class.method`, or `end/of/path.py: Class.method`."""
    ending, _, name = where.rpartition(": ")
    named = [one for one in definitions.get(name, []) if f"/{one.path}".endswith(f"/{ending}" if ending else "")]
    if not named:
        raise AnchorError(f"nothing is named {where}: give the name that the code now has")
    # A set: two definitions may hold the same place, as a function in a function of its own name.
    found = sorted(
        {
            Definition(one.path, one.start + start, one.start + end)
            for one in named
            for start, end in find_code((root / one.path).read_text()[one.start : one.end], fragment)
        }
    )
    if len(found) == 1:
        return found[0]
    if not found:
        paths = ", ".join(sorted({one.path for one in named}))
        raise AnchorError(f"{name} ({paths}) does not hold {fragment!r}: quote what the code now says")
    if len({one.path for one in found}) > 1:
        paths = ", ".join(sorted({one.path for one in found}))
        raise AnchorError(f"{fragment!r} is in more than one {name} ({paths}): write 'end/of/path.py: {name}'")
    raise AnchorError(f"{found[0].path}: {name} holds {fragment!r} {len(found)} times: quote more of it")


def replace_code(text: str, place: Definition, new: str) -> str:
    """The text with the new code in this place. Lines after its first are indented as the line where it starts.

    >>> replace_code("if a:\\n  b()\\n", Definition("", 8, 11), "c()\\nd()")
    'if a:\\n  c()\\n  d()\\n'
    """
    line = text[text.rfind("\n", 0, place.start) + 1 :]
    indent = line[: len(line) - len(line.lstrip(" "))]
    return text[: place.start] + new.replace("\n", "\n" + indent) + text[place.end :]
