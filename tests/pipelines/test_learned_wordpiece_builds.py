"""Builds that learn WordPiece: from BERT's defaults to shards, exports and `verify`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from support.builds import (
    REVERSED_SOURCES,
    SETTINGS,
    build_file,
    cut_corpus,
    make_config,
    run,
    small_corpus,
    texts,
    tokcore,
)
from transformers import AutoTokenizer, DataCollatorForLanguageModeling

import tokcore as api
from tokcore.errors import ConfigError, LearnError
from tokcore.formats.tokenizers.bert import read_vocab_txt
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import TOKENIZER

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "bert-learned.toml"
WORDPIECE = SETTINGS.replace("vocab_size = 400", 'model = "wordpiece"\nvocab_size = 220')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wordpiece")
    small_corpus(folder)
    run(build_file(folder, settings=WORDPIECE), folder / "out")
    return folder


def test_a_silent_build_file_follows_bert(folder):
    config = load_config(str(folder / "build.toml"))
    assert config.pretokenize.pattern == "bert"
    assert config.normalize.steps == ("bert",)
    assert [(token.text, token.id, token.role) for token in config.special] == [
        ("[PAD]", 0, "padding"),
        ("[UNK]", 1, "unknown"),
        ("[CLS]", 2, "document_begin"),
        ("[SEP]", 3, "document_end"),
        ("[MASK]", 4, "mask"),
    ]
    assert (config.encode.prepend, config.encode.append) == (("[CLS]",), ("[SEP]",))
    chosen = make_config(
        '[learn]\nmodel = "wordpiece"\n[normalize]\nsteps = ["bert-cased"]\n[pretokenize]\npattern = "gpt2"'
    )
    assert (chosen.normalize.steps, chosen.pretokenize.pattern) == (("bert-cased",), "gpt2")
    assert chosen.vocab_size == 30_522


def test_special_tokens_may_be_pinned_anywhere():
    config = make_config(
        '[learn]\nmodel = "wordpiece"\n[special]\n"[PAD]" = { id = 9 }\n"[SEP]" = { role = "plain", id = 0 }\n'
        '"<|end|>" = "document_end"\n'
    )
    assert [(token.text, token.id, token.role) for token in config.special] == [
        ("[PAD]", 9, "padding"),
        ("[UNK]", 1, "unknown"),
        ("[CLS]", 2, "document_begin"),
        ("[SEP]", 0, "plain"),
        ("[MASK]", 3, "mask"),
        ("<|end|>", None, "document_end"),
    ]
    assert config.encode.append == ("<|end|>",)
    with pytest.raises(ConfigError, match=r"learn.vocab_size = 5: must be more than the 5 special tokens"):
        make_config('[learn]\nmodel = "wordpiece"\nvocab_size = 5')


def test_pinned_tokens_are_where_they_were_pinned(folder, tmp_path):
    settings = WORDPIECE + '[special]\n"[PAD]" = { id = 77 }\n"<x>" = { id = 219 }\n"<y>" = "plain"\n'
    run(build_file(folder, settings=settings, name="pinned.toml"), tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out")
    assert tokenizer.specials == {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3, "[PAD]": 77, "<x>": 219, "<y>": 218}
    assert tokenizer.vocab_size == len(tokenizer.vocab) == 220


def test_documents_are_encoded_as_transformers_does(folder, tmp_path):
    done = tokcore("export", folder / "out", "--to", "bert", "-o", tmp_path / "bert")
    assert done.returncode == 0, done.stderr
    theirs = AutoTokenizer.from_pretrained(tmp_path / "bert")
    tokenizer = Tokenizer.load(folder / "out")
    shards = api.open_shards(folder / "out")
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    for lang in ("en", "ru", "zh"):
        for i, text in enumerate(texts(lang, 30)):
            assert stored[f"{lang}-{i}"] == theirs(text)["input_ids"] == [2, *tokenizer.encode(text).tolist(), 3]
    made = tokenizers.Tokenizer.from_file(str(folder / "out" / "tokenizer" / "tokenizer.json"))
    assert made.encode(texts("en", 1)[0]).ids == tokenizer.encode(texts("en", 1)[0]).tolist()
    assert Tokenizer(read_vocab_txt((tmp_path / "bert" / "vocab.txt").read_bytes(), "x")) == tokenizer


def test_a_trainer_of_masked_models_takes_the_output(folder, tmp_path):
    """transformers' own collator masks ids of a shard, by the folder that the build wrote."""
    theirs = AutoTokenizer.from_pretrained(folder / "out" / "tokenizer")
    found = [theirs.mask_token, theirs.cls_token, theirs.sep_token, theirs.pad_token]
    assert found == ["[MASK]", "[CLS]", "[SEP]", "[PAD]"]
    tokcore("export", folder / "out", "--to", "bert", "-o", tmp_path / "bert")
    folders = (folder / "out" / "tokenizer", tmp_path / "bert")
    named = [json.loads((at / "tokenizer_config.json").read_bytes()) for at in folders]
    assert {name for name in named[0] if named[0][name] != named[1].get(name)} == {"tokenizer_class"}
    rows = [ids.tolist() for ids in api.open_shards(folder / "out")[:8]]
    collate = DataCollatorForLanguageModeling(theirs, mlm_probability=0.5, return_tensors="np", seed=3)
    batch = collate([{"input_ids": row, "special_tokens_mask": [id < 5 for id in row]} for row in rows])
    is_masked = batch["labels"] != -100
    assert (batch["input_ids"][is_masked] == theirs.mask_token_id).mean() > 0.6
    assert not np.isin(batch["labels"][is_masked], range(5)).any()
    for row, ids, masked, labels in zip(rows, batch["input_ids"], is_masked, batch["labels"], strict=True):
        assert np.where(masked, labels, ids)[: len(row)].tolist() == row


