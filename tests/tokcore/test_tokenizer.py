"""Tokenizer: the public class. Encoding itself is tested in test_encoder.py and in tests/conformance."""

from __future__ import annotations

import gc
import pickle
import threading
from collections import Counter, namedtuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.vocabularies import models, pieces_for, published_tokenizer, rank_file_bytes, spec_of_merges

from tokcore import kernel
from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_tables import read_counts_of_table
from tokcore.errors import ConfigError, FormatError, IdentityError, LearnError
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.formats.tokenizers.huggingface import write_tokenizer_json
from tokcore.learn.merges import learn_bpe
from tokcore.models import MODELS, LearnOptions
from tokcore.text.texts import Texts, make_texts_from_strings
from tokcore.tokenizer import shared_tables
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, make_learned_spec

Merge = namedtuple("Merge", "left right count")

SPECIAL = [
    SpecialToken("<|end|>", None, "document_end"),
    SpecialToken("<|end|>of", 300),
    SpecialToken("<pad>", None, "padding"),
]


@pytest.fixture(autouse=True, scope="module")
def small_caches():
    """These tests make a great many tokenizers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_tables, "CACHE_BYTES", 1 << 18)
        yield


@pytest.fixture
def tokenizer():
    merges = [Merge(b"a", b"b", 5), Merge(b"<", b"|", 4), Merge(b" ", b"ab", 3), Merge(b"e", b"n", 2)]
    return Tokenizer(spec_of_merges(merges, {"name": "cl100k"}, [], SPECIAL))


@given(st.data())
@examples(100)
def test_every_byte_string_survives(data):
    model = data.draw(models())
    tokenizer = Tokenizer(TokenizerSpec((), {"name": data.draw(st.sampled_from(["cl100k", "gpt2"]))}, model))
    texts = data.draw(st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)), max_size=5))
    texts += data.draw(pieces_for(model, 3))
    for text in texts:
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int32
        assert tokenizer.decode(ids) == text
    encoded = tokenizer.encode_texts(make_texts_from_strings(texts))
    assert tokenizer.decode(encoded.ids) == b"".join(texts)


@given(st.data())
@examples(50)
def test_native_tokenizer_equals_reference(data):
    spec = TokenizerSpec((), {"name": data.draw(st.sampled_from(["llama3", "o200k"]))}, data.draw(models()))
    texts = data.draw(st.lists(st.text(max_size=30), max_size=5))
    native = Tokenizer(spec).encode_batch(texts).to_pylist()
    with kernel.force("reference"):
        assert Tokenizer(spec).encode_batch(texts).to_pylist() == native


def test_str_and_bytes_are_the_same_text(tokenizer):
    assert tokenizer.encode("ab é").tolist() == tokenizer.encode("ab é".encode()).tolist()
    assert tokenizer.encode("").tolist() == []
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encode("\ud800")


def test_a_name_of_the_hub_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("org/name", "gpt2", "org/Name-2.5B"):
        with pytest.raises(FileNotFoundError, match=rf"{name}: there is no such file .*\(hf download {name}"):
            Tokenizer.load(name)
    with pytest.raises(FileNotFoundError, match=r"hf://org/name: there is no such file .*\(hf download org/name "):
        Tokenizer.load("hf://org/name")
    with pytest.raises(FileNotFoundError, match="s3://b/out: a tokenizer is loaded from a path, not from a URL"):
        Tokenizer.load("s3://b/out")
    with pytest.raises(FileNotFoundError) as raised:
        Tokenizer.load("name.json")
    assert "Hub" not in str(raised.value)


def test_special_text_is_ordinary_unless_allowed(tokenizer):
    text = "ab<|end|>ab<pad>"
    ordinary = tokenizer.encode(text)
    assert tokenizer.decode(ordinary) == text.encode()
    assert not set(ordinary.tolist()) & set(tokenizer.specials.values())
    assert tokenizer.encode_batch([text]).to_pylist() == [ordinary.tolist()]
    end, pad, ab = tokenizer.special_id("<|end|>"), tokenizer.special_id("<pad>"), 256
    assert (end, pad) == (260, 261)
    assert tokenizer.encode(text, allow_special="all").tolist() == [ab, end, ab, pad]
    assert tokenizer.encode(text, ["<pad>"]).tolist() == [*ordinary.tolist()[:-5], pad]
    assert tokenizer.encode(text, {"<|end|>"}).tolist()[:3] == [ab, end, ab]
    assert tokenizer.encode("ab", "all").tolist() == [ab]
    with pytest.raises(IdentityError, match="'<x>' is not a special token"):
        tokenizer.encode(text, ["<x>"])
    assert tokenizer.encode(text, allow_special=True).tolist() == tokenizer.encode(text, "all").tolist()
    assert tokenizer.encode(text, allow_special=False).tolist() == ordinary.tolist()
    assert tokenizer.encode_batch([text], allow_special=True).to_pylist() == [tokenizer.encode(text, "all").tolist()]
    for wrong in ("<pad>", 5, None):
        with pytest.raises(TypeError, match="allow_special is a list of special tokens, 'all' or a bool, found"):
            tokenizer.encode(text, wrong)


def test_the_longest_special_token_wins(tokenizer):
    assert tokenizer.encode("<|end|>of<|end|>o<|end|><|end|>of", "all").tolist() == [300, 260, 78, 260, 300]
    # Only what is allowed takes part.
    assert tokenizer.encode("<|end|>of", ["<|end|>"]).tolist()[0] == 260


@given(
    st.lists(st.lists(st.sampled_from(["<|end|>", "of", "<pad>", "ab", " ", "<", "é", "\n"]), max_size=8), max_size=6)
)
@examples(200)
def test_batches_with_special_tokens_equal_single_texts(parts):
    tokenizer = Tokenizer(spec_of_merges([Merge(b"a", b"b", 5)], {"name": "cl100k"}, ["nfd"], SPECIAL))
    strings = ["".join(part) for part in parts]
    texts = make_texts_from_strings(strings)
    encoded = tokenizer.encode_texts_with_special(texts, threads=2)
    singles = [tokenizer.encode(string, "all").tolist() for string in strings]
    assert [encoded.ids[a:b].tolist() for a, b in zip(encoded.offsets, encoded.offsets[1:], strict=False)] == singles
    special = list(tokenizer.specials.values())
    counts = [sum(id in special for id in ids) for ids in singles]
    spelled = [tokenizer.spelled_special(make_texts_from_strings([string])) for string in strings]
    assert [found.total() for found in spelled] == counts
    assert tokenizer.spelled_special(texts) == sum(spelled, Counter())
    # The text is normalized around special tokens; they are no pre-tokens.
    for ids, string in zip(singles, strings, strict=True):
        assert tokenizer.decode(ids) == string.replace("é", "e\u0301").encode()
    pieces = [
        len(tokenizer.encode_texts(make_texts_from_strings(list(_between(string)))).pretokens) for string in strings
    ]
    assert len(pieces) == len(encoded.pretokens)
    assert encoded.pretokens.sum() == sum(
        tokenizer.encode_texts(make_texts_from_strings(_between(string))).pretokens.sum() for string in strings
    )


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["<|end|>", "<|end|>of", "ab", "é", "e\u0301", "語", "\U0001f600", "<"]),
            st.text(max_size=9),
        )
    ),
    st.sampled_from([[], ["nfc"]]),
    st.sampled_from([{"name": "cl100k"}, {"regex": "a|[^a]+"}]),
)
@examples(150)
def test_one_text_is_encoded_as_a_batch_of_one(parts, normalizer, pattern):
    tokenizer = Tokenizer(spec_of_merges([Merge(b"a", b"b", 5), Merge(b"<", b"|", 4)], pattern, normalizer, SPECIAL))
    string = "".join(parts)
    for allowed in ((), "all", ["<|end|>"]):
        expected = tokenizer.encode_batch([string], allow_special=allowed).to_pylist()[0]
        for text in (string, string.encode(), bytearray(string.encode()), memoryview(string.encode())):
            assert tokenizer.encode(text, allowed).tolist() == expected
            assert tokenizer.count_tokens(text, allowed) == len(expected)


@pytest.mark.parametrize("num", [0, 1, 700, 5000, 400_000])
def test_one_text_of_any_length(tokenizer, num):
    for text in ("ab c" * num, "ab語c" * num):
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int32
        assert ids.flags.writeable
        assert ids.tolist() == tokenizer.encode_batch([text]).to_pylist()[0]
        # The memory of a call is its caller's own.
        kept = ids.copy()
        tokenizer.encode("xyz" * num)
        assert np.array_equal(ids, kept)


@pytest.mark.parametrize("allowed", [(), "all"])
def test_a_surrogate_in_one_text(tokenizer, allowed):
    for encode in (tokenizer.encode, tokenizer.count_tokens):
        with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
            encode("語ab\ud800", allowed)


def _between(string):
    return string.replace("<|end|>of", "\0").replace("<|end|>", "\0").replace("<pad>", "\0").split("\0")


def test_a_special_token_does_not_reach_over_texts(tokenizer):
    data = np.frombuffer(b"ab<|end|>ab", np.uint8)
    texts = Texts(data, np.array([0, 4, 11], np.int64))
    assert tokenizer.spelled_special(texts) == Counter()
    encoded = tokenizer.encode_texts_with_special(texts)
    assert tokenizer.decode(encoded.ids) == b"ab<|end|>ab"
    assert 260 not in encoded.ids


def test_many_special_tokens():
    """More than the number up to which they are searched for one by one."""
    special = [SpecialToken(f"<|reserved_{i}|>", None) for i in range(300)]
    tokenizer = Tokenizer(spec_of_merges([], {"name": "gpt2"}, [], special))
    assert tokenizer.encode("<|reserved_1|><|reserved_17|>", "all").tolist() == [257, 273]
    assert tokenizer.encode("<|reserved_300|>", "all").tolist() == tokenizer.encode("<|reserved_300|>").tolist()


@pytest.mark.parametrize(
    "array",
    [
        ["ab é", "", "<pad> x"],
        [b"ab \xc3\xa9", b"", b"<pad> x"],
        pa.array(["ab é", "", "<pad> x"]),
        pa.array(["ab é", "", "<pad> x"], pa.large_string()),
        pa.array(["ab é", "", "<pad> x"]).cast(pa.binary()),
        pa.array(["zz", "ab é", "", "<pad> x", "zz"]).slice(1, 3),
        pa.chunked_array([["ab é", ""], ["<pad> x"]]),
        pa.array(["ab é", "", "<pad> x"]).dictionary_encode(),
        pa.chunked_array([pa.array(["ab é", ""]).dictionary_encode(), pa.array(["<pad> x"]).dictionary_encode()]),
        np.array(["ab é", "", "<pad> x"]),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_encode_batch_takes_lists_and_arrow(tokenizer, array, threads):
    batch = tokenizer.encode_batch(array, threads=threads)
    assert batch.type == pa.list_(pa.int32())
    assert batch.to_pylist() == [tokenizer.encode(text).tolist() for text in ("ab é", "", "<pad> x")]


def test_encode_batch_refuses_nulls_and_other_types(tokenizer):
    with pytest.raises(ValueError, match="null"):
        tokenizer.encode_batch(pa.array(["a", None]))
    with pytest.raises(TypeError, match="int64"):
        tokenizer.encode_batch(pa.array([1]))
    with pytest.raises(TypeError, match="int64"):
        tokenizer.encode_batch(pa.array([1]).dictionary_encode())
    assert tokenizer.encode_batch([]).to_pylist() == []


@pytest.mark.parametrize("allow_special", [(), "all"])
@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["a", None], TypeError, r"texts\[1\]: expected str or bytes, found NoneType"),
        (["a", "b", 5], TypeError, r"texts\[2\]: expected str or bytes, found int"),
        ([["a"]], TypeError, r"texts\[0\]: expected str or bytes, found list"),
        ("a", TypeError, "found a single one"),
        (5, TypeError, "expected a list of texts, found int"),
        (None, TypeError, "expected a list of texts, found NoneType"),
        (pa.array(["a", "b", None]), ValueError, r"texts\[2\] is null, 1 of 3 are"),
        (pa.chunked_array([["a"], [None, None]]), ValueError, r"texts\[1\] is null, 2 of 3 are"),
        (pa.array(["a", None]).dictionary_encode(), ValueError, r"texts\[1\] is null"),
    ],
)
def test_what_is_no_text_is_named_with_its_position(tokenizer, texts, error, message, allow_special):
    with pytest.raises(error, match=message):
        tokenizer.encode_batch(texts, allow_special=allow_special)
    with pytest.raises(error, match=message):
        count_pretokens(texts)


@pytest.mark.parametrize(
    ("text", "found"), [(5, "int"), (None, "NoneType"), (["a"], "list: encode_batch takes several")]
)
def test_encode_names_what_is_no_text(tokenizer, text, found):
    with pytest.raises(TypeError, match=f"text: expected str or bytes, found {found}"):
        tokenizer.encode(text)
    with pytest.raises(TypeError, match=f"text: expected str or bytes, found {found}"):
        tokenizer.encode(text, allow_special="all")


def test_count_tokens(tokenizer):
    for text in ("", "ab é<pad>", b"\xff"):
        assert tokenizer.count_tokens(text) == len(tokenizer.encode(text))
        assert tokenizer.count_tokens(text, "all") == len(tokenizer.encode(text, "all"))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([64, 64.0], r"ids\[1\] = 64.0: expected an integer, found float"),
        ([64, "64"], r"ids\[1\] = '64': expected an integer, found str"),
        ([64, None], r"ids\[1\] = None"),
        ([2**100, 1.5], r"ids\[1\] = 1.5"),
        ([[64, 65], [66, 67]], r"ids\[0\] = \[64, 65\]"),
        ("64", r"ids\[0\] = '6'"),
        (np.array([64.0]), r"ids\[0\] = .*64.0.*: expected an integer, found an array of float64"),
        (np.array([True]), r"found an array of bool"),
        (np.array([64], object), r"found an array of object"),
        (np.array([[64, 65]]), r"ids of shape \(1, 2\): expected one dimension"),
        (np.array(64), r"ids of shape \(\)"),
        (64, "ids = 64: expected a list of integers, found int"),
        (pa.array([64, None]), r"ids\[0\] = .*64.0.*: expected an integer"),
        (pa.array(["64"]), r"ids\[0\] = '64': expected an integer"),
    ],
)
def test_what_are_no_ids(tokenizer, ids, message):
    with pytest.raises(TypeError, match=message):
        tokenizer.decode(ids)


def test_ids_of_any_integer_type(tokenizer):
    for kind in (np.uint8, np.int16, np.int32, np.uint64):
        ids = np.array([64, 65], kind)
        assert tokenizer.decode(ids) == tokenizer.decode(list(ids)) == tokenizer.decode([64, 65])
    assert tokenizer.decode(np.array([])) == b""
    assert tokenizer.decode(np.array([2**63], np.uint64) - 2**63 + 64) == tokenizer.decode([64])
    with pytest.raises(IdentityError, match=str(2**64 - 1)):
        tokenizer.decode(np.array([2**64 - 1], np.uint64))


def test_decode(tokenizer):
    ids = tokenizer.encode("ab <|end|>", "all")
    assert (
        tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == tokenizer.decode(iter(ids.tolist())) == b"ab <|end|>"
    )
    assert tokenizer.decode([]) == b""
    assert tokenizer.token_bytes(256) == b"ab"
    assert tokenizer.token_bytes(300) == b"<|end|>of"
    for unused in (262, 299, 301, -1, 2**40, 2**63, -(2**100)):
        with pytest.raises(IdentityError, match=rf"ids\[1\] = {unused} is no token"):
            tokenizer.decode([64, unused])
        with pytest.raises(IdentityError):
            tokenizer.token_bytes(unused)


def test_decode_to_str(tokenizer):
    ids = tokenizer.encode("ab é <pad>", "all")
    assert tokenizer.decode(ids, errors="strict") == "ab é <pad>"
    cut = tokenizer.encode("é")[:1]
    assert tokenizer.decode(cut) == b"\xc3"
    assert tokenizer.decode(cut, errors="replace") == "\ufffd"
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(cut, errors="strict")


def test_decode_takes_arrow(tokenizer):
    batch = tokenizer.encode_batch(["ab é", "x"])
    assert tokenizer.decode(batch[0]) == "ab é".encode()
    assert tokenizer.decode(batch.values) == tokenizer.decode(pa.chunked_array([batch.values])) == "ab éx".encode()


def test_decode_batch(tokenizer):
    texts = ["ab é", "", "<pad> x"]
    batch = tokenizer.encode_batch(texts)
    rows = [tokenizer.encode(text) for text in texts]
    forms = [
        batch,
        batch.cast(pa.large_list(pa.int32())),
        pa.chunked_array([batch, batch[:0]]),
        rows,
        batch.to_pylist(),
    ]
    for form in forms:
        assert tokenizer.decode_batch(form) == [text.encode() for text in texts]
        assert tokenizer.decode_batch(form, errors="strict") == texts
    assert tokenizer.decode_batch(batch[1:]) == [b"", b"<pad> x"]
    assert tokenizer.decode_batch(np.array([[64, 65], [66, 67]])) == [
        tokenizer.decode([64, 65]),
        tokenizer.decode([66, 67]),
    ]


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([[64], [64, 262]], IdentityError, r"batch\[1\]: ids\[1\] = 262 is no token"),
        ([[64], [64, None]], TypeError, r"batch\[1\]: ids\[1\] = None: expected an integer"),
        ([64], TypeError, r"batch\[0\]: ids = 64: expected a list of integers, found int"),
        (64, TypeError, "expected a list of lists of ids, found int"),
        (pa.array([64]), TypeError, "expected an Arrow list array, found int64"),
        (pa.array([[64], None]), ValueError, r"batch\[1\] is null"),
    ],
)
def test_decode_batch_names_positions(tokenizer, batch, error, message):
    with pytest.raises(error, match=message):
        tokenizer.decode_batch(batch)


def test_normalizer_comes_first():
    tokenizer = Tokenizer(spec_of_merges([], {"name": "cl100k"}, ["nfc", "lowercase"], SPECIAL))
    assert tokenizer.decode(tokenizer.encode("E\u0301<|END|>")) == "é<|end|>".encode()
    # Special tokens are found before the text is normalized.
    assert tokenizer.special_id("<|end|>") not in tokenizer.encode("<|END|>", "all")
    assert tokenizer.normalized(b"A<|end|>B<|END|>", with_special=True) == b"a<|end|>b<|end|>"
    assert tokenizer.normalized(b"A") == b"a"


@pytest.mark.parametrize("pattern", [{"name": "cl100k"}, {"name": "bert"}], ids=["cuts", "leaves blanks out"])
@pytest.mark.parametrize("steps", [[], ["nfc"], ["lowercase"]])
@pytest.mark.parametrize("with_special", [False, True])
def test_texts_are_normalized_as_each_by_itself(pattern, steps, with_special):
    tokenizer = Tokenizer(spec_of_merges([], pattern, steps, SPECIAL))
    texts = [b"", b"A<|end|>b", "E\u0301 A".encode(), b"\xff A", b"  x  "]
    found = tokenizer.normalized_texts(make_texts_from_strings(texts), with_special)
    assert [found.text(i) for i in range(len(texts))] == [tokenizer.normalized(text, with_special) for text in texts]


def test_user_pattern():
    tokenizer = Tokenizer(spec_of_merges([Merge(b"a", b"b", 5), Merge(b"ab", b"ab", 5)], {"regex": "ab|."}, [], []))
    assert tokenizer.encode("abab").tolist() == [256, 256]
    encoded = tokenizer.encode_texts(make_texts_from_strings(["abab", "", "xab\n"]))
    assert encoded.ids.tolist() == [256, 256, 87, 256, 198]
    assert encoded.pretokens.tolist() == [2, 0, 3]


def test_a_pattern_by_its_text_is_the_named_one():
    from tokcore.text.patterns import PATTERNS

    by_text = Tokenizer(spec_of_merges([Merge(b"a", b"b", 5)], {"regex": PATTERNS["o200k"]}, [], []))
    by_name = Tokenizer(spec_of_merges([Merge(b"a", b"b", 5)], {"name": "o200k"}, [], []))
    assert by_text.encode("Hello abAB 1234!").tolist() == by_name.encode("Hello abAB 1234!").tolist()
    assert by_text._shared.pretokenizer.native_name == "o200k"


def test_load(tokenizer, tmp_path):
    output = tmp_path / "out"
    (output / "tokenizer").mkdir(parents=True)
    file = output / "tokenizer" / "tokcore.json"
    file.write_bytes(tokenizer.spec.to_json_bytes())
    for path in (file, str(file), output / "tokenizer", output, f"{output}/"):
        assert Tokenizer.load(path) == tokenizer
    with pytest.raises(FormatError, match=r"no tokcore\.json"):
        Tokenizer.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Tokenizer.load(tmp_path / "missing.json")
    file.write_bytes(b"{}")
    with pytest.raises(FormatError, match=r"tokcore\.json"):
        Tokenizer.load(file)


def test_imports(tokenizer, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(write_tokenizer_json(tokenizer.spec))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        imported = Tokenizer.from_huggingface(path)
        assert imported.specials == tokenizer.specials
        assert imported.encode("ab <|end|> en").tolist() == tokenizer.encode("ab <|end|> en").tolist()
    (tmp_path / "ranks").write_bytes(rank_file_bytes("r50k"))
    ranked = Tokenizer.from_tiktoken(tmp_path / "ranks", pattern="gpt2", special_tokens={"<|endoftext|>": 50256})
    assert ranked.vocab_size == 50257
    assert ranked == Tokenizer.from_tiktoken(
        tmp_path / "ranks", pattern="gpt2", special_tokens={"<|endoftext|>": 50256}
    )
    assert Tokenizer.from_tiktoken(
        tmp_path / "ranks", pattern=r"\w+|\W".replace(r"\w", r"\p{L}").replace(r"\W", r"\P{L}")
    )
    with pytest.raises(ConfigError, match="gpt3"):
        Tokenizer.from_tiktoken(tmp_path / "ranks", pattern="gpt3")


def test_from_merges_is_what_a_build_would_learn(tokenizer):
    table = count_pretokens(["low lower lowest"] * 2)
    merges = learn_bpe(table, 262)
    special = {"<|end|>": "document_end", "<pad>": "padding"}
    ours = Tokenizer.from_merges(merges, pattern="cl100k", special=special)
    model = LearnOptions(vocab_size=264, num_special=2)
    learned = MODELS["bpe"].learn(lambda: read_counts_of_table(table), model)
    tokens = [SpecialToken(text, None, role) for text, role in special.items()]
    assert ours == Tokenizer(make_learned_spec(learned, {"name": "cl100k"}, (), tokens))
    assert ours.spec.to_json_bytes() == make_learned_spec(learned, {"name": "cl100k"}, (), tokens).to_json_bytes()
    # Without counts it has the same ids.
    pairs = [(merge.left, merge.right) for merge in merges]
    assert Tokenizer.from_merges(pairs, pattern="cl100k", special=special) == ours
    assert Tokenizer.from_merges(iter(merges), pattern="cl100k", special=special) == ours


@pytest.mark.parametrize(
    ("merges", "options", "error", "message"),
    [
        ([(b"a", b"b"), (b"ab", b"cd")], {}, FormatError, r"merges\[1\]: b'cd' is neither a byte nor"),
        ([(b"a", b"b"), (b"a", b"b")], {}, FormatError, r"merges\[1\]: makes b'ab', which is a token already"),
        (
            [("a", "b")],
            {},
            FormatError,
            r"merges\[0\] = \('a', 'b'\): expected two bytes objects \(left, right\)",
        ),
        ([(b"a", b"b"), 5], {}, FormatError, r"merges\[1\] = 5: expected"),
        ([b"ab"], {}, FormatError, r"merges\[0\] = b'ab': expected"),
        ([(b"a",)], {}, FormatError, r"merges\[0\]"),
        ([], {"pattern": "cl100"}, ConfigError, "no pattern named 'cl100'"),
        ([], {"normalizer": ["nfcc"]}, ConfigError, "no normalizer step 'nfcc'"),
        ([], {"normalizer": "nfc"}, ConfigError, "normalizer = 'nfc': expected a list"),
        ([], {"special": ["a"]}, LearnError, "special token 'a' has the name of the learned token"),
    ],
)
def test_merges_that_are_none(merges, options, error, message):
    with pytest.raises(error, match=message):
        Tokenizer.from_merges(merges, **({"pattern": "cl100k"} | options))


def test_save(tokenizer, tmp_path):
    for path, file in ((tmp_path / "a" / "b", "a/b/tokcore.json"), (f"{tmp_path}/x.json", "x.json")):
        for _ in range(2):  # equal content is no conflict
            assert tokenizer.save(path) == tmp_path / file
        assert Tokenizer.load(path) == tokenizer
        assert (tmp_path / file).read_bytes() == tokenizer.spec.to_json_bytes()
    other = Tokenizer.from_merges([], pattern="gpt2")
    with pytest.raises(FileExistsError, match=r"x\.json is there already, with other content"):
        other.save(tmp_path / "x.json")
    assert Tokenizer.load(tmp_path / "x.json") == tokenizer
    other.save(tmp_path / "x.json", replace=True)
    assert Tokenizer.load(tmp_path / "x.json") == other
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "x.json"]


def test_export(tmp_path):
    tokenizer = Tokenizer.from_merges([(b"a", b"b")], pattern="gpt2", special=["<pad>"])
    with pytest.raises(FormatError, match="BERT's files hold WordPiece, and this tokenizer is a byte-level BPE"):
        tokenizer.export("bert", tmp_path)
    for to, export in EXPORTS.items():
        if to in ("bert", "byt5", "sentencepiece"):  # for tokenizers of other kinds
            continue
        (tmp_path / to).mkdir()
        paths = tokenizer.export(to, tmp_path / to)
        assert [(path.name, path.read_bytes()) for path in paths] == list(export.files(tokenizer.spec))
        assert {path.parent for path in paths} == {tmp_path / to}
    assert (
        Tokenizer.from_huggingface(tmp_path / "huggingface").encode("ab<pad>").tolist()
        == tokenizer.encode("ab<pad>").tolist()
    )
    folder = tmp_path / "v1.0"
    assert tokenizer.export("tiktoken", folder / "ranks") == [folder / "ranks"]
    assert tokenizer.export("tiktoken", folder) == [folder / "tokenizer.tiktoken"]
    assert tokenizer.export("huggingface", folder / "a.json") == [folder / "a.json"]
    assert tokenizer.export("huggingface", folder / "b")[0] == folder / "b" / "tokenizer.json"
    (tmp_path / "gpt2" / "merges.txt").write_text("mine")
    (tmp_path / "gpt2" / "vocab.json").unlink()
    with pytest.raises(FileExistsError, match=r"merges\.txt"):
        tokenizer.export("gpt2", tmp_path / "gpt2")
    assert not (tmp_path / "gpt2" / "vocab.json").exists()
    with pytest.raises(ConfigError, match="no format 'onnx': expected one of huggingface, tiktoken, gpt2"):
        tokenizer.export("onnx", tmp_path)
    with pytest.raises(FormatError, match="cannot hold the normalizer"):
        Tokenizer.from_merges([], pattern="gpt2", normalizer=["nfc"]).export("gpt2", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_equality_hash_and_pickle(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert again.encode("ab <pad>", "all").tolist() == tokenizer.encode("ab <pad>", "all").tolist()
    assert again.spec.model.counts == tokenizer.spec.model.counts
    assert tokenizer != Tokenizer(spec_of_merges([], {"name": "cl100k"}, [], SPECIAL))
    assert tokenizer != "tokenizer"
    assert "vocab_size=301" in repr(tokenizer)


def test_one_fingerprint_shares_one_kernel_object(tokenizer):
    data = tokenizer.spec.to_json_bytes()
    again = Tokenizer(TokenizerSpec.from_json_bytes(data, "x"))
    assert again._shared is tokenizer._shared
    assert pickle.loads(pickle.dumps(tokenizer))._shared is tokenizer._shared
    with kernel.force("reference"):
        assert Tokenizer(tokenizer.spec)._shared is not tokenizer._shared
    key = (Tokenizer(spec_of_merges([], {"name": "o200k"}, [], [])).fingerprint, kernel.get_implementation())
    gc.collect()
    assert key not in shared_tables._tables_of


def test_threads_may_share_a_tokenizer():
    tokenizer = published_tokenizer("r50k")
    strings = [f"{i} thousand words, {i * i} more – naïve façade" * 20 for i in range(300)]
    expected = tokenizer.encode_batch(strings).to_pylist()
    failures = []

    def work():
        for _ in range(5):
            batch = tokenizer.encode_batch(strings, threads=2).to_pylist()
            if batch != expected or [tokenizer.encode(string).tolist() for string in strings] != expected:
                failures.append(threading.current_thread())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
