"""`tokcore check`."""

from __future__ import annotations

from typing import Any

import click

from tokcore_pipelines.begin.check_build import make_check_report
from tokcore_pipelines.commands.answers import answer
from tokcore_pipelines.commands.command_options import ALLOW_CODE, BUILD_FILE, JSON, OUTPUT, SET, RunChoices, command
from tokcore_pipelines.commands.fail import EXIT_USAGE, fail
from tokcore_pipelines.commands.open_build import open_build
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.say import say
from tokcore_pipelines.local.terminal import (
    WIDTH,
    cut_text,
    format_count,
    format_duration,
    format_number,
    format_size,
    make_printable,
)
from tokcore_pipelines.store.printable import join_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.inputs import LINK, OTHER_SPLIT
from tokcore_schemas.stage_table import STAGES


@command("tokcore check BUILD.toml", "tokcore check BUILD.toml --output s3://bucket/out")
@BUILD_FILE
@OUTPUT
@SET
@click.option(
    "--rule",
    metavar="N|map.N|mask|dedup",
    help="Show documents on both sides of filter N, counted from 0; or more of what a step, [mask] or [dedup] does.",
)
@ALLOW_CODE
@JSON
def check(build_file: str, output: str, assigned: tuple[str, ...], rule: str | None, as_json: bool) -> None:
    """Reads the start of some files of each source, and names wrong fields and formats; asks whether the engine's
    server answers, or Dataflow's bucket for staging is there. Exit code 2 if any of these would stop a build, or if the
    output holds a different build.
    """
    progress = StageProgress()
    with progress.stage("check", minor=True):
        report = make_check_report(open_build(build_file, RunChoices(output, assigned)), progress, rule)
    answer(report, as_json, print_check)
    if report["refused"]:  # as `tokcore build` would
        fail(report["output_holds"], EXIT_USAGE)
    if report["problems"]:
        fail(join_lines(*report["problems"]), EXIT_USAGE)


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
    say(f"work items  {report['work_items']}, counts in {format_count(report['ranges'], 'range')}")
    if (imported := report["tokenizer"]) is not None:
        say(f"tokenizer   imported, {imported['vocab_size']:,} ids, {imported['special']} special tokens")
    if (estimates := report["estimates"]) is not None:
        _print_estimates(estimates)
    _print_maps(report["maps"])
    if report["mask"] is not None:
        _print_mask(report["mask"])
    _print_filters(report["filters"])
    if report["duplicates_in_sample"] is not None:
        _print_duplicates(report["duplicates_in_sample"])
    if report["rule"] is not None:
        _print_rule(report["rule"])
    say(f"kernel      {report['kernel']}, Unicode {report['unicode']}")
    say("fingerprints of the input, and of each stage with what it is made from")
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


def _print_mask(told: dict[str, Any]) -> None:
    """What the mask would find in the sample."""
    dropped = f", drops {told['dropped']:,}" if told["dropped"] else ""
    say(f"mask        {format_count(told['documents'], 'sampled document')}{dropped}")
    for one in told["kinds"]:
        say(f"  {one['kind']:<16}{format_count(one['spans'], 'span')} in {format_count(one['documents'], 'document')}")
        for example in one["examples"]:
            _print_example(example | {"values": {"at byte": example["start"]}})


def _print_duplicates(told: dict[str, Any]) -> None:
    """Which documents of the sample are duplicates of others in it. In all of the input there are more."""
    share = f" ({100 * told['duplicates'] / told['documents']:.3g} %)" if told["documents"] else ""
    compared = format_count(told["documents"], f"sampled {told['of']}")
    say(f"dedup       drops {told['duplicates']:,} of {compared}, of the sample alone{share}")
    for example in told["examples"]:
        kept = example["stays"]
        _print_example(example | {"values": {"equal to": f"{kept['file']}, record {kept['record']:,}"}})


def _print_maps(told: list[dict[str, Any]]) -> None:
    """What each step of [[map]] would make of the sample."""
    for number, one in enumerate(told):
        changes = f"drops {one['dropped']:,} and changes {one['changed']:,}"
        say(f"map {number}       {one['name']}: {changes} of {one['documents']:,} sampled")
        _print_reasons(one)


def _print_reasons(told: dict[str, Any]) -> None:
    """How often each reason counts, and examples."""
    for reason, num in told["reasons"].items():
        if reason != told["name"]:
            say(f"  {reason.partition('.')[2]:<28}{num:>8,}")
    for example in told["examples"]:
        _print_example(example)


def _print_filters(told: list[dict[str, Any]]) -> None:
    """What each rule would drop of the sample."""
    for number, one in enumerate(told):
        share = f" ({100 * one['dropped'] / one['documents']:.3g} %)" if one["documents"] else ""
        say(f"filter {number}    {one['name']}: drops {one['dropped']:,} of {one['documents']:,} sampled{share}")
        _print_reasons(one)


def _print_rule(told: dict[str, Any]) -> None:
    """Documents on both sides of a rule."""
    for side in ("dropped", "kept"):
        say(f"{side} by {told['name']}, the nearest to its limits first" if told[side] else f"none is {side}")
        for example in told[side]:
            _print_example(example)


def _print_example(one: dict[str, Any]) -> None:
    values = ", ".join(f"{name} = {value}" for name, value in one["values"].items())
    say(cut_text(f"  {one['file']}, record {one['record']:,}, {one['lang']}: {make_printable(values)}", WIDTH))
    say(cut_text(f"    {make_printable(one['text'])}", WIDTH))


def _print_estimates(told: dict[str, Any]) -> None:
    of = "all of it" if told["is_whole"] else f"a sample of {format_size(told['sample_bytes'])} of text"
    say(f"estimates   from {of}; the time also from how fast it was counted")
    say(f"  text      about {format_size(told['text_bytes'])}, {format_number(told['pretokens'])} pre-tokens")
    say(f"  time      about {format_duration(told['seconds'])} on this machine, without a store's delays")
    say(f"  memory    at most about {format_size(told['memory_bytes'])} in all workers")
    if told["learn_bytes"]:
        most = "" if told["is_whole"] else f", at most {format_size(told['learn_most_bytes'])}"
        say(f"            about {format_size(told['learn_bytes'])} to learn{most}")
    if (least := told["vocab_least"]) == 0:
        return
    most = told["vocab_most"]
    if told["is_whole"]:
        say(f"  largest vocabulary  about {least:,} tokens; it depends on the mix of languages")
    else:
        say(f"  largest vocabulary  {least:,} tokens from the sample alone; all of the text")
        say(f"            gives more, but fewer than {format_number(most)}, as if all of it were as new as the sample")
