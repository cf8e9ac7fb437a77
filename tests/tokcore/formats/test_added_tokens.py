"""Added tokens of a tokenizer.json: text that spells one that is not special becomes it, as in `tokenizers`."""

from __future__ import annotations

import functools
import io
import json
import re

import numpy as np
import pyarrow as pa
import pytest
import tokenizers
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.examples import examples
from support.sentencepiece_models import METASPACE, make_tokenizer_json, train
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from tokcore import kernel
from tokcore.errors import FormatError
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json
from tokcore.look.explain import Explainer
from tokcore.text.texts import Texts, make_texts_from_strings
from tokcore.tokenizer.sampling import Randomness
from tokcore.tokenizer.special_text import find_special
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

CODE = "def f(x):\n    if x:\n\t\treturn x  # e\u0301té\n        return  y\r\n\n\n"
TEXTS = [
    *[CODE, "", " ", "  ", " " * 90, "a" + " " * 7 + "b", "\t" * 9, "\n\n\n", "x\u00a0 y", "  é  e\u0301  "],
    *["<|endoftext|>", "a<|endoftext|>  b", "<|padding|><|endoftext|>", "|||IP_ADDRESS|||  1", "<|endoftext|  >"],
    *["a <mask> b", "a  <mask>\u00a0\u3000<mask>é", "<|im_sep|>  \n <|im_sep|> a", "fé f é_f f", "x té tét -té"],
    *["<tool_call>{}</tool_call>", "<tool_call", "<|im_start|>user", "||||IP_ADDRESS||||IP_ADDRESS|||"],
]


def blanks(*sizes: int, **flags: bool) -> list[AddedToken]:
    return [AddedToken(" " * size, **flags) for size in sizes]


SPECIAL = [AddedToken("<|endoftext|>", special=True, normalized=False)]
# The added tokens of published files, by what they have in common.
KINDS = {
    "gpt-neox": (
        "NFC",
        [*SPECIAL, AddedToken("<|padding|>", special=True, normalized=False), *blanks(*range(24, 1, -1))],
    ),
    "olmo": (
        "NFC",
        [AddedToken("|||IP_ADDRESS|||", normalized=False), *SPECIAL, *blanks(24, 12, 4, 3, 2, normalized=False)],
    ),
    "mpt": ("NFC", [*SPECIAL, AddedToken("<|padding|>", special=True), *blanks(*range(2, 25), normalized=True)]),
    "phi": (None, [*SPECIAL, *blanks(*range(31, 1, -1)), *[AddedToken("\t" * size) for size in range(9, 1, -1)]]),
    "qwen": (
        "NFC",
        [
            *[*SPECIAL, AddedToken("<|im_start|>", special=True, normalized=False)],
            *[AddedToken(text, normalized=False) for text in ("<tool_call>", "</tool_call>")],
        ],
    ),
    "roberta, bart, modernbert": (
        "NFC",
        [AddedToken("<mask>", lstrip=True, special=True), *SPECIAL, *blanks(4, 3, 2, normalized=False)],
    ),
    "phi-4": (
        None,
        [AddedToken("<|im_sep|>", lstrip=True, rstrip=True, special=True), AddedToken("return", rstrip=True)],
    ),
    "single word": ("NFC", [AddedToken("f", single_word=True), AddedToken("té", single_word=True, lstrip=True)]),
    "lowercase": ("Lowercase", [*SPECIAL, AddedToken("IF"), AddedToken("  X"), AddedToken("DEF F", normalized=False)]),
}


@functools.cache
def learned(normalizer: str | None) -> str:
    """A tokenizer.json without added tokens."""
    theirs = tokenizers.Tokenizer(models.BPE())
    if normalizer is not None:
        theirs.normalizer = getattr(normalizers, normalizer)()
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    theirs.train_from_iterator([CODE] * 9, trainer)
    return theirs.to_str()


