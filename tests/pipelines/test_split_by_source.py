"""`[[source]] validation = true`: all documents of a source are in the validation split, and no others need be."""

from __future__ import annotations

import dataclasses

import pytest
from support.builds import WORDS, build_file, jsonl, run, texts, write

import tokcore
from tokcore_pipelines.check import verify_shards
from tokcore_pipelines.check.verify import verify

SETTINGS = """
[plan]
range_bytes = 3000
[learn]
vocab_size = 300
[shards]
target_tokens = 300
validation = {share}
{shuffle}
"""


@pytest.fixture
def build(tmp_path):
    """Builds with a share of documents, in plan order or shuffled; gives the output."""
    sources = ""
    for lang in WORDS:
        write(tmp_path / f"{lang}.jsonl", jsonl([{"text": text} for text in texts(lang, 25)]))
        sources += f'[[source]]\nlang = "{lang}"\nfiles = "{lang}.jsonl"\n'
        sources += "validation = true\n" if lang in ("hi", "zh") else ""

    def build(share, shuffle=""):
        path = build_file(tmp_path, sources, SETTINGS.format(share=share, shuffle=shuffle))
        output = tmp_path / f"out-{share}-{bool(shuffle)}"
        run(path, output)
        return output

    return build


def count_by_language(output, split):
    shards = tokcore.open_shards(output, split)
    langs = [shards.document(i).lang for i in range(len(shards))]
    return {lang: langs.count(lang) for lang in sorted(set(langs))}


@pytest.mark.parametrize("shuffle", ["", "[shuffle]\nseed = 1"], ids=["plan-order", "shuffled"])
def test_a_source_is_kept_for_validation(build, shuffle):
    output = build(0, shuffle)
    assert count_by_language(output, "train") == {"en": 25, "ru": 25}
    assert count_by_language(output, "validation") == {"hi": 25, "zh": 25}
    assert verify(str(output), decode=None).problems == ()


def test_with_a_share_of_the_others(build):
    output = build(0.3)
    train, validation = (count_by_language(output, split) for split in ("train", "validation"))
    assert set(train) == {"en", "ru"}
    assert validation["hi"] == validation["zh"] == 25
    assert {lang: num + validation[lang] for lang, num in train.items()} == {"en": 25, "ru": 25}
    assert verify(str(output)).problems == ()


@pytest.mark.parametrize("expected", ["", "hi.jsonl"])
def test_verify_asks_for_the_split_of_the_source(build, monkeypatch, expected):
    """As if another source were the one that is kept."""
    output = build(0)
    make_rules = verify_shards.make_rules

    def make_other_rules(*arguments):
        return dataclasses.replace(make_rules(*arguments), validation=frozenset([expected]))

    monkeypatch.setattr("tokcore_pipelines.check.verify_shards.make_rules", make_other_rules)
    problems = verify(str(output)).problems
    assert any("is of split validation, and its source is not for validation" in one for one in problems), problems
