"""WordPiece: ids, decoding and files are those of `tokenizers` and of `transformers`."""

from __future__ import annotations

import functools
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.errors import FormatError, IdentityError, VersionError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.tokenizers.bert import is_vocab_txt, read_vocab_txt
from tokcore.look.odd_tokens import find_unreachable_tokens
from tokcore.models.wordpiece.longest_match import WordpieceModel
from tokcore.text import bert_characters as bert
from tokcore.text.normalize import Normalizer
from tokcore.text.pretokenize import pretokenize
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    "hug",
    "hu",
    "p",
    "##ug",
    "##un",
    "##g",
    "##gs",
    "##s",
    "b",
    "##b",
    "don",
    "'",
    "t",
    ",",
    ".",
    "a",
    "##a",
    "你",
]
SMALL = "".join(f"{word}\n" for word in [*SPECIAL, *WORDS]).encode()


DEMO = Path(__file__).parents[2] / "deploy" / "demo" / "data"


@functools.cache
def demo_texts() -> list[str]:
    """The documents of the demo that are in compressed JSON lines."""
    files = sorted(DEMO.glob("*/*.jsonl.zst"))
    data = b"\n".join(zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read() for file in files)
    return [json.loads(line)["text"] for line in data.split(b"\n") if line]


def load_small(normalizer=()) -> Tokenizer:
    return Tokenizer(read_vocab_txt(SMALL, "vocab.txt", normalizer))


@pytest.fixture(scope="module")
def learned() -> tuple[tokenizers.Tokenizer, Tokenizer]:
    """Their tokenizer, learned from the demo, and ours of its vocabulary."""
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    theirs.normalizer = tokenizers.normalizers.BertNormalizer()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    theirs.decoder = tokenizers.decoders.WordPiece()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=4000, special_tokens=SPECIAL, limit_alphabet=700, show_progress=False
    )
    theirs.train_from_iterator(demo_texts()[::4], trainer)
    lines = [text for text, _ in sorted(theirs.get_vocab().items(), key=lambda one: one[1])]
    return theirs, Tokenizer(read_vocab_txt("\n".join(lines).encode(), "vocab.txt"))


def test_the_article_s_example():
    tokenizer = load_small()
    words = {word: [tokenizer.id_to_token(id) for id in tokenizer.encode(word)] for word in ("hugs", "bun", "pug")}
    assert words == {"hugs": ["hug", "##s"], "bun": ["b", "##un"], "pug": ["p", "##ug"]}
    assert [tokenizer.id_to_token(id) for id in tokenizer.encode("hug mug hugm")] == ["hug", "[UNK]", "[UNK]"]


def test_ids_and_decoding_are_theirs(learned):
    theirs, ours = learned
    texts = [*demo_texts()[::2], *RARE]
    ids = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert ours.encode_batch(texts, threads=2).to_pylist() == ids
    for text, expected in zip(texts[::7], ids[::7], strict=True):
        assert ours.decode(expected, "strict") == theirs.decode(expected, skip_special_tokens=False), text
    stream = ours.stream_decoder()
    assert "".join(stream.feed(id) for id in ids[0]) + stream.finish() == ours.decode(ids[0], "strict")
    spans = ours.offsets(ids[0]).bytes.tolist()
    assert b"".join(ours.decode(ids[0])[start:end] for start, end in spans) == ours.decode(ids[0])


RARE = [
    "",
    " \t\n ",
    "a" * 100,
    "a" * 101,
    "é" * 100 + " " + "é" * 101,
    "Hello, WORLD! ünïcode 你好 한국어 \u0000\ufffd",
    "e\u0301\u0315\u1dfa\u302e \U0001d15e\u1b44\U0001d165",
    "don't ##ing #hug İSTANBUL ẞ",
    "\u2028a\u3000b\u200bc",
    "\u1dfa\u1b44" * 5000,
]


