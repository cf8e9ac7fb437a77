"""tokcore.open_counts: the counts of a build as a table, from whatever files the manifest names."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import WORDS, build_file, small_corpus, texts

import tokcore
from tokcore import kernel
from tokcore.count.pretoken_tables import convert_table_to_rows, split_rows, write_table
from tokcore.errors import ChecksumError, ConfigError, FormatError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import COUNTS

SCHEMA = pa.schema([("pretoken", pa.binary()), ("count", pa.uint64()), ("documents", pa.uint64())])


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output in which only `count` ran."""
    folder = tmp_path_factory.mktemp("counted")
    small_corpus(folder)
    Build(load_config(str(build_file(folder))), RunOptions(2), str(folder / "out")).count()
    assert not (folder / "out" / "tokenizer").exists()
    return folder / "out"


def remove_nullability(table: pa.Table) -> pa.Table:
    return table.cast(SCHEMA)


@pytest.mark.parametrize("lang", sorted({*WORDS} - {"de"}))
def test_the_counts_are_those_of_the_documents(output, lang):
    table = tokcore.open_counts(output, lang)
    documents = texts(lang, 12 if lang == "hi" else 30)
    assert remove_nullability(table) == remove_nullability(tokcore.count_pretokens(documents, threads=1))
    assert table.column("pretoken").to_pylist() == sorted(table.column("pretoken").to_pylist())
    for named in (str(output), f"file://{output}", output / "counts", f"{output}/"):
        assert tokcore.open_counts(named, lang, at=0) == table


def test_the_content_hash_is_over_the_rows_in_order(output):
    """However the rows are cut into blocks; the manifest names it."""
    manifest = find_manifest(str(output), COUNTS)
    assert len(manifest.files) == 4
    for entry in manifest.files:
        rows = convert_table_to_rows(tokcore.open_counts(output, entry.about.lang))
        for step in (1, 7, rows.num_rows):
            hasher = hashlib.sha256()
            for start in range(0, rows.num_rows, step):
                hasher.update(kernel.pack_rows(rows.slice(start, min(start + step, rows.num_rows))))
            assert hasher.hexdigest() == entry.content_sha256


@pytest.fixture
def in_parts(output, tmp_path) -> Path:
    """The same counts, where each language has three tables, whose rows overlap, and one language has none."""
    folder = tmp_path / "parts"
    (folder / "counts").mkdir(parents=True)
    content = json.loads((output / "counts" / "manifest.json").read_bytes())
    files = []
    for entry in content["files"]:
        rows = convert_table_to_rows(tokcore.open_counts(output, entry["about"]["lang"]))
        half = rows.counts // np.uint64(2)
        less = rows._replace(counts=half, documents=np.minimum(half, rows.documents))
        more = rows._replace(counts=rows.counts - half, documents=rows.documents - less.documents)
        parts = [split_rows(less, 2)[0], split_rows(less, 2)[1], more]
        assert all(part.num_rows for part in parts)
        for number, part in enumerate(parts):
            file = io.BytesIO()
            write_table(file, [part])
            path = f"{entry['about']['lang']}-{number}.parquet"
            (folder / "counts" / path).write_bytes(file.getvalue())
            sha256 = hashlib.sha256(file.getvalue()).hexdigest()
            files.append({**entry, "path": path, "size_bytes": len(file.getvalue()), "sha256": sha256})
    content["files"] = files
    content["languages"]["masked"] = content["languages"]["en"]
    (folder / "counts" / "manifest.json").write_bytes(write_canonical_json(content))
    return folder


def test_parts_are_added_up(output, in_parts):
    for lang in ("en", "ru", "zh", "hi"):
        assert tokcore.open_counts(in_parts, lang) == tokcore.open_counts(output, lang)
    empty = tokcore.open_counts(in_parts, "masked")
    assert (empty.num_rows, empty.column_names) == (0, ["pretoken", "count", "documents"])


def test_at_a_url(output, in_parts):
    memory = fsspec.filesystem("memory")
    for file in in_parts.rglob("*.*"):
        memory.pipe_file(f"/counted/{file.relative_to(in_parts)}", file.read_bytes())
    assert tokcore.open_counts("memory://counted", "ru") == tokcore.open_counts(output, "ru")
    assert tokcore.open_counts("memory://counted/counts", "ru") == tokcore.open_counts(output, "ru")
    memory.pipe_file("/counted/counts/ru-1.parquet", b"damaged")
    with pytest.raises(ChecksumError, match=r"ru-1\.parquet: sha256 is"):
        tokcore.open_counts("memory://counted", "ru")
    with pytest.raises(FormatError, match=r"memory://nothing: no output of a build that has counted"):
        tokcore.open_counts("memory://nothing", "ru")


def test_what_is_not_there_is_named(output, tmp_path):
    with pytest.raises(ConfigError, match=r"lang = 'xx': .* has counts of en, hi, ru, zh"):
        tokcore.open_counts(output, "xx")
    with pytest.raises(ConfigError, match=r"at = 1: .* has the commits 0 to 0"):
        tokcore.open_counts(output, "en", at=1)
    with pytest.raises(FormatError, match=r"no output of a build that has counted: there is no counts/manifest\.json"):
        tokcore.open_counts(tmp_path, "en")
    with pytest.raises(FormatError, match="no output of a build that has counted"):
        tokcore.open_counts(output / "plan", "en")
    copy = Path(shutil.copytree(output, tmp_path / "out"))
    [table] = (copy / "counts").glob("en-*.parquet")
    rows = pq.read_table(table)
    pq.write_table(rows.slice(1), table)
    with pytest.raises(ChecksumError, match=r"en-.*parquet: its bytes are not those that were committed"):
        tokcore.open_counts(copy, "en")
    table.unlink()
    with pytest.raises(FormatError, match=r"en-.*parquet: cannot be read: No such file"):
        tokcore.open_counts(copy, "en")
    content = json.loads((copy / "counts" / "manifest.json").read_bytes())
    content["files"][0]["path"] = "../counts/x.parquet"
    (copy / "counts" / "manifest.json").write_bytes(write_canonical_json(content))
    with pytest.raises(FormatError, match=r"names '\.\./counts/x\.parquet', which is not in its folder"):
        tokcore.open_counts(copy, "ru")
