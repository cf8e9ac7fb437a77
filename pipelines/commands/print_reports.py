"""What commands that look at an output print for people. Every figure comes from a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokcore_pipelines.check.gc import Collected
from tokcore_pipelines.check.rebuild import Rebuilt
from tokcore_pipelines.check.repair import Repaired
from tokcore_pipelines.check.verify import Report, describe_problems
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, format_size, make_printable
from tokcore_pipelines.store.redaction import redact


def print_verified(report: Report) -> None:
    """Print the report of `tokcore verify`."""
    rate = report.size_bytes / 1e6 / report.seconds if report.seconds else 0
    if report.problems:
        say(*describe_problems(report.problems))
        say(f"{format_count(len(report.problems), 'problem')} in {format_count(report.num_files, 'file')}")
        return
    say(
        f"{format_count(report.num_files, 'file')}, {format_size(report.size_bytes)}, {rate:.0f} MB/s: all as committed"
    )
    if report.num_read:
        say(f"{format_count(report.num_read, 'document')} read: tables, shards, ledgers and manifests agree")
    if report.num_decoded:
        source = "its source" if report.num_decoded == 1 else "their source"
        done = f"decoded and equal to {source}" if report.lossless else "encoded again, with equal tokens"
        say(f"{format_count(report.num_decoded, 'document')} {done}")
    if report.num_leftovers:
        say(f"{format_count(report.num_leftovers, 'file')} of unfinished work in _attempts: `tokcore gc` removes them")
    say(f"root {report.root}")


def print_repaired(report: Repaired) -> None:
    """Print the report of `tokcore repair`."""
    for path in report.repaired:
        say(f"repaired {make_printable(path)}")
    for reason in report.left:
        say(f"damaged  {make_printable(reason)}")
    if not report.repaired and not report.left:
        say("nothing to repair")
    looked_at = format_count(report.num_files, "file")
    say(f"{looked_at} looked at, {len(report.repaired)} repaired, {len(report.left)} still damaged")


def print_rebuilt(report: Rebuilt) -> None:
    """Print the report of `tokcore verify --rebuild`."""
    if report.problems:
        say(*describe_problems(report.problems))
        say(f"{report.shard}: {format_count(len(report.problems), 'problem')}")
        return
    for note in report.notes:
        say(note)
    same = "the same content" if report.notes else "every byte is the same"
    held = f"{format_count(report.documents, 'document')}, {format_count(report.tokens, 'token')}"
    say(f"{report.shard}: {held} computed again: {same}")


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


def print_collected(collected: Collected, dry_run: bool, older_than: str) -> None:
    """Print the report of `tokcore gc`."""
    for path in collected.removed:
        say(make_printable(path))
    for path in collected.left:
        say(f"kept: {make_printable(path)}: no manifest names it, but no build wrote it")
    if collected.too_young:
        minutes = int(collected.youngest_seconds or 0) // 60
        say(
            f"nothing removed: a file of unfinished work changed {minutes} minutes ago, so a build may be running. "
            f"The limit is --older-than {older_than}; use 0 if no build is running."
        )
        return
    verb = "would be removed" if dry_run else "removed"
    if collected.num_uploads:
        say(f"{collected.num_uploads:,} unfinished uploads {verb}")
    if collected.uploads_expire:
        say("unfinished uploads: not listed; this store drops them by itself after a week")
    say(f"{format_count(len(collected.removed), 'file')}, {format_size(collected.size_bytes)} {verb}")
