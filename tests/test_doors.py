"""What the name of a format or model means is known in one place; adding one touches a file, its test and a line."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from support.builds import ROOT

from tokcore.models import DEFAULT_MODEL, KINDS, MODELS
from tokcore.models.sentencepiece.converted import PieceBpeModel, WordUnigramModel
from tokcore.models.sentencepiece.scored_pieces import SentencepieceBpeModel, UnigramModel
from tokcore.models.symbol_bpe import SymbolBpeModel
from tokcore.shards.format_table import SHARD_FORMATS, get_folder

PACKAGES = ("tokcore", "schemas", "pipelines")


def compared_names(source: str, names: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(line, name) of each comparison with one of these names, or with the end of its files.

    Comparisons: ==, !=, in, not in; match cases; startswith, endswith, removesuffix and removeprefix; subscripts.
    """
    wanted = set(names)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            places: list[ast.AST] = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            places = [node.value]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            places = [node.slice] if ast.unparse(node.value) != "Literal" else []  # that is a type
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            places = list(node.args) if node.func.attr in _TESTS else []
        else:
            continue
        for place in places:
            for inner in ast.walk(place):
                if isinstance(inner, ast.Constant) and inner.value in wanted:
                    yield inner.lineno, str(inner.value)


_TESTS = ("startswith", "endswith", "removesuffix", "removeprefix", "get")


def code_that_compares(names: Iterable[str], except_in: Iterable[str]) -> list[str]:
    """Places outside of these files that compare with one of the names."""
    names, allowed = list(names), set(except_in)
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = str(path.relative_to(ROOT))
            if relative not in allowed:
                found += [f"{relative}:{line}: {name!r}" for line, name in compared_names(path.read_text(), names)]
    return found


def test_comparisons_are_found():
    source = """
a == "arrow"; "arrow" in b; b["arrow"]; c.endswith(("x", ".bin")); {"arrow": 1}
match d:
    case "arrow": pass
"""
    lines = [line for line, _ in compared_names(source, ["arrow", ".bin"])]
    assert sorted(lines) == [2, 2, 2, 2, 4]


# "arrow" is also the name of an input format, which tokcore_schemas.input_format and the reader of [[source]] know.
_INPUT_FORMATS = (
    "pipelines/reading/as_written.py",
    "pipelines/reading/input_range.py",
    "schemas/config_checks.py",
    "schemas/input_format.py",
)


def test_no_code_knows_a_shard_format_but_its_file_and_the_table():
    own = {Path(str(type(one).__module__).replace(".", "/") + ".py") for one in SHARD_FORMATS.values()}
    assert len(own) == len(SHARD_FORMATS)
    names = {*SHARD_FORMATS, *(suffix for one in SHARD_FORMATS.values() for suffix in one.suffixes), ".idx"}
    names -= {"parquet", ".parquet"}  # inputs and tables of counts are Parquet, too
    allowed = ["tokcore/shards/format_table.py", *map(str, own), *_INPUT_FORMATS]
    assert code_that_compares(names, allowed) == []


def test_no_code_imports_a_shard_format_but_the_table():
    own = {type(one).__module__ for one in SHARD_FORMATS.values()}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path == ROOT / "tokcore" / "shards" / "format_table.py":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    assert node.module not in own, f"{path}:{node.lineno}"


def test_every_shard_format_is_described():
    text = (ROOT / "docs" / "reference" / "files.md").read_text()
    for one in SHARD_FORMATS.values():
        place = f"    {get_folder(one, 'SPLIT')}/[LANG/]SPLIT-ITEM-SHARD"
        (line,) = (line for line in text.splitlines() if line.startswith(place))
        assert all(suffix.rpartition(".")[2] in line for suffix in one.suffixes)
        (heading,) = (line for line in text.splitlines() if line.lower().startswith(f"### {one.name}: "))
        assert "SPLIT-ITEM-SHARD" in heading


# ------------------------------------------------------------------------------------------------------------- models

MODEL_FILES = sorted((ROOT / "tokcore" / "models").rglob("*.py"))
MODEL_CLASSES = {"BpeModel", "LearnedModel", "MergesModel", "RanksModel", "ByteModel", "WordpieceModel", "Bpe", "Byte"}
MODEL_CLASSES |= {"PieceModel", "SentencepieceBpeModel", "UnigramModel", "ByteUnigramModel", "Wordpiece"}
MODEL_CLASSES |= {"Pathpiece", "PathpieceModel"}
MODEL_CLASSES |= {"ConvertedModel", "PieceBpeModel", "WordUnigramModel", "SentencepieceBpe", "Unigram"}
MODEL_CLASSES |= {"SymbolBpeModel", "Character", "CharacterModel", "Codepoint", "CodepointModel", "Word", "WordModel"}


def test_no_code_knows_a_model_but_its_file_and_the_table():
    names = {*MODELS, *KINDS} - {"merges"}  # which is a field of tokenizer.json, too
    allowed = [str(path.relative_to(ROOT)) for path in MODEL_FILES]
    assert code_that_compares(names, allowed) == []


def classes_asked_for(source: str) -> Iterator[tuple[int, str]]:
    """(line, name) of the classes in isinstance, issubclass and class patterns."""
    for node in ast.walk(ast.parse(source)):
        places: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            places = list(node.args[1:]) if node.func.id in ("isinstance", "issubclass") else []
        elif isinstance(node, ast.MatchClass):
            places = [node.cls]
        for place in places:
            for inner in ast.walk(place):
                if isinstance(inner, ast.Name | ast.Attribute):
                    yield node.lineno, inner.id if isinstance(inner, ast.Name) else inner.attr


def test_no_code_asks_for_the_class_of_a_model():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path not in MODEL_FILES:
                found = [one for one in classes_asked_for(path.read_text()) if one[1] in MODEL_CLASSES]
                assert found == [], path


@pytest.mark.parametrize(
    "code",
    [
        "if isinstance(model, RanksModel): pass",
        "if isinstance(model, (int, bpe.LearnedModel)): pass",
        "if issubclass(type(model), BpeModel): pass",
        "match model:\n    case ByteModel(): pass",
    ],
)
def test_classes_asked_for_are_found(code):
    assert {name for _, name in classes_asked_for(code)} & MODEL_CLASSES


def test_every_class_of_a_model_is_known_here():
    files = [ast.parse(path.read_text()) for path in MODEL_FILES if path.name != "model.py"]
    classes = {node.name for tree in files for node in tree.body if isinstance(node, ast.ClassDef)}
    models = {name for name in classes if name.endswith("Model")} | {type(one).__name__ for one in MODELS.values()}
    assert models == MODEL_CLASSES


def test_the_table_of_models():
    pieces = [UnigramModel.kind, SentencepieceBpeModel.kind]
    learned_as = ["bpe", "byte", "wordpiece", "wordpiece-pmi", *pieces, "character", "word", "codepoint", "pathpiece"]
    assert list(MODELS) == learned_as
    assert DEFAULT_MODEL == "bpe"
    learned = [kind for model in MODELS.values() for kind in model.kinds]
    imported = [WordUnigramModel.kind, PieceBpeModel.kind, SymbolBpeModel.kind]
    assert set(KINDS) == {*learned, *imported}
    assert [model.default_vocab_size(1) for model in MODELS.values()][:2] == [32_768, 257]
