"""Removals from small outputs whose documents have ids, and what a fresh build without these documents gives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path

from support import updates
from support.builds import build_file, jsonl, run, write
from support.updates import build_fresh

import tokcore
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.history.compact_output import Compact, Compacted
from tokcore_pipelines.history.remove_documents import Remove, Removed
from tokcore_pipelines.local.run_options import RunOptions

SOURCES = """
[[source]]
lang = "en"
files = "en/*.jsonl"
id = "id"
[[source]]
lang_field = "lang"
files = "mixed/*"
id = "id"
"""
SETTINGS = f"""
[build]
max_rejected = 1
{updates.SETTINGS}"""


def write_documents(folder: Path, name: str, num: int, lang: str = "", word: str = "") -> Path:
    """An input file with documents NAME-0 and so on, NAME being the file's, and one record that is rejected."""
    stem = Path(name).stem
    documents = [
        {
            "id": f"{stem}-{i}",
            "text": f"{word or stem} tells the {i % 7}th story of the {stem} and fox {i}, again and again",
            **({"lang": lang} if lang else {}),
        }
        for i in range(num)
    ]
    rejected = json.dumps({"id": f"{stem}-bad", "text": 7}).encode() + b"\n"
    return write(folder / name, jsonl(documents) + rejected)


def write_corpus(folder: Path) -> Path:
    """The build file of four files in two sources and three languages."""
    for name in ("en/a", "en/b"):
        write_documents(folder, f"{name}.jsonl", 12)
    for name, lang in (("mixed/c", "de"), ("mixed/d", "fr")):
        write_documents(folder, f"{name}.jsonl", 9, lang)
    settings = SETTINGS.replace("[build]\nmax_rejected = 1\n", "")
    path = build_file(folder, SOURCES, settings)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    return path


def build_corpus(folder: Path) -> None:
    """The corpus, and its finished build in out/."""
    run(write_corpus(folder), folder / "out")


def remove_here(
    folder: Path,
    ids: Collection[str] = (),
    sources: Collection[str] = (),
    langs: Collection[str] = (),
    dry_run: bool = False,
) -> Removed:
    """Remove in this process; what was removed. A name may be of nothing."""
    options = RunOptions(here=True)
    named = tuple(ids), tuple(langs), tuple(sources)
    return Remove(str(folder / "out"), *named, str(folder), options, allow_missing=True, dry_run=dry_run).run()


def compact_here(folder: Path) -> Compacted:
    """Compact in this process; what that did."""
    return Compact(str(folder / "out"), str(folder), RunOptions(here=True)).run()


def require_without(folder: Path, gone: Collection[str]) -> None:
    """Assert that the newest commit is what a build gives over inputs that never had the documents of these ids."""
    fresh = folder / "fresh"
    shutil.copytree(folder, fresh, ignore=shutil.ignore_patterns("out", "fresh", "undisturbed"))
    for path in [*fresh.glob("en/*"), *fresh.glob("mixed/*")]:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if json.loads(line)["id"] not in gone))
    expected = build_fresh(fresh / "build.toml", fresh / "out", folder / "out")
    newest = read_log(str(folder / "out")).commits[-1].totals
    same = ("documents", "text_bytes", "tokens", "documents_digest")
    assert {name: getattr(newest, name) for name in same} == {name: getattr(expected, name) for name in same}
    for lang in ("en", "de", "fr"):
        assert open_counts(folder / "out", lang) == open_counts(fresh / "out", lang)
    for split in ("train", "validation"):
        mine, theirs = (tokcore.open_shards(place, split) for place in (folder / "out", fresh / "out"))
        assert sorted(ids.tolist() for ids in mine) == sorted(ids.tolist() for ids in theirs)
    shutil.rmtree(fresh)


def open_counts(output: Path, lang: str) -> list[dict[str, object]]:
    """The rows of a language's table; none if there is none."""
    try:
        return tokcore.open_counts(output, lang).to_pylist()
    except tokcore.ConfigError:
        return []


def list_ids(output: Path, at: int | None = None) -> set[str | None]:
    """The ids of all documents of a commit."""
    shards = tokcore.open_shards(output, split="all", at=at)
    return {shards.document(i).id for i in range(len(shards))}
