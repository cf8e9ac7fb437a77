"""Ids, names and roles of tokens, under the names that other libraries have for them."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
from support.vocabularies import published_encoding, published_tokenizer

import tokcore
from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.huggingface import write_tokenizer_json
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken

ROLES = {"<s>": "document_begin", "<|end|>": "document_end", "<|end2|>": "document_end", "<pad>": "padding"}


def learned(special=(), **options):
    merges = tokcore.learn_bpe(tokcore.count_pretokens(["é low lower lowest éé"]), 265, min_count=1)
    return Tokenizer.from_merges(merges, pattern="cl100k", special=special, **options)


def test_names_are_those_of_hugging_face():
    ours = learned(ROLES)
    theirs = tokenizers.Tokenizer.from_str(write_tokenizer_json(ours.spec).decode())
    assert ours.vocab == theirs.get_vocab(with_added_tokens=True)
    assert list(ours.vocab.values()) == sorted(ours.vocab.values())
    assert len(ours) == theirs.get_vocab_size() == len(ours.vocab)
    for id in range(len(ours) + 2):
        assert ours.id_to_token(id) == theirs.id_to_token(id)
    for name in (*ours.vocab, " low", "nothing", "é", "", "Ġ"):
        assert ours.token_to_id(name) == theirs.token_to_id(name), name


def test_tokens_by_their_bytes():
    ours, theirs = published_tokenizer("r50k"), published_encoding("r50k")
    for token in (b" the", "é".encode(), b"\xff", b"\xc3"):
        assert ours.token_to_id(token) == theirs.encode_single_token(token)
    assert ours.token_to_id(b"no such token") is None
    assert ours.token_to_id(b"<|endoftext|>") is None  # its bytes are ordinary text
    assert ours.token_to_id("<|endoftext|>") == theirs.eot_token == 50256


def test_unused_ids_are_counted_in_vocab_size_alone():
    ours = learned([SpecialToken("<|far|>", 300)])
    assert (len(ours), ours.vocab_size) == (266, 301)
    assert (ours.id_to_token(299), ours.id_to_token(300), ours.id_to_token(-1)) == (None, "<|far|>", None)


@pytest.mark.parametrize("wrong", [5, None, ["a"]])
def test_what_is_no_token(wrong):
    with pytest.raises(TypeError, match=f"token: expected str or bytes, found {type(wrong).__name__}"):
        learned().token_to_id(wrong)


def test_what_is_no_id():
    assert learned().id_to_token(np.int64(64)) == "a"
    with pytest.raises(TypeError, match="expected an integer, found str"):
        learned().id_to_token("64")


def test_roles():
    ours = learned(ROLES)
    assert ours.specials == {"<s>": 265, "<|end|>": 266, "<|end2|>": 267, "<pad>": 268}
    assert (ours.bos_id, ours.eos_id, ours.pad_id) == (265, 266, 268)
    plain = learned(["<|end|>"])
    assert (plain.bos_id, plain.eos_id, plain.pad_id, plain.special_id("<|end|>")) == (None, None, None, 265)


@pytest.mark.parametrize(
    ("special", "error", "message"),
    [
        ({"<|end|>": "eos"}, ConfigError, "'eos': expected one of the roles document_end, document_begin"),
        ({"<|end|>": 300}, ConfigError, "300: expected one of the roles"),
        ("<|end|>", TypeError, "expected a list of texts"),
        (["<|end|>", None], TypeError, r"special\[1\] = None: expected a str or a SpecialToken"),
        ([SpecialToken("<|end|>", 3)], ConfigError, "ids below 265 belong to ordinary tokens"),
    ],
)
def test_special_tokens_that_are_none(special, error, message):
    with pytest.raises(error, match=message):
        learned(special)