@pytest.mark.parametrize("cased", [False, True])
def test_the_normalizer_is_theirs_for_every_code_point(cased):
    scalars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    theirs = tokenizers.normalizers.BertNormalizer(lowercase=not cased)
    ours = kernel.normalize_bert(make_texts_from_strings(scalars), cased)
    expected = [theirs.normalize_str(c) for c in scalars]
    assert [ours.text(i).decode() for i in range(len(scalars))] == expected
    table = bert.load_table(cased)
    assert [bert.normalize_text(c, table) for c in scalars[::7]] == expected[::7]


def test_the_pattern_is_theirs_for_every_code_point():
    scalars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    text = "a".join(scalars)
    pieces = pretokenize(text, "bert")
    ends = Pretokenizer.named("bert").regex_pieces(make_texts_from_strings([text]))[0]
    assert np.array_equal(np.cumsum([len(piece.encode()) for piece in pieces]), ends)
    theirs = tokenizers.pre_tokenizers.BertPreTokenizer()
    for block in range(0, len(scalars), 4096):
        text = "a".join(scalars[block : block + 4096])
        pieces = [piece for piece in pretokenize(text, "bert") if not piece.isspace()]
        assert pieces == [piece for piece, _ in theirs.pre_tokenize_str(text)], block


CHARACTERS = st.sampled_from("aé Ä\n.,'你한\u0301\u0315\u302e\u1b44\u1dfa\u200b\U0001d15e\U0001d165\u094d\x00#[]")


@given(st.lists(st.text(CHARACTERS, max_size=12), max_size=5), st.booleans())
@example(["a\u302e\u1b44"], False)  # marks that stay, in the order in which they do not
def test_kernel_reference_and_theirs_normalize_alike(texts, cased):
    theirs = tokenizers.normalizers.BertNormalizer(lowercase=not cased)
    expected = [theirs.normalize_str(text).encode() for text in texts]
    for name in kernel.list_available():
        with kernel.force(name):
            ours = kernel.normalize_bert(make_texts_from_strings(texts), cased)
        assert [ours.text(i) for i in range(ours.num_texts)] == expected, name


def test_a_removed_starter_parts_marks():
    """U+0E31 is a mark without a class: it is removed, and marks are not sorted across it."""
    text = "a\u302e\u0e31\u1b44"
    expected = tokenizers.normalizers.BertNormalizer().normalize_str(text)
    assert expected == "a\u302e\u1b44"
    for name in kernel.list_available():
        with kernel.force(name):
            assert Normalizer(["bert"]).apply_str(text) == expected


def test_bytes_that_are_not_utf8_are_removed_as_u_fffd_is():
    assert Normalizer(["bert"]).apply_str("A\udcffB\ufffdC") == "abc"
    texts = make_texts_from_strings([b"zz", b"\xc3\xa9\xc3A\xf0\x9f"])._replace(offsets=np.array([2, 8], np.int64))
    assert kernel.normalize_bert(texts, True).text(0) == "éA".encode()


def test_normalizers_apply_in_turn():
    assert Normalizer(["nfkc", "bert-cased", "lowercase"]).apply_str("Ａ\u0000É你") == "aé 你 "


VOCABULARIES = st.lists(st.text("abé#", min_size=1, max_size=4), min_size=1, max_size=12, unique=True)


@given(
    VOCABULARIES,
    st.lists(st.one_of(st.text("abé# .", max_size=20).map(str.encode), st.binary(max_size=12)), max_size=5),
    st.sampled_from([0, 1, 5, 100]),
    st.integers(1, 3),
)
def test_the_kernel_is_its_reference(words, texts, max_characters, threads):
    ids = np.arange(1, len(words) + 1, dtype=np.int32)
    model = WordpieceModel(tuple(word.encode() for word in words), ids, 0, "#", max_characters)
    encoded = []
    for name in kernel.list_available():
        with kernel.force(name):
            found = model.encoder("bert", 4096).encode(make_texts_from_strings(texts), threads)
        encoded.append([one.tolist() for one in found])
    assert all(one == encoded[0] for one in encoded)


