"""Outputs of an earlier release go on: they are recognised, updated, watched, verified and repaired.

Their inputs hold other bytes than they did (support.earlier), so a test that reads one again fails.
"""

from __future__ import annotations

import os
import shutil

import pytest
from support.builds import find_file, jsonl, run, tree, write
from support.builds import tokcore as tokcore_command
from support.earlier import unpack_earlier
from support.updates import update_here
from support.watchers import said, watching

import tokcore
from tokcore.errors import StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config

ROOT_OF = {
    "plain": "a2a0798def008f747515536cb0bd823e80c1e669a44aaa8f0f558e4efe909637",
    "changed": "ef723e8bed675a11402f2420d23573c9f35e199c415036e7a226d6195e1b9205",
}
# What the earlier release itself held after an update with the file of _add().
UPDATED_DIGEST_OF = {"plain": "3b7e0c0e8a3cac70", "changed": "2c3c32a5e7a8fd9b"}


@pytest.fixture(params=["plain", "changed"])
def earlier(request, tmp_path):
    return unpack_earlier(tmp_path, request.param)


def _add(folder):
    """A new file, one of whose languages the output spells with capitals."""
    documents = [{"id": f"g-{i}", "text": f"g tells story {i} of g, again", "lang": "EN"} for i in range(4)]
    write(folder / "in" / "mixed" / "g.jsonl", jsonl(documents))


def test_the_build_is_recognised(tmp_path):
    earlier = unpack_earlier(tmp_path, "plain")
    build = Build(load_config(str(earlier / "build.toml")), RunOptions(here=True))
    assert (build.run().root, build.made) == (ROOT_OF["plain"], [])


def test_nothing_is_new(earlier):
    assert update_here(earlier / "build.toml", earlier / "out") is None
    with watching(earlier) as service:
        service.go_round()
    first, warning, waiting = said(service).splitlines()
    assert first == "watch: this watcher commits"
    assert waiting.startswith("watch: nothing waits")
    assert "a new build would spell otherwise EN (en), pt-br (pt-BR). build.lang_normalize decides" in warning
    found = verify(str(earlier / "out"))
    assert (found.problems, found.root) == ((), ROOT_OF[earlier.name])


def test_a_file_is_added_under_the_rules_that_the_output_has(earlier):
    _add(earlier)
    commit = update_here(earlier / "build.toml", earlier / "out")
    assert (commit.why.new, commit.why.read_again) == (1, 0)
    assert commit.totals.documents_digest[:16] == UPDATED_DIGEST_OF[earlier.name]
    shards = tokcore.open_shards(earlier / "out", split="all")
    assert {shards.document(i).lang for i in range(len(shards))} >= {"de", "EN", "pt-br"}
    assert verify(str(earlier / "out")).problems == ()


def test_a_watcher_commits_it_as_an_update_does(earlier):
    _add(earlier)
    with watching(earlier) as service:
        service.go_round()
    assert "files 1 new" in said(service)
    assert read_log(str(earlier / "out")).commits[-1].totals.documents_digest[:16] == UPDATED_DIGEST_OF[earlier.name]


def test_what_follows_from_other_files_is_repaired(earlier):
    gone = [*(earlier / "out" / "tokenizer").glob("*.tiktoken"), earlier / "out" / "README.md"]
    _require_repaired(earlier, gone)


def test_shards_are_repaired_from_the_inputs(tmp_path):
    earlier = unpack_earlier(tmp_path, "changed", is_readable=True)
    _require_repaired(earlier, [*(earlier / "out" / "parts").rglob("*.bin")])


def _require_repaired(earlier, gone):
    for path in gone:
        path.unlink()
    done = repair(str(earlier / "out"), base=str(earlier), options=RunOptions(here=True))
    assert (done.left, all(path.exists() for path in gone)) == ((), True)
    assert verify(str(earlier / "out")).problems == ()


def test_what_earlier_releases_rejected_stays_rejected_there(tmp_path):
    """Numbers that are no JSON, ids of other types, strings in runs: a new output has them, and no plan tells."""
    folder = unpack_earlier(tmp_path, "rejects", is_readable=True)
    output, base = folder / "out", str(folder)
    committed = tree(output)
    report = verify(str(output), decode=None, base=base)
    assert (report.problems, report.num_decoded) == ((), 26)
    shard = find_file(output, "shards/arrow/train-00000-00000.arrow")
    assert rebuild(str(output), "train-00000-00000", base).problems == ()
    for path in (shard, output / "rejected" / "rejected.jsonl", find_file(output, "counts/en.parquet")):
        path.unlink()
    report = repair(str(output), base, RunOptions(here=True))
    assert (len(report.repaired), report.left) == (3, ())
    assert tree(output) == committed
    assert run(folder / "build.toml", tmp_path / "new").totals.records.documents == 26 + 3 + 3 + 3


@pytest.mark.parametrize("kept", [("plan", "rejected", "counts"), ("plan", "rejected", "counts", "tokenizer")])
def test_what_an_earlier_release_counted_is_encoded_as_it_counted(tmp_path, capfd, kept):
    """It was killed before it encoded; records that it rejected stay rejected, as in what it would have made."""
    folder = unpack_earlier(tmp_path, "rejects", is_readable=True)
    committed = tree(folder / "out")
    for path in (folder / "out").iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    run(folder / "build.toml", folder / "out")
    made = tree(folder / "out")
    del committed["manifest.json"], made["manifest.json"]  # names the tokenizer's files, some of which are others now
    same = [name for name in committed if name.startswith("shards/") and name != "shards/manifest.json"]
    assert len(same) > 2
    assert {name: made[name] for name in same} == {name: committed[name] for name in same}
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    assert capfd.readouterr().err.count("They stay rejected in this output") == 1


def test_what_two_releases_counted_is_to_be_counted_again(tmp_path):
    folder = unpack_earlier(tmp_path, "rejects", is_readable=True)
    for name in ("shards", "tokenizer"):
        shutil.rmtree(folder / "out" / name)
    (folder / "out" / "manifest.json").unlink()
    jsonl_of_both = folder / "in" / "lines.jsonl"
    lines, facts = jsonl_of_both.read_bytes(), jsonl_of_both.stat()
    jsonl_of_both.write_bytes(lines.replace(b'"text"', b'"test"', 1))  # as if one more record had been rejected
    os.utime(jsonl_of_both, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(StageError, match="count again: --replace count"):
        run(folder / "build.toml", folder / "out")
    again = tokcore_command("build", folder / "build.toml", "--replace", "count", "--quiet")
    assert again.returncode == 0, again.stderr
