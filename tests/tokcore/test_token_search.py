"""Texts that are looked for among ids are found where the decoded text has them, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sentencepiece_models import train
from support.vocabularies import published_tokenizer

from tokcore.count.counting import count_pretokens
from tokcore.learn.merges import learn_bpe
from tokcore.look.token_search import TokenSearcher, can_search
from tokcore.tokenizer.tokenizer import Tokenizer

TEXTS = ["low lower lowest newest", "न मस्ते नमस्ते", "aaaaaaa abab", "it's 2024!"]


@pytest.fixture(scope="module")
def searcher() -> TokenSearcher:
    merges = learn_bpe(count_pretokens(TEXTS * 3, pattern="gpt2"), 285)
    return TokenSearcher(Tokenizer.from_merges(merges, pattern="gpt2", special={"<|end|>": "document_end"}))


def find_by_definition(tokenizer: Tokenizer, ids: np.ndarray, wanted: bytes) -> list[int]:
    """The tokens that hold the first byte of an occurrence."""
    data = tokenizer.decode(ids)
    spans = tokenizer.offsets(ids).bytes.tolist()
    begins = [at for at in range(len(data)) if data.startswith(wanted, at)]
    return sorted({place for at in begins for place, (start, end) in enumerate(spans) if start <= at < end})


@given(text=st.text(alphabet="lowernsta b2न म", max_size=60), data=st.data())
def test_every_part_of_a_text_is_found_where_it_is(searcher, text, data):
    """Of the bytes of a text, so that parts begin and end within characters, too."""
    tokenizer = searcher.tokenizer
    ids = tokenizer.encode(f"{text}<|end|>{text[::-1]}", allow_special="all")
    whole = tokenizer.decode(ids)
    start = data.draw(st.integers(0, len(whole) - 1))
    for end in {start + 1, start + 2, min(start + 63, len(whole)), data.draw(st.integers(start + 1, len(whole)))}:
        wanted = whole[start:end][:63]
        if wanted:
            assert searcher.look_for(wanted).find(ids).tolist() == find_by_definition(tokenizer, ids, wanted)


@given(text=st.text(alphabet="lowest a", max_size=60), wanted=st.text(alphabet="lowest a", min_size=1, max_size=6))
def test_what_is_not_there_is_not_found(searcher, text, wanted):
    ids = searcher.tokenizer.encode(text)
    found = searcher.look_for(wanted.encode()).find(ids).tolist()
    assert found == find_by_definition(searcher.tokenizer, ids, wanted.encode())


@pytest.mark.parametrize("wanted", ["the", " of the", "e", "Hello wörld", "😀 \u202e<script>", "x" * 200, "\xff\xff"])
def test_published_ranks(wanted):
    tokenizer = published_tokenizer("r50k")
    text = f"of the of thee{wanted} of the{wanted[:-1]} {wanted}{wanted}"
    ids = tokenizer.encode(text)
    looked = wanted.encode()[:63]
    assert TokenSearcher(tokenizer).look_for(wanted.encode()).find(ids).tolist() == find_by_definition(
        tokenizer, ids, looked
    )


def test_texts_that_are_not_their_tokens_are_not_searched_so(searcher, tmp_path):
    assert can_search(searcher.tokenizer)
    path = tmp_path / "m.model"
    path.write_bytes(train("unigram", "plain"))
    pieces = Tokenizer.load(path)
    assert not can_search(pieces)
    with pytest.raises(ValueError, match="one after the other"):
        TokenSearcher(pieces)
