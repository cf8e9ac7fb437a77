"""`tokcore restore`."""

from __future__ import annotations

import click

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.commands.command_inputs import (
    make_absolute,
    print_json,
    read_lines,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    DRY_RUN,
    JSON,
    command,
)


@command("tokcore restore out/first --lang xx", "tokcore restore out/first --ids back.txt --dry-run")
@click.argument("output")
@click.option("--ids", metavar="FILE", help="Take back what keeps away the documents of these ids, a line each.")
@click.option("--source", "sources", multiple=True, metavar="GLOB", help="The same of these input files. Repeatable.")
@click.option("--lang", "langs", multiple=True, metavar="XX", help="The same of this language. Repeatable.")
@click.option("--allow-missing", is_flag=True, help="Accept names that were never removed.")
@DRY_RUN
@JSON
def restore(
    output: str,
    ids: str | None,
    sources: tuple[str, ...],
    langs: tuple[str, ...],
    allow_missing: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Ends with one commit, after which no commit leaves such documents out. It reads nothing: it names the input files
    that lack documents, and the next `tokcore update`, or a watcher, reads these again.
    """
    from tokcore_pipelines.commands.print_log import print_restored
    from tokcore_pipelines.history.restore_documents import Restore

    if ids is None and not sources and not langs:
        raise click.UsageError("what is to be restored? Name it: --ids FILE, --source GLOB or --lang XX")
    url = make_absolute(output)
    chosen = tuple(read_lines(ids)) if ids is not None else ()
    with show_progress("restore"):
        done = Restore(url, chosen, langs, sources, allow_missing, dry_run).run()
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        print_json({"dry_run": dry_run, **done._asdict(), "commit": commit})
    else:
        print_restored(url, done, dry_run)
