"""token_bytes.npy: read by numpy, a length for each id."""

from __future__ import annotations

import io

import numpy as np
import pytest
from support.vocabularies import published_tokenizer, spec_of_merges

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.tokenizer.tokenizer_spec import SpecialToken


def lengths_of(spec):
    ((name, data),) = EXPORTS["token_bytes"].files(spec)
    assert name == "token_bytes.npy"
    return data, np.load(io.BytesIO(data), allow_pickle=False)


@pytest.mark.parametrize("name", ["r50k", "cl100k"])
def test_the_length_of_each_token_special_ones_and_unused_ids_zero(name):
    tokenizer = published_tokenizer(name)
    data, lengths = lengths_of(tokenizer.spec)
    assert (lengths.dtype, lengths.shape) == (np.int32, (tokenizer.vocab_size,))
    expected = dict(zip(tokenizer.spec.model.ids.tolist(), map(len, tokenizer.spec.model.tokens), strict=True))
    assert lengths.tolist() == [expected.get(id, 0) for id in range(tokenizer.vocab_size)]
    assert not lengths[[*tokenizer.specials.values()]].any()
    written = io.BytesIO()
    np.save(written, lengths)
    assert data == written.getvalue()
    text = "bits per byte: é 的 на"
    assert lengths[tokenizer.encode(text)].sum() == len(text.encode())


def test_an_id_too_high_is_refused():
    spec = spec_of_merges([], {"name": "gpt2"}, [], [SpecialToken("<|far|>", 2**31 - 1)])
    with pytest.raises(FormatError, match="the ids end at 2147483648"):
        lengths_of(spec)
