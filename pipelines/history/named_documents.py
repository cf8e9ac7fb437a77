"""What `tokcore remove` and `restore` are given: names of documents, languages and input files, and what has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.shards.tombstones import Kind
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.store.patterns import compile_glob
from tokcore_pipelines.store.pinned_inputs import read_pinned_files
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.document import normalize_lang

MOST_NAMED = 3
_KINDS = {"id": "the id", "lang": "the language", "source": "the input file"}


def match_files(pattern: str, uris: Iterable[str]) -> list[str]:
    """The uris that a glob matches, or that are just it; one without / matches names in any folder."""
    glob, is_name = compile_glob(pattern), "/" not in pattern
    names = {uri: uri.rsplit("/", 1)[-1] if is_name else uri for uri in uris}
    return [uri for uri, name in names.items() if name == pattern or glob.match(name)]


def match_sources(log: Log, patterns: Sequence[str]) -> dict[str, list[str]]:
    """Glob -> the uris that it matches, of all input files of an output. Reads nothing if there is no glob."""
    if not patterns:
        return {}
    uris = {file.uri for part in log.reachable() for file in read_pinned_files(locate_part(log.output, part))}
    return {pattern: match_files(pattern, sorted(uris)) for pattern in patterns}


def find_lang(name: str, languages: Collection[str], removed: TombstoneLookup | None) -> list[str]:
    """The language that is meant: the name, or as BCP 47 spells it; none if neither is there nor was removed."""
    for lang in (name, normalize_lang(name)):
        if lang in languages or (removed is not None and removed.has("lang", lang)):
            return [lang]
    return []


def describe_missing(missing: Sequence[tuple[Kind, str]], num: int = 0) -> str:
    """The first names that nothing has, for an error: `the id 'a-1', the language 'en2' and 3 more`.

    num: of all, if missing are not.
    """
    num = max(num, len(missing))
    shown = ", ".join(f"{_KINDS[kind]} {redact(name)!r}" for kind, name in missing[:MOST_NAMED])
    return f"{shown} and {num - MOST_NAMED:,} more" if num > MOST_NAMED else shown
