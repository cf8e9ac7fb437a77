"""The receipt of test items: which were found in documents, in how many and in which, out of the ledgers of files."""

from __future__ import annotations

from collections.abc import Iterable

from tokcore.files.canonical_json import write_canonical_lines
from tokcore_pipelines.build.ledger import FileLedger
from tokcore_schemas.plan import Plan

OVERLAPS = "overlaps.jsonl"


def has_overlaps(plan: Plan) -> bool:
    """Whether documents of a plan are compared with test items."""
    return any(rule.overlap is not None for settings in plan.settings for rule in settings.filters)


def write_overlaps(plan: Plan, files: Iterable[FileLedger]) -> bytes:
    """A line for each test item that was found, in the order of rules, files and items.

    A document stands under the first rule that it fails, and there under all items that it shares a run of words with.
    """
    files_of = {
        rule.name: rule.overlap.files
        for settings in plan.settings
        for rule in settings.filters
        if rule.overlap is not None
    }
    found: dict[tuple[str, int, int], list[dict[str, object]]] = {}
    for file in files:
        for one in file.overlaps:
            for number, record in one.items:
                found.setdefault((one.rule, number, record), []).append({"file": file.uri, "record": one.record})
    order = {name: number for number, name in enumerate(files_of)}
    return write_canonical_lines(
        {
            "rule": rule,
            "file": files_of[rule][number].uri,
            "record": record,
            "documents": len(documents),
            "dropped": documents,
        }
        for (rule, number, record), documents in sorted(found.items(), key=lambda one: (order[one[0][0]], one[0][1:]))
    )
