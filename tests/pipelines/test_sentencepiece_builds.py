"""Builds with SentencePiece's models: the shards hold sentencepiece's ids, and are verified."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import sentencepiece
from support.builds import SOURCES, build_file, run, small_corpus, texts

import tokcore as api
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.run_options import RunOptions

SETTINGS = """
[plan]
range_bytes = 4000
[tokenizer]
from = "spm.model.v3"
[shards]
target_tokens = 2000
"""


def write_model(file: Path, kind: str) -> None:
    """A model of the English documents; other scripts are spelled in bytes if it is BPE, and unknown otherwise."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts("en", 30)),
        model_writer=out,
        minloglevel=2,
        model_type=kind,
        vocab_size=480 if kind == "bpe" else 220,
        hard_vocab_limit=False,
        byte_fallback=kind == "bpe",
    )
    file.write_bytes(out.getvalue())


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    small_corpus(folder)
    write_model(folder / "spm.model.v3", request.param)
    run(build_file(folder, SOURCES, SETTINGS), folder / "out")
    return folder


def test_documents_are_sentencepiece_s(folder):
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model.v3"))
    shards = api.open_shards(folder / "out")
    stored = {shards.document(row).id: shards[row].tolist() for row in range(len(shards))}
    for i, text in enumerate(texts("en", 30)):
        assert stored[f"en-{i}"] == [1, *theirs.encode(text), 2]
    again = sentencepiece.SentencePieceProcessor(model_file=str(folder / "out" / "tokenizer" / "tokenizer.model"))
    assert again.encode(texts("en", 3)) == theirs.encode(texts("en", 3))


def test_unknown_tokens_are_counted(folder):
    languages = json.loads((folder / "out" / "manifest.json").read_bytes())["languages"]
    counted = {lang: one.get("unknown", 0) for lang, one in languages.items()}
    assert counted["en"] == 0
    assert (counted["ru"] > 0) == (folder.name.startswith("unigram"))
    made = json.loads((folder / "out" / "tokenizer" / "manifest.json").read_bytes())
    assert made["totals"]["lossless"] is False


@pytest.mark.parametrize("options", [{"quick": True}, {}, {"decode": None}])
def test_it_verifies(folder, options):
    report = verify(str(folder / "out"), **{"decode": 0, **options}, options=RunOptions(here=True))
    assert report.problems == ()


def test_workers_change_nothing(folder, tmp_path):
    run(folder / "build.toml", tmp_path / "one", workers=1)
    roots = [json.loads((one / "manifest.json").read_bytes())["root"] for one in (tmp_path / "one", folder / "out")]
    assert roots[0] == roots[1]
