"""SentencePiece's models: ids, decoding and files are those of `sentencepiece`."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.sentencepiece_models import HARD, MALFORMED, OPTIONS, demo_texts, train

from tokcore import kernel
from tokcore.errors import FormatError, IdentityError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.protobuf import write_field
from tokcore.formats.tokenizers.sentencepiece import (
    is_sentencepiece_model,
    read_sentencepiece_model,
    write_sentencepiece_model,
)
from tokcore.look.odd_tokens import find_unreachable_tokens
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def load(data: bytes) -> tuple[sentencepiece.SentencePieceProcessor, Tokenizer]:
    """Their tokenizer, and ours."""
    return sentencepiece.SentencePieceProcessor(model_proto=data), Tokenizer(read_sentencepiece_model(data, "x.model"))


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_ids_decoding_and_export_are_theirs(kind, option):
    data = train(kind, option)
    theirs, ours = load(data)
    texts = [*demo_texts()[::2], *HARD]
    ids = theirs.encode(texts)
    assert ours.encode_batch(texts, threads=2).to_pylist() == ids
    assert ours.encode_texts(make_texts_from_strings(texts)).ids.tolist() == [id for row in ids for id in row]
    assert [ours.encode(text).tolist() for text in MALFORMED] == [theirs.encode(text) for text in MALFORMED]
    for text, expected in zip(texts, ids, strict=True):
        assert ours.decode(expected, "strict") == theirs.decode(expected), text
    exported = write_sentencepiece_model(ours.spec)
    again = sentencepiece.SentencePieceProcessor(model_proto=exported)
    assert again.encode(HARD) == theirs.encode(HARD)
    columns = [
        [(one.id_to_piece(i), one.get_score(i), one.is_control(i), one.is_unused(i)) for i in range(len(one))]
        for one in (theirs, again)
    ]
    assert columns[0] == columns[1]
    assert read_sentencepiece_model(exported, "again") == ours.spec


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_file_in_tokcore_s_form_is_the_same_tokenizer(kind, tmp_path):
    data = train(kind, "user-defined")
    (tmp_path / "spm.model.v3").write_bytes(data)
    ours = Tokenizer.load(tmp_path / "spm.model.v3")
    ours.save(tmp_path)
    assert Tokenizer.load(tmp_path) == ours == pickle.loads(pickle.dumps(ours))
    (file,) = ours.export("sentencepiece", tmp_path / "out.model")
    assert file.name == "out.model"
    assert Tokenizer.load(file) == ours
    assert (ours.unk_id, ours.bos_id, ours.eos_id, ours.pad_id) == (0, 1, 2, 3)
    assert ours.specials == {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "<c1>": 4}
    assert not ours.lossless
    assert ours.decode([1, 2, 4]) == b""
    assert ours.token_bytes(2) == b"</s>"
    assert ours.id_to_token(5) == "<sep>"
    with pytest.raises(IdentityError, match=r"ids\[1\] = 9999"):
        ours.decode([0, 9999])
    with pytest.raises(FormatError, match="byte-level merges differ"):
        ours.export("tiktoken", tmp_path)


@pytest.mark.parametrize("option", ["plain", "bytes", "crossing", "identity", "user-defined"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_kernel_is_its_slow_twin(kind, option):
    model = read_sentencepiece_model(train(kind, option), "x").model
    texts = make_texts_from_strings([*HARD[:44], *MALFORMED, *(text[:150] for text in demo_texts()[::40])])
    fast, tiny = model.piece_encoder(1 << 20), model.piece_encoder(0)
    with kernel.force("reference"):
        slow = model.piece_encoder(0)
    assert [*map(bytes, map(fast.normalize(texts).text, range(texts.num_texts)))] == [
        *map(bytes, map(slow.normalize(texts).text, range(texts.num_texts)))
    ]
    expected = [column.tolist() for column in slow.encode(texts)]
    assert [column.tolist() for column in fast.encode(texts, 2)] == expected
    assert [column.tolist() for column in tiny.encode(texts)] == expected
    normalized = fast.normalize(texts)
    kept = [i for i in range(texts.num_texts) if normalized.text(i)]
    pieces = normalized.take(np.array(kept))
    cut = (pieces, pieces.offsets[1:], np.arange(pieces.num_texts + 1))
    assert [column.tolist() for column in fast.encode_pieces(*cut)] == [
        column.tolist() for column in slow.encode_pieces(*cut)
    ]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_streams_and_spans(kind):
    theirs, ours = load(train(kind, "bytes"))
    for text in ["  Ünïcode 你好 😀", "a", "", "😀"]:
        ids = [1, *theirs.encode(text), 2]
        stream = ours.stream_decoder()
        assert "".join(map(stream.feed, ids)) + stream.finish() == theirs.decode(ids) == ours.decode(ids, "strict")
        decoded = ours.decode(ids)
        spans = ours.offsets(ids)
        assert b"".join(decoded[start:end] for start, end in spans.bytes.tolist()) == decoded
        assert spans.characters[-1].tolist() == [len(decoded.decode())] * 2, "the end of text adds nothing"


# ------------------------------------------------------------------------------------------------ models made by hand


def make_model(
    pieces: list[tuple[str, float, int]], kind: int, trainer: bytes = b"", normalizer: bytes | None = None
) -> bytes:
    """A .model of pieces (text, score, type); no character is replaced."""
    written = [
        write_field(1, write_field(1, text.encode()) + write_field(2, score) + write_field(3, type))
        for text, score, type in pieces
    ]
    spec = write_field(3, False) + write_field(4, False) if normalizer is None else normalizer
    return b"".join([*written, write_field(2, write_field(3, kind) + trainer), write_field(3, spec)])


META = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
scores = st.sampled_from([0.0, -0.0, -0.5, -1.0, -1.5, -2.0, -2.5, -3.0, 1.0, -1e-7, 99_999.0, -60_000.0])
alphabet = st.sampled_from(["a", "b", "▁", "é", "日"])
words = st.lists(alphabet, min_size=1, max_size=4).map("".join)
vocabularies = st.dictionaries(
    words, st.tuples(scores, st.sampled_from([NORMAL] * 5 + [USER_DEFINED, UNUSED])), min_size=1, max_size=14
)


@examples(300)
@given(vocabularies, st.lists(st.lists(alphabet, max_size=25).map("".join), max_size=5), st.sampled_from([1, 2]))
def test_any_pieces_give_their_ids(vocabulary, texts, kind):
    """Ties, unused pieces that are seen as several pairs, user-defined ones that overlap, huge scores."""
    pieces = [*META, ("z", -4.0, NORMAL), *((text, *one) for text, one in vocabulary.items())]
    theirs, ours = load(make_model(pieces, kind))
    for text in [*texts, " ".join(texts) * 3]:
        ids = theirs.encode(text)
        assert ours.encode(text).tolist() == ids, (text, pieces)
        assert ours.encode(text).tolist() == ids, "the second time, from the cache"


def test_an_unused_piece_falls_into_the_pair_that_was_last_seen():
    pieces = [*META, *((text, -float(i), NORMAL) for i, text in enumerate(["a", "b", "c", "bc", "ab"]))]
    pieces.append(("abc", -9.0, UNUSED))
    theirs, ours = load(make_model(pieces, 2))
    assert [theirs.id_to_piece(id) for id in ours.encode("abc").tolist()] == ["a", "bc"]
    assert ours.encode("abc").tolist() == theirs.encode("abc")


def test_the_best_cut_has_the_highest_sum_of_scores():
    """The article's table, in which "newer" is best cut as new + er."""
    table = {"n": -4.0, "e": -3.0, "w": -4.0, "r": -3.5, "ne": -3.0, "new": -1.5, "er": -1.5, "newe": -3.5, "wer": -2.0}
    pieces = [*META, *((text, score, NORMAL) for text, score in table.items())]
    _, ours = load(make_model(pieces, 1))
    assert [ours.id_to_token(id) for id in ours.encode("newer").tolist()] == ["new", "er"]


