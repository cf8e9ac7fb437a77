"""What check and build see in a sample of the input: wrong fields, formats and units, each with its fix; estimates."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import jsonl, run, texts, tokcore, write

import tokcore_pipelines.reading.peek
from tokcore.errors import ConfigError, StageError
from tokcore.text.pretokenize import pretokenize
from tokcore_pipelines.begin.estimate import Estimate, estimate
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.long_files import find_long_files
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.build.source_checks import BEFORE_A_BUILD, FOR_CHECK, check_samples, describe, sample_plan
from tokcore_pipelines.reading.sniff import detect_content
from tokcore_pipelines.work.item_reader import ItemReader
from tokcore_schemas.config import load_config

DOCUMENTS = [{"content": text, "url": f"u/{i}", "language": "en"} for i, text in enumerate(texts("en", 30))]
GOOD = [{"text": text} for text in texts("ru", 30)]


def build_of(folder: Path, *sources: str, more: str = "") -> Path:
    path = folder / "b.toml"
    tables = "".join(f"[[source]]\n{source}\n" for source in sources)
    path.write_text(f'version = 1\n[build]\noutput = "out"\n{more}\n{tables}[learn]\nvocab_size = 300\n')
    return path


def found(path: Path) -> tuple[list[str], list[str]]:
    """(what stops a build, warnings), without the name of the build file."""
    config = load_config(str(path))
    findings = check_samples(config, sample_plan(config, plan_build(config), FOR_CHECK))
    says = [describe([one for one in findings if one.stops == stops]) for stops in (True, False)]
    stopping, warnings = ([text.replace(f"{path}:", "") for text in one] for one in says)
    return stopping, warnings


def parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("source", "name", "content", "message"),
    [
        (
            'lang = "en"',
            "a.jsonl",
            jsonl(DOCUMENTS),
            "100 % of the sampled records would be rejected: missing_text: field text. The records have 'content', "
            "'url', 'language': write text = \"content\" (first in a.jsonl, record 0).",
        ),
        ('lang = "en"\ntext = "contents"', "a.jsonl.gz", jsonl(DOCUMENTS), 'write text = "content"'),
        ('lang_field = "lang"\ntext = "content"', "a.jsonl.zst", jsonl(DOCUMENTS), 'write lang_field = "language"'),
        ('lang = "en"\ntext = "content"\nid = "key"', "a.jsonl", jsonl(DOCUMENTS), 'write id = "url"'),
        ('lang_field = "content"\ntext = "url"', "a.jsonl", jsonl(DOCUMENTS), "is not a language code"),
        ('lang = "en"', "a.parquet", parquet(DOCUMENTS), "The columns have 'content', 'url', 'language': write text"),
        ('lang = "en"', "a.jsonl", jsonl([{"doc": {"body": "x" * 50}}]), 'write text = "doc.body"'),
        ('lang = "en"', "a.csv", b"content,url\na b,1\nc d,2\n", 'write text = "content"'),
        ('lang = "en"', "a.csv", b"text;url\na b;1\nc d;2\n", 'write delimiter = ";"'),
        ('lang = "en"', "a.jsonl", gzip.compress(jsonl(GOOD)), "is compressed with gzip, and its name does not say so"),
        ('lang = "en"\nformat = "jsonl"', "a.gz", jsonl(GOOD), "a.gz is JSON lines, not what its name says: rename"),
        ('lang = "en"', "a.json", json.dumps(GOOD).encode(), "To convert it: jq -c '.[]' a.json > a.jsonl"),
        ('lang = "en"', "a.json", json.dumps(GOOD, indent=1).encode(), "To convert it: jq -c '.[]' a.json > a.jsonl"),
        ('lang = "en"', "a.json", json.dumps(GOOD[0], indent=1).encode(), "To convert it: jq -c . a.json > a.jsonl"),
        ('lang = "en"', "a.jsonl", parquet(GOOD), 'a.jsonl is a Parquet file: write format = "parquet"'),
        ('lang = "en"', "a.parquet", jsonl(GOOD), 'is JSON lines, not a Parquet file: write format = "jsonl"'),
        ('lang = "en"', "a.jsonl", b"WARC/1.0\r\nWARC-Type: warcinfo\r\n", 'is a WARC file: write format = "warc"'),
        ('lang = "en"', "a.wet", jsonl(GOOD), 'a.wet is JSON lines: write format = "jsonl"'),
        ('lang = "en"', "a.txt", jsonl(GOOD), 'holds JSON lines, and is read as plain text: write format = "jsonl"'),
        ('lang = "en"', "a.txt", "Grüße".encode("utf-16"), 'set encoding = "utf-16"'),
        ('lang = "en"', "a.jsonl", b"[1]\n[2]\n", "not_object"),
    ],
)
def test_what_is_wrong_is_named_with_its_mend(tmp_path, source, name, content, message):
    if name.endswith(("jsonl.gz", ".zst")):
        write(tmp_path / name, content)
    else:
        (tmp_path / name).write_bytes(content)
    path = build_of(tmp_path, f'{source}\nfiles = "{name}"')
    (text,), warnings = found(path)
    assert message in text, text
    assert warnings == []
    with pytest.raises(ConfigError) as raised:
        run(path, tmp_path / "out")
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_few_records_without_text_do_not_send_anybody_to_another_field(tmp_path):
    rows = [{"id": f"a-{i}", "text": text} for i, text in enumerate(texts("en", 20))]
    (tmp_path / "a.jsonl").write_bytes(jsonl([*rows, {"id": "a-bad", "text": 7}]))
    stopping, (warning,) = found(build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"', more="max_rejected = 1"))
    assert stopping == []
    assert "Most records have text in 'text': mend the others, or allow for them with max_rejected" in warning


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_paths_into_lists(tmp_path, name):
    rows = [{"messages": [{"content": text}]} for text in texts("en", 9)]
    (tmp_path / name).write_bytes(parquet(rows) if name.endswith("t") else jsonl(rows))
    source = f'lang = "en"\nfiles = "{name}"\ntext = "messages'
    assert found(build_of(tmp_path, f'{source}[*].content"')) == ([], [])
    for path in ("", "[*]", ".content", "[0].content", "[].content", "[*].contnt"):
        (text,), _ = found(build_of(tmp_path, f'{source}{path}"'))
        assert "messages[*].content" in text


def test_one_cause_in_many_sources_is_said_once(tmp_path):
    sources = []
    for lang in ("en", "ru", "zh"):
        write(tmp_path / f"{lang}.jsonl", jsonl(DOCUMENTS))
        sources.append(f'lang = "{lang}"\nfiles = "{lang}.jsonl"')
    (text,), _ = found(build_of(tmp_path, *sources))
    assert text.endswith("(first in en.jsonl, record 0). The same holds for 2 more sources.")


@pytest.mark.parametrize("wrong", ["few", "small", "allowed", "one file"])
def test_what_a_build_can_take_is_a_warning(tmp_path, wrong):
    write(tmp_path / "good.jsonl", jsonl(GOOD * 3))
    write(tmp_path / "a.jsonl", jsonl([*GOOD, *DOCUMENTS[:2]] if wrong == "few" else DOCUMENTS[:1]))
    write(tmp_path / "sub" / "b.jsonl", jsonl(GOOD))
    files = '["a.jsonl", "sub/b.jsonl"]' if wrong == "one file" else '"a.jsonl"'
    limit = {"few": "0.5", "small": "0.1", "allowed": "1", "one file": "0.1"}[wrong]
    sources = ('lang = "en"\nfiles = "good.jsonl"', f'lang = "ru"\nfiles = {files}')
    stopping, (warning,) = found(build_of(tmp_path, *sources, more=f"max_rejected = {limit}"))
    assert stopping == []
    assert "missing_text" in warning


def test_a_long_text_file_is_pointed_out_until_unit_is_set(tmp_path):
    write(tmp_path / "a.txt", b"One line of many.\n" * 100_000)
    (warning,) = found(build_of(tmp_path, 'lang = "en"\nfiles = "a.txt"'))[1]
    assert (
        "a.txt is one document of about 1.8 MB. If it holds several documents, say how to separate them: unit ="
        in warning
    )
    for unit in ('unit = "line"', 'unit = "file"', 'separator = "many"'):
        assert found(build_of(tmp_path, f'lang = "en"\nfiles = "a.txt"\n{unit}')) == ([], [])
    write(tmp_path / "a.txt", jsonl(GOOD))
    assert found(build_of(tmp_path, 'lang = "en"\nfiles = "a.txt"\nformat = "text"')) == ([], [])


def test_good_sources_of_every_format_give_nothing(tmp_path):
    rows = [{"id": str(i), "text": one["text"], "lang": "ru"} for i, one in enumerate(GOOD)]
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst"):
        write(tmp_path / name, jsonl(rows))
    (tmp_path / "a.parquet").write_bytes(parquet(rows))
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, pa.schema([("text", "string")])):
        pass
    write(tmp_path / "empty.jsonl", b"")
    (tmp_path / "a.csv").write_text('id,text,lang\n1,"a\nb",ru\n')
    names = ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.arrow", "empty.jsonl", "a.csv"]
    assert found(build_of(tmp_path, f'lang = "ru"\nfiles = {json.dumps(names)}')) == ([], [])


def _long_files() -> dict[str, tuple[bytes, str]]:
    """Name -> (a file whose first record is longer than any sample, keys of its source)."""
    chance = random.Random(1)
    long = " ".join(chance.choice(["quick", "brown", '"fox"', "día", f"{chance.random()}"]) for _ in range(80_000))
    plain = long.replace('"', "")
    line = jsonl([{"text": long}])
    answer = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\nContent-Length: {len(plain.encode())}"
    row = f'id,text\n1,"{plain.replace(" ", chr(10))}"\n2,short\n'.encode()
    return {
        "a.jsonl": (line * 2, ""),
        "a.jsonl.gz": (line * 2, ""),
        "dense.jsonl.gz": (jsonl([{"text": "so " * 1_000_000}]), ""),  # all of it stored, but not unfolded
        "utf-16.jsonl": (
            json.dumps({"text": long}, ensure_ascii=False).encode("utf-16") + b"\n\0",
            'encoding = "utf-16"',
        ),
        "a.csv": (row, ""),
        "line.csv": (f"text,id\n{plain},1\n".encode(), ""),
        "header.csv": (f"{plain},text\n1,2\n".encode(), ""),
        "a.tsv": (row.replace(b",", b"\t"), ""),
        "a.txt": (plain.encode() + b"\n", 'unit = "line"'),
        "b.txt": (plain.encode() + b"\n", 'unit = "paragraph"'),
        "c.txt": (plain.encode() + b"\n", 'separator = "nowhere"'),
        "d.txt": (plain.encode(), 'unit = "file"'),
        "a.warc": (f"{answer}\r\n\r\n{plain}\r\n\r\n".encode(), ""),
    }


@pytest.mark.parametrize("name", _long_files())
@pytest.mark.parametrize("depth", [BEFORE_A_BUILD, FOR_CHECK])
def test_a_sample_that_ends_inside_its_only_record_is_no_evidence(tmp_path, monkeypatch, name, depth):
    monkeypatch.setattr(tokcore_pipelines.reading.peek, "MAX_LINE_BYTES", 0)
    content, keys = _long_files()[name]
    write(tmp_path / name, content)
    config = load_config(str(build_of(tmp_path, f'lang = "en"\nfiles = "{name}"\n{keys}')))
    plan = plan_build(config)
    (sample,) = sample_plan(config, plan, depth)
    assert not sample.seen[0].peek.is_whole
    assert describe(check_samples(config, [sample])) == []
    estimate(config, [sample], 1)
    (assignment,) = [plan.assignment(item) for item in plan.items]
    rejects: list[Any] = []
    num = sum(batch.texts.num_texts for _, batch in ItemReader(assignment, str(tmp_path), rejects.append))
    assert (num > 0, rejects) == (True, [])


def test_more_is_read_of_json_lines_whose_first_line_is_long(tmp_path):
    """So that a book a line has fields, estimates and advice, as short records have."""
    write(tmp_path / "a.jsonl", jsonl([{"body": "word " * 200_000}] * 20))
    stopping, _ = found(build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"'))
    assert "The records have 'body': write text = \"body\"" in stopping[0]
    assert exactly(build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"\ntext = "body"')).text_bytes > 15e6
    (proposed,) = propose(str(tmp_path / "a.jsonl")).sources
    assert proposed.source.text == "body"


@pytest.mark.parametrize(
    ("head", "content"),
    [
        (b"", "empty"),
        (b"BZh91AY", "bz2"),
        (b"\x50\x2a\x4d\x18\0\0\0\0", "zst"),
        (b"\xef\xbb\xbf{}\n", "json lines"),
        (b'{"a": "cut', "json lines"),
        ('{"text": "Straße"}\n'.encode("latin-1"), "json lines"),
        (b'{"a": 1, "b": "cut\n', "text"),
        (b"[1, 2]\n[3]\n", "text"),
        (b"[Verse 1]\nOh", "text"),
        (b"{curly}\ntext", "text"),
        (b"a\0b", "binary"),
        (b"WARC/1.0\r\n", "warc"),
    ],
)
def test_contents(head, content):
    assert detect_content(head) == content


def test_a_sample_is_bounded_and_follows_from_the_input_alone(tmp_path, monkeypatch):
    for i in range(40):
        write(tmp_path / f"{i:02}.jsonl", jsonl(GOOD * 60))  # 1 MB each
    config = load_config(str(build_of(tmp_path, 'lang = "ru"\nfiles = "*.jsonl"')))
    plan = plan_build(config)
    first = sample_plan(config, plan, BEFORE_A_BUILD)
    assert [seen.file.uri for seen in first[0].seen] == ["00.jsonl", "39.jsonl"]
    assert all(seen.peek.stored_bytes == BEFORE_A_BUILD.bytes_each for seen in first[0].seen)
    many = sample_plan(config, plan, FOR_CHECK)
    assert len(many[0].seen) == FOR_CHECK.files
    once, twice = (estimate(config, sample_plan(config, plan, FOR_CHECK), 1) for _ in range(2))
    assert once is not None
    assert twice is not None
    assert once._replace(seconds=0, bytes_per_second=0) == twice._replace(seconds=0, bytes_per_second=0)


def exactly(path: Path) -> Estimate:
    config = load_config(str(path))
    told = estimate(config, sample_plan(config, plan_build(config), FOR_CHECK), 2)
    assert told is not None
    return told


def test_estimates_are_exact_where_the_sample_is_the_corpus(tmp_path):
    documents = [one["text"] for one in GOOD]
    write(tmp_path / "a.jsonl", jsonl(GOOD))
    path = build_of(tmp_path, 'lang = "ru"\nfiles = "a.jsonl"')
    told = exactly(path)
    pretokens = [pretoken for text in documents for pretoken in pretokenize(text, "o200k")]
    assert told.is_whole
    assert (told.text_bytes, told.sample_bytes) == (sum(len(text.encode()) for text in documents),) * 2
    assert (told.pretokens, told.distinct) == (len(pretokens), len(set(pretokens)))
    assert told.vocab_least == told.vocab_most
    mean_bytes = sum(len(pretoken.encode()) for pretoken in set(pretokens)) / told.distinct
    assert told.learn_bytes == told.learn_most_bytes == (55 + math.ceil(5 * mean_bytes)) * told.distinct
    # Learning reaches exactly the largest vocabulary that is estimated.
    path.write_text(path.read_text().replace("300", str(told.vocab_least)))
    run(path, tmp_path / "out")
    path.write_text(path.read_text().replace(str(told.vocab_least), str(told.vocab_least + 1)))
    with pytest.raises(Exception, match=f"the counts give only {told.vocab_least} tokens"):
        run(path, tmp_path / "more")


@pytest.mark.parametrize("is_long", [False, True])
def test_a_parquet_file_of_more_than_a_batch_is_estimated_by_its_rows(tmp_path, monkeypatch, is_long):
    """A long one from its first row group, unless that is long, too."""
    rows = [{"text": f"word{1000 + i} " * 300} for i in range(4000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=500)
    path = build_of(tmp_path, 'lang = "en"\nfiles = "a.parquet"')
    if is_long:
        monkeypatch.setattr(
            tokcore_pipelines.reading.peek, "_MAX_COLUMNS_BYTES", (tmp_path / "a.parquet").stat().st_size - 1
        )
    told = exactly(path)
    assert not told.is_whole
    assert (told.documents, told.languages) == (4000, 1)
    assert told.text_bytes == pytest.approx(sum(len(row["text"]) for row in rows), rel=0.02)
    monkeypatch.setattr(tokcore_pipelines.reading.peek, "_MAX_COLUMNS_BYTES", 1000)
    config = load_config(str(path))
    assert estimate(config, sample_plan(config, plan_build(config), FOR_CHECK), 1) is None


def test_a_sample_bounds_the_vocabulary_and_is_near_in_size(tmp_path):
    num_bytes = 0
    for i in range(4):
        documents = [{"text": text} for text in texts("en", 6000, seed=i)]
        num_bytes += sum(len(one["text"].encode()) for one in documents)
        write(tmp_path / f"{i}.jsonl", jsonl(documents))
    told = exactly(build_of(tmp_path, 'lang = "en"\nfiles = "*.jsonl"'))
    assert not told.is_whole
    assert math.isclose(told.text_bytes, num_bytes, rel_tol=0.1)
    assert 256 < told.vocab_least < told.vocab_most
    assert 55 * told.distinct < told.learn_bytes < told.learn_most_bytes
    assert 0 < told.sample_bytes < num_bytes


def test_check_prints_what_it_found_and_ends_as_the_build_would(tmp_path):
    write(tmp_path / "a.jsonl", jsonl(DOCUMENTS))
    path = build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"')
    for command in ("check", "build", "count"):
        done = tokcore(command, path)
        assert done.returncode == 2
        assert f"{path}:5: source[0].text: 100 % of the sampled records" in done.stderr
    assert not (tmp_path / "out").exists()
    done = tokcore("check", path, "--set", "source.text=content")
    assert (done.returncode, done.stderr) == (0, "")
    assert "estimates   from all of it" in done.stdout
    assert "largest vocabulary" in done.stdout
    done = tokcore("check", path, "--set", "source.text=content", "--set", "learn.vocab_size=99999")
    assert (done.returncode, "learn.vocab_size: 99,999 tokens are more than the corpus gives, 318" in done.stderr) == (
        2,
        True,
    ), done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if not line.startswith("output"))


def test_rejects_of_one_cause_say_so_once_with_the_mend(tmp_path):
    """The start of the file is right, so only reading all of it finds the wrong rest."""
    rows = [*({"text": "x" * 200} for _ in range(1500)), *({"content": "y" * 200, "url": "u"} for _ in range(1500))]
    data = jsonl(rows).replace(b'{"content"', b'\n{"content"', 1)  # a blank line, which is no record
    write(tmp_path / "a.jsonl", data)
    path = build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"')
    with pytest.raises(StageError) as raised:
        run(path, tmp_path / "out")
    message = str(raised.value)
    assert "nearly all for one cause:\n  missing_text in 50 % of the records of a.jsonl, first in line 1502" in message
    assert f"{path}:5: source[0].text: The records have 'content', 'url'; other records are fine: fix these" in message
    assert "raise build.max_rejected" not in message
    assert message.count("missing_text") == 1


def test_a_field_that_all_records_lack_is_named_where_no_sample_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tokcore_pipelines.build.build.refuse_wrong_sources", lambda *_: [])
    write(tmp_path / "a.jsonl", jsonl(DOCUMENTS))
    with pytest.raises(StageError) as raised:
        run(build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"'), tmp_path / "out")
    assert "missing_text in 100 % of the records of a.jsonl, first in line 1: field text" in str(raised.value)
    assert "The records have 'content', 'url', 'language': write text = \"content\"" in str(raised.value)


def test_a_cause_of_whole_files_names_one(tmp_path):
    write(tmp_path / "a.jsonl", jsonl(GOOD * 100))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(jsonl(GOOD))[:-5])
    with pytest.raises(
        StageError, match=r"b\.jsonl\.gz: the whole file: truncated: .*\(1 of 2 files\)(?s:.)*copy them again"
    ):
        run(build_of(tmp_path, 'lang = "ru"\nfiles = "?.jsonl*"'), tmp_path / "out")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_template_over_a_list_is_told_to_join_it(tmp_path, suffix):
    rows = [{"text": "x" * 200, "tags": ["a", "b"]}] * 20
    if suffix == "jsonl":
        write(tmp_path / "a.jsonl", jsonl(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    keys = f'lang = "en"\nfiles = "a.{suffix}"\ntext = "{{text}} {{tags?}}"'
    said = r"'tags' holds lists: write \{tags\[\*\]:, \} to join their texts"
    with pytest.raises((ConfigError, StageError), match=said):
        run(build_of(tmp_path, keys), tmp_path / "out")


def test_rejects_of_several_causes_are_listed(tmp_path):
    rows = [*({"text": "x" * 200} for _ in range(1500)), *({"text": 5} for _ in range(50))]
    write(tmp_path / "a.jsonl", jsonl(rows) + b"{}\n" * 50)
    with pytest.raises(StageError, match=r"bad_text(?s:.)*or raise build\.max_rejected"):
        run(build_of(tmp_path, 'lang = "en"\nfiles = "a.jsonl"'), tmp_path / "out")


def _pack(name: str, lines: list[str]) -> bytes:
    content = "".join(f"{line}\n" if name.startswith("txt") else json.dumps({"text": line}) + "\n" for line in lines)
    if name.endswith("gz"):
        return content.encode()  # which is compressed as it is written
    rows, file = pa.table({"text": lines}), io.BytesIO()
    if name == "parquet":
        pq.write_table(rows, file)
    else:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    return file.getvalue()


def _unpack(name: str, content: bytes) -> list[str]:
    if name.endswith("gz"):
        found = gzip.decompress(content).decode().splitlines()
        return found if name.startswith("txt") else [json.loads(line)["text"] for line in found]
    read = pq.read_table(io.BytesIO(content)) if name == "parquet" else pa.ipc.open_file(content).read_all()
    return read["text"].to_pylist()


@pytest.mark.parametrize("name", ["jsonl.gz", "txt.gz", "parquet", "feather"])
def test_a_long_file_that_cannot_be_cut_is_named_with_the_command_that_cuts_it(tmp_path, name):
    """The command is run, with smaller parts. They hold the same texts in the same order."""
    lines = [f"line {i} of one file" for i in range(3000)]
    write(tmp_path / "in" / f"a.{name}", _pack(name, lines))
    write(tmp_path / "in" / f"b.{name}", _pack(name, ["short"]))
    unit = '\nunit = "line"' if name.startswith("txt") else ""
    config = load_config(str(build_of(tmp_path, f'lang = "en"\nfiles = "in/*"{unit}')))
    samples = sample_plan(config, plan_build(config), FOR_CHECK)
    (finding,) = find_long_files(config, samples, workers=4, bytes_per_second=10)
    assert finding.where.endswith(" source[0].files")
    assert not finding.stops
    assert finding.text.startswith(f"in/a.{name} cannot be cut, so one worker reads its ")
    assert find_long_files(config, samples, workers=1, bytes_per_second=10) == []  # it reads all in any case
    assert find_long_files(config, samples, workers=4, bytes_per_second=1e9) == []  # the wait is short
    command = finding.text.split("`")[1].replace("-C 1G", "-C 20K")
    command = command.replace("python -c", f"{sys.executable} -c").replace("1 << 18", "1000").replace("1 << 16", "500")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    parts = sorted(tmp_path.glob("part-*") if name.endswith("gz") else (tmp_path / "parts").iterdir())
    assert len(parts) >= 3
    assert [text for part in parts for text in _unpack(name, part.read_bytes())] == lines


def test_plain_lines_are_cut_and_others_are_to_be_written_anew(tmp_path):
    write(tmp_path / "in" / "a.jsonl", jsonl([{"text": "a " * 5000}]))
    write(tmp_path / "in" / "b.csv", b"text\n" + b"b " * 5000 + b"\n")
    write(tmp_path / "in" / "c.jsonl", "".join(json.dumps({"text": "c" * 5000}) + "\n").encode("utf-16"))
    config = load_config(
        str(
            build_of(
                tmp_path,
                'lang = "en"\nfiles = "in/a.jsonl"',
                'lang = "en"\nfiles = "in/b.csv"\nformat = "csv"',
                'lang = "en"\nfiles = "in/c.jsonl"\nencoding = "utf-16"',
            )
        )
    )
    samples = sample_plan(config, plan_build(config), FOR_CHECK)
    said = [one.text for one in find_long_files(config, samples, workers=8, bytes_per_second=10)]
    assert [text.partition(" cannot be cut")[0] for text in said] == ["in/c.jsonl", "in/b.csv"]
    assert all(text.endswith("Write it as several files") for text in said)
