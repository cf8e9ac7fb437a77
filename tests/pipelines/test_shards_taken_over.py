"""A change of an output makes the shards and rows again that it changes, and gives all others a second name."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import partitioned
from support.builds import build_file, jsonl, run, write
from support.removals import SOURCES, remove_here, write_documents
from support.updates import build_fresh, update_here
from support.whole_outputs import require_fresh

import tokcore as package
from tokcore.formats.provenance import Provenance, get_provenance_path
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.diff_commits import diff_commits
from tokcore_pipelines.store.stored_shards import read_batches
from tokcore_schemas import pack_groups
from tokcore_schemas.document import compute_document_key
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.shuffle import compute_place
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS

# Shards of two or three documents, eight of which are a part of the shuffle.
SETTINGS = """
[plan]
range_bytes = 1500
[learn]
vocab_size = 280
[shards]
target_tokens = 100
validation = 0.1
formats = ["arrow", "nanogpt"]
"""
SHUFFLE = "[shuffle]\nseed = 3\n"
PACK = "[pack]\nlength = 64\n"
KINDS = {
    "together": SHUFFLE,
    "by-lang": 'by = "lang"\n' + SHUFFLE,
    "concatenated": PACK + 'strategy = "concatenate"\n',
    "packed": PACK,
    "both": SHUFFLE + PACK,
    "mixed": SHUFFLE + '[mixture]\nstrategy = "weights"\nweights = { en = 2.5, de = 0.5 }\nmax_epochs = 2\n',
    "all": SHUFFLE + '[mixture]\nstrategy = "temperature"\n' + PACK,
}


@pytest.fixture(scope="module", autouse=True)
def small_windows():
    """So that a few documents are several groups of rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_groups, "WINDOW_DOCUMENTS", 20)
        yield


@pytest.fixture(scope="module", params=["together"])
def built(request, tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    folder = tmp_path_factory.mktemp(request.param)
    for name in ("en/a", "en/b", "en/c"):
        write_documents(folder, f"{name}.jsonl", 40)
    for name, lang in (("mixed/d", "de"), ("mixed/e", "fr"), ("mixed/f", "fr")):
        write_documents(folder, f"{name}.jsonl", 30, lang)
    path = build_file(folder, SOURCES, SETTINGS + KINDS[request.param])
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def update(folder: Path, vanished="keep"):
    return update_here(folder / "build.toml", folder / "out", vanished)


def list_files(folder: Path, stage: str = "shards") -> dict[tuple[str, str], list[Path]]:
    """The files of shards, by their folder and split and kind."""
    found: dict[tuple[str, str], list[Path]] = {}
    for path in sorted((folder / stage).rglob("*")):
        if path.is_file() and path.name.startswith(("train-", "validation-")):
            key = (str(path.parent.relative_to(folder)), f"{path.name.partition('-')[0]}{path.suffix}")
            found.setdefault(key, []).append(path)
    return found


def count_parts(folder: Path, stage: str = "shards") -> int:
    """The parts of a shuffle, or groups of rows."""
    return 1 + max(int(path.name.split("-")[1]) for paths in list_files(folder, stage).values() for path in paths)


def require_taken_over(folder: Path, stage: str = "shards") -> tuple[int, int]:
    """Assert that the newest part shares all that is equal with the first one; (files shared, all files).

    Of shards, each stands for itself; of rows, all of a group.
    """
    (part,) = read_log(str(folder / "out")).parts()
    after = list_files(Path(locate_part(str(folder / "out"), part)), stage)
    before = list_files(folder / "out", stage)
    shared = num = 0
    for key, paths in after.items():
        old = [group_files(before.get(key, []), stage), group_files(paths, stage)]
        there, here = ({tuple(path.read_bytes() for path in own): own for own in groups} for groups in old)
        for data, own in here.items():
            num += len(own)
            inodes = [path.stat().st_ino for path in own]
            expected = [path.stat().st_ino for path in there[data]] if data in there else None
            assert [path.stat().st_nlink > 1 for path in own] == [expected is not None] * len(own), own
            if expected is not None:
                assert inodes == expected
                shared += len(own)
    return shared, num


def group_files(paths: list[Path], stage: str) -> list[list[Path]]:
    """The files that are taken over together."""
    if stage == "shards":
        return [[path] for path in paths]
    return [[*own] for _, own in itertools.groupby(paths, lambda path: path.name.split("-")[1])]


SHUFFLED = pytest.mark.parametrize("built", ["together", "by-lang"], indirect=True)


@SHUFFLED
def test_a_document_that_goes_changes_its_own_part_alone(corpus):
    num_parts = count_parts(corpus / "out")
    assert num_parts >= 4
    told = remove_here(corpus, {"b-7"}, dry_run=True).cost
    done = remove_here(corpus, {"b-7"})
    assert done.read_again == 1
    shared, num = require_taken_over(corpus)
    why = done.commit.why
    assert why.shards == told.shards_in_all == len([*(corpus / "out" / "shards").rglob("*.provenance")])
    assert why.shards_as_before / why.shards == shared / num  # all have as many files
    assert told.shards <= why.shards - why.shards_as_before <= told.shards_again
    assert num > shared >= num * (num_parts - 1) // num_parts - 10
    require_fresh(corpus, {"b-7"})


@SHUFFLED
def test_documents_that_come_change_few_shards(corpus):
    write_documents(corpus, "en/g.jsonl", 1)
    assert update(corpus).why.read_again == 0
    shared, num = require_taken_over(corpus)
    assert num > shared > num / 2
    require_fresh(corpus)


def test_a_document_behind_the_last_of_a_part(corpus):
    """It goes into the last shard, if that has room, though nothing before it changed."""
    ends: dict[int, bytes] = {}  # place of the last document of each part whose last shard has room
    num_parts = count_parts(corpus / "out")
    for shard in list_named_shards(find_manifest(str(corpus / "out"), SHARDS)):
        if (facts := shard.facts).split == "train":
            ends.pop(facts.item, None)
            if facts.tokens < 100:
                path = corpus / "out" / "shards" / get_provenance_path(facts.stem)
                ends[facts.item] = Provenance(str(path)).places[-1].tobytes()
    found = {}
    for i in range(10_000):
        place = compute_place(3, compute_document_key("en", f"z-{i}", b""), b"a text")
        part = place[0] * num_parts // 256
        if place > ends.get(part, b"\xff" * 16):
            found[part] = {"id": f"z-{i}", "text": "a text"}
    assert len(found) > 1
    write(corpus / "en" / "z.jsonl", jsonl([*found.values()]))
    assert update(corpus).why.new == 1
    shared, num = require_taken_over(corpus)
    assert num > shared > num / 2
    require_fresh(corpus)


def test_a_file_that_vanished_takes_its_documents_along(corpus):
    write_documents(corpus, "en/g.jsonl", 2)
    update(corpus)
    shutil.rmtree(corpus / "out")
    run(corpus / "build.toml", corpus / "out")
    (corpus / "en" / "g.jsonl").unlink()
    assert update(corpus, "remove").why.vanished == 1
    shared, num = require_taken_over(corpus)
    assert num > shared > num / 2
    require_fresh(corpus)


def test_a_new_version_of_a_file(corpus):
    path = corpus / "mixed" / "e.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join([*lines[:5], json.dumps({"id": "e-new", "lang": "fr", "text": "one more"}) + "\n", *lines[5:]])
    )
    assert update(corpus).why.changed == 1
    require_fresh(corpus)


