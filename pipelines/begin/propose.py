"""What a folder of data holds, as the sources of a build file: formats, fields, languages, and what is left out.

Looks at the start of one file of each kind in each folder. build_text writes what is found as a build file.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tokcore.errors import ConfigError
from tokcore_pipelines.begin.language_names import guess_file_language, guess_folder_language
from tokcore_pipelines.build.guess_fields import Guess, fill_values, guess_fields
from tokcore_pipelines.build.suggest_fixes import describe_fields, describe_wrong_content
from tokcore_pipelines.reading.input_range import make_read_settings
from tokcore_pipelines.reading.peek import Field, Peek, find_fields, peek, read_first_documents
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.sniff import WORDS
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.disk_listing import Link, Links, describe_missing
from tokcore_pipelines.store.not_data import OwnOutputs, explain_bad_name, explain_not_data
from tokcore_pipelines.store.patterns import compile_glob, name_all_below, quote
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.config import Source, find_format
from tokcore_schemas.document import is_valid_lang
from tokcore_schemas.input_format import COLUMN_FORMATS, FileFormat
from tokcore_schemas.plan import ReadSettings

UNKNOWN_LANGUAGE = "und"  # "undetermined", ISO 639-2

_PEEK_BYTES = 1 << 18
_THREADS = 16
_MOST_LOOKED_AT = 256  # of more files, one of each kind in each folder is looked at
_LONG_TEXT_BYTES = 1 << 20
_IDS = ("id", "doc_id", "docid", "document_id", "uuid", "_id")
_HELD_OUT = frozenset({"validation", "valid", "val", "dev", "test", "eval"})
_CONTENT_FORMATS: Mapping[str, FileFormat] = {
    "json lines": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
    "warc": "warc",
}
_ENCODING = re.compile(r'encoding = "([a-z0-9-]+)"')


@dataclasses.dataclass(frozen=True, slots=True)
class Proposed:
    """A source of the build file."""

    source: Source  # its files are patterns below the folder
    num_files: int
    size_bytes: int  # as stored
    fields: str  # which there are, in words
    why: str  # what was decided, and on what ground; "" where nothing was
    guesses: tuple[Guess, ...] = ()  # fields that may hold the text, the one that is proposed first; none if it is sure


@dataclasses.dataclass(frozen=True, slots=True)
class Proposal:
    """What a folder holds."""

    folder: str  # URL
    sources: tuple[Proposed, ...]
    left_out: tuple[tuple[str, str], ...]  # (file or pattern, why)
    links: Mapping[str, Link] = dataclasses.field(default_factory=dict)  # name below the folder -> a symbolic link


class _Kind(NamedTuple):
    """Files of one folder that are read alike, by their names."""

    folder: str  # below the root
    suffix: str  # ".jsonl.zst"
    lang: str  # that the names tell; "" for none
    start: str = ""  # of the names that tell it: the folder with its slash, or the word before - or _; "" for none
    name: str = ""  # of the one file, if there are so few that each is looked at


def propose(url: str) -> Proposal:
    """The sources that a folder, or one file, holds. Raises ConfigError if there are none."""
    root, files, left_out, links = _list_files(url)
    is_folder = root == url.rstrip("/") or len(files) != 1
    follow_links = True if links else None
    kept, held_out = _set_held_out_apart(files)
    left_out += [(name, "looks like a split for evaluation") for name in held_out]
    kinds: dict[_Kind, list[str]] = {}
    folders = {posixpath.dirname(name) for name in kept}
    for name in kept:
        kind = _find_kind(name, folders)
        kinds.setdefault(kind._replace(name=name) if len(kept) <= _MOST_LOOKED_AT else kind, []).append(name)
    with ThreadPoolExecutor(_THREADS) as pool:
        looked = [*pool.map(lambda names: peek(_find_largest(files, names), _PEEK_BYTES), kinds.values())]
    same: dict[tuple[tuple[str, Any], ...], list[str]] = {}
    about: dict[tuple[tuple[str, Any], ...], tuple[str, str, tuple[Guess, ...]]] = {}
    starts: dict[str, str] = {}
    for (kind, names), seen in zip(kinds.items(), looked, strict=True):
        found = _propose_source(kind, names, seen)
        if isinstance(found, str):
            left_out += [(name, found) for name in names]
            continue
        keys = found[0]
        key = tuple(sorted(keys.items()))
        same.setdefault(key, []).extend(names)
        starts |= dict.fromkeys(names, kind.start if is_folder and "lang" in keys else "")
        about.setdefault(key, found[1:])
    if not same:
        is_there = not urls.is_local(url) or Path(urls.get_local_path(url)).exists()
        empty = "it is empty" if is_there else "there is no such file or folder"
        said = "; ".join(f"{name} ({why})" for name, why in left_out[:5])
        raise ConfigError(f"{redact(url)}: no data that tokcore reads: {redact(said) or empty}")
    sources = [
        Proposed(
            Source(**dict(key), files=(*_find_patterns(names, [*files], starts),), follow_links=follow_links),
            len(names),
            sum(files[name].size_bytes for name in names),
            *about[key],
        )
        for key, names in same.items()
    ]
    sources.sort(key=lambda one: (one.source.lang or "", one.source.files))
    return Proposal(root, tuple(sources), tuple(sorted(left_out)), links)


class _Listed(NamedTuple):
    root: str  # the folder
    files: dict[str, storage.FileId]  # by their names below it
    left_out: list[tuple[str, str]]  # those that are no data, and why
    links: dict[str, Link]  # symbolic links to what may be data


def _list_files(url: str) -> _Listed:
    if storage.is_file(url):
        return _Listed(posixpath.dirname(url), {posixpath.basename(url): storage.stat(url)}, [], {})
    root = url.rstrip("/") or "/"
    own = OwnOutputs()
    files: dict[str, storage.FileId] = {}
    left_out = []
    above = urls.open_file_system(root)[1].rstrip("/")
    links = Links(follows=True)
    for pin in storage.list_files(name_all_below(root), links):
        at = urls.open_file_system(pin.url)[1]
        name = at.removeprefix(above).lstrip("/")
        why = explain_not_data(at, above, "**")
        if not why and (folder := own.holding(pin.url)):
            why = f"of the tokcore output {redact(folder)}"
        if why:
            left_out.append((name, why))
        else:
            if bad := explain_bad_name(pin.url):
                raise ConfigError(bad)
            files[name] = pin
    met = {path.removeprefix(above).lstrip("/"): link for path, link in links.met.items()}
    met = {name: link for name, link in met.items() if not explain_not_data(f"{name}/_", "", "**")}
    left_out += [(name, describe_missing(link)) for name, link in met.items() if link.kind == "missing"]
    return _Listed(root, files, left_out, met)


def _set_held_out_apart(files: Iterable[str]) -> tuple[list[str], list[str]]:
    """(names to learn from, names of validation and test splits), where there is a train split, too."""
    splits = {name: _find_split(name) for name in files}
    if "train" not in splits.values():
        return [*splits], []
    return (
        [name for name, split in splits.items() if split not in _HELD_OUT],
        [name for name, split in splits.items() if split in _HELD_OUT],
    )


def _find_split(name: str) -> str:
    """The split in the name of a folder or at the start of a file's name; "" for none."""
    *folders, last = name.lower().split("/")
    words = [*(folder.removeprefix("split=") for folder in reversed(folders)), re.split(r"[-_.]", last)[0]]
    return next((word for word in words if word == "train" or word in _HELD_OUT), "")


