"""The published .model and tekken.json files in `mistral-common`: ids and decoded texts are those of `sentencepiece`
and `tiktoken`.

`make conformance` installs that package by itself, as it asks for an older numpy; elsewhere this file is skipped.
"""

from __future__ import annotations

import base64
import importlib.resources
import json

import pytest
import sentencepiece
import tiktoken

from tokcore.tokenizer.tokenizer import Tokenizer

pytest.importorskip("mistral_common")
DATA = importlib.resources.files("mistral_common") / "data"
MODELS = sorted(DATA.glob("*.model*"))
TEKKEN = sorted(DATA.glob("tekken*.json"))
TEXTS = [
    *["", " ", "  two  blanks ", "\n\n\tdef f(x):\n    return x\n", "naïve café", "日本語と中文", "한국어", "😀😀"],
    *["\u0301", "<s> [INST] x [/INST]</s>", "▁ ▁▁", "e\u0301 ﬁ ①", "\x00", "a" * 5000, " " * 500, "𐍈", "ก็", "۱۲۳"],
]


def test_both_kinds_are_there():
    assert MODELS
    assert TEKKEN


@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.name)
def test_published_models(file):
    theirs, ours = sentencepiece.SentencePieceProcessor(model_file=str(file)), Tokenizer.load(file)
    ids = theirs.encode(TEXTS)
    assert ours.encode_batch(TEXTS).to_pylist() == ids
    assert [ours.decode(row, "strict") for row in ids] == [theirs.decode(row) for row in ids]


@pytest.mark.parametrize("file", TEKKEN, ids=lambda file: file.name)
def test_published_tekken(file):
    content = json.loads(file.read_bytes())
    num_special = content["config"]["default_num_special_tokens"]
    num = content["config"]["default_vocab_size"] - num_special
    theirs = tiktoken.Encoding(
        "tekken",
        pat_str=content["config"]["pattern"],
        mergeable_ranks={base64.b64decode(one["token_bytes"]): one["rank"] for one in content["vocab"][:num]},
        special_tokens={},
    )
    ours = Tokenizer.load(file)
    for text in TEXTS:
        ids = [num_special + rank for rank in theirs.encode_ordinary(text)]
        assert ours.encode(text).tolist() == ids
        assert ours.decode(ids, "strict") == text
    assert ours.spec.pattern == {"name": "tekken"}
