"""tokcore chunk: a Parquet file of chunks, from files and from outputs."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from support.builds import build_file, jsonl, run, small_corpus, tokcore, write

from tokcore import open_shards
from tokcore.tokenizer.tokenizer import Tokenizer

SETTINGS = """
[learn]
vocab_size = 400
[special]
"<s>" = "document_begin"
"<|end|>" = "document_end"
[shards]
target_tokens = 1500
validation = 0.1
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chunk")
    small_corpus(folder)
    run(build_file(folder, settings=SETTINGS), folder / "out")
    return folder / "out"


def join(rows):
    """(source, ordinal) -> the text that chunks give."""
    found = {}
    for row in rows:
        whole = found.setdefault((row["source"], row["ordinal"]), b"")
        assert row["byte_start"] <= len(whole)
        found[row["source"], row["ordinal"]] = whole[: row["byte_start"]] + row["text"].encode()
    return found


def test_chunks_of_an_output_give_its_documents(output, tmp_path):
    target = tmp_path / "chunks.parquet"
    done = tokcore("chunk", output, "--tokens", "40", "--overlap", "8", "-o", target, "--json")
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(target).to_pylist()
    shards, tokenizer = open_shards(output, "all"), Tokenizer.load(str(output / "tokenizer" / "tokcore.json"))
    texts = {}
    for number, ids in enumerate(shards):
        about = shards.document(number)
        texts[about.source, about.ordinal] = tokenizer.decode(ids[1:-1])
        assert about.id in {row["document"] for row in rows if row["source"] == about.source}
    assert join(rows) == {place: text for place, text in texts.items() if text}
    assert all(row["num_tokens"] <= 40 for row in rows)
    report = json.loads(done.stdout)
    assert (report["documents"], report["chunks"]) == (len(shards), len(rows))


def test_files_are_read_as_a_build_reads_them(output, tmp_path):
    write(
        tmp_path / "a.jsonl.zst", jsonl([{"id": "1", "body": "One. Two."}, {"id": "2"}, {"id": "3", "body": "x " * 90}])
    )
    target = tmp_path / "chunks.parquet"
    options = ("--text", "body", "--id", "id", "--lang", "en", "--tokenizer", output, "--tokens", "50")
    done = tokcore("chunk", tmp_path / "a.jsonl.zst", *options, "--overlap", "0", "-o", target)
    assert done.returncode == 0, done.stderr
    assert "rejected: missing_text, 1" in done.stderr
    rows = pq.read_table(target).to_pylist()
    assert [*join(rows).values()] == [b"One. Two.", b"x " * 90]
    assert {(row["document"], row["lang"]) for row in rows} == {("1", "en"), ("3", "en")}
    assert done.stdout.startswith(f"{target}: {len(rows)} chunks, 2 documents, ")


def test_what_is_wrong_is_said_before_a_file_is_written(output, tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": "One."}]))
    target = tmp_path / "chunks.parquet"
    for arguments, why in (
        ((tmp_path / "a.jsonl",), "name what counts tokens: --tokenizer URL"),
        ((output, "--overlap", "300"), "overlap = 300: expected 0 to 256"),
        ((output, "--tokens", "4"), "tokens = 4: expected at least 8"),
        ((tmp_path / "no.jsonl", "--tokenizer", output), "no.jsonl"),
    ):
        done = tokcore("chunk", *arguments, "-o", target)
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
        assert not target.exists()
