"""`tokcore expire` gives up commits and what only they name; `tokcore compact` makes few large shards of many."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from support import eager
from support.builds import tokcore, tree
from support.removals import (
    build_corpus,
    compact_here,
    list_ids,
    remove_here,
    require_without,
    write_documents,
)
from support.updates import update_here

import tokcore as package
from tokcore.errors import ConfigError, LedgerError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.shards.shard_checks import Rules
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.fsck import check_shards
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.prove_file import prove_file
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.store import crashpoints, storage
from tokcore_schemas.commit_log import Reason

GONE = {"a-3", "e-1"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An output with four commits: updates, and a removal after which no commit has the build's own folder."""
    folder = tmp_path_factory.mktemp("expire")
    build_corpus(folder)
    for name in ("e", "f", "g"):  # so small that e and f are in one run, where they are planned together
        write_documents(folder, f"en/{name}.jsonl", 2)
        update_here(folder / "build.toml", folder / "out")
    remove_here(folder, GONE)
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    """A copy of it, whose input files have the times that were pinned."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def require_sound(folder):
    report = verify(str(folder / "out"), decode=None, base=str(folder))
    assert (report.problems, report.num_leftovers) == ((), 0)
    checked = check_shards(str(folder / "out"), Rules(None, None, ""), repair=False)
    assert checked.problems == ()
    assert checked.shards > 0


# -------------------------------------------------------------------------------------------------------------- expire


def test_what_only_expired_commits_name_goes(corpus):
    output = corpus / "out"
    ids, before = list_ids(output), tree(output)
    done = expire(str(output), keep=1)
    assert (done.commit.number, done.commit.oldest, done.commit.why) == (5, 4, Reason("expire"))
    assert done.commit.root == read_log(str(output)).commits[3].root
    left = tree(output)
    assert done.files > len(before) - len(left) > 20  # run.json is in no tree
    assert {path.split("/")[1] for path in left if path.startswith("parts/")} == {
        part.path.split("/")[1] for part in done.commit.parts
    }
    assert not [
        path for path in left if path.startswith(("shards/arrow", "counts/en", "rejected/rejected", "plan/files"))
    ]
    assert {"manifest.json", "shards/manifest.json", "tokenizer/tokcore.json"} <= {*left}
    assert list_ids(output) == list_ids(output, at=4) == list_ids(output, at=5) == ids
    require_sound(corpus)
    require_without(corpus, GONE)
    update_here(corpus / "build.toml", output)
    write_documents(corpus, "en/h.jsonl", 3)
    assert update_here(corpus / "build.toml", output).oldest == 4
    require_sound(corpus)


def test_verification_names_the_expiry_that_takes_all(corpus):
    output = str(corpus / "out")
    remove_here(corpus, {"f-1"})
    problems = verify_removed(output, []).problems
    assert len({one.split(":")[1] for one in problems}) > 1, "not all are gone since the same commit"
    assert {one.rpartition(": ")[2] for one in problems} == {"run `tokcore expire --keep 1`"}
    expire(output, keep=1)
    assert verify_removed(output, []).problems == ()


def test_readers_are_told_what_expired(corpus):
    output = corpus / "out"
    expire(str(output), keep=2)
    for at in range(3):
        for read in (
            lambda at: package.open_shards(output, at=at),
            lambda at: package.open_counts(output, "en", at=at),
            lambda at: read_log(str(output), at),
        ):
            with pytest.raises(ConfigError, match=r"that commit is expired; the oldest is 3"):
                read(at)
        with pytest.raises(ConfigError, match=r"that commit is expired; the oldest is 3"):
            verify(str(output), at=at)
    assert verify(str(output), at=3).problems == ()
    assert list_ids(output, at=3) >= GONE
    assert verify_removed(str(output), sorted(GONE)).problems != ()
    expire(str(output), keep=1)
    report = verify_removed(str(output), sorted(GONE))
    assert (report.problems, report.commits) == ((), 3)
    assert "commit 0, which is expired and may have had the documents" in report.notes[0]


def test_no_commit_is_before_the_build(corpus):
    output = corpus / "out"
    for read in (
        lambda at: package.open_shards(output, at=at),
        lambda at: package.open_counts(output, "en", at=at),
        lambda at: read_log(str(output), at),
    ):
        with pytest.raises(ConfigError, match=r"at = -1: .*out has the commits 0 to 4"):
            read(-1)
    shutil.rmtree(output / "log")
    with pytest.raises(ConfigError, match=r"at = -1: .*out has the commits 0 to 0"):
        package.open_shards(output, at=-1)


def test_a_proof_of_a_file_that_only_parts_have_names_them(corpus):
    """No commit has the build's own folder any more."""
    output = str(corpus / "out")
    parts = [one.path for one in read_log(output).parts()]
    with pytest.raises(ConfigError) as error:
        prove_file(read_output(output), "tokenizer/tokenizer.json")
    named = ", ".join(f"{path}/tokenizer/tokenizer.json" for path in parts[:3])
    assert f"no manifest of commit 4 names 'tokenizer/tokenizer.json'. It names {named}" in str(error.value)
    assert (
        prove_file(read_output(output), f"{parts[0]}/tokenizer/tokenizer.json").root
        == read_log(output).commits[-1].root
    )
    with pytest.raises(ConfigError, match=r"no manifest of commit 4 names 'tokenizers/0a/tokcore.json'\. Give its"):
        prove_file(read_output(output), "tokenizers/0a/tokcore.json")


