"""`tokcore learn --at` and `tokcore encode --at -o`: any commit of an output gives what a build of its files gives."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from support.builds import build_file, run, tokcore, tree
from support.removals import build_corpus, remove_here, write_documents
from support.updates import update_here

import tokcore as package
from tokcore.errors import ConfigError, LearnError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.learn_settings import read_learn_config
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.build.tokenizers_beside import find_tokenizer, list_beside
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.commands.print_commits import describe_log
from tokcore_pipelines.history.encode_commit import make_encoding
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.learn_beside import learn_at
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints
from tokcore_schemas.build_tables import TokenizerTable
from tokcore_schemas.config import load_config


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An output with an update, a removal and another update: commits 0 to 3."""
    folder = tmp_path_factory.mktemp("learn")
    build_corpus(folder)
    write_documents(folder, "en/e.jsonl", 9, word="zebra")
    update_here(folder / "build.toml", folder / "out")
    remove_here(folder, {"a-3", "e-1"})
    write_documents(folder, "mixed/f.jsonl", 6, "de", word="giraffe")
    update_here(folder / "build.toml", folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def open_here(folder: Path, *assigned: str, output: str = "out") -> Build:
    config = load_config(str(folder / "build.toml"), assigned)
    return Build(config, RunOptions(here=True), str(folder / output))


def learn(folder: Path, at: int | None = None, *assigned: str):
    (one,) = learn_at(open_here(folder, *assigned), at)
    return one


def encode(folder: Path, target: str, at: int | None = None, tokenizer: str = "", *assigned: str):
    build = make_encoding(open_here(folder, *assigned), str(folder / target), at, tokenizer)
    return build.run()


def keep_documents(folder: Path, gone=(), without=()) -> None:
    """Make the input files those of a state: without some files, and without the documents of some ids."""
    for name in without:
        (folder / name).unlink()
    for path in [*folder.glob("en/*"), *folder.glob("mixed/*")]:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if json.loads(line)["id"] not in gone))


SIZE = "learn.vocab_size=283"  # larger than the one that the build learned
STATES = {  # commit -> what it lacks of the files as they are now: ids, files
    0: ((), ("en/e.jsonl", "mixed/f.jsonl")),
    1: ((), ("mixed/f.jsonl",)),
    2: (("a-3", "e-1"), ("mixed/f.jsonl",)),
    3: (("a-3", "e-1"), ()),
}


@pytest.mark.parametrize("at", STATES)
def test_a_tokenizer_of_a_commit_is_that_of_a_build_of_its_documents(corpus, at):
    learned = learn(corpus, at, SIZE)
    assert learned.is_new
    assert verify(str(corpus / "out")).problems == ()
    keep_documents(corpus, *STATES[at])
    config = load_config(str(corpus / "build.toml"), (SIZE,))
    fresh = Build(config, RunOptions(here=True), str(corpus / "fresh"))
    fresh.run()
    assert tree(corpus / "fresh/tokenizer").keys() == tree(corpus / "out" / learned.path).keys()
    mine, theirs = tree(corpus / "out" / learned.path), tree(corpus / "fresh/tokenizer")
    assert {**mine, "manifest.json": ""} == {**theirs, "manifest.json": ""}
    manifests = [
        json.loads((place / "manifest.json").read_bytes())
        for place in (corpus / "out" / learned.path, corpus / "fresh/tokenizer")
    ]
    for key in ("config", "totals", "languages", "files"):
        assert manifests[0][key] == manifests[1][key]


def test_an_output_says_itself_how_it_is_learned_from(corpus):
    """`tokcore learn OUTPUT`, without a build file: with the settings of its own tokenizer, from its newest commit."""
    done = tokcore("learn", corpus / "out", "--set", SIZE, "--json")
    assert done.returncode == 0, done.stderr
    (learned,) = json.loads(done.stdout)
    assert learned["is_new"]
    again = learn(corpus, None, SIZE)
    assert (again.path, again.is_new) == (learned["path"], False)
    assert json.loads(tokcore("learn", corpus / "out", "--at", "0", "--json").stdout)[0]["path"] == "tokenizer"
    assert verify(str(corpus / "out")).problems == ()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--output", "other"), "is the output that is learned from"),
        (("--set", "count.sample=0.5"), "was counted with settings that this command line does not have"),
    ],
)
def test_what_an_output_cannot_be_learned_with(built, args, said):
    done = tokcore("learn", built / "out", *args)
    assert done.returncode == 2
    assert said in done.stderr


