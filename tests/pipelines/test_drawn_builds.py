"""Builds that draw ids: an epoch is the same bytes anywhere, another one is not, and `verify` knows both."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.builds import SETTINGS, SOURCES, build_file, find_file, run, small_corpus, tree

import tokcore as api
from tokcore.errors import ConfigError
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.document import compute_document_key
from tokcore_schemas.draws import compute_draw_seed

DROPOUT = SETTINGS + "[encode]\ndropout = 0.2\n"
UNIGRAM = SETTINGS.replace("vocab_size = 400", 'model = "unigram"\nvocab_size = 400')
SAMPLING = UNIGRAM + "[encode]\nsampling = { theta = 0.3 }\n"
WORDPIECE = SETTINGS.replace("vocab_size = 400", 'model = "wordpiece"\nvocab_size = 220') + "[encode]\ndropout = 0.2\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    small_corpus(folder)
    run(build_file(folder, settings=DROPOUT), folder / "out")
    return folder


def shards_of(output: Path) -> dict[str, str]:
    return {path: sha256 for path, sha256 in tree(output / "shards").items() if not path.endswith("manifest.json")}


def test_documents_are_drawn_from_their_keys(folder):
    output = folder / "out"
    tokenizer, shards = Tokenizer.load(output), api.open_shards(output)
    differ = 0
    for row in range(0, len(shards), 7):
        document = shards.document(row)
        text = tokenizer.decode(shards[row][:-1])
        seed = compute_draw_seed(0, 0, compute_document_key(document.lang, document.id, text))
        assert shards[row][:-1].tolist() == tokenizer.encode(text, dropout=0.2, seed=seed).tolist()
        differ += shards[row][:-1].tolist() != tokenizer.encode(text).tolist()
    assert differ > 10
    assert verify(str(output), decode=None, options=RunOptions(here=True)).problems == ()


def test_an_epoch_is_the_same_anywhere_and_epochs_differ(folder, tmp_path):
    """(c): the same documents in other files, one worker, and the order of documents change no id."""
    files = {path.name: path for path in folder.iterdir() if path.is_file() and path.suffix != ".toml"}
    for name, path in files.items():
        shutil.copy(path, tmp_path / name)
    whole = DROPOUT.replace("range_bytes = 4000", "range_bytes = 400000")
    run(build_file(tmp_path, settings=whole), tmp_path / "out", workers=1)

    def documents(output: Path) -> dict:
        shards = api.open_shards(output)
        return {shards.document(i)[:2]: shards[i].tolist() for i in range(len(shards))}

    with_ids = {key: ids for key, ids in documents(folder / "out").items() if key[0] is not None}
    assert with_ids == {key: ids for key, ids in documents(tmp_path / "out").items() if key[0] is not None}
    # The next epoch takes plan, counts and tokenizer over.
    path = build_file(folder, settings=DROPOUT + "epoch = 1\n", name="next.toml")
    Build(load_config(str(path)), RunOptions(here=True), str(tmp_path / "next"), reuse=str(folder / "out")).run()
    for stage in ("counts", "tokenizer"):
        assert tree(tmp_path / "next" / stage) == tree(folder / "out" / stage)
    following = documents(tmp_path / "next")
    assert following.keys() == documents(folder / "out").keys()
    assert sum(following[key] != ids for key, ids in with_ids.items()) > len(with_ids) // 2
    assert verify(str(tmp_path / "next"), decode=None, options=RunOptions(here=True)).problems == ()


def test_damaged_shards_are_drawn_again(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    assert rebuild(str(tmp_path / "out"), "train-00000-00000", str(folder)).problems == ()
    sound = shards_of(tmp_path / "out")
    find_file(tmp_path / "out", "shards/arrow/train-00000-00000.arrow").write_bytes(b"x")
    assert repair(str(tmp_path / "out"), str(folder), RunOptions(here=True)).left == ()
    assert shards_of(tmp_path / "out") == sound


@pytest.mark.parametrize("settings", [SAMPLING, WORDPIECE], ids=["unigram", "wordpiece"])
def test_other_models_verify(folder, tmp_path, settings):
    run(build_file(folder, settings=settings, name="other.toml"), tmp_path / "out")
    assert verify(str(tmp_path / "out"), decode=None, options=RunOptions(here=True)).problems == ()
    tokenizer, shards = Tokenizer.load(tmp_path / "out"), api.open_shards(tmp_path / "out")
    texts = {shards.document(i): shards[i].tolist() for i in range(len(shards))}
    plain = [tokenizer.encode(tokenizer.decode(ids)).tolist() for ids in texts.values()]
    assert sum(len(ids) for ids in texts.values()) > sum(map(len, plain))


def test_what_the_model_has_not_is_refused(tmp_path):
    def config_of(settings: str):
        return parse_config(f'version = 1\n[build]\noutput = "out"\n{SOURCES}\n{settings}\n', "build.toml")

    for settings, message in {
        "[encode]\nsampling = { theta = 0.1 }": "encode.sampling is for unigram, and learn.model is bpe",
        '[learn]\nmodel = "unigram"\n[encode]\ndropout = 0.1': "encode.dropout is for bpe, wordpiece, wordpiece-pmi,",
        "[encode]\nsampling = { theta = 0.1 }\ndropout = 0.1": "encode.sampling and dropout exclude each other",
        "[encode]\ndropout = 1.5": "encode.dropout = 1.5: expected a number from 0 to 1",
        "[encode]\nepoch = -1": "encode.epoch = -1: expected a whole number of at least 0",
        "[encode]\nsampling = 0.1": "encode.sampling = 0.1: expected a table { theta = 0.1 }",
        "[encode]\nsampling = { alpha = 0.1 }": "expected a table with theta, and no other key",
        "[encode]\nsampling = { theta = -1 }": "encode.sampling.theta = -1: expected a number from 0 to 1000",
    }.items():
        with pytest.raises(ConfigError) as error:
            config_of(settings)
        assert message in str(error.value)
    plain = config_of("").stage_configs()
    assert config_of("[encode]\ndropout = 0\nepoch = 5").stage_configs() == plain  # nothing is drawn
    drawn = config_of("[encode]\ndropout = 0.1\nepoch = 5").stage_configs()
    assert (drawn.shards.dropout, drawn.shards.epoch, drawn.shards.seed) == ("0.1", 5, 0)
    assert drawn.tokenizer == plain.tokenizer


def test_an_imported_tokenizer_is_asked(folder, tmp_path):
    settings = f'[tokenizer]\nfrom = "{folder / "out"}"\n[encode]\n'
    path = build_file(folder, settings=settings + "sampling = { theta = 0.1 }", name="imported.toml")
    with pytest.raises(ConfigError, match=r"encode.sampling: sampling needs a Unigram, .* is a byte-level BPE. Remove"):
        run(path, tmp_path / "out")
