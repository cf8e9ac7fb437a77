"""Reading files and writing shards in a user's own pipeline: on the in-process runner, a hostile one, and Prism."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows
from support import eager
from support.builds import ROOT, build_file, jsonl, texts, tree, write
from support.documents_together import DOCUMENTS as DOCUMENTS_TOGETHER
from support.documents_together import DOING, find_code, leave_by_hand, write_build
from support.engines import find_free_port, find_prism, running
from support.graphs import DOCUMENTS, learned
from support.updates import update_here

import tokcore
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines import CountPretokens, ReadDocuments, WriteShards
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.engines import find_worker_program
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.report.compose import Wishes, make_report
from tokcore_pipelines.look.report.report_files import write_report
from tokcore_pipelines.run.engines.coders import RecordCoder
from tokcore_pipelines.store.allowed_code import allowing_code
from tokcore_pipelines.work.language_totals import format_ratio
from tokcore_pipelines.work.read_source import Record
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_pipelines.work.sort_documents import choose_bucket, sort_documents
from tokcore_schemas import Document
from tokcore_schemas.document import RejectedRecord
from tokcore_schemas.manifest import compute_identity
from tokcore_schemas.stage_table import parse_manifest


def pipeline(*options: str) -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *options]))


# ------------------------------------------------------------------------------------------------------------- reading


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [{"id": f"en-{i}", "text": text} for i, text in enumerate(texts("en", 20))]
    write(tmp_path / "en" / "0.jsonl.zst", jsonl(lines[:12]))
    write(tmp_path / "en" / "1.jsonl", jsonl(lines[12:]) + b'{"id": "en-x"}\nno json\n')
    write(tmp_path / "en" / "2.jsonl.gz", b"")
    return tmp_path


def test_documents_and_rejects_are_all_there(corpus):
    with pipeline() as p:
        documents, rejected = p | ReadDocuments("en/*", str(corpus), lang="en", id="id")

        def check_documents(found):
            expected = [Document("en", f"en-{i}", text.encode()) for i, text in enumerate(texts("en", 20))]
            assert sorted(found) == sorted(expected)

        def check_rejected(found):
            assert sorted((one.source, one.record) for one in found) == [("en/1.jsonl", 8), ("en/1.jsonl", 9)]
            assert len({one.reason for one in found}) == 2
            assert all(isinstance(one, RejectedRecord) for one in found)

        assert_that(documents, check_documents, "documents")
        assert_that(rejected, check_rejected, "rejected")


def test_documents_are_those_that_steps_masks_and_filters_leave(tmp_path):
    """As in a build; the numbers of those that are dropped are counters."""
    find_code()
    write_build(tmp_path, "text")
    told = tomllib.loads(DOING.format(by="text"))
    settings = {name: told[name] for name in ("metadata", "map", "mask", "filter")}
    settings |= {"lang_field": "l", "id": "id"}
    with pytest.raises(ConfigError, match="allow_code=True"):
        ReadDocuments("a.jsonl", str(tmp_path), **settings)
    kept, _ = leave_by_hand("")
    own = {one["id"] for one in DOCUMENTS_TOGETHER[::3]}
    with allowing_code(False), pipeline() as p:
        documents, rejected = p | ReadDocuments("a.jsonl", str(tmp_path), allow_code=True, **settings)
        expected = sorted((name, text.encode()) for name, text in kept.items() if name in own)

        def check(found):
            assert sorted((one.id, one.text) for one in found) == expected

        assert_that(documents, check, "documents")
        assert_that(rejected, equal_to([]), "rejected")
    counted = p.result.metrics().query(MetricsFilter().with_name("filtered:good"))["counters"]
    assert sum(one.committed for one in counted) > 9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filter": [{"keep": "nothing >"}], "lang": "en"}, "keep"),
        ({"lang": "../en"}, "lang"),
        ({}, "lang"),
        ({"lang": "en", "txt": "body"}, "txt.*text"),
        ({"lang": "en", "max_document_bytes": 0}, "max_document_bytes"),
        ({"lang": "en", "text": None}, "text = None"),
    ],
)
def test_settings_are_checked_as_those_of_a_source(corpus, settings, message):
    with pytest.raises(ConfigError, match=message):
        ReadDocuments("en/*", str(corpus), **settings)


def test_a_pattern_without_files_fails_the_pipeline(corpus):
    p = pipeline()
    _ = p | ReadDocuments("fr/*.jsonl", str(corpus), lang="fr")
    with pytest.raises(ConfigError, match=r"no file matches .*fr/"):
        p.run().wait_until_finish()


@pytest.mark.parametrize(
    "record",
    [
        Record(Document("en", None, b"\xff"), None),
        Record(None, RejectedRecord("a", 0, None, "utf8", "x")),
        Record(None, RejectedRecord("a", 5, 7, "json", "")),
    ],
)
def test_record_coder(record):
    assert RecordCoder().decode(RecordCoder().encode(record)) == record


# ------------------------------------------------------------------------------------------------------------- writing

TWINS = [
    *DOCUMENTS,
    DOCUMENTS[0],
    Document("en", DOCUMENTS[0].id, "another text of that id"),
    Document("en", None, "without id"),
    Document("en", "", "with an empty id"),
    Document("ru", "en-0", "of another language"),
    Document("en", "bytes", b"\xff\xfe"),
]


def write_them(folder: Path, documents: list[Document], *options: str, **settings) -> None:
    with pipeline(*options) as p:
        _ = p | beam.Create(documents) | WriteShards(str(folder), learned(), append=["<|end|>"], **settings)


def test_shards_hold_every_document_once_in_order(tmp_path):
    write_them(tmp_path, TWINS, num_buckets=3, formats=["arrow", "megatron"])
    shards, tokenizer = tokcore.open_shards(tmp_path), learned()
    found = []
    for i in range(len(shards)):
        about, text = shards.document(i), tokenizer.decode(shards[i][:-1])
        found.append((about.lang, about.id, text))
    assert sorted(found, key=repr) == sorted(((d.lang, d.id, as_bytes(d)) for d in TWINS), key=repr)
    manifest = json.loads((tmp_path / "shards" / "manifest.json").read_bytes())
    assert manifest["totals"]["records"]["documents"] == len(TWINS)
    assert manifest["totals"]["tokens"] == shards.num_tokens
    assert {file["about"]["item"] for file in manifest["files"] if "shard" in file["about"]} == {0, 1, 2}
    counts = pq.read_table(tmp_path / "shards" / "token_counts.parquet")
    assert sum(counts["count"].to_pylist()) == shards.num_tokens
    assert not (tmp_path / "_attempts").exists()
    for number in range(3):
        mine = [d for d in TWINS if choose_bucket(d, 3) == number]
        keys = sorted((d.id is not None, d.id or "", as_bytes(d), d.lang) for d in mine)
        (shard,) = (tmp_path / "shards" / "arrow").glob(f"train-{number:05d}-*.arrow")
        one = tokcore.open_shards(shard)
        assert [one.document(i).id for i in range(len(one))] == [id if has else None for has, id, _, _ in keys]


def as_bytes(document: Document) -> bytes:
    return document.text.encode() if isinstance(document.text, str) else document.text


def test_documents_are_dealt_alike_in_every_process():
    """By id alone, where there is one."""
    documents = [Document("en", id, text) for id, text in (("a", "x"), ("a", "y"), (None, "x"), ("", "x"))]
    assert [choose_bucket(document, 1000) for document in documents] == [687, 687, 40, 6]


def test_equal_documents_give_equal_bytes(tmp_path):
    write_them(tmp_path / "a", TWINS, num_buckets=2, target_tokens=300)
    random.Random(1).shuffle(shuffled := list(TWINS))
    write_them(tmp_path / "b", shuffled, "--direct_num_workers=3", num_buckets=2, target_tokens=300)
    assert len(list((tmp_path / "a" / "shards" / "arrow").iterdir())) > 4
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("seed", range(3))
def test_on_a_hostile_runner(seed, tmp_path):
    write_them(tmp_path / "a", TWINS, num_buckets=2)
    eager.seed(seed, share=0.7, concurrent=seed == 2)
    with beam.Pipeline(options=PipelineOptions(list(eager.RUNNER))) as p:
        documents = p | beam.Create(TWINS) | beam.Reshuffle()
        _ = documents | WriteShards(str(tmp_path / "b"), learned(), 2, append=["<|end|>"])
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_commands_on_a_folder_of_shards(tmp_path, capsys):
    """`verify` and `report` work on it, `update` says what does."""
    write_them(tmp_path / "mine", TWINS, num_buckets=2, formats=["arrow", "megatron"])
    place = str(tmp_path / "mine")
    report = verify(place, options=RunOptions(1))
    assert (report.problems, report.num_read) == ((), len(TWINS))
    assert report.root == parse_manifest((tmp_path / "mine/shards/manifest.json").read_bytes(), "").content_id()
    assert verify(place, root="0" * 64).problems[0].startswith("shards/manifest.json: its root is ")
    with pytest.raises(ConfigError, match="no sources to decode"):
        verify(place, decode=None)
    told = make_report(read_output(place), Wishes({}, "", "", 5, ()), StageProgress(-1))
    assert told["provenance"]["root"] == report.root
    assert told["corpus"]["documents"] == len(TWINS)
    assert all(file.stat().st_size > 1000 for file in write_report(told, tmp_path / "report.html"))
    write(tmp_path / "a.jsonl", jsonl([{"text": "one"}]))
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n')
    with pytest.raises(ConfigError, match=r"WriteShards made these shards.*Run that pipeline again, into a new folder"):
        update_here(path, tmp_path / "mine")
    for number, (name, tamper, problem) in enumerate(
        (
            ("shards/token_counts.parquet", lambda path: path.write_bytes(path.read_bytes()[:-1]), "committed with"),
            ("shards/megatron", shutil.rmtree, "shards/megatron/"),
            ("tokenizer/tokcore.json", lambda path: path.write_bytes(b"{}"), "tokenizer/tokcore.json"),
            ("shards/more.bin", lambda path: path.write_bytes(b""), "shards/more.bin: no manifest names it"),
            ("shards/manifest.json", _count_one_more, " documents were read, "),
            ("shards/manifest.json", _move_a_token, "tokens = "),
            ("shards/manifest.json", _name_other_documents, "shards/manifest.json: totals.documents_digest = "),
        )
    ):
        copy = Path(shutil.copytree(place, tmp_path / f"copy{number}"))
        tamper(copy / name)
        assert any(problem in one for one in verify(str(copy), options=RunOptions(1)).problems), name


def _name_other_documents(path: Path) -> None:
    """With the identity that follows: only what is in the shards contradicts it."""
    manifest = json.loads(path.read_bytes())
    totals = manifest["totals"]
    totals["documents_digest"] = f"{int(totals['documents_digest'][0], 16) ^ 1:x}{totals['documents_digest'][1:]}"
    key = {"tokenizer": totals["fingerprint"], "documents": totals["documents_digest"]}
    manifest["identity"] = compute_identity("shards", key, {}, SEMANTICS)
    path.write_bytes(write_canonical_json(manifest))


def _count_one_more(path: Path) -> None:
    manifest = json.loads(path.read_bytes())
    manifest["totals"]["records"]["documents"] += 1
    path.write_bytes(write_canonical_json(manifest))


def _move_a_token(path: Path) -> None:
    """From one language to another: what only reading the shards shows."""
    manifest = json.loads(path.read_bytes())
    (_, one), (_, other), *_ = manifest["languages"].items()
    one["tokens"], other["tokens"] = one["tokens"] - 1, other["tokens"] + 1
    for each in (one, other):
        each["bytes_per_token"] = format_ratio(each["text_bytes"], each["tokens"])
    path.write_bytes(write_canonical_json(manifest))


def test_an_attempt_that_ends_second_finds_what_the_first_made(tmp_path, monkeypatch):
    write_them(tmp_path / "a", TWINS)
    link = os.link

    def let_another_end_first(source, target):
        if Path(target).name == "manifest.json":
            monkeypatch.undo()
            link(source, target)
            shutil.rmtree(tmp_path / "b" / "_attempts")
        link(source, target)

    monkeypatch.setattr(os, "link", let_another_end_first)
    write_them(tmp_path / "b", TWINS)
    assert os.link is link
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_other_shards_are_never_replaced(tmp_path):
    write_them(tmp_path, TWINS)
    before = tree(tmp_path)
    write_them(tmp_path, TWINS)
    assert tree(tmp_path) == before
    with pytest.raises(ConfigError, match=r"the folder holds other shards\. Name another folder"):
        write_them(tmp_path, DOCUMENTS)
    assert before.items() <= tree(tmp_path).items()


def test_documents_are_sorted_in_files_where_memory_is_small():
    random.Random(2).shuffle(shuffled := list(TWINS))
    with sort_documents(shuffled, 1 << 30) as whole, sort_documents(shuffled, 1000) as pieces:
        assert whole.num_runs == 0
        assert pieces.num_runs > 5
        assert list(whole) == list(pieces) == list(pieces) == sorted(whole)
        assert len(list(whole)) == len(TWINS)


def test_what_cannot_be_written(tmp_path):
    for settings, message in [
        ({"num_buckets": 0}, "num_buckets = 0"),
        ({"formats": ["parquett"]}, "parquett"),
        ({"append": ["<|nothing|>"]}, "not a special token"),
    ]:
        with pytest.raises(ConfigError, match=message):
            WriteShards(str(tmp_path), learned(), **settings)
    windowed = pipeline() | beam.Create(DOCUMENTS) | beam.WindowInto(FixedWindows(10))
    with pytest.raises(ConfigError, match="WriteShards: its input is in FixedWindows"):
        _ = windowed | WriteShards(str(tmp_path), learned())
    with pytest.raises(TypeError, match=r"WriteShards: expected a PCollection of tokcore_schemas.Document"):
        _ = pipeline() | beam.Create(["text"]) | WriteShards(str(tmp_path), learned())


# ------------------------------------------------------------------------------------------------------------ counting


def test_counting_normalizes_and_cleans_up(tmp_path):
    documents = [Document("en", None, "Cafe\u0301 au lait"), Document("en", None, "caf\u00e9")]
    with pipeline() as p:
        _ = p | beam.Create(documents) | CountPretokens(str(tmp_path), normalize=["nfc"])
    table = pq.read_table(tmp_path / "en.parquet")
    assert table.equals(tokcore.count_pretokens(["Caf\u00e9 au lait", "caf\u00e9"]).combine_chunks())
    assert [path.name for path in tmp_path.iterdir()] == ["en.parquet"]


# -------------------------------------------------------------------------------------------------------- on an engine


@pytest.mark.proof
def test_the_example_on_prism(tmp_path):
    """As its reader runs it: all four transforms, in workers of the engine."""
    for number in range(2):
        lines = [line for text in texts("en", 10, number) for line in text.splitlines() if line]
        (tmp_path / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    example = [sys.executable, str(ROOT / "deploy" / "examples" / "own_pipeline.py"), str(tmp_path / "*.txt")]
    local = subprocess.run(
        [*example, str(tmp_path / "a"), "--runner=FnApiRunner"], capture_output=True, text=True, check=False
    )
    assert local.returncode == 0, local.stderr
    port = find_free_port()
    environment = json.dumps({"command": find_worker_program()})
    with running([find_prism(), "--serve_http=false", f"--job_port={port}"], port):
        engine = ["--runner=PortableRunner", f"--job_endpoint=127.0.0.1:{port}", "--environment_type=PROCESS"]
        options = [*engine, f"--environment_config={environment}"]
        done = subprocess.run(
            [*example, str(tmp_path / "b"), *options], capture_output=True, text=True, check=False, timeout=90
        )
    assert done.returncode == 0, done.stderr
    for part in ("counts", "shards", "tokenizer"):
        assert tree(tmp_path / "a" / part) == tree(tmp_path / "b" / part)
