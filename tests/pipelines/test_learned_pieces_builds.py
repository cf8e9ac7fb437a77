"""Builds that learn SentencePiece's models: from its defaults to shards, exports and `verify`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import sentencepiece
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

import tokcore as api
from tokcore.errors import ConfigError, LearnError
from tokcore.formats.tokenizers.sentencepiece import read_sentencepiece_model
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import TOKENIZER

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
MODELS = ("sentencepiece-bpe", "unigram")


def make_settings(model: str, *lines: str) -> str:
    return SETTINGS.replace("vocab_size = 400", "\n".join([f'model = "{model}"', "vocab_size = 480", *lines]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pieces")
    small_corpus(folder)
    for model in MODELS:
        run(build_file(folder, settings=make_settings(model), name=f"{model}.toml"), folder / model)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_a_silent_build_file_follows_sentencepiece(folder, model):
    config = load_config(str(folder / f"{model}.toml"))
    assert config.pretokenize.pattern == "metaspace"
    assert config.normalize.steps == ("nmt_nfkc",)
    assert [(token.text, token.id, token.role) for token in config.special] == [
        ("<unk>", 0, "unknown"),
        ("<s>", 1, "document_begin"),
        ("</s>", 2, "document_end"),
    ]
    assert (config.encode.prepend, config.encode.append) == (("<s>",), ("</s>",))
    assert make_config(f'[learn]\nmodel = "{model}"').vocab_size == 8000


def test_control_symbols_and_pinned_tokens_take_their_ids(folder, tmp_path):
    settings = make_settings("unigram", 'control_symbols = ["<c>", "<s>"]', 'user_defined_symbols = ["<u>"]')
    settings += '[special]\n"</s>" = { role = "document_end", id = 5 }\n"<x>" = "plain"\n'
    run(build_file(folder, settings=settings, name="pinned.toml"), tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out")
    assert tokenizer.specials == {"<unk>": 0, "<s>": 1, "<c>": 2, "</s>": 5, "<x>": 479}
    exported = api.Tokenizer.load(tmp_path / "out" / "tokenizer" / "tokenizer.model")
    assert exported.vocab == tokenizer.vocab
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "tokenizer" / "tokenizer.model"))
    assert [theirs.id_to_piece(id) for id in range(7)] == ["<unk>", "<s>", "<c>", "<u>", "<0x00>", "</s>", "<0x01>"]
    assert theirs.is_control(479)
    assert theirs.decode([2, 479]) == tokenizer.decode([2, 479], "strict") == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("vocab_size = 259", r"learn.vocab_size = 259: must be 260 or more: it includes 3 special tokens, 0 .* 256"),
        ('user_defined_symbols = ["<s>"]', r"user_defined_symbols names '<s>' twice, or as a special token does"),
        ('user_defined_symbols = ["<0x41>"]', r"user_defined_symbols names '<0x41>', which is a byte's piece"),
        (
            'user_defined_symbols = ["<u>"]\n[pretokenize]\npattern = "gpt2"',
            r"user_defined_symbols names '<u>', and with this split pattern pieces are byte strings",
        ),
        (
            'vocab_size = 258\n[pretokenize]\npattern = "gpt2"',
            r"learn.vocab_size = 258: must be 259 or more: it includes 3 special tokens, 0 .* and 256 bytes",
        ),
        (
            '[pretokenize]\npattern = "gpt2"\n[encode]\nsampling = { theta = 0.1 }',
            r"encode.sampling is for text that is split by metaspace, and pretokenize.pattern is gpt2",
        ),
    ],
)
def test_wrong_settings_name_the_key(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(f'[learn]\nmodel = "unigram"\n{settings}')


def test_merges_of_characters_have_one_pattern():
    message = r'pretokenize.pattern = "gpt2": the model sentencepiece-bpe splits text by metaspace'
    with pytest.raises(ConfigError, match=message):
        make_config('[learn]\nmodel = "sentencepiece-bpe"\n[pretokenize]\npattern = "gpt2"')


def test_unigram_in_byte_form(folder, tmp_path):
    """Another pattern, and nothing normalized: documents come back, and tokenizers gives the same ids."""
    settings = make_settings("unigram").replace("= 480", "= 400") + '[pretokenize]\npattern = "o200k"\n'
    config = make_config(settings)
    assert (config.normalize.steps, config.learns_bytes) == ((), True)
    output = tmp_path / "out"
    run(build_file(folder, settings=settings, name="bytes.toml"), output)
    assert verify(str(output), decode=None, options=RunOptions(here=True)).problems == ()
    made = json.loads((output / "tokenizer" / "manifest.json").read_bytes())
    assert (made["totals"]["vocab_size"], made["config"]["normalize"]) == (400, [])
    assert made["totals"].get("lossless", True)
    tokenizer, shards = Tokenizer.load(output), api.open_shards(output)
    assert tokenizer.lossless
    theirs = tokenizers.Tokenizer.from_file(str(output / "tokenizer" / "tokenizer.json"))
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    for lang in ("en", "ru", "zh"):
        for i, text in enumerate(texts(lang, 30)):
            ids = theirs.encode(text, add_special_tokens=False).ids
            assert stored[f"{lang}-{i}"] == [1, *ids, 2]
            assert tokenizer.decode(ids) == text.encode()
    assert not (output / "tokenizer" / "tokenizer.model").exists()


@pytest.mark.parametrize("model", MODELS)
def test_documents_are_encoded_as_sentencepiece_does(folder, tmp_path, model):
    file = tmp_path / "x.model"
    done = tokcore("export", folder / model, "--to", "sentencepiece", "-o", file)
    assert done.returncode == 0, done.stderr
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(file))
    assert len(theirs) == 480
    tokenizer = Tokenizer.load(folder / model)
    shards = api.open_shards(folder / model)
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    for lang in ("en", "ru", "zh"):
        for i, text in enumerate(texts(lang, 30)):
            assert stored[f"{lang}-{i}"] == [1, *theirs.encode(text), 2] == [1, *tokenizer.encode(text).tolist(), 2]
    assert Tokenizer(read_sentencepiece_model(file.read_bytes(), "x")).vocab == tokenizer.vocab


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("options", [{"quick": True}, {}, {"decode": None}])
def test_it_verifies(folder, model, options):
    report = verify(str(folder / model), **{"decode": 0, **options}, options=RunOptions(here=True))
    assert report.problems == ()


@pytest.mark.parametrize("model", MODELS)
def test_manifest_and_show_say_what_was_learned(folder, model):
    made = json.loads((folder / model / "tokenizer" / "manifest.json").read_bytes())
    assert (made["totals"]["lossless"], made["totals"]["vocab_size"]) == (False, 480)
    assert made["config"]["byte_fallback"] is True
    assert made["config"]["normalize"] == ["nmt_nfkc", "metaspace"]
    done = tokcore("show", folder / model)
    assert done.returncode == 0, done.stderr
    assert "documents" in done.stdout


@pytest.mark.parametrize("model", MODELS)
def test_workers_and_order_change_nothing(folder, tmp_path, model):
    """(a): workers and the order of sources change no byte; (c): other files of the same documents give the same."""
    settings = make_settings(model)
    first = json.loads((folder / model / "manifest.json").read_bytes())["root"]
    again = run(build_file(folder, REVERSED_SOURCES, settings, name=f"{model}.toml"), tmp_path / "b", workers=1)
    assert first == again.root
    run(build_file(tmp_path, cut_corpus(tmp_path), settings), tmp_path / "c")
    fingerprints = [find_manifest(str(one), TOKENIZER).totals for one in (folder / model, tmp_path / "c")]
    assert fingerprints[0] == fingerprints[1]


@pytest.mark.parametrize("model", MODELS)
def test_a_vocabulary_too_small_or_too_large_names_the_size_that_fits(folder, tmp_path, model):
    few = build_file(folder, settings=make_settings(model).replace("= 480", "= 270"), name="few.toml")
    with pytest.raises(LearnError, match=r"vocab_size = 270: 11 of these are left for pieces, .* Raise vocab_size to"):
        run(few, tmp_path / "few")
    many = build_file(folder, settings=make_settings(model).replace("= 480", "= 40000"), name="many.toml")
    with pytest.raises(LearnError, match=r"learn.vocab_size = 40000: the counts give only \d+ tokens: \d+ pieces"):
        run(many, tmp_path / "many")


@pytest.mark.parametrize("model", MODELS)
def test_pieces_cross_spaces_where_pre_tokens_do(folder, tmp_path, model):
    settings = make_settings(model, "split_by_whitespace = false", "byte_fallback = false").replace("= 480", "= 380")
    settings += "[pretokenize]\nregex = '▁?[^▁]+(?:▁[^▁]+){0,3}|▁+'\n"
    run(build_file(folder, settings=settings, name="cross.toml"), tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out")
    assert any("▁" in name[1:] for name in tokenizer.spec.model.names)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "tokenizer" / "tokenizer.model"))
    assert [tokenizer.encode(text).tolist() for text in texts("en", 9)] == theirs.encode(texts("en", 9))


def build_example(name: str, size: int, smaller: int, folder: Path, tmp_path: Path) -> tuple[Tokenizer, api.Shards]:
    """What an example builds from little text, with a vocabulary that it can give."""
    (tmp_path / "data" / "en").mkdir(parents=True)
    shutil.copy(folder / "en.jsonl.zst", tmp_path / "data" / "en")
    text = (EXAMPLES / f"{name}.toml").read_text()
    assert f"vocab_size = {size}" in text
    path = tmp_path / f"{name}.toml"
    path.write_text(text.replace(f"vocab_size = {size}", f"vocab_size = {smaller}"))
    run(path, tmp_path / "out")
    assert verify(str(tmp_path / "out"), decode=None, options=RunOptions(1)).problems == ()
    return Tokenizer.load(tmp_path / "out"), api.open_shards(tmp_path / "out")


def test_the_example_of_llama2(folder, tmp_path):
    tokenizer, shards = build_example("llama2", 32000, 310, folder, tmp_path)
    assert int(shards[0][0]) == tokenizer.special_id("<s>") == 1


def test_the_example_of_t5(folder, tmp_path):
    tokenizer, shards = build_example("t5", 32100, 150, folder, tmp_path)
    ids = [tokenizer.special_id(text) for text in ("<pad>", "</s>", "<unk>", "<extra_id_99>", "<extra_id_0>")]
    assert ids == [0, 1, 2, tokenizer.vocab_size - 100, tokenizer.vocab_size - 1]
    assert int(shards[0][-1]) == 1
    assert not any(2 in shards[i] for i in range(len(shards)))
