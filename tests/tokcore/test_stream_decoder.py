"""Text from ids that come one by one: whole characters, and in the end the same text as at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import published_tokenizer

from tokcore.errors import IdentityError

TOKENIZER = published_tokenizer("r50k")


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode)), max_size=6).map(b"".join))
def test_joined_it_is_the_decoded_text(text):
    ids = TOKENIZER.encode(text).tolist()
    for errors in ("replace", "ignore", "backslashreplace"):
        stream = TOKENIZER.stream_decoder(errors)
        fed = [stream.feed(id) for id in ids]
        assert "".join(fed) + stream.finish() == TOKENIZER.decode(ids, errors=errors) == text.decode(errors=errors)


@given(st.text(max_size=20))
def test_no_character_is_split(text):
    stream = TOKENIZER.stream_decoder("strict")
    ids = TOKENIZER.encode(text).tolist()
    given_out = ""
    for n, id in enumerate(ids, 1):
        given_out += stream.feed(id)
        complete = TOKENIZER.decode(ids[:n]).decode(errors="ignore")
        assert given_out == complete  # everything complete is returned at once
    assert stream.finish() == ""
    assert given_out == text


def test_several_ids_at_once():
    stream = TOKENIZER.stream_decoder()
    ids = TOKENIZER.encode("Straße 中文 🙂")
    assert stream.feed(ids[:5]) + stream.feed([]) + stream.feed(ids[5:].tolist()) == "Straße 中文 🙂"


def test_a_text_that_ends_within_a_character():
    ids = TOKENIZER.encode("🙂").tolist()
    assert len(ids) > 1
    stream = TOKENIZER.stream_decoder()
    assert (stream.feed(ids[:-1]), stream.finish(), stream.feed(ids)) == ("", "\ufffd", "🙂")
    strict = TOKENIZER.stream_decoder("strict")
    assert strict.feed(ids[:-1]) == ""
    with pytest.raises(UnicodeDecodeError):
        strict.finish()


def test_what_is_no_id():
    stream = TOKENIZER.stream_decoder()
    with pytest.raises(IdentityError, match=r"ids\[0\] = 60000 is no token"):
        stream.feed(60000)
    with pytest.raises(TypeError, match=r"ids\[0\] = None: expected an integer"):
        stream.feed(None)
