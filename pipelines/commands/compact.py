"""`tokcore compact`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.commands.command_options import ALLOW_CODE, BASE, DRY_RUN, JSON, WORKERS, command
from tokcore_pipelines.commands.print_commits import NOTHING_DONE, answer_done, print_commit
from tokcore_pipelines.history.compact_output import Compact, Compacted
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store.redaction import redact


@command("tokcore compact out/first")
@click.argument("output")
@BASE
@DRY_RUN
@WORKERS
@ALLOW_CODE
@JSON
def compact(output: str, base: str, dry_run: bool, workers: int | None, as_json: bool) -> None:
    """Reads the inputs of parts with small shards again, into one part, and compares all documents by their digest.
    Ends with one commit; readers of earlier ones go on. `tokcore expire` gives the room of the small shards back.
    """
    url = make_absolute(output)
    done = Compact(url, expand_path(base), RunOptions(workers), StageProgress(), dry_run).run()
    answer_done(url, done, dry_run, as_json, print_compacted)


def print_compacted(output: str, done: Compacted, dry_run: bool = False) -> None:
    """Print what a compaction did, or would do."""
    if dry_run and done.parts:
        say(
            f"would make one part of {done.parts:,} with {format_count(done.shards_before, 'shard')}, and read "
            f"{format_count(done.files, 'input file')} again for that. {NOTHING_DONE}"
        )
        return
    if done.commit is None:
        verb = "stays as it is" if done.shards_before == 1 else "stay as they are"
        say(f"{redact(output)}: nothing to gain: {format_count(done.shards_before, 'small shard')} {verb}")
        return
    say(f"{format_count(done.shards_before, 'shard')} became {done.shards_after:,}")
    print_commit(output, done.commit)
