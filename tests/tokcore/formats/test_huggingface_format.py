"""tokenizer.json: read, written, refused. That it gives the same ids is tested in tests/conformance."""

from __future__ import annotations

import copy
import json
from collections import namedtuple

import pytest
import regex
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.json_changes import change_json
from support.published_shapes import PRE_TOKENIZERS
from support.vocabularies import learned_models, merges_models, spec_of_merges
from tokenizers import Tokenizer as HuggingFaceTokenizer

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.huggingface import (
    expand_possessive_intervals,
    format_indented,
    read_tokenizer_json,
    write_tokenizer_json,
)
from tokcore.models.byte import ByteModel
from tokcore.text.normalize import Normalizer
from tokcore.text.patterns import PATTERNS
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, TokenizerSpec

Merge = namedtuple("Merge", "left right count")

SPEC = spec_of_merges(
    [Merge(b"a", b"b", 5), Merge(b" ", b"ab", 3)],
    {"name": "llama3"},
    ["nfc"],
    [SpecialToken("<|end|>", None, "document_end"), SpecialToken("<|far|>", 400)],
)


def changed(**changes) -> bytes:
    """The tokenizer.json of SPEC with parts replaced (dotted names), or removed where the value is ..."""
    content = json.loads(write_tokenizer_json(SPEC))
    change_json(content, changes)
    return json.dumps(content).encode()


@given(st.one_of(learned_models(), merges_models()), st.sampled_from(["gpt2", "o200k", "qwen2", "cl100k"]))
@examples(60)
def test_what_is_written_is_read_back(model, pattern):
    spec = TokenizerSpec(("nfkc", "lowercase"), {"name": pattern}, model, (SpecialToken("<|é|>", 2**31 - 1),))
    again = read_tokenizer_json(write_tokenizer_json(spec), "x")
    assert again.normalizer == spec.normalizer
    assert again.special == spec.special
    assert again.model.tokens == model.tokens
    assert again.model.ids.tolist() == model.ids.tolist()
    assert again.model.as_bpe().merge_pairs().tolist() == model.merges.tolist()
    assert again.model.as_bpe().whole == model.whole
    ours, theirs = Tokenizer(again)._shared.pretokenizer, Tokenizer(spec)._shared.pretokenizer
    assert ours.native_name == theirs.native_name
    # A second time, nothing changes.
    assert read_tokenizer_json(write_tokenizer_json(again), "x") == again


def spelled(spec) -> dict:
    return json.loads(write_tokenizer_json(spec))["pre_tokenizer"]


