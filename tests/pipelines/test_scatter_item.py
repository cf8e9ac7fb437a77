"""The first pass of a shuffle: what an interrupted work item left is kept, and nothing is lost or doubled."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from support.builds import WORDS, jsonl, texts, write
from support.vocabularies import spec_of_merges

import tokcore
from tokcore.errors import LedgerError, StageError
from tokcore.formats.shard_format import ShardSettings
from tokcore_pipelines.reading.input_range import make_read_settings
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work import scatter_item as module
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.scatter_item import scatter_item
from tokcore_pipelines.work.scattered_runs import read_scattered
from tokcore_schemas.config import Source
from tokcore_schemas.plan import AssignedRange, Assignment
from tokcore_schemas.shuffle import SPAN, get_heads, get_interval
from tokcore_schemas.stage_manifests import ShardsConfig

DOCUMENTS = [{"text": texts(lang, 1, i)[0], "l": lang} for i in range(30) for lang in WORDS]


@pytest.fixture
def assignment(tmp_path):
    pin = storage.stat(str(write(tmp_path / "a.jsonl", jsonl(DOCUMENTS))))
    settings = make_read_settings(Source(files=("a.jsonl",), lang_field="l"), "jsonl", "none")
    return Assignment(3, (AssignedRange(0, "a.jsonl", pin.size_bytes, pin.version, 0, pin.size_bytes, settings),))


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SPILL_TOKENS", 500)
    monkeypatch.setattr(module.cut_into_slices, "__defaults__", (2000,))  # many calls per item
    merges = tokcore.learn_bpe(tokcore.count_pretokens([str(d["text"]) for d in DOCUMENTS]), vocab_size=300)
    spec = spec_of_merges(merges, {"name": "cl100k"}, (), [])
    (tmp_path / "tokcore.json").write_bytes(spec.to_json_bytes())
    return EncodeJob(
        attempts=Attempts(str(tmp_path / "out"), "shards", "0" * 64),
        config=ShardsConfig(("arrow",), 700, "plan", "0.2", "zstd", (), "ordinary", shuffle=7),
        settings=ShardSettings(spec.fingerprint, spec.vocab_size, "zstd"),
        base=str(tmp_path),
        tokenizer=str(tmp_path / "tokcore.json"),
    )


def read_all(job, done):
    """(place, ordinal, tokens, split) of every document, with how often each is there."""
    found = Counter()
    for run in done.runs:
        first, last = get_interval(run.run.partition, 4)
        before = b""
        num = 0
        for part in read_scattered(job.attempts, run):
            assert all(first <= head < last for head in get_heads(part.places).tolist())
            for i, place in enumerate(part.places):
                assert before <= place.tobytes()
                before = place.tobytes()
                tokens = part.tokens.tokens[part.tokens.offsets[i] : part.tokens.offsets[i + 1]].tolist()
                found[before, int(part.tokens.ordinals[i]), tuple(tokens), bool(part.is_validation[i])] += 1
            num += part.tokens.num_documents
        assert num == run.documents
    return found


class Power(Exception):  # noqa: N818 - that fails
    pass


def interrupt(job, assignment, monkeypatch):
    """Let the power fail at the fourth file of an item; later files are written as before."""
    write_scattered = module.write_scattered
    left = 3

    def failing(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise Power
        return write_scattered(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_scattered", failing)
        with pytest.raises(Power):
            scatter_item(job, 4, assignment)


def test_files_of_an_interrupted_item_stand(job, assignment, tmp_path, monkeypatch):
    whole = scatter_item(job, 4, assignment)
    expected = read_all(job, whole)
    assert sum(expected.values()) == len(expected) == len(DOCUMENTS)
    assert {split for *_, split in expected} == {True, False}
    job = dataclasses.replace(job, attempts=Attempts(str(tmp_path / "again"), "shards", "0" * 64))
    interrupt(job, assignment, monkeypatch)
    write_scattered, written = module.write_scattered, []

    def noting(new, documents, num_buckets):
        written.append(documents.tokens.num_documents)
        return write_scattered(new, documents, num_buckets)

    monkeypatch.setattr(module, "write_scattered", noting)
    again = scatter_item(job, 4, assignment)
    assert read_all(job, again) == expected
    assert sum(written) < len(DOCUMENTS) - 3
    assert (again.languages, again.ledgers) == (whole.languages, whole.ledgers)


def test_an_interval_of_places_alone(job, assignment, tmp_path):
    expected = read_all(job, scatter_item(job, 4, assignment))
    half = dataclasses.replace(job, attempts=Attempts(str(tmp_path / "half"), "shards", "0" * 64))
    found = read_all(half, scatter_item(half, 4, assignment, (0, SPAN // 2)))
    assert found == {key: num for key, num in expected.items() if key[0][0] < 128}
    assert 0 < len(found) < len(expected)


def test_an_attempt_that_reads_fewer_documents_is_refused(job, assignment, monkeypatch):
    interrupt(job, assignment, monkeypatch)
    shorter = dataclasses.replace(assignment.ranges[0], start=0, end=1)
    with pytest.raises(StageError, match="fewer than an earlier attempt read"):
        scatter_item(job, 4, Assignment(3, (shorter,)))


def test_a_damaged_run_is_named(job, assignment):
    done = scatter_item(job, 4, assignment)
    run = done.runs[0].run
    path = Path(job.attempts.url(run.attempt))
    data = bytearray(path.read_bytes())
    data[run.offset + run.size_bytes // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(LedgerError, match="not the documents that were written there"):
        list(read_scattered(job.attempts, done.runs[0]))
