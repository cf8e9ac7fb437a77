"""Builds with PathPiece: shards, exports, `verify`, sizes, updates, another learning; and what needs merges."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import tokenizers
from support.builds import (
    ON_BEAM,
    REVERSED_SOURCES,
    SETTINGS,
    build_file,
    cut_corpus,
    jsonl,
    make_config,
    run,
    small_corpus,
    texts,
    tokcore,
    tree,
    write,
)
from support.updates import update_here

import tokcore as api
from tokcore.errors import ConfigError, LearnError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.stage_table import TOKENIZER, TOKENIZERS

PATHPIECE = SETTINGS.replace("vocab_size = 400", 'model = "pathpiece"\nvocab_size = 400')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pathpiece")
    small_corpus(folder)
    run(build_file(folder, settings=PATHPIECE), folder / "out")
    return folder


def read_root(output: Path) -> str:
    return json.loads((output / "manifest.json").read_bytes())["root"]


def is_sound(output: Path) -> bool:
    return verify(str(output), decode=None, options=RunOptions(here=True)).problems == ()


def test_shards_hold_the_ids_of_tokenizers_and_verify(folder):
    tokenizer, shards = api.Tokenizer.load(folder / "out"), api.open_shards(folder / "out")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "out" / "tokenizer" / "tokenizer.json"))
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    for lang in ("en", "ru", "zh"):
        for i, text in enumerate(texts(lang, 30)):
            ids = theirs.encode(text, add_special_tokens=False).ids
            assert stored[f"{lang}-{i}"] == [*ids, tokenizer.eos_id]
            assert tokenizer.decode(ids) == text.encode()
    assert is_sound(folder / "out")
    # What a build cannot write has no file.
    written = {path.name for path in (folder / "out" / "tokenizer").iterdir()}
    assert {"tokcore.json", "tokenizer.json", "tokenizer_config.json"} <= written
    assert not {"vocab.json", "merges.txt", "tokenizer.tiktoken"} & written


def test_the_manifest_says_what_was_learned(folder):
    made = json.loads((folder / "out" / "tokenizer" / "manifest.json").read_bytes())
    assert (made["config"]["model"], made["config"]["superset"]) == ("pathpiece", "2")
    assert made["totals"]["vocab_size"] == 400
    assert make_config("").learn_identity().superset == ""
    one, other = (make_config(f'[learn]\nmodel = "pathpiece"\nsuperset = {n}').learn_identity() for n in (2, 1.50))
    assert describe_changed_settings(one, other) == ["learn.superset was 2, now 1.5"]


def test_workers_order_and_the_cut_of_files_change_nothing(folder, tmp_path):
    reversed_file = build_file(folder, REVERSED_SOURCES, PATHPIECE, name="reversed.toml")
    assert run(reversed_file, tmp_path / "b", workers=2).root == read_root(folder / "out")
    assert run(folder / "build.toml", tmp_path / "beam", runner=ON_BEAM).root == read_root(folder / "out")
    run(build_file(tmp_path, cut_corpus(tmp_path), PATHPIECE), tmp_path / "c")
    first, cut = (find_manifest(str(one), TOKENIZER).totals for one in (folder / "out", tmp_path / "c"))
    assert first == cut


def test_a_killed_build_goes_on_to_the_same_bytes(folder, tmp_path):
    env = {**os.environ, "TOKCORE_CRASH": "learn.learned:1"}
    killed = tokcore("build", folder / "build.toml", "--output", tmp_path / "out", env=env)
    assert killed.returncode not in (0, 1), killed.stderr
    assert run(folder / "build.toml", tmp_path / "out").root == read_root(folder / "out")


def test_each_size_is_that_of_a_build_of_that_size(folder, tmp_path):
    settings = PATHPIECE.replace("vocab_size = 400", "vocab_size = [400, 330]")
    run(build_file(folder, settings=settings, name="sizes.toml"), tmp_path / "out")
    sizes = find_manifest(str(tmp_path / "out"), TOKENIZERS).totals.sizes
    for size in (330, 400):
        alone = PATHPIECE.replace("vocab_size = 400", f"vocab_size = {size}")
        run(build_file(folder, settings=alone, name="one.toml"), tmp_path / str(size))
        assert sizes[str(size)].fingerprint == find_manifest(str(tmp_path / str(size)), TOKENIZER).totals.fingerprint
    assert is_sound(tmp_path / "out")


def test_it_is_updated(tmp_path):
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings=PATHPIECE)
    run(path, tmp_path / "out")
    before = tree(tmp_path / "out" / "tokenizer")
    write(tmp_path / "ru.jsonl", jsonl([{"id": f"new-{i}", "text": text} for i, text in enumerate(texts("ru", 9, 7))]))
    assert update_here(path, tmp_path / "out").number == 1
    assert tree(tmp_path / "out" / "tokenizer") == before
    assert is_sound(tmp_path / "out")


def test_it_is_learned_from_an_output_again(folder, tmp_path):
    """With the output's own settings the tokenizer is that of the output, with another superset it is another one."""
    shutil.copytree(folder / "out", tmp_path / "out")
    own = api.Tokenizer.load(tmp_path / "out").spec
    for superset, is_same in (("2", True), ("1", False)):
        done = tokcore("learn", tmp_path / "out", "--set", f"learn.superset={superset}", "--json")
        assert done.returncode == 0, done.stderr
        (told,) = json.loads(done.stdout)
        learned = api.Tokenizer.load(tmp_path / "out" / told["path"]).spec
        assert (learned.model.kind, learned.vocab_size) == ("pathpiece", 400)
        assert (learned == own) is is_same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("curve",), "a curve needs a BPE that was learned, and this tokenizer is a PathPiece, which has no merges"),
        (("convert", "--vocab-size", "300", "-o", "smaller"), "the tokenizer is a PathPiece, which has no merges"),
        (("export", "--to", "tiktoken", "-o", "x"), "no merges give the same ids"),
        (("export", "--to", "gpt2", "-o", "x"), "no merges give the same ids"),
        (("export", "--to", "gguf", "-o", "x.gguf"), "PathPiece"),
        (("prune", "--counts", "out", "--vocab-size", "300", "-o", "x"), "only a byte-level BPE can be pruned"),
    ],
)
def test_what_needs_merges_is_refused_with_the_reason(folder, tmp_path, arguments, message):
    command, *options = arguments
    options = [str(folder / "out") if one == "out" else one for one in options]
    done = tokcore(command, folder / "out", *options, cwd=tmp_path)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())


