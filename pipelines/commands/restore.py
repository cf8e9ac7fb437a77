"""`tokcore restore`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.commands.answers import show_progress
from tokcore_pipelines.commands.command_options import ALLOW_CODE, BY, DRY_RUN, JSON, REASON, command
from tokcore_pipelines.commands.print_commits import NOTHING_DONE, answer_done, print_commit
from tokcore_pipelines.history.named_ids import read_ids
from tokcore_pipelines.history.restore_documents import Restore, Restored
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, make_printable
from tokcore_pipelines.store.redaction import redact


@command("tokcore restore out/first --lang xx", "tokcore restore out/first --ids back.txt --dry-run")
@click.argument("output")
@click.option("--ids", metavar="FILE", help="Take back what keeps away the documents of these ids, a line each.")
@click.option("--source", "sources", multiple=True, metavar="GLOB", help="The same of these input files. Repeatable.")
@click.option("--lang", "langs", multiple=True, metavar="XX", help="The same of this language. Repeatable.")
@click.option("--allow-missing", is_flag=True, help="Accept names that were never removed.")
@REASON
@BY
@DRY_RUN
@ALLOW_CODE
@JSON
def restore(
    output: str,
    ids: str | None,
    sources: tuple[str, ...],
    langs: tuple[str, ...],
    allow_missing: bool,
    reason: str,
    by: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Ends with one commit, after which no commit leaves such documents out. It reads nothing: it names the input files
    that lack documents, and the next `tokcore update`, or a watcher, reads these again. What was removed with --final
    stays away.
    """
    if ids is None and not sources and not langs:
        raise click.UsageError("what is to be restored? Name it: --ids FILE, --source GLOB or --lang XX")
    url = make_absolute(output)
    chosen = read_ids(expand_path(ids)) if ids is not None else ()
    with show_progress("restore"):
        done = Restore(url, chosen, langs, sources, allow_missing, dry_run, reason, by).run()
    answer_done(url, done, dry_run, as_json, print_restored)


_MOST_FILES = 10


def print_restored(output: str, done: Restored, dry_run: bool = False) -> None:
    """Print what a restoration did, or would do."""
    for name in done.missing:
        say(f"{make_printable(name)!r} was never removed")
    if not done.names:
        say(f"{redact(output)}: nothing to restore")
        return
    if done.commit is not None:
        print_commit(output, done.commit)
    else:
        say(f"would take {format_count(done.names, 'tombstone')} back. {NOTHING_DONE}")
    for uris, what in ((done.files, "as new"), (done.read_again, "again, since documents of theirs are missing")):
        if uris:
            more = f" and {len(uris) - _MOST_FILES:,} more" if len(uris) > _MOST_FILES else ""
            shown = ", ".join(make_printable(redact(uri)) for uri in uris[:_MOST_FILES])
            say(f"the next `tokcore update` reads {what}: {shown}{more}")
