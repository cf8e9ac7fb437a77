"""`tokcore report`."""

from __future__ import annotations

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.commands.command_inputs import expand_local_path
from tokcore_pipelines.commands.command_options import AT, command
from tokcore_pipelines.commands.named_tokenizers import load_against
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.report.compose import SAMPLE, Wishes, make_report
from tokcore_pipelines.look.report.money import MODEL_SIZES, parse_model_size
from tokcore_pipelines.look.report.report_files import check_place, write_report

_MOST_AGAINST = 7


@command(
    "tokcore report out/first",
    "tokcore report out/first --against o200k_base.tiktoken -o first.html",
    "tokcore report out/first --parallel flores --reference eng_Latn",
)
@click.argument("output")
@click.option(
    "--against",
    multiple=True,
    metavar="OUTPUT|TOKENIZER",
    help="Another tokenizer to compare with: an output, tokenizer.json, .model, rank file, ... A rank file that is not "
    "a published one has the name of its pattern before it: cl100k@ranks.tiktoken. Repeatable.",
)
@click.option(
    "--parallel",
    default="",
    metavar="FOLDER",
    help="LANG.txt or LANG.txt.zst, line N the same sentence in all of them.",
)
@click.option("--reference", default="", metavar="LANG", help="Of the parallel text: the language to compare with.")
@click.option("--sample", type=click.IntRange(2), metavar="N", help="Texts to draw of each language; default: 400.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME:LAYERS:WIDTH:KV_HEADS:HEAD_SIZE",
    help="Tell the costs of a model of this size. Repeatable; replaces the default sizes.",
)
@click.option("-o", "path", default="report.html", metavar="FILE.html", help="The page; its numbers go to FILE.json.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@AT
def report(
    output: str,
    against: tuple[str, ...],
    parallel: str,
    reference: str,
    sample: int | None,
    models: tuple[str, ...],
    path: str,
    force: bool,
    at: int | None,
) -> None:
    """The page has the corpus, the tokenizer beside others, the health of the vocabulary, what tokens cost, and where
    the build came from. Totals are exact; what needs text is estimated from texts that are drawn by hash, with margins.
    Nothing is written into OUTPUT.
    """
    if reference and not parallel:
        raise click.UsageError("--reference is a language of the parallel text: name its folder with --parallel")
    url = make_absolute(output)
    place = expand_local_path(path)
    check_place(place, url, force)
    wishes = Wishes(
        load_against(against, _MOST_AGAINST),
        make_absolute(parallel) if parallel else "",
        reference,
        sample or SAMPLE,
        [parse_model_size(text) for text in models] or MODEL_SIZES,
    )
    progress = StageProgress()
    with progress.stage("report", minor=True):
        written = write_report(make_report(read_output(url, at), wishes, progress), place)
    for file in written:
        say(f"{file}: {file.stat().st_size:,} bytes")
