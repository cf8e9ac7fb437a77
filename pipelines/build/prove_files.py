"""Files that are cut and can be rejected whole: all ranges of one count, or none.

A file that does not prove its end is rejected. Where one worker reads all of it, that worker sees the end before it
gives out a document. Where many do, each range is read once before anything is counted or encoded, and all that read
the file later are told whether a range failed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator

from tokcore_pipelines.build.file_rejections import list_cut_files
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.run.task import Executor, Step, do_steps, name_by_number
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.item_results import read_records
from tokcore_pipelines.work.prove_range import make_proved_key, prove_range
from tokcore_schemas.plan import InputFile, Plan, ReadSettings, Rejection
from tokcore_schemas.refs import RangeProved, RangeToProve


def prove_files(
    executor: Executor,
    plan: Plan,
    attempts: Attempts,
    base: str,
    progress: StageProgress,
    before: Plan | None = None,
) -> Plan:
    """Read all ranges of such files; the plan whose ranges know which files are rejected.

    attempts: of the stage that reads the documents next, where records of ranges are kept. base: folder of the build
    file. before: a plan that knows; what it says of the same file holds, and its ranges are not read.
    """
    cut = list_cut_files(plan)
    if not cut:
        return plan
    known = {file.uri: (file, before, number) for number, file in list_cut_files(before)} if before is not None else {}
    rejections: dict[int, Rejection] = {}
    left: set[int] = set()
    for number, file in cut:
        settings = plan.settings[file.settings]
        if settings.decoded_from:
            continue  # its documents are in shards, and were accepted
        told = known.get(file.uri)
        if told is None or _describe(file, settings) != _describe(told[0], told[1].settings[told[0].settings]):
            left.add(number)
        elif (why := told[1].rejections.get(told[2])) is not None:
            rejections[number] = why
    pieces = [*_list_pieces(plan, left)]
    total = sum(piece.range.stored_bytes for piece in pieces)
    with progress.stage("prove", total, minor=not pieces) as shown:
        proved = do_steps(executor, _list_steps(pieces, attempts, base), attempts, shown.report)
    for one in proved:  # by file and place: a reader of the whole file would have met the first of a file
        if one.rejection is not None:
            rejections.setdefault(one.file, one.rejection)
    return dataclasses.replace(plan, rejections=rejections)


def _describe(file: InputFile, settings: ReadSettings) -> tuple[object, ...]:
    """What decides whether ranges of a file are sound."""
    read = dataclasses.replace(settings, removed=None, decoded_from="", as_before=False)
    return file.size_bytes, file.version, file.cuts, read


def _list_pieces(plan: Plan, numbers: set[int]) -> Iterator[RangeToProve]:
    """The ranges of these files, by file and place.

    Their numbers are among the ranges of all files with cuts: they name records, and a build that goes on may know of
    other files than before.
    """
    ranges = (r for item in plan.items for r in plan.assignment(item).ranges if r.extent)
    for number, r in enumerate(sorted(ranges, key=lambda r: (r.file, r.start))):
        if r.file in numbers:
            yield RangeToProve(number, r)


def _list_steps(pieces: list[RangeToProve], attempts: Attempts, base: str) -> Generator[Step, bool, list[RangeProved]]:
    yield Step("prove", prove_range, (attempts, base), pieces, name_by_number(make_proved_key))
    return read_records(attempts, (make_proved_key(piece.number) for piece in pieces), RangeProved)
