"""Which files are rejected whole, of those whose ranges several workers read: as an output's rejected/ says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tokcore_pipelines.build.ledger import PlacedReject
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.json_lines import read_lines
from tokcore_schemas.plan import InputFile, Plan, Rejection
from tokcore_schemas.stage_table import REJECTED

REJECTS = "rejected.jsonl"


def list_cut_files(plan: Plan) -> list[tuple[int, InputFile]]:
    """The files of which it is proved first that all their ranges are sound: number and file."""
    return [(number, file) for number, file in enumerate(plan.files) if file.cuts]


def with_rejections(plan: Plan, output: str) -> Plan:
    """The plan whose ranges know which of these files are rejected, beside those that they know of already.

    output: that has committed what was rejected. Raises FormatError if what it says cannot be read.
    """
    numbers = {file.uri: number for number, file in list_cut_files(plan)}
    if not numbers:
        return plan
    rejects: Iterable[PlacedReject] = read_lines(urls.join(output, REJECTED.name, REJECTS), PlacedReject)
    found = {
        numbers[one.file]: Rejection(one.reason, one.detail)
        for one in rejects
        if one.record is None and one.file in numbers
    }
    return dataclasses.replace(plan, rejections={**plan.rejections, **found})