def test_gpt2_is_spelled_as_its_own_file_has_it():
    spec = spec_of_merges([Merge(b"a", b"b", 5)], {"name": "gpt2"}, [], [])
    assert spelled(spec) == {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    earlier = json.loads(write_tokenizer_json(spec, as_before=True))["pre_tokenizer"]
    assert earlier["pretokenizers"][0]["pattern"] == {"Regex": PATTERNS["gpt2"]}


ENDS_LINES = [(b"\n", b"\n"), (b" ", b" "), (b"  ", b"\n"), (b"  \n", b"\n")]


@pytest.mark.parametrize(
    ("merges", "is_spelled"),
    [
        (ENDS_LINES, True),
        ([*ENDS_LINES, (b"\n", b"  \n")], True),  # white space that ends with a line break
        ([*ENDS_LINES, (b"\n", b"  ")], False),
        ([*ENDS_LINES, (b"\n", b"\xc2")], False),  # the first byte of U+00A0
    ],
)
@given(text=st.text(" \n\t\r\xa0a", max_size=9))
def test_cl100k_is_spelled_as_its_readers_know_it_where_ids_are_equal(merges, is_spelled, text):
    spec = spec_of_merges([Merge(*merge, 1) for merge in merges], {"name": "cl100k"}, [], [])
    text_of_split = spelled(spec)["pretokenizers"][0]["pattern"]["Regex"]
    assert (text_of_split == PATTERNS["llama3"]) == is_spelled
    assert read_tokenizer_json(write_tokenizer_json(spec), "x") == spec
    theirs = HuggingFaceTokenizer.from_str(write_tokenizer_json(spec).decode())
    assert Tokenizer(spec).encode(text).tolist() == theirs.encode(text, add_special_tokens=False).ids


def test_layout():
    content = json.loads(write_tokenizer_json(SPEC))
    assert list(content) == [
        "version",
        "truncation",
        "padding",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    ]
    assert content["model"]["merges"] == [["a", "b"], ["Ġ", "ab"]]
    assert content["model"]["vocab"]["Ġab"] == 257
    assert content["model"]["vocab"]["<|far|>"] == 400
    assert content["model"]["continuing_subword_prefix"] is None
    assert [token["id"] for token in content["added_tokens"]] == [258, 400]


def test_no_exported_pattern_has_a_possessive_interval():
    for name, pattern in PATTERNS.items():
        content = json.loads(write_tokenizer_json(spec_of_merges([], {"name": name}, [], [])))
        if name == "gpt2":
            continue  # has a step of its own
        written = content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        assert not regex.search(r"\{[\d,]+\}\+", written)
        expected = PATTERNS["llama3"] if name == "cl100k" else pattern.replace("{1,3}+", "{1,3}")
        assert written == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\p{N}{1,3}+", r"(?>\p{N}{1,3})"),
        (r"a{2}+b", r"(?>a{2})b"),
        (r"[a-z{}+]{2,}+", r"(?>[a-z{}+]{2,})"),
        (r"[]\]x]{2,}+", r"(?>[]\]x]{2,})"),
        (r"(?:ab|(c)){,4}+d", r"(?>(?:ab|(c)){,4})d"),
        (r"x|(?i:a{1,2}+)+", r"x|(?i:(?>a{1,2}))+"),
        (r"\{1,3\}+", r"\{1,3\}+"),
        (r"a{1,3}b++c*+d?+", r"a{1,3}b++c*+d?+"),
        (r"(?<!x)a{1,2}+(?=y)", r"(?<!x)(?>a{1,2})(?=y)"),
        (r"(?P<n>a){2}+", r"(?>(?P<n>a){2})"),
        (r"é{2}+", r"(?>é{2})"),
    ],
)
def test_possessive_intervals_are_rewritten(pattern, expected):
    assert expand_possessive_intervals(pattern) == expected
    text = "aabcccab{1,3}}+ddéé]]xx1234567 aab aby"
    assert regex.findall(pattern, text) == regex.findall(expected, text)


def test_gpt2_style_file():
    """ByteLevel with its own regex, merges as "a b", special tokens in the vocabulary."""
    spec = read_tokenizer_json(
        changed(
            normalizer=None,
            pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            model__merges=["a b", "Ġ ab"],
        ),
        "x",
    )
    assert spec.pattern == {"name": "gpt2"}
    assert Tokenizer(spec).encode(" ab'sab").tolist() == [257, 6, 82, 256]


def test_a_split_that_keeps_only_its_matches():
    """Older conversions of cl100k do that. It is the same if the matches cover the whole text."""
    split = {"type": "Split", "pattern": {"Regex": PATTERNS["llama3"]}, "behavior": "Removed", "invert": True}
    spec = read_tokenizer_json(changed(pre_tokenizer__pretokenizers__0=split), "x")
    assert Tokenizer(spec)._shared.pretokenizer.native_name in ("llama3", "cl100k-2023")
    removes = read_tokenizer_json(changed(pre_tokenizer__pretokenizers__0={**split, "pattern": {"Regex": "a+"}}), "x")
    assert not removes.keeps_text
    assert Tokenizer(removes).decode(Tokenizer(removes).encode("xaay")) == b"aa"


def test_a_users_pattern_is_kept():
    split = {"type": "Split", "pattern": {"String": "a+b"}, "behavior": "Isolated", "invert": False}
    spec = read_tokenizer_json(changed(pre_tokenizer__pretokenizers__0=split), "x")
    assert Tokenizer(spec).encode_texts is not None
    assert regex.findall(spec.pattern["regex"], "aab a+b") == ["a+b"]


