"""`tokcore mix-search`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.open_build import open_build, read_config
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_inputs import expand_local_path
from tokcore_pipelines.commands.command_options import BUILD_FILE, JSON, SET, command
from tokcore_pipelines.local.cores import count_cores
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_table, make_printable
from tokcore_pipelines.look.mix_search import Wishes, parse_target, search_mix
from tokcore_pipelines.look.parallel_text import choose_reference, read_parallel_text
from tokcore_pipelines.look.search_chart import draw_search
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.changed_settings import describe_changed_settings

_VOCAB_SIZE, _ROWS, _TRIES = 8192, 400_000, 40


@command(
    "tokcore mix-search BUILD.toml --target hi=6.5 --target en=97%",
    "tokcore mix-search BUILD.toml --target premium=1.5 --parallel flores",
)
@BUILD_FILE
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="NAME=NUMBER",
    help="What is wanted: bytes per token of at least this for a language (hi=6.5) or family:NAME, script:NAME, "
    "group:NAME, source:NAME; en=97%: a floor, in percent of what the mix of the build file gives; premium=1.5: a p90 "
    "of at most this. Repeatable.",
)
@click.option(
    "--parallel", default="", metavar="FOLDER", help="Parallel text for premiums, as `tokcore report` has it."
)
@click.option("--reference", default="", metavar="LANG", help="Of the parallel text: the language to compare with.")
@click.option(
    "--tries",
    type=click.IntRange(1),
    default=_TRIES,
    show_default=True,
    metavar="N",
    help="Tokenizers to learn at most.",
)
@click.option(
    "--vocab-size",
    type=click.IntRange(257),
    metavar="N",
    help=f"Of these; default: {_VOCAB_SIZE:,}, or learn.vocab_size.",
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=_ROWS,
    show_default=True,
    metavar="N",
    help="Pre-tokens to learn from, the most frequent ones of each count table.",
)
@click.option("-o", "path", default="mix-search.svg", metavar="FILE.svg", help="The path of the search, as a picture.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--output", metavar="URL", default="", help="Read the counts here, not in build.output.")
@SET
@JSON
def mix_search(
    build_file: str,
    targets: tuple[str, ...],
    parallel: str,
    reference: str,
    tries: int,
    vocab_size: int | None,
    rows: int,
    path: str,
    force: bool,
    output: str,
    assigned: tuple[str, ...],
    as_json: bool,
) -> None:
    """Needs the count tables of the build: run `tokcore count` first. Learns small tokenizers with other weights of
    languages, or of what mix.over names, one after the other, and prints the [mix] that misses the targets least, and
    of these the one with the fewest tokens. Nothing is written into the output.
    """
    if reference and not parallel:
        raise click.UsageError("--reference is a language of the parallel text: name its folder with --parallel")
    place = expand_local_path(path)
    _check_place(place, force)
    progress = StageProgress(-1 if as_json else 0)
    build = open_build(read_config(build_file, assigned), RunOptions(), output, progress)
    config, counted = build.config, read_output(build.output).find_counted()
    if counted is None:
        raise ConfigError(f"{redact(build.output)}: has no count tables: run `tokcore count {build_file}` first")
    for part in counted.parts:
        if reasons := describe_changed_settings(part.made.config, config.count_identity()):
            raise ConfigError(f"{redact(part.url)}: was counted in another way: {'; '.join(reasons)}")
    text = read_parallel_text(make_absolute(parallel)) if parallel else None
    wishes = Wishes(
        tuple(map(parse_target, targets)),
        vocab_size or min(_VOCAB_SIZE, config.vocab_size),
        rows,
        tries,
        text,
        choose_reference([*text], reference) if text is not None else "",
    )
    told = search_mix(config, counted, wishes, count_cores(), progress)
    place.write_text(draw_search(told), encoding="utf-8")
    answer(told, as_json, print_search)
    if not as_json:
        say(f"{place}: the path of the search")


def print_search(told: dict[str, Any]) -> None:
    """Print what was reached, and the table to paste."""
    first, best = told["tries"][0], told["tries"][told["best"]]
    rows = [
        [
            make_printable(text),
            f"{'at most' if of['most'] else 'at least'} {of['goal']:.3f}",
            f"{first['values'][text]:.3f}",
            f"{best['values'][text]:.3f}",
        ]
        for text, of in told["targets"].items()
    ]
    rows.append(["bytes per token", "", f"{first['bytes_per_token']:.3f}", f"{best['bytes_per_token']:.3f}"])
    if "premium_even_lines" in best:
        rows.append(
            ["premium, even lines", "", f"{first['premium_even_lines']:.3f}", f"{best['premium_even_lines']:.3f}"]
        )
    say(*format_table(["target", "goal", "build file", "found"], rows), "")
    reached = "every target is reached" if not best["missed"] else f"targets are missed by {best['missed']:.2%} in all"
    part = "" if told["rows"] == told["rows_there"] else f" of {told['rows_there']:,}"
    say(
        f"{len(told['tries'])} tokenizers of {told['vocab_size']:,} tokens, from {told['rows']:,}{part} pre-tokens; "
        f"measured on {told['measured_on']}",
        f"{reached}, with the mix of try {told['best'] + 1}:",
        "",
        *told["mix"].splitlines(),
        "",
    )


def _check_place(place: Path, force: bool) -> None:
    if place.suffix != ".svg":
        raise ConfigError(f"-o {place}: expected a name that ends with .svg")
    if not place.parent.is_dir():
        raise ConfigError(f"-o {place}: there is no folder {place.parent}: make it first")
    if place.exists() and not force:
        raise ConfigError(f"-o {place}: is there already: choose another name, or replace it with --force")
