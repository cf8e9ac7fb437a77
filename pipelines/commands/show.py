"""`tokcore show`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.commit import find_manifest, find_manifests
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.read_log import is_updated
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import ALL, JSON, command
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.local.terminal import (
    MOST_ROWS,
    format_count,
    format_number,
    format_size,
    format_table,
    make_printable,
)
from tokcore_pipelines.look.show import (
    ListedShards,
    find_stage,
    list_shards,
    list_shards_at,
    names_a_shard,
)
from tokcore_pipelines.store import urls
from tokcore_schemas.commit_log import PARTS
from tokcore_schemas.stage_manifests import TokenizerTotals
from tokcore_schemas.stage_table import SHARDS, STAGES, TOKENIZER, TOKENIZERS


@command(
    "tokcore show out/first",
    "tokcore show out/first --at 3",
    "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow",
    "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow:7 --all",
)
@click.argument("what", metavar="OUTPUT|SHARD[:N]")
@click.option("--tokenizer", "path", default="", help="Tokenizer that wrote the shard; default: that of its output.")
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="COMMIT",
    help="The shards of all parts of this commit; default: the newest.",
)
@ALL
@JSON
def show(what: str, path: str, at: int | None, show_all: bool, as_json: bool) -> None:
    """For document N, counted from 0, shows the text beside the tokens, as much as fits on a screen."""
    url = make_absolute(what)
    is_shard = names_a_shard(url)
    follows = at is not None or (not is_shard and is_updated(url))
    if not follows and (is_shard or url.rpartition(":")[2].isdecimal()):
        _show_shard(url, path, show_all, as_json)
        return
    most = None if show_all or as_json else MOST_ROWS
    with show_progress("show"):
        if follows:
            # Loads what reads tables of counts. The shards of a build are listed by its manifests alone.
            from tokcore_pipelines.build.output import read_output

            output = read_output(url, at)
            at, listed = output.at, list_shards_at(output, most)
        else:
            listed = list_shards(url, most)
    say_json(listed.shards) if as_json else print_shards(url, listed, at)


def _show_shard(url: str, path: str, show_all: bool, as_json: bool) -> None:
    """Show a shard's header; at SHARD:N a document, decoded by the tokenizer at path, if one is named."""
    # Loads all formats and models, which a list of shards does not need.
    from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
    from tokcore_pipelines.commands.print_document import print_described, print_document
    from tokcore_pipelines.look.show_document import describe_shard, read_document

    name, _, row = url.rpartition(":")
    if name and row.isdecimal():
        document = read_document(name, int(row), load_tokenizer(path) if path else None)
        say_json(document.as_json()) if as_json else print_document(document, show_all)
    else:
        answer(describe_shard(url), as_json, print_described)


def print_shards(output: str, listed: ListedShards, at: int | None = None) -> None:
    """Print a line for each shard that is listed, and what all hold. at: the commit that they are of."""
    output, stage = find_stage(output)
    nouns = stage.nouns
    shown = listed.shards
    rows = [
        [
            make_printable(one["shard"]),
            format_number(one["documents"]),
            format_number(one["tokens"]),
            format_size(one["size_bytes"]),
        ]
        for one in shown
    ]
    say(*format_table(["shard", nouns, "tokens", "stored"], rows))
    if len(shown) < listed.number:
        say(f"and {listed.number - len(shown):,} more (--all shows all)")
    _print_partitions(listed, nouns)
    place = urls.join(output, stage.name) if at is None else f"commit {at} of {output}"
    number, held = format_count(listed.number, "shard"), format_count(listed.documents, nouns[:-1])
    say("", f"{number} in {place}: {held}, {format_count(listed.tokens, 'token')}")
    if (own := find_manifest(output, TOKENIZER)) is not None:
        say(_describe_tokenizer(own.totals))
    derived = find_manifests(output, (one for one in STAGES.values() if one.is_derived))
    if stage.name in derived:
        # Loads what makes stages: only where a stage has more to tell.
        from tokcore_pipelines.build.table import WORK

        if (tell := WORK[stage.name].show) is not None:
            say(*tell(derived[stage.name]))
    for name in derived:
        if stage.name in STAGES[name].find_inputs({SHARDS.name, *derived}):
            say(f"Their documents are {STAGES[name].done}, too:", f"  tokcore show {urls.join(output, name)}")
    if own is not None and (several := find_manifest(output, TOKENIZERS)) is not None:
        say("", f"tokenizers in {urls.join(output, TOKENIZERS.name)}:")
        for size, one in several.totals.list_ascending():
            say(f"  {size:>12,}  {one.fingerprint}{'  wrote the shards' if one == own.totals else ''}")
    if shown:
        first = shown[0]["files"][0]
        name = urls.join(output, first) if first.startswith(f"{PARTS}/") else urls.join(output, stage.name, first)
        say("The text and tokens of a document:", f"  tokcore show {name}:0")


def _print_partitions(listed: ListedShards, nouns: str) -> None:
    """Print a line for each of the largest partitions, if shards are kept apart by these."""
    if not listed.partitions:
        return
    largest = sorted(listed.partitions.items(), key=lambda item: (-item[1].tokens, item[0]))[:MOST_ROWS]
    rows = [
        [
            make_printable(name),
            *map(format_number, (one.shards, one.documents, one.tokens)),
            format_size(one.size_bytes),
        ]
        for name, one in largest
    ]
    say("", *format_table(["partition", "shards", nouns, "tokens", "stored"], rows))
    if len(largest) < len(listed.partitions):
        say(f"and {len(listed.partitions) - len(largest):,} more (--json has all shards)")


def _describe_tokenizer(totals: TokenizerTotals) -> str:
    """A tokenizer in one line."""
    lossy = "; lossless = false: decoding does not always give back the text" if totals.lossless is False else ""
    return f"tokenizer {totals.fingerprint[:12]}: {format_count(totals.vocab_size, 'token')}{lossy}"