WORDS = {"[UNK]": 0, "the": 1, "don": 2, "'": 3, "t": 4, "stop": 5, "-": 6, "##p": 7, "sto": 8, "don't": 9, "é": 10}


@pytest.mark.parametrize("kind", ["WordLevel", "WordPiece"])
@pytest.mark.parametrize("steps", ["quick tour", "words", "gpt", "digits"])
def test_words_after_any_steps(kind, steps):
    """The pre-tokenizers of tutorials: Whitespace, WhitespaceSplit and more."""
    listed = PRE_TOKENIZERS.get(steps) or [{"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True}]
    pre_tokenizer = {"type": "Sequence", "pretokenizers": listed} if isinstance(listed, list) else listed
    model = {"type": kind, "vocab": WORDS, "unk_token": "[UNK]"}
    if kind == "WordPiece":
        model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    added = {"id": 0, "content": "[UNK]", "special": True, "normalized": False}
    added |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    parts |= {"version": "1.0", "added_tokens": [added], "pre_tokenizer": pre_tokenizer, "model": model}
    data = json.dumps(parts)
    spec = read_tokenizer_json(data.encode(), "x")
    exported = write_tokenizer_json(spec)
    assert read_tokenizer_json(exported, "x") == spec
    for text in ("the  don't stop", "\u00a0é the-é \n", "", " ", "stopp 1the9 [UNK]", "the\u2028stopp"):
        expected = HuggingFaceTokenizer.from_str(data).encode(text.replace("[UNK]", "x")).ids
        assert Tokenizer(spec).encode(text.replace("[UNK]", "x")).tolist() == expected
        assert HuggingFaceTokenizer.from_str(exported.decode()).encode(text.replace("[UNK]", "x")).ids == expected


# ------------------------------------------------------------------------------------------- our exports, read again


@given(st.one_of(learned_models(), st.just(ByteModel())), st.sampled_from(sorted(PATTERNS)))
@examples(40)
def test_an_own_export_has_the_same_fingerprint(model, pattern):
    special = (SpecialToken("<e>", 900, "document_end"), SpecialToken("<b>", 901, "document_begin"))
    spec = TokenizerSpec(("nfc", "strip_accents"), {"name": pattern}, model, (*special, SpecialToken("<x>", 902)))
    again = read_tokenizer_json(write_tokenizer_json(spec), "x")
    assert again.fingerprint == spec.fingerprint
    assert again.special == spec.special


def test_a_users_own_pattern_is_kept_as_it_was_written():
    spec = spec_of_merges([], {"regex": r"\p{N}{1,3}+|\P{N}"}, [], [])
    data = write_tokenizer_json(spec)
    assert read_tokenizer_json(data, "x").fingerprint == spec.fingerprint
    edited = data.replace(rb"(?>\\p{N}{1,3})", rb"\\p{N}")
    assert edited != data
    assert read_tokenizer_json(edited, "x").pattern == {"regex": r"\p{N}|\P{N}"}, "what the file splits by counts"


def test_a_foreign_numbering_is_no_learned_model():
    models = [read_tokenizer_json(changed(model__ignore_merges=flag), "x").model.kind for flag in (False, True)]
    assert models == ["learned", "merges"]
    swapped = {**json.loads(write_tokenizer_json(SPEC))["model"]["vocab"], "!": 1, '"': 0}
    assert read_tokenizer_json(changed(model__vocab=swapped), "x").model.kind == "merges"


# ------------------------------------------------------------------------------------------------- what is put around


def template(*single: str) -> dict:
    ids = {"<|end|>": 258, "<|far|>": 400, "<|no|>": 7}
    return {
        "type": "TemplateProcessing",
        "single": [
            {"Sequence": {"id": "A", "type_id": 0}} if one == "A" else {"SpecialToken": {"id": one}} for one in single
        ],
        "pair": [],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]} for text, id in ids.items()},
    }


BERT = {"type": "RobertaProcessing", "cls": ["<|far|>", 400], "sep": ["<|end|>", 258]}


