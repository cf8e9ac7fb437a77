"""What a part takes over from the part whose place it takes: it is the part that reading all its files makes."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.builds import build_file, run, tokcore, tree, write
from support.forging import Forger
from support.updates import SETTINGS, SMALL, SOURCES, build_fresh, make_texts, require_equal, update_here, write_file

from tokcore.count.pretoken_tables import read_table, write_table
from tokcore.errors import ConfigError, LedgerError, StageError
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history import make_commit
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.reading import input_range
from tokcore_pipelines.store import crashpoints
from tokcore_pipelines.store.stored_shards import find_main_files
from tokcore_pipelines.work import item_reader
from tokcore_pipelines.work.inherit_item import subtract_counts, subtract_languages
from tokcore_pipelines.work.read_shards import read_shard
from tokcore_schemas.commit_log import Commit, Reason
from tokcore_schemas.config import load_config
from tokcore_schemas.refs import LanguageCounts
from tokcore_schemas.shard_entries import list_item_shards, list_named_shards
from tokcore_schemas.stage_table import SHARDS

NAMES = [f"{number:02d}" for number in range(24)]
REASON = Reason("update", 0, 0, 0, 0)


def write_corpus(folder: Path) -> None:
    """Small files in runs, a file that is cut, one with records that are rejected, and languages of few files."""
    for name in NAMES:
        write_file(folder, f"en/{name}.jsonl", make_texts(name, 4))
    write_file(folder, "en/large.jsonl", make_texts("large", 60))
    write_file(folder, "mixed/c.jsonl", make_texts("c", 20), "de")
    write_file(folder, "mixed/d.jsonl", make_texts("d", 3), "fr")
    write_file(folder, "mixed/e.jsonl", make_texts("e", 20), "fr")
    bad = [b'{"text": 5, "lang": "de"}\n', b"no json\n"]
    path = folder / "mixed" / "c.jsonl"
    path.write_bytes(path.read_bytes() + b"".join(bad))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    return build_corpus(tmp_path_factory.mktemp("inherit"))


def build_corpus(folder: Path, settings: str = SETTINGS) -> Path:
    write_corpus(folder)
    path = build_file(folder, SOURCES, settings)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def reads(monkeypatch):
    """The names of input files, as often as they are read."""
    seen: list[str] = []

    def read(file, *arguments):
        seen.append(Path(file.url).name)
        return input_range.read_documents(file, *arguments)

    monkeypatch.setattr(item_reader, "read_documents", read)
    return seen


def require_as_if_read(folder: Path, change, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Make a change to an output, and assert that the commit's parts are those that reading all their files makes."""
    shutil.copytree(folder / "out", folder / "all-read")
    commit = change(folder / "out")
    with monkeypatch.context() as patch:
        patch.setattr(make_commit, "find_inheritance", lambda *_: None)
        expected = change(folder / "all-read")
    before = json.loads(expected.to_bytes())
    assert commit.totals == expected.totals
    assert len(commit.added) == 1, "the test compares one part"
    (mine,), (theirs,) = commit.added, before["added"]
    assert mine.path == theirs["path"]
    assert tree(folder / "out" / mine.path) == tree(folder / "all-read" / mine.path)
    assert mine.root == theirs["root"]
    shutil.rmtree(folder / "all-read")
    return commit


def require_sound(folder: Path) -> None:
    """Assert that the newest commit is equal to a build of all files as they are, and decodes to them."""
    report = verify(str(folder / "out"), decode=None, base=str(folder))
    assert report.problems == ()
    totals = build_fresh(folder / "build.toml", folder / "fresh", folder / "out")
    require_equal(folder / "out", folder / "fresh", totals)
    shutil.rmtree(folder / "fresh")


def test_a_changed_file_costs_its_own_run(corpus, reads, monkeypatch):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    commit = require_as_if_read(corpus, lambda out: update_here(corpus / "build.toml", out), monkeypatch)
    assert (commit.dropped, commit.why.changed) == ((".",), 1)
    assert commit.why.read_again < 8
    reads.clear()
    require_sound(corpus)


def test_only_the_run_of_a_changed_file_is_read(corpus, reads):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    commit = update_here(corpus / "build.toml", corpus / "out")
    assert set(reads) - {"07.jsonl"} < {f"{name}.jsonl" for name in NAMES}
    assert len(set(reads)) == 1 + commit.why.read_again
    again = update_here(corpus / "build.toml", corpus / "out")
    assert again is None