def test_more_parts_and_fewer(corpus):
    before = count_parts(corpus / "out")
    write_documents(corpus, "en/g.jsonl", 300)
    update(corpus)
    (part,) = read_log(str(corpus / "out")).parts()
    assert count_parts(Path(locate_part(str(corpus / "out"), part))) > before
    require_fresh(corpus)
    (corpus / "en" / "g.jsonl").unlink()
    for name in ("en/a", "en/b"):
        write_documents(corpus, f"{name}.jsonl", 2)
    update(corpus, "remove")
    (part,) = read_log(str(corpus / "out")).parts()
    assert count_parts(Path(locate_part(str(corpus / "out"), part))) < before
    require_fresh(corpus)


@pytest.mark.parametrize("built", ["concatenated", "packed", "both"], indirect=True)
def test_rows_of_the_same_documents(corpus):
    groups = count_parts(corpus / "out", "packed")
    assert groups >= 4
    write_documents(corpus, "mixed/z.jsonl", 4, "fr")  # after all others
    update(corpus)
    shared, num = require_taken_over(corpus, "packed")
    if (corpus / "out" / "shards" / "provenance").is_dir():
        assert shared < num / 2
    else:
        assert shared >= num * (groups - 2) // groups
    require_fresh(corpus)
    remove_here(corpus, {"a-1"})  # near the beginning
    require_fresh(corpus, {"a-1"})


@pytest.mark.parametrize("built", ["together", "packed", "both", "all"], indirect=True)
@pytest.mark.parametrize("how", [{}, {"keep_weights": True}, {"in_place_rows": True}], ids=["plain", "weights", "rows"])
@pytest.mark.parametrize("named", [{"ids": ("a-1",)}, {"ids": ("f-29", "f-28")}, {"sources": ("b.jsonl",)}], ids=str)
def test_a_dry_run_counts_what_the_commit_counts(corpus, how, named):
    before = {stage.name: find_manifest(str(corpus / "out"), stage) for stage in (SHARDS, MIXED, PACKED)}
    if (how.get("in_place_rows") and before["packed"] is None) or (how.get("keep_weights") and before["mixed"] is None):
        return
    remove = Remove(str(corpus / "out"), base=str(corpus), options=RunOptions(here=True), **named, **how)
    told = dataclasses.replace(remove, dry_run=True).run()
    done = remove.run()
    assert (told.documents, told.parts, told.read_again) == (done.documents, 1, done.read_again)
    why, cost = done.commit.why, told.cost
    assert cost.shards_in_all == sum(one.totals.shards for one in before.values() if one is not None) >= why.shards
    assert 0 < why.shards - why.shards_as_before <= cost.shards_again <= cost.shards_in_all
    assert cost.rows <= cost.rows_again <= cost.all_rows
    assert cost.shards_again < cost.shards_in_all or named["ids"] == ("a-1",)


