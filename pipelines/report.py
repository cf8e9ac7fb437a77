"""What the commands print for people. Every figure comes from a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from pipelines.inspect.gc import Collected
from pipelines.inspect.rebuild import Rebuilt
from pipelines.inspect.verify import Report, describe_problems
from pipelines.stages.build import Build
from pipelines.stages.plan import content_of, plan_build
from pipelines.store import urls
from pipelines.store.redaction import redact
from schemas.manifest import AnyManifest
from schemas.stage_manifests import STAGES, BuildManifest
from tokcore import kernel, unicode
from tokcore.canonical import canonical_json, sha256_hex
from tokcore.errors import ConfigError
from tokcore.jsonable import to_jsonable
from tokcore.shards import describe, open_shards
from tokcore.tokenizer import Tokenizer

_SHOWN_BYTES = 400
_SPECIAL_TEXT = {"ordinary": "ordinary text", "special": "the special token"}


def check_report(build: Build) -> dict[str, Any]:
    """What a build would do: its files, sizes, work items and the fingerprints of its settings. Nothing is done."""
    imported = build.imported_tokenizer()
    plan = plan_build(build.config)
    settings = to_jsonable(build.config.stage_configs())
    if imported is not None:
        settings["tokenizer"]["fingerprint"] = imported.fingerprint
    try:
        holds, refused = build.standing(plan), False
    except ConfigError as error:
        holds, refused = str(error), True
    return {
        "output": build.output,
        "output_holds": holds,
        "refused": refused,
        "files": len(plan.files),
        "stored_bytes": plan.size_bytes,
        "inputs": [
            {
                "lang": read.lang or f"by field {read.lang_field}",
                "format": f"{read.format}.{read.compression}".removesuffix(".none"),
                "files": len(files),
                "stored_bytes": sum(file.size_bytes for file in files),
            }
            for number, read in enumerate(plan.settings)
            if (files := [file for file in plan.files if file.settings == number])
        ],
        "work_items": len(plan.items),
        "partitions": plan.num_partitions,
        "duplicates": list(plan.duplicates),
        "tokenizer": None
        if imported is None
        else {"vocab_size": imported.vocab_size, "special": len(imported.special)},
        "settings": settings,
        # Of the input and of each stage's settings. If they are equal, so are the bytes of two builds.
        "fingerprints": {
            "plan": sha256_hex(content_of(plan) + canonical_json(to_jsonable(plan.settings))),
            **{stage: sha256_hex(canonical_json(of_stage)) for stage, of_stage in settings.items()},
        },
        "unicode": unicode.VERSION,
        "kernel": kernel.implementation(),
    }


def print_check(report: dict[str, Any]) -> None:
    """Print the report of `tokcore check`."""
    print(f"output      {report['output']}")
    print(f"holds       {'a different build: see below' if report['refused'] else report['output_holds']}")
    print(f"input       {report['files']} files, {_size(report['stored_bytes'])} as stored")
    width = max((len(read["lang"]) for read in report["inputs"]), default=0)
    for read in report["inputs"]:
        print(f"  {read['lang']:<{width}}{read['files']:>10,} {read['format']:<12}{_size(read['stored_bytes']):>12}")
    print(f"work items  {report['work_items']}, count tables in {report['partitions']} partition(s)")
    if (imported := report["tokenizer"]) is not None:
        print(f"tokenizer   imported, {imported['vocab_size']:,} ids, {imported['special']} special tokens")
    print(f"kernel      {report['kernel']}, Unicode {report['unicode']}")
    print("fingerprints of the input and of each stage's settings")
    for name in STAGES:
        if name in report["fingerprints"]:
            print(f"  {name:<10}{report['fingerprints'][name]}")
    for uri in report["duplicates"]:
        print(f"listed by two patterns, read once: {uri}")


def print_stage(output: str, manifest: AnyManifest) -> None:
    """Print one line about a finished stage."""
    folder = urls.join(output, manifest.stage)
    print(f"{manifest.stage}: {folder}, {len(manifest.files)} files, content {manifest.content_id()}")


def print_build(output: str, build: BuildManifest) -> None:
    """Print a table of the languages, one decoded document, and where everything is."""
    totals = build.totals
    table = Table(box=None, pad_edge=False)
    table.add_column("language", no_wrap=True)
    with_mask = any(row.masked_bytes is not None for row in build.languages.values())
    names = ("documents", "text MB", "tokens", "bytes/token", "share of bytes", "when learning")
    for name in (*names, *(("masked bytes",) if with_mask else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for lang, row in sorted(build.languages.items(), key=lambda item: -item[1].text_bytes):
        before, after = row.share_of_bytes or ("", "")
        table.add_row(
            lang,
            f"{row.documents:,}",
            f"{row.text_bytes / 1e6:.2f}",
            f"{row.tokens:,}",
            row.bytes_per_token,
            _percent(before),
            _percent(after),
            *((f"{row.masked_bytes or 0:,}",) if with_mask else ()),
        )
    Console(width=110).print(table)
    records, files = totals.records, totals.files
    print(
        f"\n{records.read:,} records read = {records.documents:,} documents "
        f"+ {sum(records.rejected.values()):,} rejected; "
        f"{sum(files.rejected.values())} of {files.planned} files rejected"
    )
    for text, times in totals.special_text.items():
        mode = build.config.shards.special_text
        print(f"corpus text spells {_printable(text)} {times:,} times: encoded as {_SPECIAL_TEXT[mode]}")
    if urls.is_local(output):
        _print_document(output)
    print(f"\ntokenizer  {urls.join(output, 'tokenizer')}  ({totals.vocab_size:,} ids)")
    print(f"shards     {urls.join(output, 'shards')}  ({totals.tokens:,} tokens in {totals.shards} shards)")
    print(f"root       {build.root}")


def _print_document(output: str) -> None:
    shards = open_shards(output, split="all")
    if not len(shards):
        return
    row = len(shards) // 2
    document = shards.document(row)
    tokenizer = Tokenizer.load(output)
    tokens = shards[row]
    text = tokenizer.decode(tokens)
    shown = text[:_SHOWN_BYTES].decode("utf-8", "ignore")
    more = "..." if len(text) > _SHOWN_BYTES else ""
    print(f"\ndocument {row}, {document.lang}, {document.source}: {len(tokens):,} tokens, {len(text):,} bytes")
    print("  " + _printable(shown).replace("\n", "\n  ") + more)
    print(f"  = {tokens[:12].tolist()}{'...' if len(tokens) > 12 else ''}")


def print_verified(report: Report) -> None:
    """Print the report of `tokcore verify`."""
    rate = report.size_bytes / 1e6 / report.seconds if report.seconds else 0
    if report.problems:
        print(describe_problems(report.problems))
        print(f"{len(report.problems)} problem(s) in {report.num_files} files")
        return
    print(f"{report.num_files} files, {_size(report.size_bytes)}, {rate:.0f} MB/s: all as committed")
    if report.num_read:
        print(f"{report.num_read:,} documents read: tables, shards, ledgers and manifests agree")
    if report.num_decoded:
        print(f"{report.num_decoded:,} documents decoded and equal to their source")
    if report.num_leftovers:
        print(f"{report.num_leftovers} files of unfinished work in _attempts: `tokcore gc` removes them")
    print(f"root {report.root}")


def print_rebuilt(report: Rebuilt) -> None:
    """Print the report of `tokcore verify --rebuild`."""
    if report.problems:
        print(describe_problems(report.problems))
        print(f"{report.shard}: {len(report.problems)} problem(s)")
        return
    for note in report.notes:
        print(note)
    same = "the same content" if report.notes else "every byte is the same"
    print(f"{report.shard}: {report.documents:,} documents, {report.tokens:,} tokens computed again: {same}")


def print_diff(found: Mapping[str, Any], one: str, other: str) -> None:
    """Print the report of `tokcore diff`: a block for each kind of difference, at most a screen in all."""
    if not found:
        print("no difference")
        return
    print(f"a  {redact(one)}\nb  {redact(other)}")
    for kind, what in found.items():
        if isinstance(what, list):
            print(f"\n{kind}  {_pair(what)}")
            continue
        lines = list(_diff_lines(what))
        print(f"\n{kind}")
        for line in lines[:_DIFF_LINES]:
            print(f"  {_printable(line if len(line) <= 200 else line[:197] + '...')}")
        if len(lines) > _DIFF_LINES:
            print(f"  ... and {len(lines) - _DIFF_LINES} more lines (--json shows all)")


def _diff_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in found.items():
        name = _named(key)
        if key in ("only_a", "only_b", "other_content", "same_content_in_other_bytes", "changed"):
            first = value if isinstance(value, list) else value["first"]
            number = len(value) if isinstance(value, list) else value["number"]
            if number:
                yield f"{name}: {number:,}: {', '.join(first)}{', ...' if number > len(first) else ''}"
        elif isinstance(value, dict) and "rank" in value:
            (rules,) = (listed for of, listed in value.items() if of != "rank")
            yield f"{name}: rank {value['rank']:,}: {' / '.join(_rule(rule) for rule in rules)}"
        elif key == "languages":
            yield from _diff_lines(value)
        elif isinstance(value, dict):
            pairs = [f"{_NAMES.get(of, of)} {_pair(pair)}" for of, pair in value.items() if of != "examples"]
            yield f"{name}: {', '.join(pairs)}"
            if value.get("examples"):
                most = ", ".join(f"{text!r} {mine:,} / {its:,}" for text, mine, its in value["examples"])
                yield f"{' ' * len(name)}  most different: {most}"
        else:
            yield f"{name}: {_pair(value)}"


_DIFF_LINES = 9  # of each kind

_NAMES = {
    "only_a": "only in a",
    "only_b": "only in b",
    "other_content": "other content",
    "same_content_in_other_bytes": "same content, stored in other bytes",
    "different_rows": "rows that differ",
}


def _named(key: str) -> str:
    """A key of the differences, for people. What models learned goes by the models' own words, such as merges."""
    if key.startswith("first_different_"):
        return f"first {key.removeprefix('first_different_')} that differs"
    return f"{key.removesuffix('_shared')} in both" if key.endswith("_shared") else _NAMES.get(key, key)