def test_tokenize_says_why_there_are_no_merges(folder):
    command = ("tokenize", texts("en", 1)[0], "--tokenizer", folder / "out")
    (shown,) = json.loads(tokcore(*command, "--json").stdout)
    assert {(one["origin"], one["score"], *one["merges"]) for one in shown["tokens"]} == {("fewest", None)}
    printed = tokcore(*command).stdout.splitlines()[1:]
    assert len(printed) == shown["num_tokens"]
    assert all(line.endswith("one of the fewest tokens, which no merges made") for line in printed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('extend = "x.json"', "learn.extend is for bpe, whose merges can go on, and learn.model is pathpiece"),
        ("superset = 0.5", "learn.superset = 0.5: expected a number from 1 to 16"),
        ("superset = 17", "learn.superset = 17: expected a number from 1 to 16"),
        ("vocab_size = 200", r"learn.vocab_size = 200: must be at least 257 \(256 for bytes, 1 for special tokens\)"),
        ("[encode]\ndropout = 0.1", "encode.dropout is for bpe"),
    ],
)
def test_wrong_settings_name_the_key(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(f'[learn]\nmodel = "pathpiece"\n{settings}')


def test_a_size_that_the_counts_do_not_give_is_refused(folder, tmp_path):
    many = build_file(folder, settings=PATHPIECE.replace("= 400", "= 40000"), name="many.toml")
    with pytest.raises(LearnError, match=r"40000: the counts give only \d+ tokens: 256 bytes, \d+ longer tokens"):
        run(many, tmp_path / "many")
