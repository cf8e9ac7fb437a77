"""`tokcore vocab-map`."""

from __future__ import annotations

import functools

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import JSON, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer, split_pattern
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.vocab_map import Mapped, write_for_mergekit, write_vocab_map
from tokcore_pipelines.store import storage


@command(
    "tokcore vocab-map cl100k_base.tiktoken out/first -o map.parquet",
    "tokcore vocab-map old.json out/first --counts out/first -o map.parquet",
    "tokcore vocab-map models/old out/first/tokenizer -o mergekit.yml",
)
@click.argument("old")
@click.argument("new")
@click.option("-o", "target", required=True, metavar="FILE", help="The file to write: Parquet, or .yml for mergekit.")
@click.option("--counts", metavar="OUTPUT", help="Its count tables say how often a token occurs, in each language.")
@JSON
def vocab_map(old: str, new: str, target: str, counts: str | None, as_json: bool) -> None:
    """A row for each token of NEW: id, token, role, old_ids, is_same, counts. old_ids are the tokens of OLD that spell
    it; of a special token, that of the same text or role. A rank file may have its pattern before it: gpt2@FILE.

    FILE.yml has the part `tokenizer` of a configuration of mergekit: which old embedding is that of a new token, where
    names alone do not say it. OLD is then the folder of the model.
    """
    (before, old), (after, new) = split_pattern(old), split_pattern(new)
    is_for_mergekit = target.endswith((".yml", ".yaml"))
    if is_for_mergekit and counts is not None:
        raise ConfigError("--counts: mergekit has no place for them. Leave it out, or name a .parquet file.")
    with show_progress("map"):
        tokenizers = load_tokenizer(old, before), load_tokenizer(new, after)
        if is_for_mergekit:
            report = write_for_mergekit(*tokenizers, (_find_folder(old), _find_folder(new)), make_absolute(target))
        else:
            report = write_vocab_map(*tokenizers, make_absolute(target), make_absolute(counts) if counts else None)
    answer(report, as_json, functools.partial(print_mapped, target))


def _find_folder(named: str) -> str:
    """The folder that mergekit reads, for one, a file in one, or an output."""
    folder, _, name = named.rpartition("/")
    if name.endswith((".json", ".tiktoken")):
        return folder or "."
    return f"{named}/tokenizer" if storage.exists(f"{make_absolute(named)}/tokenizer/tokenizer.json") else named


def print_mapped(target: str, report: Mapped) -> None:
    """Print what a map holds. target: where, as the command line names it."""
    say(f"{target}: {report.tokens:,} tokens; {report.same:,} are in both, {report.spelled:,} are several old ones")
