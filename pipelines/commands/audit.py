"""`tokcore audit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import AT, JSON, VOCAB_SIZE, command
from tokcore_pipelines.commands.named_tokenizers import load_tokenizer
from tokcore_pipelines.local.say import say
from tokcore_pipelines.look.audit import audit as run


@command("tokcore audit out/first --sources")
@click.argument("output")
@click.option(
    "--rare",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Ids written at most N times are rare.",
)
@click.option("--sources", is_flag=True, help="Also list ids that come from one file. Reads all shards.")
@VOCAB_SIZE
@AT
@JSON
def audit(output: str, rare: int, sources: bool, vocab_size: int | None, at: int | None, as_json: bool) -> None:
    """Lists tokens that were written rarely or never, that no text encodes to, that come from one document (with
    --sources, from one file), or that hold invisible characters.
    """
    with show_progress("audit"):
        tokenizer = load_tokenizer(output, vocab_size=vocab_size)
        report = run(read_output(make_absolute(output), at), tokenizer, rare, sources)
    answer(report, as_json, print_audit)


def print_audit(report: dict[str, Any]) -> None:
    """One screen."""
    say(
        f"vocabulary    {report['ordinary_tokens']:,} tokens and {report['special_tokens']} special ones, "
        f"{report['unused_ids']:,} ids unused"
    )
    if "never" in report:
        say(f"written       {report['tokens']:,} tokens in {report['documents']:,} documents")
        bytes_of = sum(len(one["bytes"]) == 2 for one in report["never"])
        longest_first = sorted(report["never"], key=lambda one: -len(one["bytes"]))
        _print_section("never", "never written", longest_first, f"{bytes_of} of them single bytes")
        _print_section("rare", f"written {report['rare_at_most']} times or less", report["rare"])
        one = [
            {**row, "token": f"{row['token']} {row['max_in_document']:,} of {row['count']:,}"}
            for row in report["mostly_one_document"]
        ]
        _print_section("one document", "with more than half of their occurrences in one document", one, shown=4)
    if "mostly_one_source" in report:
        of = ", ".join(
            f"{_shorten(name)}: {number:,}" for name, number in _take_first(report["mostly_one_source_by_source"], 4)
        )
        _print_section("one source", "with more than 9/10 in one file", report["mostly_one_source"], of)
    becomes = [{**one, "token": f"{one['token']} -> {one['becomes']}"} for one in report["unreachable"]]
    _print_section("unreachable", "that their own bytes do not become", becomes, shown=4)
    _print_section("partial", "that begin or end within a character", report["partial_utf8"], shown=0)
    kinds = Counter(kind for one in report["invisible_tokens"] for kind in one["kinds"])
    of = ", ".join(f"{name} {number}" for name, number in sorted(kinds.items()))
    _print_section("invisible", "that hold characters which are not seen", report["invisible_tokens"], of)
    for kind, langs in report.get("invisible_in_text", {}).items():
        ordered = sorted(langs.items(), key=lambda item: (-item[1]["occurrences"], item[0]))
        most = ", ".join(f"{lang} {about['occurrences']:,}" for lang, about in ordered[:6])
        more = f", {len(ordered) - 6} more languages" if len(ordered) > 6 else ""
        say(f"  in text     {kind}: {most}{more}")
    for section, why in report["missing"].items():
        say(f"left out      {section}: {why}")


def _print_section(name: str, what: str, rows: Sequence[dict[str, Any]], about: str = "", shown: int = 8) -> None:
    examples = "  ".join(row["token"] if len(row["token"]) < 40 else row["token"][:36] + '..."' for row in rows[:shown])
    say(f"{name:<14}{len(rows):,} ids {what}" + (f" ({about})" if about and rows else ""))
    if examples:
        say(f"              {examples}")


def _take_first(items: dict[str, int], limit: int) -> list[tuple[str, int]]:
    return list(items.items())[:limit]


def _shorten(uri: str) -> str:
    return uri if len(uri) <= 40 else "..." + uri[-37:]