def both(normalizer: str | None, tokens: list[AddedToken]) -> tuple[tokenizers.Tokenizer, Tokenizer]:
    """Their tokenizer, for which special tokens are text, and ours."""
    theirs = tokenizers.Tokenizer.from_str(learned(normalizer))
    theirs.add_tokens(tokens)
    ours = Tokenizer(read_tokenizer_json(theirs.to_str().encode(), "t.json"))
    theirs.encode_special_tokens = True
    return theirs, ours


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_theirs(kind):
    theirs, ours = both(*KINDS[kind])
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in TEXTS]
    always = {token.id for token in ours.spec.special if not token.is_special}
    assert any(id in always for row in expected for id in row), "some text spells a token that is not special"
    batch = make_texts_from_strings(TEXTS)
    assert ours.encode_batch(TEXTS, threads=2).to_pylist() == expected
    for encoded in (ours.encode_texts(batch), ours.encode_strings(TEXTS), ours.encode_texts_with_special(batch)):
        assert encoded.offsets[-1] == len(encoded.ids)
    assert ours.encode_texts(batch).ids.tolist() == [id for row in expected for id in row]
    theirs.encode_special_tokens = False
    assert ours.encode_batch(TEXTS, allow_special=True).to_pylist() == [
        theirs.encode(text, add_special_tokens=False).ids for text in TEXTS
    ]
    for text, ids in zip(TEXTS, expected, strict=True):
        assert ours.decode(ids) == ours.normalized(text.encode())
        assert [token.id for token in Explainer(ours).explain(text)] == ids
    assert ours.spelled_special(batch).keys() <= ours.specials.keys() < ours.added.keys()
    again = TokenizerSpec.from_json_bytes(ours.spec.to_json_bytes(), "again")
    assert again == ours.spec
    assert again.special == ours.spec.special
    exports = dict(EXPORTS["huggingface"].files(ours.spec))
    exported = exports["tokenizer.json"]
    assert read_tokenizer_json(exported, "exported").special == ours.spec.special
    again = tokenizers.Tokenizer.from_str(exported.decode())
    again.encode_special_tokens = True
    assert [again.encode(text, add_special_tokens=False).ids for text in TEXTS] == expected
    named = json.loads(exports["special_tokens_map.json"]).get("additional_special_tokens", [])
    assert {*named} == {*ours.specials}


@given(st.sampled_from([*KINDS]), st.integers(1, 3), st.data())
@examples(60)
def test_random_texts_of_parts_of_added_tokens(kind, threads, data):
    theirs, ours = both(*KINDS[kind])
    spelled = [token.content for token in KINDS[kind][1]]
    part = st.sampled_from([*spelled, *(text[:-1] for text in spelled), " ", "\n", "a", "é", "e\u0301", "1 "])
    texts = data.draw(st.lists(st.lists(part, max_size=9).map("".join), max_size=6))
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in texts]
    for given_as in (texts, pa.array(texts, pa.string()), [text.encode() for text in texts]):
        assert ours.encode_batch(given_as, threads).to_pylist() == expected
    assert [ours.encode(text).tolist() for text in texts] == expected


def test_a_token_that_only_normalized_text_spells():
    theirs, ours = both("NFC", [AddedToken("té")])
    texts = ["a", "te\u0301", "t\u00e9"]
    expected = [theirs.encode(text, add_special_tokens=False).ids for text in texts]
    assert expected[1] == expected[2] == [ours.added["té"]]
    assert [ours.encode(text).tolist() for text in texts] == ours.encode_batch(texts).to_pylist() == expected


def test_a_token_that_takes_blanks_and_one_that_begins_with_them():
    with pytest.raises(FormatError, match="'a!' has rstrip, and '  ' begins with white space"):
        both(None, [AddedToken("a!", rstrip=True), AddedToken("  ")])


def test_an_added_token_that_merges_make_too():
    """Gemma's added tokens are those of a corpus: they stay parts of merges. One that is special may not be."""
    theirs, ours = both(None, [AddedToken("return", single_word=True), AddedToken("x")])
    texts = ["return returns x xx", "areturn  return", "return"]
    assert [ours.encode(text).tolist() for text in texts] == [theirs.encode(text).ids for text in texts]
    assert len(ours) == theirs.get_vocab_size()
    assert len(ours.spec.shared_ids) == 2
    again = TokenizerSpec.from_json_bytes(ours.spec.to_json_bytes(), "again")
    exported = dict(EXPORTS["huggingface"].files(again))["tokenizer.json"]
    assert read_tokenizer_json(exported, "exported") == ours.spec
    with pytest.raises(FormatError, match="makes no token"):
        both(None, [AddedToken("return", special=True)])


