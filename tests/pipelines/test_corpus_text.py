"""Text of the corpus never acts as control: special-token text, secrets of few documents, masked spans, long tokens."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from support.builds import build_file, find_file, jsonl, run, texts, write

import tokcore as api
from tokcore.errors import ConfigError, LearnError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.commands.print_build import print_build
from tokcore_pipelines.local.terminal import format_size
from tokcore_pipelines.transforms.transforms import CountPretokens
from tokcore_pipelines.work.counted_parts import CountedPart, CountedParts
from tokcore_pipelines.work.learn_model import learn_tokenizers
from tokcore_schemas.config import load_config
from tokcore_schemas.document import Document
from tokcore_schemas.stage_table import COUNTS

# Each secret is one pre-token that shares no pair of letters with the rest: (secret, documents that hold it, its
# occurrences, languages).
SECRETS = [
    ("XQJKZVPWRZ", 1, 100_000, ["en"]),
    ("QZJXVKWQYV", 2, 100_000, ["en"]),
    ("KJXZQWVHZY", 2, 100_000, ["en", "ru"]),
    ("GVZQXJKWBZ", 4, 100_000, ["en", "ru"]),
]

ENGLISH = """
[[source]]
lang = "en"
files = "en.jsonl"
"""


@pytest.fixture(scope="module")
def with_secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build's folder: secrets in few documents of a small corpus. Nothing is learned from words of one document."""
    folder = tmp_path_factory.mktemp("secrets")
    documents = {lang: [{"text": text} for text in texts(lang, 30)] for lang in ("en", "ru")}
    for secret, num_documents, times, langs in SECRETS:
        for number in range(num_documents):
            lang = langs[number % len(langs)]
            documents[lang].append({"text": f"{secret}\n" * (times // num_documents)})
    for lang, some in documents.items():
        write(folder / f"{lang}.jsonl", jsonl(some))
    sources = ENGLISH + ENGLISH.replace("en", "ru")
    run(build_file(folder, sources, "[learn]\nvocab_size = 300\nmin_documents = 2\n"), folder / "out")
    return folder


def learned(folder: Path, **limits: int) -> set[bytes]:
    """The tokens learned from the folder's count tables."""
    config = load_config(str(folder / "build.toml"))
    config = dataclasses.replace(config, learn=dataclasses.replace(config.learn, **limits))
    counts = find_manifest(str(folder / "out"), COUNTS)
    return set(
        learn_tokenizers(config, (config.vocab_size,), CountedParts((CountedPart(str(folder / "out"), counts),)), 1)
        .specs[config.vocab_size]
        .model.tokens
    )


def longest_part(tokens: set[bytes], secret: str) -> int:
    """Length in bytes of the longest token that is a part of the secret."""
    return max(len(token) for token in tokens if token in secret.encode())


@pytest.mark.parametrize("least", [0, 1, 2, 3, 5])
def test_a_secret_of_fewer_documents_does_not_become_a_token(with_secrets, least):
    """The secret occurs a hundred thousand times, so it would become a token if rows of so few documents took part."""
    tokens = learned(with_secrets, min_documents=least)
    for secret, num_documents, _, _ in SECRETS:
        if num_documents >= least:
            assert secret.encode() in tokens
        else:
            assert longest_part(tokens, secret) <= 2


def test_what_takes_no_part_in_learning_is_encoded_all_the_same(with_secrets):
    tokenizer = api.Tokenizer.load(with_secrets / "out")
    assert set(tokenizer.spec.model.tokens) == learned(with_secrets, min_documents=2)
    decoded = b"".join(map(tokenizer.decode, api.open_shards(with_secrets / "out")))
    for secret, _, times, _ in SECRETS:
        assert decoded.count(secret.encode()) == times


def test_no_pretoken_in_that_many_documents_is_an_error_that_says_so(with_secrets):
    with pytest.raises(LearnError, match=r"learn.min_documents = 1000: no pre-token is in that many documents"):
        learned(with_secrets, min_documents=1000)


def test_no_token_of_a_build_is_longer_than_allowed(with_secrets):
    assert max(map(len, learned(with_secrets, min_documents=0))) == 10
    assert max(map(len, learned(with_secrets, min_documents=0, max_token_bytes=6))) == 6


MASKED_EN = [
    "Write to bob.smith@example.org now.",
    "Twice: x@y.de, x@y.de and 4111 1111 1111 1111!",
    "None here at all.",
]


def test_masked_spans_are_not_counted_but_encoded_and_their_bytes_are_reported(tmp_path, capsys):
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in MASKED_EN * 3]))
    write(tmp_path / "ru.jsonl", jsonl([{"text": text} for text in texts("ru", 9)]))
    write(tmp_path / "all.jsonl", jsonl([{"text": "a@b.de"}]))
    sources = ENGLISH + ENGLISH.replace("en", "ru") + ENGLISH.replace("en.jsonl", "all.jsonl").replace("en", "ca")
    masked = '[count]\nmask = ["email", "card"]\n[learn]\nvocab_size = 280\n'
    build = run(build_file(tmp_path, sources, masked), tmp_path / "out")
    other = masked.replace('"email", "card"', '"card", "email"')
    again = run(build_file(tmp_path, sources, other, "again.toml"), tmp_path / "again", 2)
    assert again == build  # neither the order of the presets nor the number of workers changes a byte
    plain = run(
        build_file(tmp_path, sources, masked.replace('"email", "card"', ""), "plain.toml"), tmp_path / "plain", 1
    )

    tables = {
        path.stem.rpartition("-")[0]: pq.read_table(path) for path in (tmp_path / "out" / "counts").glob("*.parquet")
    }
    assert tables["en"].equals(api.count_pretokens(MASKED_EN * 3, mask=["card", "email"]).combine_chunks())
    assert b"@" not in b"".join(tables["en"]["pretoken"].to_pylist())
    ours, plains = (find_file(tmp_path / name, "counts/ru.parquet") for name in ("out", "plain"))
    assert ours.read_bytes() == plains.read_bytes()
    assert ours.name != plains.name
    assert "ca" not in tables  # nothing is left of it

    counted = json.loads((tmp_path / "out" / "counts" / "manifest.json").read_bytes())["languages"]
    assert counted["en"]["masked"] == {"card": 3, "email": 9}
    for lang in ("en", "ru", "ca"):
        rows = tables[lang].to_pylist() if lang in tables else []
        in_table = sum(len(row["pretoken"]) * row["count"] for row in rows)
        assert in_table + counted[lang]["masked_bytes"] == counted[lang]["counted_bytes"]
        assert build.languages[lang].masked_bytes == counted[lang]["masked_bytes"]
        assert plain.languages[lang].masked_bytes is None
    assert counted["ru"]["masked"] == {}
    print_build(str(tmp_path / "out"), build)
    shown = capsys.readouterr().out
    assert shown.splitlines()[1].split()[-1] == "masked"
    english = next(line for line in shown.splitlines() if line.startswith("en "))
    assert english.endswith(f" {format_size(counted['en']['masked_bytes'])}")

    tokenizer = api.Tokenizer.load(tmp_path / "out")
    decoded = [tokenizer.decode(document) for document in api.open_shards(tmp_path / "out")]
    assert sum(b"bob.smith@example.org" in text for text in decoded) == 3
    assert sum(b"4111 1111 1111 1111" in text for text in decoded) == 3