def test_shards_that_stay_are_not_written_again(corpus):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    commit = update_here(corpus / "build.toml", corpus / "out")
    shards = [*(corpus / "out" / commit.added[0].path / "shards" / "nanogpt").iterdir()]
    linked = [path for path in shards if path.stat().st_nlink == 2]
    assert len(linked) > len(shards) / 2
    assert all(path.stat().st_nlink <= 2 for path in shards)


def test_a_vanished_file_leaves_its_run_only(corpus, monkeypatch):
    (corpus / "en" / "07.jsonl").unlink()
    commit = require_as_if_read(corpus, lambda out: update_here(corpus / "build.toml", out, "remove"), monkeypatch)
    assert commit.why.vanished == 1
    require_sound(corpus)


def test_the_only_file_of_a_language_vanishes(corpus, monkeypatch):
    (corpus / "mixed" / "c.jsonl").unlink()  # the one with rejects, too
    require_as_if_read(corpus, lambda out: update_here(corpus / "build.toml", out, "remove"), monkeypatch)
    require_sound(corpus)


def test_what_was_kept_need_not_be_read_if_its_run_stays(corpus, reads):
    """A file that vanished, and whose documents stay, is in no one's way unless its own run changes."""
    (corpus / "en" / "large.jsonl").unlink()
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    commit = update_here(corpus / "build.toml", corpus / "out")
    assert (commit.why.changed, "large.jsonl" in reads) == (1, False)
    report = verify(str(corpus / "out"), base=str(corpus))
    assert report.problems == ()


def test_new_files_are_a_part_of_their_own(corpus, reads):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    write_file(corpus, "en/08-new.jsonl", make_texts("new", 5))
    commit = update_here(corpus / "build.toml", corpus / "out")
    assert len(commit.added) == 2
    assert commit.why == dataclasses.replace(REASON, new=1, changed=1, read_again=commit.why.read_again)
    require_sound(corpus)


def remove(ids: Sequence[str] = (), langs: Sequence[str] = ()):
    def run(out: Path) -> Commit:
        return Remove(str(out), tuple(ids), tuple(langs), options=RunOptions(here=True)).run().commit

    return run


def write_ids(folder: Path, name: str, texts: Sequence[str]) -> None:
    lines = [json.dumps({"text": text, "id": f"{name}-{i}"}) for i, text in enumerate(texts)]
    write(folder / "en" / f"{name}.jsonl", ("\n".join(lines) + "\n").encode())


@pytest.mark.parametrize("ids", [("03-1",), ("large-5", "11-0")])
def test_a_removal_reads_the_runs_of_its_documents_only(tmp_path, ids, reads, monkeypatch):
    for name in (*NAMES, "large"):
        write_ids(tmp_path, name, make_texts(name, 60 if name == "large" else 4))
    sources = '[[source]]\nlang = "en"\nid = "id"\nfiles = "en/*.jsonl"\n'
    run(build_file(tmp_path, sources, SETTINGS), tmp_path / "out")
    reads.clear()
    commit = require_as_if_read(tmp_path, remove(ids), monkeypatch)
    assert commit.why.removed == len(ids)
    assert commit.why.read_again < 12
    for later in (("17-2",), ("03-2", "17-3")):  # of a part that was made so itself
        assert require_as_if_read(tmp_path, remove(later), monkeypatch).why.removed == len(later)
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


def test_a_removal_reads_only_files_that_hold_its_documents(tmp_path, reads):
    """Each is read once to count, and once to encode; shards are made of tokens."""
    for name in NAMES:
        write_ids(tmp_path, name, make_texts(name, 4))
    sources = '[[source]]\nlang = "en"\nid = "id"\nfiles = "en/*.jsonl"\n'
    run(build_file(tmp_path, sources, SETTINGS), tmp_path / "out")
    reads.clear()
    ids = [f"{name}-1" for name in NAMES[::3]]
    commit = remove(ids)(tmp_path / "out")
    assert sorted(reads) == sorted(2 * [f"{name}.jsonl" for name in NAMES[::3]])
    assert (commit.why.removed, commit.why.read_again) == (len(ids), len(ids))
    require_sound_without(tmp_path, ids)


