"""The long lists of tokenizer files: what the kernel takes of them is what a JSON parser gives, and it takes most."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.vocabularies import learned_models, merges_models

from tokcore import kernel
from tokcore.errors import TokError
from tokcore.formats.tokenizers import huggingface
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, read_usual_json, write_tokenizer_json
from tokcore.models.bpe import LearnedModel
from tokcore.models.model import MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES
from tokcore.reference import reference
from tokcore.text.byte_alphabet import BYTE_OF_ID
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec, _parse_json_bytes

pytestmark = pytest.mark.skipif(kernel.list_available() == ("reference",), reason="no native kernel")

SPECIAL = (SpecialToken("<|é ▁|>", 2**31 - 1), SpecialToken("<tool>", 2**31 - 2, is_special=False))
MODELS = st.one_of(learned_models(), merges_models())


def make_spec(model, special=SPECIAL) -> TokenizerSpec:
    return TokenizerSpec((), {"name": "llama3"}, model, special)


def outcome(read, data) -> object:
    try:
        return read(data, "x").to_json_bytes()
    except TokError as error:
        return str(error)


def read_slowly(data, name) -> TokenizerSpec:
    return huggingface.read_tokenizer_content(json.loads(data), data, name, False)


def read_own(data, name) -> TokenizerSpec:
    _parse_json_bytes.cache_clear()
    return TokenizerSpec.from_json_bytes(data, name)


def read_own_slowly(data, name) -> TokenizerSpec:
    with kernel.force("reference"):
        return read_own(data, name)


def spell(content, merges_as_strings, shuffled, ascii_only, indent) -> bytes:
    model = content["model"]
    if merges_as_strings:
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    if shuffled:
        model["vocab"] = dict(reversed(model["vocab"].items()))
    return json.dumps(content, ensure_ascii=ascii_only, indent=indent).encode()


@given(MODELS, st.tuples(*[st.booleans()] * 3, st.sampled_from([None, 1])))
@examples(25)
def test_usual_files_are_taken_and_read_as_by_a_parser(model, how):
    # Names of other characters than bytes have are not taken where they are escaped.
    special = SPECIAL[1:] if how[2] else SPECIAL
    data = spell(json.loads(write_tokenizer_json(make_spec(model, special))), *how)
    found = read_usual_json(data, "x", False)
    assert found is not None
    assert found.to_json_bytes() == read_slowly(data, "x").to_json_bytes()


@given(
    MODELS,
    st.integers(0),
    st.sampled_from([b"", b"0", b" ", b'"', b"\\", b",", b"]", b"}", b"\xff", b"a", b"-", b".5"]),
)
@examples(50)
def test_a_changed_byte_means_the_same_to_both(model, place, byte):
    data = bytearray(spell(json.loads(write_tokenizer_json(make_spec(model))), place % 2, False, False, None))
    data[place % len(data) : place % len(data) + place % 3 % 2] = byte
    given_bytes = bytes(data)
    found = read_usual_json(given_bytes, "x", False)
    if found is not None:
        assert found.to_json_bytes() == read_slowly(given_bytes, "x").to_json_bytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"!": 0', '"!": 0, "!": 0'),  # twice
        ('"!": 0', '"!": 0.0'),
        ('"!": 0', '"!": 1'),  # an id twice
        ('"!": 0', '"!": -0'),
        ('"merges": [', '"merges": [["!", "#"], '),  # makes no token
        ('"merges": [', '"merges": [["!", "unknown"], '),
        ('"merges": [', '"merges": ["! ", '),
        ('"vocab": {', '"vocab": {"<tool>": 3, '),  # left out, as it is an added token
        ('"vocab": {', '"vocab": {"▁": 70000, '),
        ('"model": {', '"model": {"merges": [["a", "b"]], "vocab": {}, '),  # the later ones count
        ('"truncation": null', '"truncation": {"vocab": {}, "merges": []}'),
        ('"truncation": null', r'"truncation": "\"vocab\": {"'),
        ('"truncation": null', r'"truncation": "\u0000"'),
    ],
)
def test_odd_files_are_what_they_are_to_a_parser(old, new):
    spec = make_spec(LearnedModel(np.array([[64, 65], [256, 66], [220, 257]], np.int32)))
    data = json.dumps(json.loads(write_tokenizer_json(spec)), ensure_ascii=False).encode()
    assert old.encode() in data
    changed = data.replace(old.encode(), new.encode(), 1)
    assert outcome(read_tokenizer_json, changed) == outcome(read_slowly, changed)


@given(MODELS, st.integers(0), st.sampled_from([b"", b"0", b" ", b"]", b",", b"=", b"9", b"x"]))
@examples(40)
def test_a_tokcore_json_is_read_as_by_a_parser(model, place, byte):
    data = make_spec(model).to_json_bytes()
    assert read_own(data, "x").model.tokens == model.tokens
    changed = bytearray(data)
    changed[place % len(data) : place % len(data) + place % 3 % 2] = byte
    assert outcome(read_own, bytes(changed)) == outcome(read_own_slowly, bytes(changed))


@given(
    st.lists(st.tuples(st.integers(-1, 262), st.integers(0, 262)), max_size=8), st.sampled_from([3, MAX_TOKEN_BYTES])
)
def test_what_merges_make(pairs, max_token):
    merges = np.array(pairs, np.int32).reshape(-1, 2)
    for max_all in (258, MAX_VOCABULARY_BYTES):
        limits = (max_token, max_all)
        assert kernel.join_merges(BYTE_OF_ID, merges, *limits) == reference.join_merges(BYTE_OF_ID, merges, *limits)


@given(MODELS, st.lists(st.tuples(st.integers(-1, 300), st.integers(0, 300))))
def test_what_pairs_make(model, pairs):
    texts = make_texts_from_strings(model.tokens)
    given_pairs = np.array([*pairs, *model.merges.tolist()], np.int32).reshape(-1, 2)
    found = kernel.join_pairs(texts, model.ids, given_pairs)
    np.testing.assert_array_equal(found, reference.join_pairs(*texts, model.ids, given_pairs))


@given(st.lists(st.tuples(st.binary(max_size=7), st.integers(0, 2**31 - 1))))
def test_tokens_as_json_and_back(rows):
    tokens, ids = tuple(token for token, _ in rows), np.array([id for _, id in rows], np.int32)
    data = kernel.write_base64_tokens(make_texts_from_strings(tokens), ids)
    assert json.loads(data) == [[base64.b64encode(token).decode(), id] for token, id in rows]
    again = kernel.read_base64_tokens(b"," + data + b"]", 1)
    assert again is not None
    assert (again[0], again[1].tolist(), again[2]) == (tokens, ids.tolist(), 1 + len(data))


@pytest.mark.parametrize("text", ["YR==", "Y===", "YQ=", "Y Q=", "YQ==YQ==", "=QYQ", "YW-_"])
def test_base64_that_says_nothing_or_too_much_is_not_taken(text):
    assert kernel.read_base64_tokens(json.dumps([[text, 1]], separators=(",", ":")).encode(), 0) is None


@given(st.lists(st.tuples(*[st.integers(0, 2**31 - 1)] * 2)))
def test_pairs_as_json_and_back(pairs):
    data = kernel.write_id_pairs(np.array(pairs, np.int32).reshape(-1, 2))
    assert json.loads(data) == [*map(list, pairs)]
    again = kernel.read_id_pairs(data, 0)
    assert again is not None
    assert (again[0].tolist(), again[1]) == ([*map(list, pairs)], len(data))


@given(
    st.recursive(st.none() | st.text(max_size=4), lambda one: st.lists(one) | st.dictionaries(st.text(), one)),
    st.text(),
)
def test_where_a_value_ends(value, after):
    data = json.dumps([value]).encode()
    assert kernel.skip_json(data + after.encode(), 0) == reference.skip_json(data, 0) == len(data)
    assert kernel.skip_json(data[:-1], 0) == 0
