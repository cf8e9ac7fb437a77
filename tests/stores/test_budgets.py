"""Requests to a store are a budget: counted by the proxy, at a scale that keeps the ratios of a large build."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stores.budgets import PUTS, list_lines
from stores.files import open_system
from stores.proxy import Request
from stores.servers import Store
from support.builds import build_file, jsonl, texts, tokcore, write

from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.store import objects, storage
from tokcore_pipelines.work.merge_tree import FAN_IN

NUM_FILES = 40
SOURCES = """
[[source]]
lang = "en"
files = "en-*.jsonl"
id = "id"
[[source]]
lang = "zh"
files = "zh-*.jsonl"
id = "id"
"""
# An item for each file or two: more runs of a language than a merge takes in at a time.
SETTINGS = "[plan]\nrange_bytes = 16000\n[learn]\nvocab_size = 300\n"


def test_a_build(s3_here: Store, tmp_path: Path) -> None:
    for number in range(NUM_FILES):
        lang = ("en", "zh")[number % 2]
        documents = [{"id": f"{number}-{i}", "text": text} for i, text in enumerate(texts(lang, 50, number))]
        write(tmp_path / f"{lang}-{number:02d}.jsonl", jsonl(documents))
    path, output, proxy = build_file(tmp_path, SOURCES, SETTINGS), s3_here.fresh(), s3_here.proxy
    done = tokcore("build", path, "--output", output, "--workers", "2", env=s3_here.variables(), timeout=400)
    assert done.returncode == 0, done.stderr
    asked, left = list(proxy.requests), storage.list_footprints(output)
    broken = [
        line for line in list_lines(asked, {name: its.size_bytes for name, its in left.items()}) if line.is_broken
    ]
    assert not broken
    operations = Counter(one.operation for one in asked)
    assert len(left) > 100
    assert sum(operations[name] for name in PUTS) <= 2.5 * len(left) + 50, "twice as good as the budget"
    assert operations["HeadObject"] <= 2 * len(left) + 50
    assert not [one.key for one in asked if one.operation in PUTS and not one.sent_bytes and ".rejects" in one.key]
    assert operations["ListObjects"] <= 20
    assert len([one for one in asked if "/counts-" in one.key and ".runs." in one.key and one.sent_bytes]) > FAN_IN
    kept = sum(its.size_bytes for its in left.values())
    assert _sum_sent(one for one in asked if "/_attempts/" not in one.key) <= 1.05 * kept + 10_000
    _check_results(asked)
    proxy.reset()
    again = tokcore("build", path, "--output", output, env=s3_here.variables(), timeout=100)
    assert again.returncode == 0, again.stderr
    assert not set(proxy.count()) & set(PUTS)
    assert proxy.count()["HeadObject"] + proxy.count()["ListObjects"] <= 40


def _sum_sent(requests: Iterable[Request]) -> int:
    return sum(one.sent_bytes for one in requests if one.operation in PUTS)


def _check_results(asked: list[Request]) -> None:
    """The driver reads what all work items recorded from one object for each pass, and workers leave each a record."""
    for stage, name, looks in (("counts", "counted-", 3), ("shards", "item-", 2)):
        records = [one for one in asked if f"/{stage}-" in one.key and f"/done/{name}" in one.key]
        collected = [one.operation for one in asked if f"/{stage}-" in one.key and "/collected/" in one.key]
        num = len({one.key for one in records if one.operation in PUTS})
        assert num > FAN_IN
        assert collected.count("PutObject") == 1
        assert collected.count("GetObject") == 1
        # A look before the work, one by the worker that collects them, and of counts one by the worker that merges.
        assert len([one for one in records if one.operation == "GetObject"]) <= looks * num


def test_gc(s3_here: Store, tmp_path: Path) -> None:
    """What a thousand killed work items left goes with two listings, and with a request for each thousand names."""
    output, system, num = s3_here.fresh(), open_system(s3_here), 2500
    names = [f"_attempts/shards-0123/{'done' if i % 3 else 'files'}/{i:05d}.json" for i in range(num)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: system.pipe_file(f"{output.removeprefix('s3://')}/{name}", b"{}"), names))
    s3_here.proxy.reset()
    collected = gc(output, "0")
    assert sorted(collected.removed) == sorted(names)
    pages = math.ceil(num / 1000)
    assert s3_here.proxy.count()["ListObjects"] <= 2 * pages + 2
    assert s3_here.proxy.count()["DeleteObjects"] <= pages + 2
    # Two a manifest, and a look for tokenizers of commits, and for files of tombstones.
    assert s3_here.proxy.count().total() <= 3 * pages + 25
    assert storage.list_tree(output) == []


def test_uploads_that_a_kill_left_are_dropped(s3_here: Store) -> None:
    """No listing of objects names them, and their parts are paid for."""
    output = s3_here.fresh()
    system = open_system(s3_here)
    bucket, key, _ = system.split_path(f"{output}/shards/arrow/train-00000-00000-0a1b2c3d4e5f.arrow")
    for name in (key, f"{key.partition('/shards/')[0]}-other/shards/kept.arrow"):
        begun = system.call_s3("create_multipart_upload", Bucket=bucket, Key=name)
        part = {"Bucket": bucket, "Key": name, "UploadId": begun["UploadId"], "PartNumber": 1}
        system.call_s3("upload_part", Body=bytes(objects.BLOCK_BYTES), **part)
    storage.create_exclusive(f"{output}/_attempts/shards.claim", b"{}", output)
    assert gc(output).too_young
    assert gc(output, "0", dry_run=True).num_uploads == 1
    assert len(storage.list_uploads(output)) == 1
    assert gc(output, "0").num_uploads == 1
    assert storage.list_uploads(output) == []
    assert len(storage.list_uploads(f"{output}-other")) == 1, "of another output"
