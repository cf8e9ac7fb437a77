"""Presets of split patterns: numbers from the right, identifiers, source code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import regex
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.vocabularies import spec_of_merges

from tokcore.errors import ConfigError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.text.byte_alphabet import from_printable
from tokcore.text.pattern_presets import PRESETS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_tree import parse
from tokcore.text.split_steps import Cut, find_groups_from_right
from tokcore.text.texts import make_texts_from_strings

PARTS = [
    "parse",
    "HTTP",
    "Response",
    "e\u0301",
    "E\u0301",
    "ǅ",
    "字",
    "1",
    "22",
    "٣",
    "\U0001d7ce",
    "½",
    " ",
    "  ",
    "\t",
]
PARTS += ["\n", "\r\n", "/", "//", ".", "...", "->", "-", ">", "_", "'s", "(", "\u00a0", "A", "é"]
PARTS += ["中文字符", "カタ", "ー", "です", "々", "𠀀", "क्", "\u200d", "\u200c", "ष", "བོད", "་", "👩", "'LL"]
text_of = st.lists(st.sampled_from(PARTS), max_size=24).map("".join)


def cut(pretokenizer: Pretokenizer, texts: list[str]) -> list[list[bytes]]:
    found, ends, firsts = pretokenizer.cut(make_texts_from_strings(texts))
    data, bounds = found.data.tobytes(), [int(found.offsets[0]), *ends.tolist()]
    pieces = [data[begin:end] for begin, end in itertools.pairwise(bounds)]
    return [pieces[begin:end] for begin, end in itertools.pairwise(firsts.tolist())]


def cut_in_words(name: str, text: str) -> list[str]:
    return [piece.decode() for piece in cut(Pretokenizer.named(name), [text])[0]]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("digits-from-right", "12345678 x1234", "12|345|678| x|1|234"),
        ("digits-from-right", "1 12 123 123456", "1| |12| |123| |123|456"),
        ("camel-case", "parseHTTPResponse.toE\u0301tat A", "parse|HTTP|Response|.to|E\u0301tat| A"),
        ("code", "if a/b.c->d:\n    x = '../y'", "if| a|/|b|.|c|->|d|:|\n    |x| =| '|..|/|y|'"),
        ("multilingual", "abc中文字符很长，但是カタカナーですか", "abc|中文字符很长|，但是カタカナーで|すか"),
        ("multilingual", "一二三四五六七八九", "一二三四五六七八|九"),
        ("multilingual", "क्\u200dष می\u200cخواهم བོད་ཡིག་ 👩\u200d👧", "क्\u200dष| می\u200cخواهم| བོད་ཡིག་| 👩\u200d👧"),
        (
            "multilingual",
            "if WORLD:\n    it's = 12345.\nz\n\n\tz",
            "if| WORLD|:|\n    |it's| =| |123|45|.\n|z|\n\n\t|z",
        ),
        ("code", "a - b-c\n\n\tdef f(): # ->", "a| -| b|-c|\n\n\t|def| f|():| #| |->"),
    ],
)
def test_what_they_are_for(name, text, expected):
    assert cut_in_words(name, text) == expected.split("|")


@pytest.mark.parametrize("name", PRESETS)
@given(st.lists(text_of, min_size=1, max_size=3))
@examples(100)
def test_tokenizers_cuts_as_we_do(name, texts):
    data = write_tokenizer_json(spec_of_merges([], Pretokenizer.named(name).spec, [], []))
    theirs = tokenizers.Tokenizer.from_str(data.decode()).pre_tokenizer
    expected = [[from_printable(piece) for piece, _ in theirs.pre_tokenize_str(text)] for text in texts]
    assert cut(Pretokenizer.named(name), texts) == expected
    read = read_tokenizer_json(data, "x").pattern
    assert cut(Pretokenizer.from_spec(read), texts) == expected


@pytest.mark.parametrize("name", [name for name, spec in PRESETS.items() if "regex" in spec])
@given(st.lists(text_of, min_size=1, max_size=3))
@examples(100)
def test_pieces_are_the_matches_of_the_expression(name, texts):
    expression = regex.compile(PRESETS[name]["regex"])
    expected = [[found.encode() for found in expression.findall(text)] for text in texts]
    assert cut(Pretokenizer.named(name), texts) == expected


@pytest.mark.parametrize("bytewise", [False, True])
@given(st.lists(text_of, min_size=1, max_size=4), st.integers(1, 4))
@examples(60)
def test_groups_from_the_right_are_what_the_expression_matches(bytewise, texts, size):
    written = rf"\p{{Nd}}{{1,{size}}}(?=(?:\p{{Nd}}{{{size}}})*(?!\p{{Nd}}))"
    if bytewise:  # of the names of bytes, those from "1" to "3"
        written = written.replace(r"\p{Nd}", "[1-3]")
    tree = parse(written, "regex")
    assert find_groups_from_right(tree) is not None
    batch = make_texts_from_strings(texts)
    pieces, firsts = Cut(tree, bytewise=bytewise).apply(batch)
    data = pieces.data.tobytes()
    found = [data[begin:end].decode() for begin, end in itertools.pairwise(pieces.offsets.tolist())]
    expected = [[part for part in regex.split(f"({written})", text) if part] for text in texts]
    assert found == [part for parts in expected for part in parts]
    assert firsts.tolist() == np.cumsum([0, *map(len, expected)]).tolist()


def test_a_long_number_takes_no_time():
    assert len(cut_in_words("digits-from-right", "7" * 1_000_000)) == 333_334


def test_other_expressions_are_no_groups():
    for text in (
        r"\d{1,3}(?=(?:\d{2})*(?!\d))",
        r"\d{1,3}(?=(?:\d{3})*(?=\d))",
        r"\d{1,3}(?=(?:\d{3})+(?!\d))",
        "a",
        "ab",
    ):
        assert find_groups_from_right(parse(text.replace(r"\d", "[0-9]"), "regex")) is None


def test_a_misspelled_name():
    with pytest.raises(ConfigError, match=r"no pattern named 'camelcase': .* Did you mean 'camel-case'"):
        Pretokenizer.of("camelcase")
