"""Texts in which spans are replaced: equal to a loop over bytes, and to the expressions that presets are written as."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import ConfigError, StageError
from tokcore.text import masked_texts
from tokcore.text.mask_presets import MASK_PRESETS
from tokcore.text.masked_texts import Span, find_spans, mask_texts, place_characters, replace_spans
from tokcore.text.texts import make_texts_from_strings

KINDS = ("a", "bb", "")


def replace_byte_by_byte(text, spans):
    """The oracle: each run of covered bytes becomes one replacement, and a new run begins where no span goes on."""
    spans = [span for span in spans if span.start < span.end]
    out = []
    for at in range(len(text)):
        covering = [span for span in spans if span.start <= at < span.end]
        if not covering:
            out.append(text[at : at + 1])
        elif not any(span.start < at < span.end for span in spans):  # a run begins
            longest = max(span.end for span in covering)
            out.append(f"<{next(span.kind for span in covering if span.end == longest)}>".encode())
    return b"".join(out)


@given(
    st.binary(max_size=12).flatmap(
        lambda text: st.tuples(
            st.just(text),
            st.lists(
                st.tuples(st.integers(0, len(text)), st.integers(0, len(text)), st.sampled_from(KINDS)).map(
                    lambda one: Span(min(one[:2]), max(one[:2]), one[2])
                ),
                max_size=5,
            ),
        )
    )
)
def test_spans_are_replaced_as_byte_by_byte(case):
    text, spans = case
    assert replace_spans(text, spans, lambda kind: f"<{kind}>".encode()) == replace_byte_by_byte(text, spans)


PIECES = ("a@b.org", "x", " ", "AKIAABCDEFGHIJKLMNOP", "10.0.0.1", "é", "12", "@", "\n")


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), max_size=4))
def test_what_is_found_is_what_the_expressions_match(strings):
    presets = ("api_key", "email", "ipv4")
    patterns = [("number", "[0-9]+"), ("edge", "^x|x$")]
    found = find_spans(make_texts_from_strings(strings), presets, patterns)
    for i, string in enumerate(strings):
        text = string.encode()
        expected = [
            Span(*match.span(), name)
            for name, pattern in [
                *((name, MASK_PRESETS[name].pattern) for name in presets),
                *((name, re.compile(one.encode())) for name, one in patterns),
            ]
            for match in pattern.finditer(text)
        ]
        assert sorted(found.get(i, [])) == sorted(expected)


def test_texts_without_spans_stay_as_they_are():
    texts = make_texts_from_strings(["", "a", "b@c.de", ""])
    part = texts._replace(offsets=texts.offsets[1:])  # bytes before the first text
    masked, changed = mask_texts(part, find_spans(part, ["email"]), lambda kind: b"")
    assert ([masked.text(i) for i in range(3)], changed) == ([b"a", b"", b""], [1])
    assert mask_texts(part, {0: [Span(1, 1, "nothing")]}, lambda kind: b"x") == (part, [])


def test_characters_are_placed_in_bytes():
    text = "aé漢\U0001f600z".encode() + b"\xff!"
    spans = [(start, end, "k") for start in range(8) for end in range(start, 8)]
    starts = [0, 1, 3, 6, 10, 11, 12, 13]
    assert place_characters(text, spans) == [Span(starts[start], starts[end], "k") for start, end, _ in spans]
    assert place_characters(text, [(0, 8, "k")]) is None
    assert place_characters(b"", [(0, 0, "k")]) == [Span(0, 0, "k")]


def test_expressions_that_fail_are_named(monkeypatch):
    monkeypatch.setattr(masked_texts, "SECONDS_PER_TEXT", 0.01)
    with pytest.raises(StageError, match=r"the mask pattern .*\(a\|aa\)\+b' took more than 0\.01 s"):
        find_spans(make_texts_from_strings(["a" * 100 + "c" + "bb"]), (), [("slow", "(?<!b)(a|aa)+b")])
    with pytest.raises(ConfigError, match="not a valid regular expression"):
        find_spans(make_texts_from_strings(["a"]), (), [("bad", "(")])