def _find_kind(name: str, folders: Iterable[str]) -> _Kind:
    folder, last = posixpath.split(name)
    stem, suffix = posixpath.splitext(last)
    known = find_format(last)
    if known is not None and known[1] != "none":
        suffix = posixpath.splitext(stem)[1] + suffix
    parts = folder.split("/") if folder else []
    for depth in range(len(parts), 0, -1):
        above = "/".join(parts[: depth - 1])
        start = f"{above}/" if above else ""
        beside = {one.removeprefix(start).split("/")[0] for one in folders if one.startswith(start) and one != above}
        if lang := guess_folder_language(parts[depth - 1], beside):
            return _Kind(folder, suffix, lang, f"{start}{parts[depth - 1]}/")
    lang = guess_file_language(last)
    word = re.match(r"[^-_.]+[-_]", last)
    return _Kind(folder, suffix, lang, posixpath.join(folder, word[0]) if word and word[0][:-1] == lang else "")


def _find_largest(files: Mapping[str, storage.FileId], names: Sequence[str]) -> storage.FileId:
    return max((files[name] for name in names), key=lambda pin: pin.size_bytes)


def _propose_source(
    kind: _Kind, names: Sequence[str], seen: Peek
) -> tuple[dict[str, Any], str, str, tuple[Guess, ...]] | str:
    """(keys of the source, its fields in words, what was decided and why, guesses), or why these files are left out."""
    decided = _find_format(kind, names, seen)
    if isinstance(decided, str):
        return decided
    keys, settings = decided
    format = settings.format
    if encoding := _find_encoding(seen, settings):
        keys["encoding"] = encoding
        settings = dataclasses.replace(settings, encoding=encoding)
    fields = find_fields(seen, settings)
    if format in ("csv", "tsv") and (delimiter := _find_delimiter(fields, settings)):
        keys["delimiter"] = delimiter
        settings = dataclasses.replace(settings, delimiter=delimiter)
        fields = find_fields(seen, settings)
    why: list[str] = []
    guessed: tuple[Guess, ...] = ()
    if format not in ("text", "warc"):
        fields = fill_values(seen, settings, fields)
        guesses = guess_fields(fields, "text")
        if not guesses:
            return (
                f"no field looks like text. {describe_fields(fields, settings)}"
                if fields
                else "its fields cannot be read"
            )
        text = guesses[0].name
        keys |= {} if text == "text" else {"text": text}
        guessed = () if guesses[0].is_sure else tuple(guesses)
        keys |= {"id": name} if (name := _find_id_field(fields, text)) else {}
    elif format == "text" and (length := seen.unfolded_bytes) >= _LONG_TEXT_BYTES:
        keys |= _find_unit(seen.head)
        why.append(
            f"{'unit' if 'unit' in keys else 'separator'}: the largest file has about {length / 1e6:.1f} MB of text"
        )
    if field := _find_lang_field(fields):
        keys["lang_field"] = field
    else:
        keys["lang"] = kind.lang or UNKNOWN_LANGUAGE
        if not kind.lang:
            why.append("lang: nothing tells the language, so name it here")
    return keys, describe_fields(fields, settings) if fields else "", "; ".join(why), guessed