def test_an_expiry_is_no_state(corpus):
    output = str(corpus / "out")
    assert expire(output, keep=9).commit is None
    assert expire(output, keep=2).commit.oldest == 3
    before = tree(corpus / "out")
    assert expire(output, keep=2)[:4] == (None, 0, 0, 3)
    assert tree(corpus / "out") == before
    assert expire(output, keep=1).commit.oldest == 4
    with pytest.raises(ConfigError, match="--keep 0"):
        expire(output, keep=0)


def test_a_commit_that_a_run_reads_stays(corpus):
    """Whatever else is given: it, and all later ones. Alone, just those stay."""
    output = str(corpus / "out")
    warned = []
    assert expire(output, keep=1, keep_commit=2, dry_run=True, say=warned.append).oldest == 2
    assert "commits 0 to 1 cannot be read then" in warned[0]
    assert expire(output, keep=1, keep_commit=1).commit.oldest == 1
    assert len(package.open_shards(output, at=1)) > 0
    assert expire(output, keep=9, keep_commit=3).commit is None
    assert expire(output, keep_commit=3).commit.oldest == 3
    for wrong in (2, 99):
        with pytest.raises(ConfigError, match=rf"--keep-commit {wrong}: .* has the commits 3 to 6 that can be read"):
            expire(output, keep_commit=wrong)
    unnamed = tokcore("expire", output)
    assert (unnamed.returncode, "--keep-commit N" in unnamed.stderr) == (2, True)


def test_commits_expire_by_age(corpus, monkeypatch):
    output = corpus / "out"
    assert expire(str(output), older_than_s=3600).commit is None
    real, ages = storage.read_footprint, {"1.json": 9, "2.json": 5, "3.json": 2}

    def read_as_older(url):
        found = real(url)
        return found._replace(changed=found.changed - 3600 * ages.get(url.rsplit("/", 1)[-1], 0))

    monkeypatch.setattr(storage, "read_footprint", read_as_older)
    # The build and commit 1 were followed by another one more than four hours ago.
    assert expire(str(output), older_than_s=4 * 3600).commit.oldest == 2
    assert expire(str(output), older_than_s=0).commit.oldest == 4


@pytest.mark.parametrize("point", crashpoints.EXPIRING_POINTS)
def test_a_killed_expiry_goes_on(corpus, point):
    shutil.copytree(corpus, corpus.parent / "undisturbed")
    expire(str(corpus.parent / "undisturbed" / "out"), keep=1)
    command = ("expire", corpus / "out", "--keep", "1")
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    assert read_log(str(corpus / "out")).oldest == 4
    report = verify(str(corpus / "out"))
    assert (report.problems, report.num_leftovers > 10) == ((), True)
    shutil.copytree(corpus, corpus.parent / "other")
    assert tokcore(*command).returncode == 0
    assert tree(corpus / "out") == tree(corpus.parent / "undisturbed" / "out")
    # gc finishes it, too.
    assert gc(str(corpus.parent / "other" / "out"), "0").left == ()
    assert tree(corpus.parent / "other" / "out") == tree(corpus.parent / "undisturbed" / "out")


def test_parts_of_a_commit_that_came_meanwhile_stay(corpus):
    """An update that put back an old version names the old part again, after the expiry had committed."""
    output = corpus / "out"
    file = corpus / "en" / "g.jsonl"
    data, times = file.read_bytes(), file.stat()
    write_documents(corpus, "en/g.jsonl", 2, word="other")
    update_here(corpus / "build.toml", output)
    others = []

    def overtake(point):
        if point == "expire.committed" and not others:
            others.append(point)
            file.write_bytes(data)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            others.append(update_here(corpus / "build.toml", output))

    crashpoints.watch(overtake)
    try:
        expire(str(output), keep=1)
    finally:
        crashpoints.watch(None)
    assert others[1].why.changed == 1
    require_sound(corpus)


def forge(output, **changes):
    path = output / "log" / "5.json"
    commit = {**json.loads(path.read_bytes()), **changes}
    path.write_bytes(write_canonical_json({key: value for key, value in commit.items() if value is not None}))