@pytest.mark.parametrize(
    ("processor", "begin", "end"),
    [
        (None, (), ()),
        ({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, (), ()),
        (template("A", "<|end|>"), (), ("<|end|>",)),
        (template("<|end|>", "<|far|>", "A"), ("<|end|>", "<|far|>"), ()),
        (template("<|far|>", "A", "<|end|>"), ("<|far|>",), ("<|end|>",)),
        ({"type": "Sequence", "processors": [{"type": "ByteLevel"}, template("<|far|>", "A")]}, ("<|far|>",), ()),
        (BERT, ("<|far|>",), ("<|end|>",)),
    ],
)
def test_what_is_put_around_a_text_becomes_roles(processor, begin, end):
    spec = read_tokenizer_json(changed(decoder=None, post_processor=processor), "x")
    assert (spec.texts_of("document_begin"), spec.texts_of("document_end")) == (begin, end)
    again = TokenizerSpec.from_json_bytes(spec.to_json_bytes(), "x")
    content = json.loads(write_tokenizer_json(again))
    assert (content["post_processor"], content["decoder"]) == (processor, None)
    assert read_tokenizer_json(json.dumps(content).encode(), "x") == spec


@pytest.mark.parametrize("single", [("A", "<|far|>", "<|end|>"), ("<|end|>", "A", "<|end|>")])
def test_what_roles_cannot_say_is_kept_and_said(single):
    """XLNet puts the separator, whose id is higher, before the classifier."""
    with pytest.warns(UserWarning, match=r"after a text, and roles can only say .* set encode.prepend"):
        spec = read_tokenizer_json(changed(decoder=None, post_processor=template(*single)), "x")
    assert {token.role for token in spec.special} == {"plain"}
    assert json.loads(write_tokenizer_json(spec))["post_processor"] == template(*single)


DECODERS = {
    "gpt2": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
    "words": {"type": "WordPiece", "prefix": "##", "cleanup": False},
    "clip": {"type": "BPEDecoder", "suffix": "</w>"},
    "pieces": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": False},
    "speech": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    "llama": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "Ġ"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_is_written_back_as_it_came(kind):
    data = changed(decoder=DECODERS[kind])
    spec = TokenizerSpec.from_json_bytes(read_tokenizer_json(data, "x").to_json_bytes(), "x")
    exported = write_tokenizer_json(spec)
    assert {**json.loads(exported)["decoder"], "tokcore": 0} == DECODERS[kind] | {"tokcore": 0}
    assert read_tokenizer_json(exported, "x").to_json_bytes() == spec.to_json_bytes()
    ids = Tokenizer(spec).encode(" ab'sab").tolist()
    theirs, again = (HuggingFaceTokenizer.from_str(one.decode()) for one in (data, exported))
    assert again.decode(ids) == theirs.decode(ids)


WHITESPACE = {"type": "Whitespace"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model__type": "Unigram"}, "model.vocab is dict: expected a list"),
        ({"model": ...}, "no model"),
        ({"normalizer": {"type": "Prepend", "prepend": 5}}, "normalizer Prepend has prepend = 5: expected a str"),
        ({"normalizer": {"type": "Other"}}, "normalizer Other is not supported: only NFC.*Replace"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": "x"}}, "expected a Regex or a String"),
        ({"normalizer": 3}, "normalizer is 3"),
        ({"pre_tokenizer__pretokenizers": [BYTE_LEVEL, BYTE_LEVEL]}, "ByteLevel after ByteLevel"),
        ({"pre_tokenizer": {**BYTE_LEVEL, "use_regex": 5}}, "use_regex = 5: expected true or false"),
        ({"pre_tokenizer__pretokenizers__0__behavior": "Shuffled"}, "behavior = 'Shuffled': expected Isolated or"),
        ({"pre_tokenizer__pretokenizers__0__pattern": {"Regex": r"\p{N}{1,3}+"}}, "possessive interval"),
        ({"pre_tokenizer__pretokenizers__0__pattern": {"Regex": r"("}}, "regular expression"),
        ({"pre_tokenizer__pretokenizers__0__pattern": {"Regex": r"a\b"}}, "Unicode tables"),
        ({"pre_tokenizer__pretokenizers__0__pattern": {}}, "Regex or String"),
        ({"added_tokens__0__id": 3}, "already an ordinary token"),
        ({"added_tokens__0__id": -3}, "-3"),
        ({"model__vocab__xyz": 3}, "given twice"),
        ({"model__merges__0": ["a", "nope"]}, "merge 0"),
        ({"model__merges__0": ["a", "c"]}, "makes no token"),
        ({"model__merges__0": "a b c"}, "merge 0"),
        ({"post_processor": {"type": "Other"}}, "post_processor Other"),
        ({"decoder": 3}, "decoder is 3: expected an object with a type"),
        ({"post_processor": template("A", "<|no|>")}, "the id 7 around a text, which is no added token"),
        ({"post_processor": template("A", "A")}, "expected one text"),
        ({"post_processor": {"type": "TemplateProcessing"}}, "not of the type"),
        ({"decoder__tokcore__roles": {"<|end|>": "king"}}, "'king' is not one of"),
        ({"model__merges__0": ["a", "<|end|>"]}, "expected two ordinary tokens"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(changes, expected):
    with pytest.raises(FormatError, match=expected) as raised:
        read_tokenizer_json(changed(**changes), "/some/tokenizer.json")
    assert str(raised.value).startswith("/some/tokenizer.json: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"model__continuing_subword_prefix": "##", "model__merges": []},
        {"model__end_of_word_suffix": "</w>", "model__merges": []},
        {"pre_tokenizer": None},
        {"pre_tokenizer": WHITESPACE},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}},
        {"pre_tokenizer__pretokenizers": []},
        {"pre_tokenizer": WHITESPACE, "normalizer": {"type": "ByteLevel"}},
        {"model__vocab__▁x": 500},
        {"model__vocab__!": ...},
        {"normalizer": {"type": "StripAccents"}},
        {"pre_tokenizer__pretokenizers__0__pattern": {"Regex": r"\w+"}},
        {"pre_tokenizer__pretokenizers__0__pattern": {"Regex": r"[\p{L}&&[^\p{Han}]]+|\p{Han}"}},
    ],
)
def test_other_shapes_give_their_ids_too(changes):
    data = changed(decoder=None, **changes)
    theirs, ours = tokenizers.Tokenizer.from_str(data.decode()), Tokenizer(read_tokenizer_json(data, "x"))
    again = tokenizers.Tokenizer.from_str(write_tokenizer_json(ours.spec).decode())
    for text in ("low lower, naïve  e\u0301漢字 abc\n", "", " ▁x ", "the <|end|>"):
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, "all").tolist() == again.encode(text, add_special_tokens=False).ids == expected
    assert read_tokenizer_json(write_tokenizer_json(ours.spec), "again") == ours.spec


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b'{"model": 3}'])
def test_other_files_are_refused(data):
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        read_tokenizer_json(data, "tokenizer.json")


