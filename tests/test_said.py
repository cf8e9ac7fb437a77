"""Nothing that is said can harm a terminal or forge a line, whatever files, ids, languages and keys are called."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.builds import ROOT, build_file, jsonl, run, write
from support.updates import make_texts, update_here

from tokcore.errors import TokError
from tokcore_pipelines import cli
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.commands.repair import print_repaired
from tokcore_pipelines.commands.verify import print_verified
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.say import LogFormatter, redraw, say, say_json, say_message
from tokcore_pipelines.store.printable import UNPRINTABLE, escape

# A title, a bell, a returning carriage, a right-to-left override, CSI as one character, a line of its own.
EVIL = "evil\x1b]0;t\x07\r\u202e\x9b31m\u2028\nFORGED"

# Where nothing else can: the door itself, programs that write a file of this repository to their output, and the bar of
# the library, which shows words of its own and numbers.
DOORS = (
    "pipelines/local/say.py",
    "schemas/json_schema.py",
    "tokcore/look/progress_bar.py",
    "tokcore/native/generated_files.py",
    "tokcore/native/generate_bert_tables.py",
    "tokcore/native/generate_unicode_tables.py",
)
_STREAMS = re.compile(r"(sys\.)?(__)?(stdout|stderr)(__)?(\.buffer)?\.(write|writelines)|(click\.)?(echo|secho)|print")


def find_prints(source: str) -> Iterator[int]:
    """The lines of a module that print by themselves."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _STREAMS.fullmatch(ast.unparse(node.func)):
            yield node.lineno


def test_prints_are_found():
    source = "print(1)\nclick.echo('a')\nsys.stderr.write('b')\nsys.stdout.buffer.write(c)\nfile.write(d)\nsay('e')\n"
    assert list(find_prints(source)) == [1, 2, 3, 4]


def test_nothing_prints_but_the_door():
    paths = [path for package in ("tokcore", "schemas", "pipelines") for path in sorted((ROOT / package).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): list(find_prints(path.read_text())) for path in paths}
    assert {name: lines for name, lines in found.items() if lines and name not in DOORS} == {}
    assert len(paths) > 300


def require_harmless(said: str) -> None:
    """Assert that what was printed moves, colors and hides nothing, and that no line of it begins as the forged one."""
    assert said
    assert UNPRINTABLE.search(said.replace("\n", "")) is None, repr(said)
    assert not any(line.startswith("FORGED") for line in said.splitlines()), said


def test_the_door(capsys):
    say(EVIL, f"a {EVIL}")
    say(EVIL, err=True)
    say_message(f"error: {EVIL}\nsecond line of {EVIL}")
    redraw("")
    captured = capsys.readouterr()
    require_harmless(captured.out)
    assert captured.out.splitlines()[0] == escape(EVIL) == r"evil\x1b]0;t\x07\r\u202e\x9b31m\u2028\nFORGED"
    require_harmless(captured.err.replace("\r\x1b[K", ""))
    assert [line[:2] for line in captured.err.splitlines()[2:5]] == ["  ", "  ", "  "]
    assert "second line of" in captured.err


def test_colors_are_kept_where_they_are_ours(capsys):
    say(f"\x1b[31mred\x1b[0m {EVIL}", colored=True)
    said = capsys.readouterr().out
    assert said.startswith("\x1b[31mred\x1b[0m ")
    require_harmless(said.replace("\x1b[31m", "").replace("\x1b[0m", ""))


def test_json_is_read_back_as_it_was(capsys):
    value = {EVIL: [EVIL, "语", 1]}
    say_json(value)
    progress = StageProgress()
    progress.as_json = True
    progress.say(EVIL)
    captured = capsys.readouterr()
    for said in captured:
        require_harmless(said)
    assert json.loads(captured.out) == value
    assert json.loads(captured.err)["message"] == EVIL
    assert captured.err.count("\n") == 1


def test_a_stream_of_few_characters(monkeypatch):
    """Text as escapes, JSON as JSON that means the same."""
    for encoding in ("ascii", "latin-1", "utf-8"):
        out = io.TextIOWrapper(io.BytesIO(), encoding)
        monkeypatch.setattr(sys, "stdout", out)
        say("አማርኛ é")
        say_json(["አማርኛ é"])
        out.seek(0)
        text, *rest = out.read().split("\n")
        assert text == "አማርኛ é".encode(encoding, "backslashreplace").decode(encoding)
        assert json.loads("".join(rest)) == ["አማርኛ é"]


