"""`tokcore remove`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import expand_path, make_absolute
from tokcore_pipelines.commands.command_options import ALLOW_CODE, BASE, BY, DRY_RUN, JSON, REASON, WORKERS, command
from tokcore_pipelines.commands.print_commits import NOTHING_DONE, answer_done, print_commit
from tokcore_pipelines.history.named_ids import read_ids
from tokcore_pipelines.history.removal_cost import RemovalCost
from tokcore_pipelines.history.remove_documents import Remove, Removed
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, format_number, format_size
from tokcore_pipelines.store.redaction import redact


@command(
    "tokcore remove out/first --ids takedown.txt",
    "tokcore remove out/first --source 'crawl/2024-*.jsonl' --lang xx",
    "tokcore remove out/first --lang xx --dry-run",
    "tokcore remove out/first --ids copies.txt --this-copy",
)
@click.argument("output")
@click.option("--ids", metavar="FILE", help="Remove the documents of these ids, a line each; any number.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="GLOB",
    help="Remove the documents of these input files, named as the build file does; without / by name. Repeatable.",
)
@click.option("--lang", "langs", multiple=True, metavar="XX", help="Remove the documents of this language. Repeatable.")
@click.option(
    "--this-copy", is_flag=True, help="With [dedup]: only these go; the next one of equal documents comes back."
)
@BASE
@click.option("--allow-missing", is_flag=True, help="Accept names that nothing has, to keep later documents away.")
@click.option("--final", is_flag=True, help="Let nothing take it back: `tokcore restore` then refuses these names.")
@REASON
@BY
@click.option("--keep-weights", is_flag=True, help="Let documents come in a mixture as often as they did.")
@click.option(
    "--in-place-rows",
    is_flag=True,
    help="With [pack]: rows keep number and length, with masked padding where they were.",
)
@DRY_RUN
@WORKERS
@ALLOW_CODE
@JSON
def remove(
    output: str,
    ids: str | None,
    sources: tuple[str, ...],
    langs: tuple[str, ...],
    this_copy: bool,
    base: str,
    allow_missing: bool,
    final: bool,
    reason: str,
    by: str,
    keep_weights: bool,
    in_place_rows: bool,
    dry_run: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Makes the parts that hold them again from their pinned inputs, without them, and ends with one commit. It keeps a
    keyed hash of each name, so that no later commit brings a document back. Earlier commits still hold the documents:
    `tokcore verify --removed` names these. From an output with [dedup], all documents go that are equal to a removed
    one. --source goes by the names of files: if one is renamed, its documents come back. Use --ids where documents must
    stay away whatever their file is called. `tokcore restore` takes it back, but not what was removed with --final.
    With --in-place-rows, a training run goes on over the packed rows: their number, order and length stay, and the ids
    of removed documents are padding, which the Loader masks in the loss.
    """
    if ids is None and not sources and not langs:
        raise click.UsageError("what is to be removed? Name it: --ids FILE, --source GLOB or --lang XX")
    url = make_absolute(output)
    chosen = read_ids(expand_path(ids)) if ids is not None else ()
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
        this_copy=this_copy,
        final=final,
        reason=reason,
        by=by,
        keep_weights=keep_weights,
        in_place_rows=in_place_rows,
    ).run()
    names = ("unknown", "documents", "parts", "read_again", *(("cost",) if dry_run else ()))
    answer_done(url, done, dry_run, as_json, print_removed, names)


def print_removed(output: str, done: Removed, dry_run: bool = False) -> None:
    """Print what a removal did, or would do."""
    for pattern in done.unmatched:
        say(f"{redact(output)}: no input file that it has now matches {pattern!r}")
    if done.unknown:
        verb, them = ("is", "it") if done.unknown == 1 else ("are", "them")
        say(f"{done.unknown:,} of the names {verb} of no document; later commits leave {them} out, too")
    if done.rejects:
        said = "an id; its part holds" if done.rejects == 1 else "ids; their parts hold"
        say(f"{format_count(done.rejects, 'reject')} quoted {said} no samples of rejects now")
    if dry_run:
        if done.cost is not None:
            _print_cost(done.cost, done.in_place_rows)
        say(
            f"would remove {format_count(done.documents, 'document')}, make {format_count(done.parts, 'part')} again, "
            f"and read {format_count(done.read_again, 'input file')} for that. {NOTHING_DONE}"
        )
        return
    if done.commit is None:
        why = ": all of it was removed before" if done.names else ""
        say(f"{redact(output)}: nothing to remove{why}")
        return
    print_commit(output, done.commit)
    if done.commit.why.vanished:
        say("if a file is renamed, its documents come back: --ids keeps documents away whatever their file")


def _print_cost(cost: RemovalCost, in_place_rows: bool) -> None:
    """Print what holds the documents that would go, and what it would cost to make the rest again."""
    say(f"they have {format_count(cost.tokens, 'token')}, in {format_count(cost.shards, 'shard')}")
    if cost.mixed_documents:
        say(
            f"in the mixture they are {format_count(cost.mixed_documents, 'document')}, in "
            f"{format_count(cost.mixed_shards, 'shard')}"
        )
    if cost.moves_weights:
        say("its weights follow from sizes, so other documents move, too: --keep-weights lets them come as they do")
    if cost.rows:
        of = f"{format_number(cost.rows)} of {format_count(cost.all_rows, 'row')}"
        then = f"; at most {format_count(cost.rows_again, 'row')} would change" if cost.rows_again else ""
        in_place = (
            f": {format_count(cost.row_tokens, 'id')} would become padding, in at most "
            f"{format_count(cost.rows, 'step')} of a run"
        )
        say(f"in packed form they are in {of}{in_place if in_place_rows else then}")
    again, num = cost.shards_again, cost.shards_in_all
    beside = (("the mixture", cost.mixed_documents), ("rows", cost.all_rows))
    told = " and ".join(name for name, num_of in beside if num_of)
    counted = f", with those of {told}" if told else ""
    say(f"would make again at most {again:,} of {format_count(num, 'shard')}{counted}")
    took = f", about {format_number(cost.cpu_seconds)} s of CPU time" if cost.cpu_seconds is not None else ""
    say(f"{format_size(cost.read_bytes)} of input would be read again{took}")
