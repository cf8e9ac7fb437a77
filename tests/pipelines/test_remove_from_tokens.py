"""`tokcore remove` where the source is gone: documents are decoded from tokens, or the removal is refused by name."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil

import pytest
from support.builds import run, tokcore, tree
from support.removals import (
    build_corpus,
    list_ids,
    remove_here,
    require_without,
    write_corpus,
    write_documents,
)
from support.updates import update_here

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build.read_log import read_log, read_part
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.reading.streams import Meter
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.work.read_plan import read_plan
from tokcore_pipelines.work.read_tokens import read_tokens
from tokcore_schemas.commit_log import OWN
from tokcore_schemas.stage_table import PLAN

GONE = {"a-3", "a-4", "d-0"}
SOURCES = ("en/a.jsonl", "en/b.jsonl", "mixed/c.jsonl", "mixed/d.jsonl")
# The source names a group, a normalizer changes text, ids are drawn.
GROUP = ('id = "id"', 'id = "id"\ngroup = "id"')
NORMALIZER = ("[learn]", '[normalize]\nsteps = ["nfc"]\n[learn]')


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    build_corpus(folder)
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    copy = tmp_path / "parts" / "copy"  # what is below a folder of that name need not be a part
    shutil.copytree(built, copy)
    return copy


def take_away(folder, *names) -> None:
    for name in names:
        (folder / "away" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(folder / "away" / name)


def bring_back(folder) -> None:
    for path in (folder / "away").rglob("*.jsonl"):
        path.rename(folder / path.relative_to(folder / "away"))


def require_sound(folder, num_decoded=None) -> None:
    """Verify; num_decoded: how many documents are compared with their sources, which all have to be there."""
    report = verify(str(folder / "out"), decode=0 if num_decoded is None else None, base=str(folder))
    assert report.problems == ()
    if num_decoded is not None:
        assert report.num_decoded == num_decoded


def require_same(folder, gone) -> None:
    require_without(folder, gone)
    assert list_ids(folder / "out").isdisjoint(gone)


@pytest.mark.parametrize("lost", [("en/a.jsonl",), ("en/b.jsonl", "mixed/d.jsonl"), SOURCES])
def test_tokens_stand_for_a_source_that_is_gone(corpus, lost):
    take_away(corpus, *lost)
    commit = remove_here(corpus, GONE).commit
    assert commit.why.removed == 3
    require_sound(corpus)
    decoded = {"en/a.jsonl": 10, "mixed/d.jsonl": 8}  # documents left, in the files that have removed ones
    decoded = {name: num for name, num in decoded.items() if name in lost}
    records = read_part(str(corpus / "out"), commit.added[0]).totals.records
    # Of what is read from tokens, rejects are not found again.
    assert sum(records.rejected.values()) == 4 - len(decoded)
    assert records.read == records.documents + records.removed + sum(records.rejected.values())
    assert verify_removed(str(corpus / "out"), ["a-3"]).problems[0].startswith(".: commit 0")
    assert expire(str(corpus / "out"), keep=1).files
    assert verify_removed(str(corpus / "out"), [*GONE]).problems == ()
    bring_back(corpus)
    require_sound(corpus, 42 - 3 - sum(decoded.values()))
    require_same(corpus, GONE)
    assert update_here(corpus / "build.toml", corpus / "out") is None  # what is back is what it was


def test_a_range_gets_its_own_documents(tmp_path):
    path = write_corpus(tmp_path)
    path.write_text(path.read_text().replace("range_bytes = 1000", "range_bytes = 400"))
    output = str(tmp_path / "out")
    run(path, output)
    plan = read_plan(output, read_manifest(output, PLAN))
    ranges = [r for item in plan.items for r in plan.assignment(item).ranges if r.uri == "en/a.jsonl"]
    assert len(ranges) == 3
    found = []
    for r in ranges:
        asked = dataclasses.replace(r, settings=dataclasses.replace(r.settings, decoded_from=OWN))
        found += [id for batch in read_tokens(output, asked, Meter()) for id in batch.ids]
    assert found == [f"a-{i}" for i in range(12)]


def test_a_changed_source_is_not_taken_for_the_old_one(corpus):
    write_documents(corpus, "en/a.jsonl", 5, word="other")
    remove_here(corpus, {"a-3"})
    assert {f"a-{i}" for i in range(12)} - {"a-3"} <= list_ids(corpus / "out")
    commit = update_here(corpus / "build.toml", corpus / "out")
    assert commit.why.changed == 1
    require_sound(corpus, 42 - 12 + 5 - 1)
    require_same(corpus, {"a-3"})


def test_what_was_decoded_is_decoded_again(corpus):
    take_away(corpus, "en/b.jsonl", "mixed/c.jsonl")
    remove_here(corpus, {"b-3", "c-3"})
    expire(str(corpus / "out"), keep=1)
    remove_here(corpus, {"b-2", "c-1"})
    expire(str(corpus / "out"), keep=1)
    require_sound(corpus)
    for name in ("f", "g"):
        write_documents(corpus, f"en/{name}.jsonl", 4)
        update_here(corpus / "build.toml", corpus / "out", "keep")
    require_sound(corpus)
    bring_back(corpus)
    require_sound(corpus, 42 - 12 - 9 + 8)
    remove_here(corpus, {"d-0"})  # b and c are read from their sources, which are back
    require_sound(corpus, 42 - 5 + 8)
    require_same(corpus, {"b-3", "c-3", "b-2", "c-1", "d-0"})


@pytest.mark.parametrize(
    ("replaced", "named"), [(NORMALIZER, "a normalizer"), (GROUP, "groups, which decide about the split")]
)
def test_tokens_that_do_not_give_all_back_are_refused_by_name(tmp_path, replaced, named):
    path = write_corpus(tmp_path)
    path.write_text(path.read_text().replace(*replaced))
    run(path, tmp_path / "out")
    before = tree(tmp_path / "out")
    take_away(tmp_path, "en/a.jsonl")
    write_documents(tmp_path, "mixed/d.jsonl", 10, "fr")
    with pytest.raises(StageError, match=rf"en/a.jsonl, mixed/d.jsonl: gone, or not as when .* has {named}"):
        remove_here(tmp_path, GONE)
    assert tree(tmp_path / "out") == before


def test_other_settings_of_tokens(tmp_path):
    path = write_corpus(tmp_path)
    more = '[special]\n"<|end|>" = "document_end"\n"<|begin|>" = "document_begin"\n[encode]\nprepend = ["<|begin|>"]\n'
    path.write_text(path.read_text().replace("[learn]", f"{more}[learn]").replace('"arrow", ', ""))
    run(path, tmp_path / "out")
    take_away(tmp_path, "en/a.jsonl", "mixed/d.jsonl")
    remove_here(tmp_path, GONE)
    bring_back(tmp_path)
    require_sound(tmp_path, 42 - 12 - 9)
    require_same(tmp_path, GONE)


@pytest.mark.parametrize("point", ["remove.built", "encode.item", "count.item"])
def test_a_killed_one_goes_on_to_the_same_commit(corpus, point):
    take_away(corpus, "en/a.jsonl")
    shutil.copytree(corpus / "out", corpus / "undisturbed")
    (corpus / "ids").write_text("\n".join(sorted(GONE)))
    command = ("remove", corpus / "out", "--ids", corpus / "ids", "--base", corpus)
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    done = tokcore(*command)
    assert done.returncode == 0, done.stderr
    assert "decoded from tokens" in done.stderr
    other = tokcore("remove", corpus / "undisturbed", *command[2:], "--json")
    assert json.loads(other.stdout)["commit"]["number"] == 1
    assert tree(corpus / "out") == tree(corpus / "undisturbed")


def test_what_cannot_be_made_again_is_named(corpus):
    take_away(corpus, "en/a.jsonl")
    remove_here(corpus, GONE)
    (part,) = read_log(str(corpus / "out")).parts()
    place = corpus / "out" / part.path
    shard = next((place / "shards" / "arrow").rglob("*.arrow"))
    with pytest.raises(ConfigError, match=r"en/a.jsonl: decoded from tokens of an earlier part"):
        rebuild(str(place), shard.stem, str(corpus))
    shard.write_bytes(b"")
    next((place / "counts").glob("*.parquet")).unlink()
    left = repair(str(corpus / "out"), str(corpus)).left
    assert len(left) == 2
    assert all("cannot be made again: en/a.jsonl: decoded from tokens" in said for said in left)
