"""The page of `tokcore view`: a frame that its script fills with answers of the server. Nothing in it is from data."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from tokcore_pipelines.look.report.html_parts import Html, make_visible, tag
from tokcore_pipelines.look.view.shelf import Shelf

_FILES = Path(__file__).parent / "view_files"
# What is cut until something is typed: words, numbers, scripts, code.
_SAMPLE = """The history of Rome, in 12,345 words.
Рим строился не один день. ローマは一日にして成らず。
def f(x): return x + 1"""


def write_view_page(shelf: Shelf) -> tuple[bytes, str]:
    """The page, and the content policy that it is sent with."""
    style, script = ((_FILES / name).read_text() for name in ("view.css", "view.js"))
    has_documents = any(one.shards is not None for one in shelf)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"tokens: {make_visible(', '.join(one.name for one in shelf))}"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "To the content", href="#typed", class_="skip"),
        tag(
            "header",
            tag("h1", "tokcore view"),
            tag("nav", *_list_links(has_documents), aria_label="Sections"),
            tag("label", "Theme ", tag("select", *_list_options("system", "light", "dark"), id="theme")),
        ),
        tag(
            "main",
            _write_typing(),
            *([_write_documents(), _write_audit()] if has_documents else []),
            tag(
                "aside", tag("h2", "Token"), tag("div", "Choose a token.", id="token"), aria_live="polite", id="detail"
            ),
        ),
        tag("script", Html(script)),
    )
    return b"<!doctype html>\n" + tag("html", head, body, lang="en").encode() + b"\n", policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _list_links(has_documents: bool) -> list[Html]:
    links = [("typed", "Text"), *([("documents", "Documents"), ("audit", "Audit")] if has_documents else [])]
    return [tag("a", text, href=f"#{key}") for key, text in links]


def _list_options(*values: str) -> list[Html]:
    return [tag("option", value, value=value) for value in values]


def _write_typing() -> Html:
    return tag(
        "section",
        tag("h2", "Text"),
        tag(
            "label",
            "Type or paste: ",
            tag("textarea", _SAMPLE, id="text", rows=4, spellcheck="false", dir="auto", maxlength=100_000),
        ),
        tag("p", tag("label", tag("input", type="checkbox", id="special"), " special tokens become their ids")),
        tag("p", "", id="size", class_="note", role="status"),
        tag("div", "", id="cuts", class_="cuts"),
        id="typed",
        aria_label="Text",
    )


def _write_documents() -> Html:
    kinds = [("text", "text holds"), ("token", "token id"), ("id", "document id holds"), ("lang", "language")]
    return tag(
        "section",
        tag("h2", "Documents"),
        tag(
            "div",
            tag("label", "Of ", tag("select", id="volume")),
            tag("label", "number ", tag("input", id="number", type="number", min=0, value=0)),
            tag("button", "Open", id="open", type="button"),
            tag("button", "Previous", id="previous", type="button"),
            tag("button", "Next", id="next", type="button"),
            tag("button", "In all outputs", id="compare", type="button"),
            class_="row",
        ),
        tag(
            "div",
            tag("label", "Shard ", tag("select", id="shard")),
            tag("label", "offset ", tag("input", id="offset", type="number", min=0, value=0)),
            tag("button", "Jump", id="jump", type="button"),
            class_="row",
        ),
        tag(
            "form",
            tag("label", "Find ", tag("select", *(tag("option", text, value=key) for key, text in kinds), id="kind")),
            tag("label", "what ", tag("input", id="query", type="text", dir="auto", list="languages")),
            tag("datalist", id="languages"),
            tag("button", "Search", type="submit"),
            tag("button", "Stop", id="stop", type="button", disabled=True),
            tag("button", "100 more", id="more", type="button", disabled=True),
            class_="row",
            id="search",
        ),
        tag("p", "", id="found", class_="note", role="status"),
        tag("ol", id="hits", class_="hits"),
        tag("div", "", id="document"),
        id="documents",
        aria_label="Documents",
    )


def _write_audit() -> Html:
    return tag(
        "section",
        tag("h2", "Audit"),
        tag("p", tag("button", "Look for odd tokens", id="look", type="button")),
        tag("div", "", id="lists"),
        id="audit",
        aria_label="Audit",
    )
