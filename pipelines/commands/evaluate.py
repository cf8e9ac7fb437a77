"""`tokcore evaluate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from tokcore.errors import TokError
from tokcore.evaluate.measures import MEASURES, Measure
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import ALL, JSON, command
from tokcore_pipelines.commands.named_tokenizers import load_against, split_pattern
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import (
    MOST_ROWS,
    cut_text,
    format_count,
    format_size,
    format_table,
    make_printable,
)
from tokcore_pipelines.look.evaluate import SAMPLE, Asked, Source, evaluate_tokenizers

_MOST_TOKENIZERS = 12
_BESIDE = 4  # tokenizers whose columns fit beside the names of measures
_COLUMN = 11
_LEARNED = "*"
_OF_PARALLEL, _PREMIUMS = "parallel_learned_share", ("premium_p90", "premium_median", "gini")


@command(
    "tokcore evaluate out/first",
    "tokcore evaluate out/first out/second o200k_base.tiktoken --parallel flores",
    "tokcore evaluate out/first their/tokenizer.json --data heldout --json",
)
@click.argument("named", nargs=-1, required=True, metavar="OUTPUT|TOKENIZER...")
@click.option(
    "--data",
    multiple=True,
    metavar="FILE|FOLDER",
    help="Text to judge on, which no tokenizer was learned from; its fields are found as `tokcore init` finds them. "
    "Repeatable; default: the validation split of the first output that has one.",
)
@click.option("--text", "text_field", metavar="FIELD", help="Of --data: the field with the text.")
@click.option("--lang", metavar="CODE", help="Of --data: the language of all of it.")
@click.option(
    "--parallel",
    default="",
    metavar="FOLDER",
    help="LANG.txt or LANG.txt.zst, line N the same sentence in all of them: for premiums.",
)
@click.option("--reference", default="", metavar="LANG", help="Of the parallel text: the language to compare with.")
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=SAMPLE,
    show_default=True,
    metavar="N",
    help="Texts to draw of each language.",
)
@ALL
@JSON
def evaluate(
    named: tuple[str, ...],
    data: tuple[str, ...],
    text_field: str | None,
    lang: str | None,
    parallel: str,
    reference: str,
    sample: int,
    show_all: bool,
    as_json: bool,
) -> None:
    """All tokenizers are measured on the same texts, which are drawn by hash: the same texts give the same figures. If
    an output was learned from some of these texts, its figures are marked. A rank file that is not a published one has
    the name of its pattern before it: cl100k@ranks.tiktoken.
    """
    if reference and not parallel:
        raise click.UsageError("--reference is a language of the parallel text: name its folder with --parallel")
    if (text_field or lang) and not data:
        raise click.UsageError("--text and --lang say how to read --data: name its files")
    try:
        tokenizers = load_against(named, _MOST_TOKENIZERS, "OUTPUT|TOKENIZER")
    except TokError as error:
        if not data or len(named) == 1:
            raise
        raise type(error)(f"{error} If it is text: --data takes one path, so repeat it for each.") from error
    urls = {name: make_absolute(split_pattern(one)[1]) for name, one in zip(tokenizers, named, strict=True)}
    sources = [source for one in data for source in _find_sources(one, text_field, lang)]
    asked = Asked(tokenizers, urls, sources, make_absolute(parallel) if parallel else "", reference, sample)
    progress = StageProgress()
    with progress.stage("evaluate", minor=True):
        report = evaluate_tokenizers(asked, progress)
    answer(report, as_json, lambda told: print_evaluation(told, show_all))


def _find_sources(named: str, text_field: str | None, lang: str | None) -> Iterator[Source]:
    """The settings with which files are read, as a build file that init proposes has them."""
    proposal = propose(make_absolute(named))
    for one in proposal.sources:
        held = {field.name: getattr(one.source, field.name) for field in dataclasses.fields(one.source)}
        settings = {name: [*value] if isinstance(value, tuple) else value for name, value in held.items()}
        settings |= {name: value for name, value in (("text", text_field), ("lang", lang)) if value}
        if lang:
            settings["lang_field"] = None
        yield {name: value for name, value in settings.items() if value not in (None, [])}, proposal.folder


def print_evaluation(report: Mapping[str, Any], show_all: bool) -> None:
    """Print a table of all measures, and one of bytes per token by language. show_all: of all languages."""
    text = report["text"]
    drawn = "" if _is_whole(text) else f"; up to {text['asked']:,} of each language, drawn by hash"
    say(
        f"Text: {make_printable(text['from'])}, {format_count(text['texts'], 'text')}, {format_size(text['bytes'])}, "
        f"{format_count(len(text['languages']), 'language')}{drawn}"
    )
    names = [*report["tokenizers"]]
    for start in range(0, len(names), _BESIDE):
        _print_columns({name: report["tokenizers"][name] for name in names[start : start + _BESIDE]}, text, show_all)
    _print_prediction(report["tokenizers"], text, show_all)


def _is_whole(text: Mapping[str, Any]) -> bool:
    return all(one["all"] for one in text["languages"].values())


def _print_columns(tokenizers: Mapping[str, Any], text: Mapping[str, Any], show_all: bool) -> None:
    heads = [cut_text(make_printable(name), _COLUMN) for name in tokenizers]
    told = [*tokenizers.values()]
    premiums = any(one["gini"] is not None for one in told)
    rows = [
        ["vocabulary", *(f"{one['vocab_size']:,}" for one in told)],
        ["learned from this text", *(_say_learned(one["learned_share"]) for one in told)],
        *([["learned from parallel text", *(_say_learned(one[_OF_PARALLEL]) for one in told)]] if premiums else []),
        *(
            [measure.title, *(_format(measure, one) for one in told)]
            for measure in MEASURES
            if any(one.get(measure.key) is not None for one in told)
        ),
    ]
    say("", *format_table(["", *heads], rows))
    if any(one["learned_share"] or one[_OF_PARALLEL] for one in told):
        say(f"{_LEARNED} learned from some of this text: other text gives other figures, mostly worse ones")
    langs = _order_languages(text)
    shown = langs if show_all else langs[:MOST_ROWS]
    by_lang = [[make_printable(lang), *(_format_language(one, lang) for one in told)] for lang in shown]
    say("", *format_table(["bytes per token", *heads], by_lang))
    if len(shown) < len(langs):
        say(f"{len(langs) - len(shown)} more languages: --all")


def _print_prediction(tokenizers: Mapping[str, Any], text: Mapping[str, Any], show_all: bool) -> None:
    """Tables of bits per byte, one for each size of a vocabulary."""
    groups = dict.fromkeys(tuple(one["prediction"]["beside"]) for one in tokenizers.values())
    if not any(one["prediction"]["languages"] for one in tokenizers.values()):
        return
    say("", "Bits per byte that a model of n-grams needs, from equal data, and from as many tokens (margins: 95 %)")
    for group in groups:
        for start in range(0, len(group), _BESIDE // 2):
            names = group[start : start + _BESIDE // 2]
            told = [tokenizers[name]["prediction"] for name in names]
            langs = [lang for lang in _order_languages(text) if lang in told[0]["languages"]]
            rows = [
                [make_printable(lang), *_format_prediction([one["languages"][lang] for one in told])]
                for lang in (langs if show_all else langs[:MOST_ROWS])
            ]
            marks = [_LEARNED if tokenizers[name]["learned_share"] else "" for name in names]
            heads = [
                head
                for name, mark in zip(names, marks, strict=True)
                for head in (cut_text(make_printable(name), _COLUMN) + mark, "equal tokens")
            ]
            sizes = _say_sizes([tokenizers[name]["vocab_size"] for name in names])
            say("", *format_table([sizes, *heads], [["mean of languages", *_format_prediction(told)], *rows]))
    if len(groups) > 1:
        say("Vocabularies of different sizes are not comparable: a larger one needs more text to learn from")


def _format_prediction(told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in told:
        for key in ("equal_data", "equal_tokens"):
            margin = one[key]["margin"]
            yield f"{one[key]['value']:.3f}" + (f" ± {margin:.3f}" if margin is not None else "")


def _say_sizes(sizes: Sequence[int]) -> str:
    least, most = min(sizes), max(sizes)
    return f"{least:,} ids" if least == most else f"{least:,} to {most:,} ids"


def _order_languages(text: Mapping[str, Any]) -> list[str]:
    return sorted(text["languages"], key=lambda lang: (-text["languages"][lang]["bytes"], lang))


def _format(measure: Measure, one: Mapping[str, Any]) -> str:
    value = one.get(measure.key)
    if value is None:
        return "-"
    learned = one[_OF_PARALLEL] if measure.key in _PREMIUMS else measure.is_of_text and one["learned_share"]
    return format(value, measure.form) + (_LEARNED if learned else "")


def _format_language(one: Mapping[str, Any], lang: str) -> str:
    value = one["languages"][lang]["bytes_per_token"]
    return "-" if value is None else f"{value:.3f}{_LEARNED if one['learned_share'] else ''}"


def _say_learned(share: float | None) -> str:
    return "not known" if share is None else f"{share:.1%}" if share else "no"
