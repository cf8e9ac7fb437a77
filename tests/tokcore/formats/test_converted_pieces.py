"""SentencePiece's models in a tokenizer.json: tokenizers gives the file's ids, which are nearly always the model's."""

from __future__ import annotations

import pytest
import tokenizers
from support.sentencepiece_models import demo_texts, train

from tokcore.errors import FormatError
from tokcore.formats.tokenizers.exports import EXPORTS
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.formats.tokenizers.sentencepiece import read_sentencepiece_model
from tokcore.tokenizer.tokenizer import Tokenizer

ODD = ["", " ", "  a  b ", "\ufb01ne\u00a0\u3000x", "日本\U0001f600\x01", "a" * 300, "\u2581a"]


@pytest.mark.parametrize(
    ("kind", "option"), [("unigram", "plain"), ("unigram", "crossing"), ("unigram", "nfkc"), ("bpe", "bytes")]
)
def test_tokenizers_gives_the_same_ids(kind, option):
    ours = Tokenizer(read_sentencepiece_model(train(kind, option), "x"))
    data = write_tokenizer_json(ours.spec)
    theirs = tokenizers.Tokenizer.from_str(data.decode())
    theirs.encode_special_tokens = True
    again = Tokenizer(read_tokenizer_json(data, "t"))
    assert again.specials == ours.specials
    texts = [*demo_texts(), *ODD]
    found = [one.ids for one in theirs.encode_batch(texts, add_special_tokens=False)]
    assert found == [again.encode(text).tolist() for text in texts]  # exactly what the file says
    same = [ids == ours.encode(text).tolist() for ids, text in zip(found, texts, strict=True)]
    assert sum(same) >= 0.97 * len(same), [text for is_same, text in zip(same, texts, strict=True) if not is_same]
    for text, ids, is_same in zip(texts, found, same, strict=True):
        # Text that spells U+2581 itself may lose its first one in SentencePiece's way of decoding.
        if is_same and ours.spec.model.unknown not in ids and "\u2581" not in text:
            assert theirs.decode(ids) == ours.decode(ids, "replace")


def test_the_export_says_that_ids_may_differ():
    left_out = EXPORTS["huggingface"].left_out
    assert "0.2 to 1 %" in left_out(read_sentencepiece_model(train("unigram", "plain"), "x"))
    keeps_lines = left_out(read_sentencepiece_model(train("unigram", "nfkc"), "x"))
    assert "keeps line breaks" in keeps_lines
    assert "2 to 3 %" in keeps_lines


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("option", ["plain", "nfkc"])
def test_the_export_says_that_it_is_another_tokenizer(kind, option):
    spec = read_sentencepiece_model(train(kind, option), "x")
    assert read_tokenizer_json(write_tokenizer_json(spec), "t").fingerprint != spec.fingerprint
    assert (
        EXPORTS["huggingface"]
        .left_out(spec)
        .endswith("Imported again, the file is another tokenizer, with another fingerprint")
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("user-defined", "is defined by the user: tokenizer.json has no such pieces"),
        ("suffix", "stand after words"),
    ],
)
def test_what_the_file_cannot_hold_is_refused(option, message):
    spec = read_sentencepiece_model(train("unigram", option), "x")
    with pytest.raises(FormatError, match=message):
        write_tokenizer_json(spec)
