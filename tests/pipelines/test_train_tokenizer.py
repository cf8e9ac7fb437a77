"""Tokenizer.train gives the tokenizer of the build over the same documents, whatever they are held in."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas
import polars
import pyarrow as pa
import pytest
from support.builds import build_file, run, small_corpus, texts

import tokcore
from tokcore.count import language_counts, text_sources
from tokcore.errors import ConfigError, LearnError
from tokcore.look.progress_bar import Step
from tokcore.models.sentencepiece.piece_options import PieceOptions

# The documents of small_corpus.
CORPUS = [(text, lang) for lang, num in (("en", 30), ("ru", 30), ("zh", 30), ("hi", 12)) for text in texts(lang, num)]
TEXTS, LANGS = [text for text, _ in CORPUS], [lang for _, lang in CORPUS]

# Settings of a build file, and the same in Python.
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("[learn]\nvocab_size = 400", {"vocab_size": 400}),
    (
        '[learn]\nvocab_size = 330\nmin_count = 3\nmin_documents = 4\nmax_token_bytes = 6\n[mix]\nstrategy = "natural"',
        {"vocab_size": 330, "min_count": 3, "min_documents": 4, "max_token_bytes": 6, "mix": {"strategy": "natural"}},
    ),
    (
        '[learn]\nvocab_size = 300\n[mix]\nalpha = 0.3\nunit = "documents"\n'
        '[special]\n"<a>" = "document_end"\n"<b>" = "padding"',
        {
            "vocab_size": 300,
            "mix": {"alpha": 0.3, "unit": "documents"},
            "special": {"<a>": "document_end", "<b>": "padding"},
        },
    ),
    (
        '[learn]\nvocab_size = 320\n[normalize]\nsteps = ["nfkc", "lowercase"]\n'
        '[pretokenize]\nregex = "[a-z]+|[^a-z]+"',
        {"vocab_size": 320, "normalizer": ["nfkc", "lowercase"], "pattern": "[a-z]+|[^a-z]+"},
    ),
    (
        '[learn]\nmodel = "wordpiece"\nvocab_size = 180\n[count]\nmax_pretoken_bytes = 16\nmask = ["phone"]',
        {"model": "wordpiece", "vocab_size": 180, "max_pretoken_bytes": 16, "mask": ["phone"]},
    ),
    ('[learn]\nend_of_word = "</w>"\nvocab_size = 560', {"end_of_word": "</w>", "vocab_size": 560}),
    ('[learn]\nmodel = "wordpiece-pmi"\nvocab_size = 180', {"model": "wordpiece-pmi", "vocab_size": 180}),
    (
        '[learn]\nmodel = "unigram"\nvocab_size = 500\nsplit_digits = true',
        {"model": "unigram", "vocab_size": 500, "pieces": PieceOptions(split_digits=True)},
    ),
    (
        '[learn]\nmodel = "unigram"\nvocab_size = 500\n[pretokenize]\npattern = "cl100k"',
        {"model": "unigram", "vocab_size": 500, "pattern": "cl100k"},
    ),
    (
        '[learn]\nmodel = "sentencepiece-bpe"\nvocab_size = 500\ncharacter_coverage = 0.99',
        {"model": "sentencepiece-bpe", "vocab_size": 500, "character_coverage": "0.99"},
    ),
    ('[learn]\nmodel = "word"\nvocab_size = 100', {"model": "word", "vocab_size": 100}),
    ('[learn]\nmodel = "character"\nvocab_size = 150', {"model": "character", "vocab_size": 150}),
    ('[learn]\nmodel = "byte"', {"model": "byte"}),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    small_corpus(folder)
    return folder


@pytest.mark.parametrize(("in_file", "in_python"), SETTINGS)
def test_it_is_the_tokenizer_of_the_build(corpus, tmp_path, in_file, in_python):
    run(build_file(corpus, settings=in_file), tmp_path / "out")
    built = tokcore.Tokenizer.load(tmp_path / "out")
    trained = tokcore.Tokenizer.train(TEXTS, langs=LANGS, threads=2, **in_python)
    assert trained == built
    assert trained.vocab == built.vocab
    assert trained.encode_batch(TEXTS) == built.encode_batch(TEXTS)


def test_languages_weigh_and_one_language_is_none():
    apart = tokcore.Tokenizer.train(TEXTS, vocab_size=400, langs=LANGS)
    assert apart != tokcore.Tokenizer.train(TEXTS, vocab_size=400)
    english = TEXTS[:30]
    one = tokcore.Tokenizer.train(english, vocab_size=300, langs=["en"] * 30)
    assert one == tokcore.Tokenizer.train(english, vocab_size=300)


@pytest.mark.parametrize("threads", [1, 3])
def test_counts_that_do_not_fit_go_to_disk_and_nothing_changes(monkeypatch, threads):
    expected = tokcore.Tokenizer.train(TEXTS, vocab_size=400, langs=LANGS, min_documents=2)
    monkeypatch.setattr(text_sources, "BATCH_BYTES", 300)
    written = []

    def write_run(file, rows):
        written.append(file.name)
        return pretoken_write_run(file, rows)

    pretoken_write_run = language_counts.write_run
    monkeypatch.setattr(language_counts, "write_run", write_run)
    order = random.Random(5).sample(CORPUS, len(CORPUS))
    shuffled = {"text": [text for text, _ in order], "lang": [lang for _, lang in order]}
    how = {"vocab_size": 400, "min_documents": 2, "threads": threads, "memory_bytes": 1}
    trained = tokcore.Tokenizer.train(pa.table(shuffled), langs="lang", **how)
    assert trained == expected
    assert len(written) > (70 if threads == 1 else 10), "with one thread more than are open at a time"
    assert not any(Path(name).exists() for name in written)


TABLE = {"text": TEXTS, "lang": LANGS, "number": list(range(len(TEXTS)))}
FORMS: dict[str, Callable[[], Any]] = {
    "pyarrow.Table": lambda: pa.table(TABLE),
    "chunked": lambda: pa.concat_tables([pa.table(TABLE).slice(0, 50), pa.table(TABLE).slice(50)]),
    "pyarrow.RecordBatch": lambda: pa.RecordBatch.from_pydict(TABLE),
    "pyarrow.RecordBatchReader": lambda: pa.table(TABLE).to_reader(max_chunksize=7),
    "dictionaries": lambda: pa.table(TABLE | {"lang": pa.array(LANGS).dictionary_encode()}),
    "pandas": lambda: pandas.DataFrame(TABLE),
    "pandas of objects": lambda: pandas.DataFrame(
        {name: pandas.Series(one, dtype=object) for name, one in TABLE.items()}
    ),
    "polars": lambda: polars.DataFrame(TABLE),
    "datasets.Dataset": lambda: datasets.Dataset.from_dict(TABLE),
    "a shuffled Dataset": lambda: datasets.Dataset.from_dict(TABLE).shuffle(seed=3),
    "datasets.IterableDataset": lambda: datasets.Dataset.from_dict(TABLE).to_iterable_dataset(),
    "rows": lambda: ({"text": text, "lang": lang} for text, lang in CORPUS),
}
SERIES: dict[str, Callable[[], Any]] = {
    "a generator": lambda: (text for text in TEXTS),
    "bytes": lambda: [text.encode() for text in TEXTS],
    "pyarrow.Array": lambda: pa.array(TEXTS),
    "pyarrow.ChunkedArray": lambda: pa.chunked_array([TEXTS[:9], TEXTS[9:]], pa.large_string()),
    "pandas.Series": lambda: pandas.Series(TEXTS),
    "polars.Series": lambda: polars.Series(TEXTS),
    "a column of a Dataset": lambda: datasets.Dataset.from_dict(TABLE)["text"],
}


@pytest.fixture(scope="module")
def expected() -> tokcore.Tokenizer:
    return tokcore.Tokenizer.train(TEXTS, vocab_size=300, langs=LANGS)


@pytest.mark.parametrize("form", FORMS)
def test_whatever_table_holds_the_texts(expected, form):
    assert tokcore.Tokenizer.train(FORMS[form](), vocab_size=300, langs="lang") == expected


@pytest.mark.parametrize("form", SERIES)
def test_whatever_series_holds_the_texts(expected, form):
    assert tokcore.Tokenizer.train(SERIES[form](), vocab_size=300, langs=iter(LANGS)) == expected


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: ("a single text", {}), TypeError, "found a single one: put it in a list"),
        (lambda: (["a", None], {}), TypeError, r"texts\[1\]: expected str or bytes, found NoneType"),
        (lambda: (pa.array(["a", None]), {}), ValueError, r"texts\[1\] is null"),
        (lambda: (pa.table({"text": [1]}), {}), TypeError, "texts: expected a column of text, found int64"),
        (lambda: (pandas.DataFrame({"body": ["a"]}), {}), ConfigError, "text = 'text': .* it has 'body'"),
        (
            lambda: ([{"body": "a"}], {}),
            ConfigError,
            "no such column, row 0; it has 'body'",
        ),
        (lambda: ({"train": ["a"]}, {}), TypeError, "found a mapping of train: choose one"),
        (lambda: (["a"], {"langs": "en"}), ConfigError, "langs = 'en': texts are no table"),
        (lambda: (["a", "b"], {"langs": ["en"]}), ConfigError, "fewer of them than texts"),
        (lambda: (["a"], {"langs": ["en", "de"]}), ConfigError, "more of them than texts"),
        (lambda: (["a"], {"vocabsize": 3}), ConfigError, "no setting 'vocabsize': .* Did you mean vocab_size"),
        (lambda: (["a"], {"model": "bp"}), ConfigError, "model = 'bp': expected one of bpe"),
        (lambda: (["a"], {"vocab_size": 256}), ConfigError, r"vocab_size = 256: must be at least 257 \(256 for bytes"),
        (lambda: (["a"], {"mix": {"alfa": 1}}), ConfigError, "mix = .*alfa"),
        (lambda: (["a"], {"model": "sentencepiece-bpe", "pattern": "gpt2"}), ConfigError, "splits text by metaspace"),
        (lambda: ([], {}), LearnError, "there is no text to learn from"),
        (lambda: (["ab"], {"vocab_size": 300}), LearnError, r"vocab_size = 300: the counts give only 257 tokens"),
        (lambda: (["ab"], {"min_documents": 2}), LearnError, "no pre-token is in that many documents"),
    ],
)
def test_what_is_wrong_is_said(wrong, error, message):
    texts_of, settings = wrong()
    with pytest.raises(error, match=message):
        tokcore.Tokenizer.train(texts_of, **settings)


def test_progress_is_told_and_shown(capsys):
    told: list[Step] = []
    tokcore.Tokenizer.train(TEXTS, vocab_size=300, progress=told.append)
    assert [step for step in told if step.share == 1] == [
        Step("count", len(TEXTS), len(TEXTS), "documents"),
        Step("learn", 43, 43, "merges"),
    ]
    assert capsys.readouterr() == ("", "")
    tokcore.Tokenizer.train(iter(TEXTS), vocab_size=300, progress=True)
    assert capsys.readouterr().err.split() == f"learn {'━' * 24} 100% 43 of 43 merges".split()


def test_vocab_size_is_that_of_learn_bpe_with_special_tokens():
    trained = tokcore.Tokenizer.train(TEXTS, vocab_size=300)
    merges = tokcore.learn_bpe(tokcore.count_pretokens(TEXTS, "o200k"), 300, num_special=1)
    same = tokcore.Tokenizer.from_merges(merges, pattern="o200k", special={"<|endoftext|>": "document_end"})
    assert (len(trained), trained.vocab_size) == (300, 300)
    assert same == trained
