"""A browser without a network: Debian's Chromium, driven by playwright. axe-core looks for barriers.

`make browser` installs all three. Without them these tests are skipped; where TOKCORE_TEST_SERVERS is "required", as in
.ci/run, they fail. Screenshots are kept in out/screenshots.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.builds import ROOT
from support.installed_servers import INSTALLED, are_hidden, give_up

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = INSTALLED / "axe" / "node_modules" / "axe-core" / "axe.min.js"
SCREENSHOTS = ROOT / "out" / "screenshots"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("playwright is not installed", "browser")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None or are_hidden():
        give_up("there is no Chromium", "browser")
    if not AXE.is_file():
        give_up("axe-core is not installed", "browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


class Opened:
    """A page of the browser, and what went wrong on it: errors, breaches of its policy, requests to elsewhere."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: message.type in ("error", "warning") and self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]", timeout=30_000)

    def find_barriers(self) -> list[str]:
        """What axe finds, in a world of its own: the page's policy allows no script of ours."""
        session = self.page.context.new_cdp_session(self.page)
        frame = session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
        made = session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})
        world = made["executionContextId"]
        session.send("Runtime.evaluate", {"expression": AXE.read_text(), "contextId": world})
        found = session.send(
            "Runtime.evaluate",
            {
                "expression": "axe.run().then(r => ({passes: r.passes.length, violations: r.violations.map("
                "v => v.id + ': ' + v.nodes[0].html.slice(0, 200))}))",
                "awaitPromise": True,
                "returnByValue": True,
                "contextId": world,
            },
        )["result"]["value"]
        assert found["passes"] > 10, "axe looked at the page"
        return found["violations"]

    def keep(self, name: str, full_page: bool = True) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=full_page)


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a URL: open_page(url, width=1280, theme="light", offline=True)."""
    contexts = []

    def open_one(url: str, width: int = 1280, theme: str = "light", offline: bool = True, **more: Any) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, offline=offline, **more
        )
        contexts.append(context)
        return Opened(context.new_page(), url)

    yield open_one
    for context in contexts:
        context.close()


def as_url(path: Path) -> str:
    return path.resolve().as_uri()