parts = st.sampled_from(
    ["a!", "b!", "a!a!", "a!b!", "!a", " ", "  ", "<!", "<!a", "!>", "A!", "É!", "e\u0301!", "<!a!>"]
)
rarely = st.integers(0, 3).map(bool).map(lambda often: not often)
tokens = st.lists(
    st.builds(
        AddedToken,
        parts.filter(" ".__ne__),
        normalized=st.booleans(),
        special=st.booleans(),
        lstrip=rarely,
        rstrip=rarely,
        single_word=rarely,
    ),
    max_size=6,
    unique_by=lambda token: (token.content.lower(), token.content == "É!"),
)


@examples(150)
@example("Lowercase", [AddedToken("a!", normalized=True, special=False)], "A!")  # only its normalized form is the token
@example("Lowercase", [AddedToken("!a", normalized=True), AddedToken("a!", normalized=False)], "!a!")
@example(None, [AddedToken("a!", normalized=False, special=True, single_word=True)], "<a! a!a!")  # without always ones
@example(None, [AddedToken("a!", normalized=False, special=True, lstrip=True, rstrip=True)], "!a  a!  ")
@given(st.sampled_from([None, "NFC", "Lowercase"]), tokens, st.lists(parts, max_size=12).map("".join))
def test_any_added_tokens_give_their_ids(normalizer, tokens, text):
    """Special or not, of raw and of normalized text, one within another."""
    assume(not any(one.rstrip for one in tokens) or "  " not in [one.content for one in tokens])
    theirs, ours = both(normalizer, tokens)
    assert ours.encode(text).tolist() == theirs.encode(text, add_special_tokens=False).ids
    theirs.encode_special_tokens = False
    assert ours.encode(text, True).tolist() == theirs.encode(text, add_special_tokens=False).ids
    assert ours.decode(ours.encode(text, True)) == ours.normalized(text.encode(), with_special=True)


def test_tokens_that_normalize_to_one_are_refused():
    with pytest.raises(FormatError, match=r"'X!' is looked for in normalized text, and becomes 'x!'"):
        both("Lowercase", [AddedToken("x!"), AddedToken("X!")])


