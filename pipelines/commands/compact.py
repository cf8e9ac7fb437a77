"""`tokcore compact`."""

from __future__ import annotations

import click

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.commands.command_inputs import (
    expand_path,
    make_absolute,
    print_json,
)
from tokcore_pipelines.commands.command_options import (
    DRY_RUN,
    JSON,
    WORKERS,
    command,
)


@command("tokcore compact out/first")
@click.argument("output")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@DRY_RUN
@WORKERS
@JSON
def compact(output: str, base: str, dry_run: bool, workers: int | None, as_json: bool) -> None:
    """Reads the inputs of parts with small shards again, into one part, and compares all documents by their digest.
    Ends with one commit; readers of earlier ones go on. `tokcore expire` gives the room of the small shards back.
    """
    from tokcore_pipelines.commands.print_log import print_compacted
    from tokcore_pipelines.history.compact_output import Compact
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

    url = make_absolute(output)
    done = Compact(url, expand_path(base), RunOptions(workers), StageProgress(), dry_run).run()
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        print_json({"dry_run": dry_run, **done._asdict(), "commit": commit})
    else:
        print_compacted(url, done, dry_run)
