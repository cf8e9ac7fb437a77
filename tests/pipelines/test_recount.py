"""A manifest that stands beside what its files give: any entry that only one of them has is told."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from support.manifests import MANIFESTS

from tokcore.errors import LedgerError
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.shard_files import name_shards
from tokcore_pipelines.build.stage import Made
from tokcore_pipelines.check import recount as recounting
from tokcore_pipelines.check.recount import recount
from tokcore_schemas.refs import ShardRef, StoredFile


def change_files(files, change):
    """The files after a change, and what is said of it."""
    first, second, last = files[0], files[1], files[-1]
    larger = dataclasses.replace(second[0], size_bytes=11), second[1]
    return {
        "none": (files, []),
        "first": (files[1:], [f"files[{first[0].path}]"]),
        "last": (files[:-1], [f"files[{last[0].path}]"]),
        "one more": ([*files, last], [f"files[{last[0].path}]"]),
        "larger": ([first, larger, *files[2:]], [f"files[{second[0].path}].size_bytes = 10, its files give 11"]),
        "order": ([second, first, *files[2:]], ["files: not in their order"]),
    }[change]


@pytest.mark.parametrize("change", ["none", "first", "last", "one more", "larger", "order"])
def test_every_entry_is_compared(monkeypatch, change):
    """Entries at the end, too, where one list is a beginning of the other; of equal ones nothing is said."""
    (one,) = MANIFESTS["counts"].files
    entries = (*(dataclasses.replace(one, path=f"{lang}.parquet") for lang in ("am", "de", "en", "sw")),)
    made = dataclasses.replace(MANIFESTS["counts"], files=entries)
    files = [
        (StoredFile(one.path, "", one.size_bytes, one.sha256, one.content_sha256), one.about) for one in made.files
    ]
    given, expected = change_files(files, change)
    work = SimpleNamespace(recount=lambda *_: Made(given, made.totals, made.languages), as_said=None)
    monkeypatch.setitem(recounting.WORK, "counts", work)
    said = [*recount(None, made, ())]
    assert len(said) == len(expected)
    for line, begins in zip(said, expected, strict=True):
        assert line.startswith(f"counts/manifest.json: {begins}")


def test_shards_stand_in_the_order_of_their_work_items():
    """Else a manifest could name one twice, under numbers that begin again."""
    made = MANIFESTS["shards"]
    shards = [
        ShardRef(ShardFacts(f"train-{item:05d}-00000", item, "en", "train", 4, 100, 399), "", ()) for item in (0, 2, 1)
    ]
    assert len([*name_shards(made, shards[:2], lambda _: "")]) == 2
    with pytest.raises(LedgerError, match="train-00001-00000: of work item 1, comes after those of work item 2"):
        [*name_shards(made, shards, lambda _: "")]
