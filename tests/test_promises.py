"""Documentation: what it names exists, the README is short, and each promise names its tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "deploy", "docs", "pipelines", "schemas", "tests", "tokcore")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
    if "data" not in path.parts  # outputs of earlier releases, as they wrote them
)
# Pages and drawings that `make site` makes; it ends with an error if a link among all pages leads nowhere.
MADE = {f"docs/reference/{name}.md" for name in ("commands", "build-file", "python", "codes")}
MADE |= {f"docs/drawings/{name}.svg" for name in ("pipeline", "commits", "tables")}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as links spell them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name):
    page = ROOT / name
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if target.resolve().relative_to(ROOT).as_posix() in MADE:
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("name", PAGES)
def test_no_page_keeps_the_marks_of_a_merge(name):
    assert not re.search(r"^(<<<<<<<|>>>>>>>|=======$)", (ROOT / name).read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_lines_are_short(name):
    """Except rows of tables, which cannot be wrapped."""
    assert [line for line in (ROOT / name).read_text().splitlines() if len(line) > 120 and line[0] != "|"] == []


def test_the_main_pages_are_looked_at():
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "pipelines/README.md"} <= set(PAGES)
    assert len(PAGES) >= 12


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 165
    assert max(map(len, lines)) <= 120


def test_the_readme_leads_to_every_page_that_explains_a_folder():
    readme = (ROOT / "README.md").read_text()
    for folder in ("pipelines", "tokcore", "schemas", "deploy", "tests", "tests/benchmarks"):
        assert f"({folder}/README.md" in readme


def test_the_map_of_tokcore_names_every_module():
    page = (ROOT / "tokcore" / "README.md").read_text().split("## Modules")[1].split("\n## ")[0]
    named = {name.rpartition("/")[2] for name in re.findall(r"`([\w/]+)`", page)}
    modules = {path.stem for path in (ROOT / "tokcore").rglob("*.py") if "native" not in path.parts}
    assert modules - {"__init__"} <= named


def test_the_map_of_schemas_names_every_module():
    page = (ROOT / "schemas" / "README.md").read_text().split("\n## ")[0]
    assert {path.name for path in (ROOT / "schemas").glob("*.py")} - {"__init__.py"} <= set(
        re.findall(r"\((\w+\.py)\)", page)
    )


ROOMS = [path.parent for package in ("pipelines", "tokcore") for path in (ROOT / package).glob("*/**/__init__.py")]


@pytest.mark.parametrize("room", sorted(folder.relative_to(ROOT).as_posix() for folder in ROOMS))
def test_the_contents_of_a_room_name_every_module(room):
    folder = ROOT / room
    tables = [folder / "__init__.py", *folder.glob("command_table.py")]  # a new command is its file and a row there
    contents = {word for path in tables for word in re.findall(r"\w+", path.read_text())}
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} <= contents


def test_every_promise_names_tests():
    folder = ROOT / "tests"
    table = (folder / "README.md").read_text().split("| promise | tests |\n|---|---|\n")[1].split("\n\n")[0]
    rows = table.splitlines()
    assert len(rows) >= 10
    for row in rows:
        promise, tests = row.strip("| ").split(" | ")
        files = re.findall(r"\]\(([^)]+)\)", tests)
        assert files, promise
        for file in files:
            found = [folder / file] if file.endswith(".py") else sorted((folder / file).glob("test_*.py"))
            assert found, file
            assert all("\ndef test_" in path.read_text() for path in found), file