def test_short_pieces_may_win_where_many_end():
    """Nine pieces end at one place, in the order of their sizes; each wins somewhere."""
    word = "abcdefghi"
    for best in range(1, 10):
        table = {word[i:]: -1.0 if len(word) - i == best else -50.0 for i in range(9)}
        pieces = [*META, *((text, score, NORMAL) for text, score in table.items())]
        pieces += [(one, -5.0, NORMAL) for one in word[:-1]]
        theirs, ours = load(make_model(pieces, 1))
        for text in (word, word * 3, f"{word} {word}"):
            assert ours.encode(text).tolist() == theirs.encode(text), best
        assert ours.id_to_token(ours.encode(word).tolist()[-1]) == word[-best:]


def test_sums_are_rounded_as_theirs_over_long_texts():
    """Near ties whose winner depends on the sum before them, and sums that start again."""
    generator = np.random.default_rng(5)
    near = generator.normal(-8, 1e-4, 40)
    texts = ["a", "b", "ab", "ba", "aa", "bb", "▁", "▁a", "▁b", "aab", "abb", "▁ab"]
    pieces = [*META, *((text, float(near[i]) * len(text), NORMAL) for i, text in enumerate(texts))]
    theirs, ours = load(make_model(pieces, 1))
    long = ["".join(generator.choice(list("ab▁"), 60_000)) for _ in range(3)]
    repeated = ("".join(generator.choice(list("ab"), 7)) + "▁aab▁") * 8_000
    for text in [*long, repeated]:
        assert ours.encode(text).tolist() == theirs.encode(text)