def test_what_is_around_them_is_not_looked_at_in_names_of_bytes():
    content = json.loads(learned(None)) | {"normalizer": {"type": "ByteLevel"}}
    flags = {
        "id": len(content["model"]["vocab"]),
        "content": "<x>",
        "special": True,
        "lstrip": True,
        "rstrip": False,
        "single_word": False,
    }
    for normalized in (True, False):
        content["added_tokens"] = [flags | {"normalized": normalized}]
        content["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "b"}, "behavior": "Isolated", "invert": False}
        data = json.dumps(content).encode()
        if normalized:
            with pytest.raises(
                FormatError, match="'<x>' is looked for behind the normalizer ByteLevel, with what is ar"
            ):
                read_tokenizer_json(data, "t.json")
        else:
            theirs = tokenizers.Tokenizer.from_str(data.decode())
            ours = Tokenizer(read_tokenizer_json(data, "t.json"))
            assert ours.encode("a  <x> é", True).tolist() == theirs.encode("a  <x> é").ids


def test_draws_leave_them_whole():
    _, ours = both(*KINDS["phi"])
    always = {*ours.added.values()} - {*ours.specials.values()}
    for dropout in (0.0, 1.0):
        ids = ours.encode(CODE, dropout=dropout, seed=3).tolist()
        assert [id for id in ids if id in always] == [id for id in ours.encode(CODE).tolist() if id in always] != []
    one = make_texts_from_strings([CODE])
    drawn = ours.draw_texts(one, Randomness(dropout=0.5), np.array([5], np.uint64))
    assert ours.decode(drawn.ids) == CODE.encode()


def test_files_that_cannot_say_it_are_refused():
    _, ours = both(*KINDS["phi"])
    for name in ("tiktoken", "gpt2"):
        with pytest.raises(FormatError, match="is not special, so that text always becomes it"):
            EXPORTS[name].files(ours.spec)
    lengths = np.load(io.BytesIO(EXPORTS["token_bytes"].files(ours.spec)[0][1]))
    assert lengths[ours.added["\t\t\t"]] == 3
    assert lengths[ours.added["<|endoftext|>"]] == 0


def test_pieces_are_cut_around_them():
    """As Gemma has them, and of text that a normalizer has changed."""
    content = make_tokenizer_json("bpe", train("bpe", "bytes"), [], METASPACE | {"prepend_scheme": "never"})
    own = {"single_word": False, "lstrip": False, "rstrip": False}
    content["added_tokens"].append({"id": 9000, "content": "<mask>", "special": False, "normalized": True, **own})
    content["model"]["vocab"]["<mask>"] = 9000
    for normalizer in (None, {"type": "Prepend", "prepend": "_"}):
        content["normalizer"] = normalizer
        theirs = tokenizers.Tokenizer.from_str(json.dumps(content))
        ours = read_tokenizer_json(json.dumps(content).encode(), "t")
        theirs.encode_special_tokens = True
        for text in ("a <mask> b<s>", "<mask>", " <mask", "a<mask><mask>b", "a _<mask>"):
            assert Tokenizer(ours).encode(text).tolist() == theirs.encode(text, add_special_tokens=False).ids


@given(
    st.lists(st.text("ab(é", min_size=1, max_size=5), min_size=1, max_size=8, unique=True), st.text("ab(é", max_size=30)
)
@examples(200)
def test_the_longest_of_the_leftmost_is_found(texts, text):
    """By a trie, as by all texts one after the other, the longest first."""
    longest_first = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    spans = find_special(make_texts_from_strings([text]), {one: id for id, one in enumerate(texts)})
    data = text.encode()
    assert [data[span.start : span.end].decode() for span in spans.rows()] == re.findall(longest_first, text)
    assert [texts[id] for id in spans.ids] == re.findall(longest_first, text)


@given(
    st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=8, unique=True),
    st.lists(st.binary(max_size=12), max_size=4),
    st.randoms(use_true_random=False),
)
@examples(200)
def test_the_kernel_finds_strings_as_the_reference_does(strings, texts, chance):
    """In any bytes, also where data goes on after a text."""
    texts = [b"".join(chance.choices([*strings, *(one[:-1] for one in strings), text], k=6)) for text in texts]
    finder, batch = kernel.StringFinder(make_texts_from_strings(strings)), make_texts_from_strings(texts)
    for part in (batch, Texts(batch.data, batch.offsets[:-1] if texts else batch.offsets)):
        found = [column.tolist() for column in finder.find(part)]
        with kernel.force("reference"):
            assert [column.tolist() for column in finder.find(part)] == found
        number_of = {string: number for number, string in enumerate(strings)}
        longest_first = re.compile(b"|".join(map(re.escape, sorted(strings, key=len, reverse=True))), re.DOTALL)
        matches = [longest_first.findall(part.text(i)) for i in range(part.num_texts)]
        assert found[2] == [number_of[match] for row in matches for match in row]
        assert found[3] == [i for i, row in enumerate(matches) for _ in row]


@pytest.mark.parametrize("name", [kernel.list_available()[0], "reference"])
@pytest.mark.parametrize(("strings", "number"), [(["a", ""], 1), (["a", "b", "a", ""], 2)])
def test_a_finder_refuses_strings_that_are_empty_or_equal(name, strings, number):
    with kernel.force(name), pytest.raises(ValueError, match=f"string {number}: is empty, or an earlier one is equal"):
        kernel.StringFinder(make_texts_from_strings(strings)).find(make_texts_from_strings(["a"]))


def test_many_texts_that_begin_alike_are_found():
    texts = ["a" * size for size in range(1, 300)]
    (span,) = find_special(make_texts_from_strings(["b" + "a" * 299]), {one: id for id, one in enumerate(texts)}).rows()
    assert (span.start, span.end, span.id) == (1, 300, 298)