@given(VOCABULARIES, st.text("abé#", max_size=20), st.sampled_from([1, 5, 100]))
def test_the_reference_is_theirs(words, text, max_characters):
    vocab = {"[UNK]": 0} | {word: i + 1 for i, word in enumerate(words)}
    theirs = tokenizers.models.WordPiece(
        vocab, unk_token="[UNK]", max_input_chars_per_word=max_characters, continuing_subword_prefix="#"
    )
    ids = np.arange(1, len(words) + 1, dtype=np.int32)
    model = WordpieceModel(tuple(word.encode() for word in words), ids, 0, "#", max_characters)
    with kernel.force("reference"):
        texts = make_texts_from_strings([text])
        found = model.encoder(None, 0).encode_pieces(texts, texts.offsets[1:] if text else texts.offsets[:0], [0, 1])
    assert found[0].tolist() == ([token.id for token in theirs.tokenize(text)] if text else [])


@pytest.mark.parametrize("name", [one for one in kernel.list_available() if one != "reference"])
def test_long_words_take_linear_time(name):
    """A word of a megabyte, a million blanks, a million marks: quadratic work would not end."""
    with kernel.force(name):
        model = WordpieceModel((b"a", b"##a", b"##aa"), np.array([1, 2, 3], np.int32), 0, "##", 0)
        tokenizer = Tokenizer(TokenizerSpec(("bert",), {"name": "bert"}, model, (UNKNOWN,)))
        assert len(tokenizer.encode("a" * 1_000_001)) == 500_001
        assert len(tokenizer.encode(" " * 1_000_000)) == 0
        assert tokenizer.encode("\u1dfa\u1b44" * 500_000).tolist() == [0]


UNKNOWN = SpecialToken("[UNK]", 0, "unknown")


def test_its_own_file():
    tokenizer = load_small()
    content = json.loads(tokenizer.spec.to_json_bytes())
    assert content["model"] | {"tokens": []} == {
        "kind": "wordpiece",
        "lossless": False,
        "max_characters": 100,
        "prefix": "##",
        "tokens": [],
        "unknown": 1,
    }
    assert content["unicode"]["bert_sha256"] == bert.TABLES_SHA256
    assert Tokenizer(TokenizerSpec.from_json_bytes(tokenizer.spec.to_json_bytes(), "x")) == tokenizer
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer
    assert (tokenizer.unk_id, tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id) == (1, 0, 2, 3)
    assert not tokenizer.lossless
    content["unicode"]["bert_sha256"] = "0" * 64
    with pytest.raises(VersionError, match="made for BERT's tables 000000000000"):
        TokenizerSpec.from_json_bytes(write_canonical_json(content), "x")


def test_the_tables_are_those_of_this_release():
    """Other tables give other ids: then SEMANTICS_VERSION must rise with this hash."""
    assert (kernel.SEMANTICS_VERSION, bert.TABLES_SHA256[:16]) == (1, "a6c74a30690d96f4")


def test_names_and_bytes():
    tokenizer = load_small()
    assert tokenizer.token_to_id("##ug") == tokenizer.token_to_id(b"##ug") == 8
    assert tokenizer.id_to_token(22) == "你"
    assert tokenizer.token_bytes(8) == b"##ug"
    assert tokenizer.decode([5, 8, 18]) == b"hugug,"
    assert tokenizer.vocab["[MASK]"] == 4
    assert tokenizer.spec.model.sizes[3] == 2  # without the prefix
    assert find_unreachable_tokens(tokenizer) == []
    with pytest.raises(IdentityError, match=r"ids\[1\] = 99 is no token"):
        tokenizer.decode([5, 99])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (SMALL.replace(b"[UNK]\n", b""), "no line is [UNK]: unknown text would have no id"),
        (SMALL + b"hug\n", "line 24: the token 'hug' stands on line 6 already"),
        (b"[UNK]\n\nx\n", "line 2: it is empty"),
        (b"[UNK]\nx\n\xff\n", "line 3: byte 8 is not UTF-8"),
    ],
)
def test_a_vocab_txt_that_is_wrong(data, why):
    with pytest.raises(FormatError, match=re.escape(f"/v/vocab.txt: {why}")):
        read_vocab_txt(data, "/v/vocab.txt")


