"""vocab.json and merges.txt, and the printable byte alphabet they are written in."""

from __future__ import annotations

import json
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import published_tokenizer, spec_of_merges

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.gpt2 import describe_left_out, write_vocabulary_files
from tokcore.formats.tokenizers.vocabulary_files import read_vocabulary_files
from tokcore.text.byte_alphabet import BYTE_OF_ID, ID_OF_BYTE, from_printable, to_printable
from tokcore.tokenizer.tokenizer_spec import SpecialToken

Merge = namedtuple("Merge", "left right count")


def test_files():
    merges = [Merge(b" ", b"t", 3), Merge(b"\n", b"\n", 2)]
    spec = spec_of_merges(merges, {"name": "gpt2"}, [], [SpecialToken("<|end|>", 300)])
    (vocab_name, vocab), (merges_name, merges_text) = write_vocabulary_files(spec)
    assert (vocab_name, merges_name) == ("vocab.json", "merges.txt")
    assert merges_text.decode() == "#version: 0.2\nĠ t\nĊ Ċ\n"
    names = json.loads(vocab)
    assert (names["!"], names["Ġt"], names["ĊĊ"], names["<|end|>"]) == (0, 256, 257, 300)
    assert list(names.values()) == [*range(258), 300]


def test_what_the_files_cannot_hold():
    with pytest.raises(FormatError, match="cannot hold the normalizer nfkc, lowercase: export to huggingface"):
        write_vocabulary_files(spec_of_merges([], {"name": "gpt2"}, ["nfkc", "lowercase"], []))
    assert describe_left_out(spec_of_merges([], {"name": "gpt2"}, [], [])) == ""
    assert "this tokenizer's is cl100k" in describe_left_out(spec_of_merges([], {"name": "cl100k"}, [], []))
    assert r"is '\\p{L}+|.'" in describe_left_out(spec_of_merges([], {"regex": r"\p{L}+|."}, [], []))


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_published_vocabularies_have_a_merge_for_every_token(name):
    spec = published_tokenizer(name).spec
    _, (_, merges) = write_vocabulary_files(spec)
    assert merges.count(b"\n") - 1 == len(spec.model.tokens) - 256


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_what_is_written_is_read_again(name):
    spec = published_tokenizer(name).spec
    files = [data for _, data in write_vocabulary_files(spec)]
    assert read_vocabulary_files(*files, "x", spec.pattern).fingerprint == spec.fingerprint


def test_tokens_of_no_merge_are_special():
    merges = [Merge(b" ", b"t", 3), Merge(b"\n", b"\n", 2)]
    special = [SpecialToken("<|end|>", 300, "document_end"), SpecialToken("<s>", 301)]
    spec = spec_of_merges(merges, {"name": "gpt2"}, [], special)
    files = [data for _, data in write_vocabulary_files(spec)]
    assert read_vocabulary_files(*files, "x", spec.pattern, [SpecialToken("<|end|>", None, "document_end")]) == spec
    again = read_vocabulary_files(*files, "x", spec.pattern, [SpecialToken("<pad>", None, "padding")])
    assert [(token.text, token.id, token.role) for token in again.special] == [
        ("<|end|>", 300, "plain"),
        ("<s>", 301, "plain"),
        ("<pad>", 302, "padding"),
    ]
    with pytest.raises(FormatError, match=r"x: '<s>' has the id 301 in vocab\.json, and 5000 is declared"):
        read_vocabulary_files(*files, "x", spec.pattern, [SpecialToken("<s>", 5000)])


BYTES = {to_printable(bytes([byte])): byte for byte in range(256)}


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ("{", "", "x: vocab.json is not JSON"),
        ("[]", "", "x: vocab.json is not an object of tokens and their ids"),
        ("{}", "", "x: vocab.json is not an object of tokens and their ids"),
        ('{"a": "b"}', "", "x: vocab.json is not an object of tokens and their ids"),
        (json.dumps(BYTES | {"a</w>": 256}), "", "tokens that end with </w>: what comes of white space"),
        (json.dumps(BYTES), "#version: 0.2\na b\n", r"x: merge 0 = \('a', 'b'\): makes no token"),
        (json.dumps(BYTES | {"ab": 256}), "a b\nab\n", "x: merges.txt:2: 'ab': expected two tokens"),
        (json.dumps(BYTES | {"ab": 256}), "a b\n\nb a\n", "x: merges.txt:2: '': expected two tokens"),
        (json.dumps(BYTES | {"ab": 256}), "a b c\n", "x: merges.txt:1: 'a b c': expected two tokens"),
        (json.dumps({"a": 0}), "", "x: .*byte"),
    ],
)
def test_other_files_are_refused(vocabulary, merges, message):
    with pytest.raises(FormatError, match=message):
        read_vocabulary_files(vocabulary.encode(), merges.encode(), "x", {"name": "gpt2"})


def test_gpt2_first_merges():
    """As published with GPT-2."""
    merges = dict(write_vocabulary_files(published_tokenizer("r50k").spec))["merges.txt"].decode().split("\n")
    assert merges[:6] == ["#version: 0.2", "Ġ t", "Ġ a", "h e", "i n", "r e"]


def test_alphabet():
    assert to_printable(bytes(range(256))) == "".join(to_printable(bytes([byte])) for byte in range(256))
    assert len(set(to_printable(bytes(range(256))))) == 256
    assert to_printable(b"\n \xc3\xa9!~\xa1\xad") == "ĊĠÃ©!~¡Ń"
    assert all(ID_OF_BYTE[byte] == id for id, byte in enumerate(BYTE_OF_ID))
    # hf order sorts bytes by the characters that stand for them, so printable ones come first.
    assert sorted(range(256), key=lambda byte: ord(to_printable(bytes([byte])))) == list(BYTE_OF_ID)


@given(st.binary())
def test_names_are_reversible(token):
    assert from_printable(to_printable(token)) == token
