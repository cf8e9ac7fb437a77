"""The page of a report: one file that loads nothing, with a content policy that names its scripts by their hashes.

Everything is HTML already when it is opened; the scripts sort tables, draw charts and change the theme.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokcore_pipelines.look.report.chart_specs import make_charts
from tokcore_pipelines.look.report.corpus_sections import write_corpus, write_provenance
from tokcore_pipelines.look.report.health_and_money_sections import write_health, write_money
from tokcore_pipelines.look.report.html_parts import (
    Html,
    join,
    make_visible,
    place_chart,
    tag,
    write_facts,
    write_name,
    write_section,
)
from tokcore_pipelines.look.report.tokenizer_sections import write_tokenizer

MOST_BYTES = 5_000_000  # of a page

_FILES = Path(__file__).parent / "page_files"
_SECTIONS = {
    "corpus": "Corpus",
    "tokenizer": "Tokenizer",
    "health": "Health",
    "money": "Money",
    "provenance": "Provenance",
}


def write_page(report: Mapping[str, Any]) -> bytes:
    """The page of a report."""
    own = next(iter(report["tokenizers"]))
    style = (_FILES / "report.css").read_text()
    scripts = [(_FILES / "charts" / "charts.js").read_text(), (_FILES / "report.js").read_text()]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = f"Report: {report['provenance']['name'] or 'a build'}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", make_visible(title)),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "To the content", href="#corpus", class_="skip"),
        _write_header(report, title),
        tag(
            "main",
            _write_summary(report, own),
            write_corpus(report),
            write_tokenizer(report),
            write_health(report, own),
            write_money(report),
            write_provenance(report),
        ),
        tag(
            "footer",
            tag("p", "All numbers are also in the .json beside this page. Nothing here was loaded from elsewhere."),
        ),
        _embed("charts-data", make_charts(report)),
        _embed("numbers-data", _select_numbers(report)),
        *(tag("script", Html(script)) for script in scripts),
    )
    return b"<!doctype html>\n" + tag("html", head, body, lang="en").encode("utf-8", "replace") + b"\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embed(key: str, value: Any) -> Html:
    """A value for scripts, as JSON in which nothing can end the element or begin a comment."""
    data = json.dumps(value, separators=(",", ":"), allow_nan=False)  # escapes all that is not ASCII
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", Html(data), type="application/json", id=key)


def _write_header(report: Mapping[str, Any], title: str) -> Html:
    links = [tag("a", text, href=f"#{key}") for key, text in _SECTIONS.items()]
    languages = sorted(report["corpus"]["languages"])
    choices = [
        tag("option", "all languages", value=""),
        *(tag("option", make_visible(lang), value=make_visible(lang)) for lang in languages),
    ]
    themes = [tag("option", text, value=text) for text in ("system", "light", "dark")]
    return tag(
        "header",
        tag("h1", write_name(title)),
        tag("nav", *links, aria_label="Sections"),
        tag(
            "div",
            tag("label", "Language ", tag("select", *choices, id="language")),
            tag("label", "Theme ", tag("select", *themes, id="theme")),
            class_="choices",
        ),
    )


def _write_summary(report: Mapping[str, Any], own: str) -> Html:
    corpus, tokenizer, verdict = report["corpus"], report["tokenizers"][own], report["verdict"]
    wrong = [tag("li", tag("a", one["said"], href=f"#{one['section']}")) for one in verdict["wrong"]]
    return write_section(
        "summary",
        "In short",
        tag("p", f"{verdict['fit']} {verdict['pays']}"),
        tag("p", "What looks wrong:") if wrong else tag("p", "Nothing looks wrong."),
        *([tag("ul", *wrong)] if wrong else []),
        write_facts(
            [
                ("documents", f"{corpus['documents']:,}"),
                ("languages", f"{len(corpus['languages']):,}"),
                ("bytes of text", f"{corpus['text_bytes']:,}"),
                ("tokens", f"{corpus['tokens']:,}"),
                ("vocabulary", f"{tokenizer['vocab_size']:,}"),
                ("bytes per token", f"{corpus['text_bytes'] / corpus['tokens']:.4f}" if corpus["tokens"] else "–"),
                *_describe_validation(corpus["validation"]),
                ("never written", f"{report['health'].get('never', {'number': 0})['number']:,} tokens"),
                ("root", join([tag("code", report["provenance"]["root"][:16]), "…"])),
            ]
        ),
        place_chart("bytes", "Bytes per token by language; a line is the margin of an estimate."),
    )


def _describe_validation(told: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Bytes per token on the validation split, where there is one and its texts are known."""
    if told is None or told["bytes_per_token"] is None:
        return []
    learned = "learned from, too" if told["is_learned_from"] else "not learned from"
    return [(f"bytes per token, validation ({learned})", f"{told['bytes_per_token']:.4f}")]


def _select_numbers(report: Mapping[str, Any]) -> dict[str, Any]:
    """What scripts compute with: tokens of the parallel text, bytes per token and their margins, tokens per word and
    sizes of vocabularies. Names are as shown.
    """
    premiums = report["tokenizer"]["premiums"]
    comparison = report["tokenizer"]["comparison"]
    groups = {"all": comparison["all"], **comparison["languages"]}
    return {
        "premiums": None
        if premiums is None
        else {
            "reference": make_visible(premiums["reference"]),
            "languages": list(map(make_visible, premiums["languages"])),
            "tokens": {make_visible(one): _name_visibly(of["tokens"]) for one, of in premiums["tokenizers"].items()},
        },
        **{
            name: {
                make_visible(group): _name_visibly(
                    {one: row["bytes_per_token"][key] for one, row in about["tokenizers"].items()}
                )
                for group, about in groups.items()
            }
            for name, key in (("bytes_per_token", "value"), ("margins", "margin"))
        },
        "tokens_per_word": _name_visibly(
            {one: row["tokens_per_word"]["value"] for one, row in comparison["all"]["tokenizers"].items()}
        ),
        "vocab_sizes": _name_visibly({one: of["vocab_size"] for one, of in report["tokenizers"].items()}),
    }


def _name_visibly(values: Mapping[str, Any]) -> dict[str, Any]:
    return {make_visible(key): value for key, value in values.items()}
