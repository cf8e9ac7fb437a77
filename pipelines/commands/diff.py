"""`tokcore diff`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.read_log import is_updated
from tokcore_pipelines.commands.answers import answer, show_progress
from tokcore_pipelines.commands.command_options import JSON, command
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import make_printable
from tokcore_pipelines.look.diff import diff as run
from tokcore_pipelines.look.diff_commits import diff_commits
from tokcore_pipelines.store.redaction import redact


@command("tokcore diff out/first out/second", "tokcore diff out/first --at 3 --with 5")
@click.argument("one", metavar="A")
@click.argument("other", metavar="[B]", default="")
@click.option("--at", type=click.IntRange(0), metavar="COMMIT", help="Compare commits: this one of A; default: newest.")
@click.option(
    "--with", "other_at", type=click.IntRange(0), metavar="COMMIT", help="Compare commits: this one of B; likewise."
)
@JSON
def diff(one: str, other: str, at: int | None, other_at: int | None, as_json: bool) -> None:
    """Compares configuration, inputs, counts, tokenizers, documents and shards, as far as both outputs have them. Of
    commits (named, or the newest if an output was updated since it was built), compares inputs, totals, tombstones,
    counts and tokenizers over all their parts. Exit code 1 if anything differs.
    """
    if not other and at is None and other_at is None:
        raise click.UsageError("name a second output, or two commits of this one with --at and --with")
    one, other = make_absolute(one), make_absolute(other or one)
    of_builds = at is None and other_at is None and not (is_updated(one) or is_updated(other))
    with show_progress("diff"):
        found = run(one, other) if of_builds else diff_commits(read_output(one, at), read_output(other, other_at))
    answer(found, as_json, lambda found: print_diff(found, one, other), found)


def print_diff(found: Mapping[str, Any], one: str, other: str) -> None:
    """Print the report of `tokcore diff`: a block for each kind of difference, at most a screen in all."""
    if not found:
        say("no difference")
        return
    say(f"a  {redact(one)}", f"b  {redact(other)}")
    for kind, what in found.items():
        if isinstance(what, list):
            say("", f"{kind}  {_format_pair(what)}")
            continue
        lines = list(_format_diff(what))
        say("", f"{kind}")
        for line in lines[:_DIFF_LINES]:
            say(f"  {make_printable(line if len(line) <= 200 else line[:197] + '...')}")
        if len(lines) > _DIFF_LINES:
            say(f"  ... and {len(lines) - _DIFF_LINES} more lines (--json shows all)")


def _format_diff(found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in found.items():
        name = _name_key(key)
        if key in ("only_a", "only_b", "other_content", "same_content_in_other_bytes", "changed"):
            first = value if isinstance(value, list) else value["first"]
            number = len(value) if isinstance(value, list) else value["number"]
            if number:
                yield f"{name}: {number:,}: {', '.join(first)}{', ...' if number > len(first) else ''}"
        elif isinstance(value, dict) and "rank" in value:
            (rules,) = (listed for of, listed in value.items() if of != "rank")
            yield f"{name}: rank {value['rank']:,}: {' / '.join(_format_rule(rule) for rule in rules)}"
        elif key == "languages":
            yield from _format_diff(value)
        elif isinstance(value, dict):
            pairs = [f"{_NAMES.get(of, of)} {_format_pair(pair)}" for of, pair in value.items() if of != "examples"]
            yield f"{name}: {', '.join(pairs)}"
            if value.get("examples"):
                most = ", ".join(f"{text!r} {mine:,} / {its:,}" for text, mine, its in value["examples"])
                yield f"{' ' * len(name)}  most different: {most}"
        else:
            yield f"{name}: {_format_pair(value)}"


_DIFF_LINES = 9  # of each kind


_NAMES = {
    "only_a": "only in a",
    "only_b": "only in b",
    "other_content": "other content",
    "same_content_in_other_bytes": "same content, stored in other bytes",
    "different_rows": "rows that differ",
}


def _name_key(key: str) -> str:
    """A key of the differences, for people. What models learned goes by the models' own words, such as merges."""
    if key.startswith("first_different_"):
        return f"first {key.removeprefix('first_different_')} that differs"
    return f"{key.removesuffix('_shared')} in both" if key.endswith("_shared") else _NAMES.get(key, key)


def _format_rule(rule: Sequence[str] | None) -> str:
    return f"'{' + '.join(rule)}'" if rule else "none"


def _format_pair(value: Any) -> str:
    return " / ".join(map(_format_value, value if isinstance(value, list) else [value]))


def _format_value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:16]}..."  # hashes, above all
