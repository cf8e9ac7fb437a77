"""`tokcore init`: what it finds in a folder, and that the file it writes passes check and builds as it is."""

from __future__ import annotations

import gzip
import io
import json
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import build_file, jsonl, run, small_corpus, texts, tokcore, write
from support.updates import update_here

import tokcore as package
from tokcore import Tokenizer
from tokcore.errors import ConfigError
from tokcore_pipelines.begin.build_text import write_build_text
from tokcore_pipelines.begin.check_build import make_check_report
from tokcore_pipelines.begin.language_names import guess_file_language, guess_folder_language
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.local.progress import StageProgress
from tokcore_schemas.config import load_config


def rows(lang: str, num: int = 25) -> list[dict[str, Any]]:
    return [{"id": f"{lang}-{i}", "text": text, "lang": lang} for i, text in enumerate(texts(lang, num))]


def bare(lang: str) -> bytes:
    return jsonl([{"content": row["text"]} for row in rows(lang)])


def parquet(documents: Sequence[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(documents)), file)
    return file.getvalue()


def proposed(folder: Path, at: Path | None = None) -> tuple[list[dict[str, Any]], str]:
    """(the sources, the text) of the build file for a folder; it passes check and builds as it is."""
    path = (at or folder.parent) / "build.toml"
    path.write_text(write_build_text(propose(str(folder)), str(path)), encoding="utf-8")
    report = make_check_report(Build(load_config(str(path))), StageProgress(-1))
    assert (report["problems"], report["warnings"]) == ([], []), report
    manifest = run(path, path.parent / "out")
    assert manifest.totals.records.rejected == {}
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text)["source"], text


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_languages_by_folder(data):
    for lang in ("en", "ru", "zh"):
        for name in ("a", "b"):
            write(data / lang / "deep" / f"{name}.jsonl.gz", bare(lang))
        write(data / lang / "c.jsonl.gz", bare(lang))
    sources, text = proposed(data)
    assert sources == [
        {"lang": lang, "files": f"data/{lang}/**/*.jsonl.gz", "text": "content"} for lang in ("en", "ru", "zh")
    ]
    assert "# 3 files, " in text
    assert "# The records have 'content'" in text


def test_languages_by_field_win_over_folders(data):
    for lang in ("en", "ru"):
        write(data / lang / "a.jsonl", jsonl(rows(lang)))
    sources, _ = proposed(data)
    assert sources == [{"lang_field": "lang", "files": "data/**/*.jsonl", "id": "id"}]


def test_languages_by_file_name(data):
    for lang in ("en", "ru", "zh"):
        for i in range(2):
            write(data / f"{lang}-0000{i}.jsonl", bare(lang))
    write(data / "hi.jsonl", bare("hi"))
    sources, _ = proposed(data)
    assert [(source["lang"], source["files"]) for source in sources] == [
        ("en", "data/en-*.jsonl"),
        ("hi", "data/hi.jsonl"),
        ("ru", "data/ru-*.jsonl"),
        ("zh", "data/zh-*.jsonl"),
    ]


def test_no_language_is_said_and_still_builds(data):
    write(data / "a.jsonl", bare("en"))
    sources, text = proposed(data)
    assert sources[0]["lang"] == "und"
    assert "lang: nothing tells the language, so name it here" in text


@pytest.mark.parametrize(
    ("folder", "beside", "lang"),
    [
        ("pt-BR", [], "pt-BR"),
        ("eng_Latn", [], "eng_Latn"),
        ("lang=fr", [], "fr"),
        ("raw", ["en", "raw"], "raw"),
        ("raw", ["raw", "data"], ""),
        ("src", [], ""),
        ("English", [], ""),
    ],
)
def test_names_of_folders(folder, beside, lang):
    assert guess_folder_language(folder, beside) == lang


@pytest.mark.parametrize(
    ("name", "lang"),
    [("en.txt", "en"), ("train.pt.jsonl.gz", "pt"), ("my-notes.txt", ""), ("data.jsonl", ""), ("sw_1.csv", "sw")],
)
def test_names_of_files(name, lang):
    assert guess_file_language(name) == lang