@pytest.mark.parametrize("blank", [" ", "▁"])
def test_the_cut_of_a_known_word_holds_up_to_a_sum(blank):
    """One word, whose best cut is better by 0.002: rounding hides that later in the text."""
    table = {"▁": -1.1, "a": -1.3, "b": -1.7, "ab": -3.002}
    theirs, ours = load(make_model([*META, *((text, score, NORMAL) for text, score in table.items())], 1))
    text = (blank + "ab") * 20_000
    expected = theirs.encode(text)
    assert 0 < expected.count(theirs.piece_to_id("ab")) < 20_000
    assert ours.encode(text).tolist() == expected
    assert ours.encode(text).tolist() == expected, "the second time, from the cache"


@pytest.mark.parametrize(
    ("table", "texts"),
    [
        ({"▁": -1.1, "c": -1.3}, ["▁c" * 30_000 + "▁ab" * 40, "▁c" * 75_000 + "▁ab" * 40]),
        ({"c": -1.3}, [("▁cé" * 20 + "▁abé") * 150]),
        ({"▁": -6000.0, "c": -6000.0}, ["▁c" * num + "▁ab" * 40 for num in range(40)]),
    ],
    ids=["many batches", "unknown text across words", "restarts"],
)
def test_words_that_are_certain_count_in_the_sum(table, texts):
    """The best cut of "ab" is better by 0.002, which rounding hides after enough of other words."""
    table = {**table, "a": -1.3, "b": -1.7, "ab": -3.002}
    theirs, ours = load(make_model([*META, *((text, score, NORMAL) for text, score in table.items())], 1))
    for text in texts:
        expected = theirs.encode(text)
        assert theirs.piece_to_id("ab") in {*expected} - {*theirs.encode("▁ab")}
        for _ in range(2):
            assert ours.encode(text).tolist() == expected


@pytest.mark.parametrize("has_bytes", [False, True])
def test_unknown_characters_count_in_the_sum(has_bytes):
    """Words that end unknown come from the cache, and near ties after them depend on the sum so far."""
    generator = np.random.default_rng(8)
    near = generator.normal(-8, 1e-4, 40)
    texts = ["a", "b", "ab", "ba", "aa", "bb", "▁", "▁a", "▁b", "aab", "abb", "▁ab"]
    pieces = [*META, *((text, float(near[i]) * len(text), NORMAL) for i, text in enumerate(texts))]
    trainer = write_field(35, True) if has_bytes else b""
    theirs, ours = load(make_model([*pieces, *(BYTES if has_bytes else [])], 1, trainer))
    for unknown in ("é", "éé", "é日x", "aé"):
        text = ("▁" + "".join(generator.choice(list("ab"), 7)) + unknown + "▁" + unknown) * 2_000
        text += "".join(generator.choice(list("ab▁"), 20_000))
        for _ in range(2):
            assert ours.encode(text).tolist() == theirs.encode(text)


