"""A split pattern of one's own means the same in all engines, in the spelling that each is told, or is refused."""

from __future__ import annotations

import json

import pytest
import tiktoken
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.vocabularies import spec_of_merges
from tokenizers import Regex, pre_tokenizers

from tokcore.errors import ConfigError, FormatError
from tokcore.formats.tokenizers.huggingface import (
    expand_possessive_intervals,
    read_tokenizer_json,
    spell_pattern,
    write_tokenizer_json,
)
from tokcore.formats.tokenizers.tiktoken import read_split_pattern
from tokcore.text.patterns import PATTERNS
from tokcore.text.pretokenize import pretokenize
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.regex_spelling import spell, translate
from tokcore.text.regex_tree import parse

# Most patterns that are drawn cannot be told to all engines.
ANY_PATTERNS = {"suppress_health_check": [HealthCheck.filter_too_much]}
SYMBOLS = ["a", "s", " ", "\n", "1", "é"]
text_of = st.lists(
    st.sampled_from([*SYMBOLS, "S", "ſ", "K", "ß", "ﬁ", "'", "&", "[", "-", "\r", "\u00a0", "ı"]), max_size=14
)

atoms = st.sampled_from(
    [
        *[
            "a",
            "s",
            "S",
            "1",
            " ",
            "'",
            "é",
            "ß",
            "i",
            "k",
            r"\n",
            "\n",
            r"\s",
            r"\S",
            r"\d",
            r"\D",
            r"\p{L}",
            r"\P{L}",
        ],
        *[
            r"\p{N}",
            ".",
            "[as]",
            "[^a]",
            r"[^\n1]",
            "[a-s]",
            "[a-z&&s]",
            "[^s&&a]",
            r"[\s1]",
            r"[^\p{L}\s]",
            "[-a]",
            "[a-]",
        ],
        *[
            "[]a]",
            "[^]a]",
            r"[\]\[]",
            "[S-a]",
            r"\x61",
            r"\u00e9",
            r"\xe9",
            r"\'",
            r"[é-ß]",
            "(?s:.)",
            "(?m:.)",
            "(?i:S)",
            "(?i:s'S)",
        ],
        *[
            "(?i:[a-s])",
            "(?i:[^s])",
            r"(?i:\p{Lu})",
            "(?i:ss)",
            "(?i:é)",
            "(?#x)a",
            r"\h",
            r"\w",
            "[[:alpha:]]",
            "[a[s]]",
            r"\R",
        ],
    ]
)
places = st.sampled_from(
    [
        *[
            "^",
            "$",
            r"\A",
            r"\Z",
            r"\z",
            "(?m:^)",
            "(?m:$)",
            "(?=a)",
            "(?!s)",
            "(?<=a)",
            "(?<!s)",
            r"(?<=\n)",
            r"(?<!^)",
            r"\b",
        ],
        *["(?i)", "(?s)", "(?m)", "(?=a*)", r"(?!\S)"],
    ]
)
times = st.sampled_from(
    [
        "",
        "",
        "",
        "*",
        "+",
        "?",
        "*?",
        "+?",
        "??",
        "++",
        "*+",
        "?+",
        "{2}",
        "{1,2}",
        "{,2}",
        "{1,}",
        "{1,2}?",
        "{2}?",
        "{1,2}+",
    ]
)
parts = st.builds(str.__add__, atoms, times)
sequences = st.builds(
    lambda first, more, last: "".join([first, *more, last]),
    places | st.just(""),
    st.lists(parts, min_size=1, max_size=3),
    places | st.just(""),
)
choices = st.lists(sequences, min_size=1, max_size=3).map("|".join)
groups = st.builds(
    lambda kind, inner, how: f"({kind}{inner}){how}",
    st.sampled_from(["", "?:", "?>", "?i:", "?=", "?<="]),
    choices,
    times,
)
patterns = st.builds(
    lambda flags, some: flags + "|".join([*some, r"[\s\S]"]),
    st.sampled_from(["", "", "", "(?i)", "(?m)", "(?s)", "(?x)"]),
    st.lists(st.lists(sequences | groups, min_size=1, max_size=2).map("".join), min_size=1, max_size=3),
)


def split_by_theirs(pattern: str, text: str) -> list[str]:
    try:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:  # their own class is not public
        raise ConfigError(str(error)) from error
    return [part for part, _ in split.pre_tokenize_str(text)]


@examples(120, **ANY_PATTERNS)
@given(patterns, st.lists(text_of.map("".join), min_size=1, max_size=4))
def test_what_is_exported_means_the_same_in_oniguruma(pattern, texts):
    try:
        Pretokenizer.regex(pattern)
        spelled = translate(pattern, "regex", "oniguruma")
    except ConfigError:
        assume(False)
    for text in texts:
        assert split_by_theirs(spelled, text) == pretokenize(text, pattern), spelled


@examples(120, **ANY_PATTERNS)
@given(patterns, st.lists(text_of.map("".join), min_size=1, max_size=4))
def test_what_is_imported_means_the_same_here(pattern, texts):
    try:
        expected = [split_by_theirs(pattern, text) for text in texts]
        spelled = translate(pattern, "oniguruma", "regex")
    except ConfigError:
        assume(False)
    assert [pretokenize(text, spelled) for text in texts] == expected, spelled


