"""Stages are listed, and asked for by name, in their table alone: all other code goes through its rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from lints.import_graph import find_python
from lints.offence import Offence
from support.source import nodes_of

from tokcore_schemas.stage_table import STAGES

NAMES = {*STAGES}
ROWS = {name.upper() for name in NAMES}
TABLES = {"schemas/stage_table.py", "pipelines/build/table.py"}
# How many such places are in a file for a reason.
ALLOWED: Mapping[str, int] = {
    # What is asked of stages that are more than shards made out of shards; of a new one, what is asked of all.
    "pipelines/look/diff.py": 1,
    "pipelines/check/verify_content.py": 1,
    # Options and examples of commands that do more than make a stage.
    "pipelines/commands/count.py": 1,
    # A template starts one of two jobs.
    "pipelines/commands/launch_template.py": 2,
    # What is made in a moment; stages whose configuration no build file says alone.
    "pipelines/build/existing_output.py": 3,
    # Keys of JSON and tables of the build file that are called as stages are.
    "pipelines/look/diff_commits.py": 1,
    "pipelines/look/report/compose.py": 1,
    "pipelines/look/report/corpus_sections.py": 1,
    "schemas/build_tables.py": 1,
    # Names of folders and files that somebody may give.
    "pipelines/commands/named_tokenizers.py": 1,
    "tokcore/shards/commits.py": 1,
    "tokcore/shards/conversion.py": 1,
    "tokcore/shards/opened_shards.py": 1,
}


def find_offences(root: Path, allowed: Mapping[str, int] = ALLOWED) -> Iterator[Offence]:
    """Comparisons with a stage's name, and lists of several stages, outside of the table."""
    for path in find_python(root):
        if path in TABLES:
            continue
        found = list(stages_asked_for((root / path).read_text()))
        known = allowed.get(path, 0)
        for what, line in found if len(found) > known else ():
            yield Offence(path, line, what, "Let a row of schemas/stage_table.py or build/table.py say it")
        if len(found) < known:
            yield Offence(
                path, 1, f"has {len(found)} of {known} such places", "Correct ALLOWED in tests/lints/stages.py"
            )


def stages_asked_for(text: str) -> Iterator[tuple[str, int]]:
    """(what, line) of each comparison with the name of a stage, and of each list of two or more of them.

    >>> [what for what, _ in stages_asked_for("made.stage == 'mixed'; (SHARDS, MIXED.name); made['mixed']")]
    ["compares with 'mixed'", 'lists SHARDS, MIXED.name']
    """
    for node in nodes_of(text):
        if isinstance(node, ast.Compare):
            looks_up = isinstance(node.ops[0], ast.In | ast.NotIn)  # whether a stage that is known is there
            sides = [node.left, *node.comparators]
            displayed = [one for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set) for one in side.elts]
            for place in (*sides, *(displayed if len([*filter(_is_stage, displayed)]) == 1 else ())):
                if _is_stage(place) and (isinstance(place, ast.Constant) or not looks_up):
                    yield f"compares with {ast.unparse(place)}", node.lineno
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant) and node.value.value in NAMES:
            yield f"compares with {node.value.value!r}", node.value.lineno
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            elements = node.keys if isinstance(node, ast.Dict) else node.elts
            named = [element for element in elements if element is not None and _is_stage(element)]
            if len(named) > 1:
                yield f"lists {', '.join(map(ast.unparse, named))}", node.lineno


def _is_stage(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in ("name", "command"):
        node = node.value
    if isinstance(node, ast.Constant):
        return node.value in NAMES
    return isinstance(node, ast.Name) and node.id in ROWS
