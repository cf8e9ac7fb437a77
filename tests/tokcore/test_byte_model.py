"""The byte model: ids are the values of bytes, in every format that it is exported to."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.errors import FormatError, LearnError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.look.odd_tokens import find_unreachable_tokens
from tokcore.models import MODELS, LearnOptions
from tokcore.models.byte import ByteModel
from tokcore.text import unicode
from tokcore.text.patterns import PATTERNS
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

END = SpecialToken("<|end|>", None, "document_end")


def spec_of(pattern=None, normalizer=(), special=(END,)) -> TokenizerSpec:
    return make_learned_spec(ByteModel(), pattern or {"name": "cl100k"}, normalizer, special)


TEXTS = st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)), max_size=6)


@given(TEXTS, st.sampled_from([{"name": "cl100k"}, {"name": "gpt2"}, {"regex": r"\S+|\s+"}]), st.integers(1, 3))
def test_ids_are_the_bytes_and_decode_to_them(texts, pattern, threads):
    tokenizer = Tokenizer(spec_of(pattern))
    batch = make_texts_from_strings(texts)
    encoded = tokenizer.encode_texts(batch, threads)
    assert (encoded.ids.dtype, encoded.offsets.dtype, encoded.pretokens.dtype) == (np.int32, np.int64, np.int64)
    assert encoded.ids.tolist() == [byte for text in texts for byte in text]
    assert encoded.offsets.tolist() == batch.offsets.tolist()
    assert encoded.pretokens.tolist() == Tokenizer(_bpe_spec(pattern)).encode_texts(batch).pretokens.tolist()
    assert tokenizer.encode_batch(texts, threads).to_pylist() == [list(text) for text in texts]
    for text in texts:
        assert tokenizer.encode(text).tolist() == list(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def _bpe_spec(pattern) -> TokenizerSpec:
    model = MODELS["bpe"].learn(
        lambda: (make_texts_from_strings([b"ab"]), np.array([3], np.uint64)), LearnOptions(vocab_size=257)
    )
    return make_learned_spec(model, pattern, (), ())


def test_texts_that_do_not_start_at_the_first_byte():
    batch = make_texts_from_strings([b"zzzz", b"ab", "é".encode()])
    encoded = Tokenizer(spec_of()).encode_texts(batch._replace(offsets=batch.offsets[1:]))
    assert (encoded.ids.tolist(), encoded.offsets.tolist()) == ([97, 98, 0xC3, 0xA9], [0, 2, 4])
    assert encoded.pretokens.tolist() == [1, 1]


@pytest.mark.parametrize("name", kernel.list_available())
def test_special_tokens_come_after_the_bytes(name):
    with kernel.force(name):
        tokenizer = Tokenizer(spec_of())
        assert tokenizer.vocab_size == 257
        assert tokenizer.encode("a<|end|>b", allow_special="all").tolist() == [97, 256, 98]
        assert tokenizer.encode("a<|end|>b").tolist() == list(b"a<|end|>b")
        assert tokenizer.decode([97, 256, 98]) == b"a<|end|>b"
        assert tokenizer.token_bytes(0xFF) == b"\xff"
        assert tokenizer.lossless


def test_a_normalizer_and_a_pattern_are_those_of_any_tokenizer():
    tokenizer = Tokenizer(spec_of({"regex": "a|."}, ("lowercase",)))
    assert tokenizer.decode(tokenizer.encode("ABC")) == b"abc"
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


def test_its_file_holds_no_vocabulary():
    spec = spec_of()
    content = json.loads(spec.to_json_bytes())
    # All of this is part of the identity that shards name, so it may never change.
    assert content == {
        "format": "tokcore-tokenizer",
        "format_version": 1,
        "fingerprint": spec.fingerprint,
        "model": {"kind": "byte"},
        "normalizer": [],
        "pattern": {"name": "cl100k"},
        "special": [{"text": "<|end|>", "id": 256, "role": "document_end"}],
        "unicode": {"version": unicode.VERSION, "tables_sha256": unicode.TABLES_SHA256},
    }
    again = TokenizerSpec.from_json_bytes(spec.to_json_bytes(), "x")
    assert again == spec
    assert again.model.tokens == tuple(bytes([byte]) for byte in range(256))
    assert spec != _bpe_spec({"name": "cl100k"})
    content["model"]["tokens"] = []
    with pytest.raises(FormatError, match=r"/t/tokcore\.json: model: unknown field 'tokens'"):
        TokenizerSpec.from_json_bytes(write_canonical_json(content), "/t/tokcore.json")


def test_nothing_is_learned_and_no_row_read():
    byte = MODELS["byte"]

    def never():
        raise AssertionError("rows were read")

    model = byte.learn(never, LearnOptions(vocab_size=257, num_special=1))
    assert (model.summary, model.facts(), model.rules().listed) == ("256 bytes", {}, [])
    assert byte.wrong_option(LearnOptions(vocab_size=257, num_special=1, max_token_bytes=1)) is None
    assert byte.default_vocab_size(3) == 259
    for size in (256, 258):
        name, why = byte.wrong_option(LearnOptions(vocab_size=size, num_special=1))
        assert name == "vocab_size"
        assert why.startswith(f"= {size}: a vocabulary of bytes has exactly 257 tokens (256 for bytes, 1 for special")


@pytest.mark.parametrize("text", ["a", "Ġ"])
def test_a_special_token_named_like_a_byte(text):
    with pytest.raises(LearnError, match="has the name of the learned token"):
        spec_of(special=[SpecialToken(text, None)])


def test_every_token_is_reached():
    assert find_unreachable_tokens(Tokenizer(spec_of())) == []


SAMPLES = ["", "Hello  world\n", "и в не\t的 एक", "\u0000\U0010ffff", "<|end|>", "a" * 300]


def exported(target: str, spec: TokenizerSpec) -> dict[str, bytes]:
    return dict(EXPORTS[target].files(spec))


def test_exported_to_huggingface(tmp_path):
    spec = spec_of()
    data = exported("huggingface", spec)["tokenizer.json"]
    theirs = tokenizers.Tokenizer.from_str(data.decode())
    (tmp_path / "tokenizer.json").write_bytes(data)
    again = Tokenizer.from_huggingface(tmp_path)
    assert again.specials == {"<|end|>": 256}
    for text in SAMPLES:
        ids = list(text.encode())
        assert again.encode(text).tolist() == ids
        if text != "<|end|>":
            assert theirs.encode(text).ids == ids
            assert theirs.decode(ids) == text
    assert theirs.token_to_id("<|end|>") == 256
    assert theirs.get_vocab_size() == 257


def test_exported_to_tiktoken(tmp_path):
    data = exported("tiktoken", spec_of())["tokenizer.tiktoken"]
    assert data.splitlines()[65] == b"QQ== 65"
    assert len(data.splitlines()) == 256
    (tmp_path / "ranks").write_bytes(data)
    again = Tokenizer.from_tiktoken(tmp_path / "ranks", pattern="cl100k")
    ranks = {bytes([byte]): byte for byte in range(256)}
    theirs = tiktoken.Encoding("x", pat_str=PATTERNS["cl100k"], mergeable_ranks=ranks, special_tokens={})
    for text in SAMPLES:
        assert again.encode(text).tolist() == theirs.encode_ordinary(text) == list(text.encode())


def test_exported_to_gpt2(tmp_path):
    files = exported("gpt2", spec_of({"name": "gpt2"}))
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert files["merges.txt"] == b"#version: 0.2\n"
    assert json.loads(files["vocab.json"])["<|end|>"] == 256
    theirs = tokenizers.models.BPE.from_file(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    assert [token.id for token in theirs.tokenize("ĠaÃ")] == [0x20, 0x61, 0xC3]
