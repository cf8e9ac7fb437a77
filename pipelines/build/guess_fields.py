"""Which field of records holds the text, id, group or language: by what the fields hold, and then by their names.

A field is told by length, spaces and distinct values: urls, codes and labels are no text, whatever they are called.
Where several fields may be meant, all are given, the likeliest first. `tokcore init` and `tokcore check` both ask here.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tokcore_pipelines.reading.peek import Field, Peek, read_first_documents
from tokcore_pipelines.reading.records import make_printable
from tokcore_schemas.document import is_valid_lang
from tokcore_schemas.input_format import COLUMN_FORMATS
from tokcore_schemas.plan import ReadSettings

# What people call these fields, the likelier name first.
_NAMES = {
    "text": ("text", "content", "body", "raw_content", "document", "article", "markdown", "code", "sentence", "story"),
    "id": ("id", "doc_id", "docid", "document_id", "uuid", "_id", "url", "key"),
    "group": ("group", "group_id", "cluster", "cluster_id", "thread", "book"),
    "lang": ("lang", "language", "lang_code", "language_code", "lang_id", "languages", "locale"),
}
_LANG_CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,8})*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_NAME_WEIGHT = 4  # a field called text is preferred to one whose texts are up to that many times as long
_MOST_GUESSES = 4
_MOST_COLUMNS = 12  # whose values are read
_NUM_SAMPLES = 3
_SAMPLE_CHARACTERS = 40
_TYPICAL_VALUES = 64


class Guess(NamedTuple):
    """A field that may be the one that is meant."""

    name: str
    is_sure: bool  # whether what it holds and its name say so, and no other field comes near it
    samples: tuple[str, ...]  # three of its values, printable and short; none if they are unknown

    def describe(self) -> str:
        """The name with its values, for a person who is to choose."""
        shown = ", ".join(f'"{one}"' for one in self.samples)
        return f"{make_printable(self.name.encode())!r}{f' ({shown})' if shown else ''}"


def guess_fields(fields: Sequence[Field], role: str, named: str = "") -> list[Guess]:
    """The fields that may hold the text, id, group or lang of records, the likeliest first; none if none seems to.

    role: text, id, group or lang. named: what the build file calls it, wrongly.
    """
    fitting = [field for field in fields if _fits(field, role)]
    if named and (below := [one for one in fitting if one.name.startswith((f"{named}.", f"{named}[*]."))]):
        fitting = below
    elif named and (close := _find_close(named, fitting)):
        return [_make_guess(close, True)]
    if role == "text":
        return _guess_text(fitting)
    usual = sorted((one for one in fitting if _rank_name(one.name, role) is not None), key=lambda f: _order(f, role))
    if not usual and role == "lang":
        usual = [one for one in fitting if one.values and all(map(_is_code, one.values))]
    return [_make_guess(one, number == 0) for number, one in enumerate(usual[:_MOST_GUESSES])]


def describe_guesses(guesses: Sequence[Guess]) -> str:
    """What a guess rests on and what else there is, in words; "" where the first one is sure."""
    if not guesses or guesses[0].is_sure:
        return ""
    first, *others = guesses
    said = f"a guess: {first.describe()}"
    return f"{said}; or one of {', '.join(one.describe() for one in others)}" if others else said


def fill_values(seen: Peek, settings: ReadSettings, fields: Sequence[Field]) -> list[Field]:
    """The fields with the first values of columns of text, which a footer does not have. Others stay as they are."""
    if settings.format not in COLUMN_FORMATS:
        return [*fields]
    columns = {one.name for one in [one for one in fields if one.is_text and not one.values][:_MOST_COLUMNS]}
    return [
        dataclasses.replace(one, values=_read_values(seen, settings, one)) if one.name in columns else one
        for one in fields
    ]


def _read_values(seen: Peek, settings: ReadSettings, field: Field) -> tuple[str, ...]:
    alone = dataclasses.replace(
        settings,
        text=field.name,
        id="",
        group="",
        lang="und",
        lang_field="",
        lang_normalize="",
        lang_map=(),
        forbidden=(),
        fields=(),
        metadata=(),
        attributes=None,
        maps=(),
        filters=(),
    )
    batch = read_first_documents(seen, alone)
    if batch is None:
        return ()
    most = min(batch.texts.num_texts, _TYPICAL_VALUES)
    return tuple(batch.texts.text(i).decode(errors="replace") for i in range(most))


def _fits(field: Field, role: str) -> bool:
    """Whether a field can have that role at all, by its type and values."""
    if role == "text":
        return field.is_text
    if role == "lang":
        return field.is_text and all(isinstance(value, str) and is_valid_lang(value) for value in field.values)
    return field.is_text or "int" in field.kind or field.kind == "a number"


def _find_close(named: str, fields: Iterable[Field]) -> Field | None:
    """The field whose name is nearly the one that was written."""
    lowered = {field.name.lower(): field for field in reversed([*fields])}
    close = difflib.get_close_matches(named.lower(), list(lowered), n=1, cutoff=0.7)
    return lowered[close[0]] if close else None


def _rank_name(name: str, role: str) -> int | None:
    """The place of a field's name, without the fields that it is in, among the usual ones; None if it is none."""
    last = name.lower().rpartition(".")[2]
    return _NAMES[role].index(last) if last in _NAMES[role] else None