LEARNED = (
    """
[normalize]
steps = ["nfc"]
[count]
max_pretoken_bytes = 100
sample = 0.75
mask = ["email"]
[learn]
vocab_size = [285, 280]
min_count = 3
min_documents = 2
[mix]
strategy = "weights"
weights = { en = 1.5, "\u0064\u0065" = 0.25 }
[special]
"<|\\"end\\"|>" = "document_end"
"<|pad|>" = { role = "padding", id = 295 }
""",
    """
[normalize]
add_dummy_prefix = false
[learn]
model = "unigram"
vocab_size = 60
byte_fallback = false
allow_smaller = true
character_coverage = 0.9995
split_digits = true
control_symbols = ["<a>"]
[mix]
strategy = "unimax"
max_epochs = 2.5
""",
)


@pytest.mark.parametrize("settings", LEARNED)
def test_settings_of_learning_are_read_from_manifests(tmp_path, settings):
    for lang in ("en", "de"):
        write_documents(tmp_path, f"mixed/{lang}.jsonl", 30, lang)
    source = '[[source]]\nlang_field = "lang"\nfiles = "mixed/*.jsonl"\n'
    path = build_file(tmp_path, source, settings, build="max_rejected = 1")
    run(path, tmp_path / "out")
    config, read = load_config(str(path)), read_learn_config(str(tmp_path / "out"))
    assert read.learn_identity() == config.learn_identity()
    assert read.count_identity() == config.count_identity()
    assert read.sources == ()


def test_several_tokenizers_stand_beside_one_set_of_counts(corpus):
    before = tree(corpus / "out")
    sizes = learn_at(open_here(corpus, "learn.vocab_size=[284,285]"))
    assert [(one.vocab_size, one.is_new) for one in sizes] == [(284, True), (285, True)]
    assert [one.is_new for one in learn_at(open_here(corpus, "learn.vocab_size=[284,285]"))] == [False, False]
    after = tree(corpus / "out")
    assert {path: after[path] for path in before} == before
    own = learn(corpus, 0)
    assert (own.path, own.is_new) == ("tokenizer", False)
    newest = learn(corpus, None, SIZE)
    assert newest.is_new
    assert newest.path != own.path
    log = describe_log(str(corpus / "out"))
    assert log[3]["tokenizers"] == sorted(one.path for one in (*sizes, newest))
    for one in (*sizes, newest):
        tokenizer = package.Tokenizer.load(corpus / "out" / one.path)
        assert (tokenizer.fingerprint, tokenizer.vocab_size) == (one.fingerprint, one.vocab_size)
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()
    assert gc(str(corpus / "out"), "0").removed == ()
    assert update_here(corpus / "build.toml", corpus / "out") is None


def test_extending_brings_what_a_grown_corpus_has(corpus):
    (corpus / "build.toml").write_text(
        (corpus / "build.toml")
        .read_text()
        .replace("vocab_size = 280", f'vocab_size = 290\nextend = "{corpus / "out"}"')
    )
    learned = learn(corpus, 3)
    own, extended = (package.Tokenizer.load(corpus / "out" / path) for path in ("tokenizer", learned.path))
    assert extended.spec.model.tokens[: len(own.spec.model.tokens)] == own.spec.model.tokens
    assert learned.vocab_size == 290
    assert len(extended.encode("giraffe tells the story")) < len(own.encode("giraffe tells the story"))
    manifest = list_beside(str(corpus / "out"))[learned.fingerprint]
    assert manifest.config.extends == own.fingerprint
    assert verify(str(corpus / "out")).problems == ()


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("beside", [False, True])
def test_a_commit_is_encoded_as_a_build_of_its_documents(corpus, at, beside):
    named = learn(corpus, 3, SIZE).fingerprint[:10] if beside else ""
    done = encode(corpus, "second", at, named)
    assert verify(str(corpus / "second"), decode=None, base=str(corpus)).problems == ()
    place = find_tokenizer(str(corpus / "out"), named) if beside else str(corpus / "out")
    keep_documents(corpus, *STATES[at])
    config = load_config(str(corpus / "build.toml"))
    config = dataclasses.replace(config, tokenizer=TokenizerTable(from_=place), special=())
    fresh = Build(config, RunOptions(here=True), str(corpus / "fresh")).run()
    assert done.totals.documents_digest == fresh.totals.documents_digest
    assert done.languages == fresh.languages
    if not STATES[at][0]:  # what is removed leaves tombstones in the plan, so only then is the plan the same
        assert done.root == fresh.root
    for split in ("train", "validation"):
        mine, theirs = (package.open_shards(corpus / name, split) for name in ("second", "fresh"))
        assert sorted(ids.tolist() for ids in mine) == sorted(ids.tolist() for ids in theirs)


