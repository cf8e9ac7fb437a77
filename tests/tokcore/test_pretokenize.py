"""Pre-tokenization: every implementation against the reference, and against the engines whose patterns these are."""

from __future__ import annotations

import functools
import itertools
import pickle
import random

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples, scaled

from tokcore import _native, kernel
from tokcore.errors import ConfigError, StageError
from tokcore.reference import reference
from tokcore.text import unicode
from tokcore.text.patterns import PATTERNS, PATTERNS_OF_STEPS, SPLITS_OF_STEPS, find_named_pattern
from tokcore.text.pretokenize import pretokenize
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_automaton import make_automaton
from tokcore.text.regex_split import compile_pattern
from tokcore.text.regex_tree import parse
from tokcore.text.texts import Offsets, Texts, make_texts_from_strings

NATIVE = [name for name in kernel.list_available() if name != "reference"]
NAMES = [*PATTERNS, *PATTERNS_OF_STEPS]

# One or more of every class that a pattern tells apart, in one to four bytes, and bytes that are not UTF-8.
LETTERS = ["a", "s", "d", "l", "L", "v", "e", "R", "t", "M", "B", "é", "É", "ſ", "я", "Ǆ", "ǅ", "𐐀", "𐐨"]
CASELESS = ["ª", "ʰ", "日", "ア", "龥", "\u9fa6", "ก", "अ", "한", "𠀀"]
MARKS = ["\u0301", "\u093f", "\u3099", "\ufe0f", "\U000e0100"]
NUMBERS = ["1", "2", "²", "٣", "３", "𝟙"]
SPACES = [" ", "\n", "\r", "\t", "\u0085", "\u00a0", "\u2028", "\u3000"]
OTHERS = ["'", "!", "/", "-", "’", "。", "・", "😀", "\u200d", "\0", "\x7f", "\u0378", "\u3040", "\U0010ffff"]
NOT_UTF8 = [b"\x80", b"\xbf", b"\xc3", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xff"]
ALPHABET = [c.encode() for c in [*LETTERS, *CASELESS, *MARKS, *NUMBERS, *SPACES, *OTHERS]] + NOT_UTF8
PHRASES = [
    b"don't",
    b"IT'LL",
    b"x's's's",
    b"it'lLx",
    b"\r\n\r\n  ",
    b"\n \n   if (x == 12345) {\n",
    b"!\n//\n",
    b" \xe2\x9d\xa4\xef\xb8\x8f",
]

pieces_of_text = st.sampled_from([*ALPHABET, *PHRASES])
runs = st.tuples(pieces_of_text, st.sampled_from([1, 1, 2, 3, 4, 30, 62, 63, 64, 65, 130])).map(lambda r: r[0] * r[1])
texts = st.lists(st.one_of(pieces_of_text, runs), max_size=30).map(b"".join)


def split_arrays(name: str, implementation: str, batch: Texts) -> tuple[Offsets, Offsets]:
    with kernel.force(implementation):
        ends, firsts = kernel.split(name, batch)
    assert ends.dtype == firsts.dtype == np.int64
    return ends, firsts


def split(name: str, implementation: str, batch: Texts) -> tuple[list[int], list[int]]:
    ends, firsts = split_arrays(name, implementation, batch)
    return ends.tolist(), firsts.tolist()


def assert_implementations_agree(name: str, batch: Texts) -> None:
    first, *others = [split_arrays(name, implementation, batch) for implementation in NATIVE]
    for other in others:
        assert np.array_equal(first[0], other[0])
        assert np.array_equal(first[1], other[1])


def assert_equals_reference(name: str, batch: Texts) -> None:
    ends, firsts = reference.split(name, *batch)
    for implementation in NATIVE:
        found = split_arrays(name, implementation, batch)
        assert np.array_equal(found[0], ends), (name, implementation)
        assert np.array_equal(found[1], firsts), (name, implementation)


@examples(200)
@given(batch=st.lists(texts, max_size=4))
@example(batch=[])
@example(batch=[b"", b"", b"a"])
@example(batch=[b"\xed\xa0\x80a", b"b \xed\xbf\xbfc"])  # surrogates are no characters, which one letter may follow
def test_equals_reference(batch: list[bytes]) -> None:
    packed = make_texts_from_strings(batch)
    for name in NAMES:
        assert_equals_reference(name, packed)


@pytest.mark.parametrize("name", NAMES)
def test_equals_reference_on_all_short_class_strings(name: str) -> None:
    """The reference takes seconds for the longest ones, so `ci` shows it each eighth; all implementations see all."""
    classes = [b"a", b"A", b"s", b"'", b" ", b"\n", b"\t", b"1", b"!", b"/"]
    classes += [c.encode() for c in ["ª", "\u0301", "\u00a0", "ſ"]] + [b"\xff"]
    few = [b"a", b"A", b"'", b" ", b"\n", b"1", b"!", "\u0301".encode()]
    strings = [b"".join(s) for n in range(4) for s in itertools.product(classes, repeat=n)]
    strings += [b"".join(s) for s in itertools.product(few, repeat=4)]
    longest = [b"".join(s) for s in itertools.product(few, repeat=5)]
    some = random.Random(name).sample(longest, min(len(longest), scaled(len(longest) // 8)))
    assert_equals_reference(name, make_texts_from_strings([*strings, *some]))
    assert_implementations_agree(name, make_texts_from_strings(longest))


@pytest.mark.parametrize("name", NAMES)
def test_implementations_agree_on_long_random_texts(name: str) -> None:
    rng = random.Random(name)
    batch = []
    for _ in range(1500):
        alphabet = rng.sample([*ALPHABET, *PHRASES], rng.randint(1, 8))
        text = bytearray(
            b"".join(rng.choice(alphabet) * rng.choice([1, 1, 1, 2, 3, 64]) for _ in range(rng.randint(1, 300)))
        )
        if rng.random() < 0.2:
            text[rng.randrange(len(text))] = rng.randrange(256)
        batch.append(bytes(text))
    assert_implementations_agree(name, make_texts_from_strings(batch))


@pytest.mark.parametrize("name", PATTERNS)
def test_implementations_agree_on_contractions_at_every_offset(name: str) -> None:
    """At every offset within 64 bytes: after an apostrophe, any two characters of contractions, or others."""
    letters = "sdmtlvreSDMTLVREſÿxX'0 "
    pairs = [a + b for a in letters for b in letters]
    batch = [
        ("a" * offset + "".join(f"'{pair}{after}" for pair in pairs)).encode() for offset in range(64) for after in "a."
    ]
    batch += [("a" * offset + "'" + pair).encode() for offset in (60, 61, 62, 63) for pair in pairs]
    assert_implementations_agree(name, make_texts_from_strings(batch))


@examples(200)
@given(batch=st.lists(texts, max_size=4))
@example(batch=["した・・/a·!é漢\u3040字 漢 1\n ア".encode()])
@example(batch=["!\n漢!\n・\n1 \t2  a \0\0b\u200d1".encode()])
def test_lists_of_steps_run_as_one_pattern(batch: list[bytes]) -> None:
    packed = make_texts_from_strings(batch)
    for name, expressions in SPLITS_OF_STEPS.items():
        ends = packed.offsets[1:]
        for expression in expressions:  # each cuts what those before it left
            automaton = make_automaton(parse(expression, "oniguruma"))
            assert automaton is not None
            ends = automaton.split(Texts(packed.data, np.concatenate([packed.offsets[:1], ends])))[0]
        for implementation in NATIVE:
            found = split_arrays(name, implementation, packed)
            assert np.array_equal(found[0], ends), implementation


@examples(300)
@given(text=texts, capacity=st.sampled_from([1, 2, 7, 63, 64, 100]))
def test_a_scan_resumes_at_any_end(text: bytes, capacity: int) -> None:
    for name, implementation in itertools.product(NAMES, NATIVE):
        stepped = _native.split_in_steps(name, text, implementation, capacity).tolist()
        assert stepped == split(name, implementation, make_texts_from_strings([text]))[0], (name, implementation)


SCALARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


@functools.cache
def assigned() -> list[str]:
    """Every assigned character, and the unassigned ones next to them."""
    free = {c for name in ("Cn", "Co") for first, last in unicode.find_ranges(name) for c in range(first + 1, last)}
    return [c for c in SCALARS if ord(c) not in free]


def test_implementations_agree_on_every_code_point() -> None:
    packed = make_texts_from_strings(["".join(f"{c}a{c}" for c in SCALARS)])
    for name in NAMES:
        assert_implementations_agree(name, packed)


@pytest.mark.parametrize("template", ["@", "a@b@", " @ ", "'@1@", "!@A@\n", "@'s\r@/", "@@@1", "\u3000@日\u0301@a"])
def test_implementations_agree_on_every_assigned_character(template: str) -> None:
    packed = make_texts_from_strings(["".join(template.replace("@", c) for c in assigned())])
    for name in NAMES:
        assert_implementations_agree(name, packed)


@functools.cache
def assigned_in_context() -> str:
    """In a few contexts. test_unicode.py shows that the classes of all other characters agree as well."""
    return "".join(f"a{c}A {c}1" for c in assigned())


@pytest.mark.parametrize("name", ["cl100k", "o200k"])
def test_equals_tokenizers_on_every_assigned_character(name: str) -> None:
    # Oniguruma reads a possessive interval as a repeated group.
    _equals_tokenizers(name, PATTERNS[name].replace("{1,3}+", "{1,3}"), assigned_in_context())


@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen2", "nanochat", "tekken"])
def test_equals_tokenizers_on_every_class(name: str) -> None:
    _equals_tokenizers(name, PATTERNS[name], classes_in_context())


@pytest.mark.parametrize("name", ["cl100k", "o200k"])
def test_equals_tiktoken_on_every_assigned_character(name: str) -> None:
    _equals_tiktoken(name, assigned_in_context())


@pytest.mark.parametrize("name", PATTERNS)
def test_equals_tiktoken_on_every_class(name: str) -> None:
    _equals_tiktoken(name, classes_in_context())


@functools.cache
def classes_in_context() -> str:
    characters = [*LETTERS, *CASELESS, *MARKS, *NUMBERS, *SPACES, *OTHERS]
    return "".join(map("".join, itertools.product(characters, repeat=3)))


def _equals_tiktoken(name: str, text: str) -> None:
    """tiktoken shows its pre-tokens if its vocabulary holds all of them: each is one token then."""
    with kernel.force(NATIVE[0]):
        expected = pretokenize(text.encode(), name)
    ranks = {bytes([i]): i for i in range(256)}
    for piece in expected:
        ranks.setdefault(piece, len(ranks))
    encoding = tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
    assert encoding.encode_ordinary(text) == [ranks[piece] for piece in expected]


def _equals_tokenizers(name: str, pattern: str, text: str) -> None:
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    expected = [end for _, (_, end) in splitter.pre_tokenize_str(text)]
    ends, _ = split_arrays(name, NATIVE[0], make_texts_from_strings([text]))
    characters_before = np.cumsum((np.frombuffer(text.encode(), np.uint8) & 0xC0) != 0x80)
    assert np.array_equal(characters_before[ends - 1], expected)


@pytest.mark.parametrize("implementation", NATIVE)
@pytest.mark.parametrize(
    ("unit", "counts"),
    [
        (b"a", (1, 1, 1)),
        (b" ", (1, 1, 1)),
        (b"\n", (1, 1, 1)),
        (b" \n\t", (1, 1, 2)),
        (b"7", (1, 333334, 333334)),
        (b"^", (1, 1, 1)),
        ("ก".encode(), (1, 1, 1)),
        ("日".encode(), (1, 1, 1)),
        (b"\xff", (1, 1, 1)),
        (b"aB", (1, 1, 500001)),
        (b"A\xc2\xaa", None),
        (b"'s", None),
        (b"\n  \n   ", None),
        (b"!\n/", None),
    ],
)
def test_long_runs(implementation: str, unit: bytes, counts: tuple[int, int, int] | None) -> None:
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    text = text[: len(text) // len(unit) * len(unit)]
    packed = make_texts_from_strings([text])
    for name, count in zip(("gpt2", "cl100k", "o200k"), counts or (0, 0, 0), strict=True):
        ends, _ = split(name, implementation, packed)
        assert ends == split(name, "portable", packed)[0]
        assert counts is None or len(ends) == count


def test_final_whitespace_tells_the_two_cl100k_apart() -> None:
    assert pretokenize("a \n  ", "cl100k") == ["a", " \n  "]
    assert pretokenize("a \n  ", "cl100k-2023") == ["a", " \n", "  "]


def test_long_s_is_an_s_in_contractions() -> None:
    assert pretokenize("x'ſy", "cl100k") == ["x", "'ſ", "y"]
    assert pretokenize("x'ſy", "gpt2") == ["x", "'", "ſy"]
    assert pretokenize("x'ſy", "o200k") == ["x'ſ", "y"]


def test_pretokenize_returns_what_it_was_given() -> None:
    assert pretokenize("Größe 1") == ["Größe", " ", "1"]
    assert pretokenize(b"a\xff b") == [b"a", b"\xff", b" b"]
    assert pretokenize("") == []


@pytest.mark.parametrize("name", PATTERNS)
def test_published_texts_are_recognised(name: str) -> None:
    splitter = Pretokenizer.regex(PATTERNS[name])
    assert splitter.native_name is not None
    assert PATTERNS[splitter.native_name] == PATTERNS[name]
    assert splitter.spec == {"regex": PATTERNS[name]}


def test_other_published_spellings_are_recognised() -> None:
    old = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    assert find_named_pattern(old) == "gpt2"
    assert find_named_pattern(PATTERNS["cl100k"].replace("{1,3}+", "{1,3}")) == "cl100k"
    assert find_named_pattern(r"\p{L}+") is None


@given(texts)
def test_spellings_are_the_same_language(text: bytes) -> None:
    packed = make_texts_from_strings([text])
    for other in (
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        PATTERNS["cl100k"].replace("{1,3}+", "{1,3}"),
    ):
        splitter = Pretokenizer.regex(other)
        assert splitter.native_name is not None
        assert splitter.regex_pieces(packed)[0].tolist() == splitter.split(packed)[0].tolist()


@given(st.lists(texts, max_size=3), st.sampled_from([r"\p{L}+", r"\s", r"(?=\d)", r"x*", r"\p{M}|'\p{Ll}+"]))
def test_a_users_pattern_loses_nothing(batch: list[bytes], pattern: str) -> None:
    packed = make_texts_from_strings(batch)
    ends, firsts = Pretokenizer.of(pattern).split(packed)
    assert np.all(np.diff(ends) > 0)
    for i in range(packed.num_texts):
        own = ends[firsts[i] : firsts[i + 1]]
        assert (own[-1] if len(own) else packed.offsets[i]) == packed.offsets[i + 1]


@given(texts.filter(lambda text: text.decode("utf-8", "replace").encode() == text))
@example(b"12345 1234567")
def test_a_users_pattern_splits_as_tokenizers_does(text: bytes) -> None:
    for pattern in (r"\p{L}+|\p{N}", r"\s+", r"(?=(?:\d{3})+(?!\d))", r"[^\s\p{P}]+\p{Mn}?", r"\P{Lu}|\S\D"):
        splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        expected = [piece for piece, _ in splitter.pre_tokenize_str(text.decode())]
        assert pretokenize(text.decode(), pattern) == expected


def test_a_users_pattern_sees_the_pinned_tables_only() -> None:
    new_letter = "\U000323b0"  # since Unicode 17
    assert pretokenize(f"a{new_letter}b", r"\p{L}+") == ["a", new_letter, "b"]
    assert pretokenize(f"a{new_letter}b", r"\P{L}") == ["a", new_letter, "b"]
    assert pretokenize("abAB1", r"(?i)\p{Lu}+") == ["abAB", "1"]


@given(texts, st.sampled_from([*PATTERNS.values(), r"(?i)\p{M}+|\p{Lu}|x", r"(?i:\p{L})+|[\P{N}\d]"]))
@example("\u0345\u03b9\U000323b0".encode(), r"(?i)\p{M}+|\p{Lu}|x")
def test_a_users_pattern_is_the_expanded_one(text: bytes, pattern: str) -> None:
    decoded = text.decode("utf-8", "surrogateescape")
    cuts = {cut for match in compile_pattern(pattern).finditer(decoded) for cut in match.span()} - {0, len(decoded)}
    found = pretokenize(text, pattern + "|(?!)")  # not recognised as a named pattern
    assert len(found) == len(cuts) + bool(text)
    assert {len(b"".join(found[:i]).decode("utf-8", "surrogateescape")) for i in range(1, len(found))} == cuts


def test_time_limit() -> None:
    # It looks back, so that it is left to an engine that backtracks.
    splitter = Pretokenizer.regex(r"(?<!b)(a|aa)+b", time_limit=0.05)
    with pytest.raises(StageError, match=r"\(a\|aa\)\+b.*took more than 0\.05 s on text 1 .* stopped at character 0"):
        splitter.split(make_texts_from_strings([b"aab", b"a" * 60 + b"c"]))


def test_specs_and_pickles() -> None:
    for splitter in (Pretokenizer.named("gpt2"), Pretokenizer.regex(r"\p{L}+", time_limit=3)):
        again = pickle.loads(pickle.dumps(splitter))
        assert again == splitter == Pretokenizer.from_spec(splitter.spec)
        assert hash(again) == hash(splitter)
        assert again.time_limit == splitter.time_limit
    assert Pretokenizer.of("o200k") != Pretokenizer.of("llama3")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("cl100q", "Did you mean 'cl100k'"),
        ("(a", "not a valid regular expression"),
        (r"\w+", "depends on the Unicode tables"),
    ],
)
def test_bad_patterns(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pretokenize("x", pattern)


def test_bad_specs() -> None:
    with pytest.raises(ConfigError, match="one of name, regex or steps"):
        Pretokenizer.from_spec({})
    with pytest.raises(ConfigError, match="not by 'pattern'"):
        Pretokenizer.from_spec({"pattern": "x"})


def test_bad_arguments_of_the_native_split() -> None:
    data = np.zeros(4, np.uint8)
    for offsets in ([], [0, 5], [2, 1], [-1, 2]):
        with pytest.raises(ValueError, match="offsets"):
            _native.split("gpt2", data, np.array(offsets, np.int64), "portable")
    with pytest.raises(ValueError, match="pattern"):
        _native.split("gpt3", data, np.array([0], np.int64), "portable")
    with pytest.raises(ValueError, match="implementation"):
        _native.split("gpt2", data, np.array([0], np.int64), "neon")


@pytest.mark.parametrize("wrong", [5, None, ["a"]])
def test_wrong_types_are_named(wrong):
    with pytest.raises(TypeError, match=f"text: expected str or bytes, found {type(wrong).__name__}"):
        pretokenize(wrong)
    with pytest.raises(TypeError, match=r"pattern = .*: expected the name of a pattern or a regular expression"):
        pretokenize("a", pattern=wrong)