def _rule(rule: Sequence[str] | None) -> str:
    return f"'{' + '.join(rule)}'" if rule else "none"


def _pair(value: Any) -> str:
    return " / ".join(map(_value, value if isinstance(value, list) else [value]))


def _value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:16]}..."  # hashes, above all


def print_collected(collected: Collected, dry_run: bool, older_than: str) -> None:
    """Print the report of `tokcore gc`."""
    for path in collected.removed:
        print(_printable(path))
    for path in collected.left:
        print(f"kept: {_printable(path)}: no manifest names it, but no build wrote it")
    if collected.too_young:
        minutes = int(collected.youngest_seconds or 0) // 60
        print(
            f"nothing removed: a file of unfinished work changed {minutes} minutes ago, so a build may be running. "
            f"The limit is --older-than {older_than}; use 0 if no build is running."
        )
        return
    verb = "would be removed" if dry_run else "removed"
    print(f"{len(collected.removed):,} files, {_size(collected.size_bytes)} {verb}")


def shown(path: str, row: int | None) -> dict[str, Any]:
    """A shard's header, or one of its documents."""
    path = str(urls.local_path(path))
    if row is None:
        return describe(path)
    shards = open_shards(path, split="all")
    if row >= len(shards):
        raise ConfigError(f"{path}:{row}: the shard holds {len(shards)} documents, numbered from 0")
    document = shards.document(row)
    return {
        "id": document.id,
        "lang": document.lang,
        "source": document.source,
        "ordinal": document.ordinal,
        "tokens": shards[row].tolist(),
    }


def print_shown(report: dict[str, Any]) -> None:
    """Print a name and a value on each line."""
    for name, value in report.items():
        print(_printable(f"{name}: {value}").replace("\n", " "))


def _percent(share: str) -> str:
    return f"{Decimal(share) * 100:.2f} %" if share else ""


def _size(num_bytes: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes} bytes"


def _printable(text: str) -> str:
    """Corpus text for a terminal: control characters other than line feeds become spaces."""
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text)