def test_documents_of_a_users_pipeline_are_masked_alike(tmp_path):
    documents = [Document("en", "", text) for text in MASKED_EN]
    with beam.Pipeline() as pipeline:
        _ = pipeline | beam.Create(documents) | CountPretokens(str(tmp_path / "counts"), mask=["email", "card"])
    table = pq.read_table(tmp_path / "counts" / "en.parquet")
    assert table.equals(api.count_pretokens(MASKED_EN, mask=["card", "email"]).combine_chunks())
    with pytest.raises(ConfigError, match="no preset"):
        CountPretokens(str(tmp_path), mask=["mail"])


def test_special_token_text_stays_text_is_counted_and_shown(tmp_path, capsys):
    """No look-alike becomes the token either; the token itself occurs once per document, as its end."""
    spelled = ["a<|endoftext|>b", "<|endoftext|><|endoftext|>", "\uff1c|endoftext|\uff1e", "<|endoftext", "|>"]
    write(tmp_path / "en.jsonl", jsonl([{"text": text} for text in [*spelled, *texts("en", 9)]]))
    settings = "[learn]\nvocab_size = 300\n[normalize]\nsteps = ['nfkc']\n"
    build = run(build_file(tmp_path, ENGLISH, settings), tmp_path / "out")
    assert build.totals.special_text == {"<|endoftext|>": 3}
    shards = json.loads((tmp_path / "out" / "shards" / "manifest.json").read_bytes())
    assert shards["totals"]["special_text"] == {"<|endoftext|>": 3}
    end = api.Tokenizer.load(tmp_path / "out").special_id("<|endoftext|>")
    for document in api.open_shards(tmp_path / "out"):
        assert (document == end).tolist() == [False] * (len(document) - 1) + [True]
    print_build(str(tmp_path / "out"), build)
    shown = capsys.readouterr().out
    assert "corpus text spells '<|endoftext|>' 3 times: encoded as ordinary text" in shown