@pytest.mark.parametrize("has_bytes", [False, True])
@pytest.mark.parametrize("kind", [1, 2])
def test_words_of_several_parts_are_cut_as_theirs(kind, has_bytes):
    """Words with places that no piece crosses: near ties in their parts depend on the sum before the word."""
    generator = np.random.default_rng(9)
    near = generator.normal(-8, 1e-4, 40)
    texts = ["a", "b", "ab", "ba", "aa", "bb", "▁", "▁a", "▁b", "aab", "abb", "▁ab", ".", ",", "..", "b,", ",,é", "é"]
    pieces = [*META, *((text, float(near[i]) * len(text), NORMAL) for i, text in enumerate(texts))]
    trainer = write_field(35, True) if has_bytes else b""
    theirs, ours = load(make_model([*pieces, *(BYTES if has_bytes else [])], kind, trainer))
    draw = lambda num: "".join(generator.choice(list("ab"), num))  # noqa: E731
    for ends in (["", ",", ".", ".."], ["b,", "b,é", ",,éa", "é", "日", "日.", "..日日a"]):
        words = ["▁" + draw(5) + "." + draw(4) + generator.choice(ends) for _ in range(40)]
        text = "".join(generator.choice(words, 6000))
        for _ in range(2):
            assert ours.encode(text).tolist() == theirs.encode(text)


@pytest.mark.parametrize("normalizer", ["as it is", "one blank before each word"])
@pytest.mark.parametrize("kind", [1, 2])
def test_texts_of_a_batch_do_not_depend_on_each_other(kind, normalizer):
    """Their words are encoded together: of empty texts, long ones, and those that BPE needs whole."""
    generator = np.random.default_rng(10)
    near = generator.normal(-8, 1e-4, 40)
    known = ["a", "b", "c", "ab", "bc", "▁", "▁a", "▁b", "▁ab", "é", "日", ".", ",", "▁bc", "c."]
    pieces = [*META, *((text, float(near[i]) * len(text), NORMAL) for i, text in enumerate(known))]
    spec = None if normalizer == "as it is" else write_field(3, True) + write_field(4, True)
    theirs, ours = load(make_model([*pieces, ("abc", -9.0, UNUSED)], kind, normalizer=spec))
    sizes = [*([0, 1, 2, 9, 40] * 200), 700, 9_000, 40_000]
    generator.shuffle(sizes)
    alphabets = ["ab ", "ab .,", "aabé ", "ab日 ", "abc "]
    texts = ["".join(generator.choice(list(alphabets[i % 5]), size)) for i, size in enumerate(sizes)]
    expected = [theirs.encode(text) for text in texts]
    for form in (texts, pa.array(texts)):
        for threads in (1, 2):
            assert ours.encode_batch(form, threads=threads).to_pylist() == expected


def test_new_words_that_are_equal_are_encoded_once():
    """Words of one size, hundreds to a batch, each of them twice: beside itself, and in the next text."""
    theirs, ours = load(train("unigram", "plain"))
    generator = np.random.default_rng(11)
    words = ["".join(generator.choice(list("aeinorst"), 6)) for _ in range(4_000)]
    texts = [" ".join(words[i : i + 40] + words[i : i + 50]) for i in range(0, len(words), 40)]
    assert ours.encode_batch(texts).to_pylist() == [theirs.encode(text) for text in texts]


