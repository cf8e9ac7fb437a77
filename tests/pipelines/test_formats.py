"""The same documents in every format: one tokenizer, and the same tokens for each document."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import jsonl, run, texts
from support.reading import COMPRESS

from tokcore_schemas.stage_manifests import BuildManifest

DOCUMENTS = [{"id": f"ru-{i}", "text": text} for i, text in enumerate(texts("ru", 60))]


def delimited(delimiter: str) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerows([("id", "text"), *((document["id"], document["text"]) for document in DOCUMENTS)])
    return out.getvalue().encode()


def warc() -> bytes:
    records = [("warcinfo", "ru", b"x: y"), *(("conversion", one["id"], one["text"].encode()) for one in DOCUMENTS)]
    return b"".join(
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {name}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(block)}\r\n\r\n".encode()
        + block
        + b"\r\n\r\n"
        for kind, name, block in records
    )


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(DOCUMENTS), sink)
    return sink.getvalue().to_pybytes()


# name of the file -> (its content, settings of its source)
FORMS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a.jsonl.bz2": (lambda: COMPRESS["bz2"](jsonl(DOCUMENTS)), ""),
    "utf16.jsonl": (lambda: json_text().encode("utf-16-be"), 'encoding = "utf-16-be"'),
    "koi8.jsonl": (lambda: json_text().encode("koi8-r"), 'encoding = "koi8-r"'),
    "a.tsv.gz": (lambda: COMPRESS["gz"](delimited("\t")), ""),
    "koi8.csv.xz": (
        lambda: COMPRESS["xz"](delimited(";").decode().encode("koi8-r")),
        'encoding = "koi8-r"\ndelimiter = ";"',
    ),
    "a.warc.wet.gz": (lambda: COMPRESS["gz"](warc()), 'id = "warc-record-id"'),
    "a.parquet": (parquet, ""),
}


def json_text() -> str:
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in DOCUMENTS)


def build(folder: Path, name: str, data: bytes, settings: str, range_bytes: int, workers: int) -> BuildManifest:
    (folder / name).write_bytes(data)
    path = folder / "build.toml"
    settings = settings if "id =" in settings else f'{settings}\nid = "id"'
    path.write_text(
        f'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "ru"\nfiles = "{name}"\n{settings}\n'
        f"[plan]\nrange_bytes = {range_bytes}\n[learn]\nvocab_size = 320\n[count]\nsample = 0.5\n"
    )
    return run(path, folder / "out", workers)


@pytest.fixture(scope="module")
def of_json_lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("jsonl")
    return digests(folder, build(folder, "a.jsonl", jsonl(DOCUMENTS), "", 1 << 20, 1))


def digests(folder: Path, manifest: BuildManifest) -> tuple[str, str]:
    assert manifest.totals.records.read == manifest.totals.records.documents == len(DOCUMENTS)
    return manifest.totals.documents_digest, manifest.totals.fingerprint


@pytest.mark.parametrize("name", list(FORMS))
def test_the_same_tokens(name: str, tmp_path: Path, of_json_lines: tuple[str, str]) -> None:
    """Sampled by id, cut into ranges where the format allows it, with two workers."""
    make, settings = FORMS[name]
    manifest = build(tmp_path, name, make(), settings, 3000, 2)
    assert digests(tmp_path, manifest) == of_json_lines
    assert manifest.totals.records.skipped == ({"warcinfo": 1} if "warc" in name else None)


def test_what_is_skipped_is_in_every_ledger(tmp_path: Path) -> None:
    build(tmp_path, "a.warc", warc(), 'id = "WARC-Record-ID"', 3000, 1)
    for stage in ("counts", "rejected", "shards"):
        manifest = json.loads((tmp_path / "out" / stage / "manifest.json").read_text())
        assert manifest["totals"]["records"]["skipped"] == {"warcinfo": 1}
    (line,) = (tmp_path / "out" / "rejected" / "files.jsonl").read_text().splitlines()
    assert json.loads(line)["skipped"] == {"warcinfo": 1}