def test_every_format(data):
    write(data / "ru" / "a.jsonl.zst", bare("ru"))
    write(data / "en" / "b.txt", b"One document.\n\n\n" * 3)
    write(data / "hi" / "long.txt", "\n\n\n".join(texts("hi", 4000)).encode())
    write(data / "zh" / "c.csv", "id;text\n1;一 是\n2;不 了\n".encode())
    (data / "zh" / "d.parquet").write_bytes(parquet([{"body": row["text"]} for row in rows("zh")]))
    write(data / "en" / "latin.jsonl", "\n".join(f'{{"text": "Stra\xdfe {i}"}}' for i in range(9)).encode("utf-16"))
    write(data / "en" / "lines.data", jsonl(rows("en")))
    sources, text = proposed(data)
    found = {(one.get("lang") or "field", str(one["files"]).removeprefix("data/")): one for one in sources}
    assert set(found) == {
        ("ru", "ru/*.jsonl.zst"),
        ("en", "en/*.txt"),
        ("hi", "hi/*.txt"),
        ("zh", "zh/*.csv"),
        ("zh", "zh/*.parquet"),
        ("en", "en/*.jsonl"),
        ("field", "**/*.data"),
    }
    assert found["hi", "hi/*.txt"]["separator"] == "\n\n\n"
    assert found["zh", "zh/*.csv"]["delimiter"] == ";"
    assert found["zh", "zh/*.parquet"]["text"] == "body"
    assert found["en", "en/*.jsonl"]["encoding"] == "utf-16"
    assert found["field", "**/*.data"]["format"] == "jsonl"
    assert "separator: the largest file has about" in text


def test_splits_for_evaluation_are_left_out(data):
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001", "validation-0"):
        (data / f"{name}.parquet").write_bytes(parquet(rows("en")))
    write(data / "README.md", b"# A card\n")
    write(data / "dataset_info.json", b"{}")
    sources, text = proposed(data)
    assert sources == [{"lang_field": "lang", "files": "data/train*.parquet", "id": "id"}]
    assert "# Left out: 4 files." in text
    assert "#   test-00000-of-00001.parquet: looks like a split for evaluation" in text
    assert "#   dataset_info.json: a mark of another tool" in text


def test_what_cannot_be_read_is_left_out_with_its_reason(data):
    write(data / "good.jsonl", bare("en"))
    write(data / "array.json", json.dumps(rows("en")).encode())
    (data / "zipped.jsonl").write_bytes(gzip.compress(bare("en")))
    write(data / "numbers.ndjson", b'{"a": 1}\n{"a": 2}\n')
    write(data / "program.bin", b"\0\1\2")
    write(data / "empty.txt", b"")
    sources, text = proposed(data)
    assert [source["files"] for source in sources] == ["data/good.jsonl"]
    for said in (
        "array.json: array.json is one JSON array, not one record per line",
        "numbers.ndjson: no field looks like text. The records have 'a'",
        "program.bin: binary data, of no known format",
        "empty.txt: empty",
    ):
        assert f"#   {said}" in text


def test_files_that_come_later_are_of_the_language_that_their_folder_or_their_name_tells(data):
    write(data / "en" / "a.jsonl.gz", bare("en"))
    write(data / "ru" / "a.jsonl", bare("ru"))
    write(data / "zh-0.jsonl.zst", bare("zh"))
    sources, _ = proposed(data)
    assert len(sources) == 3
    write(data / "en" / "b.jsonl.gz", bare("en"))
    write(data / "en" / "c.jsonl", bare("en"))  # of no source: the one of such files is Russian
    write(data / "zh-1.jsonl.zst", bare("zh"))
    write(data / "hi-1.jsonl.zst", bare("hi"))
    update_here(data.parent / "build.toml", data.parent / "out")
    shards = package.open_shards(data.parent / "out", "all")
    documents = Counter(shards.document(i).lang for i in range(len(shards)))
    assert documents == {"en": 2 * len(rows("en")), "ru": len(rows("ru")), "zh": 2 * len(rows("zh"))}


def test_a_folder_that_the_build_file_lies_in_excludes_the_output(data):
    write(data / "en" / "a.jsonl", bare("en"))
    sources, _ = proposed(data, at=data)
    assert sources == [{"lang": "en", "files": "en/*.jsonl", "exclude": "out/**", "text": "content"}]
    # Once more, with the output there: it is no data.
    again = write_build_text(propose(str(data)), str(data / "build.toml"))
    assert tomllib.loads(again)["source"] == [{**sources[0], "exclude": "out-2/**"}]
    assert tomllib.loads(again)["build"]["output"] == "out-2"
    assert "of the tokcore output" in again