def test_marks_after_letters_are_replaced_with_them():
    """Wherever in a run of characters that stay: at its end, at the end of a block, before what is no character."""
    theirs, ours = load(train("unigram", "plain"))
    marked = ["e\u0301", "и\u0306", "か\u3099", "가\u11a8", "क\u093c", "é\u0323", "ا\u0653", "a\u0300\u0301", "ﬁ"]
    for letters in marked:
        for before in range(34):
            for after in ("", "z" * 20, " z", "\u0301", "日本" * 8):
                text = "abcdefghijklmnopqrstuvwxyzabcdefgh"[:before] + letters + after
                assert ours.encode(text).tolist() == theirs.encode(text), text
        assert ours.encode(letters.encode()[:-1] + b" " * 20).tolist() == theirs.encode(
            letters.encode()[:-1] + b" " * 20
        )


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_that_are_not_normalized_are_theirs(kind, option):
    """Between blanks of all kinds, what vanishes, what joins, and text too long to wait."""
    theirs, ours = load(train(kind, option))
    generator = np.random.default_rng(13)
    words = ["a", "the", "House.", "<sep>", "C++", "x" * 14, "y" * 15, "qz~!", "12", "é", "ﬁt", "日本", "▁", "▁a", "a▁"]
    words += [
        "привет",
        "пространство",
        "пространств" * 6,
        "ελληνικά",
        "दुनिया",
        "été,été.été",
        "x日" * 4,
        "日本語の" * 3,
    ]
    words += ["a▁b", "z" * 120 + "é", "w" * 130, "й" * 7, "й" * 8, "\U0001f600" * 3, "aא" * 5]
    gaps = [" "] * 12 + ["  ", "\n", "\t ", "\u3000", "\u00a0", " \u00a0", "\u200b", " \u200b ", " \u200b", "\u200b "]
    gaps += [
        " \u0301",
        " \u0301 ",
        "e\u0301 ",
        "\u00a0 ",
        " ▁",
        "▁ ",
        "\ufeff ",
        " \x00 ",
        "日" * 17 + " ",
        "  " * 9,
        "",
    ]
    texts = []
    for size in [*range(12), *[40] * 60, *[3000] * 3]:
        ends = generator.choice(["", " ", "  ", "\u3000", "\u200b", " \u200b "], 2)
        parts = [generator.choice(words) + generator.choice(gaps) for _ in range(size)]
        texts.append(ends[0] + "".join(parts) + ends[1])
    texts += ["a the " + "日本語 é\u0301" * 3000 + " the House. the a" * 3]
    texts += [f"the {gap}{word}{gap} a the house" for gap in gaps for word in words]
    for _ in range(2):
        assert ours.encode_batch(texts).to_pylist() == theirs.encode(texts)
    broken = [text.encode()[cut:] for text in texts[:60] for cut in (0, 1, 2)] + [
        b"the \xe2 a the \xff the a the house a"
    ]
    assert [ours.encode(text).tolist() for text in broken] == [theirs.encode(text) for text in broken]


def test_long_inputs():
    theirs, ours = load(train("bpe", "bytes"))
    unigram = load(train("unigram", "crossing"))
    for text in ["a" * 1_000_000, " " * 1_000_000, "\u0301" * 300_000, "ab" * 200_000]:
        assert ours.encode(text).tolist() == theirs.encode(text)
        assert unigram[1].encode(text).tolist() == unigram[0].encode(text)


def test_unreachable_pieces_are_found():
    pieces = [*META, *((text, -float(i), NORMAL) for i, text in enumerate(["a", "b", "ab", "▁"]))]
    _, ours = load(make_model([*pieces, ("bab", -20.0, NORMAL), ("xyz", -21.0, NORMAL), ("aa", 0.0, UNUSED)], 2))
    found = find_unreachable_tokens(ours)
    assert [ours.id_to_token(one.id) for one in found] == ["xyz"]


def test_what_is_a_model():
    assert is_sentencepiece_model(train("bpe", "plain"))
    assert is_sentencepiece_model(make_model(META, 1))
    assert is_sentencepiece_model(make_model([("a" * 200, 0.0, NORMAL)], 1))
    for data in [b"", b"\n", b"\n\n", b"\n[PAD]\n[UNK]\n", b"{}", b"YQ== 0\n", b"[UNK]\n"]:
        assert not is_sentencepiece_model(data)


GOOD = [*META, ("a", -1.0, NORMAL)]
BYTES = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
CHARSMAP = "normalizer_spec.precompiled_charsmap"


