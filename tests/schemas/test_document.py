"""Document keys and the shares of documents that follow from them."""

from __future__ import annotations

import hashlib
import pickle
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore_schemas.document import (
    Document,
    compute_document_key,
    compute_selection_hash,
    compute_selection_threshold,
    is_selected,
    is_valid_lang,
)


def test_key_is_pinned():
    """The encoding is part of the output: sampling and validation of every build follow from it."""
    prefix = b"tokcore-document-v1\0\x02\0\0\0en"
    assert compute_document_key("en", "page-1", b"any") == hashlib.sha256(prefix + b"ipage-1").digest()
    assert compute_document_key("en", None, b"any") == hashlib.sha256(prefix + b"tany").digest()
    assert compute_document_key("en", "", b"any") == hashlib.sha256(prefix + b"i").digest()


triples = st.tuples(st.text(max_size=3), st.none() | st.text(max_size=3), st.binary(max_size=3))


@given(triples, triples)
def test_different_documents_have_different_keys(a, b):
    def identity(lang, document_id, text):
        return (lang, document_id, text if document_id is None else None)

    assert (compute_document_key(*a) == compute_document_key(*b)) == (identity(*a) == identity(*b))


@given(st.binary(), st.integers(0, 1 << 40), st.decimals(0, 1, places=6), st.decimals(0, 1, places=6))
def test_shares_are_nested(key, seed, a, b):
    small, large = sorted((a, b))
    assert is_selected(key, seed, "sample", small) <= is_selected(key, seed, "sample", large)
    assert not is_selected(key, seed, "sample", Decimal(0))
    assert is_selected(key, seed, "sample", Decimal(1))


def test_share_is_exact():
    """The threshold is exactly the floor of share * 2**64; a float would have rounded."""
    assert compute_selection_threshold(Decimal("0.1")) == (1 << 64) // 10
    assert compute_selection_threshold(Decimal("0.999999999999999999999")) == (1 << 64) - 1
    digest = hashlib.sha256(b"sample\x007\0key").digest()
    assert compute_selection_hash(b"key", 7, "sample") == int.from_bytes(digest[:8], "big")


def test_share_of_many_documents():
    keys = [compute_document_key("en", str(i), b"") for i in range(10_000)]
    chosen = {p: {k for k in keys if is_selected(k, 1, p, Decimal("0.25"))} for p in ("sample", "validation")}
    assert all(2_300 < len(keys_of) < 2_700 for keys_of in chosen.values())
    assert 500 < len(chosen["sample"] & chosen["validation"]) < 750, "purposes are not independent"


@pytest.mark.parametrize("share", ["-0.1", "1.1", "NaN", "Infinity"])
def test_share_out_of_range(share):
    with pytest.raises(ValueError, match="from 0 to 1"):
        is_selected(b"", 0, "sample", Decimal(share))


@pytest.mark.parametrize("lang", ["en", "zh-Hant", "code-c++", "a" * 64, "1.2_x"])
def test_valid_lang(lang):
    assert is_valid_lang(lang)


@pytest.mark.parametrize("lang", ["", ".en", "../en", "a/b", "é", "a" * 65, "en\n", "e n", "-en"])
def test_invalid_lang(lang):
    assert not is_valid_lang(lang)


def test_a_document_is_what_it_says():
    document = Document("en", None, b"\xff")
    assert document == ("en", None, b"\xff")
    assert pickle.loads(pickle.dumps(document)) == document
    assert isinstance(document._replace(id="7"), Document)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ((None, "1", "text"), TypeError, "lang = None: expected a str"),
        (("en", 1, "text"), TypeError, "id = 1: expected a str, or None"),
        (("en", "1", None), TypeError, "text = None: expected str or bytes"),
        (("en", "1", ["text"]), TypeError, "text = "),
        (("../en", "1", "text"), ValueError, "lang = '../en': expected a letter or digit"),
    ],
)
def test_what_is_no_document(values, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        Document(*values)
