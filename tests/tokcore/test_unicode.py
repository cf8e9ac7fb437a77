"""The pinned Unicode tables: one content in Python and C++, equal to what the engines use; and patterns on them."""

from __future__ import annotations

import functools
import hashlib
import re

import numpy as np
import pytest
import regex
import tokenizers
import unicodedata2

from tokcore import _native
from tokcore.errors import ConfigError
from tokcore.text import unicode, unicode_data

SCALARS = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def members(name: str) -> set[int]:
    return {c for first, last in unicode.find_ranges(name) for c in range(first, last + 1)}


def test_one_version_everywhere() -> None:
    assert unicode.VERSION == _native.UNICODE_VERSION == unicodedata2.unidata_version == "16.0.0"


def test_hash_is_of_the_content() -> None:
    content = [("version", unicode.VERSION), *unicode_data.RANGES.items(), ("lower", unicode_data.LOWERCASE)]
    digest = hashlib.sha256("".join(f"{name}:{text}\n" for name, text in content).encode()).hexdigest()
    assert digest == unicode.TABLES_SHA256 == _native.UNICODE_TABLES_SHA256


def test_kernel_has_the_same_classes() -> None:
    classes = np.zeros(0x110000, np.uint8)
    for bit, names in enumerate([["L"], ["N"], ["White_Space"], ["M"], ["Lu", "Lt"], ["Ll"], ["P", "S"]]):
        for name in names:
            for first, last in unicode.find_ranges(name):
                classes[first : last + 1] |= 1 << bit
    assert np.array_equal(_native.character_classes(), classes)


def test_categories_are_unicodedatas() -> None:
    for name in unicode_data.RANGES:
        if name != "White_Space":
            for first, last in unicode.find_ranges(name):
                assert {unicodedata2.category(chr(c)) for c in {first, (first + last) // 2, last}} == {name}
    covered = sum(
        last - first + 1 for n in unicode_data.RANGES if len(n) == 2 for first, last in unicode.find_ranges(n)
    )
    assert covered == 0x110000


@pytest.mark.parametrize(("name", "size"), [("L", 141028), ("N", 1911), ("M", 2501), ("White_Space", 25)])
def test_classes_are_those_of_tokenizers(name: str, size: int) -> None:
    pattern = r"\s" if name == "White_Space" else rf"\p{{{name}}}"
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern + "+"), "removed")
    rest = {ord(c) for piece, _ in split.pre_tokenize_str(SCALARS) for c in piece}
    ours = members(name)
    assert len(ours) == size
    assert ours == set(map(ord, SCALARS)) - rest


def test_lowercase_is_that_of_tokenizers() -> None:
    normalizer = tokenizers.normalizers.Lowercase()
    table = unicode.map_lowercase()
    unassigned = members("Cn")
    assigned = "".join(c for c in SCALARS if ord(c) not in unassigned)
    # Without capital sigma: inside of a text some versions look at its context.
    without_sigma = assigned.replace("Σ", "")
    assert without_sigma.translate(table) == normalizer.normalize_str(without_sigma)
    assert "Σ".translate(table) == "σ"


@functools.cache
def known_to_regex() -> str:
    known = "".join(c for c in SCALARS[:0x3000] if regex.match(rf"\p{{{unicodedata2.category(c)}}}", c))
    assert len(known) > 12_000
    return known


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}", r"\P{L}", r"\pN", r"\PN", r"\p{^M}", r"\p{Lu}", r"\p{gc=Lu}",
        r"\p{General_Category=Lowercase_Letter}",
        r"\s", r"\S", r"\d", r"\D", r"[\s\p{L}]", r"[^\s\p{L}\p{N}]", r"[\S]", r"[^\S]", r"[\P{L}]", r"[^\P{L}\d]",
        r"[]\p{P}]", r"[^]\p{P}]", r"[\]\p{Sc}]", r"\\p", r"[a\\]\s", r"\p{Any}", r"[(?a:]", r"(?i:'s)\s",
    ],
)  # fmt: skip
def test_expanded_means_the_same(pattern: str) -> None:
    """On the characters that the installed `regex` puts into the same categories."""
    known = known_to_regex()
    expanded = unicode.expand(pattern)
    assert r"\p{" not in expanded
    assert regex.findall(expanded, known) == regex.findall(pattern, known)


def test_expansion_does_not_depend_on_the_installed_tables() -> None:
    new_letter = "\U000323b0"  # a letter in Unicode 17
    assert not regex.match(unicode.expand(r"\p{L}"), new_letter)
    assert regex.match(unicode.expand(r"[^\s\p{L}\p{N}]"), new_letter)


def test_undecodable_bytes_are_other() -> None:
    bad = b"\xff".decode("utf-8", "surrogateescape")
    for pattern in (r"[^\s\p{L}\p{N}]", r"\S", r"\P{L}", r"[\S]", r"\D", r"\p{C}"):
        assert regex.fullmatch(unicode.expand(pattern), bad)
    for pattern in (r"\s", r"\p{L}", r"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}]"):
        assert not regex.fullmatch(unicode.expand(pattern), bad)


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        (r"a\w+", r"'\\w' at character 1"),
        (r"[a\W]", r"'\\W' at character 2"),
        (r"\bx", r"'\\b' at character 0"),
        (r"x\X", r"'\\X' at character 1"),
        (r"\p{L&}", r"'\\p{L&}' at character 0"),
        (r"\p{Han}+", r"'\\p{Han}' at character 0"),
        (r"[\p{Script=Greek}]", r"'\\p{Script=Greek}' at character 1"),
        (r"[[:alpha:]]", r"'\[:alpha:\]' at character 1"),
        (r"(?a)\s", r"'\(\?a' at character 0"),
        (r"(?V1)[a--b]", r"'\(\?V1' at character 0"),
        (r"(?i-w:x)", r"'\(\?i-w' at character 0"),
        (r"\p", r"'\\p' at character 0"),
        (r"\N{DIGIT ONE}", r"'\\N' at character 0"),
    ],
)
def test_what_depends_on_other_tables_is_refused(pattern: str, place: str) -> None:
    with pytest.raises(ConfigError, match=place.replace("\\\\", "\\\\\\\\")):
        unicode.expand(pattern)


def test_a_backspace_in_a_class_is_not_a_word_boundary() -> None:
    assert regex.fullmatch(unicode.expand(r"[\b]"), "\b")


def test_a_pattern_that_calls_itself_is_named():
    """It ended in a MemoryError without a word, after half a gigabyte."""
    for pattern, place in (("(?R)", "'(?R)' at character 0"), ("a|b(?0)", "'(?0)' at character 3")):
        with pytest.raises(ConfigError, match=re.escape(f"{place} of the pattern {pattern!r} calls the whole pattern")):
            unicode.expand(pattern)
    assert unicode.expand(r"[(?R)]\(?R\)") == r"[(?R)]\(?R\)"
