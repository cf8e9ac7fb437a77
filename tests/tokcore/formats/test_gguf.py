"""The vocabulary in llama.cpp's file: read by the gguf package, and refused where llama.cpp gives other ids."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from support.published_shapes import PRE_TOKENIZERS
from support.sentencepiece_models import train
from support.vocabularies import spec_of_merges

from tokcore.errors import FormatError
from tokcore.formats.tokenizers import gguf as ours
from tokcore.formats.tokenizers.sentencepiece import read_sentencepiece_model
from tokcore.models.bpe import MergesModel
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.split_steps import StepList
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

Merge = namedtuple("Merge", "left right count")
MERGES = [Merge(b"a", b"b", 5), Merge(b" ", b"ab", 3), Merge("é".encode()[:1], "é".encode()[1:], 2)]
SPECIAL = [SpecialToken("<|end|>", None, "document_end"), SpecialToken("<|pad|>", None, "padding")]
SPECIAL += [SpecialToken("  ", None, is_special=False), SpecialToken("<|far|>", 264)]


def spec_of(pattern: str, *, normalizer=(), merges=MERGES) -> TokenizerSpec:
    return spec_of_merges(merges, Pretokenizer.of(pattern).spec, list(normalizer), SPECIAL)


def read(spec: TokenizerSpec, folder: Path) -> dict[str, object]:
    gguf = pytest.importorskip("gguf")
    Tokenizer(spec).export("gguf", folder / "x.gguf")
    reader = gguf.GGUFReader(folder / "x.gguf")
    assert len(reader.tensors) == 0
    return {name: field.contents() for name, field in reader.fields.items()}


def test_what_the_file_says(tmp_path):
    spec = dataclasses.replace(spec_of("llama3"), chat_template="{{ messages }}é")
    found = read(spec, tmp_path)
    assert found["tokenizer.ggml.model"] == "gpt2"
    assert found["tokenizer.ggml.pre"] == "dbrx"
    tokens, types = found["tokenizer.ggml.tokens"], found["tokenizer.ggml.token_type"]
    assert len(tokens) == len(types) == spec.vocab_size == 265
    assert tokens[256:] == ["ab", "Ġab", "Ã©", "<|end|>", "<|pad|>", "  ", "[PAD262]", "[PAD263]", "<|far|>"]
    assert types[255:] == [1, 1, 1, 1, 3, 3, 4, 5, 5, 3]
    assert found["tokenizer.ggml.merges"] == ["a b", "Ġ ab", "Ã ©"]
    assert (found["tokenizer.ggml.eos_token_id"], found["tokenizer.ggml.padding_token_id"]) == (259, 260)
    assert "tokenizer.ggml.bos_token_id" not in found
    assert found["tokenizer.ggml.add_bos_token"] is found["tokenizer.ggml.add_eos_token"] is False
    assert found["tokenizer.chat_template"] == "{{ messages }}é"
    assert ours.describe_left_out(spec) == ""


@pytest.mark.parametrize(
    ("pattern", "name", "said"),
    [
        ("gpt2", "gpt-2", ""),
        ("qwen2", "qwen2", ""),
        ("cl100k-2023", "dbrx", ""),
        ("o200k", "gpt-4o", "capitals of ASCII only"),
        ("tekken", "tekken", "capitals of ASCII only"),
    ],
)
def test_patterns_by_the_names_that_they_have_there(pattern, name, said, tmp_path):
    spec = spec_of(pattern)
    assert read(spec, tmp_path)["tokenizer.ggml.pre"] == name
    assert said in ours.describe_left_out(spec)
    assert bool(said) == bool(ours.describe_left_out(spec))


@pytest.mark.parametrize(
    ("published", "name"),
    [("deepseek-v3", "deepseek-v3"), ("starcoder, smollm, granite, command-r", "starcoder"), ("qwen3.5", "qwen35")],
)
def test_published_lists(published, name, tmp_path):
    listed = PRE_TOKENIZERS[published]
    spec = spec_of_merges(MERGES, {"steps": StepList(listed).text}, [], SPECIAL)
    if name == "qwen35":  # one Split, which is read as an expression
        spec = spec_of(listed["pretokenizers"][0]["pattern"]["Regex"])
    assert read(spec, tmp_path)["tokenizer.ggml.pre"] == name


@pytest.mark.parametrize(
    ("pattern", "ignores", "expected"),
    [
        ("llama3", True, "llama-bpe"),
        ("llama3", False, "dbrx"),
        ("gpt2", False, "gpt-2"),
        ("gpt2", True, "gpt-2 merges it where a pre-token is a token; this tokenizer takes it as it is, .* token 256"),
        ("tekken", True, "tekken"),
        (
            "tekken",
            False,
            "tekken takes it as it is where a pre-token is a token; this tokenizer merges it, .* 256",
        ),
    ],
)
def test_tokens_that_merges_do_not_make(pattern, ignores, expected, tmp_path):
    tokens = (*(bytes([byte]) for byte in range(256)), b"abc")
    model = MergesModel(tokens, np.arange(257, dtype=np.int32), np.zeros((0, 2), np.int32), ignores)
    spec = TokenizerSpec((), {"name": pattern}, model, (SpecialToken("<|end|>", 257, "document_end"),))
    if " " in expected:
        with pytest.raises(FormatError, match=expected):
            ours.write_gguf(spec)
    else:
        assert read(spec, tmp_path)["tokenizer.ggml.pre"] == expected


def test_pieces_with_scores(tmp_path):
    spec = read_sentencepiece_model(train("bpe", "identity"), "x")
    found = read(spec, tmp_path)
    assert found["tokenizer.ggml.model"] == "llama"
    assert found["tokenizer.ggml.add_space_prefix"] is True
    names = {token.id: token.text for token in spec.special}
    names |= dict(zip(spec.model.ids.tolist(), (text.decode() for text in spec.model.tokens), strict=True))
    assert found["tokenizer.ggml.tokens"] == [names[id] for id in range(spec.vocab_size)]
    score = dict(zip(spec.model.ids.tolist(), spec.model.scores.tolist(), strict=True))
    assert found["tokenizer.ggml.scores"] == [score.get(id, 0.0) for id in range(spec.vocab_size)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (spec_of("cl100k"), "no split pattern like cl100k: the nearest that it knows: cl100k-2023"),
        (spec_of("a+|[^a]+"), "the nearest that it knows: gpt2, llama3, qwen2 and o200k"),
        (spec_of("gpt2", normalizer=["lowercase"]), "cannot hold the normalizer lowercase"),
        (
            spec_of_merges([], {"name": "gpt2"}, [], [SpecialToken("x y", None, is_special=False, lstrip=True)]),
            "added token 'x y' takes white space",
        ),
    ],
)
def test_what_llama_cpp_would_read_otherwise(spec, message):
    with pytest.raises(FormatError, match=message):
        ours.write_gguf(spec)


def test_what_is_said():
    said = ours.describe_left_out(spec_of_merges([], {"name": "qwen2"}, ["nfc"], []))
    assert said.startswith("llama.cpp does not normalize: text has to be in the form nfc before; no token has the role")
