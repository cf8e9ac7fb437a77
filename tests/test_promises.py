"""What README.md and SECURITY.md name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["README.md", "SECURITY.md", "tokcore/README.md", "schemas/README.md"])
def test_every_file_that_is_named_exists(name):
    document = ROOT / name
    links = [link for link in re.findall(r"\]\(([^)#]+)", document.read_text()) if "://" not in link]
    assert links
    assert not [link for link in links if not (document.parent / link).exists()]


def test_every_promise_names_tests():
    table = (ROOT / "README.md").read_text().split("| held by a test: | |\n|---|---|\n")[1].split("\n\n")[0]
    rows = table.splitlines()
    assert len(rows) >= 10
    for row in rows:
        promise, tests = row.strip("| ").split(" | ")
        files = re.findall(r"\]\((tests/[^)]+)\)", tests)
        assert files, promise
        for file in files:
            found = [ROOT / file] if file.endswith(".py") else sorted((ROOT / file).glob("test_*.py"))
            assert found, file
            assert all("\ndef test_" in path.read_text() for path in found), file
