"""Builds of words, characters, code points and bytes in a published layout: every command works on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard
from support.builds import REVERSED_SOURCES, SETTINGS, build_file, make_config, run, small_corpus, texts, tokcore, write
from transformers import ByT5Tokenizer, CanineTokenizer

import tokcore as api
from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import TOKENIZER

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "byt5.toml"
LEARN = {
    "word": 'model = "word"\nvocab_size = 90',
    "character": 'model = "character"\ncharacter_coverage = 0.95',
    "canine": 'model = "codepoint"\nlayout = "canine"',
    "byt5": 'model = "byte"\nlayout = "byt5"',
}


def settings(name: str) -> str:
    return SETTINGS.replace("vocab_size = 400", LEARN[name])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    small_corpus(folder)
    for name in LEARN:
        run(build_file(folder, settings=settings(name), name=f"{name}.toml"), folder / name)
    return folder


@pytest.mark.parametrize("name", LEARN)
def test_shards_hold_the_ids_and_verify(folder, name):
    shards, tokenizer = api.open_shards(folder / name), api.Tokenizer.load(folder / name)
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    unknown = 0
    for lang in ("en", "ru", "zh"):
        for i, text in enumerate(texts(lang, 30)):
            begin = [tokenizer.bos_id] if name == "canine" else []
            assert stored[f"{lang}-{i}"] == [*begin, *tokenizer.encode(text).tolist(), tokenizer.eos_id]
            unknown += stored[f"{lang}-{i}"].count(0) if name in ("word", "character") else 0
    report = verify(str(folder / name), decode=None, options=RunOptions(here=True))
    assert (report.problems, report.num_decoded) == ((), 102)
    languages = json.loads((folder / name / "manifest.json").read_bytes())["languages"]
    if name in ("word", "character"):
        assert unknown == sum(languages[lang]["unknown"] for lang in ("en", "ru", "zh")) > 0
        assert find_manifest(str(folder / name), TOKENIZER).totals.lossless is False
        assert (folder / name / "tokenizer" / "tokenizer.json").exists()


@pytest.mark.parametrize("name", LEARN)
def test_workers_and_order_change_nothing(folder, tmp_path, name):
    """(a): workers and the order of sources; settings that the model does not heed."""
    more = "max_token_bytes = 5" + ("" if name in ("canine", "byt5") else '\nlayout = "byt5"')
    text = settings(name).replace(LEARN[name], f"{LEARN[name]}\n{more}")
    again = run(build_file(folder, REVERSED_SOURCES, text, name=f"{name}.toml"), tmp_path / "out", workers=1)
    assert again.root == json.loads((folder / name / "manifest.json").read_bytes())["root"]


def test_ids_are_transformers_s(folder):
    for name, theirs in (("canine", CanineTokenizer()), ("byt5", ByT5Tokenizer())):
        shards = api.open_shards(folder / name)
        stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
        for i, text in enumerate(texts("ru", 30)):
            assert stored[f"ru-{i}"] == theirs(text)["input_ids"], name


def test_what_follows_from_a_model_and_its_layout():
    byt5 = make_config('[learn]\nmodel = "byte"\nlayout = "byt5"\n[special]\n"<x>" = "plain"\n')
    assert [(t.text, t.id) for t in byt5.special][:3] == [("<pad>", 0), ("</s>", 1), ("<unk>", 2)]
    assert [(t.text, t.id) for t in byt5.special][-2:] == [("<extra_id_124>", 383), ("<x>", None)]
    assert (byt5.encode.append, byt5.vocab_size) == (("</s>",), 385)
    words = make_config('[learn]\nmodel = "word"')
    assert [(t.text, t.id) for t in words.special] == [("[UNK]", 0), ("<|endoftext|>", None)]
    assert words.learn_identity().character_coverage == ""
    assert make_config('[learn]\nmodel = "character"').learn_identity().character_coverage == "0.9995"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[learn]\nmodel = "byte"\nlayout = "canine"', "learn.layout = .canine.: the model byte has the layouts byt5"),
        ('[learn]\nmodel = "byte"\nlayout = "t5"', "learn.layout = .t5.: expected one of byt5, canine"),
        (
            '[learn]\nmodel = "byte"\nlayout = "byt5"\n[special]\n"<pad>" = { id = 7 }',
            r"special.\"<pad>\".id = 7: with learn.layout = .byt5. it is 0",
        ),
        ('[learn]\nmodel = "byte"\nlayout = "byt5"\nvocab_size = 300', "a vocabulary of bytes has exactly 384 tokens"),
        ('[learn]\nmodel = "word"\nvocab_size = 2', "must be more than the 2 special tokens"),
        ('[learn]\nmodel = "codepoint"\n[shards]\nformats = ["megatron"]\ndtype = "uint16"', "holds ids below 65536"),
        ('[learn]\nmodel = "character"\ncharacter_coverage = 0', "expected"),
    ],
)
def test_what_is_refused_before_anything_is_read(text, why):
    with pytest.raises(ConfigError, match=why):
        make_config(text)


def test_reserved_characters_follow_special_text(tmp_path):
    write(tmp_path / "a.txt", "one\ue001two\n\nthree".encode())
    source = '[[source]]\nlang = "en"\nfiles = "a.txt"\nunit = "paragraph"\n[build]\nmax_rejected = 1\n'
    text = (
        source.replace("[build]\nmax_rejected = 1\n", "")
        + "[learn]\n"
        + LEARN["canine"]
        + "\n[encode]\nspecial_text = "
    )
    path = build_file(tmp_path, text + '"reject"', "", name="reject.toml", build="max_rejected = 1")
    run(path, tmp_path / "rejected")
    assert len(api.open_shards(tmp_path / "rejected")) == 1
    run(build_file(tmp_path, text + '"ordinary"', "", name="ordinary.toml"), tmp_path / "ordinary")
    assert api.open_shards(tmp_path / "ordinary")[0].tolist() == [0xE000, *map(ord, "one\ue001two"), 0xE001]


def test_the_example_builds(folder, tmp_path):
    write(tmp_path / "data" / "en" / "en.jsonl.zst", zstandard.decompress((folder / "en.jsonl.zst").read_bytes()))
    path = tmp_path / "byt5.toml"
    path.write_text(EXAMPLE.read_text())
    run(path, tmp_path / "out")
    done = tokcore("export", tmp_path / "out", "--to", "byt5", "-o", tmp_path / "x")
    assert done.returncode == 0, done.stderr
    theirs = ByT5Tokenizer.from_pretrained(tmp_path / "x")
    assert api.open_shards(tmp_path / "out")[0].tolist() == theirs(texts("en", 1)[0])["input_ids"]
    assert load_config(str(path)).layout == "byt5"