def test_all_that_was_removed_by_then_is_left_out_of_each_file(corpus):
    remove_here(corpus, {"f-0"})  # which makes the part of the file f again, and no other
    plan = make_encoding(open_here(corpus), str(corpus / "second"), 4).chosen
    assert {one.removed for one in plan.settings} == {read_log(str(corpus / "out")).tombstones(4)}


def test_a_new_output_may_have_other_settings(corpus):
    done = encode(corpus, "second", 3, "", "shuffle.seed=7", 'shards.formats=["parquet"]')
    assert done.config.shards.formats == ("parquet",)
    assert done.config.shards.shuffle == 7
    assert verify(str(corpus / "second"), decode=None, base=str(corpus)).problems == ()


def test_another_output_in_the_way_of_a_commit_stays(corpus):
    """No --replace of the build file would make it again, since that is of another output."""
    encode(corpus, "second", 0)
    before = tree(corpus / "second")
    with pytest.raises(ConfigError) as error:
        encode(corpus, "second", 3)
    assert "the output holds a different build:\n  plan: " in str(error.value)
    assert "source.removed was not set, now 2 names (of " in str(error.value)
    assert str(error.value).endswith("It was left as it is: choose another output for the documents of a commit.")
    assert tree(corpus / "second") == before


def test_what_cannot_be_done_is_refused_by_name(corpus):
    with pytest.raises(ConfigError, match="has the commits 0 to 3"):
        learn(corpus, 4)
    with pytest.raises(ConfigError, match=r"was counted in another way: pretokenize\.pattern"):
        learn(corpus, 3, "pretokenize.pattern=gpt2")
    with pytest.raises(LearnError, match="the counts give only"):
        learn(corpus, 3, "learn.vocab_size=60000")
    with pytest.raises(ConfigError, match="is the output itself"):
        encode(corpus, "out", 3)
    with pytest.raises(ConfigError, match="no tokenizer begins like that"):
        encode(corpus, "second", 3, "ffffff")
    with pytest.raises(ConfigError, match="not there"):
        learn_at(open_here(corpus, output="none"), 0)
    (corpus / "en/a.jsonl").unlink()
    with pytest.raises(StageError, match=r"en/a.jsonl: gone, or not as when .* commit 0 cannot be read again"):
        encode(corpus, "second", 0)
    assert not (corpus / "second").exists()
    expire(str(corpus / "out"), keep=1)
    with pytest.raises(ConfigError, match="that commit is expired"):
        learn(corpus, 1)


def test_a_removal_names_the_tokenizers_that_saw_the_documents(corpus):
    saw, did_not = learn(corpus, 1, SIZE), learn(corpus, 2, "learn.vocab_size=284")
    notes = verify_removed(str(corpus / "out"), ["a-3"]).notes
    assert any(saw.path in note and "learned from commit 1, with" in note for note in notes)
    assert not any(did_not.path in note for note in notes)
    expire(str(corpus / "out"), keep=1)
    notes = verify_removed(str(corpus / "out"), ["a-3"]).notes
    assert any(saw.path in note and "expired" in note for note in notes)
    assert not any(did_not.path in note for note in notes)