def test_what_libraries_log():
    record = logging.LogRecord("beam", logging.ERROR, "", 0, "%s", (EVIL,), None)
    require_harmless(LogFormatter("%(levelname)s: %(message)s").format(record))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of hostile name with a build file and its updated output; files, ids, languages and keys are hostile."""
    folder = tmp_path_factory.mktemp("said") / EVIL
    folder.mkdir()
    texts = [f"{text} {EVIL}" for text in make_texts("fox", 9)]
    records = [{EVIL: text, "id": f"{EVIL} {i}", "lang": "en"} for i, text in enumerate(texts)]
    records.append({EVIL: "a hostile language is rejected", "id": EVIL, "lang": EVIL})
    write(folder / f"{EVIL}.jsonl", jsonl(records) + b"no JSON \x1b\n")
    key = json.dumps(EVIL)
    sources = f'[[source]]\nfiles = "*.jsonl"\ntext = {key}\nid = "id"\nlang_field = "lang"\n'
    build_file(folder, sources, "[learn]\nvocab_size = 270\n", build="max_rejected = 0.5")
    return folder


def test_all_messages(hostile, tmp_path, capsys, monkeypatch):
    """Every command that looks, builds or fails, on hostile names."""
    monkeypatch.chdir(hostile)
    run(hostile / "build.toml", hostile / "out")
    write(hostile / f"more {EVIL}.jsonl", jsonl([{EVIL: "one more", "id": EVIL, "lang": "en"}]))
    update_here(hostile / "build.toml", hostile / "out")
    (shard,) = sorted((hostile / "out" / "shards" / "arrow").iterdir())
    ids = hostile / "ids"
    ids.write_text(EVIL)
    (hostile / "out" / "shards" / EVIL).write_text("of nobody")
    require_harmless("".join(capsys.readouterr()))
    for arguments in (
        ["check", "build.toml"],
        ["check", "none.toml"],
        ["build", "build.toml", "--set", "learn.vocab_size=280"],
        ["log", "out"],
        ["status", "out"],
        ["show", "out"],
        ["show", str(shard)],
        ["show", f"{shard}:0"],
        ["show", f"{shard}:0", "--json"],
        ["show", f"{shard}:99"],
        ["verify", "out"],
        ["verify", "out", "--json"],
        ["verify", "out", "--rebuild", EVIL],
        ["repair", "out"],
        ["audit", "out"],
        ["curve", "out"],
        ["gc", "out", "--dry-run", "--older-than", "0"],
        ["diff", "out", "out", "--at", "0"],
        ["init", "."],
        ["fsck", str(shard)],
        ["explain", EVIL, "--tokenizer", "out"],
        ["remove", "out", "--source", f"none {EVIL}"],
        ["verify", "out", "--removed", str(ids)],
        ["report", "out", "-o", str(tmp_path / "report.html")],
        ["export", "none", "tokenizers", "-o", "x"],
        [EVIL],
        ["show", "out", f"--{EVIL}"],
    ):
        with pytest.raises(SystemExit):
            cli.run(arguments)
        said = "".join(capsys.readouterr())
        try:
            require_harmless(said)
        except AssertionError as error:
            raise AssertionError(f"tokcore {arguments}: {error}") from error


def test_reports_of_checks(hostile, tmp_path, capsys):
    output = tmp_path / EVIL / "out"
    run(hostile / "build.toml", output)
    shutil.rmtree(output / "shards" / "arrow")
    (output / "shards" / "arrow").symlink_to(tmp_path)
    print_verified(verify(str(output)))
    print_repaired(repair(str(output)))
    with pytest.raises(TokError):
        verify(str(tmp_path / "none" / EVIL))
    require_harmless("".join(capsys.readouterr()))


def test_a_name_does_not_break_a_message_of_several_lines(tmp_path, monkeypatch, capsys):
    """What nearly all rejects have in common is told on lines of its own."""
    write(tmp_path / "in" / f"{EVIL.replace('/', '')}.jsonl", b"nope\n")
    write(tmp_path / "in" / "a.jsonl", jsonl([{"text": "one"}]))
    settings = "[learn]\nvocab_size = 257\nallow_smaller = true\n"
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "in/*.jsonl"\n', settings)
    monkeypatch.setattr(sys, "argv", ["tokcore", "build", str(path)])
    with pytest.raises(SystemExit):
        cli.run()
    said = capsys.readouterr().err
    assert "nearly all for one cause" in said
    assert "FORGED" in said
    assert not [line for line in said.splitlines() if line.strip().startswith("FORGED")]