@pytest.mark.parametrize("name", ["a [1]", "$HOME", "~x", 'quo"te', "a*b", "ü?"])
def test_odd_names(tmp_path, name):
    folder = tmp_path / name
    write(folder / "en" / f"{name}.jsonl", bare("en"))
    write(folder / "en" / "b.jsonl", bare("en"))
    write(tmp_path / "en" / "other.jsonl", b"nothing of ours\n")
    sources, _ = proposed(folder)
    assert len(sources) == 1


def test_one_file_and_a_file_url(data):
    write(data / "en.jsonl", bare("en"))
    write(data / "ru.jsonl", bare("ru"))
    path = data.parent / "b.toml"
    for url in (str(data / "en.jsonl"), f"file://{data}/en.jsonl"):
        text = write_build_text(propose(url), str(path))
        assert tomllib.loads(text)["source"] == [{"lang": "en", "files": "data/en.jsonl", "text": "content"}]


def test_a_store(tmp_path):
    store = fsspec.filesystem("memory")
    for lang in ("en", "ru"):
        store.pipe_file(f"/init/{lang}/a.jsonl", bare(lang))
    store.pipe_file("/init/en/.hidden.jsonl", b"x")
    text = write_build_text(propose("memory://init"), str(tmp_path / "b.toml"))
    assert [(one["lang"], one["files"]) for one in tomllib.loads(text)["source"]] == [
        ("en", "memory://init/en/*.jsonl"),
        ("ru", "memory://init/ru/*.jsonl"),
    ]


def test_the_corpus_of_these_tests(tmp_path):
    small_corpus(tmp_path)
    build_file(tmp_path)
    sources, text = proposed(tmp_path, at=tmp_path)
    assert [source["lang"] for source in sources] == ["en", "hi", "ru", "zh"]
    assert "build.toml: plain text, of no known format" in text


def test_messages_in_lists(data):
    write(data / "chat.jsonl", jsonl([{"messages": [{"role": "user", "content": text}]} for text in texts("en", 9)]))
    messages = [{"messages": [{"role": "user", "content": text}]} for text in texts("ru", 9)]
    write(data / "chat.parquet", parquet(messages))
    sources, text = proposed(data)
    assert [source["text"] for source in sources] == ["messages[*].content"]
    assert "# The records have 'messages[*].role', 'messages[*].content'" in text


def test_the_size_is_what_little_text_gives(data):
    write(data / "en" / "a.jsonl", bare("en"))
    _, text = proposed(data)
    learn = tomllib.loads(text)["learn"]
    assert learn["allow_smaller"]
    assert Tokenizer.load(data.parent / "out").vocab_size == learn["vocab_size"] > 300


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "no data"])
def test_a_folder_without_data_is_refused(tmp_path, there):
    if there != "nothing":
        (tmp_path / "x").mkdir()
    if there == "no data":
        write(tmp_path / "x" / "README.md", b"hello")
    why = {"nothing": "there is no such file or folder", "an empty folder": "it is empty", "no data": "README.md"}[
        there
    ]
    with pytest.raises(ConfigError, match=f"no data that tokcore reads: {why}"):
        propose(str(tmp_path / "x"))


def test_the_command(data):
    write(data / "en" / "a.jsonl", bare("en"))
    here = {"cwd": data.parent}
    done = tokcore("init", "data", **here)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "build.toml: 1 source, 1 file, 0 left out")
    assert tokcore("check", data.parent / "build.toml", **here).returncode == 0
    done = tokcore("init", "data", **here)
    assert done.returncode == 2
    assert "is there already. Name another file with -o, or replace it with --force" in done.stderr
    printed = tokcore("init", "data", "-o", "-", **here)
    assert (printed.returncode, printed.stdout) == (0, (data.parent / "build.toml").read_text())
    assert tokcore("init", "data", "--force", **here).returncode == 0
    for wrong in (("init", "none"), ("init", "data", "-o", "no/where.toml"), ("init", "ftp://x/y", "-o", "z.toml")):
        done = tokcore(*wrong, **here)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr
    assert sorted(path.name for path in data.parent.iterdir()) == ["build.toml", "data"]
