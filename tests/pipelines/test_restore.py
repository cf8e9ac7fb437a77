"""A removal is tried before it is made, refuses names that nothing has, and is taken back."""

from __future__ import annotations

import shutil

import pytest
from support.builds import tokcore, tree
from support.earlier import unpack_earlier
from support.removals import build_corpus, compact_here, list_ids, remove_here, require_without, write_documents
from support.updates import update_here
from support.watchers import said, watching

from tokcore.errors import ConfigError
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.restore_documents import Restore
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.commit_log import Reason


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A corpus and its build, after removals of an id, a language and a file."""
    folder = tmp_path_factory.mktemp("restore")
    build_corpus(folder)
    remove_here(folder, ids=["b-3"], langs=["de"], sources=["a.jsonl"])
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def _restore(folder, **names):
    return Restore(str(folder / "out"), **names).run()


def _update(folder):
    return update_here(folder / "build.toml", folder / "out")


def _require_sound(folder):
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()


def test_a_language_comes_back_with_the_files_that_are_named(corpus):
    done = _restore(corpus, langs=("de",))
    assert (done.names, done.files) == (1, ())
    assert done.read_again == ("en/b.jsonl", "mixed/c.jsonl")  # of b, too, a document is missing
    assert (done.commit.why, len(done.commit.restored)) == (Reason("restore", restored=1), 1)
    assert done.commit.totals == read_log(str(corpus / "out"), 1).commits[0].totals  # nothing is read yet
    _require_sound(corpus)
    commit = _update(corpus)
    assert (commit.why.changed, commit.why.new) == (2, 0)
    assert {f"c-{i}" for i in range(9)} <= list_ids(corpus / "out")
    _require_sound(corpus)
    require_without(corpus, {"b-3", *(f"a-{i}" for i in range(12)), "a-bad"})
    assert _update(corpus) is None


def test_a_file_and_an_id_come_back(corpus):
    done = _restore(corpus, ids=("b-3",), sources=("*a.jsonl",))
    assert (done.files, done.read_again) == (("en/a.jsonl",), ("en/b.jsonl", "mixed/c.jsonl"))
    commit = _update(corpus)
    assert (commit.why.new, commit.why.changed) == (1, 2)
    require_without(corpus, {f"c-{i}" for i in range(9)})
    _require_sound(corpus)


def test_a_watcher_reads_such_files(corpus):
    _restore(corpus, langs=("de",))
    with watching(corpus) as service:
        service.go_round()
    assert "files 2 changed" in said(service)
    assert "c-0" in list_ids(corpus / "out")


def test_until_then_commands_leave_out_what_is_left_out(corpus):
    """A compaction compares digests, and a removal makes parts again: neither brings a document back."""
    _restore(corpus, langs=("de",))
    write_documents(corpus, "mixed/g.jsonl", 3, "de")
    with watching(corpus, marker=".no") as service:  # takes nothing
        service.go_round()
    remove_here(corpus, ids=["d-1"])
    assert compact_here(corpus).left == ()
    assert not {one for one in list_ids(corpus / "out") if one.startswith("c")}
    _update(corpus)
    require_without(corpus, {"b-3", "d-1", *(f"a-{i}" for i in range(12)), "a-bad"})


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"langs": ("en2",)}, "the language 'en2'. It has the languages en, fr. Did you mean en?"),
        ({"ids": ("b-1", "x-1", "x-2")}, "the id 'x-1', the id 'x-2'. Correct"),
        ({"sources": ("mixed/*.csv",)}, r"the input file 'mixed/\*.csv'. Correct"),
    ],
)
def test_a_name_that_nothing_has_is_refused(corpus, names, told):
    before = tree(corpus / "out")
    with pytest.raises(ConfigError, match=f"nothing has {told}".replace(".", r"\.").replace(r"\\.", r"\.")):
        Remove(str(corpus / "out"), base=str(corpus), options=RunOptions(here=True), **names).run()
    with pytest.raises(ConfigError, match="never removed"):
        _restore(corpus, **names)
    assert tree(corpus / "out") == before
    assert _restore(corpus, allow_missing=True, **names).commit is None


def test_what_was_removed_before_is_no_missing_name(corpus):
    again = Remove(
        str(corpus / "out"), ("b-3",), ("DE",), ("a.jsonl", "en/a*"), str(corpus), RunOptions(here=True)
    ).run()
    assert again.commit is None


def test_nothing_is_done_on_trial(corpus):
    before = tree(corpus / "out")
    write = corpus / "ids.txt"
    write.write_text("d-0\n")
    for command, told in (
        (["remove", "OUT", "--ids", write], "would remove 1 document, make 1 part again, and read 1 input file for"),
        (["expire", "OUT", "--keep", "1"], "would be commit 1; would remove"),
        (["compact", "OUT"], "nothing to gain"),
        (["restore", "OUT", "--lang", "de"], "would take 1 tombstone back. Nothing was done."),
    ):
        done = tokcore(*(corpus / "out" if one == "OUT" else one for one in command), "--dry-run")
        assert (done.returncode, told in done.stdout) == (0, True), (done.stdout, done.stderr)
    assert tree(corpus / "out") == before


def test_a_trial_of_an_expiry_and_a_compaction_say_what_these_do(corpus):
    for name in ("g", "h"):
        write_documents(corpus, f"mixed/{name}.jsonl", 3, "it")
        _update(corpus)
    tried = tokcore("compact", corpus / "out", "--base", corpus, "--dry-run").stdout
    assert "would make one part of 3 with 7 shards, and read 5 input files again" in tried
    tried = tokcore("expire", corpus / "out", "--keep", "1", "--dry-run").stdout
    done = tokcore("expire", corpus / "out", "--keep", "1").stdout
    assert done.splitlines()[-1].removeprefix("removed ") in tried


def test_an_update_says_what_tombstones_held_back(corpus):
    write_documents(corpus, "mixed/g.jsonl", 3, "de")
    done = tokcore("update", corpus / "build.toml")
    assert "tombstones held back 3 documents and 1 file: `tokcore restore` takes one back" in done.stdout
    write_documents(corpus, "mixed/h.jsonl", 2, "de")
    with watching(corpus) as service:
        service.go_round()
    assert "tombstones held back 2 documents and 1 file" in said(service)


def test_an_earlier_output_gets_back_what_it_removed(tmp_path):
    earlier = unpack_earlier(tmp_path, "changed", is_readable=True)
    done = _restore(earlier, langs=("fr",))
    assert done.read_again == ("in/de/b.jsonl", "in/mixed/d.jsonl")  # of b a document was removed by its id
    commit = update_here(earlier / "build.toml", earlier / "out")
    assert commit.totals.documents == 53 + 9
    assert "d-0" in list_ids(earlier / "out")
    assert verify(str(earlier / "out"), decode=None, base=str(earlier)).problems == ()
