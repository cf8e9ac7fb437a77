"""Which field holds the text: told by what the fields hold, shown as a guess where several may be meant."""

from __future__ import annotations

import io
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import jsonl, texts, write

from tokcore_pipelines.begin.build_text import write_build_text
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.guess_fields import describe_guesses, guess_fields
from tokcore_pipelines.reading.peek import find_record_fields

PROSE = texts("en", 12)
SHORT = [f"What is the {i}th word?" for i in range(12)]

QUESTIONS = [
    {"id": i, "question": SHORT[i], "answer": PROSE[i], "meta": {"lang": {"code": "en"}, "url": f"https://x/{i}"}}
    for i in range(12)
]
INSTRUCTIONS = [{"instruction": SHORT[i], "input": "", "output": PROSE[i], "category": "open_qa"} for i in range(12)]
PAGES = [
    {"url": f"https://host/a/long/path/to/a/page/{i}.html", "title": f"Page {i}", "license": "CC BY", "paragraphs": one}
    for i, one in enumerate(PROSE)
]


def _guess(records, role="text", named=""):
    return guess_fields(find_record_fields(jsonl(records)), role, named)


@pytest.mark.parametrize(
    ("records", "name", "others", "is_sure"),
    [
        (QUESTIONS, "answer", ["question"], False),
        ([{"question": one, "answer": one[::-1]} for one in PROSE], "question", ["answer"], False),
        (INSTRUCTIONS, "output", ["instruction"], False),
        (PAGES, "paragraphs", ["title", "license"], False),
        # A label is no text, though it is called so; a url is none, though it is alone.
        ([{"text": "pos", "review": one} for one in PROSE], "review", [], False),
        # A usual name is preferred to a field that is up to four times as long, and is sure if none comes near.
        ([{"text": one[:70], "biography": one} for one in PROSE], "text", ["biography"], False),
        ([{"text": one, "summary": one[:20]} for one in PROSE], "text", ["summary"], True),
        # The same sentence in each record is a notice.
        ([{"body_html": one, "notice": PROSE[0] * 3} for one in PROSE], "body_html", ["notice"], False),
        ([{"content": "猫坐在垫子上面", "kind": "zh"}] * 3, "content", [], True),
    ],
)
def test_text_is_told_by_content_before_names(records, name, others, is_sure):
    first, *rest = _guess(records)
    assert (first.name, [one.name for one in rest], first.is_sure) == (name, others, is_sure)


def test_what_holds_no_text_is_not_guessed():
    assert _guess([{"url": f"https://x/{i}", "lang": "en"} for i in range(9)]) == []
    assert _guess([{"meta": {"code": "en"}, "n": 1}] * 3) == []


def test_other_roles():
    assert [one.name for one in _guess(QUESTIONS, "id")] == ["id", "meta.url"]
    assert [one.name for one in _guess([{"id": 1, "uuid": str(i)} for i in range(5)], "id")] == ["uuid", "id"]
    assert [one.name for one in _guess(QUESTIONS, "lang")] == ["meta.lang.code"]
    assert [one.name for one in _guess([{"language": "no code!", "l": "en"}] * 3, "lang")] == ["l"]
    assert [one.name for one in _guess([{"contents": "x", "body": PROSE[0]}], "text", "content")] == ["contents"]


def test_a_guess_shows_what_it_rests_on():
    guesses = _guess(
        [{"question": one, "answer": f"{one} So."} for one in ("Is it late?", "Why so?", "Who is it?", "?")]
    )
    assert describe_guesses(guesses) == (
        'a guess: \'answer\' ("Is it late? So.", "Why so? So.", "Who is it? So."); '
        'or one of \'question\' ("Is it late?", "Why so?", "Who is it?")'
    )
    assert describe_guesses(_guess([{"text": one} for one in PROSE])) == ""
    assert _guess([{"text": f"a\x1b[31m b {'long ' * 20}"}])[0].samples == ("a\\x1b[31m b " + "long " * 6 + "l...",)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_init_offers_fields_with_their_values(tmp_path, suffix):
    """A footer names columns and has no values: these are read."""
    records = [{"question": one, "answer": f"{one} Yes.", "url": f"https://x/{one[:4]}"} for one in PROSE]
    data = jsonl(records)
    if suffix == "parquet":
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(records), file)
        data = file.getvalue()
    write(tmp_path / "data" / f"a.{suffix}", data)
    text = write_build_text(propose(str(tmp_path / "data")), str(tmp_path / "build.toml"))
    assert tomllib.loads(text)["source"][0]["text"] == "answer"
    _, told = text.split("# text is a guess: see what these fields hold, and write the one that you mean\n")
    shown = told.splitlines()[:2]
    assert [line.split()[1] for line in shown] == ["'answer'", "'question'"]
    assert all(line.count('"') == 6 for line in shown)
