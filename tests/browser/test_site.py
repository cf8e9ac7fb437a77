"""The site of all pages: it is made without a broken link, opens as files without a network, and axe finds nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import AXE, SCREENSHOTS
from support.builds import ROOT
from support.installed_servers import give_up

PAGES = ("index", "tutorial", "how-to/come-from-another-tool", "reference/commands", "reference/build-file")
PAGES += ("reference/python", "reference/codes", "how-to/feed-a-trainer", "how-to/run-on-an-engine", "changes")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    if not Path(sys.executable).with_name("zensical").exists():
        give_up("zensical is not installed", "browser")
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, str(ROOT / "docs" / "site" / "make_site.py"), str(folder)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return folder / "html"


@pytest.fixture
def page(browser: Any) -> Any:
    context = browser.new_context(offline=True)
    page = context.new_page()
    yield page
    context.close()


def open_page(page: Any, site: Path, name: str) -> list[str]:
    """Open it as a file; what went wrong, and what it asked of other hosts, until it is closed."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.startswith("http") and problems.append(request.url))
    page.goto((site / f"{name}.html").as_uri())
    return problems


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_barriers(site, page, name, scheme):
    page.emulate_media(color_scheme=scheme)
    problems = open_page(page, site, name)
    page.add_script_tag(content=AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    page.screenshot(path=SCREENSHOTS / f"site-{name.replace('/', '-')}-{scheme}.png")
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert problems == []


def test_a_phone_does_not_scroll_sideways(site, page):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, site, "tutorial")
    page.screenshot(path=SCREENSHOTS / "site-tutorial-phone.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_it_is_searched_by_keyboard_without_a_network(site, page):
    problems = open_page(page, site, "index")
    page.keyboard.press("Control+k")
    page.wait_for_timeout(300)
    page.keyboard.type("tombstone", delay=50)
    page.get_by_text(re.compile(r"\d+ results?")).wait_for(timeout=10_000)
    assert problems == []


def test_pages_that_follow_from_the_code_say_what_it_says(site):
    commands = (site / "reference" / "commands.html").read_text()
    assert all(f"tokcore {name}" in commands for name in ("build", "verify", "vocab-map", "pack"))
    assert "--allow-code" in commands
    assert "learn.vocab_size" in (site / "reference" / "commands.html").read_text()
    assert "max_rejected" in (site / "reference" / "build-file.html").read_text()
    assert "Tokenizer.encode_batch" in (site / "reference" / "python.html").read_text()
    assert "tokcore_lag_seconds" in (site / "reference" / "codes.html").read_text()
