"""The page of a report in a browser without a network: it loads nothing, draws, sorts, switches, prints."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from support.builds import ROOT, SOURCES, build_file, jsonl, run, small_corpus, tokcore, write
from support.vocabularies import published_tokenizer

from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.look.report.compose import Wishes, make_report
from tokcore_pipelines.look.report.page import MOST_BYTES
from tokcore_pipelines.look.report.report_files import write_report

PARALLEL = {"en": "one two\nthree\n", "sw": "moja mbili tatu\nnne\n", "ar": "واحد اثنان\nثلاثة\n"}
# 183 MB of texts under many licences, which are no part of this project. `.ci/run` names the folder where it is there.
CORPUS = Path(os.environ["TOKCORE_CORPUS"]) if "TOKCORE_CORPUS" in os.environ else None
DOCUMENTS_OF_EACH = 4  # language
SECTIONS = ["summary", "corpus", "tokenizer", "health", "money", "provenance"]
CHARTS = {"shares", "bytes", "curve", "history", "lengths", "scripts", "numbers", "premiums"}

# Names and texts that would act if they became HTML, a script, a formula, or turned the direction of what is around.
BAIT = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e\u2066{{7*7}}'\"&amp;\u200b"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    small_corpus(folder)
    for lang, text in PARALLEL.items():
        write(folder / "parallel" / f"{lang}.txt", text.encode())
    run(build_file(folder), folder / "out")
    wishes = Wishes({"r50k": published_tokenizer("r50k")}, str(folder / "parallel"), sample=20)
    _, made = write_report(
        make_report(read_output(str(folder / "out")), wishes, StageProgress(-1)), folder / "report.html"
    )
    assert made.stat().st_size < MOST_BYTES
    return made


def read_column(opened, caption: str, column: int) -> list[str]:
    return opened.page.evaluate(
        """([caption, column]) => {
          const table = [...document.querySelectorAll("table")].find((t) => t.caption.textContent === caption);
          return [...table.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[column].textContent);
        }""",
        [caption, column],
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_everything_renders_without_barriers(page, open_page, theme, width):
    opened = open_page(page.as_uri(), width, theme)
    opened.page.wait_for_function("document.querySelectorAll('.chart[data-drawn]').length === 8")
    assert opened.problems == []
    assert opened.requests == [page.as_uri()], "nothing else is loaded"
    assert opened.page.evaluate("[...document.querySelectorAll('section')].map(s => s.id)") == SECTIONS
    drawn = opened.page.evaluate(
        "[...document.querySelectorAll('.chart svg')].map(s => [s.parentElement.id, s.querySelectorAll('path').length])"
    )
    assert {name.removeprefix("chart-") for name, _ in drawn} == CHARTS
    assert min(paths for _, paths in drawn) > 3
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no sideways scrolling"
    assert opened.find_barriers() == []
    opened.keep(f"report-{theme}-{width}")


def cut_real_text(corpus: Path, folder: Path) -> None:
    """Write the first documents of each language. What tries the page is the number of languages, not of documents."""
    num_kept: Counter[str] = Counter()
    for path in sorted(corpus.rglob("*.jsonl.*")):
        read = gzip.open if path.suffix == ".gz" else zstandard.open
        kept = []
        with read(path, "rb") as file:
            for line in io.BufferedReader(file):
                lang = json.loads(line)["lang"]
                num_kept[lang] += 1
                if num_kept[lang] <= DOCUMENTS_OF_EACH:
                    kept.append(line)
        write(folder / path.relative_to(corpus), b"".join(kept))


@pytest.fixture(scope="module", params=["demo", "corpus"])
def published_page(request, tmp_path_factory) -> Path:
    """The report of real text beside three published tokenizers: the demo, or documents in 182 languages."""
    folder = tmp_path_factory.mktemp(request.param)
    build, parallel = ROOT / "deploy" / "demo" / "build.toml", None
    if request.param == "corpus":
        if CORPUS is None:
            # The project may not ship these texts. `.ci/run` names their folder where it has one.
            pytest.skip("TOKCORE_CORPUS names no folder with corpus/ and parallel/")
        build, parallel = folder / "build.toml", str(CORPUS / "parallel" / "flores")
        cut_real_text(CORPUS / "corpus", folder / "corpus")
        assert tokcore("init", folder / "corpus", "-o", build).returncode == 0
    run(build, folder / "out")
    wishes = Wishes({name: published_tokenizer(name) for name in ("o200k", "cl100k", "r50k")}, parallel)
    _, made = write_report(
        make_report(read_output(str(folder / "out")), wishes, StageProgress(-1)), folder / "report.html"
    )
    if request.param == "corpus":
        assert len(json.loads(made.with_suffix(".json").read_text())["corpus"]["languages"]) > 180
    return made


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_real_text_beside_published_tokenizers(published_page, open_page, theme, width):
    assert published_page.stat().st_size < MOST_BYTES
    opened = open_page(published_page.as_uri(), width, theme)
    charts = opened.page.locator(".chart").count()
    assert charts >= 7
    opened.page.wait_for_function(f"document.querySelectorAll('.chart[data-drawn]').length === {charts}")
    assert opened.find_barriers() == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.keep(f"report-{published_page.parent.name.rstrip('0123456789')}-{theme}-{width}")
    assert opened.problems == []


def test_tables_sort_by_mouse_and_by_keyboard(page, open_page):
    opened = open_page(page.as_uri())
    report = json.loads(page.with_suffix(".json").read_text())
    languages = report["corpus"]["languages"]
    head = opened.page.locator("table", has=opened.page.locator("caption", has_text=re.compile("^Languages$"))).locator(
        "th"
    )
    by_bytes = sorted(languages, key=lambda lang: languages[lang]["text_bytes"])
    button = head.nth(2).locator("button")
    button.click()
    assert read_column(opened, "Languages", 0) == by_bytes[::-1]
    assert head.nth(2).get_attribute("aria-sort") == "descending"
    button.focus()
    opened.page.keyboard.press("Enter")
    assert read_column(opened, "Languages", 0) == by_bytes
    assert head.nth(2).get_attribute("aria-sort") == "ascending"
    head.nth(0).locator("button").click()
    assert read_column(opened, "Languages", 0) == sorted(languages)
    assert head.nth(2).get_attribute("aria-sort") == "none"


def test_language_theme_reference_and_perplexity(page, open_page):
    opened = open_page(page.as_uri())
    opened.page.select_option("#language", "ru")
    assert read_column(opened, "Languages", 0) == ["ru"]
    opened.page.select_option("#language", "")
    assert len(read_column(opened, "Languages", 0)) == 4
    read_paper = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(read_paper)
    opened.page.select_option("#theme", "dark")
    assert opened.page.evaluate(read_paper) != light
    opened.page.select_option("#theme", "light")
    assert opened.page.evaluate(read_paper) == light
    told = json.loads(page.with_suffix(".json").read_text())["tokenizer"]["premiums"]["tokenizers"]["this build"]
    assert read_column(opened, "Premiums", 2) == [f"{told['premiums'][lang]:.3f}" for lang in ("ar", "en", "sw")]
    opened.page.select_option("#reference", "sw")
    tokens = told["tokens"]
    assert read_column(opened, "Premiums", 2) == [f"{tokens[lang] / tokens['sw']:.3f}" for lang in ("ar", "en", "sw")]
    others = sorted(tokens[lang] / tokens["sw"] for lang in ("ar", "en"))
    assert read_column(opened, "Premiums in short", 1)[0] == f"{sum(others) / 2:.3f}"
    opened.page.fill("#convert-perplexity", "16")
    assert re.match(
        r"\d\.\d{4} bits per byte( ± \d\.\d\d %)?; the same as a perplexity of this build 16\.00, r50k",
        opened.page.text_content("#convert-output"),
    )
    bits = opened.page.input_value("#convert-bits")
    opened.page.fill("#convert-bits", str(2 * float(bits)))
    assert float(opened.page.input_value("#convert-perplexity")) == pytest.approx(256, rel=1e-3)
    assert opened.page.text_content("#convert-output").startswith(f"{2 * float(bits):.4f} bits per byte")
    assert opened.problems == []


def test_the_calculator_says_what_the_table_says(page, open_page):
    opened = open_page(page.as_uri())
    money = json.loads(page.with_suffix(".json").read_text())["money"]
    opened.page.select_option("#cost-tokenizer", "this build")
    for model in money["models"]:
        for key in ("layers", "width"):
            opened.page.fill(f"#cost-{key}", str(model[key]))
        told = opened.page.text_content("#cost-output")
        of = model["operations"]["this build"]
        total = sum(of.values())
        assert f"{total / 1e9:,.1f} billion multiply-adds: layers {of['layers'] / total:.1%}".replace("%", " %") in told
        assert f"output layer {100 * of['output'] / total:.1f} %" in told
        assert f"table {model['embedding_parameters']['this build'] / 1e6:,.1f} million" in told
    opened.page.fill("#cost-width", "")
    assert opened.page.text_content("#cost-output") == "–"
    assert opened.problems == []


def test_in_print_lists_are_open_and_nothing_is_cut(page, open_page):
    opened = open_page(page.as_uri())
    opened.page.emulate_media(media="print")
    data = opened.page.pdf(format="A4")
    assert data.startswith(b"%PDF")
    assert opened.page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(s => s.scrollHeight <= s.clientHeight + 1)"
    )
    assert not opened.page.is_visible("nav")
    opened.keep("report-print")


def test_it_can_be_read_without_scripts(page, open_page, browser):
    context = browser.new_context(java_script_enabled=False, offline=True)
    read = context.new_page()
    read.goto(page.as_uri())
    assert read.locator("section").count() == len(SECTIONS)
    assert read.get_by_text("Bytes per token, by language").is_visible()
    context.close()


def test_a_hostile_corpus_stays_text(tmp_path, open_page):
    name = "bait<b>x.jsonl"
    text = f"{BAIT} " * 30
    write(tmp_path / name, jsonl([{"id": f"{BAIT}{i}", "lang": "xy", "text": text} for i in range(3)]))
    small_corpus(tmp_path)
    hostile = f'[[source]]\nlang_field = "lang"\nfiles = "{name}"\nid = "id"\n'
    built = build_file(
        tmp_path, SOURCES + hostile, "[learn]\nvocab_size = 500\nmin_count = 1\n", build='name = "</title><b>"'
    )
    run(built, tmp_path / "out")
    report = make_report(
        read_output(str(tmp_path / "out")), Wishes({BAIT: published_tokenizer("r50k")}), StageProgress(-1)
    )
    report["corpus"]["languages"][BAIT] = next(iter(report["corpus"]["languages"].values()))
    report["corpus"]["sources"][BAIT] = next(iter(report["corpus"]["sources"].values()))
    _, page = write_report(report, tmp_path / "report.html")
    opened = open_page(page.as_uri())
    opened.page.wait_for_function("document.querySelectorAll('.chart[data-drawn]').length >= 7")
    assert opened.problems == []
    assert opened.requests == [page.as_uri()]
    assert opened.page.evaluate("document.querySelectorAll('img, iframe, main b, main u, main script').length") == 0
    assert opened.page.evaluate("document.scripts.length") == 4
    shown = opened.page.evaluate("document.body.innerText")
    assert "<img src=x onerror=alert(1)>" in shown
    assert "bait<b>x.jsonl" in shown
    assert "\\u202e" in shown
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", opened.page.content())
    assert opened.find_barriers() == []
    opened.keep("report-hostile")


def test_the_policy_allows_nothing_else(page, open_page):
    opened = open_page(page.as_uri())
    opened.page.evaluate(
        """() => { const script = document.createElement("script"); script.textContent = "window.ran = true";
        document.body.append(script); const image = new Image(); image.src = "http://127.0.0.1:9/x"; }"""
    )
    assert opened.page.evaluate("window.ran") is None
    policy = opened.page.get_attribute("meta[http-equiv]", "content")
    assert "unsafe" not in policy
    assert len(opened.problems) >= 2
    assert all("Content Security Policy" in problem for problem in opened.problems)