def test_which_files_are_vocab_txt():
    assert is_vocab_txt(SMALL)
    assert not is_vocab_txt(b"SGVsbG8= 0\n")


def test_exported_to_bert(learned, tmp_path):
    from transformers import AutoTokenizer

    _, ours = learned
    paths = ours.export("bert", tmp_path)
    assert [path.name for path in paths] == ["vocab.txt", "tokenizer.json", "tokenizer_config.json"]
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in demo_texts()[::20]:
        assert theirs(text)["input_ids"] == [2, *ours.encode(text).tolist(), 3]
    assert Tokenizer.from_huggingface(tmp_path) == ours
    assert Tokenizer(read_vocab_txt((tmp_path / "vocab.txt").read_bytes(), "x")) == ours


def test_exported_to_huggingface_and_read_again(tmp_path):
    for normalizer in (["bert"], ["bert-cased"], ["nfc", "bert"]):
        tokenizer = load_small(normalizer)
        tokenizer.export("huggingface", tmp_path / "x.json", replace=True)
        assert Tokenizer.from_huggingface(tmp_path / "x.json") == tokenizer
        theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "x.json"))
        text = "Hugs, hugs; DON'T 你 a\u0301 ##s"
        assert theirs.encode(text).ids == tokenizer.encode(text).tolist()
    with pytest.raises(FormatError, match="BERT's files know the pattern bert and the normalizers"):
        load_small(["nfc", "bert"]).export("bert", tmp_path / "y")
    for target in ("tiktoken", "gpt2"):
        with pytest.raises(FormatError, match="cannot hold the normalizer bert: export to huggingface instead"):
            load_small().export(target, tmp_path / "z")
    with pytest.raises(FormatError, match="no merges give the same ids"):
        load_small().spec.model.as_bpe()


def test_lowercase_that_keeps_accents(tmp_path):
    path = tmp_path / "tokenizer.json"
    load_small().export("huggingface", path)
    content = json.loads(path.read_text())
    content["normalizer"] |= {"strip_accents": False}
    path.write_text(json.dumps(content))
    ours, theirs = Tokenizer.load(path), tokenizers.Tokenizer.from_file(str(path))
    assert ours.spec.normalizer == ("bert-cased", "lowercase")
    for text in ("HUGS hug\u0301s É 你ΣΑΣ\u00adİ", "\x00hugs\u2028PUG", "ǅ hug"):
        normalized = theirs.normalizer.normalize_str(text)
        assert ours.normalized(text.encode()).decode() == normalized
        assert ours.encode(text).tolist() == theirs.encode(text).ids


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model": {"unk_token": "[X]"}}, "model.vocab has no '[X]', which unk_token names"),
        ({"model": {"vocab": {"[UNK]": 0, "a": -1}}}, "model.vocab: token 'a' has the id -1"),
        ({"model": {"max_input_chars_per_word": 0}}, "model.max_input_chars_per_word = 0: expected at least 1"),
        ({"model": {"continuing_subword_prefix": ""}}, "the prefix of tokens that go on with a word is empty"),
        ({"pre_tokenizer": {"type": "Digits"}}, "pre_tokenizer Digits of a WordPiece model is not supported"),
        ({"normalizer": {"type": "BertNormalizer", "clean_text": False}}, "only with clean_text and"),
        ({"model": {"vocab": {"[UNK]": 0, "a": 1, "b": 1}}}, "id 1 is given twice"),
    ],
)
def test_a_tokenizer_json_that_is_not_followed(tmp_path, change, why):
    path = tmp_path / "tokenizer.json"
    load_small().export("huggingface", path)
    content = json.loads(path.read_text())
    for name, value in change.items():
        content[name] = content[name] | value if name == "model" else value
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=re.escape(why)):
        Tokenizer.from_huggingface(path)
