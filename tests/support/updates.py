"""Updates of small outputs, and what a fresh build over the same files gives."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.builds import jsonl, write

import tokcore
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.history.update_output import Update, Vanished
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.build_tables import TokenizerTable
from tokcore_schemas.commit_log import Commit, CommitTotals, sum_up_parts
from tokcore_schemas.config import load_config

SOURCES = """
[[source]]
lang = "en"
files = "en/*.jsonl"
[[source]]
lang_field = "lang"
files = "mixed/*"
"""
# Small ranges and shards, so that a few documents make several.
SMALL = """
[plan]
range_bytes = 1000
[learn]
vocab_size = 280
[shards]
target_tokens = 300
"""
SETTINGS = f"""{SMALL}
validation = 0.2
formats = ["arrow", "megatron", "nanogpt"]
"""


def write_file(folder: Path, name: str, texts: Sequence[str], lang: str = "") -> Path:
    """An input file: a document for each text, with a language of its own where one is given."""
    documents: list[dict[str, Any]] = [{"text": text, **({"lang": lang} if lang else {})} for text in texts]
    return write(folder / name, jsonl(documents))


def make_texts(name: str, num: int) -> list[str]:
    """Documents whose words repeat, and differ between names."""
    return [f"{name} tells the {i % 7}th story of the {name} and the fox, again and again" for i in range(num)]


def write_corpus(folder: Path) -> None:
    """Four files in two sources and three languages."""
    for name in ("a", "b"):
        write_file(folder, f"en/{name}.jsonl", make_texts(name, 12))
    for name, lang in (("c", "de"), ("d", "fr")):
        write_file(folder, f"mixed/{name}.jsonl", make_texts(name, 9), lang)


def update_here(path: Path, output: Path, vanished: Vanished = "keep") -> Commit | None:
    """Update in this process."""
    return Update(load_config(str(path)), RunOptions(here=True), str(output), vanished=vanished).run()


def build_fresh(path: Path, output: Path, tokenizer_of: Path) -> CommitTotals:
    """The totals of a build of all files as they are now, counted, and encoded with the tokenizer of another output."""
    config = load_config(str(path))
    table = TokenizerTable(from_=str(tokenizer_of))
    config = dataclasses.replace(config, tokenizer=table, special=(), counts_too=True)
    return sum_up_parts([Build(config, RunOptions(here=True), str(output)).run()])


def require_equal(updated: Path, fresh: Path, totals: CommitTotals) -> None:
    """Assert that an output holds what a fresh build does: tables row by row, documents, totals."""
    newest = read_log(str(updated)).commits[-1].totals
    assert dataclasses.replace(newest, shards=totals.shards) == totals
    for lang in ("en", "de", "fr"):
        try:
            expected = tokcore.open_counts(fresh, lang)
        except tokcore.ConfigError:
            continue
        assert tokcore.open_counts(updated, lang).equals(expected)
        for split in ("train", "validation"):
            mine, theirs = (_open_split(place, lang, split) for place in (updated, fresh))
            assert mine.equals(theirs)
    for split in ("train", "validation"):
        mine, theirs = (tokcore.open_shards(place, split) for place in (updated, fresh))
        assert sorted(ids.tolist() for ids in mine) == sorted(ids.tolist() for ids in theirs)


def _open_split(output: Path, lang: str, split: str) -> pa.Table:
    """Counts of a split; none where a split has no documents of the language."""
    with contextlib.suppress(tokcore.ConfigError):
        return tokcore.open_counts(output, lang, split=split)
    return tokcore.open_counts(output, lang).slice(0, 0)
