"""Shards of a smaller vocabulary out of shards: each output has the root that a build of that size has."""

from __future__ import annotations

import json
import shutil

import pytest
from support.builds import build_file, make_config, run, small_corpus, tokcore, tree

from tokcore import open_shards
from tokcore.errors import ConfigError
from tokcore.tokenizer.smaller import make_smaller
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build import make_tokenizer
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.smaller_output import make_smaller_output
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.work import encode_item, scatter_item
from tokcore_schemas.config import load_config
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_table import SHARDS

PLAIN = """
[plan]
range_bytes = 4000
[learn]
vocab_size = {size}
[special]
"<|pad|>" = "padding"
"<|end|>" = "document_end"
[shards]
target_tokens = 1500
validation = 0.1
formats = {formats}
by = "{by}"
"""
SHUFFLED = (
    PLAIN.replace("1500", "300")  # so that the shuffle has two parts, and four of the smaller size
    + """
[shuffle]
seed = 7
[mixture]
strategy = "temperature"
alpha = 0.5
[pack]
length = 128
"""
)
KINDS = {
    "plain": (PLAIN, "plan", ["arrow"]),
    "by language": (PLAIN, "lang", ["arrow", "megatron"]),
    "rows": (PLAIN + '[pack]\nlength = 64\nstrategy = "concatenate"\n', "plan", ["parquet"]),
    "shuffled": (SHUFFLED, "plan", ["arrow", "nanogpt"]),
}


def settings(kind, size):
    text, by, formats = KINDS[kind]
    return text.format(size=size, by=by, formats=json.dumps(formats))


def refuse(*_, **__):
    raise AssertionError("text was read, or merges were learned")


@pytest.fixture
def without_text(monkeypatch):
    monkeypatch.setattr(encode_item, "encode_texts", refuse)
    monkeypatch.setattr(scatter_item, "encode_texts", refuse)
    monkeypatch.setattr(make_tokenizer, "learn_from", refuse)


@pytest.fixture(scope="module", params=sorted(KINDS))
def built(request, tmp_path_factory):
    """(folder, kind) with outputs of two sizes."""
    folder = tmp_path_factory.mktemp("sizes")
    small_corpus(folder)
    for size in (500, 300):
        run(build_file(folder, settings=settings(request.param, size), name=f"{size}.toml"), folder / f"out{size}")
    return folder, request.param


def test_a_build_from_a_larger_one_reads_no_text(built, tmp_path, without_text):
    folder, _ = built
    options = RunOptions(1, here=True)
    build = Build(load_config(str(folder / "300.toml")), options, str(tmp_path / "new"), reuse=str(folder / "out500"))
    made = build.run()
    before = find_manifest(str(folder / "out500"), SHARDS)
    assert made.totals.tokens > before.totals.tokens
    if before.config.shuffle is not None:
        parts = [choose_num_parts(one.tokens, before.config.target_tokens) for one in (before.totals, made.totals)]
        assert parts == [2, 4]
    assert tree(tmp_path / "new") == tree(folder / "out300")


def test_an_output_of_a_size_follows_from_an_output_alone(built, tmp_path, without_text):
    """Its sources are gone, and no build file is there."""
    folder, _ = built
    away = shutil.copytree(folder / "out500", tmp_path / "away")
    build = make_smaller_output(str(away), 300, str(tmp_path / "new"), RunOptions(1, here=True))
    made = build.run()
    assert tree(tmp_path / "new") == tree(folder / "out300")
    assert make_smaller_output(str(away), 300, str(tmp_path / "new"), RunOptions(1, here=True)).run() == made
    assert not verify(str(tmp_path / "new"), base=str(folder)).problems


