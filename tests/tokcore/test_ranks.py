"""Ranks seen as merges: the kernel finds what the reference finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import ranks

from tokcore import kernel
from tokcore.reference import reference
from tokcore.text.texts import make_texts_from_strings

pytestmark = pytest.mark.skipif(kernel.list_available() == ("reference",), reason="no native kernel")

VOCABULARIES = st.lists(st.binary(min_size=1, max_size=9) | st.text("ab", min_size=1, max_size=9).map(str.encode))


def check(tokens):
    texts = make_texts_from_strings(tokens)
    for name in ("rank_merges", "rank_parts"):
        found, expected = getattr(kernel, name)(texts), getattr(reference, name)(*texts)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype == np.int32
            np.testing.assert_array_equal(a, b)


@given(VOCABULARIES.map(dict.fromkeys).map(list))
def test_any_vocabulary(tokens):
    check(tokens)


@given(st.permutations([b"a", b"b", b"aa", b"ab", b"ba", b"bb", b"aab", b"aba", b"aaaa", b"aaaaa", b"abab", b"babab"]))
def test_runs_and_overlaps(tokens):
    check(tokens)


def test_a_published_vocabulary():
    check(list(ranks("r50k"))[:20_000])