def require_sound_without(folder: Path, ids: Sequence[str]) -> None:
    """Assert that an output decodes to its sources, and has these documents only in its first commit."""
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    assert {one.commits for one in verify_removed(str(folder / "out"), ids).held} == {(0,)}


SETTINGS_OF_ALL_KINDS = pytest.mark.parametrize(
    "settings",
    [
        'formats = [{}]\nby = "lang"\n'.format(", ".join(f'"{name}"' for name in SHARD_FORMATS)),
        'formats = ["arrow"]\n[count]\nmask = ["email"]\n[encode]\nprepend = ["<|endoftext|>"]\n',
        'formats = ["arrow"]\n[count]\nsample = 0.5\n',
        'formats = ["arrow"]\n[normalize]\nsteps = ["nfc", "lowercase"]\n',
        'formats = ["arrow"]\n[encode]\ndropout = 0.1\n',
    ],
    ids=["all formats", "mask", "sample", "normalized", "dropout"],
)


@SETTINGS_OF_ALL_KINDS
def test_it_holds_for_all_settings(tmp_path, settings, monkeypatch):
    build_corpus(tmp_path, SETTINGS.replace('formats = ["arrow", "megatron", "nanogpt"]\n', settings))
    (tmp_path / "en" / "02.jsonl").unlink()  # a later number for all other items
    write_file(tmp_path, "en/07.jsonl", make_texts("other", 5))
    require_as_if_read(tmp_path, lambda out: update_here(tmp_path / "build.toml", out, "remove"), monkeypatch)
    assert verify(str(tmp_path / "out"), decode=None, base=str(tmp_path)).problems == ()


