"""Words, characters and code points: plain definitions, and the ids of tokenizers and transformers."""

from __future__ import annotations

import collections
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoTokenizer, ByT5Tokenizer, CanineTokenizer

from tokcore import kernel
from tokcore.errors import FormatError, IdentityError, LearnError
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.look.odd_tokens import find_unreachable_tokens
from tokcore.models import MODELS, LearnOptions
from tokcore.models.byte import LAYOUTS as BYTE_LAYOUTS
from tokcore.models.codepoint import LAYOUTS as CODEPOINT_LAYOUTS
from tokcore.text.code_points import find_code_points
from tokcore.text.pretokenize import pretokenize
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

UNKNOWN = SpecialToken("[UNK]", 0, "unknown")
SAMPLES = ["", "Hello  world\n", "и в не\t的 एक", "\u0000\U0010ffff", "the the of\r\n", "日" * 300, "a\u0301 é"]


def table_of(counts):
    return make_texts_from_strings([*counts]), np.array([*counts.values()], np.uint64)


def learned(name, counts, vocab_size=100, pattern="cl100k", **options):
    model = MODELS[name].learn(
        lambda: table_of(counts), LearnOptions(vocab_size=vocab_size, num_special=1, **{"min_count": 1} | options)
    )
    return Tokenizer(make_learned_spec(model, {"name": pattern}, (), [UNKNOWN]))


TABLES = st.dictionaries(
    st.one_of(st.text("ab é日\n", min_size=1, max_size=4).map(str.encode), st.binary(min_size=1, max_size=3)),
    st.integers(0, 4),
    min_size=1,
    max_size=12,
)


def is_utf8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(TABLES, st.integers(2, 9), st.integers(0, 3))
def test_words_are_the_most_frequent(counts, vocab_size, least):
    expected = sorted((-count, word) for word, count in counts.items() if count >= max(1, least) and is_utf8(word))
    if not expected:
        with pytest.raises(LearnError):
            learned("word", counts, vocab_size, min_count=least)
        return
    tokenizer = learned("word", counts, vocab_size, min_count=least)
    assert tokenizer.spec.model.tokens == tuple(word for _, word in expected[: vocab_size - 1])
    assert tokenizer.spec.model.ids.tolist() == [*range(1, len(tokenizer.spec.model.ids) + 1)]


@example({b"ab": 1}, "0.5")
@given(TABLES, st.sampled_from(["0.1", "0.5", "0.9", "0.9995", "1"]))
def test_characters_are_the_most_frequent_until_they_cover_the_share(counts, coverage):
    of_character: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word.decode("utf-8", "surrogateescape"):
            if count and not 0xDC80 <= ord(character) < 0xDD00:
                of_character[character] += count
    if not of_character:
        return
    tokenizer = learned("character", counts, character_coverage=coverage)
    chosen = [*tokenizer.spec.model.names]
    ranked = sorted(of_character, key=lambda character: (-of_character[character], character))
    assert chosen == ranked[: len(chosen)]
    total, share = of_character.total(), Fraction(coverage)
    assert sum(of_character[c] for c in chosen) >= share * total
    assert sum(of_character[c] for c in chosen[:-1]) < share * total


def test_a_table_of_too_large_counts_is_refused():
    large = (make_texts_from_strings(["a", "b"]), np.array([2**63, 1], np.uint64))
    with pytest.raises(LearnError, match="the counts of the table are too large"):
        MODELS["word"].learn(lambda: large, LearnOptions(vocab_size=3, num_special=1))


@given(st.lists(st.one_of(st.text("ab é日\n\t", max_size=12).map(str.encode), st.binary(max_size=8)), max_size=4))
def test_ids_are_looked_up(texts):
    words = learned("word", {"a": 3, " b": 2, "é日": 1})
    characters = learned("character", {"ab": 3, "é": 2, " ": 1})
    for tokenizer in (words, characters):
        assert not tokenizer.lossless
        known = tokenizer.vocab
        encoded = tokenizer.encode_texts(make_texts_from_strings(texts), 2)
        for i, text in enumerate(texts):
            plain = text.decode("utf-8", "surrogateescape")
            pieces = [*pretokenize(text, "cl100k")] if tokenizer is words else [*plain]
            spelled = [piece.decode("utf-8", "replace") if isinstance(piece, bytes) else piece for piece in pieces]
            found = encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
            assert found == [known.get(piece, 0) for piece in spelled]
            assert encoded.pretokens[i] == len(pretokenize(text, "cl100k"))


