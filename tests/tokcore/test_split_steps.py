"""Pre-tokenizers that are lists of steps, and the automata that they run on: equal to tokenizers, and to `regex`."""

from __future__ import annotations

import functools
import itertools
import json
import pickle
import time

import numpy as np
import pytest
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.published_shapes import PRE_TOKENIZERS, split

from tokcore import kernel
from tokcore.count.counting import count_pretokens
from tokcore.errors import ConfigError
from tokcore.kernel import Counter
from tokcore.text.byte_alphabet import to_printable
from tokcore.text.masking import add_texts
from tokcore.text.patterns import PATTERNS
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_automaton import make_automaton, make_chained
from tokcore.text.regex_spelling import spell
from tokcore.text.regex_split import find_matches_with_regex, split_with_regex
from tokcore.text.regex_tree import can_be_empty, parse
from tokcore.text.split_steps import BEHAVIORS, STEPS, Cut, StepList
from tokcore.text.texts import make_texts_from_strings

# Letters, digits and punctuation of several scripts and kinds, white space that is rare, marks, invisible characters.
CHARACTERS = "ab ZsſtK'._-,/()5²٣½९éß̃Ⓐ漢字かカー한กำ🙂👩🏽\u200d\u200b\u00ad\u0345\n\r\t \u00a0\u2028\u3000\u0085\ufeff"
text_of = st.lists(st.sampled_from([*CHARACTERS, "'s", "'LL", "  ", "\r\n", "123", "1234567"]), max_size=30).map(
    "".join
)


@functools.lru_cache(maxsize=256)
def theirs_of(steps: str) -> tokenizers.Tokenizer:
    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    parts = {"version": "1.0", "added_tokens": [], "model": model, "pre_tokenizer": json.loads(steps)}
    nothing = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    return tokenizers.Tokenizer.from_str(json.dumps(parts | nothing))


def split_by_both(steps: dict, text: str) -> tuple[list[str], list[str]]:
    """Pieces by tokenizers and by us, as their files spell them."""
    found = theirs_of(json.dumps(steps)).pre_tokenizer.pre_tokenize_str(text)
    theirs = [piece for piece, _ in found if piece]  # an empty text is no piece in Tokenizer.encode
    listed = StepList(steps)
    texts, ends, _ = listed.apply(make_texts_from_strings([text]))
    data, bounds = texts.data.tobytes(), [int(texts.offsets[0]), *ends.tolist()]
    pieces = [data[start:end] for start, end in itertools.pairwise(bounds)]
    assert not listed.keeps_text or b"".join(pieces) == text.encode()
    return theirs, [to_printable(piece) if listed.is_bytewise else piece.decode() for piece in pieces]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
@given(st.lists(text_of, min_size=1, max_size=6))
@examples(15)
def test_published_lists_split_as_in_tokenizers(name, texts):
    for text in texts:
        theirs, ours = split_by_both(PRE_TOKENIZERS[name], text)
        assert ours == theirs


def test_published_lists_run_in_the_kernel():
    for steps in PRE_TOKENIZERS.values():
        for operation in StepList(steps)._operations:
            assert not isinstance(operation, Cut) or operation.automaton is not None


def test_known_lists_run_as_patterns():
    known = PRE_TOKENIZERS["deepseek-v3"]
    assert StepList(known).native_name == Pretokenizer("steps", StepList(known).text).native_name == "deepseek"
    assert StepList([*known["pretokenizers"][:3]]).native_name is None
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    assert StepList(byte_level).native_name == "gpt2"
    assert StepList(byte_level | {"add_prefix_space": True}).native_name is None


