"""tokenizer.json made from SentencePiece models: ids are those of `tokenizers`."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.json_changes import change_json
from support.sentencepiece_models import HARD, METASPACE, SPACE, SPECIAL, demo_texts, make_tokenizer_json, train

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.look.odd_tokens import find_unreachable_tokens
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer

WORDS = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
MORE = [
    *["a\u0301\u0301 x", "\r\n", "a\r\nb", "\u0600a", "é\u200d", "©\u200d", "ﬁ\u0301", "ｶﾞ", "\u1112\u1161\u11ab"],
    *["①\u0301", "🇩🇪🇫🇷 🇩", "👩\u200d👩\u200d👧", "क्षि त्र", "\ta\u00a0b\u3000c ", "\u2028x\u0085", "a  b   c"],
    *[" ▁ ▁▁x▁", "\u00ad\u0301", "a\u0000b", "\u200ba", "½ ㎏ ﷺ", "ŀ\u0323\u0307", "x" * 3000, "\u0301" * 50],
    "日本\u3099語",
]


SPANS = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": SPACE}
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
KINDS = {
    "t5": ("unigram", "plain", ["Precompiled"], WORDS),
    "spm": ("unigram", "plain", ["Precompiled", STRIP, SPANS], METASPACE),
    "unsplit": ("unigram", "nfkc", ["Precompiled"], METASPACE | {"split": False}),
    "unigram bytes": ("unigram", "bytes", [], METASPACE | {"prepend_scheme": "never"}),
    "unigram across": ("unigram", "crossing", ["Precompiled", REPLACE], None),
    "llama": ("bpe", "bytes", [{"type": "Prepend", "prepend": SPACE}, REPLACE], None),
    "llama metaspace": ("bpe", "bytes", [], METASPACE | {"prepend_scheme": "first", "split": False}),
    "bpe split": ("bpe", "plain", ["Precompiled", STRIP | {"strip_left": True}], METASPACE),
    "gemma": (
        *("bpe", "identity", [REPLACE]),
        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
    ),
    "bpe words": ("bpe", "crossing", ["Precompiled"], WORDS),
    "unigram first": (
        "unigram",
        "plain",
        ["Precompiled", STRIP | {"strip_left": True}, SPANS],
        METASPACE | {"prepend_scheme": "first"},
    ),
}


def load(content: dict) -> tuple[tokenizers.Tokenizer, Tokenizer]:
    """Their tokenizer, for which text stays text, and ours."""
    data = json.dumps(content)
    theirs = tokenizers.Tokenizer.from_str(data)
    theirs.encode_special_tokens = True
    return theirs, Tokenizer(read_tokenizer_json(data.encode(), "t.json"))


def encode(theirs: tokenizers.Tokenizer, texts: list[str]) -> list[list[int]]:
    return [one.ids for one in theirs.encode_batch_fast(texts, add_special_tokens=False)]


@pytest.mark.parametrize("name", KINDS)
def test_ids_are_theirs(name, tmp_path):
    kind, option, normalizer, pre_tokenizer = KINDS[name]
    content = make_tokenizer_json(kind, train(kind, option), normalizer, pre_tokenizer)
    theirs, ours = load(content)
    texts = [text for text in [*HARD, *MORE, *demo_texts()[::2]] if not any(token in text for token in SPECIAL)]
    expected = encode(theirs, texts)
    for text, ids, own in zip(texts, expected, ours.encode_batch(texts, threads=2).to_pylist(), strict=True):
        assert own == ids, text[:200]
    assert ours.encode_texts(make_texts_from_strings(texts)).ids.tolist() == [id for row in expected for id in row]
    exported = write_tokenizer_json(ours.spec)
    again = tokenizers.Tokenizer.from_str(exported.decode())
    again.encode_special_tokens = True
    assert encode(again, texts) == expected
    assert read_tokenizer_json(exported, "again") == ours.spec
    ours.save(tmp_path)
    assert Tokenizer.load(tmp_path) == ours
    (tmp_path / "named.json").write_bytes(exported)
    assert Tokenizer.load(tmp_path / "named.json") == ours
    assert not ours.lossless
    assert ours.encode("a<s>b", allow_special="all").tolist().count(1) == 1
    find_unreachable_tokens(ours)  # takes any model


@pytest.mark.parametrize("name", KINDS)
def test_the_kernel_is_its_slow_twin(name):
    kind, option, normalizer, pre_tokenizer = KINDS[name]
    model = load(make_tokenizer_json(kind, train(kind, option), normalizer, pre_tokenizer))[1].spec.model
    fast = model.piece_encoder(1 << 20)
    with kernel.force("reference"):
        slow = model.piece_encoder(0)
    short = [text for text in [*HARD, *MORE] if len(text) < 700]
    texts = make_texts_from_strings([*short, b"a\xffb", b"\xe2\x96", *(text[:150] for text in demo_texts()[::60])])
    normalized = [fast.normalize(texts), slow.normalize(texts)]
    for i in range(texts.num_texts):
        assert normalized[0].text(i) == normalized[1].text(i), texts.text(i)
    for own, expected in zip(fast.encode(texts)[:2], slow.encode(texts)[:2], strict=True):
        assert own.tolist() == expected.tolist()


alphabet = st.sampled_from(["a", "b", SPACE, " ", "é", "e\u0301", "日", "\u0301"])
texts = st.lists(alphabet, max_size=25).map("".join)
words = st.lists(alphabet.filter(" ".__ne__), min_size=1, max_size=4).map("".join)


@examples(200)
@given(st.dictionaries(words, st.floats(-20, 1), min_size=1, max_size=14), texts, st.booleans())
def test_any_pieces_of_unigram_give_their_ids(vocabulary, text, splits):
    content = make_tokenizer_json("unigram", train("unigram", "plain"), [], METASPACE | {"split": splits})
    assume(min(vocabulary.values()) <= 0)
    content["model"]["vocab"] = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], *map(list, vocabulary.items())]
    theirs, ours = load(content)
    assert ours.encode(text).tolist() == encode(theirs, [text])[0]
    assert ours.encode(text * 2).tolist() == encode(theirs, [text * 2])[0]


@examples(200)
@given(st.data(), texts)
def test_any_merges_give_their_ids(data, text):
    content = make_tokenizer_json("bpe", train("bpe", "plain"), [], METASPACE | {"split": False})
    pieces, merges = ["a", "b", SPACE, "é"], []
    for _ in range(data.draw(st.integers(0, 12))):
        pair = [data.draw(st.sampled_from(pieces)), data.draw(st.sampled_from(pieces))]
        if pair not in merges:
            merges.append(pair)
            pieces += [] if "".join(pair) in pieces else ["".join(pair)]
    vocab = {piece: id for id, piece in enumerate(["<unk>", "<s>", "</s>", *pieces])}
    content["model"] |= {"vocab": vocab, "merges": merges, "byte_fallback": False}
    theirs, ours = load(content)
    assert ours.encode(text).tolist() == encode(theirs, [text])[0]


@functools.cache
def charsmap() -> dict:
    return make_tokenizer_json("unigram", train("unigram", "plain"), ["Precompiled"], None)["normalizer"][
        "normalizers"
    ][0]


def make_small(kind: str, steps: list, splits: bool) -> dict:
    """A tokenizer.json of a few pieces, whose Metaspace puts a space before the first character of a text."""
    content = small(kind) | {"pre_tokenizer": METASPACE | {"prepend_scheme": "first", "split": splits}}
    normalizers = [charsmap() if step == "Precompiled" else step for step in steps]
    return content | {"normalizer": {"type": "Sequence", "normalizers": normalizers}}


@functools.cache
def small(kind: str) -> dict:
    content = make_tokenizer_json(kind, train(kind, "plain"), [], None)
    pieces = ["<unk>", "<s>", "</s>", SPACE, "a", "b", f"{SPACE}a", f"{SPACE}b", "aa", "1", "."]
    if kind == "unigram":
        content["model"]["vocab"] = [[piece, -float(id > 2) * len(piece)] for id, piece in enumerate(pieces)]
    else:
        merges = [[SPACE, "a"], [SPACE, "b"], ["a", "a"]]
        content["model"] |= {"vocab": {piece: id for id, piece in enumerate(pieces)}, "merges": merges}
    return content


NORMALIZERS = [
    *[
        "Precompiled",
        REPLACE,
        SPANS,
        STRIP,
        STRIP | {"strip_left": True},
        STRIP | {"strip_left": True, "strip_right": False},
    ],
    {"type": "Replace", "pattern": {"String": "bb"}, "content": ""},
    {"type": "Replace", "pattern": {"String": "a"}, "content": " aa"},
    {"type": "Prepend", "prepend": " "},
]
spaced = st.sampled_from(["a", "b", " ", "  ", SPACE, "\u00a0", "\u00ad", "\u00b4", "…", "ﬁ", "①", "\u200b", "e\u0301"])


@examples(250)
@given(
    st.sampled_from(["unigram", "bpe"]),
    st.lists(st.sampled_from(NORMALIZERS), max_size=4).filter(lambda steps: steps.count("Precompiled") < 2),
    st.booleans(),
    st.lists(st.one_of(spaced, spaced, st.sampled_from(["<s>", "</s>"])), max_size=10).map("".join),
)
def test_the_first_space_is_before_the_first_character_of_the_text_alone(kind, steps, splits, text):
    """Not after a special token, nor before a character that steps have made the first one."""
    theirs, ours = load(make_small(kind, steps, splits))
    theirs.encode_special_tokens = False
    expected = theirs.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, "all").tolist() == expected
    assert read_tokenizer_json(write_tokenizer_json(ours.spec), "again") == ours.spec
    drawn = ours.encode(text, "all", sampling=60000.0, seed=1).tolist() if kind == "unigram" else expected
    assert [id for id in drawn if id < 3] == [id for id in expected if id < 3]
    with kernel.force("reference"):
        slow = ours.spec.model.piece_encoder(0)
    one = make_texts_from_strings([text])
    assert slow.normalize(one).text(0) == ours.spec.model.piece_encoder(0).normalize(one).text(0)


def test_graphemes_are_theirs():
    """Rows of characters that join, and that do not, under a table that shows where graphemes end."""
    content = make_tokenizer_json("unigram", train("unigram", "plain"), ["Precompiled"], METASPACE)
    ours = load(content)[1].spec.model.piece_encoder(0)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(content)).normalizer
    generator = np.random.default_rng(3)
    parts = [
        *"aﬁéⅧ①½ｶ",
        "\u0301",
        "\u0323",
        "\u200d",
        "\u200c",
        "\u0600",
        "\u00ad",
        "\ufe0f",
        "\r",
        "\n",
        "👩",
        "©",
        "🇩",
    ]
    parts += ["\u1112", "\u1161", "\u11ab", "각", "가", "\u0903", "\u0e33", "ﾞ", "\u3099", "か", "\U000110bd"]
    rows = ["".join(generator.choice(parts, 12)) for _ in range(3000)]
    normalized = ours.normalize(make_texts_from_strings(rows))
    for i, row in enumerate(rows):
        own = normalized.text(i).decode()
        expected = theirs.normalize_str(row).replace(" ", SPACE)
        assert own == expected if expected.startswith(SPACE) else own == SPACE + expected, ascii(row)


def test_scores_are_the_numbers_that_tokenizers_reads():
    """Its parser rounds twice: about every seventh score is not the nearest number to its text."""
    generator = np.random.default_rng(1)
    scores = [*generator.uniform(-15, 0, 2000).tolist(), *(-generator.uniform(0, 1, 500).astype("f4")).tolist()]
    scores += [-1e-9, -12345678.5, 0.0, -0.1, -(2.0**-40), -3e-20]
    content = make_tokenizer_json("unigram", train("unigram", "plain"), [], METASPACE)
    content["model"]["vocab"] += [[f"piece {i}", score] for i, score in enumerate(scores)]
    theirs, ours = load(content)

    def read_back(tokenizer):
        return [score for _, score in json.loads(tokenizer.to_str())["model"]["vocab"]][3:]

    assert ours.spec.model.scores.tolist() == read_back(theirs)
    assert ours.spec.model.scores.tolist()[-len(scores) :] != scores
    again = tokenizers.Tokenizer.from_str(write_tokenizer_json(ours.spec).decode())
    assert read_back(again) == read_back(theirs)


def test_long_inputs():
    for name in ("llama", "t5"):
        kind, option, normalizer, pre_tokenizer = KINDS[name]
        theirs, ours = load(make_tokenizer_json(kind, train(kind, option), normalizer, pre_tokenizer))
        for text in ["a" * 100_000, " " * 100_000, "\u0301" * 50_000, "ab " * 50_000]:
            assert ours.encode(text).tolist() == encode(theirs, [text])[0]


def change(kind: str, **changes) -> bytes:
    content = json.loads(json.dumps(make_tokenizer_json(kind, train(kind, "bytes"), [], METASPACE)))
    change_json(content, changes)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("unigram", {"added_tokens__1__content": "<x>"}, "'<x>' has the id 1, which is that of the piece '<s>'"),
        ("unigram", {"model__vocab": {"a": 1}}, "model.vocab is dict: expected a list"),
        ("unigram", {"model__vocab__7": ["a", "b"]}, r"model.vocab\[7\] is \['a', 'b'\]"),
        ("unigram", {"model__vocab__7": ["", -1.0]}, r"model.vocab\[7\]: the piece is empty"),
        ("unigram", {"model__vocab__300": ["e", -1.0]}, "'?e'?"),
        ("unigram", {"model__vocab__1": ["<s>", -99.0]}, "the special token '<s>' has the lowest score"),
        ("unigram", {"model__unk_id": 10**9}, "model.unk_id = 1000000000: expected the place of one of"),
        ("unigram", {"model__unk_id": None, "model__byte_fallback": False}, "there is no unknown token"),
        ("unigram", {"model__vocab__9": ["xyzzy", -1.0]}, "only 255 byte tokens: <0x06> is missing"),
        ("unigram", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "precompiled_charsmap is"),
        ("unigram", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "charsmap is not base64"),
        ("unigram", {"normalizer": {"type": "Other"}}, "normalizer Other is not supported"),
        (
            "unigram",
            {"normalizer": {"type": "NFKC"}, "pre_tokenizer": METASPACE | {"prepend_scheme": "first"}},
            "first is supported only after",
        ),
        ("unigram", {"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer Whitespace is not supported"),
        ("unigram", {"pre_tokenizer": METASPACE | {"replacement": "_"}}, "Metaspace with the replacement '_'"),
        ("unigram", {"pre_tokenizer": METASPACE | {"prepend_scheme": "x"}}, "the prepend_scheme 'x'"),
        ("unigram", {"pre_tokenizer__type": 7}, "pre_tokenizer 7 is not supported"),
        ("bpe", {"model__vocab": ["a"]}, "model.vocab is list: expected an object"),
        ("bpe", {"model__vocab__a": -1}, "token 'a' has the id -1"),
        ("bpe", {"model__unk_token": "<u>"}, "model.vocab has no '<u>'"),
        ("bpe", {"model__merges__0": ["a", "xyzzy"]}, r"model.merges\[0\] = \['a', 'xyzzy'\]"),
        ("bpe", {"model__merges__0": ["<0x41>", "a"]}, "merge 0 makes '<0x41>a', which is no token"),
        ("bpe", {"model__merges": [7]}, "a part is not of the type"),
        ("bpe", {"model__type": "Unigram"}, "model.vocab is dict: expected a list"),
        ("unigram", {"model__type": "BPE"}, "model.vocab is list: expected an object"),
        ("unigram", {"model__type": "WordPiece"}, "t.json: "),
    ],
)
def test_what_is_wrong_is_named(kind, changes, message):
    with pytest.raises(FormatError, match=message):
        read_tokenizer_json(change(kind, **changes), "t.json")


LOWER = {"type": "Lowercase"}
DIGITS = {"type": "Digits", "individual_digits": True}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bpe", {"model__unk_token": None, "model__byte_fallback": False}),
        ("bpe", {"model__fuse_unk": False, "model__byte_fallback": False}),
        ("bpe", {"model__ignore_merges": True}),
        ("bpe", {"model__merges": [["▁", "t"], ["▁", "e"], ["▁", "t"]]}),
        (
            "bpe",
            {
                "pre_tokenizer": {
                    "type": "Sequence",
                    "pretokenizers": [{"type": "Digits", "individual_digits": True}, METASPACE],
                }
            },
        ),
        # XLNet and ALBERT: other normalizers come before the table of SentencePiece.
        ("unigram", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, LOWER]}}),
        ("unigram", {"normalizer": {"type": "Sequence", "normalizers": [REPLACE, {"type": "StripAccents"}, STRIP]}}),
        ("unigram", {"normalizer": REPLACE, "added_tokens__1__special": False, "added_tokens__1__normalized": True}),
    ],
)
def test_other_shapes_give_their_ids_too(kind, changes):
    theirs, ours = load(json.loads(change(kind, **changes)))
    texts = [text for text in [*HARD, *MORE, *demo_texts()[:20]] if not any(token in text for token in SPECIAL)]
    again = tokenizers.Tokenizer.from_str(write_tokenizer_json(ours.spec).decode())
    again.encode_special_tokens = True
    assert ours.encode_batch(texts).to_pylist() == encode(theirs, texts) == encode(again, texts)
    assert read_tokenizer_json(write_tokenizer_json(ours.spec), "again") == ours.spec


def test_decoding_is_theirs():
    kind, option, normalizer, pre_tokenizer = KINDS["llama"]
    data = train(kind, option)
    _, ours = load(make_tokenizer_json(kind, data, normalizer, pre_tokenizer))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    for text in ["low lower", "  Ünïcode 你好 😀", "a"]:
        assert ours.decode(ours.encode(text), "strict") == text
        assert ours.decode(theirs.encode(text), "strict") == theirs.decode(theirs.encode(text))
