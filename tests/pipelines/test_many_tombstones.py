"""Tombstones that are too many to stand in commits: in files, which each command and reader looks up."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import eager
from support.builds import run, tokcore, tree
from support.removals import build_corpus, compact_here, list_ids, remove_here, write_documents
from support.updates import update_here

from tokcore.errors import ChecksumError, ConfigError, FormatError, StageError
from tokcore.shards.tombstone_files import iterate_blocks, spell_records
from tokcore.train.loader import Loader
from tokcore.train.removed_documents import read_removed_names
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history import tombstone_changes
from tokcore_pipelines.history.encode_commit import make_encoding
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.make_commit import create_commit
from tokcore_pipelines.history.named_ids import MANY, IdFile, make_wanted, read_ids
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.restore_documents import Restore
from tokcore_pipelines.history.tombstone_changes import (
    MAX_INLINE,
    FileChange,
    bury,
    compact_tombstones,
    unbury,
    write_file,
)
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints, opened_tombstones, storage
from tokcore_pipelines.store.opened_tombstones import open_file
from tokcore_schemas.commit_log import Reason
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import PLAN

GONE = {"a-3", "a-4", "d-0"}
MORE = MANY + 50


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    build_corpus(folder)
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def write_ids(folder, gone, more=MORE, prefix="other"):
    """A file of these ids, and of many that no document has."""
    path = folder / f"{prefix}.txt"
    path.write_text("\n".join([*sorted(gone), *(f"{prefix}-{i}" for i in range(more))]))
    return path


def remove_many(folder, gone, more=MORE, prefix="other", **said):
    ids = read_ids(write_ids(folder, gone, more, prefix))
    assert isinstance(ids, IdFile)
    return Remove(
        str(folder / "out"), ids, base=str(folder), options=RunOptions(here=True), allow_missing=True, **said
    ).run()


def restore(folder, ids, **said):
    return Restore(str(folder / "out"), ids, **said).run()


def update(folder):
    return update_here(folder / "build.toml", folder / "out")


def list_files(folder):
    log = read_log(str(folder / "out"))
    return list(removed.files) if (removed := log.tombstones()) is not None else []


def list_removed(folder):
    return sorted(path.name for path in (folder / "out" / "removed").iterdir())


def require_sound(folder):
    report = verify(str(folder / "out"), decode=None, base=str(folder))
    assert report.problems == ()
    return report


def test_many_ids_go_as_few_do(corpus):
    shutil.copytree(corpus, corpus.parent / "few")
    few = remove_here(corpus.parent / "few", GONE)
    many = remove_many(corpus, GONE)
    assert (many.names, many.unknown) == (MORE + 3, MORE)
    assert (many.commit.removed, many.commit.format_version, few.commit.format_version) == ((), 3, 2)
    assert many.commit.totals == few.commit.totals
    assert [file.num for file in many.commit.added_files] == [MORE + 3]
    assert list_ids(corpus / "out") == list_ids(corpus.parent / "few" / "out")
    report = require_sound(corpus)
    assert report.num_leftovers == 0
    # Parts name the file, and have none of its rows.
    (part,) = many.commit.parts
    for one in require_manifest(locate_part(str(corpus / "out"), part), PLAN).config.settings:
        assert (one.removed.hashes, one.removed.files) == ((), many.commit.added_files)
    assert remove_many(corpus, GONE).commit is None


def test_what_they_name_stays_away(corpus):
    remove_many(corpus, GONE)
    write_documents(corpus, "en/a.jsonl", 15, word="other")  # a new version of the file
    write_documents(corpus, "en/other.jsonl", 4)  # of ids that no document had
    commit = update(corpus)
    assert (commit.why.changed, commit.why.new) == (1, 1)
    assert not {one for one in list_ids(corpus / "out") if one in GONE or one.startswith("other-")}
    require_sound(corpus)
    few = remove_here(corpus, {"b-1"})  # goes inline beside the file
    assert (len(few.commit.removed), few.commit.added_files) == (1, ())
    assert not {"b-1", *GONE} & list_ids(corpus / "out")
    require_sound(corpus)
    names = read_ids(write_ids(corpus, GONE))
    assert any("run `tokcore expire" in one for one in verify_removed(str(corpus / "out"), names).problems)
    expire(str(corpus / "out"), keep=1)
    assert verify_removed(str(corpus / "out"), names, RunOptions(here=True)).problems == ()
    lacking = read_ids(write_ids(corpus, (), MORE + 7))
    (problem,) = verify_removed(str(corpus / "out"), lacking).problems
    assert "no commit removes 7 of the ids" in problem


def test_workers_look_many_up(corpus, monkeypatch):
    """What they get is the name of a file, of names that are wanted, and of those that the output has."""
    monkeypatch.setattr("tokcore_pipelines.history.find_removed.WORTH_WORKERS", 1)
    names = read_ids(write_ids(corpus, GONE))
    done = Remove(str(corpus / "out"), names, base=str(corpus), options=RunOptions(2), allow_missing=True).run()
    assert (done.unknown, done.commit.why.removed) == (MORE, 3)
    expire(str(corpus / "out"), keep=1)
    assert verify_removed(str(corpus / "out"), names, RunOptions(2)).problems == ()
    monkeypatch.setattr("tokcore_pipelines.check.verification.WORTH_BYTES", 0)
    assert verify(str(corpus / "out"), decode=None, base=str(corpus), options=RunOptions(2)).problems == ()


def test_documents_of_many_are_quoted_nowhere(corpus):
    """A reject that spells one of many ids goes, as with few."""
    done = remove_many(corpus, {"a-bad"})
    assert (done.rejects, done.unknown, done.commit.why.removed) == (1, MORE, 0)
    assert not any(b"a-bad" in path.read_bytes() for path in (corpus / "out" / "parts").rglob("*rejects*"))


def test_training_masks_them(corpus):
    out = str(corpus / "out")
    remove_many(corpus, GONE)
    names = read_removed_names(out)
    assert names is not None
    for one in (names, pickle.loads(pickle.dumps(names))):  # as loaders go to their workers
        assert one.mark_ids(["a-3", "a-5", None, "other-7"]).tolist() == [True, False, False, True]
    assert Loader(out, length=16, batch_size=2, at=0, removed="mask").num_rows
    path = corpus / "out" / list_files(corpus)[0].path
    data = path.read_bytes()
    path.write_bytes(data[:99] + bytes([data[99] ^ 1]) + data[100:])
    with pytest.raises(ChecksumError, match="a commit names"):
        read_removed_names(out)


def test_some_or_all_come_back(corpus):
    remove_many(corpus, GONE)
    (before,) = list_files(corpus)
    done = restore(corpus, ("a-3",))
    (after,) = list_files(corpus)
    assert (done.names, after.num, after.holds) == (1, before.num - 1, ())
    assert (done.commit.restored, done.commit.dropped_files) == ((), (before.path,))
    assert set(done.read_again) >= {"en/a.jsonl"}
    require_sound(corpus)
    assert update(corpus) is not None
    assert list_ids(corpus / "out") & GONE == {"a-3"}
    require_sound(corpus)
    assert update(corpus) is None
    # All that are left, with many that were never removed.
    back = read_ids(write_ids(corpus, GONE, MORE + 5))
    with pytest.raises(ConfigError, match=r"the id 'a-3', the id 'other-10050', .* and 3 more were never removed"):
        restore(corpus, back)
    dry = restore(corpus, back, allow_missing=True, dry_run=True)
    assert (dry.commit, dry.names) == (None, MORE + 2)
    assert list_files(corpus) == [after]
    done = restore(corpus, back, allow_missing=True)
    assert (done.names, list_files(corpus)) == (MORE + 2, [])
    update(corpus)
    assert list_ids(corpus / "out") >= GONE
    require_sound(corpus)


def test_final_ones_do_not(corpus):
    remove_many(corpus, GONE, final=True)
    (file,) = list_files(corpus)
    assert file.final
    with pytest.raises(ConfigError, match="the id 'a-3' was removed with --final in commit 1"):
        restore(corpus, ("a-3",))
    with pytest.raises(ConfigError, match="was removed with --final in commit 1"):
        restore(corpus, read_ids(write_ids(corpus, ())))
    assert remove_many(corpus, GONE, final=True).commit is None
    remove_many(corpus, {"b-1"}, MORE + 9, "third")
    assert [one.final for one in list_files(corpus)].count(True) == 1
    # A log that drops it is broken.
    log = read_log(str(corpus / "out"))
    with pytest.raises(FormatError, match="drops a file of tombstones that cannot be taken back"):
        create_commit(log, Reason("restore"), (), (), files=FileChange((), (file.path,)))


def test_files_are_merged(corpus):
    remove_many(corpus, GONE, MORE)
    remove_many(corpus, {"b-1"}, 3 * MORE, "second")  # has more, so the first goes into it
    (one,) = list_files(corpus)
    assert one.num == 4 * MORE + 4
    assert len(one.holds) == 1
    remove_many(corpus, {"b-2"}, MORE, "third")
    assert sorted(file.num for file in list_files(corpus)) == [MORE + 1, one.num]
    require_sound(corpus)
    assert len(list_removed(corpus)) == 3  # parts were read with the first
    compacted = compact_here(corpus)
    assert compacted.commit.why == Reason("compact")
    (all_of_it,) = list_files(corpus)
    assert (all_of_it.num, len(all_of_it.holds)) == (5 * MORE + 5, 3)
    assert compact_here(corpus).commit is None
    require_sound(corpus)
    # What parts were read with stays as long as they do; then it goes.
    expire(str(corpus / "out"), keep=1)
    require_sound(corpus)
    write_documents(corpus, "en/b.jsonl", 5, word="other")
    update(corpus)
    expire(str(corpus / "out"), keep=1)
    assert not {"b-1", "b-2", *GONE} & list_ids(corpus / "out")
    require_sound(corpus)
    named = {file.path for file in tombstone_changes.list_named_files(read_log(str(corpus / "out"))).values()}
    assert {f"removed/{name}" for name in list_removed(corpus)} == named


def test_names_that_nothing_has_are_refused(corpus):
    ids = read_ids(write_ids(corpus, GONE))
    with pytest.raises(ConfigError, match=r"the id 'other-0', the id 'other-1', .* and 10,047 more"):
        Remove(str(corpus / "out"), ids, base=str(corpus), options=RunOptions(here=True)).run()
    assert not (corpus / "out" / "removed").exists()
    dry = remove_many(corpus, GONE, dry_run=True)
    assert (dry.documents, dry.commit) == (3, None)
    assert not (corpus / "out" / "removed").exists()


def test_the_removal_that_is_too_much_goes_into_a_file(corpus, monkeypatch):
    """Commits hold at most so many tombstones together; those of earlier ones stay as they are."""
    monkeypatch.setattr(tombstone_changes, "MAX_INLINE", 4)
    first = remove_here(corpus, GONE)
    second = remove_here(corpus, {"b-1", "b-2", "y-0"})
    assert (len(first.commit.removed), second.commit.removed) == (3, ())
    assert [file.num for file in second.commit.added_files] == [3]
    third = remove_here(corpus, {"b-3"})
    assert len(third.commit.removed) == 1
    fourth = remove_here(corpus, {"b-4", "b-1"})
    assert [file.num for file in fourth.commit.added_files] == [1]
    assert not {*GONE, "b-1", "b-2", "b-3", "b-4"} & list_ids(corpus / "out")
    restore(corpus, ("a-3", "b-2"))
    update(corpus)
    assert list_ids(corpus / "out") & {*GONE, "b-1", "b-2", "b-3", "b-4"} == {"a-3", "b-2"}
    require_sound(corpus)


def test_damage_is_found_and_stops_what_would_read_it(corpus):
    remove_many(corpus, GONE)
    (file,) = list_files(corpus)
    path = corpus / "out" / file.path
    data = path.read_bytes()
    path.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
    opened_tombstones.forget()
    (problem,) = verify(str(corpus / "out"), base=str(corpus)).problems
    assert problem.startswith(f"{file.path}: its sha256 is ")
    write_documents(corpus, "en/z.jsonl", 2)
    with pytest.raises(ChecksumError, match="put it back from a copy"):
        update(corpus)
    path.unlink()
    (problem,) = verify(str(corpus / "out"), base=str(corpus)).problems
    assert problem.startswith(f"{file.path}: missing")
    with pytest.raises(FormatError, match="a commit names it"):
        update(corpus)
    path.write_bytes(data)
    update(corpus)
    require_sound(corpus)


# ------------------------------------------------------------------------------------------------------ kills and races


@pytest.mark.parametrize("point", [*crashpoints.BURYING_POINTS, *crashpoints.REMOVING_POINTS, "encode.shard"])
def test_a_killed_removal_goes_on_to_the_same_commit(corpus, point):
    path = write_ids(corpus, GONE)
    shutil.copytree(corpus, corpus.parent / "undisturbed")
    remove_many(corpus.parent / "undisturbed", GONE)
    command = ("remove", corpus / "out", "--ids", path, "--base", corpus, "--allow-missing")
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    eager.seed(0, 0)
    assert tokcore(*command).returncode == 0
    gc(str(corpus / "out"), older_than="0")  # what was written and has no name
    assert tree(corpus / "out") == tree(corpus.parent / "undisturbed" / "out")
    require_sound(corpus)


@pytest.mark.parametrize("point", [*crashpoints.BURYING_POINTS, "commit.created"])
def test_a_killed_restoration_goes_on(corpus, point):
    remove_many(corpus, GONE)
    command = ("restore", corpus / "out", "--ids", write_ids(corpus, {"a-3"}, 3))
    killed = tokcore(*command, "--allow-missing", env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    assert tokcore(*command, "--allow-missing").returncode == 0
    (file,) = list_files(corpus)
    assert file.num == MORE + 3 - 4
    require_sound(corpus)
    expire(str(corpus / "out"), keep=1)
    assert gc(str(corpus / "out"), older_than="0").left == ()
    require_sound(corpus)


def test_gc_takes_what_no_commit_names(corpus):
    command = ("remove", corpus / "out", "--ids", write_ids(corpus, GONE), "--base", corpus, "--allow-missing")
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": "bury.named:1"})
    assert killed.returncode != 0
    assert len(list_removed(corpus)) == 1
    assert any(path.startswith("removed/") for path in gc(str(corpus / "out"), older_than="0").removed)
    remove_many(corpus, GONE)
    assert not any(path.startswith("removed/") for path in gc(str(corpus / "out"), older_than="0").removed)
    require_sound(corpus)


# ---------------------------------------------------------------------------------------------------------- plain sets

NAMES = st.sets(st.integers(0, 12).map(str), max_size=8)
STEPS = st.lists(st.tuples(st.sampled_from(["bury", "seal", "unbury", "compact"]), NAMES, st.booleans()), max_size=8)


@given(STEPS)
@settings(deadline=None)
def test_any_history_is_that_of_a_plain_set(built, tmp_path_factory, steps):
    """Removals, final or not, of few names and of many, restorations and compactions, against sets of names."""
    folder = tmp_path_factory.mktemp("sets")
    for name in ("manifest.json", "plan", "rejected", "counts", "tokenizer", "shards"):
        (folder / name).symlink_to(built / "out" / name)
    there, final = set(), set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tombstone_changes, "MAX_INLINE", 3)
        for number, (what, names, is_many) in enumerate(steps):
            log = read_log(str(folder))
            if what == "compact":
                if any(files := compact_tombstones(log)):
                    create_commit(log, Reason("compact"), (), (), files=files)
                continue
            names = names - final if what == "unbury" else names
            (folder / "_names").mkdir(exist_ok=True)
            path = folder / f"_names/{number}"
            path.write_text("\n".join(sorted(names)))
            many = IdFile(path) if is_many else None
            few = () if is_many else [("id", one) for one in sorted(names)]
            wanted = make_wanted(log.tombstone_key, few, many, str(folder / "_names"))
            if what == "unbury":
                change = unbury(log, wanted)
                assert change.is_any == bool(names & there)
                there -= names
            else:
                change = bury(log, wanted, (), (), is_final=what == "seal")
                assert change.is_any == bool(names - (final if what == "seal" else there))
                there |= names
                final |= names if what == "seal" else set()
            if change.is_any:
                command = "restore" if what == "unbury" else "remove"
                create_commit(
                    *(log, Reason(command), (), (), change.removed),
                    restored=change.restored,
                    final=change.final,
                    files=change.files,
                )
            assert read_log(str(folder)).tombstones() == change.after
        log = read_log(str(folder))
        opened = log.open_tombstones()
        every = [str(i) for i in range(13)]
        found = {one for one in every if opened is not None and opened.has("id", one)}
        assert found == there
        if opened is not None:
            assert [*spell_records(opened.blocks())] == sorted(opened.spell("id", one) for one in there)
            sealed = {one for one in every if tombstone_changes.find_final(log, opened, opened.spell("id", one))}
            assert sealed == final
            assert len(opened.plain.hashes) <= MAX_INLINE


# ------------------------------------------------------------------------------------------- other outputs, and stores


def test_a_shard_is_made_again_from_its_inputs(corpus):
    remove_many(corpus, GONE)
    (part,) = read_log(str(corpus / "out")).parts()
    url = locate_part(str(corpus / "out"), part)
    assert rebuild(url, "train-00000-00000", str(corpus)).problems == ()


def test_a_new_output_of_a_commit_has_its_files(corpus):
    remove_many(corpus, GONE)
    config = load_config(str(corpus / "build.toml"))
    build = Build(config, RunOptions(here=True), str(corpus / "out"), StageProgress(-1))
    make_encoding(build, str(corpus / "second"), None).run()
    assert list_ids(corpus / "second") == list_ids(corpus / "out")
    assert [path.name for path in (corpus / "second" / "removed").iterdir()] == list_removed(corpus)
    assert verify(str(corpus / "second"), decode=None, base=str(corpus)).problems == ()
    assert gc(str(corpus / "second"), older_than="0").removed == ()


def test_outputs_without_duplicates_take_many_ids_bit_by_bit(corpus):
    path = corpus / "build.toml"
    path.write_text(path.read_text().replace('"out"', '"apart"') + '\n[dedup]\nby = "text"\n')
    run(path, corpus / "apart")
    with pytest.raises(ConfigError, match="split -l 10000"):
        Remove(str(corpus / "apart"), read_ids(write_ids(corpus, GONE)), base=str(corpus)).run()
    with pytest.raises(ConfigError, match="split -l 10000"):
        Restore(str(corpus / "apart"), read_ids(write_ids(corpus, GONE))).run()


def test_a_file_in_a_store_is_copied_once_for_all_processes_of_a_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    records = [bytes([i]) * 16 for i in range(9)]
    file = write_file("memory://tombs/out", iterate_blocks(records))
    assert write_file("memory://tombs/out", iterate_blocks(records)) == file  # as of another process
    part = "memory://tombs/out/parts/0123456789ab"
    assert open_file(part, file).find([*records, bytes(15) + b"\1"]).tolist() == [True] * 9 + [False]
    storage.remove_file(f"memory://tombs/out/{file.path}")
    opened_tombstones.forget()
    assert open_file(part, file, is_hashed=True).num == 9
    (copy,) = tmp_path.glob("tokcore-removed-*/*")
    os.utime(copy, (0, 0))
    other = write_file("memory://tombs/out", iterate_blocks(records[1:]))
    open_file(part, other)
    assert [path.name for path in copy.parent.iterdir()] == [other.sha256]
    opened_tombstones.forget()
    with pytest.raises(StageError, match="removed"):
        open_file(part, file)


def test_a_file_that_lacks_what_it_says_to_hold_is_found(corpus):
    remove_many(corpus, GONE)
    (file,) = list_files(corpus)
    log = read_log(str(corpus / "out"))
    lying = write_file(log.output, iterate_blocks([bytes(16)]), (file.sha256,))
    create_commit(log, Reason("compact"), (), (), files=FileChange((lying,), (file.path,)))
    (problem, *_) = verify(str(corpus / "out"), base=str(corpus)).problems
    assert problem == f"{lying.path}: lacks {file.num:,} tombstones of {file.path}, which it says to hold"
