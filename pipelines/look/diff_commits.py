"""`tokcore diff A B --at N --with M`: what differs between two commits, of one output or of two.

A commit is compared as a whole: how its files are dealt into parts, and documents into shards, is no difference.
"""

from __future__ import annotations

from typing import Any

from tokcore.count.count_tables import open_counts
from tokcore.count.pretoken_tables import convert_table_to_rows
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.read_log import Log, locate_part, read_log
from tokcore_pipelines.history.input_files_held import read_held, strip_settings
from tokcore_pipelines.look.diff import Files, diff_by_key, diff_files, find_different_rows, make_pair
from tokcore_schemas.commit_log import CommitTotals, sum_up_part
from tokcore_schemas.stage_table import COUNTS


def diff_commits(one: str, other: str, at: int | None = None, other_at: int | None = None) -> dict[str, Any]:
    """Kind of difference -> what differs, as diff has it; empty if the commits hold the same.

    one, other: URLs of outputs. at, other_at: commits of them; None: the newest.
    Raises ConfigError if there is no such output or commit.
    """
    a, b = _Commit(one, at), _Commit(other, other_at)
    found: dict[str, Any] = {
        "inputs": diff_files(a.files, b.files),
        "totals": diff_by_key(to_jsonable(a.totals), to_jsonable(b.totals)),
        "tombstones": diff_by_key(a.count_tombstones(), b.count_tombstones()),
        "counts": _diff_counts(a, b),
        "tokenizer": make_pair(a.log.build.totals.fingerprint, b.log.build.totals.fingerprint),
        "root": make_pair(a.root, b.root),
    }
    for key in ("shards", "records"):  # which follow from the cut of parts, and from what was left out
        found["totals"].pop(key, None)
    return {kind: what for kind, what in found.items() if what}


class _Commit:
    """One of the two commits."""

    def __init__(self, output: str, at: int | None) -> None:
        self.output = output
        self.log: Log = read_log(output, at)
        self.number = self.log.newest if at is None else at
        held = read_held(output, self.log.parts(self.number))
        # Tombstones are part of how a file is read, and have a line of their own.
        self.files: Files = {uri: (one.file, strip_settings(one.settings)) for uri, one in held.items()}
        commit = self.log.commits[self.number - 1] if self.number else None
        self.root = commit.root if commit is not None else self.log.build.root
        self.totals: CommitTotals = commit.totals if commit is not None else sum_up_part(self.log.build)

    def languages(self) -> set[str]:
        """Those that were counted; none where nothing was."""
        made = [find_manifest(locate_part(self.output, part), COUNTS) for part in self.log.parts(self.number)]
        return {lang for one in made if one is not None for lang in one.languages}

    def count_tombstones(self) -> dict[str, int]:
        """How many names were removed up to the commit."""
        removed = self.log.tombstones(self.number)
        return {"number": len(removed.hashes) if removed is not None else 0}


def _diff_counts(a: _Commit, b: _Commit) -> dict[str, Any]:
    """Language -> how many rows differ, and examples: [pre-token, count in a, count in b]."""
    found = {}
    of_a, of_b = a.languages(), b.languages()
    for lang in sorted(of_a | of_b if of_a and of_b else ()):
        rows = [
            iter([convert_table_to_rows(open_counts(side.output, lang, at=side.number))] if lang in there else [])
            for side, there in ((a, of_a), (b, of_b))
        ]
        number, examples = find_different_rows(*rows)
        if number:
            found[lang] = {"different_rows": number, "examples": examples}
    return found