@pytest.mark.parametrize(
    "changes",
    [
        {"oldest": 5},
        {"oldest": 9},
        {"why": {"command": "update", "new": 0, "changed": 0, "vanished": 0, "read_again": 0}},
    ],
)
def test_verification_names_a_forged_expiry(corpus, changes):
    output = corpus / "out"
    expire(str(output), keep=1)
    forge(output, **changes)
    (problem,) = verify(str(output), at=None, quick=True).problems[:1]
    assert problem.startswith("log/5.json: says that commit ")


def test_verification_proves_the_chain_of_expired_commits(corpus):
    output = corpus / "out"
    expire(str(output), keep=1)
    path = output / "log" / "2.json"
    commit = json.loads(path.read_bytes())
    commit["totals"]["documents"] += 1
    path.write_bytes(write_canonical_json(commit))
    assert "log/3.json: does not follow from log/2.json" in verify(str(output)).problems[0]
    path.unlink()
    assert "log/3.json: there is no log/2.json: the log has a gap" in verify(str(output)).problems


# ------------------------------------------------------------------------------------------------------------- compact


def test_many_small_shards_become_few(corpus):
    output = corpus / "out"
    before = read_log(str(output)).commits[-1]
    ids = list_ids(output)
    done = compact_here(corpus)
    assert done.shards_after < done.shards_before
    totals = done.commit.totals
    assert totals.shards == before.totals.shards - done.shards_before + done.shards_after
    same = ("files", "records", "documents", "text_bytes", "tokens", "documents_digest", "removed")
    assert {name: getattr(totals, name) for name in same} == {name: getattr(before.totals, name) for name in same}
    assert done.commit.why == Reason("compact", read_again=done.commit.why.read_again)
    assert list_ids(output) == list_ids(output, at=4) == ids  # readers of the commit before go on
    require_sound(corpus)
    require_without(corpus, GONE)
    assert update_here(corpus / "build.toml", output) is None
    after = tree(output)
    assert compact_here(corpus).commit is None
    assert tree(output) == after


def test_a_part_whose_inputs_are_gone_stays(corpus):
    (corpus / "en" / "f.jsonl").unlink()
    parts = read_log(str(corpus / "out")).parts()
    done = compact_here(corpus)
    assert len(done.left) == 1
    assert done.left[0] in {part.path for part in parts}
    assert done.commit is None or done.left[0] in {part.path for part in done.commit.parts}
    assert verify(str(corpus / "out")).problems == ()


def test_a_compaction_that_loses_documents_is_refused(corpus, monkeypatch):
    """As if a reader gave other texts than before: the digest of the documents tells."""
    from tokcore_pipelines.history import compact_output

    real = compact_output.make_plan_again
    monkeypatch.setattr(
        compact_output, "make_plan_again", lambda files, removed, range_bytes: real([*files][:-1], removed, range_bytes)
    )
    before = {path for path in tree(corpus / "out") if path.startswith("log/")}
    with pytest.raises(LedgerError, match=r"files of the parts together \d+, read again \d+\. Nothing was changed"):
        compact_here(corpus)
    assert {path for path in tree(corpus / "out") if path.startswith("log/")} == before


@pytest.mark.parametrize("point", [*crashpoints.COMPACTING_POINTS, "encode.shard", "build.committed"])
def test_a_killed_compaction_goes_on_to_the_same_commit(corpus, point):
    shutil.copytree(corpus, corpus.parent / "undisturbed")
    compact_here(corpus.parent / "undisturbed")
    command = ("compact", corpus / "out", "--base", corpus)
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    eager.seed(0, 0)
    again = tokcore(*command)
    assert again.returncode == 0, again.stderr
    assert tree(corpus / "out") == tree(corpus.parent / "undisturbed" / "out")


def test_commands_say_what_they_did(corpus):
    output = corpus / "out"
    assert tokcore("expire", output).returncode == 2
    assert tokcore("expire", output, "--keep", "1", "--older-than", "1h").returncode == 2
    done = tokcore("compact", output, "--base", corpus)
    assert done.returncode == 0, done.stderr
    assert "compact: files" in done.stdout
    done = tokcore("expire", output, "--keep", "1")
    assert "commit 6: the oldest that can be read is commit 5" in done.stdout, done.stderr
    assert "no further commit expires" in tokcore("expire", output, "--keep", "1").stdout
    commits = json.loads(tokcore("log", output, "--json").stdout)
    assert [commit["expired"] for commit in commits] == [True] * 5 + [False] * 2
    assert "expired" in tokcore("log", output).stdout
    assert json.loads(tokcore("expire", output, "--older-than", "0", "--json").stdout)["commit"] is None
    assert tokcore("verify", output).returncode == 0


def test_a_build_of_its_own_has_nothing_to_gain(tmp_path):
    build_corpus(tmp_path)
    before = tree(tmp_path / "out")
    assert compact_here(tmp_path).commit is None
    assert expire(str(tmp_path / "out"), keep=1)[:4] == (None, 0, 0, 0)
    assert tree(tmp_path / "out") == before
