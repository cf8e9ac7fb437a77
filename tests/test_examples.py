"""Every public name has an example in its docstring; every example, and the README's Python, runs.

Examples run in a folder of their own, where `out/first` holds the build of `make_first_build`. The examples of a method
continue those of its class.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lints.import_graph import module_of
from support.builds import ROOT, build_file, jsonl, run

import tokcore
import tokcore_pipelines
import tokcore_schemas
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.opened_shards import Shards
from tokcore.tokenizer.encoded_batch import Padded
from tokcore.tokenizer.stream_decoder import StreamDecoder
from tokcore.tokenizer.token_spans import TokenSpans
from tokcore.tokenizer.vocabulary import Vocabulary
from tokcore.train.loader import Loader
from tokcore_schemas.config import load_config

# Reached through public functions, so just as public: what open_shards and Tokenizer give, and its base class.
RETURNED = (Loader, Padded, Shards, StreamDecoder, TokenSpans, Vocabulary)


def public_names() -> Iterator[tuple[str, Any]]:
    """What a user may call: the names that the packages export, and the methods and properties of their classes."""
    for package in (tokcore, tokcore_schemas, tokcore_pipelines):
        for name in package.__all__:
            if name != "__version__":
                yield from with_members(f"{package.__name__}.{name}", getattr(package, name))
    for cls in RETURNED:
        yield from with_members(cls.__name__, cls)


def with_members(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    yield name, thing
    if inspect.isclass(thing) and thing.__module__.split(".")[0] == "tokcore":
        for member, value in vars(thing).items():
            called = isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
            if called and not member.startswith("_"):
                yield f"{name}.{member}", value


PUBLIC = dict(public_names())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert doctest.DocTestParser().get_examples(text), f"{name}: no example in its docstring"


def test_public_names_are_found():
    assert {"tokcore.Tokenizer", "tokcore.Tokenizer.encode", "Vocabulary.vocab_size"} <= set(PUBLIC)
    assert {
        "tokcore.LearnError",
        "tokcore_schemas.Document",
        "tokcore_pipelines.CountPretokens",
        "Shards.document",
    } <= set(PUBLIC)


# -------------------------------------------------------------------------------------------------------------- running

MODULES = sorted(
    module_of(path.relative_to(ROOT).as_posix())
    for package in ("tokcore", "schemas", "pipelines")
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text()
)


def make_first_build(folder: Path) -> None:
    """The build of the examples: two documents, and a vocabulary of the bytes, five merges and <|endoftext|>."""
    documents = [{"id": "page-1", "text": "low lower lowest"}, {"id": "page-2", "text": "lower low"}]
    (folder / "pages.jsonl").write_bytes(jsonl(documents))
    source = '[[source]]\nlang = "en"\nfiles = "pages.jsonl"\nid = "id"'
    run(build_file(folder, source, "[learn]\nvocab_size = 262\nmin_count = 1"), folder / "out" / "first", workers=1)


def make_build_of_two_sources(folder: Path) -> None:
    """Two sources with names, and a document for validation."""
    sources = ""
    for name, words, rest in (
        ("wiki", "a cat", ""),
        ("web", "one cat, two cat", ""),
        ("held", "cats", "validation = true\n"),
    ):
        (folder / f"{name}.jsonl").write_bytes(jsonl([{"text": words}]))
        sources += f'[[source]]\nlang = "en"\nfiles = "{name}.jsonl"\nname = "{name}"\n{rest}'
    run(build_file(folder, sources, "[learn]\nvocab_size = 258\nmin_count = 1"), folder / "out" / "two-sources")


@pytest.fixture(scope="module")
def first_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    make_first_build(folder)
    make_build_of_two_sources(folder)
    return folder


@pytest.fixture
def folder(first_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of one test."""
    shutil.copytree(first_build / "out", tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.usefixtures("folder")
def test_every_example_runs(name):
    runner = doctest.DocTestRunner()
    names: dict[str, dict[str, Any]] = {}  # what the examples of each docstring have defined
    for test in sorted(doctest.DocTestFinder().find(importlib.import_module(name))):  # a class before its methods
        test.globs |= names.get(test.name.rpartition(".")[0], {})
        runner.run(test, clear_globs=False)
        names[test.name] = test.globs
    assert runner.tries
    assert not runner.failures


@pytest.mark.usefixtures("folder")
def test_the_python_of_the_readme_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert len(names["batch"]) == 2
    assert len(names["shards"]) == 2


def test_the_build_file_for_each_trainer_is_one(tmp_path):
    page = (ROOT / "docs" / "how-to" / "feed-a-trainer.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    named = []
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.toml"
        source = '[[source]]\nlang = "en"\nfiles = "x.jsonl"\n'
        path.write_text(f'version = 1\n[build]\noutput = "out"\n{source}{block}')
        named += load_config(str(path)).shards.formats
        assert len(block.splitlines()) <= 3
    assert sorted(named) == sorted(set(SHARD_FORMATS) - {"arrow", "parquet"})
