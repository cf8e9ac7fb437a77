"""Numbers of tokenizer.json are those that tokenizers reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tokcore.formats.tokenizers.json_floats import parse_float, write_float

DIGITS = st.text("0123456789", min_size=1, max_size=30)
WHOLE = DIGITS.map(lambda digits: digits.lstrip("0") or "0")
NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    WHOLE,
    st.one_of(st.just(""), DIGITS.map(".{}".format)),
    st.one_of(st.just(""), st.integers(-60, 60).map("e{}".format)),
)


def read_as_tokenizers(texts: list[str]) -> list[float]:
    pieces = ", ".join(f'["{i}", {text}]' for i, text in enumerate(texts))
    tokenizer = Tokenizer.from_str(f'{{"model": {{"type": "Unigram", "unk_id": null, "vocab": [{pieces}]}}}}')
    return [score for _, score in json.loads(tokenizer.to_str())["model"]["vocab"]]


@given(st.lists(NUMBERS, min_size=1, max_size=50))
def test_numbers_are_those_of_tokenizers(texts):
    assert [parse_float(text) for text in texts] == read_as_tokenizers(texts)


@pytest.mark.parametrize(
    "text",
    [
        "-18446744073709551616",
        "18446744073709551615",
        "-184467440737095516160e-3",
        "184467440737095516160.5",
        "18446744073709551616.7e-5",
        "548580162908433162508.88577598773529474e24",
        "-0.0",
        "-3.4139850213474854e-295",
        "12345678901234567890e-700",
    ],
)
def test_numbers_of_more_than_64_bits(text):
    [theirs] = read_as_tokenizers([text])
    assert repr(parse_float(text)) == repr(theirs)


@given(st.lists(st.floats(-1e6, 0), min_size=1, max_size=20))
def test_tokenizers_reads_what_we_write(numbers):
    texts = [write_float(number) for number in numbers]
    assert read_as_tokenizers(texts) == [parse_float(text) for text in texts]
