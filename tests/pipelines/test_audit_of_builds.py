"""`tokcore audit` on builds: each section against the shards and tables themselves."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.builds import build_file, find_file, jsonl, run, texts, write
from support.vocabularies import spec_of_merges

import tokcore as api
from tokcore.errors import FormatError, IdentityError
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.cli import commands
from tokcore_pipelines.commands.audit import print_audit
from tokcore_pipelines.look.audit import audit

# SHOUT is one long document; MURMUR is in one file, in many documents; HIDDEN has invisible characters and one that
# turns text from right to left.
SHOUT, MURMUR, HIDDEN = "zqzq " * 400, "vxvx ", "kwk\u202ewk\u200b\u200b "
SOURCES = "\n".join(
    f'[[source]]\nlang = "{lang}"\nfiles = "{name}.jsonl"' for lang, name in (("en", "a"), ("en", "b"), ("ru", "c"))
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited")
    some = texts("en", 40)
    write(folder / "a.jsonl", jsonl([{"text": text} for text in [*some[:20], SHOUT, *([HIDDEN] * 30)]]))
    write(folder / "b.jsonl", jsonl([{"text": text} for text in [*some[20:], *([MURMUR * 3] * 60), MURMUR]]))
    write(folder / "c.jsonl", jsonl([{"text": text + "\x07"} for text in texts("ru", 20)]))
    run(build_file(folder, SOURCES, "[learn]\nvocab_size = 390\n"), folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def tokenizer(built: Path) -> api.Tokenizer:
    return api.Tokenizer.load(built)


def id_of(tokenizer: api.Tokenizer, text: str) -> int:
    (id,) = tokenizer.encode(text).tolist()
    return int(id)


def test_never_and_rarely_written(built, tokenizer):
    written = Counter(id for document in api.open_shards(built) for id in document.tolist())
    for rare in (0, 3, 50):
        report = audit(read_output(str(built)), tokenizer, rare)
        assert [one["id"] for one in report["never"]] == [i for i in range(tokenizer.vocab_size) if not written[i]]
        assert {one["id"]: one["count"] for one in report["rare"]} == {i: n for i, n in written.items() if n <= rare}
    assert report["tokens"] == written.total()
    assert report["ordinary_tokens"] + report["special_tokens"] == tokenizer.vocab_size == 390
    assert report["unused_ids"] == 0


def test_ids_of_one_document_and_of_one_file(built, tokenizer):
    report = audit(read_output(str(built)), tokenizer, sources=True)
    assert report["missing"] == {}
    shouted = {one["id"]: one for one in report["mostly_one_document"]}[id_of(tokenizer, " zqzq")]
    assert (shouted["max_in_document"], shouted["count"], shouted["documents"]) == (399, 399, 1)
    assert shouted["top_source"] == "a.jsonl"
    murmured = {one["id"]: one for one in report["mostly_one_source"]}[id_of(tokenizer, " vxvx")]
    assert (murmured["top_source"], murmured["top_source_count"], murmured["count"]) == ("b.jsonl", 120, 120)
    assert murmured["id"] not in {one["id"] for one in report["mostly_one_document"]}
    assert report["mostly_one_source_by_source"] == Counter(one["top_source"] for one in report["mostly_one_source"])
    # All of them, counted from the table by definition.
    rows = pq.read_table(built / "shards" / "token_counts.parquet").to_pylist()
    by_source: dict[int, Counter[str]] = defaultdict(Counter)
    shards = api.open_shards(built)
    for row in range(len(shards)):
        for id in shards[row].tolist():
            by_source[id][shards.document(row).source] += 1
    ordinary = [row for row in rows if row["count"] > 10 and row["id"] != tokenizer.special_id("<|endoftext|>")]
    one_document = {row["id"] for row in ordinary if 2 * row["max_in_document"] > row["count"]}
    one_source = {row["id"] for row in ordinary if 10 * max(by_source[row["id"]].values()) > 9 * row["count"]}
    assert {one["id"] for one in report["mostly_one_document"]} == one_document
    assert {one["id"] for one in report["mostly_one_source"]} == one_source


def test_invisible_characters_by_kind_and_language(built, tokenizer):
    report = audit(read_output(str(built)), tokenizer)
    assert {
        kind: {lang: (about["occurrences"], about["characters"]) for lang, about in langs.items()}
        for kind, langs in report["invisible_in_text"].items()
    } == {
        "c0_control": {"ru": (20, {"U+0007": 20})},
        "zero_width": {"en": (60, {"U+200B": 60})},
        "bidi_control": {"en": (30, {"U+202E": 30})},
    }
    keys = pq.read_table(find_file(built, "counts/en.parquet"))["pretoken"].to_pylist()
    holders = sum("\u200b".encode() in key for key in keys)
    assert report["invisible_in_text"]["zero_width"]["en"]["pretokens"] == holders
    for one in report["invisible_tokens"]:
        assert not bytes.fromhex(one["bytes"]).decode("utf-8", "ignore").isprintable()
        assert sum(one["kinds"].values()) >= 1
    assert {one["id"] for one in report["invisible_tokens"]} >= {id_of(tokenizer, "\x07"), id_of(tokenizer, "\0")}


def test_sources_are_looked_for_when_asked(built, tokenizer, tmp_path, capsys):
    """Otherwise no shard is read, because shards may be elsewhere."""
    asked = audit(read_output(str(built)), tokenizer, sources=True)
    shutil.copytree(built, tmp_path / "moved", ignore=shutil.ignore_patterns("arrow", "megatron"))
    report = audit(read_output(str(tmp_path / "moved")), tokenizer)
    assert report["missing"].keys() == {"mostly_one_source"}
    assert "mostly_one_source" not in report
    by_id = {one["id"]: one for one in asked["rare"]}
    assert all(one.items() <= by_id[one["id"]].items() for one in report["rare"])
    print_audit(report)
    assert "left out      mostly_one_source: not asked for: --sources reads all shards" in capsys.readouterr().out
    with pytest.raises(FormatError):
        audit(read_output(str(tmp_path / "moved")), tokenizer, sources=True)
    shutil.rmtree(tmp_path / "moved" / "plan")
    report = audit(read_output(str(tmp_path / "moved")), tokenizer, sources=True)
    assert report["missing"]["mostly_one_source"].startswith("no plan in this output")


def test_what_is_missing_is_said(built, tokenizer, tmp_path, capsys):
    shutil.copytree(built / "tokenizer", tmp_path / "only" / "tokenizer")
    report = audit(read_output(str(tmp_path / "only")), tokenizer)
    assert report["missing"].keys() == {"written", "invisible_in_text"}
    assert "never" not in report
    assert report["partial_utf8"] == audit(read_output(str(built)), tokenizer)["partial_utf8"]
    print_audit(report)
    shown = capsys.readouterr().out
    assert "left out      written: no shards in this output" in shown
    assert "left out      invisible_in_text: no count tables in this output" in shown


def test_shards_of_another_tokenizer_are_refused(built):
    merges = api.learn_bpe(api.count_pretokens(["abab"]), 257)
    with pytest.raises(IdentityError, match="another tokenizer"):
        audit(read_output(str(built)), api.Tokenizer(spec_of_merges(merges, {"name": "gpt2"}, (), [])))


def test_command_line(built, tmp_path):
    def called(*arguments: str | Path):
        return CliRunner().invoke(commands, ["audit", *map(str, arguments)])

    shown = called(built, "--sources")
    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) <= 24
    assert '" zqzq" 399 of 399' in shown.output
    assert "b.jsonl: " in shown.output
    assert "bidi_control: en 30" in shown.output
    assert shown.output.replace("\n", "").isprintable()  # no text that it quotes acts on the terminal
    report = json.loads(called(built, "--json", "--rare", "3").output)
    assert report == json.loads(json.dumps(audit(read_output(str(built)), api.Tokenizer.load(built), 3)))
    assert called(tmp_path / "nothing").exit_code == 2
    assert called(built, "--rare", "-1").exit_code == 2