@pytest.mark.parametrize("step", ["strip_accents", "strip_controls", "strip_invisible"])
def test_what_a_step_removes_is_removed_by_them_too(step):
    """Over all code points, 4,096 at a time."""
    spec = spec_of_merges([], {"name": "gpt2"}, [step], [])
    data = write_tokenizer_json(spec)
    assert read_tokenizer_json(data, "tokenizer.json").normalizer == (step,)
    theirs = HuggingFaceTokenizer.from_str(data.decode()).normalizer
    ours = Normalizer([step])
    for start in range(0, 0x110000, 4096):
        row = "".join(chr(c) for c in range(start, start + 4096) if not 0xD800 <= c < 0xE000)
        assert theirs.normalize_str(row) == ours.apply_str(row)


def test_a_special_token_with_the_name_of_another_is_refused():
    spec = copy.copy(SPEC)
    clash = TokenizerSpec((), {"name": "gpt2"}, spec.model, (SpecialToken("Ġab", 900),))
    with pytest.raises(FormatError, match="special token 'Ġab'"):
        write_tokenizer_json(clash)


def test_indentation_is_that_of_the_standard_library():
    content = {"a": [], "b": {}, "c": [1, ["\t\n  é\x7f", [[[[[["deep"]]]]]]]], "d": None, "": {"x": {"y": [{}]}}}
    assert format_indented(content) == json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"
