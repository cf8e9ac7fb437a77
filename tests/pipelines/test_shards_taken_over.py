"""A change of an output makes the shards and rows again that it changes, and gives all others a second name."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest
from support.builds import build_file, run
from support.removals import SOURCES, remove_here, write_documents
from support.updates import update_here
from support.whole_outputs import require_fresh

from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_schemas import pack_groups

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
    assert remove_here(corpus, {"b-7"}).read_again == 1
    shared, num = require_taken_over(corpus)
    assert num > shared >= num * (num_parts - 1) // num_parts - 10
    require_fresh(corpus, {"b-7"})


@SHUFFLED
def test_documents_that_come_change_few_shards(corpus):
    write_documents(corpus, "en/g.jsonl", 1)
    assert update(corpus).why.read_again == 0
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
