"""`group = "field"`: all records of a group are on one side of the validation split, whatever file they are in."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import build_file, jsonl, run, texts, write

import tokcore
from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.work import decode_item
from tokcore_pipelines.work.read_plan import read_plan
from tokcore_schemas.config import parse_config
from tokcore_schemas.document import compute_group_key, is_selected
from tokcore_schemas.shard_entries import list_item_shards
from tokcore_schemas.stage_table import PLAN, SHARDS

# Groups of several sizes, spread over files, formats and languages.
DOCUMENTS = [
    {"text": text, "l": lang, "id": f"{lang}-{i}", "about": {"book": i % 23}}
    for lang in ("en", "ru")
    for i, text in enumerate(texts(lang, 60))
]
GROUPS = {document["id"]: str(document["about"]["book"]) for document in DOCUMENTS}
SOURCE = '[[source]]\nlang_field = "l"\nid = "id"\ngroup = "{}"\nfiles = "{}"\n'
SETTINGS = '[learn]\nvocab_size = 300\n[shards]\nvalidation = 0.3\nformats = ["arrow"]\n'


def corpus(folder):
    """A third each in JSON lines, csv and Parquet; one record lacks its group."""
    lacking = {"text": "a text", "l": "en", "id": "none", "about": {}}
    write(folder / "a.jsonl", jsonl([*DOCUMENTS[::3], lacking]))
    file = io.StringIO()
    rows = csv.writer(file)
    rows.writerow(["text", "l", "id", "book"])
    rows.writerows([d["text"], d["l"], d["id"], d["about"]["book"]] for d in DOCUMENTS[1::3])
    write(folder / "b.csv", file.getvalue().encode())
    pq.write_table(pa.Table.from_pylist(DOCUMENTS[2::3]), folder / "c.parquet")
    return "".join(
        SOURCE.format(group, name)
        for group, name in (("about.book", "a.jsonl"), ("book", "b.csv"), ("about.book", "c.parquet"))
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    run(build_file(folder, corpus(folder), SETTINGS, build="max_rejected = 1"), folder / "out")
    return folder


def test_a_group_is_on_one_side_in_every_format(folder):
    found = {}
    for split in ("train", "validation"):
        shards = tokcore.open_shards(folder / "out", split)
        found[split] = [shards.document(i).id for i in range(len(shards))]
    assert sorted(found["train"] + found["validation"]) == sorted(GROUPS)
    sides = {split: {GROUPS[id] for id in ids} for split, ids in found.items()}
    assert not sides["train"] & sides["validation"]
    assert all(sides.values())
    for group in set(GROUPS.values()):
        is_validation = is_selected(compute_group_key(group), 0, "validation", Decimal("0.3"))
        assert (group in sides["validation"]) == is_validation


def test_a_record_without_group_is_rejected(folder):
    (line,) = (folder / "out" / "rejected" / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["reason"] == "missing_group"


def test_verify_asks_for_the_split_of_documents(folder, monkeypatch):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    right = decode_item.choose_splits

    def choose_others(*arguments):
        return ["train" if split == "validation" else "validation" for split in right(*arguments)]

    monkeypatch.setattr(decode_item, "choose_splits", choose_others)
    wrong = []
    output = str(folder / "out")
    plan, made = read_plan(output, require_manifest(output, PLAN, "build")), require_manifest(output, SHARDS)
    for number, shards in list_item_shards(made).items():
        items = (plan.assignment(plan.items[number]),)
        job = decode_item.DecodeJob(output, str(folder), items, (tuple(shards),), None, made.config)
        wrong += decode_item.decode_items(job)[1]
    assert any("not stored in the" in one for one in wrong)


@pytest.mark.parametrize(
    ("more", "shards", "message"),
    [
        ('lang = "en"\nfiles = "a.txt"\ngroup = "g"', "validation = 0.1", "names a field, and text files have none"),
        ('lang = "en"\nfiles = "a.csv"\ngroup = "g"', "", "none are: add, for example, shards.validation"),
        ('lang = "en"\nfiles = "a.csv"\ngroup = "g[*]"', "validation = 0.1", "several values"),
        ('lang = "en"\nfiles = "a.csv"\ngroup = "g"\nvalidation = true', "validation = 0.1", "exclude each other"),
    ],
)
def test_wrong_settings_are_named(more, shards, message):
    text = f'version = 1\n[build]\noutput = "out"\n[[source]]\n{more}\n[shards]\n{shards}\n'
    with pytest.raises(ConfigError, match="group") as caught:
        parse_config(text, "build.toml")
    assert message in str(caught.value)
