"""Unigram in byte form: pieces of the bytes of pre-tokens, as tokenizers has them after ByteLevel."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.sentencepiece_models import demo_texts

from tokcore import kernel
from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_tables import read_counts_of_table
from tokcore.errors import FormatError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.models import MODELS
from tokcore.models.model import LearnOptions
from tokcore.models.sentencepiece.learned_pieces import UNKNOWN_PENALTY
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.models.unigram.byte_unigram import ByteUnigramModel
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

ODD = ["", " ", "\n\n", "a" * 3000, "  two  blanks", "日本語😀", "e\u0301", "\x00\x7f", "<s> [x] </s>", "naïve Straße"]
MALFORMED = [b"\xff\xfe", b"a\xe6\x97", b"\x80b", b"\xf0\x9f\x98"]


def learn(texts: list[str], size: int) -> Tokenizer:
    table = count_pretokens(texts, pattern="o200k")
    type = MODELS["unigram"]
    pinned = {text: id for id, text in enumerate(type.own_special)}
    pieces = PieceOptions(as_bytes=True, has_charsmap=False, reserved=tuple(pinned))
    options = LearnOptions(vocab_size=size, num_special=3, pinned=pinned, pieces=pieces)
    model = type.learn(lambda: read_counts_of_table(table), options)
    special = [SpecialToken(text, id, type.own_special[text]) for text, id in pinned.items()]
    return Tokenizer(make_learned_spec(model, {"name": "o200k"}, (), special))


@pytest.fixture(scope="module")
def learned() -> Tokenizer:
    return learn(demo_texts()[::3], 3000)


def test_pieces_are_byte_strings_of_pre_tokens(learned):
    model = learned.spec.model
    assert (len(learned), model.kind, learned.lossless) == (3000, "unigram-bytes", True)
    assert set(range(256)) == {token[0] for token in model.tokens if len(token) == 1}
    assert max(map(len, model.tokens)) <= 16
    assert b" the" in model.tokens
    assert learned.specials == {"<unk>": 0, "<s>": 1, "</s>": 2}
    # Bytes that no text has come last.
    text = "".join(demo_texts()[::3]).encode()
    missing = [bytes([byte]) for byte in range(256) if bytes([byte]) not in text]
    assert missing
    assert list(model.tokens[-len(missing) :]) == missing
    assert model.scores[-1] == model.scores[-len(missing) - 1] - UNKNOWN_PENALTY
    assert np.all(np.diff(model.scores) <= 0)


def test_texts_come_back_and_specials_stay_text(learned):
    texts = [*(text.encode() for text in [*demo_texts()[1::9], *ODD]), *MALFORMED]
    for text in texts:
        ids = learned.encode(text)
        assert learned.decode(ids) == text
        assert ids.min(initial=3) >= 3


def test_ids_are_those_of_tokenizers(learned):
    data = write_tokenizer_json(learned.spec)
    theirs = tokenizers.Tokenizer.from_str(data.decode())
    texts = [*demo_texts()[1::3], *(text for text in ODD if "<s>" not in text)]
    ours = learned.encode_batch(texts, threads=2).to_pylist()
    assert ours == [one.ids for one in theirs.encode_batch(texts, add_special_tokens=False)]
    assert theirs.decode(ours[0]) == texts[0]
    assert read_tokenizer_json(data, "again") == learned.spec
    assert TokenizerSpec.from_json_bytes(learned.spec.to_json_bytes(), "x") == learned.spec


tokens = st.binary(min_size=2, max_size=5)
scores = st.sampled_from([0.0, -0.5, -1.0, -1.5, -2.0, -7.25, 3.0, -1e280])


@examples(150)
@given(
    st.dictionaries(
        st.lists(st.sampled_from([b"a", b"b", b" ", b"\xe6"]), min_size=2, max_size=5).map(b"".join), scores
    ),
    st.lists(st.lists(st.sampled_from([b"a", b"b", b" ", b"\xe6", b"z"]), max_size=30).map(b"".join), max_size=4),
    scores,
)
def test_the_kernel_is_its_slow_twin(further, texts, of_bytes):
    """Equal sums, scores that differ by far, and parts of characters."""
    named = {bytes([byte]): of_bytes for byte in range(256)} | further
    model = ByteUnigramModel(tuple(named), np.arange(len(named), dtype=np.int32), np.array([*named.values()]))
    given_texts = make_texts_from_strings([*texts, b"ab" * 300])
    with kernel.force("reference"):
        slow = model.encoder("gpt2", 0)
    expected = [column.tolist() for column in slow.encode(given_texts)]
    for cache_bytes in (0, 1 << 16):
        fast = model.encoder("gpt2", cache_bytes)
        for _ in range(2):
            assert [column.tolist() for column in fast.encode(given_texts, 2)] == expected


def test_what_cannot_be_is_refused(learned):
    model = learned.spec.model
    with pytest.raises(FormatError, match="the byte 0x00 is no token"):
        ByteUnigramModel((b"a",), np.array([0], np.int32), np.zeros(1))
    with pytest.raises(FormatError, match=r"the score of the token '.*' is not a finite number"):
        ByteUnigramModel(model.tokens, model.ids, np.full(len(model.ids), np.nan))
    content = json.loads(write_tokenizer_json(learned.spec))
    for change, message in [
        ({"unk_id": 0}, "model.unk_id = 0, byte_fallback = False"),
        ({"vocab": {}}, "model.vocab is dict"),
        ({"vocab": [["<unk>", 0]]}, "added token '<s>'|the byte 0x00 is no token"),
        ({"vocab": [*content["model"]["vocab"], ["\u2581", 0.0]]}, r"model.vocab\[3000\]: '▁' has a character"),
        ({"vocab": [*content["model"]["vocab"], ["a"]]}, r"model.vocab\[3000\] is \['a'\]: expected \[piece, score\]"),
    ]:
        changed = content | {"model": content["model"] | change}
        with pytest.raises(FormatError, match=message):
            read_tokenizer_json(json.dumps(changed).encode(), "t.json")
    with pytest.raises(FormatError, match="no merges give the same ids"):
        model.as_bpe()
