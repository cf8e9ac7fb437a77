"""What `tokcore check` finds, and prints for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore.text import unicode
from tokcore_pipelines.begin.check_estimates import check_estimates
from tokcore_pipelines.begin.estimate import estimate
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.plan_corpus import hash_content, plan_build
from tokcore_pipelines.build.source_checks import FOR_CHECK, check_samples, describe, sample_plan
from tokcore_pipelines.build.whole_checks import check_whole
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import format_count, format_duration, format_number, format_size, make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.inputs import LINK, OTHER_SPLIT, LeftOut
from tokcore_schemas.plan import Plan
from tokcore_schemas.stage_table import STAGES, WHOLE


def make_check_report(build: Build, progress: StageProgress) -> dict[str, Any]:
    """What a build would do: its files, sizes, work items and the fingerprints of its settings. Nothing is done."""
    imported = build.imported_tokenizer()
    left_out = LeftOut()
    with progress.stage("list files", minor=True):
        plan = plan_build(build.config, build.output, left_out)
    with progress.stage("read samples", minor=True):
        samples = sample_plan(build.config, plan, FOR_CHECK)
        findings = [*check_samples(build.config, samples), *check_whole(build.config, samples, imported)]
    with progress.stage("estimate", minor=True):
        estimated = estimate(build.config, samples, build.options.num_workers)
        findings += check_estimates(build.config, estimated) if estimated is not None else []
    stopping = [finding for finding in findings if finding.stops]
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
        "warnings": left_out.idle + left_out.links + describe([finding for finding in findings if not finding.stops]),
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
        build.require_engine(WHOLE)
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
    say(f"output      {report['output']}")
    say(f"holds       {'a different build: see below' if report['refused'] else report['output_holds']}")
    say(f"input       {format_count(report['files'], 'file')}, {format_size(report['stored_bytes'])} as stored")
    width = max((len(read["lang"]) for read in report["inputs"]), default=0)
    for read in report["inputs"]:
        say(
            f"  {read['lang']:<{width}}{read['files']:>10,} {read['format']:<12}{format_size(read['stored_bytes']):>12}"
        )
    say(f"work items  {report['work_items']}, count tables in {format_count(report['partitions'], 'partition')}")
    if (imported := report["tokenizer"]) is not None:
        say(f"tokenizer   imported, {imported['vocab_size']:,} ids, {imported['special']} special tokens")
    if (estimates := report["estimates"]) is not None:
        _print_estimates(estimates)
    say(f"kernel      {report['kernel']}, Unicode {report['unicode']}")
    say("fingerprints of the input and of each stage's settings")
    for name in STAGES:
        if name in report["fingerprints"]:
            say(f"  {name:<12}{report['fingerprints'][name]}")
    for warning in report["warnings"]:
        say(f"warning: {make_printable(warning)}")
    for uri in report["duplicates"]:
        say(f"listed twice, read once: {uri}")
    of_other_splits = [name for name, why in report["no_data"].items() if why.startswith(OTHER_SPLIT)]
    links = [name for name, why in report["no_data"].items() if why.startswith(LINK)]
    no_data = [name for name in report["no_data"] if name not in {*of_other_splits, *links}]
    left_out = {
        "excluded": report["excluded"],
        "of another split": of_other_splits,
        "links, left out": links,
        "no data, left out": no_data,
    }
    for what, names in left_out.items():
        if names:
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            say(f"{what}: {', '.join(make_printable(redact(name)) for name in names[:3])}{more}")


def _print_estimates(told: dict[str, Any]) -> None:
    of = "all of it" if told["is_whole"] else f"a sample of {format_size(told['sample_bytes'])} of text"
    say(f"estimates   from {of}; the time also from how fast it was counted")
    say(f"  text      about {format_size(told['text_bytes'])}, {format_number(told['pretokens'])} pre-tokens")
    say(f"  time      about {format_duration(told['seconds'])} on this machine, without a store's delays")
    learning = f"; at most about {format_size(told['learn_bytes'])} to learn" if told["learn_bytes"] else ""
    say(f"  memory    at most about {format_size(told['memory_bytes'])} in all workers{learning}")
    if (least := told["vocab_least"]) == 0:
        return
    most = told["vocab_most"]
    if told["is_whole"]:
        say(f"  largest vocabulary  about {least:,} tokens; it depends on the mix of languages")
    else:
        say(f"  largest vocabulary  {least:,} tokens from the sample alone; all of the text")
        say(f"            gives more, but fewer than {format_number(most)}, as if all of it were as new as the sample")
