"""Splits of a folder are those that the datasets library finds, by its own globs."""

from __future__ import annotations

import re

import pytest
from fsspec.utils import glob_translate
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from tokcore_schemas.splits import KEYWORDS, find_split, find_splits

# huggingface/datasets, data_files.py, for fsspec from 2023.12 on.
SEPARATORS = "-._ 0-9"
OF_FILES = ["**/{keyword}[{sep}]*", "**/*[{sep}]{keyword}[{sep}]*"]
OF_FOLDERS = [
    "**/{keyword}/**",
    "**/{keyword}[{sep}]*/**",
    "**/*[{sep}]{keyword}/**",
    "**/*[{sep}]{keyword}[{sep}]*/**",
]
SHARDED = "data/{split}-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*"


def by_globs(names):
    """A slow implementation by the library's own globs."""
    shards = [name for name in names if re.fullmatch(glob_translate(SHARDED.format(split="*")), name)]
    if shards:
        found = sorted({re.search(r"data/(.*)-\d{5}-of", name)[1] for name in shards})
        return {split: matching(SHARDED.format(split=split), shards) for split in found}
    for rule in (OF_FOLDERS, OF_FILES):
        splits = {
            split: sorted(
                {
                    name
                    for keyword in words
                    for pattern in rule
                    for name in matching(pattern.format(keyword=keyword, sep=SEPARATORS), names)
                }
            )
            for split, words in KEYWORDS.items()
        }
        if any(splits.values()):
            return {split: files for split, files in splits.items() if files}
    return {"train": sorted(names)} if names else {}


def matching(pattern, names):
    # A store lists names below a folder: "**/x" is x, too.
    return sorted(name for name in names if re.fullmatch(glob_translate(f"/{pattern}"), f"/{name}"))


WORD = st.sampled_from(["train", "dev", "val", "test", "training", "en", "data", "trained", "part", "x"])
GLUE = st.sampled_from(["-", "_", ".", " ", "7", ""])
PART = st.lists(st.tuples(WORD, GLUE), min_size=1, max_size=3).map(lambda pairs: "".join(map("".join, pairs)))
NAME = st.tuples(st.lists(PART, max_size=2), PART).map(lambda one: "/".join([*one[0], f"{one[1]}.parquet"]))
SHARD = st.tuples(st.sampled_from(["data/", ""]), WORD, st.integers(0, 3)).map(
    lambda one: f"{one[0]}{one[1]}-{one[2]:05d}-of-00004.parquet"
)


@given(st.lists(NAME | SHARD, max_size=5, unique=True))
@examples(500)
def test_the_rules_are_the_globs(names):
    assert find_splits(names) == by_globs(names)


@pytest.mark.parametrize(
    ("names", "folder", "expected"),
    [
        (
            [
                "data/train-00000-of-00002.parquet",
                "data/train-00001-of-00002.parquet",
                "data/test-00000-of-00001.parquet",
            ],
            "",
            ["test", "train"],
        ),
        (["train_sft-00000-of-00001.parquet", "test_gen-00000-of-00001.parquet"], "data", ["test_gen", "train_sft"]),
        (["en/train-00000-of-00001.parquet", "en/validation-00000-of-00001.parquet"], "x", ["train", "validation"]),
        (["train/a.jsonl.gz", "val/a.jsonl.gz", "evaluation/a.jsonl.gz"], "", ["train", "validation", "test"]),
        (["c4-train.00000-of-01024.json.gz", "c4-validation.00000-of-00008.json.gz"], "", ["train", "validation"]),
        (["train/data-00000-of-00001.arrow", "test/data-00000-of-00001.arrow"], "", ["train", "test"]),
        (["a.parquet", "b.parquet"], "", ["train"]),
        (["constraint.parquet"], "", ["train"]),
        ([], "", []),
    ],
)
def test_folders_as_they_are(names, folder, expected):
    splits = find_splits(names, folder)
    assert list(splits) == expected
    assert sorted(name for files in splits.values() for name in files) == sorted(names)


def test_other_names_of_a_split():
    splits = {"train": ["a"], "validation": ["b"]}
    assert [find_split(name, splits) for name in ("train", "training", "dev", "valid", "test", "x")] == [
        "train",
        "train",
        "validation",
        "validation",
        None,
        None,
    ]
    assert find_split("dev", {"dev": ["a"], "validation": ["b"]}) == "dev"
