"""`tokcore status`."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.build.named_paths import make_absolute
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import JSON, command
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, format_size
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.watch.read_status import read_status


@command("tokcore status out/first", "tokcore status s3://bucket/out --json", "tokcore status out/first --drift")
@click.argument("output")
@click.option("--drift", "with_drift", is_flag=True, help="Measure drift here, also where no watcher commits.")
@click.option("--baseline", metavar="OUTPUT", help="With --drift: compare with this output, by the same tokenizer.")
@JSON
def status(output: str, with_drift: bool, baseline: str | None, as_json: bool) -> None:
    url = make_absolute(output)
    if baseline is not None and not with_drift:
        raise ConfigError("--baseline: is for --drift; a watcher has watch.drift_baseline")
    found = read_status(url, with_drift, make_absolute(baseline) if baseline is not None else "")
    answer(found, as_json, functools.partial(print_status, url))


_MOST_LANGUAGES = 10


def print_status(output: str, status: dict[str, Any]) -> None:
    """Print what read_status gives."""
    totals = status["totals"]
    say(
        f"{redact(output)}: commit {status['newest_commit']}, {format_count(totals['files'], 'file')}, "
        f"{format_count(totals['documents'], 'document')}, {format_count(totals['tokens'], 'token')}"
    )
    if status["gap"]:
        say(f"  commit {status['gap']} is missing, though later ones are there: see `tokcore verify`")
    for one in status["watchers"]:
        waiting = _describe_waiting(one)
        say(f"  watcher on {one['host']}, process {one['process']}: {one['role']}; {waiting}")
        say(f"    last sign {max(0, int(time.time()) - one['said']):,} s ago, by this machine's clock")
        for trouble in filter(None, (one["trouble"], one.get("queue_trouble"))):
            say(f"    trouble: {trouble}")
    _print_stream(status["stream"])
    if not (status["watchers"] or status["stream"]):
        say("  no watcher: tokcore watch BUILD.toml")
    for note in status["quarantine"]:
        say(f"  left alone: {note['uri']}: {note['error']}")
    _print_drift(status["drift"])


def _print_stream(look: dict[str, int] | None) -> None:
    """What the last look of a stream left, which goes on without its driver."""
    if look is not None:
        say(f"  a stream looked {max(0, int(time.time()) - look['said']):,} s ago: {_describe_waiting(look)}")


def _describe_waiting(said: Mapping[str, Any]) -> str:
    number = said["waiting_files"]
    verb = "waits" if number == 1 else "wait"
    waiting = f"{format_count(number, 'file')} with {format_size(said['waiting_bytes'])} {verb}"
    return f"{waiting}, the oldest for {said['oldest_waiting_s']:,} s" if number else waiting


def _print_drift(drift: dict[str, Any] | None) -> None:
    """What Drift.measure gives, a line for each figure."""
    if drift is None:
        return
    window, baseline = drift["window"], drift["baseline"]
    size = format_size(window["text_bytes"])
    if not window["text_bytes"]:
        say("  drift: nothing has landed yet")
        return
    if not drift["is_full"]:
        say(f"  drift: not judged before {format_size(drift['wanted_bytes'])} of text landed; {size} did")
    else:
        words = "the tokenizer may no longer fit" if drift["exceeded"] else "the tokenizer fits"
        say(f"  drift: {words}; the last {size} of text, beside {drift['against']}:")
    for name, title, form in (
        ("bytes_per_token", "bytes per token", ".3f"),
        ("short_tokens", "text in tokens of 1 or 2 bytes", ".2%"),
        ("unseen", "pre-tokens that are new", ".2%"),
    ):
        _print_figure(title, window[name], baseline and baseline[name], form, drift["exceeded"].get(name))
    languages = {*window["languages"], *(baseline["languages"] if baseline else ())}
    for lang in sorted(languages, key=lambda lang: -window["languages"].get(lang, 0.0))[:_MOST_LANGUAGES]:
        then = baseline["languages"].get(lang, 0.0) if baseline else None
        exceeded = drift["exceeded"].get(f"language {lang}")
        _print_figure(f"text in {lang}", window["languages"].get(lang, 0.0), then, ".2%", exceeded)


def _print_figure(title: str, now: float | None, then: float | None, form: str, exceeded: str | None) -> None:
    if now is not None:
        was = f", was {then:{form}}" if then is not None else ""
        say(f"    {title:<31} {now:{form}}{was}{'   out of bounds' if exceeded else ''}")
