"""The texts of the benchmarks: English, multilingual and code, out of a folder of documents.

A folder holds files of JSON lines, Parquet or text, compressed or not; a document's language is its field `lang`, or
the name of the file's folder. Texts are Arrow files in the work folder, so that no measuring process parses anything.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

NAMES = ("english", "multilingual", "code")


class Document(NamedTuple):
    """page: its id as far as the first "#", which begins the number of a part; "" if it has no id."""

    lang: str
    page: str
    text: str


def documents(corpus: Path) -> Iterator[Document]:
    """Every document, file by file."""
    for path in sorted(p for p in corpus.rglob("*") if p.is_file()):
        lang = path.relative_to(corpus).parts[0]
        kinds = path.suffixes
        if kinds[-1:] == [".parquet"]:
            yield from (_make_document(row, lang) for row in pq.read_table(path).to_pylist())
            continue
        data = path.read_bytes()
        if kinds[-1:] == [".zst"]:
            data = zstandard.ZstdDecompressor().stream_reader(data).read()
        elif kinds[-1:] == [".gz"]:
            data = gzip.decompress(data)
        if ".jsonl" in kinds:
            yield from (_make_document(json.loads(line), lang) for line in data.splitlines())
        elif ".txt" in kinds:
            for text in data.decode().split("\n\n\n"):
                yield Document(lang, "", text)


def _make_document(record: Mapping[str, Any], lang: str) -> Document:
    return Document(record.get("lang") or lang, str(record.get("id") or "").partition("#")[0], record["text"])


def prepare(corpus: Path, work: Path, limit_mb: float) -> dict[str, Path]:
    """Name -> Arrow file of up to limit_mb of documents, drawn with a fixed seed; multilingual in turn by language."""
    by_lang: dict[str, list[str]] = {}
    for lang, _, text in documents(corpus):
        if text:
            by_lang.setdefault(lang, []).append(text)
    chance = random.Random(1)
    for lang in sorted(by_lang):
        chance.shuffle(by_lang[lang])
    out = {}
    for name in NAMES:
        chosen = [texts for lang, texts in sorted(by_lang.items()) if _group(lang) == name]
        in_turn = (text for row in itertools.zip_longest(*chosen) for text in row if text is not None)
        out[name] = work / f"{name}.arrow"
        save(out[name], list(_up_to(in_turn, limit_mb * 1e6)))
    return out


def _group(lang: str) -> str:
    return "code" if lang.startswith("code") else "english" if lang == "en" else "multilingual"


def _up_to(texts: Iterator[str], size_bytes: float) -> Iterator[str]:
    seen = 0
    for text in texts:
        if seen >= size_bytes:
            return
        seen += len(text.encode())
        yield text


def save(path: Path, texts: list[str]) -> None:
    """Write documents as one Arrow column."""
    batch = pa.record_batch([pa.array(texts, pa.large_string())], ["text"])
    with pa.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch)


def load(*paths: str | Path) -> pa.Array:
    """The documents of the files as one Arrow array."""
    parts = [pa.ipc.open_file(str(path)).get_batch(0).column(0) for path in paths]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def size_mb(array: pa.Array) -> float:
    """The size of the UTF-8 text in megabytes."""
    return sum(map(len, array.cast(pa.large_binary()).to_pylist())) / 1e6


def rank_file(vocab: Path, work: Path) -> Path:
    """Write the ranks as the plain file that every library reads, under the name by which some recognize them."""
    data = vocab.read_bytes()
    if vocab.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompress(data, 1 << 27)
    path = work / "cl100k_base.tiktoken"
    path.write_bytes(data)
    return path
