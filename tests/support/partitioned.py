"""Documents with metadata, and the partition of each: the oracle of shards.partition_by."""

from __future__ import annotations

import random
from collections import defaultdict
from urllib.parse import quote

import numpy as np
from support.builds import texts

NULL = "__HIVE_DEFAULT_PARTITION__"
TOPICS = ["code", "a/b c", "ü=%", None, "", NULL, "web"]
BOUNDS = (0.2, 0.5, 0.8)
METADATA = """
[metadata]
topic = "string"
quality = "float32"
year = "int32"
adult = "bool"
"""
SOURCES = '[[source]]\nlang_field = "l"\nid = "id"\nfiles = "a*.jsonl"\n'


def make_documents(name: str, num: int) -> list[dict]:
    chance = random.Random(name)
    return [
        {
            "id": f"{name}-{i}",
            "l": (lang := ("en", "ru")[i % 2]),
            "text": texts(lang, 1, chance.randrange(10**9))[0],
            "topic": chance.choice(TOPICS),
            "quality": chance.choice([None, *BOUNDS, 0.1, 0.7, chance.random()]),
            "year": chance.choice([None, 1999, -5]),
            "adult": chance.choice([None, True, False]),
        }
        for i in range(num)
    ]


def spell(key: str, value: object) -> str:
    """The oracle: one folder's name."""
    if value is None:
        return f"{key}={NULL}"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return f"{key}={quote(text, safe='')}" if text != NULL else f"{key}=%5F{NULL[1:]}"


def find_bin(quality: float | None) -> int | None:
    if quality is None:
        return None
    return sum(np.float32(quality) >= np.float32(bound) for bound in BOUNDS)


def find_folder(one: dict) -> str:
    """The oracle: the partition of a document."""
    values = {"lang": one["l"], "topic": one["topic"], "quality": find_bin(one["quality"])}
    return "/".join(spell(key, value) for key, value in values.items())


def group(documents: list[dict]) -> dict[str, set[str]]:
    groups = defaultdict(set)
    for one in documents:
        groups[find_folder(one)].add(one["id"])
    return dict(groups)


DOCUMENTS = make_documents("a", 120)
