"""Drift: what landed last beside the tokenizer's own corpus, with limits that an owner learns of."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from support.builds import build_file, run, tokcore
from support.updates import SETTINGS, SOURCES, make_texts, write_corpus, write_file
from support.watchers import said, watching

import tokcore as package
from tokcore.errors import ConfigError
from tokcore.text.texts import make_texts_from_strings
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.watch.drift import Drift, make_filter
from tokcore_pipelines.watch.read_status import read_status
from tokcore_schemas.build_tables import WatchTable

WINDOW = {"drift_window_bytes": 500}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    write_corpus(folder)
    run(build_file(folder, SOURCES, SETTINGS), folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def measure_slowly(folder: Path, output: Path, texts: list[str]) -> dict:
    """The figures of some documents, counted one by one."""
    tokenizer = package.Tokenizer.load(output)
    ids = [id for text in texts for id in tokenizer.encode(text).tolist()]
    lengths = [len(tokenizer.token_bytes(id)) for id in ids]
    pretokens = Counter(one for text in texts for one in package.pretokenize(text))
    known = {
        one
        for lang in ("en", "de", "fr")
        for one in package.open_counts(output, lang, at=0).column("pretoken").to_pylist()
    }
    size = sum(len(text.encode()) for text in texts)
    unseen = sum(number for one, number in pretokens.items() if one.encode() not in known)
    return {
        "text_bytes": size,
        "bytes_per_token": round(size / (len(ids) + len(texts)), 4),  # each document ends with a token
        "short_tokens": round(sum(one for one in lengths if one < 3) / sum(lengths), 4),
        "unseen": unseen / sum(pretokens.values()),
    }


def test_the_figures_are_those_of_the_documents(corpus):
    texts = [f"Ein völlig anderer Satz, Nummer {i}: ÄÖÜ {i * 7919}" for i in range(30)]
    with watching(corpus, **WINDOW) as watcher:
        watcher.go_round()
        assert read_status(str(corpus / "out"))["drift"]["window"]["text_bytes"] == 0
        write_file(corpus, "mixed/new.jsonl", texts, "de")
        watcher.go_round()
        drift = read_status(str(corpus / "out"))["drift"]
        expected = measure_slowly(corpus, corpus / "out", texts)
        assert drift["window"]["unseen"] == pytest.approx(expected.pop("unseen"), abs=0.01)  # by a filter
        assert {name: drift["window"][name] for name in expected} == expected
        assert drift["window"]["languages"] == {"de": 1.0}
        build = read_log(str(corpus / "out")).build
        assert drift["baseline"]["languages"].keys() == {"en", "de", "fr"}
        assert drift["baseline"]["text_bytes"] == build.totals.text_bytes
        assert drift["baseline"]["unseen"] == 0
        assert drift["exceeded"].keys() == {
            *("bytes_per_token", "short_tokens", "unseen"),
            *("language de", "language en", "language fr"),
        }
        assert said(watcher).count("does the tokenizer still fit?") == 6
        write_file(corpus, "mixed/more.jsonl", texts, "de")
        watcher.go_round()
        assert said(watcher).count("does the tokenizer still fit?") == 6  # once for each
        metrics = watcher.meters.write().decode()
        assert 'tokcore_drift_exceeded{figure="unseen"} 1.0' in metrics
        assert 'tokcore_drift_language_share{language="de",of="window"} 1.0' in metrics
        assert f'tokcore_drift_bytes_per_token{{of="window"}} {expected["bytes_per_token"]}' in metrics


def test_the_same_kind_of_text_does_not_drift(corpus):
    with watching(corpus, **WINDOW, drift_language=Decimal("0.4")) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("a", 8))
        write_file(corpus, "mixed/f.jsonl", make_texts("c", 6), "de")
        write_file(corpus, "mixed/g.jsonl", make_texts("d", 6), "fr")
        watcher.go_round()
        drift = read_status(str(corpus / "out"))["drift"]
        assert (drift["is_full"], drift["exceeded"]) == (True, {})
        assert drift["window"]["unseen"] == 0
        assert 'tokcore_drift_exceeded{figure="unseen"} 0.0' in watcher.meters.write().decode()


def test_nothing_is_judged_before_a_window_has_landed(corpus):
    with watching(corpus, drift_window_bytes=10_000) as watcher:
        write_file(corpus, "mixed/new.jsonl", ["ÄÖÜ"] * 5, "de")
        watcher.go_round()
        drift = read_status(str(corpus / "out"))["drift"]
        assert (drift["is_full"], drift["exceeded"]) == (False, {})
        assert drift["window"]["short_tokens"] > drift["baseline"]["short_tokens"]


def test_the_window_is_what_landed_last(corpus):
    with watching(corpus, drift_window_bytes=300) as watcher:
        for lang in ("de", "fr"):
            write_file(corpus, f"mixed/{lang}.jsonl", make_texts("c", 10), lang)
            watcher.go_round()
        assert read_status(str(corpus / "out"))["drift"]["window"]["languages"] == {"fr": 1.0}


def begin_with(corpus: Path) -> Path:
    """Move the output away: another one is to begin with its tokenizer."""
    shutil.move(corpus / "out", corpus / "tokenizer")
    shutil.move(corpus / "en", corpus / "later")
    shutil.rmtree(corpus / "mixed")
    return corpus / "tokenizer"


def test_an_output_begun_with_a_tokenizer_is_compared_with_where_it_was_learned(corpus):
    tokenizer = begin_with(corpus)
    with watching(corpus, tokenizer, count=True, **WINDOW) as watcher:
        watcher.go_round()
        shown = tokcore("status", corpus / "out", "--drift").stdout
        assert "drift: nothing has landed yet" in shown
        assert "bytes per token" not in shown
        shutil.move(corpus / "later", corpus / "en")
        watcher.go_round()
        drift = read_status(str(corpus / "out"))["drift"]
        assert drift["against"] == str(tokenizer)
        assert drift["baseline"]["text_bytes"] == read_log(str(tokenizer)).build.totals.text_bytes
        assert drift["window"]["unseen"] == 0


def test_without_its_corpus_the_first_window_is_the_baseline(corpus):
    tokenizer = begin_with(corpus)
    alone = corpus / "alone.json"
    shutil.copy(tokenizer / "tokenizer" / "tokcore.json", alone)
    with watching(corpus, alone, count=True, drift_window_bytes=300) as watcher:
        for number in range(4):
            write_file(corpus, f"en/{number}.jsonl", make_texts("a" if number < 3 else "zebra", 6))
            watcher.go_round()
            drift = read_status(str(corpus / "out"))["drift"]
            assert (drift["baseline"] is not None) == (number > 0)
        assert drift["against"] == "the first files that landed"
        assert "unseen" in drift["exceeded"]
    assert "no watcher" in tokcore("status", corpus / "out").stdout
    shown = tokcore("status", corpus / "out", "--drift", "--baseline", tokenizer, "--json")
    assert json.loads(shown.stdout)["drift"]["against"] == str(tokenizer)
    assert "bytes per token" in tokcore("status", corpus / "out", "--drift").stdout


def test_without_counts_the_rest_is_measured(corpus):
    tokenizer = begin_with(corpus)
    with watching(corpus, tokenizer, **WINDOW) as watcher:
        shutil.move(corpus / "later", corpus / "en")
        watcher.go_round()
        window = read_status(str(corpus / "out"))["drift"]["window"]
        assert (window["unseen"], window["bytes_per_token"] > 1) == (None, True)


def test_another_tokenizer_is_no_baseline(corpus):
    text = (corpus / "build.toml").read_text()
    (corpus / "other.toml").write_text(text.replace("vocab_size = 280", "vocab_size = 281"))
    run(corpus / "other.toml", corpus / "other")
    log = read_log(str(corpus / "out"))
    for named, words in (("other", "another tokenizer"), ("nothing", "no finished build")):
        with pytest.raises(ConfigError, match=words):
            Drift(str(corpus / "out"), WatchTable(), str(corpus / named)).measure(log)
    with watching(corpus, drift_baseline=str(corpus / "other"), **WINDOW) as watcher:
        write_file(corpus, "en/e.jsonl", make_texts("e", 5))
        watcher.go_round()
        watcher.go_round()
        assert said(watcher).count("drift is not measured: watch.drift_baseline") == 1
        assert read_log(str(corpus / "out")).newest == 1  # nothing else waits for it


def test_an_expired_build_is_a_baseline_without_counts(corpus):
    with watching(corpus) as watcher:
        write_file(corpus, "en/a.jsonl", make_texts("x", 5))  # all files of the build are read again
        write_file(corpus, "mixed/c.jsonl", make_texts("y", 5), "de")
        watcher.go_round()
    expire(str(corpus / "out"), keep=1)
    drift = Drift(str(corpus / "out"), dataclasses.replace(WatchTable(), **WINDOW)).measure(
        read_log(str(corpus / "out"))
    )
    assert drift["baseline"]["bytes_per_token"] > 1
    assert drift["baseline"]["unseen"] is drift["window"]["unseen"] is None


def test_the_filter_holds_the_pretokens_of_all_languages(built):
    seen = make_filter([str(built / "out")])
    for lang in ("en", "de", "fr"):
        pretokens = package.open_counts(built / "out", lang).column("pretoken").to_pylist()
        assert seen.find(make_texts_from_strings(pretokens)).all()
