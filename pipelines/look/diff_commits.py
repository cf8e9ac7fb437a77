"""`tokcore diff A B --at N --with M`: what differs between two commits, of one output or of two.

A commit is compared as a whole: how its files are dealt into parts, and documents into shards, is no difference.
"""

from __future__ import annotations

from typing import Any

from tokcore.count.count_tables import open_counts
from tokcore.count.pretoken_tables import convert_table_to_rows
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.history.input_files_held import read_held, strip_settings
from tokcore_pipelines.look.diff import (
    Files,
    diff_by_key,
    diff_derived,
    diff_files,
    find_both,
    find_different_rows,
    make_pair,
)
from tokcore_schemas.stage_table import COUNTS, STAGES


def diff_commits(one: Output, other: Output) -> dict[str, Any]:
    """Kind of difference -> what differs, as diff has it; empty if the commits hold the same.

    Raises ConfigError if one of the outputs is not finished.
    """
    a, b = one.log, other.log
    found: dict[str, Any] = {
        "inputs": diff_files(_list_files(one), _list_files(other)),
        "totals": diff_by_key(*(to_jsonable(side.log.totals(side.number)) for side in (one, other))),
        "tombstones": diff_by_key(_count_tombstones(one), _count_tombstones(other)),
        "counts": _diff_counts(one, other),
        **_diff_derived(one, other),
        "tokenizer": make_pair(a.build.totals.fingerprint, b.build.totals.fingerprint),
        "root": make_pair(a.root(one.number), b.root(other.number)),
    }
    for key in ("shards", "records"):  # which follow from the cut of parts, and from what was left out
        found["totals"].pop(key, None)
    return {kind: what for kind, what in found.items() if what}


def _list_files(output: Output) -> Files:
    """Tombstones are part of how a file is read, and have a line of their own."""
    held = read_held(output.url, output.named)
    return {uri: (one.file, strip_settings(one.settings)) for uri, one in held.items()}


def _count_tombstones(output: Output) -> dict[str, int]:
    """How many names were removed up to the commit."""
    removed = output.log.tombstones(output.number)
    return {"number": removed.num if removed is not None else 0}


def _diff_derived(a: Output, b: Output) -> dict[str, Any]:
    """Numbers and shards of mixture and rows, which follow from all documents, and so are in one part."""
    found: dict[str, Any] = {}
    for stage in (one for one in STAGES.values() if one.is_derived):
        made = [next(filter(None, (part.find(stage) for part in side.parts)), None) for side in (a, b)]
        if (both := find_both(*made)) is not None:
            numbers = ({key: of for key, of in to_jsonable(one.totals).items() if isinstance(of, int)} for one in both)
            found[stage.name] = {**diff_by_key(*numbers), **diff_derived(a, b, *both)[stage.name]}
        elif made[0] is None or made[1] is None:
            only = found.setdefault("stages", {"only_a": [], "only_b": []})
            for key, one in zip(only, made, strict=True):
                only[key] += [stage.name] if one is not None else []
    return {kind: what for kind, what in found.items() if any(what.values())}


def _list_languages(output: Output) -> set[str]:
    """Those that were counted; none where nothing was."""
    return {lang for part in output.parts if (made := part.find(COUNTS)) is not None for lang in made.languages}


def _diff_counts(a: Output, b: Output) -> dict[str, Any]:
    """Language -> how many rows differ, and examples: [pre-token, count in a, count in b]."""
    found = {}
    of_a, of_b = _list_languages(a), _list_languages(b)
    for lang in sorted(of_a | of_b if of_a and of_b else ()):
        rows = [
            iter([convert_table_to_rows(open_counts(side.url, lang, at=side.number))] if lang in there else [])
            for side, there in ((a, of_a), (b, of_b))
        ]
        number, examples = find_different_rows(*rows)
        if number:
            found[lang] = {"different_rows": number, "examples": examples}
    return found
