"""What commands that run stages print at their end. Every figure comes from a manifest; times come from run.json."""

from __future__ import annotations

import operator
import textwrap
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rich.cells import chop_cells

from tokcore.shards.opened_shards import open_shards
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import describe_commit_date, read_run_facts, require_manifest
from tokcore_pipelines.build.file_rejections import REJECTS
from tokcore_pipelines.build.table import WORK
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import (
    MOST_ROWS,
    WIDTH,
    cut_text,
    format_count,
    format_number,
    format_size,
    format_table,
    make_printable,
)
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.tokenizers import load_checked_spec
from tokcore_pipelines.work.summed_totals import add_up_counts
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.plan import DUPLICATE
from tokcore_schemas.stage_manifests import BuildManifest, BuiltLanguage
from tokcore_schemas.stage_table import STAGES, TOKENIZER, Stage

_SPECIAL_TEXT = {"ordinary": "ordinary text", "special": "the special token"}

_SHOWN_LINES = 4  # of one decoded document
_MOST_RESPELLED = 8  # languages


def print_build(output: str, build: BuildManifest, all_languages: bool = False, is_new: bool = True) -> None:
    """Print the largest languages, one decoded document if it is new, the totals, and where everything is."""
    say(*_list_languages(build.languages, all_languages), "")
    _print_records(output, build)
    if urls.is_local(output) and is_new:
        _print_document(output)
    _print_totals(output, build)


def print_stage(output: str, manifest: AnyManifest) -> None:
    """Print one line about a finished stage."""
    folder = urls.join(output, manifest.stage)
    say(f"{manifest.stage}: {folder}, {format_count(len(manifest.files), 'file')}, content {manifest.content_id()}")


def print_no_work(output: str, stage: str, done: str) -> None:
    """Print that a command found its work done. done: by what verb."""
    say(f"nothing to do: {done}{describe_commit_date(output, stage)}")


def print_metrics(metrics: Mapping[str, Mapping[str, int]]) -> None:
    """Print what Beam measured of each stage that ran."""
    for stage, measured in metrics.items():
        if not measured:
            continue
        found = f", {hits:,} found done" if (hits := measured.get("cache_hits", 0)) else ""
        items = format_count(measured.get("items", 0), "work item")
        amounts = f"{items}{found}, {format_count(measured.get('records', 0), 'record')}"
        reasons = {name: n for name, n in sorted(measured.items()) if name.startswith("rejected:")}
        rejects = ", ".join(f"{name.removeprefix('rejected:')}: {n:,}" for name, n in reasons.items())
        rejected = f", rejected {rejects}" if rejects else ""
        size = f"{measured.get('stored_bytes', 0):,} bytes stored, {measured.get('text_bytes', 0):,} of text"
        say(*textwrap.wrap(f"{stage:<10} {amounts}{rejected}, {size}", WIDTH, subsequent_indent=" " * 11))


def _list_languages(languages: Mapping[str, BuiltLanguage], all_languages: bool) -> list[str]:
    """The lines of the table of languages, the largest first."""
    with_mask = any(row.masked_bytes is not None for row in languages.values())
    headings = ["language", "documents", "text", "tokens", "bytes per\ntoken", "share of\nbytes", "when\nlearning"]
    rows = []
    by_size = sorted(languages.items(), key=lambda item: -item[1].text_bytes)
    for lang, row in by_size if all_languages else by_size[:MOST_ROWS]:
        before, after = row.share_of_bytes or ("", "")
        cells = [
            lang,
            format_number(row.documents),
            format_size(row.text_bytes),
            format_number(row.tokens),
            row.bytes_per_token,
        ]
        cells += [_format_percent(before), _format_percent(after)]
        rows.append([*cells, format_size(row.masked_bytes or 0)] if with_mask else cells)
    lines = format_table([*headings, "masked"] if with_mask else headings, rows)
    if len(rows) < len(languages):
        lines.append(f"and {len(languages) - len(rows):,} more (--all shows all)")
    return lines


def _print_records(output: str, build: BuildManifest) -> None:
    records, files = build.totals.records, build.totals.files
    rejected = sum(records.rejected.values())
    read, documents = format_count(records.read, "record"), format_count(records.documents, "document")
    duplicates = records.num_duplicates
    filtered = f" + {records.num_filtered - duplicates:,} filtered" if records.num_filtered > duplicates else ""
    filtered += f" + {format_count(duplicates, 'duplicate')}" if duplicates else ""
    removed = f" + {records.removed:,} removed" if records.filtered and records.removed else ""
    say(f"{read} read = {documents} + {rejected:,} rejected{filtered}{removed}")
    for line in describe_filtered(_leave_out_duplicates(records.filtered or {})):
        say(f"  {line}")
    if records.masked:
        found = add_up_counts(records.masked.values())
        say(f"masked: {', '.join(f'{number:,} {kind}' for kind, number in found.items())}")
    if records.cut:
        lost = add_up_counts(records.cut.values())
        size = format_size(lost.pop("bytes"))
        say(f"duplicates left out of documents: {', '.join(format_count(n, what) for what, n in lost.items())}, {size}")
    if records.skipped:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in records.skipped.items())
        say(f"no documents by their kind: {kinds}")
    if records.respelled:
        langs = ", ".join(f"{number:,} {lang}" for lang, number in [*records.respelled.items()][:_MOST_RESPELLED])
        say(f"language codes written in other case: {langs}")
    if files.rejected:
        reasons = ", ".join(f"{times:,} {reason}" for reason, times in files.rejected.items())
        say(f"{sum(files.rejected.values()):,} of {files.planned:,} files rejected: {reasons}")
        say(f"  they are named in {urls.join(output, 'rejected', REJECTS)}")
    mode = build.config.shards.special_text
    for text, times in build.totals.special_text.items():
        say(f"corpus text spells {make_printable(repr(text))} {times:,} times: encoded as {_SPECIAL_TEXT[mode]}")