def split_by_tiktoken(pattern: str, text: str) -> list[str]:
    bytes_ = {bytes([byte]) for byte in range(256)}
    parts = {text[i:j].encode() for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
    ranks = {token: rank for rank, token in enumerate([*sorted(bytes_), *sorted(parts - bytes_)])}
    try:
        theirs = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return [theirs.decode_bytes([id]).decode() for id in theirs.encode_ordinary(text)]


@examples(30, **ANY_PATTERNS)
@given(patterns, st.lists(text_of.map("".join), min_size=1, max_size=3))
def test_what_is_said_of_a_rank_file_means_the_same_in_tiktoken(pattern, texts):
    try:
        Pretokenizer.regex(pattern)
        spelled = spell(parse(pattern, "regex"))
    except ConfigError:
        assume(False)
    assert [split_by_tiktoken(spelled, text) for text in texts] == [pretokenize(text, pattern) for text in texts], (
        spelled
    )


@examples(120, **ANY_PATTERNS)
@given(patterns, st.lists(text_of.map("".join), min_size=1, max_size=3))
def test_what_tiktoken_is_given_means_the_same_here(pattern, texts):
    try:
        spelled = read_split_pattern(pattern).published_text
        expected = [split_by_tiktoken(pattern, text) for text in texts]
    except ConfigError:
        assume(False)
    assert [pretokenize(text, spelled) for text in texts] == expected, spelled


@pytest.mark.parametrize(
    ("pattern", "spelled"),
    [
        (r"[^\n]+$|\p{L}+|\P{L}", r"[^\n]+(?![\s\S])|\p{L}+|\P{L}"),
        (r"(?m)^a+$|\x{e9}+|\u{73}{1,2}+|[\s\S]", r"(?<![^\n])a+(?![^\n])|é+|(?>s{1,2})|[\s\S]"),
        (r"\h+|[\s\S]", r"[0-9A-Fa-f]+|[\s\S]"),
        (r"(?i:ss)|'(?i:[dmt])|\p{N}{1,3}+|\s+(?!\S)|[\s\S]", None),
    ],
)
def test_what_tiktoken_reads_otherwise_is_spelled_otherwise(pattern, spelled):
    found = read_split_pattern(pattern).published_text
    assert found == (spelled or pattern)
    for text in ("aé\nss1s ", "sſ\na\n", "aa\na", "'s 1234  "):
        assert split_by_tiktoken(pattern, text) == pretokenize(text, found)


@pytest.mark.parametrize("part", [r"\Z", r"\<", "[a--s]", "[ -a&&s]", "[+~~s]", "[a[s]]", r"(?i:\p{Lu})", r"\b"])
def test_what_tiktoken_alone_knows_is_refused_by_name(part):
    with pytest.raises(ConfigError, match=r"at character \d+ of the regular expression"):
        read_split_pattern(rf"a{part}|[\s\S]")


@pytest.mark.parametrize(
    "pattern", [*PATTERNS.values(), r"\p{L}+|\p{N}{1,3}|[^\s\p{L}]+[\r\n]*|\s+(?!\S)|\s+", r"a++|[\s\S]"]
)
def test_what_means_the_same_already_stays_as_it_is(pattern):
    assert spell_pattern({"regex": pattern}) == expand_possessive_intervals(pattern)


@pytest.mark.parametrize(
    ("pattern", "spelled"),
    [
        (r"[^\n]+$|\p{L}+|\P{L}", r"[^\n]+(?=\n?(?![\s\S]))|\p{L}+|\P{L}"),
        ("(?m)^a|[^b]", r"(?<![^\n])a|[^b]"),
        ("[a-z&&[^x]]|a", r"[a-z\&\&\[\^x]\]|a"),
        ("(?i)ss|k", "[sSſ][sSſ]|[kK\u212a]"),
        ("x(?s:.)", r"x[\s\S]"),
    ],
)
def test_what_differs_is_spelled_otherwise(pattern, spelled):
    spec = spec_of_merges([], {"regex": pattern}, [], [])
    written = write_tokenizer_json(spec)
    assert json.loads(written)["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] == spelled
    assert read_tokenizer_json(written, "x") == spec, "our own file says what it was"
    content = json.loads(written)
    del content["decoder"]["tokcore"]
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern
    if "(?s" in pattern:
        with pytest.raises(FormatError, match=r"'\(\?s' at character 1"):
            read_tokenizer_json(json.dumps(content).encode(), "x")
    if "&&" in pattern:
        assert read_tokenizer_json(json.dumps(content).encode(), "x").pattern != spec.pattern


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(?i)b|c", r"'\(\?i\)' at character 1 .* sets flags in the middle"),
        (r"(a)\1", r"'\\\\1' at character 3"),
        ("a*|b", "can match nothing"),
        (r"(?<=a+)b", r"looks behind for more than some characters"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(pattern, message):
    with pytest.raises(FormatError, match=message):
        spell_pattern({"regex": pattern})