def test_manifests_say_what_was_learned(folder):
    made = json.loads((folder / "out" / "tokenizer" / "manifest.json").read_bytes())
    assert made["totals"]["lossless"] is False
    assert made["totals"]["vocab_size"] == 220
    assert made["config"]["model"] == "wordpiece"
    assert made["config"]["normalize"] == ["bert"]
    languages = json.loads((folder / "out" / "manifest.json").read_bytes())["languages"]
    assert {lang: one["unknown"] for lang, one in languages.items()} == dict.fromkeys(languages, 0)


@pytest.mark.parametrize("options", [{"quick": True}, {}, {"decode": None}])
def test_it_verifies(folder, options):
    report = verify(str(folder / "out"), **{"decode": 0, **options}, options=RunOptions(here=True))
    assert report.problems == ()


@pytest.mark.parametrize("model", ["wordpiece", "wordpiece-pmi"])
def test_workers_and_order_change_nothing(folder, tmp_path, model):
    """(a): workers and the order of sources change no byte; (c): other files of the same documents give the same."""
    settings = WORDPIECE.replace('"wordpiece"', f'"{model}"')
    first = run(build_file(folder, settings=settings, name=f"{model}.toml"), tmp_path / "a")
    again = run(build_file(folder, REVERSED_SOURCES, settings, name=f"{model}.toml"), tmp_path / "b", workers=1)
    assert first.root == again.root
    run(build_file(tmp_path, cut_corpus(tmp_path), settings), tmp_path / "c")
    manifests = [find_manifest(str(tmp_path / one), TOKENIZER) for one in "ac"]
    assert manifests[0].totals == manifests[1].totals
    sums = [json.loads((tmp_path / one / "manifest.json").read_bytes()) for one in "ac"]
    assert sums[0]["languages"] == sums[1]["languages"]


def test_the_models_differ_and_diff_says_so(folder, tmp_path):
    run(
        build_file(folder, settings=WORDPIECE.replace('"wordpiece"', '"wordpiece-pmi"'), name="pmi.toml"),
        tmp_path / "pmi",
    )
    ours, pmi = Tokenizer.load(folder / "out"), Tokenizer.load(tmp_path / "pmi")
    assert ours.vocab.keys() != pmi.vocab.keys()
    done = tokcore("diff", folder / "out", tmp_path / "pmi")
    assert done.returncode == 1
    assert "token" in done.stdout


def test_settings_that_it_does_not_heed_change_nothing(folder, tmp_path):
    settings = WORDPIECE.replace("vocab_size = 220", "vocab_size = 220\nmin_documents = 1")
    manifest = run(build_file(folder, settings=settings, name="more.toml"), tmp_path / "out")
    assert manifest.root == json.loads((folder / "out" / "manifest.json").read_bytes())["root"]


def test_a_vocabulary_too_small_or_too_large_names_the_size_that_fits(folder, tmp_path):
    few = build_file(folder, settings=WORDPIECE.replace("= 220", "= 60"), name="few.toml")
    with pytest.raises(
        LearnError, match=r"vocab_size = 60: the characters of the text alone are .* Raise vocab_size to"
    ):
        run(few, tmp_path / "few")
    many = build_file(folder, settings=WORDPIECE.replace("= 220", "= 40000"), name="many.toml")
    with pytest.raises(LearnError, match=r"learn.vocab_size = 40000: the counts give only \d+ tokens: \d+ word pieces"):
        run(many, tmp_path / "many")
    allowed = WORDPIECE.replace("= 220", "= 40000\nallow_smaller = true")
    run(build_file(folder, settings=allowed, name="many.toml"), tmp_path / "many")


def test_the_example_builds(folder, tmp_path):
    (tmp_path / "data" / "en").mkdir(parents=True)
    shutil.copy(folder / "en.jsonl.zst", tmp_path / "data" / "en")
    path = tmp_path / "bert-learned.toml"
    path.write_text(EXAMPLE.read_text().replace("vocab_size = 30522", "vocab_size = 88"))
    run(path, tmp_path / "out")
    shards = api.open_shards(tmp_path / "out")
    assert [int(shards[0][0]), int(shards[0][-1])] == [2, 3]
    assert not np.count_nonzero(np.concatenate([shards[i] for i in range(len(shards))]) == 1)
