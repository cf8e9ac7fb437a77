"""`tokcore repair`."""

from __future__ import annotations

import dataclasses
import sys

import click

from tokcore_pipelines.commands.command_inputs import (
    EXIT_PROBLEM,
    expand_path,
    make_absolute,
    print_json,
)
from tokcore_pipelines.commands.command_options import (
    AT_ANY,
    JSON,
    WORKERS,
    command,
)


@command("tokcore repair out/first")
@click.argument("output")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@AT_ANY
@WORKERS
@JSON
def repair(output: str, base: str, at: int | None, workers: int | None, as_json: bool) -> None:
    """Looks at the parts of all commits that can be read, or of the commit --at, and at all tokenizers. Makes them from
    the pinned inputs, and from what is left. A file is put in its place only if it has the bytes that were committed.
    Then verifies the output, without --decode. Exit code 1 if verify would find a problem: each is named, with what to
    do. Writes nothing while the build's manifest or the log is damaged.
    """
    from tokcore_pipelines.check.repair import repair as run
    from tokcore_pipelines.commands.print_reports import print_repaired
    from tokcore_pipelines.local.run_options import RunOptions

    report = run(make_absolute(output), expand_path(base), RunOptions(workers), at)
    print_json(dataclasses.asdict(report)) if as_json else print_repaired(report)
    if report.left:
        sys.exit(EXIT_PROBLEM)
