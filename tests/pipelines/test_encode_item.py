"""An interrupted work item keeps its finished shards, and the rest is the same as if nothing had happened."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.builds import WORDS, jsonl, texts, write
from support.vocabularies import spec_of_merges

import tokcore
from tokcore.errors import StageError
from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.shard_format import ShardSettings
from tokcore.shards.labels import label_strings
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer_spec import SpecialToken
from tokcore_pipelines.reading.input_range import Batch, make_read_settings
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work import encode_item as module
from tokcore_pipelines.work.encode_item import encode_item
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.shard_attempt import ShardAttempt
from tokcore_schemas.config import Source
from tokcore_schemas.plan import AssignedRange, Assignment
from tokcore_schemas.refs import ItemEncoded
from tokcore_schemas.stage_manifests import ShardsConfig

LANGS = list(WORDS)
DOCUMENTS = [{"text": texts(LANGS[i % 4], 1, i)[0], "l": LANGS[i % 4]} for i in range(80)]


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    ranges = []
    for i, (name, documents) in enumerate((("a.jsonl.gz", DOCUMENTS[:50]), ("b.jsonl", DOCUMENTS[50:]))):
        pin = storage.stat(str(write(tmp_path / name, jsonl(documents))))
        settings = make_read_settings(
            Source(files=(name,), lang_field="l"), "jsonl", "gz" if name.endswith("gz") else "none"
        )
        ranges.append(AssignedRange(i, name, pin.size_bytes, pin.version, 0, pin.size_bytes, settings))
    return Assignment(3, tuple(ranges))


@pytest.fixture(
    params=[("", "0"), ("by", "0.3"), ("partition_by", "0.3")],
    ids=["one-stream", "by-language-and-split", "by-partition-and-split"],
)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> EncodeJob:
    merges = tokcore.learn_bpe(tokcore.count_pretokens([str(d["text"]) for d in DOCUMENTS]), vocab_size=300)
    spec = spec_of_merges(merges, {"name": "cl100k"}, (), [SpecialToken("<|end|>", None)])
    (tmp_path / "tokcore.json").write_bytes(spec.to_json_bytes())
    apart, validation = request.param
    return EncodeJob(
        attempts=Attempts(str(tmp_path / "first"), "shards", "0" * 64),
        config=ShardsConfig(
            ("arrow", "megatron", "nanogpt"),
            700,
            "lang" if apart == "by" else "plan",
            validation,
            "zstd",
            (),
            "ordinary",
            partition_by=("lang",) if apart == "partition_by" else (),
        ),
        settings=ShardSettings(spec.fingerprint, spec.vocab_size, "zstd"),
        base=str(tmp_path),
        tokenizer=str(tmp_path / "tokcore.json"),
        tokenizer_sha256=hash_sha256(spec.to_json_bytes()),
        append=(300,),
    )


def elsewhere(job: EncodeJob, tmp_path: Path) -> EncodeJob:
    return dataclasses.replace(job, attempts=Attempts(str(tmp_path / "second"), "shards", "0" * 64))


def outcome(job: EncodeJob, done: ItemEncoded) -> object:
    """The result of an item, without the names of attempts."""
    shards = [
        dataclasses.replace(shard, files=tuple(dataclasses.replace(file, attempt="") for file in shard.files))
        for shard in done.shards
    ]
    rejects = dataclasses.replace(done.rejects, attempt="")
    ids = dataclasses.replace(done.token_counts, attempt="")
    return dataclasses.replace(done, shards=tuple(shards), token_counts=ids, rejects=rejects)


class Power(Exception):  # noqa: N818 - that fails
    pass


def test_finished_shards_of_an_interrupted_item_stand(job, assignment, tmp_path, monkeypatch):
    """However large an item is, no more than the shards that were open is tokenized twice."""
    encoded: list[int] = []
    encode = module.encode_texts

    def counting(*arguments):
        tokens, pretokens = encode(*arguments)
        encoded.append(tokens.num_documents)
        return tokens, pretokens

    monkeypatch.setattr(module, "encode_texts", counting)
    monkeypatch.setattr(module.cut_into_slices, "__defaults__", (2000,))  # many calls per item
    whole = encode_item(job, assignment)
    assert sum(encoded) == len(DOCUMENTS)
    assert len(whole.shards) > 8
    second = elsewhere(job, tmp_path)
    limit, closed = 4, ShardAttempt.close

    def failing(shard):
        nonlocal limit
        limit -= 1
        if limit < 0:
            raise Power
        return closed(shard)

    monkeypatch.setattr(ShardAttempt, "close", failing)
    stood = 0  # documents in recorded shards
    for attempt in range(1, 20):
        encoded.clear()
        try:
            again = encode_item(second, assignment)
        except Power:
            assert sum(encoded) <= len(DOCUMENTS) - stood
            names = {p.name for p in Path(second.attempts.folder, "done").iterdir()}
            stood = sum(s.facts.documents for s in whole.shards if is_recorded(s, names))
            assert stood > 0
            limit = 4 + 3 * attempt  # one language's shards, and at the end those of all
        else:
            assert sum(encoded) == len(DOCUMENTS) - stood
            break
    assert attempt > 2
    assert outcome(second, again) == outcome(job, whole)


def is_recorded(shard, names):
    folder = hash_sha256(shard.facts.partition.encode()) if shard.facts.partition else shard.facts.lang
    return "-".join(filter(None, ("shard", folder, shard.facts.shard))) + ".json" in names


def test_an_attempt_that_reads_fewer_documents_is_refused(job, assignment, tmp_path, monkeypatch):
    """Shards are recorded, but the reader no longer finds their documents: the item cannot go on from there."""
    closed = ShardAttempt.close
    limit = 8

    def failing(shard):
        nonlocal limit
        limit -= 1
        if limit < 0:
            raise Power
        return closed(shard)

    monkeypatch.setattr(ShardAttempt, "close", failing)
    with pytest.raises(Power):
        encode_item(job, assignment)
    monkeypatch.setattr(ShardAttempt, "close", closed)
    shorter = dataclasses.replace(assignment.ranges[1], start=0, end=1)
    with pytest.raises(StageError, match="fewer than an earlier attempt read"):
        encode_item(job, Assignment(3, (shorter,)))


def test_a_shard_that_is_exactly_full_is_closed(job, assignment, tmp_path):
    first = encode_item(job, assignment).shards[0]
    config = dataclasses.replace(job.config, target_tokens=first.facts.tokens)
    exact = dataclasses.replace(elsewhere(job, tmp_path), config=config)
    assert encode_item(exact, assignment).shards[0].facts.documents == first.facts.documents


def test_the_split_of_a_document_follows_from_it_alone():
    """It does not depend on the document's position, which would change if the corpus were cut differently."""
    config = ShardsConfig(("arrow",), 700, "plan", "0.3", "zstd", (), "ordinary")
    langs, strings = ([str(document[name]) for document in DOCUMENTS] for name in ("l", "text"))
    num = len(DOCUMENTS)
    batch = Batch(make_texts_from_strings(strings), None, label_strings(langs), np.arange(num), [], num)
    turned = Batch(make_texts_from_strings(strings[::-1]), None, label_strings(langs[::-1]), np.arange(num), [], num)
    splits = module.choose_splits(config, batch, slice(0, num))
    assert set(splits) == {"train", "validation"}
    assert module.choose_splits(config, turned, slice(0, num)) == splits[::-1]
    assert module.choose_splits(config, turned, slice(10, 20)) == splits[::-1][10:20]


