"""tokcore show: the shards of an output, and the text of a document beside its tokens."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from support.builds import build_file, jsonl, run, texts, tokcore, write

import tokcore as api
from tokcore.errors import IdentityError
from tokcore_pipelines.commands.print_document import print_document
from tokcore_pipelines.commands.show import print_shards
from tokcore_pipelines.local.terminal import WIDTH
from tokcore_pipelines.look.show import list_shards
from tokcore_pipelines.look.show_document import read_document

ODD = "tab\there\n\n" + "wide 言語 \x1b[31m \u202e " + "emoji 👩🏽‍💻 " + "x" * 90 + "\nend"

SOURCE = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\nid = "id"\n'
SETTINGS = '[learn]\nvocab_size = 300\n[shards]\ntarget_tokens = 2000\nby = "lang"\nformats = ["arrow", "megatron"]\n'


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    documents = [ODD, "", *texts("en", 60)]
    write(folder / "en.jsonl", jsonl([{"id": f"d{i}", "text": text} for i, text in enumerate(documents)]))
    run(build_file(folder, SOURCE, SETTINGS), folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def shard(output: Path) -> Path:
    return next((output / "shards").rglob("*-00000-00000-*.arrow"))


def test_an_output_lists_its_shards(output, capsys):
    listed = list_shards(str(output))
    shards = listed.shards
    assert len(shards) == listed.number > 1
    assert list_shards(str(output), 1) == listed._replace(shards=shards[:1])
    opened = api.open_shards(output, split="all")
    assert sum(one["documents"] for one in shards) == listed.documents == len(opened)
    assert sum(one["tokens"] for one in shards) == listed.tokens == opened.num_tokens
    for one in shards:
        files = [output / "shards" / path for path in one["files"]]
        assert {file.suffix for file in files} >= {".arrow", ".bin", ".idx"}
        assert sum(file.stat().st_size for file in files) == one["size_bytes"]
    done = tokcore("show", output)
    assert done.returncode == 0, done.stderr
    assert f"{len(shards)} shards in {output / 'shards'}: {len(opened)} documents" in done.stdout
    assert f"\ntokenizer {api.Tokenizer.load(output).fingerprint[:12]}: 300 tokens\n" in done.stdout
    command = done.stdout.splitlines()[-1].split()
    assert tokcore(*command[1:]).returncode == 0
    assert json.loads(tokcore("show", output, "--json").stdout) == shards
    many = listed._replace(shards=shards * 30, number=len(shards) * 30 + 7)
    print_shards("out", many)
    shown = capsys.readouterr().out
    assert "and 7 more (--all shows all)" in shown
    assert shown.count("train-") == len(shards) * 30 + 1


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed below the header."""
    return capsys.readouterr().out.split("\n\n", 1)[1].splitlines()


def test_text_stands_beside_its_tokens(output, shard, capsys):
    """All ids are shown, and all text that is not too long; nothing acts on the terminal."""
    document = read_document(str(shard), 0, None)
    assert document.tokens == api.open_shards(shard)[0].tolist()
    print_document(document, all_lines=True)
    lines = lines_of(capsys)
    assert [int(id) for line in lines for id in line[-40:].split("  ")[-1].split()] == document.tokens
    assert all(cell_len(line) <= WIDTH and line.replace("↵", "").isprintable() for line in lines)
    shown = "".join(re.split(r" {2,}[\d ]+$", line)[0] for line in lines)
    for piece in ("⇥", "言", "\\x1b", "\\u202e", "👩", "\\u200d", "<|endoftext|>"):
        assert piece in shown
    assert sum("↵" in line for line in lines) == 3  # a line feed ends a line


@pytest.mark.parametrize("row", [0, 1, 2])
def test_colour_on_a_terminal_only(shard, capsys, monkeypatch, row):
    document = read_document(str(shard), row, None)
    print_document(document, all_lines=True)
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_document(document, all_lines=True)
    colored = lines_of(capsys)
    ids = re.findall(
        r"\x1b\[(\d+)m(?:\x1b\[7m)?(\d+(?: \d+)*)\x1b\[0m", "\n".join(line.split("  ")[-1] for line in colored)
    )
    assert [int(id) for _, several in ids for id in several.split()] == document.tokens
    assert all(one != other for (one, _), (other, _) in itertools.pairwise(ids))
    bare = [re.sub(r"\x1b\[\d+m", "", line) for line in colored]
    assert all(cell_len(line) <= WIDTH for line in bare)


def test_a_document_is_cut_at_a_screen(shard, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "20")
    document = read_document(str(shard), 2, None)
    print_document(document, all_lines=False)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) < 20
    left = int(re.fullmatch(r"and (\d+) more lines \(--all shows all\)", printed[-1])[1])
    print_document(document, all_lines=True)
    assert len(capsys.readouterr().out.splitlines()) == len(printed) - 1 + left


def test_a_shard_that_was_moved_needs_its_tokenizer(output, shard, tmp_path, capsys):
    moved = shutil.copy(shard, tmp_path / shard.name)
    alone = read_document(str(moved), 3, None)
    assert alone.tokenizer is None
    print_document(alone, all_lines=True)
    printed = capsys.readouterr()
    assert "--tokenizer PATH" in printed.err
    ids = printed.out.split("\n\n", 1)[1].split()
    assert [int(id) for id in ids] == alone.tokens
    assert alone.as_json()["text"] is None
    done = tokcore("show", f"{moved}:3", "--tokenizer", output, "--json")
    assert json.loads(done.stdout)["text"] == f"{texts('en', 60)[1]}<|endoftext|>"
    other = run(build_file(output.parent, SOURCE, SETTINGS.replace("300", "310"), "b.toml"), tmp_path / "other", 1)
    assert other.totals.fingerprint != api.open_shards(moved).fingerprint
    with pytest.raises(IdentityError, match="Name the one that wrote it"):
        read_document(str(moved), 3, api.Tokenizer.load(tmp_path / "other"))


def test_the_folder_of_shards_is_shown_as_its_output(output, tmp_path):
    shown = tokcore("show", output).stdout
    assert "The text and tokens of a document" in shown
    assert tokcore("show", f"{output}/shards").stdout == shown
    shutil.copytree(output, tmp_path / "shards")
    found = tokcore("show", tmp_path / "shards").stdout
    assert found == shown.replace(str(output), str(tmp_path / "shards")), "an output of that name"


def test_what_cannot_be_shown(output, shard, tmp_path):
    assert tokcore("convert", output, "--to", "megatron", "-o", tmp_path / "converted").returncode == 0
    said = tokcore("show", tmp_path / "converted").stderr
    assert f"{tmp_path}/converted: is no output, but a folder of " in said
    for command in said.split("`")[1::2]:
        assert tokcore(*command.split()[1:]).returncode == 0
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo.arrow")
    for what, message in (
        (tmp_path / "fifo", "Run `tokcore build` first"),
        (f"{shard}:9999", "numbered from 0"),
        (tmp_path / "fifo.arrow", "fifo.arrow: expected a file or a folder, found a FIFO, a socket or a device"),
    ):
        done = tokcore("show", what, timeout=60)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