def _leave_out_duplicates(filtered: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {lang: {why: num for why, num in found.items() if why != DUPLICATE} for lang, found in filtered.items()}


def describe_filtered(filtered: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What each rule dropped, a line each, those of a ready rule by reason: `keep: 12`.

    filtered: language -> rule and reason -> records.

    >>> describe_filtered({"en": {"keep": 1, "gopher_quality.short_doc": 2}, "de": {"keep": 3}})
    ['gopher_quality: 2 (short_doc 2)', 'keep: 4']
    """
    totals: dict[str, Counter[str]] = {}
    for by_reason in filtered.values():
        for named, number in by_reason.items():
            name, _, reason = named.partition(".")
            totals.setdefault(name, Counter())[reason] += number
    return [
        f"{name}: {found.total():,}"
        + (f" ({', '.join(f'{reason} {num:,}' for reason, num in found.most_common())})" if "" not in found else "")
        for name, found in sorted(totals.items())
    ]


def _print_document(output: str) -> None:
    # A build that found all done shows no document, and need not load these.

    shards = open_shards(output, split="all")
    if not len(shards):
        return
    row = len(shards) // 2
    document = shards.document(row)
    tokens = shards[row]
    tokenizer = Tokenizer(load_checked_spec(output, require_manifest(output, TOKENIZER)))
    say("", f"document {row:,}, {document.lang}: {len(tokens):,} tokens, from")
    say(f"  {make_printable(document.source)}")
    # No more than is shown: a document may have a hundred million tokens.
    stream, begin, num_decoded = tokenizer.stream_decoder(errors="ignore"), "", 0
    while num_decoded < len(tokens) and len(begin) < _SHOWN_LINES * WIDTH:
        begin += stream.feed(tokens[num_decoded : num_decoded + _SHOWN_LINES * WIDTH].tolist())
        num_decoded += _SHOWN_LINES * WIDTH
    lines = [piece for line in make_printable(begin).split("\n") for piece in chop_cells(line, WIDTH - 2) or [""]]
    for line in lines[:_SHOWN_LINES]:
        say(f"  {line}".rstrip())
    if len(lines) > _SHOWN_LINES or num_decoded < len(tokens):
        say("  ...")
    say(cut_text(f"  = {tokens[:20].tolist()}", WIDTH))


def _print_totals(output: str, build: BuildManifest) -> None:
    totals = build.totals
    documents = totals.records.documents
    per_token = f", {totals.text_bytes / totals.tokens:.4f} bytes per token" if totals.tokens else ""
    say("", f"documents  {documents:,} with {totals.text_bytes:,} bytes of text")
    say(f"tokens     {totals.tokens:,} in {format_count(totals.shards, 'shard')}{per_token}")
    unknown = [of.unknown for of in build.languages.values() if of.unknown is not None]
    if unknown:
        share = f" ({sum(unknown) / totals.tokens * 100:.4f} %)" if totals.tokens else ""
        say(f"unknown    {sum(unknown):,} tokens{share}")
    if time := _describe_time(output, build):
        say(f"time       {time}")
    for name in STAGES:
        if name in build.inputs and (title := WORK[name].title):
            _print_place(output, STAGES[name], title)
    say(f"root       {build.root}")


def _print_place(output: str, stage: Stage[Any], title: str) -> None:
    """Print where the files of a stage are, and what it tells of them."""
    tell = WORK[stage.name].tell
    first, *more = tell(require_manifest(output, stage)) if tell is not None else ("",)
    say(f"{title:<10} {urls.join(output, stage.name)}{f'  ({first})' if first else ''}")
    for line in more:
        say(f"{'':<10} {line}")


def _describe_time(output: str, build: BuildManifest) -> str:
    """Wall time of all stages and the rate per core, as far as the run.json files tell; empty if they do not."""
    timed = [name for name in build.inputs if not STAGES[name].within]  # the time of others is part of another's
    facts = [read_run_facts(output, name) for name in timed]
    seconds = [spent for one in facts if (spent := one.seconds) is not None]
    workers = [number for one in facts if (number := one.workers) is not None]  # unknown for other runners
    if len(seconds) < len(facts):
        return ""
    rate = ""
    if len(workers) == len(facts) and (of_cores := sum(map(operator.mul, seconds, workers))) > 0:
        rate = f", {build.totals.text_bytes / 1e6 / of_cores:.2f} MB/s of text per core"
    return f"{sum(seconds):.1f} s in all stages{rate}"


def _format_percent(share: str) -> str:
    return f"{Decimal(share) * 100:.2f} %" if share else ""
