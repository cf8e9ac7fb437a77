"""`tokcore remove`."""

from __future__ import annotations

import click

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.commands.command_inputs import (
    expand_path,
    make_absolute,
    print_json,
    read_lines,
)
from tokcore_pipelines.commands.command_options import (
    DRY_RUN,
    JSON,
    WORKERS,
    command,
)


@command(
    "tokcore remove out/first --ids takedown.txt",
    "tokcore remove out/first --source 'crawl/2024-*.jsonl' --lang xx",
    "tokcore remove out/first --lang xx --dry-run",
)
@click.argument("output")
@click.option("--ids", metavar="FILE", help="Remove the documents of these ids, a line each.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="GLOB",
    help="Remove the documents of these input files, named as the build file does; without / by name. Repeatable.",
)
@click.option("--lang", "langs", multiple=True, metavar="XX", help="Remove the documents of this language. Repeatable.")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@click.option("--allow-missing", is_flag=True, help="Accept names that nothing has, to keep later documents away.")
@DRY_RUN
@WORKERS
@JSON
def remove(
    output: str,
    ids: str | None,
    sources: tuple[str, ...],
    langs: tuple[str, ...],
    base: str,
    allow_missing: bool,
    dry_run: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Makes the parts that hold them again from their pinned inputs, without them, and ends with one commit. It keeps a
    keyed hash of each name, so that no later commit brings a document back. Earlier commits still hold the documents:
    `tokcore verify --removed` names these. --source goes by the names of files: if one is renamed, its documents come
    back. Use --ids where documents must stay away whatever their file is called. `tokcore restore` takes it back.
    """
    from tokcore_pipelines.commands.print_log import print_removed
    from tokcore_pipelines.history.remove_documents import Remove
    from tokcore_pipelines.local.progress import StageProgress
    from tokcore_pipelines.local.run_options import RunOptions

    if ids is None and not sources and not langs:
        raise click.UsageError("what is to be removed? Name it: --ids FILE, --source GLOB or --lang XX")
    url = make_absolute(output)
    chosen = tuple(read_lines(ids)) if ids is not None else ()
    done = Remove(
        url,
        chosen,
        langs,
        sources,
        expand_path(base),
        RunOptions(workers),
        StageProgress(),
        allow_missing=allow_missing,
        dry_run=dry_run,
    ).run()
    if as_json:
        commit = to_jsonable(done.commit) if done.commit is not None else None
        more = {name: getattr(done, name) for name in ("unknown", "documents", "parts", "read_again")}
        print_json({"dry_run": dry_run, "commit": commit, **more})
    else:
        print_removed(url, done, dry_run)
