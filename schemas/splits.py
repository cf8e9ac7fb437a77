"""Which files of a folder belong to a split, by the names that Hugging Face's datasets library goes by.

The first rule that finds a split decides for the whole folder, as in that library: names like
`data/train-00000-of-00005.parquet`, where any word is a split; else folders with the name of a split; else files with
one; else every file is of the split train.
Source: huggingface/datasets, data_files.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# Split -> what its folders and files may be called.
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}

_SHARDED = re.compile(r"data/(\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}[^/]*\.[^/]*")
_SEPARATOR = "[-._ 0-9]"
_FOLDERS = {
    split: re.compile(rf"(?:.*{_SEPARATOR})?(?:{'|'.join(words)})(?:{_SEPARATOR}.*)?")
    for split, words in KEYWORDS.items()
}
_FILES = {
    split: re.compile(rf"(?:.*{_SEPARATOR})?(?:{'|'.join(words)}){_SEPARATOR}.*") for split, words in KEYWORDS.items()
}


def find_splits(names: Iterable[str], folder: str = "") -> dict[str, list[str]]:
    """Split -> its files, in order. names: paths of files below a folder; folder: the folder's own name.

    >>> find_splits(["train/a.jsonl", "dev/a.jsonl"])
    {'train': ['train/a.jsonl'], 'validation': ['dev/a.jsonl']}
    >>> find_splits(["train_sft-00000-of-00001.parquet"], "data")
    {'train_sft': ['train_sft-00000-of-00001.parquet']}
    """
    names = sorted(names)
    splits: dict[str, list[str]] = {}
    for name in names:
        if found := _SHARDED.fullmatch(f"data/{name}" if folder == "data" else name):
            splits.setdefault(found[1], []).append(name)
    if splits:
        return splits
    by_folder = {
        split: [name for name in names if any(map(regex.fullmatch, name.split("/")[:-1]))]
        for split, regex in _FOLDERS.items()
    }
    by_name = {
        split: [name for name in names if regex.fullmatch(name.rpartition("/")[2])] for split, regex in _FILES.items()
    }
    for rule in (by_folder, by_name):
        if any(rule.values()):
            return {split: files for split, files in rule.items() if files}
    return {"train": names} if names else {}


def find_split(name: str, splits: Mapping[str, list[str]]) -> str | None:
    """The split that a name means: `dev` is validation, unless there is a split called dev. None if there is none."""
    if name in splits:
        return name
    return next((split for split, words in KEYWORDS.items() if name in words and split in splits), None)