IMPORTED = """
[tokenizer]
from = "{tokenizer}"
[shards]
target_tokens = 1500
formats = ["arrow", "megatron"]
[shuffle]
seed = 3
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """(folder, an output whose tokenizer is a tokenizer.json)."""
    folder = tmp_path_factory.mktemp("imported")
    small_corpus(folder)
    learned = run(build_file(folder, settings=settings("plain", 500), name="learn.toml"), folder / "learned")
    assert learned.totals.vocab_size == 500
    theirs = "learned/tokenizer/tokenizer.json"
    run(build_file(folder, settings=IMPORTED.format(tokenizer=theirs), name="large.toml"), folder / "large")
    return folder, folder / "large"


def test_an_imported_tokenizer_becomes_smaller(imported, tmp_path, without_text, monkeypatch):
    """The root is that of a build that imports the smaller one."""
    folder, large = imported
    make_smaller_output(str(large), 300, str(folder / "small"), RunOptions(1, here=True)).run()
    monkeypatch.undo()
    small = IMPORTED.format(tokenizer="small/tokenizer/tokcore.json")
    run(build_file(folder, settings=small, name="small.toml"), tmp_path / "build")
    assert tree(folder / "small") == tree(tmp_path / "build")


def list_ids(shards):
    return [ids.tolist() for ids in shards]


def decode_all(output):
    tokenizer, end = Tokenizer.load(str(output / "tokenizer" / "tokcore.json")), b"<|end|>"
    return [tokenizer.decode(ids).removesuffix(end) for ids in open_shards(output, "all")]


@pytest.mark.parametrize("format", ["arrow", "olmo", "megatron"])
def test_shards_of_others_become_smaller_with_the_tokenizer_that_is_given(imported, tmp_path, format):
    folder, _ = imported
    texts = decode_all(folder / "learned")
    foreign = tmp_path / "foreign"
    assert tokcore("convert", folder / "learned", "--to", format, "-o", foreign).returncode == 0
    more = ["--end", "499"] if format == "olmo" else []
    tokenizer = ["--from-tokenizer", folder / "learned"]
    done = tokcore(
        *("convert", foreign, *tokenizer, "--vocab-size", "300", "--to", "arrow", *more, "-o", tmp_path / "new")
    )
    assert done.returncode == 0, done.stderr
    small = make_smaller(Tokenizer.load(str(folder / "learned" / "tokenizer" / "tokcore.json")).spec, 300).spec
    ids = [[*Tokenizer(small).encode(text), 299] for text in texts]
    assert sorted(list_ids(open_shards(tmp_path / "new", "all"))) == sorted(ids)


def test_documents_are_encoded_again_with_another_tokenizer(imported, tmp_path):
    folder, _ = imported
    other = build_file(folder, settings=settings("plain", 320).replace('"plan"', '"lang"'), name="other.toml")
    run(other, tmp_path / "other")
    options = ("--tokenizer", tmp_path / "other", "--to", "arrow", "-o", tmp_path / "new")
    done = tokcore("convert", folder / "learned", *options)
    assert done.returncode == 0, done.stderr
    assert "decoded and encoded again, which takes longer" in done.stderr
    assert sorted(list_ids(open_shards(tmp_path / "new", "all"))) == sorted(
        list_ids(open_shards(tmp_path / "other", "all"))
    )


def test_what_cannot_become_smaller_is_refused_before_anything_is_written(imported, tmp_path):
    folder, large = imported
    drawn = settings("plain", 400) + "[encode]\ndropout = 0.1\n"
    run(build_file(folder, settings=drawn, name="drawn.toml"), tmp_path / "drawn")
    unigram = '[learn]\nmodel = "unigram"\nvocab_size = 400\n'
    run(build_file(folder, settings=unigram, name="unigram.toml"), tmp_path / "unigram")
    for output, size, why in (
        (tmp_path / "drawn", 300, "its ids were drawn"),
        (tmp_path / "unigram", 299, "that is so of byte-level BPE alone"),
        (large, 500, "--vocab-size = 500: expected 258 .* to 499"),
        (large, 12, "--vocab-size = 12: expected 258"),
        (folder, 300, "build"),
    ):
        with pytest.raises(ConfigError, match=why):
            make_smaller_output(str(output), size, str(tmp_path / "new"), RunOptions(1, here=True))
    done = tokcore("convert", folder / "learned", "-o", tmp_path / "new")
    assert (done.returncode, "--to FORMAT is missing" in done.stderr) == (2, True)
    rows = tokcore("convert", tmp_path / "drawn", "--tokenizer", large, "--vocab-size", "300", "-o", tmp_path / "new")
    assert (rows.returncode, "exclude each other" in rows.stderr) == (2, True)
    assert not (tmp_path / "new").exists()


def test_a_list_of_sizes_gives_an_output_of_each(built, tmp_path, monkeypatch):
    """Text is encoded once."""
    folder, kind = built
    several = settings(kind, "[300, 400, 500]") + "[encode]\nvocab_size = [500, 300]\n"
    path = build_file(folder, settings=several, name="several.toml")
    encoded = []
    own = encode_item.encode_texts
    for module in (encode_item, scatter_item):
        monkeypatch.setattr(module, "encode_texts", lambda job, *of: encoded.append(job.settings) or own(job, *of))
    made = run(path, tmp_path / "out")
    assert {one.fingerprint for one in encoded} == {made.totals.fingerprint}
    assert made.totals.vocab_size == 500
    assert tree(tmp_path / "out" / "shards") == tree(folder / "out500" / "shards")
    assert tree(tmp_path / "out-300") == tree(folder / "out300")
    assert not (tmp_path / "out-400").exists()
    shutil.rmtree(tmp_path / "out-300" / "shards")
    (tmp_path / "out-300" / "manifest.json").unlink()
    assert run(path, tmp_path / "out") == made
    assert tree(tmp_path / "out-300") == tree(folder / "out300")


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (
            '[learn]\nmodel = "wordpiece"\nvocab_size = [300, 400]\n',
            "of byte-level BPE alone, and learn.model is wordpiece",
        ),
        ("[learn]\nvocab_size = [300, 400]\n[encode]\ndropout = 0.1\n", "dropout or sampling excludes that"),
        ("[learn]\nvocab_size = [300, 500]\n", r"encode.vocab_size = 400: expected one of 300, 500"),
    ],
)
def test_lists_of_sizes_that_cannot_be_are_refused(tables, why):
    both = tables if "[encode]" in tables else f"{tables}[encode]\n"
    with pytest.raises(ConfigError, match=why):
        make_config(f"{both}vocab_size = [300, 400]\n")