def _find_format(kind: _Kind, names: Sequence[str], seen: Peek) -> tuple[dict[str, Any], ReadSettings] | str:
    """(keys that name the format, if the files' names do not; how to read them), or why these files are left out."""
    told = find_format(f"x{kind.suffix}") or (None, "none")
    format = told[0] or _CONTENT_FORMATS.get(seen.inner)
    if seen.stored == "empty":
        return "empty"
    if format is None:
        return f"{WORDS[seen.inner]}, of no known format"
    keys: dict[str, Any] = {} if told[0] else {"format": format}
    if format == "text" and seen.inner == "json lines" and seen.head.count(b"\n") > 1:
        keys["format"] = format = "jsonl"
    source = Source(lang=UNKNOWN_LANGUAGE, files=(names[0],), **keys)
    settings = make_read_settings(source, format, told[1])
    if wrong := describe_wrong_content(seen, settings):
        if (other := _CONTENT_FORMATS.get(seen.inner)) is None or "rename" in wrong or "write it" in wrong:
            return wrong
        keys["format"] = format = other
        settings = make_read_settings(Source(lang=UNKNOWN_LANGUAGE, files=(names[0],), **keys), format, told[1])
        if describe_wrong_content(seen, settings):
            return wrong
    return keys, settings


def _find_delimiter(fields: Sequence[Field], settings: ReadSettings) -> str:
    """What parts the fields, if they are read as a single one and its name holds another delimiter; else ""."""
    if len(fields) != 1:
        return ""
    return next((one for one in ";|\t," if one in fields[0].name and one != settings.delimiter), "")


