"""HTML from values: everything that is not HTML already is escaped, so that text of a corpus stays text.

Characters that are not seen, or that change the direction of text, are shown as escapes such as \\u202e, as the audit
shows them. Names stand in <bdi>, so that a right-to-left one moves nothing around it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokcore.look.odd_tokens import spell_token


class Html(str):
    """Text that is HTML: nothing in it needs to be escaped any more."""

    __slots__ = ()


def tag(element: str, /, *children: str, **attributes: str | int | float | bool | None) -> Html:
    """An element. Children that are no Html are escaped. Attributes: class_ is class, data_v is data-v.

    >>> tag("b", "a < b", class_="x")
    '<b class="x">a &lt; b</b>'
    """
    written = "".join(_write_attribute(key, value) for key, value in attributes.items())
    if element in ("meta", "input", "br"):
        return Html(f"<{element}{written}>")
    return Html(f"<{element}{written}>{join(children)}</{element}>")


def join(children: Iterable[str]) -> Html:
    """The children one after the other, escaped where they are no Html."""
    return Html("".join(child if isinstance(child, Html) else html.escape(child) for child in children))


def _write_attribute(key: str, value: str | int | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'


def make_visible(text: str) -> str:
    """The text with escapes for characters that are not seen.

    >>> make_visible("a\\u202eb<i>")
    'a\\\\u202eb<i>'
    """
    return spell_token(text.encode("utf-8", "surrogateescape"))[1:-1].replace('\\"', '"')


def write_name(text: str) -> Html:
    """A name that comes from data."""
    return tag("bdi", make_visible(text))


def write_token(spelled: str) -> Html:
    """A token as the audit spells it, which has no invisible characters any more."""
    return tag("code", tag("bdi", spelled))


class Number:
    """A cell that sorts by its value. margin: of an estimate, None where there is none."""

    def __init__(self, value: float | None, form: str = ",", margin: float | None = None, unit: str = "") -> None:
        self.value = value
        self._form, self._margin, self._unit = form, margin, unit

    def as_cell(self) -> Html:
        if self.value is None:
            return tag("td", "–", class_="n")
        shown = format(self.value, self._form) + self._unit
        if not self._margin:
            return tag("td", shown, class_="n", data_v=self.value)
        margin = tag("span", f" ± {format(self._margin, self._form)}", class_="margin")
        return tag("td", shown, margin, class_="n", data_v=self.value)


def write_estimate(told: Mapping[str, Any], form: str = ".3f") -> Number:
    """The cell of an estimate."""
    return Number(told["value"], form, told["margin"])


Cell = str | Number
Rows = list[list[Cell]]


def write_table(
    caption: str,
    headings: Sequence[str],
    rows: Rows,
    *,
    langs: Sequence[str | None] = (),
    kind: str = "",
    note: str = "",
) -> Html:
    """A table that can be sorted by each column; the first one names the row.

    langs: of each row its language, for the choice of one; None of a row that always stays. note: below the table.
    """
    head = tag("tr", *(tag("th", tag("button", text, type="button"), scope="col") for text in headings))
    body = [tag("tr", *_make_cells(row), data_lang=_find_lang(langs, i)) for i, row in enumerate(rows)]
    content = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body), class_=kind or None)
    scrolled = tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return join([scrolled, tag("p", note, class_="note")]) if note else scrolled


def _find_lang(langs: Sequence[str | None], place: int) -> str | None:
    lang = langs[place] if langs else None
    return None if lang is None else make_visible(lang)


def _make_cells(row: Sequence[Cell]) -> Iterable[Html]:
    first, *others = row
    yield tag("th", first if isinstance(first, str) else str(first.value), scope="row")
    for cell in others:
        yield cell.as_cell() if isinstance(cell, Number) else tag("td", cell)


def place_chart(key: str, caption: str) -> Html:
    """The place of a chart. Its numbers are in a table, or in report.json, so it is one picture for a screen reader."""
    return tag(
        "figure",
        tag("div", id=f"chart-{key}", class_="chart", role="img", aria_label=caption),
        tag("figcaption", caption),
    )


def write_section(key: str, title: str, *children: str) -> Html:
    """A part of the page with a heading of the second level."""
    return tag("section", tag("h2", title, id=f"{key}-title"), *children, id=key, aria_labelledby=f"{key}-title")


def write_facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Names and values, one below the other."""
    return tag("dl", *(tag("div", tag("dt", key), tag("dd", value)) for key, value in pairs), class_="facts")