def _order(field: Field, role: str) -> tuple[bool, int]:
    """Ids that occur twice come last; else the likelier name is first."""
    rank = _rank_name(field.name, role)
    repeats = role == "id" and len({*map(str, field.values)}) < len(field.values)
    return repeats, len(_NAMES[role]) if rank is None else rank


def _guess_text(fields: Sequence[Field]) -> list[Guess]:
    weights = {field.name: _weigh_text(field) for field in fields if field.values}
    texts = sorted((one for one in fields if weights.get(one.name)), key=lambda one: -weights[one.name])
    if texts:
        is_alone = len(texts) == 1 or 2 * weights[texts[1].name] <= weights[texts[0].name]
        is_sure = is_alone and _rank_name(texts[0].name, "text") is not None
        return [_make_guess(one, is_sure and one is texts[0]) for one in texts[:_MOST_GUESSES]]
    # No value looks like text, or none is known.
    left = [one for one in fields if not _holds_labels(one)]
    usual = sorted((one for one in left if _rank_name(one.name, "text") is not None), key=lambda f: _order(f, "text"))
    long = [one for one in left if _measure_length(one) >= _SAMPLE_CHARACTERS]
    chosen = usual or sorted(long, key=lambda one: -_measure_length(one)) or (left if len(left) == 1 else [])
    is_sure = len(chosen) == 1 or bool(usual)
    return [_make_guess(one, is_sure and number == 0) for number, one in enumerate(chosen[:_MOST_GUESSES])]


def _weigh_text(field: Field) -> float:
    """How much a field looks like text: mean length, times the share of distinct values, more with a usual name.

    0 if most of its values are no text.
    """
    num = len(field.values)
    if 2 * sum(map(_is_prose, field.values)) <= num:
        return 0.0
    weight = _measure_length(field) * len({*map(str, field.values)}) / num
    return weight * (_NAME_WEIGHT if _rank_name(field.name, "text") is not None else 1)


def _measure_length(field: Field) -> float:
    """Characters of a value, on the average."""
    return sum(len(value) for value in field.values if isinstance(value, str)) / max(1, len(field.values))


def _is_prose(value: Any) -> bool:
    """Whether a value is more than a word, a url or a code. Many scripts write no spaces."""
    if not isinstance(value, str) or _URL.fullmatch(value):
        return False
    others = sum(character.isalpha() for character in value[:1000] if not character.isascii())
    return (len(value.split(None, 1)) > 1 and any(map(str.isalpha, value))) or others >= 4


def _holds_labels(field: Field) -> bool:
    """Whether most values are urls, or codes as of languages."""
    labels = sum(_is_code(value) or (isinstance(value, str) and bool(_URL.fullmatch(value))) for value in field.values)
    return 2 * labels > len(field.values)


def _is_code(value: Any) -> bool:
    return isinstance(value, str) and _LANG_CODE.fullmatch(value) is not None


def _make_guess(field: Field, is_sure: bool) -> Guess:
    values = dict.fromkeys(str(value) for value in field.values)
    shown = [_shorten(value) for value in [*values][:_NUM_SAMPLES]]
    return Guess(field.name, is_sure, tuple(shown))


def _shorten(value: str) -> str:
    line = " ".join(value[: 4 * _SAMPLE_CHARACTERS].split())
    cut = line[:_SAMPLE_CHARACTERS] + ("..." if len(line) > _SAMPLE_CHARACTERS else "")
    return make_printable(cut.encode("utf-8", "replace")).replace('"', "'")
