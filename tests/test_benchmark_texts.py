"""What the benchmarks read: pages are whole on one side when documents are held out, and English has its premium."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))
import fairness
import texts

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
    for name, sentences in (("eng_Latn", "a b\nc d"), ("deu_Latn", "aa bb\ncc dd")):
        (tmp_path / f"{name}.txt.zst").write_bytes(zstandard.ZstdCompressor().compress(sentences.encode()))
    spec = fairness.Pretokenizer.named("gpt2").spec
    model = LearnedModel(np.empty((0, 2), np.int64))
    by_byte = Tokenizer(fairness.make_learned_spec(model, spec, (), ()))
    assert fairness.premiums(by_byte, tmp_path) == {"en": 1.0, "de": 10 / 6}


def test_pages_are_ids_without_their_parts(tmp_path: Path):
    (tmp_path / "en").mkdir()
    records = [{"id": "x/y#12", "text": "a"}, {"text": "b", "lang": "de"}, {"id": 7, "text": "c"}]
    (tmp_path / "en" / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert [*texts.documents(tmp_path)] == [("en", "x/y", "a"), ("de", "", "b"), ("en", "7", "c")]
