"""Every seeded defect still applies, and the tests that must catch it are there. `make mutants` plays them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lints.offence import Offence
from mutants.anchors import AnchorError, Definition, Definitions, find_definitions, locate, replace_code
from mutants.defect import Defect
from mutants.defects import DEFECTS
from support.source import parse

FOLDER = "tests/mutants/defects"


def find_offences(root: Path, defects: Sequence[Defect] = DEFECTS) -> Iterator[Offence]:
    """All defects that do not apply once, change nothing, are no Python, share a name, or have no tests."""
    definitions = find_definitions(root)
    written = {path.relative_to(root).as_posix(): path.read_text() for path in sorted((root / FOLDER).glob("*.py"))}
    named = Counter(defect.name for defect in defects)
    for defect in defects:
        problems = [*_find_in_code(root, definitions, defect), *_find_in_tests(root, defect)]
        if named[defect.name] > 1:
            problems.append(("shares its name", "Give it a name of its own"))
        for what, way_out in problems:
            yield Offence(*_place_of(defect, written), f"the defect {defect.name} {what}", way_out)


def _find_in_code(root: Path, definitions: Definitions, defect: Defect) -> Iterator[tuple[str, str]]:
    try:
        place = locate(root, definitions, defect.where, defect.old)
    except AnchorError as error:
        what, _, way_out = str(error).rpartition(": ")
        yield f"does not apply: {what}", f"{way_out[0].upper()}{way_out[1:]}"
        return
    text = (root / place.path).read_text()
    changed = replace_code(text, place, defect.new)
    if changed.split() == text.split():
        yield "changes nothing", "Write another mistake"
    if place.path.endswith(".py"):
        try:
            ast.parse(_around(text, changed, place))
        except SyntaxError as error:
            yield f"is not Python: {error.msg}", "Quote whole statements, or leave a pass"


def _around(text: str, changed: str, place: Definition) -> str:
    """The changed statement of the file's top level: to parse all of the file would take ten times as long."""
    line = text.count("\n", 0, place.start) + 1
    node = max((node for node in parse(text).body if _first_line(node) <= line), key=_first_line)
    last = (node.end_lineno or line) + changed.count("\n") - text.count("\n")
    return "\n".join(changed.split("\n")[_first_line(node) - 1 : last])


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])


def _find_in_tests(root: Path, defect: Defect) -> Iterator[tuple[str, str]]:
    if not defect.tests:
        yield "names no test", "Name one that fails with it"
    for test in defect.tests:
        file, _, name = test.partition("::")
        path = root / file
        tests = re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) if path.is_file() else []
        if not tests or not path.name.startswith("test_") or (name and name not in tests):
            yield f"names {test}, which is no test", "Name the test that notices it now"


def _place_of(defect: Defect, written: dict[str, str]) -> tuple[str, int]:
    """The file and line of the defect."""
    for path, text in written.items():
        if (at := text.find(f'"{defect.name}",\n')) >= 0:
            return path, text.count("\n", 0, at) + 1
    return FOLDER, 1