@SETTINGS_OF_ALL_KINDS
def test_a_removal_holds_for_all_settings(tmp_path, settings, monkeypatch):
    """Documents of small files, of two ranges of a cut one, all of a file's, and of a file with rejects."""
    settings = SETTINGS.replace('formats = ["arrow", "megatron", "nanogpt"]\n', settings)
    for name in (*NAMES, "large"):
        write_ids(tmp_path, name, make_texts(name, 60 if name == "large" else 4))
    path = tmp_path / "en" / "07.jsonl"
    path.write_bytes(path.read_bytes() + b'{"text": 5, "id": "bad"}\nno json\n')
    sources = '[[source]]\nlang = "en"\nid = "id"\nfiles = "en/*.jsonl"\n'
    build = build_file(tmp_path, sources, settings)
    build.write_text(build.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(build, tmp_path / "out")
    ids = ("03-1", "large-5", "large-55", *(f"11-{number}" for number in range(4)), "07-2")
    assert require_as_if_read(tmp_path, remove(ids), monkeypatch).why.removed == len(ids)
    require_sound_without(tmp_path, ids)


REACHED = [point for point in crashpoints.INHERITING_POINTS if point != "inherit.surveyed"]  # that is of shuffled ones


@pytest.mark.parametrize("point", [*REACHED, "stage.worked", "build.committed"])
def test_a_killed_update_goes_on_to_the_same_part(corpus, point):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    shutil.copytree(corpus / "out", corpus / "undisturbed")
    update_here(corpus / "build.toml", corpus / "undisturbed")
    killed = tokcore("update", corpus / "build.toml", env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    update_here(corpus / "build.toml", corpus / "out")
    assert tree(corpus / "out") == tree(corpus / "undisturbed")


def test_a_damaged_shard_is_not_taken_over(corpus):
    shard = list_named_shards(require_manifest(str(corpus / "out"), SHARDS))[0]
    assert sum(batch.num_documents for batch, _ in read_shard(str(corpus / "out"), shard)) == shard.facts.documents
    other = dataclasses.replace(shard, content_sha256="0" * 64)
    with pytest.raises(StageError, match=r"its documents are not those that were committed. `tokcore repair`"):
        list(read_shard(str(corpus / "out"), other))


def test_a_damaged_shard_is_not_thinned(tmp_path):
    """Nothing of it is left for the next run, which goes on once the file is back."""
    write_ids(tmp_path, "large", make_texts("large", 60))
    sources = '[[source]]\nlang = "en"\nid = "id"\nfiles = "en/*.jsonl"\n'
    settings = f'{SMALL.replace("range_bytes = 1000", "range_bytes = 100000")}formats = ["megatron"]\n'
    run(build_file(tmp_path, sources, settings), tmp_path / "out")
    shards = list_item_shards(require_manifest(str(tmp_path / "out"), SHARDS))[0]
    path = Path(find_main_files(shards[-2], str(tmp_path / "out" / "shards"))[0].path)
    whole, changed = path.read_bytes(), bytearray(path.read_bytes())
    changed[0] ^= 1  # an id of its first document, which fills the shard before
    path.write_bytes(changed)
    with pytest.raises(StageError, match=r"its documents are not those that were committed. `tokcore repair`"):
        remove(["large-5"])(tmp_path / "out")
    path.write_bytes(whole)
    remove(["large-5"])(tmp_path / "out")
    require_sound_without(tmp_path, ["large-5"])


def test_a_damaged_table_is_not_taken_over(corpus):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    (table,) = (corpus / "out" / "counts").glob("en~train~-*.parquet")
    whole = table.read_bytes()
    table.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(StageError, match=r"parquet: its bytes are not those that were committed. `tokcore repair`"):
        update_here(corpus / "build.toml", corpus / "out")
    table.write_bytes(whole)
    assert update_here(corpus / "build.toml", corpus / "out").number == 1
    require_sound(corpus)


def test_a_table_with_too_little_is_named_with_its_language(corpus):
    """Edited, and hashed again: what a file brought is more than the table has."""
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    forger = Forger(corpus / "out")
    (table,) = (corpus / "out" / "counts").glob("en~train~-*.parquet")
    edited = io.BytesIO()
    write_table(edited, [rows._replace(counts=rows.counts // rows.counts) for rows in read_table(table)])
    forger.write(table, edited.getvalue())
    forger.hash_again(2)
    with pytest.raises(LedgerError, match=rf"{table.name}: language en: .* taken away, and 1 are there"):
        update_here(corpus / "build.toml", corpus / "out")
    assert not (corpus / "out" / "log").exists()


def test_what_expired_commits_had_stays_where_it_was_taken_over(corpus):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    update_here(corpus / "build.toml", corpus / "out")
    assert expire(str(corpus / "out"), keep=1).files > 0
    require_sound(corpus)


def test_other_inputs_take_the_place_of_a_finished_build(corpus, reads):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    write_file(corpus, "en/25.jsonl", make_texts("new", 5))
    config = load_config(str(corpus / "build.toml"))
    with pytest.raises(ConfigError, match="--replace plan"):
        Build(config, RunOptions(here=True), str(corpus / "out")).run()
    reads.clear()
    made = Build(config, RunOptions(here=True), str(corpus / "out"), replace="plan").run()
    assert reads.count("07.jsonl") == 2
    assert reads.count("02.jsonl") + reads.count("20.jsonl") <= 2  # not counted again; encoded if the tokenizer differs
    assert not (corpus / "out" / "_attempts").exists()
    fresh = Build(config, RunOptions(here=True), str(corpus / "fresh")).run()
    assert made == fresh
    assert tree(corpus / "out") == tree(corpus / "fresh")


@pytest.mark.parametrize("point", ["replace.kept:1", "replace.kept:4", "replace.removed:2", "inherit.counts:1"])
def test_a_build_whose_replacement_was_killed_is_replaced(corpus, point):
    write_file(corpus, "en/07.jsonl", make_texts("other", 5))
    command = ("build", corpus / "build.toml", "--replace", "plan")
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": point})
    assert killed.returncode != 0
    assert tokcore(*command).returncode == 0
    Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(corpus / "fresh")).run()
    assert tree(corpus / "out") == tree(corpus / "fresh")


def test_nothing_is_left_of_less_than_nothing():
    had = {"en": LanguageCounts(3, 30), "de": LanguageCounts(1, 5)}
    assert subtract_languages(had, {"en": LanguageCounts(1, 10), "de": LanguageCounts(1, 5)}) == {
        "en": LanguageCounts(2, 20)
    }
    for less in ({"en": LanguageCounts(4, 10)}, {"fr": LanguageCounts(1, 0)}):
        with pytest.raises(LedgerError, match="are to be taken away from"):
            subtract_languages(had, less)
    assert subtract_counts({"a": 2, "b": 1}, {"b": 1}) == {"a": 2}
    with pytest.raises(LedgerError, match="are to be taken away from"):
        subtract_counts({"a": 2}, {"a": 3})