def table(units: dict[int, int], texts: bytes) -> bytes:
    """A charsmap of a double array with these units, the others empty."""
    array = np.zeros(256, "<u4")
    array[[*units]] = [*units.values()]
    return (1024).to_bytes(4, "little") + array.tobytes() + texts


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (make_model(GOOD, 1)[:-3], "field 3 at byte 61 has 4 bytes, and 1 are left"),
        (make_model(GOOD, 1)[:20], r"field 1 at byte 18 ends|ends within a number|has \d+ bytes, and \d+ are left"),
        (b"\n\xff\xff\xff\xff\x0f", "field 1 at byte 0 has 4294967295 bytes, and 0 are left"),
        (make_model(GOOD, 1) + b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "more than 64 bits"),
        (make_model(GOOD, 1) + b"\x07", "begins no field"),
        (make_model(GOOD, 1) + write_field(2, b""), "trainer_spec is given twice"),
        (make_model(GOOD, 1) + write_field(1, 7), "pieces has the wire type 0, expected 2"),
        (make_model([*GOOD, ("a", 0.0, NORMAL)], 1), r"pieces\[4\].piece is 'a', as is that of pieces\[3\]"),
        (make_model([*GOOD, ("", 0.0, NORMAL)], 1), r"pieces\[4\].piece has 0 bytes"),
        (make_model([*GOOD, ("b" * 8000, 0.0, NORMAL)], 1), r"pieces\[4\].piece has 8000 bytes"),
        (make_model([*GOOD, ("b", 0.0, 9)], 1), r"pieces\[4\].type is 9"),
        (make_model([*GOOD, ("b", float("nan"), NORMAL)], 1), "score of the piece 'b' is not a finite number"),
        (make_model([*GOOD, ("x\0y", 0.0, NORMAL)], 1), "has a zero byte"),
        (make_model([*GOOD, ("b", 0.0, UNKNOWN)], 1), r"pieces\[4\].type is UNKNOWN, as is that of pieces\[0\]"),
        (make_model(GOOD[1:], 1), "there is no unknown piece"),
        (make_model(META, 1), "no piece is of the type NORMAL"),
        (make_model(GOOD, 3), "model_type is WORD: only UNIGRAM and BPE"),
        (make_model(GOOD, 77), "model_type is 77"),
        (make_model([*GOOD, *BYTES], 1), r"pieces\[4\].type is BYTE, but trainer_spec.byte_fallback is false"),
        (make_model([*GOOD, *BYTES[1:]], 1, write_field(35, True)), "b'<0x00>' is missing"),
        (make_model(GOOD, 1, write_field(35, True)), "byte_fallback is true, but no piece"),
        (make_model(GOOD, 1, write_field(44, b"\xff")), "trainer_spec: unk_surface is not UTF-8"),
        (make_model(GOOD, 1) + write_field(1, write_field(1, b"\xff")), r"pieces\[4\].piece is not UTF-8"),
        (make_model(GOOD, 1) + write_field(5, write_field(2, b"x")), "denormalizer_spec.precompiled_charsmap"),
        (make_model(GOOD, 1, normalizer=write_field(2, b"abc")), f"{CHARSMAP} is damaged"),
        (make_model(GOOD, 1, normalizer=write_field(2, table({}, b"\0"))), f"{CHARSMAP}: this is no charsmap"),
        (make_model(GOOD, 1, normalizer=write_field(2, table({5: 1 << 31 | 9}, b"a\0"))), "names a text at 9"),
        (make_model(GOOD, 1, normalizer=write_field(2, table({5: 1 << 31}, b"\xff\0"))), "is not UTF-8"),
        (make_model(GOOD, 1, normalizer=write_field(2, table({5: 1 << 31 | 1}, "é\0".encode()))), "within a character"),
    ],
)
def test_what_is_wrong_is_named(data, message):
    with pytest.raises(FormatError, match=message) as error:
        read_sentencepiece_model(data, "/some/file.model")
    assert str(error.value).startswith("/some/file.model")


def test_every_truncation_and_flipped_byte_is_read_or_refused():
    data = make_model([*GOOD, ("▁a", -2.0, NORMAL)], 2)
    generator = np.random.default_rng(1)
    changed = [bytearray(data) for _ in range(2000)]
    for one in changed:
        one[generator.integers(len(data))] ^= int(generator.integers(1, 256))
    num_refused = 0
    for one in [*(data[:size] for size in range(len(data))), *map(bytes, changed)]:
        try:
            spec = read_sentencepiece_model(one, "x")
        except FormatError:
            num_refused += 1
            continue
        Tokenizer(spec).encode("a aa b")
    assert num_refused > len(data) // 2


def test_a_changed_tokcore_json_names_the_field():
    spec = read_sentencepiece_model(make_model(GOOD, 1), "x")
    content = json.loads(spec.to_json_bytes())
    for key, value, message in [
        ("scores", "AAAA", "model.scores: expected one for each of 1 pieces"),
        ("types", "!", "model.types: expected base64"),
        ("ids", [-1], "model.ids: expected ids below"),
        ("unknown", 3, "unknown one must be special|ordinary"),
    ]:
        changed = content | {"model": content["model"] | {key: value}}
        with pytest.raises(FormatError, match=message):
            TokenizerSpec.from_json_bytes(write_canonical_json(changed), "tokcore.json")