def test_an_output_whose_build_is_replaced_must_have_none(tmp_path):
    build_corpus(tmp_path)
    learn(tmp_path, 0, "learn.vocab_size=284")
    replacing = open_here(tmp_path)
    replacing.replace = "encode"
    with pytest.raises(ConfigError, match="has tokenizers that were learned from it"):
        replacing.run()


@pytest.mark.parametrize("point", [*crashpoints.LEARNING_POINTS, "learn.begin", "learn.learned", "write.after_sync"])
def test_learning_that_was_killed_goes_on_to_the_same_tokenizer(corpus, point):
    shutil.copytree(corpus / "out", corpus / "undisturbed")
    learn_at(open_here(corpus, SIZE, output="undisturbed"), 3)
    command = ("learn", corpus / "build.toml", "--at", "3", "--set", SIZE)
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    assert tokcore(*command).returncode == 0
    assert tree(corpus / "out") == tree(corpus / "undisturbed")


def test_gc_removes_what_a_killed_one_left(corpus):
    before = tree(corpus / "out")
    killed = tokcore(
        "learn",
        corpus / "build.toml",
        "--at",
        "3",
        "--set",
        SIZE,
        env={**os.environ, "TOKCORE_CRASH": "learn.published:1"},
    )
    assert killed.returncode != 0
    assert tree(corpus / "out") != before
    report = verify(str(corpus / "out"))
    assert report.problems == ()
    assert report.num_leftovers > 0
    gc(str(corpus / "out"), "0")
    assert tree(corpus / "out") == before


def test_commands(corpus):
    path = corpus / "build.toml"
    done = tokcore("learn", path, "--at", "1", "--set", "learn.vocab_size=284", "--json")
    (one,) = json.loads(done.stdout)
    assert one["path"] == f"tokenizers/{one['fingerprint']}"
    again = tokcore("learn", path, "--at", "1", "--set", "learn.vocab_size=284").stdout
    assert "284 ids" in again
    assert "which was there" in again
    assert f"learned {one['path']}" in tokcore("log", corpus / "out").stdout
    newest = tokcore("learn", path, "--quiet", "--set", SIZE).stdout.strip()
    assert newest in tokcore("log", corpus / "out").stdout
    done = tokcore("encode", path, "--at", "3", "--tokenizer", one["fingerprint"][:12], "-o", corpus / "new", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == json.loads((corpus / "new/manifest.json").read_bytes())["root"]
    refused = tokcore("encode", path, "--at", "3")
    assert (refused.returncode, "name it with -o OUTPUT" in refused.stderr) == (2, True)
    exported = tokcore("export", corpus / "out" / one["path"], "--to", "tiktoken", "-o", corpus / "small.tiktoken")
    assert exported.returncode == 0, exported.stderr


# ------------------------------------------------------------------------------------------------------ what is damaged


def damage_bytes(place: Path) -> None:
    (place / "tokenizer.json").write_bytes((place / "tokenizer.json").read_bytes() + b" ")


def damage_by_a_file(place: Path) -> None:
    (place / "more.json").write_bytes(b"{}")


def damage_by_loss(place: Path) -> None:
    (place / "tokcore.json").unlink()


def damage_name(place: Path) -> None:
    place.rename(place.with_name("0" * 64))


def damage_commit(place: Path) -> None:
    manifest = json.loads((place / "manifest.json").read_bytes())
    manifest["inputs"]["commit"]["sha256"] = "0" * 64
    (place / "manifest.json").write_bytes(write_canonical_json(manifest))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (damage_bytes, "tokenizer.json: "),
        (damage_by_a_file, "more.json: no manifest names it"),
        (damage_by_loss, "tokcore.json: cannot read: "),
        (damage_name, "tokcore.json: its fingerprint is"),
        (damage_commit, "was learned from a commit that the log does not have"),
    ],
)
def test_verify_names_what_is_wrong(corpus, damage, said):
    damage(corpus / "out" / learn(corpus, 2, SIZE).path)
    problems = verify(str(corpus / "out")).problems
    assert any(said in problem and problem.startswith("tokenizers/") for problem in problems), problems