def test_pieces_of_words_are_looked_up_alike_by_every_kernel():
    encoded = []
    for name in kernel.list_available():
        with kernel.force(name):
            encoded.append(learned("word", {"a": 3, " b": 2}).encode("a b c").tolist())
    assert encoded == [[1, 2, 0]] * len(encoded)


@pytest.mark.parametrize("name", ["word", "character"])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", "bert"])
def test_exported_to_huggingface_and_read_again(tmp_path, name, pattern):
    counts = collections.Counter(
        piece for text in [*SAMPLES, "the of and"] for piece in pretokenize(text, pattern) if piece != "एक"
    )
    tokenizer = learned(name, counts, 12, pattern, character_coverage="0.9")
    assert Tokenizer(TokenizerSpec.from_json_bytes(tokenizer.spec.to_json_bytes(), "x")) == tokenizer
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer
    assert find_unreachable_tokens(tokenizer) == []
    tokenizer.export("huggingface", tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*SAMPLES, "the of and एक 日本"]:
        ids = tokenizer.encode(text).tolist()
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids, "strict")
    assert Tokenizer.from_huggingface(tmp_path) == tokenizer
    for target in ("tiktoken", "gpt2", "byt5", "bert"):
        with pytest.raises(FormatError):
            EXPORTS[target].files(tokenizer.spec)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model": {"vocab": {"[UNK]": 0, "a": -1}}}, "model.vocab: token 'a' has the id -1"),
        ({"model": {"unk_token": "a"}}, "model.unk_token = 'a' is no special token"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "pre_tokenizer ByteLevel of a WordLevel model is not supported"),
        ({"model": {"vocab": {"[UNK]": 0, "ab": 1}}}, "the token 'ab' is not one character"),
    ],
)
def test_a_tokenizer_json_that_is_not_followed(tmp_path, change, why):
    path = tmp_path / "tokenizer.json"
    learned("character", {"ab": 1}).export("huggingface", path)
    content = json.loads(path.read_text())
    for name, value in change.items():
        content[name] = content[name] | value if name == "model" else value
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=why):
        Tokenizer.from_huggingface(path)


# ------------------------------------------------------------------------------------------------ bytes and code points


def layout(name: str, of: str, layouts) -> Tokenizer:
    model = MODELS[name].learn(lambda: table_of({}), LearnOptions(vocab_size=0, layout=of))
    special = [SpecialToken(text, token.id, token.role) for text, token in layouts[of].items()]
    return Tokenizer(make_learned_spec(model, {"name": "cl100k"}, (), special))


@pytest.fixture(scope="module")
def byt5():
    return layout("byte", "byt5", BYTE_LAYOUTS)


@given(texts=st.lists(st.text(max_size=12), max_size=4))
def test_byt5_s_ids(byt5, texts):
    ours, theirs = byt5, ByT5Tokenizer()
    for text in texts:
        assert ours.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.decode(ours.encode(text), "strict") == text
    assert ours.vocab_size == len(theirs) == 384
    assert (ours.pad_id, ours.eos_id) == (theirs.pad_token_id, theirs.eos_token_id)
    marked = "a<extra_id_0>b</s>"
    assert ours.encode(marked, allow_special="all").tolist() == theirs(marked, add_special_tokens=False)["input_ids"]
    assert ours.encode("</s>").tolist() == [byte + 3 for byte in b"</s>"]