@pytest.mark.parametrize("built", ["all"], indirect=True)
def test_commits_differ_in_mixture_and_rows(corpus):
    output = str(corpus / "out")
    remove_here(corpus, {"b-7"})
    (part,) = read_log(output).parts()
    found = diff_commits(read_output(output, 0), read_output(output, 1))
    for stage in (MIXED, PACKED):
        totals = [find_manifest(url, stage).totals for url in (output, locate_part(output, part))]
        assert found[stage.name]["tokens"] == [one.tokens for one in totals]
        names = [
            {path.name.rpartition("-")[0] for path in Path(url, stage.name).rglob("*.arrow")}
            for url in (output, locate_part(output, part))
        ]
        assert found[stage.name].get("only_a", {"number": 0})["number"] == len(names[0] - names[1])
    assert diff_commits(read_output(output, 1), read_output(output, 1)) == {}
    path = corpus / "build.toml"
    path.write_text(path.read_text().partition("[mixture]")[0])
    run(path, corpus / "plain")
    found = diff_commits(read_output(output, 1), read_output(str(corpus / "plain")))
    assert found["stages"] == {"only_a": ["mixed", "packed"], "only_b": []}


@pytest.mark.parametrize("built", ["mixed"], indirect=True)
def test_intervals_of_a_mixture(corpus):
    remove_here(corpus, {"b-7"})
    shared = list_shared_parts(corpus)
    assert 0 < len(shared) < count_parts(corpus / "out", "mixed")
    require_fresh(corpus, {"b-7"})


@pytest.mark.parametrize("built", ["mixed"], indirect=True)
def test_intervals_that_draw_other_documents_of_the_same(corpus):
    """Half of the documents of one interval go, so those of others come more often."""
    output = str(corpus / "out")
    shards = list_named_shards(find_manifest(output, SHARDS))
    first = [shard for shard in shards if shard.facts.item == 0]
    held = [one for shard in first for batch in read_batches(output, shard) for one in batch.ids]
    gone = {*held[::2]}
    assert len(gone) > 10
    remove_here(corpus, gone)
    assert count_parts(corpus / "out", "mixed") > len(list_shared_parts(corpus))
    require_fresh(corpus, gone)


def list_shared_parts(folder: Path, stage: str = "mixed") -> list[int]:
    """The numbers of the parts of the newest commit whose files all have a second name, which are as they were."""
    (part,) = read_log(str(folder / "out")).parts()
    before, after = folder / "out", Path(locate_part(str(folder / "out"), part))
    files: tuple[dict[int, list[object]], ...] = ({}, {})
    links: dict[int, bool] = {}
    for place, own in zip((before, after), files, strict=True):
        for key, paths in list_files(place, stage).items():
            for path in paths:
                number = int(path.name.split("-")[1])
                own.setdefault(number, []).append((key, path.read_bytes()))
                if place == after:
                    links[number] = links.get(number, True) and path.stat().st_nlink > 1
    shared = [number for number, is_shared in sorted(links.items()) if is_shared]
    assert all(files[0][number] == files[1][number] for number in shared)
    return shared


def test_partitions_and_fields_of_documents(tmp_path):
    text = SETTINGS.replace("= 100", "= 130") + 'partition_by = ["lang", "topic"]\n' + SHUFFLE + partitioned.METADATA
    for name in ("a0", "a1"):
        write(tmp_path / f"{name}.jsonl", jsonl(partitioned.make_documents(name, 40)))
    path = build_file(tmp_path, partitioned.SOURCES, text)
    run(path, tmp_path / "out")
    write(tmp_path / "a2.jsonl", jsonl(partitioned.make_documents("a2", 3)))
    update_here(path, tmp_path / "out")
    shared, num = require_taken_over(tmp_path)
    assert 0 < shared < num
    remove_here(tmp_path, {"a1-3"})
    build_fresh(path, tmp_path / "fresh", tmp_path / "out")
    mine, theirs = ([*describe(tmp_path / place)] for place in ("out", "fresh"))
    assert mine == [one for one in theirs if one[0] != "a1-3"]
    assert len(mine) == 82


def describe(output: Path) -> Iterator[tuple[object, ...]]:
    """All documents of the newest commit, in the order of their folders."""
    shards = package.open_shards(output, "all")
    for i in range(len(shards)):
        one = shards.document(i)
        yield one.id, one.lang, shards[i].tolist(), shards.metadata(i)
