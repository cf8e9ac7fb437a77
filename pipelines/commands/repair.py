"""`tokcore repair`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.check.repair import Repaired
from tokcore_pipelines.check.repair import repair as run
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import ALLOW_CODE, AT_ANY, BASE, JSON, WORKERS, command
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, make_printable


@command("tokcore repair out/first")
@click.argument("output")
@BASE
@AT_ANY
@WORKERS
@ALLOW_CODE
@JSON
def repair(output: str, base: str, at: int | None, workers: int | None, as_json: bool) -> None:
    """Looks at the parts of all commits that can be read, or of the commit --at, and at all tokenizers. Makes them from
    the pinned inputs, and from what is left. A file is put in its place only if it has the bytes that were committed.
    Then verifies the output, without --decode. Exit code 1 if verify would find a problem: each is named, with what to
    do. Writes nothing while the build's manifest or the log is damaged.
    """
    report = run(make_absolute(output), expand_path(base), RunOptions(workers), at)
    answer(report, as_json, print_repaired, report.left)


def print_repaired(report: Repaired) -> None:
    """Print the report of `tokcore repair`."""
    for path in report.repaired:
        say(f"repaired {make_printable(path)}")
    for reason in report.left:
        say(f"damaged  {make_printable(reason)}")
    if not report.repaired and not report.left:
        say("nothing to repair")
    looked_at = format_count(report.num_files, "file")
    say(f"{looked_at} looked at, {len(report.repaired)} repaired, {len(report.left)} still damaged")