behaviors = st.sampled_from(["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
# All can be told to both; the last looks back, so that the `regex` package has it.
expressions = st.sampled_from(
    [r"\s+", r"\p{L}+", r"\p{N}{1,3}", r"\s+(?!\S)", "[ab]|'s", r"(?:a|ab)(?=\p{L})", r"[^\s\p{L}]", r"a.?b|\n+$"]
)
steps_of = st.one_of(
    st.builds(split, expressions, behaviors, st.booleans()),
    st.builds(
        lambda text, behavior: split(text, behavior, kind="String"), st.sampled_from(["a", " ", "s."]), behaviors
    ),
    st.builds(lambda alone: {"type": "Digits", "individual_digits": alone}, st.booleans()),
    st.builds(lambda behavior: {"type": "Punctuation", "behavior": behavior}, behaviors),
    st.sampled_from([{"type": kind} for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")]),
    st.builds(lambda text: {"type": "CharDelimiterSplit", "delimiter": text}, st.sampled_from(["a", " ", "é", "漢"])),
    st.builds(lambda length: {"type": "FixedLength", "length": length}, st.integers(1, 4)),
)
byte_level = st.builds(
    lambda prefix, splits: {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": splits},
    st.booleans(),
    st.booleans(),
)


@given(st.lists(steps_of, max_size=2), byte_level | st.none(), st.lists(steps_of, max_size=2), text_of)
@examples(300)
def test_any_list_splits_as_in_tokenizers(before, middle, after, text):
    listed = [*before, *([middle] if middle else []), *after]
    theirs, ours = split_by_both({"type": "Sequence", "pretokenizers": listed}, text)
    assert ours == theirs


@given(st.lists(text_of, max_size=5), st.sampled_from([*PRE_TOKENIZERS]))
@examples(60)
def test_texts_of_a_batch_are_split_alone(texts, name):
    batch, ends, firsts = StepList(PRE_TOKENIZERS[name]).apply(make_texts_from_strings(texts))
    assert batch.num_texts == len(texts)
    for i, text in enumerate(texts):
        alone, own, _ = StepList(PRE_TOKENIZERS[name]).apply(make_texts_from_strings([text]))
        assert batch.text(i) == alone.text(0)
        assert (ends[firsts[i] : firsts[i + 1]] - batch.offsets[i]).tolist() == (own - alone.offsets[0]).tolist()


@pytest.mark.parametrize("behavior", BEHAVIORS)
@pytest.mark.parametrize("invert", [False, True])
def test_no_piece_is_of_two_texts(behavior, invert):
    listed = StepList(split("[ .]", behavior, invert))
    texts = ["a", " b", " ", ".", "c d", "", "e ", "f"]
    batch, ends, firsts = listed.apply(make_texts_from_strings(texts))
    alone = [listed.apply(make_texts_from_strings([text])) for text in texts]
    assert [batch.text(i) for i in range(len(texts))] == [own[0].text(0) for own in alone]
    assert np.diff(firsts).tolist() == [len(own[1]) for own in alone]
    assert np.diff(ends, prepend=0).tolist() == [size for own in alone for size in np.diff(own[1], prepend=0).tolist()]


def test_what_looks_back_is_exact_and_says_once_that_it_is_slow():
    steps = split(r"(?<=a)b+", "MergedWithPrevious")
    with pytest.warns(UserWarning, match="many times slower"):
        theirs, ours = split_by_both(steps, "abbb bab")
    assert ours == theirs == ["abbb", " ba" + "b"]
    assert split_by_both(steps, "xab")[1] == ["xab"]  # without a word


# ----------------------------------------------------------------------------------------------------------- automata

atoms = st.sampled_from(
    [
        "a",
        "b",
        r"\s",
        r"\S",
        r"\p{L}",
        r"[^a\s]",
        ".",
        r"\n",
        "é",
        r"[\p{L}\d]",
        "(?i:s)",
        r"(?!\S)",
        r"(?=[ab])",
        "(?!a)",
    ]
)
quantifiers = st.sampled_from(
    ["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "+?", "*?", "{1,3}?", "++", "?+", "*+", "{1,2}+"]
)
regexes = st.recursive(
    st.builds(lambda atom, times: atom + ("" if atom.startswith("(?!") or "=" in atom else times), atoms, quantifiers),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds(lambda part, times: f"(?:{part}){times}", inner, st.sampled_from(["", "*", "+", "?", "{1,2}", "+?"])),
    ),
    max_leaves=6,
)


def parse_or_skip(pattern: str):
    try:
        tree = parse(pattern, "regex")
    except ConfigError:
        assume(False)
    assume(not can_be_empty(tree))
    return tree


@given(regexes, st.lists(text_of | st.binary(max_size=12), min_size=1, max_size=4))
@examples(400)
def test_automata_find_what_the_regex_package_finds(pattern, texts):
    automaton = make_automaton(parse_or_skip(pattern))
    assume(automaton is not None)
    batch = make_texts_from_strings(texts)
    expected = [array.tolist() for array in find_matches_with_regex(pattern, batch)]
    assert [array.tolist() for array in automaton.split(batch)] == expected
    with kernel.force("reference"):
        assert [array.tolist() for array in automaton.split(batch)] == expected


@pytest.mark.parametrize("pattern", ["a++[ab]", "[ab]{1,3}+a", "a?+ab", "a{2}+b|a", r"\s++(?!\S)|\s", "(?:a++|b)*+b"])
def test_possessive_repetitions_give_nothing_back(pattern):
    batch = make_texts_from_strings(["aaab", "abab", "ab", "aabaaba", "  a  ", "bbab", "ababa" * 3])
    automaton = make_automaton(parse(pattern, "regex"))
    assert (automaton is None) == pattern.startswith("(")  # a possessive group may be anything
    expected = [array.tolist() for array in find_matches_with_regex(pattern, batch)]
    assert automaton is None or [array.tolist() for array in automaton.split(batch)] == expected


@given(regexes, st.binary(max_size=20))
@examples(100)
def test_characters_that_are_bytes(pattern, data):
    tree = parse_or_skip(pattern)
    automaton = make_automaton(tree)
    assume(automaton is not None)
    batch = make_texts_from_strings([data])
    expected = [array.tolist() for array in find_matches_with_regex(spell(tree), batch, bytewise=True)]
    assert [array.tolist() for array in automaton.split(batch, bytewise=True)] == expected
    with kernel.force("reference"):
        assert [array.tolist() for array in automaton.split(batch, bytewise=True)] == expected


runs = st.sampled_from(
    ["[ab]", "[ab]+", r"\p{N}{1,3}", r"\p{N}+", r"\s", "[b5.]+", r"[^a\s]+", r"\p{L}{1,2}", "[a5]{1,3}"]
)


@given(
    st.lists(runs, min_size=1, max_size=3),
    regexes,
    st.lists(text_of | st.binary(max_size=12), max_size=4),
    st.booleans(),
)
@examples(400)
def test_one_automaton_cuts_as_several_one_after_the_other(first, last, texts, bytewise):
    trees = [*(parse(run, "regex") for run in first), parse_or_skip(last)]
    chained, each = make_chained(trees), [make_automaton(tree) for tree in trees]
    assume(chained is not None)
    batch = make_texts_from_strings(texts)
    expected = [array.tolist() for array in kernel.split_by_chain([(one, bytewise) for one in each], batch)]
    assert [array.tolist() for array in kernel.split_by_chain([(chained, bytewise)], batch)] == expected
    with kernel.force("reference"):
        assert [array.tolist() for array in kernel.split_by_chain([(chained, bytewise)], batch)] == expected


@pytest.mark.parametrize(("name", "num"), [("deepseek-v3", 1), ("deepseek-coder", 3), ("falcon", 2)])
def test_published_lists_take_few_automata(name, num):
    (chain,) = StepList(PRE_TOKENIZERS[name])._chained
    assert len(chain.automata) == num
    (chain,) = StepList(PRE_TOKENIZERS["starcoder, smollm, granite, command-r"])._chained
    assert len(chain.automata) == 1


def test_what_is_split_off_must_stay_whole():
    for first, last, is_one in ((r"\p{N}{1,3}", "[a-z]+", True), (r"\p{N}{1,3}", "1", False), (r"\p{N}", "1", True)):
        assert (make_chained([parse(first, "regex"), parse(last, "regex")]) is not None) == is_one


def test_a_users_pattern_runs_in_the_kernel(monkeypatch):
    batch = make_texts_from_strings(["don't  stop 2024", "x"])
    pattern = PATTERNS["gpt2"].replace(r"\p{N}+", r"\p{N}{1,3}")
    expected = [array.tolist() for array in split_with_regex(pattern, batch)]
    monkeypatch.setattr("tokcore.text.pretokenizer.split_with_regex", None)
    assert [array.tolist() for array in Pretokenizer.of(pattern).split(batch)] == expected


@pytest.mark.parametrize("pattern", [r"(?<=a)b", r"a(?=bc)", r"(?>a|ab)c", r"\Aa", r"a$", "(?:a{300}){300}"])
def test_what_an_automaton_cannot_do_is_left_to_an_engine(pattern):
    assert make_automaton(parse(pattern, "regex")) is None


def test_hostile_expressions_and_texts_take_bounded_time():
    started = time.process_time()
    assert make_automaton(parse("(?:a|b)*a" + "(?:a|b)" * 40, "regex")) is None  # 2^40 states
    # Each attempt reads to the end and fails: quadratic without a memory of that.
    for pattern, text in (
        (r"\s+(?![x\s])", " " * 400_000 + "x"),
        ("a|a+b", "a" * 400_000),
        ("(?:ab)+c|a", "ab" * 200_000),
    ):
        automaton = make_automaton(parse(pattern, "regex"))
        ends, are_matches, _ = automaton.split(make_texts_from_strings([text]))
        assert ends[-1] == len(text)
        assert are_matches.any() == pattern.endswith(("b", "a"))
    assert time.process_time() - started < 30


def test_what_is_remembered_of_a_text_is_forgotten():
    automaton = make_automaton(parse(r"\s+(?![x\s])", "regex"))
    batch = make_texts_from_strings([" " * 300 + "x", " " * 300])
    assert automaton.split(batch)[1].tolist() == [False, True]


def test_tables_that_do_not_fit_are_refused():
    batch = make_texts_from_strings(["a"])
    blocks, leaves, named = np.zeros(0x1100, np.uint16), np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    for changed, message in [
        ({"num_classes": 0}, "num_classes"),
        ({"transitions": np.array([0, 0, 9, 0], np.uint16)}, "leads to no state"),
        ({"transitions": np.array([2, 0, 0, 0], np.uint16)}, "state 0"),
        ({"transitions": np.zeros(3, np.uint16)}, "transitions"),
        ({"leaf_of_block": np.ones(0x1100, np.uint16)}, "no leaf"),
        ({"leaf_of_block": blocks[1:]}, "4352"),
        ({"leaves": leaves + 2}, "no class"),
        ({"byte_classes": named[1:]}, "byte_classes"),
        ({"regions": named[:3]}, "regions: expected none, or one for each class"),
    ]:
        tables = {"num_classes": 2, "transitions": np.zeros(4, np.uint16), "leaf_of_block": blocks}
        tables |= {"leaves": leaves, "byte_classes": named, "regions": named[:0], **changed}
        with pytest.raises(ValueError, match=message):
            kernel.Automaton(**tables).split(batch)


# ------------------------------------------------------------------------------------------------------ as a pattern


def test_a_spec_of_steps():
    spec = {"steps": StepList(PRE_TOKENIZERS["falcon"]).text}
    pretokenizer = Pretokenizer.from_spec(spec)
    again = pickle.loads(pickle.dumps(pretokenizer))
    assert again == pretokenizer
    assert again.spec == spec
    assert StepList.from_text(spec["steps"]).text == spec["steps"]
    assert pretokenizer.keeps_text
    with pytest.raises(ConfigError, match="no single regular expression"):
        _ = pretokenizer.published_text


def test_steps_that_change_text_are_no_split_and_have_no_mask():
    removes = Pretokenizer.from_spec({"steps": StepList({"type": "Whitespace"}).text})
    batch = make_texts_from_strings(["a b", " "])
    assert not removes.keeps_text
    with pytest.raises(ConfigError, match="use cut"):
        removes.split(batch)
    counter = Counter("gpt2", 1024)
    with pytest.raises(ConfigError, match=r"count\.mask"):
        add_texts(counter, batch, removes, ("email",))
    add_texts(counter, batch, removes)
    assert counter.num_pretokens == 2
    assert count_pretokens(["ab"], "[^a]+").num_rows == 2


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"type": "Nothing"}, "pre_tokenizer Nothing is not supported: only Split, Digits"),
        ([{"type": "Digits"}, 5], r"pre_tokenizer\[1\] is 5: expected an object"),
        ({"type": "Digits", "individual_digits": 1}, "individual_digits = 1: expected true or false"),
        (split("a", "Shuffled"), "behavior = 'Shuffled': expected Isolated or Removed"),
        ({"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated"}, "can match nothing"),
        ({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated"}, "not empty"),
        ({"type": "Split", "behavior": "Isolated"}, "pattern = None"),
        (split(r"\p{N}{1,3}+"), "repeats a group there"),
        (split(r"a\b"), "depends on the Unicode tables"),
        (split(r"[&&a]"), "'&&' at character 1 .* has nothing beside it"),
        ({"type": "Metaspace", "prepend_scheme": "first"}, "prepend_scheme = 'first': expected always or never"),
        ({"type": "FixedLength", "length": 0}, "length = 0: expected 1 to 1000"),
        ({"type": "CharDelimiterSplit", "delimiter": "ab"}, "one character"),
        ([{"type": "ByteLevel"}, {"type": "ByteLevel"}], "ByteLevel after ByteLevel"),
    ],
)
def test_steps_that_cannot_be_followed_are_refused_by_name(steps, message):
    with pytest.raises(ConfigError, match=message):
        StepList(steps)


def test_every_kind_is_tried():
    assert {step["type"] for steps in PRE_TOKENIZERS.values() for step in StepList(steps).steps} == set(STEPS)