def _find_encoding(seen: Peek, settings: ReadSettings) -> str:
    """The encoding that reading asks for; "" if UTF-8 will do."""
    if settings.format in (*COLUMN_FORMATS, "warc"):
        return ""
    try:
        batch = read_first_documents(seen, settings)
    except FileRejected as error:
        asked = _ENCODING.search(error.detail)
    else:
        details = [one.detail for one in batch.rejects if one.reason == "invalid_utf8"] if batch else []
        asked = _ENCODING.search(details[0]) if details else None
    return asked[1] if asked else ""


def _find_id_field(fields: Sequence[Field], text: str) -> str:
    """The field of ids: named like one, in each record sampled, and never twice."""
    for usual in _IDS:
        for field in fields:
            if (
                field.name.lower() == usual
                and field.name != text
                and len(set(map(str, field.values))) == len(field.values)
            ):
                most = max((len(one.values) for one in fields), default=0)
                if len(field.values) == most and (field.is_text or "number" in field.kind or "int" in field.kind):
                    return field.name
    return ""


def _find_lang_field(fields: Sequence[Field]) -> str:
    """The field of languages: named like one, and its values are codes."""
    name = next((one.name for one in guess_fields(fields, "lang")), "")
    found = next((field for field in fields if field.name == name), None)
    if found is None or not name.lower().split(".")[-1].startswith(("lang", "locale")):
        return ""
    return name if all(isinstance(value, str) and is_valid_lang(value) for value in found.values) else ""


def _find_unit(head: bytes) -> dict[str, str]:
    """What parts the documents of a long text file: two empty lines, else one, else each line is one."""
    text = head.replace(b"\r\n", b"\n")
    if text.count(b"\n\n\n") > 2 and b"\r\n" not in head:
        return {"separator": "\n\n\n"}
    return {"unit": "paragraph" if text.count(b"\n\n") > 2 else "line"}


def _find_patterns(names: Sequence[str], every: Sequence[str], starts: Mapping[str, str]) -> Iterator[str]:
    """Few globs that match these names and no other of every.

    starts: of a name whose start tells its language, that start. Files that come later are of this language only if
    theirs begin so, too.
    """
    wanted, left = set(names), sorted(names)
    others = [name for name in every if name not in wanted]
    while left:
        for pattern in _iterate_candidates(left[0], left, starts[left[0]]):
            matches = compile_glob(pattern).match
            if not any(matches(name) for name in others):
                yield pattern
                left = [name for name in left if not matches(name)]
                break


def _iterate_candidates(name: str, left: Sequence[str], start: str) -> Iterator[str]:
    """Globs that match a name, the widest first; the last one matches nothing else. start: see _find_patterns."""
    *folders, last = name.split("/")
    stem, suffix = posixpath.splitext(last)
    if (known := find_format(last)) is not None and known[1] != "none":
        stem, inner = posixpath.splitext(stem)
        suffix = inner + suffix
    folder = "".join(f"{quote(one)}/" for one in folders)
    if start and not start.endswith("/"):
        yield f"{quote(start)}*{quote(suffix)}"
        yield quote(name)
        return
    for depth in range(start.count("/"), len(folders) + 1):
        above = "".join(f"{quote(folder)}/" for folder in folders[:depth])
        plain = "".join(f"{folder}/" for folder in folders[:depth])
        below = [one for one in left if one.startswith(plain) and one.endswith(suffix)]
        if all("/" not in one.removeprefix(plain) for one in below):
            if len(below) > 1 or start:
                yield f"{above}*{quote(suffix)}"
        else:
            yield f"{above}**/*{quote(suffix)}"
    word = re.split(r"[-_.]", last)[0]
    if word != last and sum(one.startswith(f"{'/'.join([*folders, word])}") for one in left) > 1:
        yield f"{folder}{quote(word)}*{quote(suffix)}"
    yield quote(name)
