"""What the commands print for people. Every figure comes from a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.inspect.estimate import estimate
from pipelines.inspect.gc import Collected
from pipelines.inspect.rebuild import Rebuilt
from pipelines.inspect.repair import Repaired
from pipelines.inspect.verify import Report, describe_problems
from pipelines.local.terminal import format_count, format_duration, format_number, format_size, make_printable
from pipelines.stages.build import Build
from pipelines.stages.commit import describe_commit_date
from pipelines.stages.plan_corpus import hash_content, plan_build
from pipelines.stages.source_checks import FOR_CHECK, check_samples, describe, sample_plan
from pipelines.store import urls
from pipelines.store.redaction import redact
from pipelines.work.inputs import LeftOut
from schemas.manifest import AnyManifest
from schemas.plan import Plan
from schemas.stage_manifests import BUILD, STAGES
from tokcore import kernel, unicode
from tokcore.canonical import hash_sha256, write_canonical_json
from tokcore.errors import ConfigError
from tokcore.jsonable import to_jsonable


def make_check_report(build: Build) -> dict[str, Any]:
    """What a build would do: its files, sizes, work items and the fingerprints of its settings. Nothing is done."""
    imported = build.imported_tokenizer()
    left_out = LeftOut()
    plan = plan_build(build.config, build.output, left_out)
    samples = sample_plan(build.config, plan, FOR_CHECK)
    findings = check_samples(build.config, samples)
    stopping = [finding for finding in findings if finding.stops]
    estimated = estimate(build.config, samples, build.options.num_workers)
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
        "problems": [*_find_engine_problem(build), *describe(stopping)],
        "warnings": left_out.idle + describe([finding for finding in findings if not finding.stops]),
        "estimates": None if estimated is None else estimated._asdict(),
        "vocab_size": build.config.vocab_sizes[-1] if imported is None else imported.vocab_size,
        "files": len(plan.files),
        "stored_bytes": plan.size_bytes,
        "inputs": _format_inputs(plan),
        "work_items": len(plan.items),
        "partitions": plan.num_partitions,
        "duplicates": list(plan.duplicates),
        "excluded": sorted(left_out.excluded),
        "no_data": dict(sorted(left_out.no_data.items())),
        "tokenizer": None
        if imported is None
        else {"vocab_size": imported.vocab_size, "special": len(imported.special)},
        "settings": settings,
        # Of the input and of each stage's settings. If they are equal, so are the bytes of two builds.
        "fingerprints": {
            "plan": hash_content(plan, write_canonical_json(to_jsonable(plan.settings))),
            **{stage: hash_sha256(write_canonical_json(of_stage)) for stage, of_stage in settings.items()},
        },
        "unicode": unicode.VERSION,
        "kernel": kernel.get_implementation(),
    }


def _find_engine_problem(build: Build) -> Iterator[str]:
    """Why the engine that a build would need cannot be used: no server answers, or its bucket is not there."""
    try:
        build.require_engine(BUILD)
    except ConfigError as error:
        yield str(error)


def _format_inputs(plan: Plan) -> list[dict[str, Any]]:
    """The files of a plan, those that are read alike together."""
    return [
        {
            "lang": read.lang or f"by field {read.lang_field}",
            "format": f"{read.format}.{read.compression}".removesuffix(".none"),
            "files": len(files),
            "stored_bytes": sum(file.size_bytes for file in files),
        }
        for number, read in enumerate(plan.settings)
        if (files := [file for file in plan.files if file.settings == number])
    ]


def print_check(report: dict[str, Any]) -> None:
    """Print the report of `tokcore check`."""
    print(f"output      {report['output']}")
    print(f"holds       {'a different build: see below' if report['refused'] else report['output_holds']}")
    print(f"input       {format_count(report['files'], 'file')}, {format_size(report['stored_bytes'])} as stored")
    width = max((len(read["lang"]) for read in report["inputs"]), default=0)
    for read in report["inputs"]:
        print(
            f"  {read['lang']:<{width}}{read['files']:>10,} {read['format']:<12}{format_size(read['stored_bytes']):>12}"
        )
    print(f"work items  {report['work_items']}, count tables in {format_count(report['partitions'], 'partition')}")
    if (imported := report["tokenizer"]) is not None:
        print(f"tokenizer   imported, {imported['vocab_size']:,} ids, {imported['special']} special tokens")
    if (estimates := report["estimates"]) is not None:
        _print_estimates(estimates, report["vocab_size"])
    print(f"kernel      {report['kernel']}, Unicode {report['unicode']}")
    print("fingerprints of the input and of each stage's settings")
    for name in STAGES:
        if name in report["fingerprints"]:
            print(f"  {name:<12}{report['fingerprints'][name]}")
    for warning in report["warnings"]:
        print(f"warning: {make_printable(warning)}")
    for uri in report["duplicates"]:
        print(f"listed by two patterns, read once: {uri}")
    for what, names in (("excluded", report["excluded"]), ("no data, left out", list(report["no_data"]))):
        if names:
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            print(f"{what}: {', '.join(make_printable(redact(name)) for name in names[:3])}{more}")


def _print_estimates(told: dict[str, Any], vocab_size: int) -> None:
    of = "all of it" if told["is_whole"] else f"a sample of {format_size(told['sample_bytes'])} of text"
    print(f"estimates   from {of}; the time also from how fast it was counted")
    print(f"  text      about {format_size(told['text_bytes'])}, {format_number(told['pretokens'])} pre-tokens")
    print(f"  time      about {format_duration(told['seconds'])} on this machine, without a store's delays")
    print(f"  memory    at most about {format_size(told['memory_bytes'])} in all workers")
    if (least := told["vocab_least"]) == 0:
        return
    most = told["vocab_most"]
    if told["is_whole"]:
        print(f"  largest vocabulary  about {least:,} tokens; it depends on the mix of languages")
    else:
        print(f"  largest vocabulary  {least:,} tokens from the sample alone; all of the text")
        print(
            f"            gives more, but fewer than {format_number(most)}, as if all of it were as new as the sample"
        )
    if vocab_size > most:
        print(f"  vocab_size = {vocab_size:,} is more: lower it, or set allow_smaller = true")


def print_stage(output: str, manifest: AnyManifest) -> None:
    """Print one line about a finished stage."""
    folder = urls.join(output, manifest.stage)
    print(f"{manifest.stage}: {folder}, {format_count(len(manifest.files), 'file')}, content {manifest.content_id()}")


def print_no_work(output: str, stage: str, done: str) -> None:
    """Print that a command found its work done. done: by what verb."""
    print(f"nothing to do: {done}{describe_commit_date(output, stage)}")


def print_verified(report: Report) -> None:
    """Print the report of `tokcore verify`."""
    rate = report.size_bytes / 1e6 / report.seconds if report.seconds else 0
    if report.problems:
        print(describe_problems(report.problems))
        print(f"{format_count(len(report.problems), 'problem')} in {format_count(report.num_files, 'file')}")
        return
    print(
        f"{format_count(report.num_files, 'file')}, {format_size(report.size_bytes)}, {rate:.0f} MB/s: all as committed"
    )
    if report.num_read:
        print(f"{report.num_read:,} documents read: tables, shards, ledgers and manifests agree")
    if report.num_decoded:
        print(f"{report.num_decoded:,} documents decoded and equal to their source")
    if report.num_leftovers:
        print(
            f"{format_count(report.num_leftovers, 'file')} of unfinished work in _attempts: `tokcore gc` removes them"
        )
    print(f"root {report.root}")


def print_repaired(report: Repaired) -> None:
    """Print the report of `tokcore repair`."""
    for path in report.repaired:
        print(f"repaired {make_printable(path)}")
    for reason in report.left:
        print(f"damaged  {make_printable(reason)}")
    if not report.repaired and not report.left:
        print("nothing to repair")
    looked_at = format_count(report.num_files, "file")
    print(f"{looked_at} looked at, {len(report.repaired)} repaired, {len(report.left)} still damaged")


def print_rebuilt(report: Rebuilt) -> None:
    """Print the report of `tokcore verify --rebuild`."""
    if report.problems:
        print(describe_problems(report.problems))
        print(f"{report.shard}: {format_count(len(report.problems), 'problem')}")
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
            print(f"\n{kind}  {_format_pair(what)}")
            continue
        lines = list(_format_diff(what))
        print(f"\n{kind}")
        for line in lines[:_DIFF_LINES]:
            print(f"  {make_printable(line if len(line) <= 200 else line[:197] + '...')}")
        if len(lines) > _DIFF_LINES:
            print(f"  ... and {len(lines) - _DIFF_LINES} more lines (--json shows all)")


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
        print(make_printable(path))
    for path in collected.left:
        print(f"kept: {make_printable(path)}: no manifest names it, but no build wrote it")
    if collected.too_young:
        minutes = int(collected.youngest_seconds or 0) // 60
        print(
            f"nothing removed: a file of unfinished work changed {minutes} minutes ago, so a build may be running. "
            f"The limit is --older-than {older_than}; use 0 if no build is running."
        )
        return
    verb = "would be removed" if dry_run else "removed"
    if collected.num_uploads:
        print(f"{collected.num_uploads:,} unfinished uploads {verb}")
    if collected.uploads_expire:
        print("unfinished uploads: not listed; this store drops them by itself after a week")
    print(f"{format_count(len(collected.removed), 'file')}, {format_size(collected.size_bytes)} {verb}")
