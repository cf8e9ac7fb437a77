"""The pages of docs/: every example runs and prints what the page says, and every command is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from pages.run_page import list_blocks, run_page
from support.builds import ROOT

from tokcore_pipelines.commands.command_table import load_command
from tokcore_schemas.config import parse_config

PAGES = sorted((ROOT / "docs").rglob("*.md"))
RUN = [page for page in PAGES if any(language == "console" for language, _, _ in list_blocks(page))]


def name(page: Path) -> str:
    return page.relative_to(ROOT / "docs").as_posix()


@pytest.mark.parametrize("page", RUN, ids=name)
def test_every_example_prints_what_the_page_says(page, tmp_path):
    for ran in run_page(page, tmp_path):
        assert ran.is_as_told, f"$ {ran.command}\n{ran.printed}"


def test_every_page_is_in_the_navigation():
    text = (ROOT / "docs" / "site" / "zensical.toml").read_text()
    assert {name(page) for page in PAGES} <= set(re.findall(r' = "([^"]+\.md)"', text))


def test_the_tutorial_is_run():
    assert "tutorial.md" in map(name, RUN)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN], ids=name)
def test_what_is_only_read_names_commands_and_options_that_are_there(page):
    for language, _, text in list_blocks(page):
        for line in text.replace("\\\n", " ").splitlines() if language == "sh" else ():
            if found := re.match(r"(?:\$ )?(?:\S*/)?tokcore ([a-z].*)", line):
                words = shlex.split(found[1], comments=True)
                command = load_command(words[0])
                assert command is not None, line
                own = words[1 : words.index("--")] if "--" in words else words[1:]
                command.make_parser(click.Context(command, ignore_unknown_options=False)).parse_args(own)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_part_of_a_build_file_could_stand_in_one(page, tmp_path):
    for number, (language, _, text) in enumerate(list_blocks(page)):
        if language == "toml" and text.lstrip().startswith(("[", "version")) and "[project" not in text:
            head = "" if "[build]" in text else 'version = 1\n[build]\noutput = "out"\n'
            head += "" if "[shards]" in text else "[shards]\nvalidation = 0.1\n"
            source = "" if "[[source]]" in text else '\n[[source]]\nlang = "en"\nfiles = "x.jsonl"\n'
            path = tmp_path / f"{number}.toml"
            whole = text + source if text.startswith("version") else head + text + source
            parse_config(whole, str(path))  # files that it names are not there
