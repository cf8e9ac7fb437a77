"""What to write in the build file when records are rejected, from the fields that the records do have."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tokcore_pipelines.build.guess_fields import describe_guesses, guess_fields
from tokcore_pipelines.reading.input_range import make_read_settings
from tokcore_pipelines.reading.peek import Field, Peek
from tokcore_pipelines.reading.records import make_printable
from tokcore_pipelines.reading.sniff import COMPRESSED, FORMATS, WORDS
from tokcore_pipelines.work.pin_attributes import unpin_attributes
from tokcore_pipelines.work.pin_test_items import unpin_filters
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.document import is_valid_lang
from tokcore_schemas.field_template import is_template, list_paths
from tokcore_schemas.input_format import COLUMN_FORMATS
from tokcore_schemas.plan import ReadSettings

_MOST_NAMES = 8

# The key of a source for each reason that a field can give.
KEYS = {
    "missing_text": "text",
    "bad_text": "text",
    "missing_id": "id",
    "bad_id": "id",
    "missing_group": "group",
    "bad_group": "group",
    "bad_lang": "lang_field",
}

_OTHERS = {
    "invalid_utf8": 'If the files are of another encoding, name it with encoding = "..."; invalid_utf8 = "replace" '
    "puts U+FFFD for each bad byte",
    "bad_row": 'If quotes are ordinary characters there, write quotes = false; delimiter = "..." sets another',
    "wrong_encoding": 'Name the encoding with encoding = "..."',
    "lone_surrogate": "Fix the program that wrote the files: UTF-8 cannot hold such text",
    "document_too_large": "Raise max_document_bytes; for text files say with unit or separator what a document is",
    "special_text": 'The texts hold special tokens: write special_text = "ordinary" in [encode] to read them as text',
    "bad_json": "The files hold lines that are not JSON: write them again, or name their format",
    "not_object": 'Each line must be an object such as {"text": "..."}',
    "reader_crashed": "Write the files again with a current library, or leave them out with exclude",
    "unreadable_name": "Give the objects other names, or leave them out with exclude",
    "over_limit": "The files unfold to far more than they store: write them again in smaller parts, or leave them out",
    "truncated": "The files are cut off: copy them again",
    "corrupt": "The files are damaged, or of another format: copy them again, or set format",
}


def find_source(config: BuildConfig, read: ReadSettings) -> int:
    """The number of the first source that reads files so, whatever was removed from them."""
    read = dataclasses.replace(read, removed=None)
    return find_exact_source(config, read) or 0


def find_exact_source(config: BuildConfig, read: ReadSettings) -> int | None:
    """As find_source, but None if no source does; what was removed must be the same."""
    read = dataclasses.replace(read, filters=unpin_filters(read.filters))
    is_same = unpin_attributes(read.attributes) == config.attributes_rule
    tables = read.attributes if is_same else config.attributes_rule
    for number, source in enumerate(config.sources):
        made = make_read_settings(
            source,
            read.format,
            read.compression,
            read.forbidden,
            normalizes_langs=config.normalizes_langs,
            metadata=config.metadata_fields,
            attributes=tables,
            maps=config.map_rules,
            filters=config.filter_rules,
            mask=config.mask_rule,
            compared=config.compared_fields,
            order=number if config.orders_sources else 0,
        )
        if made == read:
            return number
    return None


def suggest_fix(reason: str, settings: ReadSettings, seen: Peek | None, fields: Sequence[Field]) -> str:
    """What to do about records that are rejected for one reason, as a sentence without its full stop."""
    if seen is not None and (wrong := describe_wrong_content(seen, settings)):
        return wrong
    key = KEYS.get(reason)
    if key is None:
        return _OTHERS.get(reason, "")
    named = getattr(settings, key)
    if is_template(named):
        paths = list_paths(named)
        if lists := [one.name for one in fields if one.name in paths and _is_list(one)]:
            return f"{lists[0]!r} holds lists: write {{{lists[0]}[*]:, }} to join their texts"
        absent = [name for name in paths if fields and all(field.name != name for field in fields)]
        which = f"No record has {absent[0]!r}. " if absent else ""
        return f"{which}{describe_fields(fields, settings)}: a field that may be missing is written {{name?}}"
    if settings.format in ("csv", "tsv") and len(fields) == 1:
        for other, spelled in ((";", ";"), ("\t", "\\t"), ("|", "|"), (",", ",")):
            if other in fields[0].name and other != settings.delimiter:
                header = make_printable(fields[0].name.encode())
                return f'The header is one field, {header!r}: write delimiter = "{spelled}"'
    if not fields:
        return f"Look at the fields and set {key}"
    if (num := sum(field.name == named for field in fields)) > 1:
        return f"{num} columns are called {named!r}, and nothing tells which is meant: give one another name"
    found = next((field for field in fields if field.name == named), None)
    if reason in ("bad_id", "bad_group") and found is not None:
        return f"{named!r} holds {found.kind} values: name a field of strings or integers, or remove {key}"
    if reason == "bad_lang" and found is not None:
        example = next((value for value in found.values if not (isinstance(value, str) and is_valid_lang(value))), None)
        holds = (
            f"{named!r} holds {make_printable(repr(example).encode())}, which is not a language code" if example else ""
        )
        return f'{holds or f"some records lack {named!r}"}. Name another lang_field, or write lang = "..." instead'
    if key == "text" and found is not None and _are_mostly_strings(found.values):
        return f"Most records have text in {named!r}: mend the others, or allow for them with max_rejected"
    others = [field for field in fields if field.name != named]
    guesses = guess_fields(others, key.removesuffix("_field"), named)
    guess = guesses[0].name if guesses else ""
    advice = f': write {key} = "{guess}"' if guess else f": set {key} to one of them"
    if said := describe_guesses(guesses):
        advice += f", {said}"
    if key == "lang_field" and not guess:
        advice = ': if none of them is a language, write lang = "..." instead'
    if key in ("id", "group") and not guess:
        advice = f": set {key} to one of them, or remove it"
    return f"{describe_fields(fields, settings)}{advice}"


def _is_list(field: Field) -> bool:
    return field.kind in ("an array", "list")


def _are_mostly_strings(values: Sequence[object]) -> bool:
    return 2 * sum(isinstance(value, str) for value in values) > len(values)


def describe_fields(fields: Sequence[Field], settings: ReadSettings) -> str:
    """Which fields there are, in words."""
    shown = ", ".join(f"'{make_printable(field.name.encode())}'" for field in fields[:_MOST_NAMES])
    more = f" and {len(fields) - _MOST_NAMES} more" if len(fields) > _MOST_NAMES else ""
    return f"The {'columns' if settings.format in COLUMN_FORMATS else 'records'} have {shown}{more}"


def describe_wrong_content(seen: Peek, settings: ReadSettings) -> str:
    """What is wrong with a file that is not of the format that it is read as, and how to fix it; "" if it is."""
    name = make_printable(seen.file.url.rpartition("/")[2].encode())
    is_compressed = seen.stored in COMPRESSED
    if seen.stored == "empty":
        return ""
    if settings.format in COLUMN_FORMATS:
        if seen.stored == settings.format:
            return ""
        fix = _suggest_format(seen)
        return f"{name} is {WORDS[seen.stored]}, not {WORDS[settings.format]}: {fix}"
    if is_compressed and settings.compression == "none":
        return f"{name} is {WORDS[seen.stored]}, and its name does not say so: rename it to {name}.{seen.stored}"
    if settings.compression != "none" and seen.stored != settings.compression:
        stem = name.rpartition(".")[0]
        new = f"{stem}.{seen.stored}" if is_compressed else stem
        return f"{name} is {WORDS[seen.stored]}, not what its name says: rename it to {new}"
    if seen.inner in COLUMN_FORMATS:
        if is_compressed:
            return f"{name} is {WORDS[seen.inner]} inside a compressed file: decompress it"
        return f"{name} is {WORDS[seen.inner]}: {_suggest_format(seen)}"
    if settings.format == "warc" or seen.inner == "warc":
        same = settings.format == seen.inner
        return "" if same or settings.format == "text" else f"{name} is {WORDS[seen.inner]}: {_suggest_format(seen)}"
    if settings.format in ("csv", "tsv") and seen.inner == "json lines":
        return f"{name} holds JSON lines: {_suggest_format(seen)}"
    if settings.format != "jsonl":
        return ""
    plain = name.removesuffix(f".{settings.compression}")
    stem = plain.rpartition(".")[0] or plain
    if seen.inner == "json array":
        return f"{name} is one JSON array, not one record per line. To convert it: jq -c '.[]' {plain} > {stem}.jsonl"
    if seen.inner == "json object":
        return f"{name} has records that span lines, not one per line. To convert it: jq -c . {plain} > {stem}.jsonl"
    return ""


def is_json_as_text(seen: Peek, settings: ReadSettings) -> bool:
    """Whether a file that is read as text holds JSON lines."""
    return settings.format == "text" and seen.inner == "json lines" and seen.head.count(b"\n") > 1


def _suggest_format(seen: Peek) -> str:
    written = FORMATS.get(seen.inner)
    return f'write format = "{written}"' if written else "write it again, or exclude it"
