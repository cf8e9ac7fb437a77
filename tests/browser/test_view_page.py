"""The page of `tokcore view` in a browser: typing, documents, searches; writing of every kind; hostile text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.builds import SOURCES, build_file, jsonl, run, small_corpus, write
from support.view_servers import serving

from tokcore_pipelines.look.view.server import ViewServer

BAIT = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e\u2066'\"&amp;\u200b\x07"
WRITING = {
    "right to left": "مرحبا بالعالم שלום עולם",
    "combining": "n\u0303a\u0301 हिन्दी ก็ที่ e\u0301\u0302\u0303",
    "wide": "日本語のテスト 한국어 中文 👨‍👩‍👧‍👦 𝔘𝔫𝔦",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ViewServer]:
    folder = tmp_path_factory.mktemp("viewed")
    small_corpus(folder)
    write(folder / "bait<b>.jsonl", jsonl([{"id": f"{BAIT}{i}", "text": f"needle {BAIT} " * 9} for i in range(3)]))
    sources = SOURCES + '[[source]]\nlang = "xx"\nfiles = "bait<b>.jsonl"\nid = "id"\n'
    for name, size in (("one", 420), ("two", 330)):
        run(build_file(folder, sources, f"[learn]\nvocab_size = {size}\n", f"{name}.toml"), folder / name)
    with serving({"one": folder / "one", f"two{BAIT}": folder / "two"}) as server:
        yield server


@pytest.fixture
def opened(server, open_page):
    found = open_page(server.url, offline=False)
    yield found
    assert found.problems == []
    assert all(url.startswith(server.url) for url in found.requests), "nothing else is asked"


def type_text(opened, text: str) -> None:
    opened.page.fill("#text", text)
    opened.page.wait_for_function("text => document.documentElement.dataset.cut === text", arg=text)


def read_ids(opened) -> list[list[int]]:
    return opened.page.evaluate(
        "[...document.querySelectorAll('#cuts .ids')].map(p => p.textContent.split(' ').filter(Boolean).map(Number))"
    )


@pytest.mark.parametrize("kind", WRITING)
def test_typed_text_is_cut_by_all_tokenizers(server, opened, kind):
    type_text(opened, WRITING[kind])
    expected = [volume.tokenizer.encode(WRITING[kind]).tolist() for volume in server.shelf]
    assert read_ids(opened) == expected
    opened.page.keyboard.press("End")
    opened.page.type("#text", "!")
    opened.page.wait_for_function("text => document.documentElement.dataset.cut === text", arg=WRITING[kind] + "!")
    assert opened.find_barriers() == []
    opened.keep(f"view-{kind.replace(' ', '-')}")


def test_the_page_begins_with_a_sample_and_says_who_takes_the_fewest_tokens(server, opened):
    sample = opened.page.input_value("#text")
    assert "12,345" in sample
    opened.page.wait_for_selector("#token .detail")
    totals = [len(volume.tokenizer.encode(sample)) for volume in server.shelf]
    notes = opened.page.locator("#cuts .note").all_inner_texts()
    best = min(totals)
    assert len(notes) == len(totals) > 1
    assert [", the fewest" in note for note in notes] == [total == best for total in totals]
    for total, note in zip(totals, notes, strict=True):
        assert total == best or f"{total / best:.2f} times the fewest" in note


def test_a_token_tells_its_merges(server, opened):
    type_text(opened, "lower than 2024")
    opened.page.locator("#cuts .cut").nth(2).locator(".token").first.click()
    opened.page.wait_for_selector("#token .merges li")
    tokenizer = server.shelf[2].tokenizer
    (first, *_) = tokenizer.encode("lower than 2024").tolist()
    shown = opened.page.inner_text("#token")
    assert f"{first}" in shown
    assert opened.page.locator("#token .merges li").count() == len(tokenizer.token_bytes(first)) - 1
    opened.page.check("#special")
    type_text(opened, "a<|endoftext|>")
    opened.page.wait_for_selector("#cuts .token.special")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_documents_searches_and_lists(server, open_page, theme):
    opened = open_page(server.url, theme=theme, offline=False)
    page = opened.page
    page.fill("#number", "5")
    page.click("#open")
    page.wait_for_selector("#document .token")
    assert "document 5 of" in page.inner_text("#document")
    page.click("#compare")
    page.wait_for_function("() => document.querySelectorAll('#document .cut').length === 2")
    page.click("#next")
    page.wait_for_function(
        "() => document.querySelector('#document').innerText.startsWith('document 6 in all outputs')"
    )
    assert page.locator("#document .cut").count() == 2, "the next document stands beside its twin, too"
    page.fill("#offset", "100")
    page.click("#jump")
    page.wait_for_selector("#document .token.wanted")
    page.fill("#query", "the")
    page.click("#search button[type=submit]")
    page.wait_for_function("() => /all documents|up to document/.test(document.querySelector('#found').textContent)")
    assert page.locator("#hits li").count() > 10
    page.locator("#hits button").first.click()
    page.select_option("#kind", "lang")
    page.fill("#query", "hi")
    page.click("#search button[type=submit]")
    page.wait_for_function("() => document.querySelectorAll('#hits li').length === 12")
    page.click("#look")
    page.wait_for_selector("#lists summary")
    page.locator("#lists summary").first.click()
    page.locator("#lists .chips button").first.click()
    page.wait_for_selector("#token dl")
    page.click("#token button")
    page.wait_for_function("() => document.querySelector('#kind').value === 'token'")
    assert opened.find_barriers() == []
    opened.keep(f"view-documents-{theme}")
    assert opened.problems == []


def test_hostile_text_stays_text(opened):
    page = opened.page
    type_text(opened, f"x{BAIT}".replace("\x07", ""))
    page.fill("#query", "needle")
    page.click("#search button[type=submit]")
    page.wait_for_function("() => /all documents/.test(document.querySelector('#found').textContent)")
    assert page.locator("#hits li").count() == 3
    page.locator("#hits button").first.click()
    page.wait_for_function("() => document.querySelector('#document')?.textContent.includes('bait<b>')")
    assert page.evaluate("document.querySelectorAll('img, iframe, main script, main b').length") == 0
    shown = page.inner_text("main")
    assert "<img src=x onerror=alert(1)>" in shown
    assert not re.search(
        "[\u202a-\u202e\u2066-\u2069\u200b\x07]", page.inner_text("#hits") + page.inner_text("#document")
    )
    assert opened.find_barriers() == []
    opened.keep("view-hostile")


def test_a_page_of_another_origin_gets_nothing(server, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto("data:text/html,<title>other</title>")
    got = page.evaluate(
        "url => fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'})"
        ".then(r => r.text(), e => 'refused')",
        f"{server.url}shelf",
    )
    assert got == "refused"
    context.close()
