"""Models stand behind a door: no code but a model's own file and the table of models asks which model it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokcore.models import DEFAULT_MODEL, KINDS, MODELS

ROOT = Path(__file__).parent.parent
PACKAGES = ("tokcore", "schemas", "pipelines")

MODEL_ROOM = ROOT / "tokcore" / "models"
MODEL_CLASSES = {"BpeModel", "LearnedModel", "MergesModel", "RanksModel", "ByteModel", "Bpe", "Byte"}


def modules_outside(room: Path) -> list[Path]:
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")) if room not in path.parents]


def strings_compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, string) of all that a value is compared or matched with, looked up by, or declared to be one of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            asked: list[ast.AST] = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        elif isinstance(node, ast.Dict):
            asked = [key for key in node.keys if key is not None and _holds_code(node)]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
            asked = [node.slice]
        else:
            continue
        for one in asked:
            for part in ast.walk(one):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def _holds_code(table: ast.Dict) -> bool:
    """Whether a dict is a table of functions or classes, one for each string: a comparison by another name."""
    return bool(table.values) and all(
        isinstance(value, ast.Lambda | ast.Name | ast.Attribute) for value in table.values
    )


def classes_asked_for(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of classes in isinstance, issubclass and class patterns."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            asked = node.args[1:] if node.func.id in ("isinstance", "issubclass") else []
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        for one in asked:
            for part in ast.walk(one):
                if isinstance(part, ast.Name | ast.Attribute):
                    yield node.lineno, part.id if isinstance(part, ast.Name) else part.attr


@pytest.mark.parametrize("path", modules_outside(MODEL_ROOM), ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_asks_which_model_it_is(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {*MODELS, *KINDS}
    assert [found for found in strings_compared(tree) if found[1] in names] == []
    assert [found for found in classes_asked_for(tree) if found[1] in MODEL_CLASSES] == []


@pytest.mark.parametrize(
    "code",
    [
        'if model == "bpe": pass',
        'if "byte" != spec.model.kind: pass',
        'if kind in ("learned", "ranks"): pass',
        'match kind:\n    case "merges": pass',
        'run = {"bpe": learn_bpe, "byte": lambda: None}',
        'model: Literal["bpe", "byte"]',
        "if isinstance(model, RanksModel): pass",
        "if isinstance(model, (int, bpe.LearnedModel)): pass",
        "match model:\n    case ByteModel(): pass",
    ],
)
def test_asking_which_model_it_is_would_be_found(code):
    tree = ast.parse(code)
    names = {*MODELS, *KINDS}
    assert [found for found in strings_compared(tree) if found[1] in names] or [
        found for found in classes_asked_for(tree) if found[1] in MODEL_CLASSES
    ]


def test_every_class_of_models_is_known_here():
    files = [ast.parse(path.read_text()) for path in MODEL_ROOM.glob("*.py") if path.name not in ("model.py",)]
    classes = {node.name for tree in files for node in tree.body if isinstance(node, ast.ClassDef)}
    models = {name for name in classes if name.endswith("Model")} | {type(one).__name__ for one in MODELS.values()}
    assert models == MODEL_CLASSES


def test_the_table_is_where_models_are_named():
    assert list(MODELS) == ["bpe", "byte"]
    assert DEFAULT_MODEL == "bpe"
    assert len(KINDS) == sum(len(model.kinds) for model in MODELS.values())  # no kind is read by two models
    for model in MODELS.values():
        assert model.default_vocab_size(1) >= 257