def test_byt5_s_folder(byt5, tmp_path):
    byt5.export("byt5", tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert type(theirs).__name__ == "ByT5Tokenizer"
    for text in SAMPLES:
        assert theirs(text)["input_ids"] == [*byt5.encode(text).tolist(), 1]
    assert theirs.convert_tokens_to_ids("<extra_id_124>") == byt5.token_to_id("<extra_id_124>") == 383
    again = Tokenizer.load(tmp_path)
    assert (again.spec.special, again.encode("é").tolist()) == (byt5.spec.special, byt5.encode("é").tolist())
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for key, value in (
        ("extra_ids", 100),
        ("eos_token", "<end>"),
        ("pad_token", {"content": "<p>"}),
        ("added_tokens_decoder", {"400": {"content": "<x>"}}),
        ("additional_special_tokens", ["<extra_id_0>", "<x>"]),
    ):
        (tmp_path / "other.json").write_text(json.dumps(config | {key: value}))
        with pytest.raises(FormatError, match=rf"other.json: {key}"):
            Tokenizer.load(tmp_path / "other.json")
    published = {str(id): {"content": text, "special": True} for text, id in byt5.specials.items()}
    (tmp_path / "other.json").write_text(json.dumps(config | {"added_tokens_decoder": published}))
    assert Tokenizer.load(tmp_path / "other.json") == again
    byt5.export("huggingface", tmp_path / "x.json")
    assert Tokenizer.from_huggingface(tmp_path / "x.json") == byt5
    with pytest.raises(FormatError, match="learn with model"):
        EXPORTS["byt5"].files(learned("word", {"a": 1}).spec)
    other = make_learned_spec(byt5.spec.model, {"name": "cl100k"}, (), [*byt5.spec.special, SpecialToken("<x>", None)])
    with pytest.raises(FormatError, match="its own special tokens only, and '<x>' differs"):
        EXPORTS["byt5"].files(other)


@pytest.fixture(scope="module")
def canine() -> Tokenizer:
    return layout("codepoint", "canine", CODEPOINT_LAYOUTS)


@pytest.fixture(scope="module")
def codepoint() -> Tokenizer:
    return Tokenizer(
        make_learned_spec(MODELS["codepoint"].learn(dict, LearnOptions(vocab_size=0)), {"name": "gpt2"}, (), [])
    )


def test_canine_s_ids(canine):
    theirs = CanineTokenizer()
    for text in [*SAMPLES, "a\ue000b\ue003\ue004"]:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert canine.encode(text).tolist() == canine.encode(text, allow_special="all").tolist() == expected
        assert canine.decode(expected, "strict") == text
        assert theirs(text)["input_ids"] == [canine.bos_id, *expected, canine.eos_id]
    assert canine.vocab_size == len(theirs) == 0x110000
    assert canine.pad_id == theirs.pad_token_id == 0
    assert canine.specials["\ue001"] == theirs.sep_token_id == 0xE001


@given(texts=st.lists(st.one_of(st.binary(max_size=12), st.text(max_size=8).map(str.encode)), max_size=5))
def test_code_points_of_all_bytes_come_back(codepoint, texts):
    encoded = codepoint.encode_texts(make_texts_from_strings(texts))
    for i, text in enumerate(texts):
        ids = encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == [*map(ord, text.decode("utf-8", "surrogateescape"))]
        assert codepoint.decode(ids) == text
    points, offsets = find_code_points(make_texts_from_strings([b"zz", *texts])._replace())
    assert points[offsets[1] :].tolist() == encoded.ids.tolist()


def test_a_character_never_spans_two_texts():
    points, offsets = find_code_points(make_texts_from_strings([b"a\xc3", b"\xa9b", b""]))
    assert (points.tolist(), offsets.tolist()) == ([0x61, 0xDCC3, 0xDCA9, 0x62], [0, 2, 4, 4])


def test_code_points_in_files(codepoint):
    assert codepoint.lossless
    assert codepoint.vocab_size == 0x110000
    content = json.loads(codepoint.spec.to_json_bytes())
    assert content["model"] == {"kind": "codepoint"}
    assert TokenizerSpec.from_json_bytes(codepoint.spec.to_json_bytes(), "x") == codepoint.spec
    assert codepoint.token_bytes(0xDCFF) == b"\xff"
    assert codepoint.token_to_id("é") == 0xE9
    with pytest.raises(IdentityError, match=r"ids\[1\] = 55296 is no token"):
        codepoint.decode([97, 0xD800])
    with pytest.raises(FormatError, match="no merges of bytes give these"):
        EXPORTS["huggingface"].files(codepoint.spec)


def test_a_text_is_one_word_where_nothing_splits_it():
    special = [{"id": 0, "content": "[UNK]", "special": True, "normalized": False}]
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    model = {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "a b": 2}}
    content = {"version": "1.0", "added_tokens": [special[0] | flags], "pre_tokenizer": None, "model": model}
    spec = read_tokenizer_json(json.dumps(content).encode(), "x")
    again = tokenizers.Tokenizer.from_str(write_tokenizer_json(spec).decode())
    for text in ("a b", "a  b", "", "a", "a b[UNK]a"):
        assert Tokenizer(spec).encode(text, "all").tolist() == again.encode(text).ids
