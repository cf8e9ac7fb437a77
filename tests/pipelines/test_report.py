"""What a build prints at its end, the commands' --quiet and --verbose, and help."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner
from rich.cells import cell_len
from support.builds import ROOT, build_file, jsonl, run, tokcore, write

from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.cli import commands
from tokcore_pipelines.commands.print_build import print_build
from tokcore_pipelines.local.terminal import WIDTH, cut_text, format_number, format_size, format_table
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.stage_table import WHOLE

ALL = commands.list_commands(Context(commands))
COMMANDS = [name for name in ALL if not commands.get_command(Context(commands), name).hidden]


@pytest.fixture(scope="module")
def build(corpus: Path) -> BuildManifest:
    manifest = find_manifest(str(corpus / "out"), WHOLE)
    assert manifest is not None
    return manifest


def printed(capsys: pytest.CaptureFixture[str], output: Path, build: BuildManifest, all_languages: bool = False) -> str:
    print_build(str(output), build, all_languages)
    return capsys.readouterr().out


def with_languages(build: BuildManifest, count: int, **large: int) -> BuildManifest:
    """The build with that many languages, each smaller than the one before."""
    one = dataclasses.replace(build.languages["en"], **large)
    languages = {
        f"l{i:03}-with-a-long-name-语言": dataclasses.replace(one, text_bytes=one.text_bytes + count - i)
        for i in range(count)
    }
    return dataclasses.replace(build, languages=dict(sorted(languages.items(), reverse=True)))


def test_the_report_ends_with_the_totals(corpus, build, capsys):
    shown = printed(capsys, corpus / "out", build).splitlines()
    end = {line.split()[0]: line.split(maxsplit=1)[1] for line in shown[-6:]}
    assert list(end) == ["documents", "tokens", "time", "tokenizer", "shards", "root"]
    totals = build.totals
    assert end["documents"] == f"102 with {totals.text_bytes:,} bytes of text"
    rate = totals.text_bytes / totals.tokens
    assert end["tokens"] == f"{totals.tokens:,} in {totals.shards} shards, {rate:.4f} bytes per token"
    assert end["root"] == build.root


def test_of_a_large_document_only_what_is_shown_is_decoded(tmp_path, capsys):
    """Decoding all of it would take more than 100 bytes of memory for each of its tokens."""
    write(tmp_path / "a.jsonl", jsonl([{"text": "a"}, {"text": "the quick brown fox jumps " * 50_000}]))
    sources = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    path = build_file(tmp_path, sources, "[learn]\nvocab_size = 300\nallow_smaller = true\n")
    build = run(path, tmp_path / "out")
    assert build.totals.tokens > 200_000
    tracemalloc.start()
    try:
        shown = printed(capsys, tmp_path / "out", build).splitlines()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10 * build.totals.tokens
    (begin,) = [number for number, line in enumerate(shown) if line.startswith("document 1, en: ")]
    assert shown[begin + 2].startswith("  the quick brown fox jumps the quick")
    assert shown[begin + 6] == "  ..."
    assert shown[begin + 7].startswith("  = [")


def test_time_and_rate_come_from_the_stages(corpus, build, capsys):
    """Two workers and four stages of 10 s: the rate is text / 80. If a stage has no time, all of it is left out."""
    paths = [corpus / "out" / stage / "run.json" for stage in ("plan", "counts", "tokenizer", "shards")]
    before = [path.read_bytes() for path in paths]
    large = dataclasses.replace(build, totals=dataclasses.replace(build.totals, text_bytes=400_000_000))

    def time(seconds: object, workers: object) -> list[str]:
        for path in paths:
            path.write_text(json.dumps({"seconds": seconds, "workers": workers}))
        return [line for line in printed(capsys, corpus / "out", large).splitlines() if line.startswith("time")]

    try:
        assert time(10.0, 2) == ["time       40.0 s in all stages, 5.00 MB/s of text per core"]
        assert time(10, None) == ["time       40.0 s in all stages"]  # another runner's workers
        assert time("?", 2) == []
        paths[0].write_text("?")
        assert not any(line.startswith("time") for line in printed(capsys, corpus / "out", large).splitlines())
    finally:
        for path, data in zip(paths, before, strict=True):
            path.write_bytes(data)


def test_the_twenty_largest_languages_and_how_many_more(corpus, build, capsys):
    many = with_languages(build, 190)
    shown = printed(capsys, corpus / "out", many).splitlines()
    rows = [line for line in shown if re.match(r"l\d{3}-", line)]
    assert [row[:4] for row in rows] == [f"l{i:03}" for i in range(20)]
    assert shown[22] == "and 170 more (--all shows all)"
    shown = printed(capsys, corpus / "out", many, all_languages=True).splitlines()
    assert sum(bool(re.match(r"l\d{3}-", line)) for line in shown) == 190
    assert not any("more (--all" in line for line in shown)
    assert not any("more (--all" in line for line in printed(capsys, corpus / "out", build).splitlines())


@pytest.mark.parametrize("figure", [0, 9_999_999, 999_999_999_999_999])
def test_the_report_fits_into_80_columns(corpus, build, capsys, figure):
    large = {"documents": figure, "tokens": figure, "text_bytes": figure, "masked_bytes": figure}
    totals = dataclasses.replace(build.totals, text_bytes=figure, tokens=figure, shards=10**6)
    wide = dataclasses.replace(with_languages(build, 30, **large), totals=totals)
    lines = printed(capsys, corpus / "out", wide).splitlines()
    wrong = [line for line in lines if cell_len(line) > WIDTH and str(corpus) not in line]
    assert not wrong


def test_tables_and_figures_are_cut_to_their_width():
    assert [format_number(n) for n in (0, 1234, 9_999_999, 10_000_000, 10**12)] == [
        "0",
        "1,234",
        "9,999,999",
        "10.00 M",
        "1.00 T",
    ]
    assert [format_size(n) for n in (0, 999, 1000, 10**6, 5 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "1.0 MB",
        "5.0 TB",
    ]
    assert [cut_text("言語x", width) for width in (5, 4, 3)] == ["言語x", "言…", "言…"]
    lines = format_table(["a\nname", "right"], [["x" * 200, "1"], ["y", "1,000"]])
    assert [cell_len(line) for line in lines] == [1, WIDTH, WIDTH, WIDTH]
    assert lines[2].endswith("…      1")
    assert lines[1].split() == ["name", "right"]


def test_quiet_prints_the_root_alone(corpus, build, tmp_path):
    done = tokcore("build", corpus / "build.toml", "--output", tmp_path / "out", "--quiet")
    assert (done.stdout, done.stderr) == (f"{build.root}\n", "")
    assert tokcore("build", corpus / "build.toml", "--quiet", "--verbose").returncode == 2


def test_verbose_says_what_stages_make_and_find(corpus, build, tmp_path):
    for verb in ("committed after", "done already"):
        done = tokcore("build", corpus / "build.toml", "--output", tmp_path / "out", "--verbose")
        notes = [line for line in done.stderr.splitlines() if verb in line]
        stages = ("plan", "counts", "tokenizer", "shards", "build")
        assert [note.split(":")[0] for note in notes if not note.startswith("rejected")] == list(stages)
        assert notes[-1].endswith(build.root)


def test_help_begins_with_the_main_job():
    shown = CliRunner().invoke(commands, ["--help"], prog_name="tokcore").output
    listed = shown.split("The main job:")[1].split("  Examples:")[0]
    names = re.findall(r"^  ([a-z-]+) +[A-Z]", listed, re.MULTILINE)
    first = ["init", "check", "build", "verify", "show", "count", "learn", "encode", "mix", "pack", "update"]
    assert names[: len(first)] == first
    assert names == COMMANDS
    readme = (ROOT / "deploy" / "README.md").read_text()
    for code in ("0", "1", "2", "3", "4", "130, 143", "141"):
        assert f"\n    {code} " in shown
        assert f"\n| {code} |" in readme
    listed = readme.split("## Commands")[1].split("```")[1]
    places = [re.search(rf"(?m)(^tokcore|\|) +{name}\b", listed).start() for name in names]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_has_examples_and_fits_into_80_columns(name):
    shown = CliRunner().invoke(commands, [*name.split(), "--help"], prog_name="tokcore").output
    assert "  Examples:\n    " in shown
    assert all(f"tokcore {name}" in line for line in shown.split("Examples:\n")[1].split("\n\n")[0].splitlines())
    assert all(len(line) <= WIDTH for line in shown.splitlines())


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_ends_with_a_page_that_is_there_and_names_the_command(name):
    shown = CliRunner().invoke(commands, [*name.split(), "--help"], prog_name="tokcore").output
    (page,) = re.findall(r"\n\n  More: (\S+\.md)\n$", shown)
    text = (ROOT / page).read_text()
    assert re.search(rf"\b{name or 'tokcore'}\b", text), page


def test_a_word_that_is_no_command_gets_a_suggestion():
    for word, meant in (("biuld", "'build'"), ("vocab_map", "'vocab-map'"), ("tokenise", "'tokenize'")):
        shown = CliRunner().invoke(commands, [word], prog_name="tokcore")
        assert (shown.exit_code, f"Did you mean {meant}" in shown.output) == (2, True), shown.output


def test_options_of_engines_and_slices_have_headings_of_their_own():
    shown = CliRunner().invoke(commands, ["build", "--help"], prog_name="tokcore").output
    of = dict(zip(*[iter(re.split(r"(?m)^(Options|On [a-z ,]+):$", shown)[1:])] * 2, strict=True))
    assert list(of) == ["Options", "On an engine", "On several hosts, without an engine"]
    options = {heading: re.findall(r"(?m)^  (--?[a-z-]+)", text) for heading, text in of.items()}
    assert options["On an engine"] == ["--engine", "--shared-filesystem", "--detach"]
    assert options["On several hosts, without an engine"] == ["--slice", "--lease", "--wait"]
    assert {"--output", "--workers", "--json"} < {*options["Options"]}


def test_shells_complete_commands_as_documented():
    program = [sys.executable, "-c", "from tokcore_pipelines.cli import main; main()"]

    def asked(how: str, **words: str) -> str:
        environment = os.environ | {"_TOKCORE_COMPLETE": how} | words
        return subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert "#compdef tokcore" in asked("zsh_source")
    assert asked("bash_complete", COMP_WORDS="tokcore ver", COMP_CWORD="1") == "plain,verify\n"
    assert '"$(_TOKCORE_COMPLETE=bash_source tokcore)"' in (ROOT / "deploy" / "README.md").read_text()


@pytest.mark.parametrize("command", ["show", "status", "log"])
def test_commands_that_read_manifests_alone_load_little(corpus, command):
    """What reads shards, tables or tokenizers takes half a second to load: more than the rest of the command."""
    heavy = {"pyarrow", "regex", "tokcore.kernel", "tokcore.models", "tokcore.shards.format_table"}
    code = (
        "import sys\nfrom tokcore_pipelines.cli import commands\n"
        f"commands({[command, str(corpus / 'out')]!r}, standalone_mode=False)\n"
        f"sys.exit(str({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == "set()\n"
