"""The vocabulary in llama.cpp's file: read by the gguf package, and refused where llama.cpp gives other ids."""

from __future__ import annotations

import dataclasses
import itertools
import math
import unicodedata
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from support.published_shapes import PRE_TOKENIZERS
from support.sentencepiece_models import HARD, demo_texts, train
from support.vocabularies import spec_of_merges

import tokcore
from tokcore.errors import FormatError
from tokcore.formats.tokenizers import gguf as ours
from tokcore.formats.tokenizers.sentencepiece import read_sentencepiece_model
from tokcore.models.bpe import MergesModel
from tokcore.models.wordpiece.longest_match import WordpieceModel
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


def cut_as_llama_does(text: str, found: dict[str, Any]) -> list[int]:
    """The ids of a normalized text by its Unigram: pieces and scores as the file has them, sums as float64."""
    columns = (found[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    rows = zip(*columns, strict=True)
    known = {token.encode(): (score, id) for id, (token, score, kind) in enumerate(rows) if kind == 1}
    unknown = min(score for score, _ in known.values()) - 10, found["tokenizer.ggml.unknown_token_id"]
    data = text.encode()
    starts = [i for i in range(len(data)) if data[i] & 0xC0 != 0x80] + [len(data)]
    best = {0: (0.0, -1, -1)} | dict.fromkeys(starts[1:], (-math.inf, -1, -1))
    longest = max(len(token.decode()) for token in known)
    for i, (start, after) in enumerate(itertools.pairwise(starts)):
        ends = starts[i + 1 : i + 1 + longest]
        pieces = [(end, known[data[start:end]]) for end in ends if data[start:end] in known]
        for end, (score, id) in pieces if pieces and pieces[0][0] == after else [*pieces, (after, unknown)]:
            if (total := best[start][0] + score) > best[end][0]:
                best[end] = total, id, start
    ids, at = [], len(data)
    while at:
        ids.append(best[at][1])
        at = best[at][2]
    return [id for id, run in itertools.groupby(reversed(ids)) for _ in ([0] if id == unknown[1] else run)]


@pytest.mark.parametrize("option", ["plain", "crossing"])
def test_unigram_is_what_its_scores_say(option, tmp_path):
    data = train("unigram", option)
    tokenizer = Tokenizer(read_sentencepiece_model(data, "x"))
    found = read(tokenizer.spec, tmp_path)
    assert found["tokenizer.ggml.model"] == "t5"
    assert bytes(found["tokenizer.ggml.precompiled_charsmap"]) == tokenizer.spec.model.text_rules.charsmap
    assert found["tokenizer.ggml.remove_extra_whitespaces"] is found["tokenizer.ggml.add_space_prefix"] is True
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    for text in [text[:400] for text in demo_texts()[::20]] + [one for one in HARD if len(one) < 300]:
        assert cut_as_llama_does(theirs.normalize(text), found) == tokenizer.encode(text).tolist(), text


def words_as_llama_has_them(text: str) -> list[str]:
    """BERT's words, with capitals and accents: white space parts them, a mark or an ideograph stands alone."""
    words = [""]
    for character in text:
        kind = unicodedata.category(character)
        if kind[0] == "Z" or character in "\t\n\r":
            words.append("")
        elif kind[0] == "P" or (kind[0] == "S" and character < "\x7f") or "\u3400" <= character <= "\u9fff":
            words += [character, ""]
        elif kind[0] != "C":
            words[-1] += character
    return [word for word in words if word]


def test_wordpiece_matches_the_longest_token(tmp_path):
    texts = demo_texts()[::3]
    tokenizer = tokcore.Tokenizer.train(texts, model="wordpiece", vocab_size=3000, normalizer=["bert-cased"])
    found = read(tokenizer.spec, tmp_path)
    assert (found["tokenizer.ggml.model"], found["tokenizer.ggml.normalizer.lowercase"]) == ("bert", False)
    assert [found[f"tokenizer.ggml.{name}_token_id"] for name in ("bos", "eos", "seperator", "cls")] == [2, 3, 3, 2]
    assert found["tokenizer.ggml.token_type"][:6] == [3, 2, 3, 3, 3, 1]
    ids = {token: id for id, token in enumerate(found["tokenizer.ggml.tokens"])}
    assert len(ids) == tokenizer.vocab_size
    for text in [text[:500] for text in demo_texts()[::7]]:
        expected = []
        for word in words_as_llama_has_them(text):
            rest, made = "\u2581" + word, []
            while rest and (taken := next((n for n in range(len(rest), 0, -1) if rest[:n] in ids), 0)):
                made.append(ids[rest[:taken]])
                rest = rest[taken:]
            expected += [found["tokenizer.ggml.unknown_token_id"]] if rest else made
        assert tokenizer.encode(text).tolist() == expected
    assert read_lower_case(texts, tmp_path)["tokenizer.ggml.normalizer.strip_accents"] is True


def read_lower_case(texts: list[str], folder: Path) -> dict[str, object]:
    lower = tokcore.Tokenizer.train(texts[:9], model="wordpiece", vocab_size=900, allow_smaller=True)
    assert "words of more than 100 differ; llama.cpp removes spacing marks" in ours.describe_left_out(lower.spec)
    return read(lower.spec, folder / "lower")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("bytes", r"unknown text becomes bytes \(byte_fallback = false"),
        ("user-defined", "pieces of the user, which have another score there"),
        ("nfkc", "remove_extra_whitespaces is set, and add_dummy_prefix is not"),
        ("suffix", "white space is at the end of pieces"),
    ],
)
def test_unigram_that_llama_cpp_cuts_otherwise(option, message):
    with pytest.raises(FormatError, match=message):
        ours.write_gguf(read_sentencepiece_model(train("unigram", option), "x"))


@pytest.mark.parametrize(
    ("settings", "tokens", "message"),
    [
        ({"pattern": {"name": "gpt2"}}, (b"a", b"##b"), "splits words as BERT does .* has gpt2 and bert"),
        ({"normalizer": ("nfc",)}, (b"a", b"##b"), "has bert and nfc"),
        ({}, (b"a", "##▁a".encode()), "token 2 would be '▁a' in a GGUF file, which stands for another one"),
        ({}, (b"a", b"##[UNK]"), r"token 2 would be '\[UNK\]'"),
    ],
)
def test_words_that_llama_cpp_would_read_otherwise(settings, tokens, message):
    model = WordpieceModel(tokens, np.array([1, 2], np.int32), 0)
    parts = {"normalizer": ("bert",), "pattern": {"name": "bert"}} | settings
    spec = TokenizerSpec(model=model, special=(SpecialToken("[UNK]", 0, "unknown"),), **parts)
    with pytest.raises(FormatError, match=message):
        ours.write_gguf(spec)


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
