"""What the benchmarks read: pages are whole on one side when documents are held out, and English has its premium."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))
import fairness
import texts
from support.vocabularies import published_encoding, rank_file_bytes

from tokcore import Tokenizer
from tokcore.models.bpe import LearnedModel


def test_all_parts_of_a_page_are_on_one_side(tmp_path: Path):
    """Dealt by document, a page would be learned from in part and held out in part."""
    for lang in ("en", "de"):
        (tmp_path / lang).mkdir()
        records = [{"id": f"{page}#{part}", "text": f"{lang} {page} {part}"} for page in range(50) for part in range(4)]
        (tmp_path / lang / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "a.txt").write_text("\n\n\n".join(f"fr {number}" for number in range(200)))
    kept, held_out = fairness.deal_documents(tmp_path)
    for lang in ("en", "de"):
        sides = [Counter(text.split()[1] for text in side[lang]) for side in (kept, held_out)]
        assert sides[0].keys().isdisjoint(sides[1])
        assert set(sides[0].values()) == set(sides[1].values()) == {4}
        assert 0.1 < len(sides[1]) / 50 < 0.35
    assert len(kept["fr"]) + len(held_out["fr"]) == 200
    assert 0.1 < len(held_out["fr"]) / 200 < 0.35


def test_english_is_among_the_languages_of_the_premium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fairness, "FLORES", {"en": "eng_Latn", "de": "deu_Latn"})
    for name, sentences in (("eng_Latn", "\na b"), ("deu_Latn", "an odd line\naa bb")):
        (tmp_path / f"{name}.txt.zst").write_bytes(zstandard.ZstdCompressor().compress(sentences.encode()))
    spec = fairness.Pretokenizer.named("gpt2").spec
    model = LearnedModel(np.empty((0, 2), np.int64))
    by_byte = Tokenizer(fairness.make_learned_spec(model, spec, (), ()))
    assert fairness.premiums(by_byte, fairness.read_sentences(tmp_path)) == {"en": 1.0, "de": 5 / 3}


def test_bits_per_byte_stand_beside_those_of_the_first_row(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fairness, "PREDICTED", ("en", "de"))
    learned, predicted = (
        {lang: [" ".join(words[i * n % 7 : i * n % 7 + 3]) for i in numbers] for lang, n, words in _WORDS}
        for numbers in (range(1, 40), range(40, 60))
    )
    first = Tokenizer.train([text for of in learned.values() for text in of], vocab_size=270)
    second = Tokenizer.train(learned["en"], vocab_size=270)
    told = fairness.predict({"first": first, "second": second}, learned, predicted)
    rows = {row[0]: row[1:] for row in fairness.tabulate_prediction("", told).rows}
    assert [rows["first"][at] for at in (1, 4)] == ["+0.00 ± 0.00 %"] * 2
    for at, kind in ((0, "equal_data"), (3, "equal_tokens")):
        ours, theirs = (
            {lang: math.fsum(one.bits) / sum(one.sizes_bytes) for lang, one in ((x, getattr(of[x], kind)) for x in of)}
            for of in (told["second"], told["first"])
        )
        assert rows["second"][at].split(" ± ")[0] == f"{sum(ours.values()) / 2:.3f}"
        more = 100 * (sum(ours.values()) / sum(theirs.values()) - 1)
        assert rows["second"][at + 1].split(" ± ")[0] == f"{more:+.2f}"
        shares = {lang: 100 * (ours[lang] / theirs[lang] - 1) for lang in ours}
        worst = max(shares, key=lambda lang: shares[lang])
        assert worst == "de"
        assert rows["second"][at + 2].split(" ± ")[0] == f"{shares[worst]:+.2f}"
        assert rows["second"][at + 2].endswith("% de")


_WORDS = (
    ("en", 3, ["some", "words", "that", "come", "one", "after", "the", "other", "and", "more"]),
    ("de", 5, ["manche", "Wörter", "die", "aufeinander", "folgen", "und", "noch", "einige", "mehr"]),
)


def test_the_other_library_learns_the_merges_of_the_natural_mix():
    given = {lang: [" ".join(words[i * n % 7 :]) + f" {i * i}" for i in range(40)] for lang, n, words in _WORDS}
    odd = fairness.take_odd_lines({"en": [b"a", b"b"], "de": [b"a", b"b"]})
    counted = fairness.count_languages(given, "o200k")
    ours = fairness.learn_tokenizer(counted, fairness.CHOICES["natural, o200k"], 300, odd)
    theirs = fairness.learn_with_peer("tokenizers BPE, natural, o200k", given, 300)
    assert ours.vocab_size == theirs.vocab_size == 300
    for text in given["en"] + given["de"]:
        pieces = [[one.decode([id]) for id in one.encode(text)] for one in (ours, theirs)]
        assert pieces[0] == pieces[1]


def test_published_tokenizers_stand_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fairness, "PREDICTED", ("en", "de"))
    file = tmp_path / "cl100k.tiktoken"
    file.write_bytes(rank_file_bytes("cl100k"))
    given = {lang: [" ".join(words[i % 7 :]) + f" {i}" for i in range(20)] for lang, _, words in _WORDS}
    given["code-c"] = ["int main(void);"]
    sentences = {lang: [b"", " ".join(words).encode()] for lang, _, words in _WORDS}
    row = fairness.tabulate_published([file], given, given, sentences).rows[0]
    num_tokens = {text: len(published_encoding("cl100k").encode(text)) for of in given.values() for text in of}
    assert row[:2] == ["cl100k", "100,277"]
    assert row[2] == f"{sum(len(text.encode()) for text in num_tokens) / sum(num_tokens.values()):.3f}"
    assert row[4] == f"{15 / num_tokens['int main(void);']:.3f}"
    english, german = (len(published_encoding("cl100k").encode(of[1].decode())) for of in sentences.values())
    assert row[6] == f"{german / english:.2f} de"


def test_pages_are_ids_without_their_parts(tmp_path: Path):
    (tmp_path / "en").mkdir()
    records = [{"id": "x/y#12", "text": "a"}, {"text": "b", "lang": "de"}, {"id": 7, "text": "c"}]
    (tmp_path / "en" / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert [*texts.documents(tmp_path)] == [("en", "x/y", "a"), ("de", "", "b"), ("en", "7", "c")]