def test_what_a_build_of_other_settings_left_in_a_store_is_not_in_the_way(job, assignment, tmp_path):
    """Both write into shards/ of one output, under the same numbers."""
    output = "memory://encode-item"
    try:
        for number, target in enumerate((700, 500)):
            attempts = Attempts(output, "shards", str(number) * 64)
            config = dataclasses.replace(job.config, target_tokens=target)
            other = dataclasses.replace(job, attempts=attempts, config=config)
            done = encode_item(other, assignment)
            assert len({shard.facts.result_key for shard in done.shards}) == 1
        names = [path for path in storage.list_tree(f"{output}/shards") if path.endswith("-00003-00000.arrow")]
        assert names == []
        first = [path for path in storage.list_tree(f"{output}/shards") if "arrow/" in path and "-00003-00000-" in path]
        assert len(first) >= 2
    finally:
        storage.remove_tree(output)


def test_threads_of_a_worker_load_the_tokenizer_once(job, monkeypatch):
    reads = []

    def read_slowly(url: str) -> bytes:
        reads.append(url)
        time.sleep(0.2)
        return Path(url).read_bytes()

    monkeypatch.setattr(storage, "read_bytes", read_slowly)
    with ThreadPoolExecutor(4) as threads:
        loaded = list(threads.map(lambda _: module.load_job_tokenizer(job), range(4)))
    assert reads == [job.tokenizer]
    assert all(one is loaded[0] for one in loaded)
