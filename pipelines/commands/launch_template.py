"""The launcher of our Flex Templates: lists and plans the inputs, then writes the graph of a stage for Dataflow.

Google's launcher calls it in a container of our image, with the parameters of the template and with options of Beam's:
where the graph goes (--template_location), project, region and so on. What it knows of [engine] takes the place of the
build file's. deploy/dataflow has the templates. It holds and takes no secrets.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tokcore.errors import ConfigError, TokError
from tokcore_pipelines.commands.command_options import RunChoices
from tokcore_pipelines.commands.fail import EXIT_STAGE, EXIT_USAGE, fail
from tokcore_pipelines.commands.open_build import open_build
from tokcore_pipelines.local.dataflow import NAME
from tokcore_pipelines.local.say import say
from tokcore_pipelines.watch.stream import Stream
from tokcore_schemas.stage_table import COUNTS, REJECTED, SHARDS, STAGES

# What a template starts: the stages that read the corpus, or a stream.
GRAPHS = (*(STAGES[name].command for name in REJECTED.within), "watch")
# Beam's option, as Google's launcher spells it -> the key of [engine].
_ENGINE_KEYS = {
    "project": "project",
    "region": "region",
    "staging_location": "staging",
    "temp_location": "temp",
    "sdk_container_image": "image",
    "network": "network",
    "subnetwork": "subnetwork",
    "service_account_email": "service_account",
    "machine_type": "machine_type",
    "worker_machine_type": "machine_type",
    "max_num_workers": "max_workers",
    "max_workers": "max_workers",
}


def make_parser() -> argparse.ArgumentParser:
    """The parameters of the templates. test_templates compares them with what the templates say."""
    parser = argparse.ArgumentParser(prog="launch_template", description=__doc__, allow_abbrev=False)
    parser.add_argument("--stage", required=True, choices=GRAPHS, help="the stage whose graph is written")
    parser.add_argument("--build_file", required=True, help="URL of the build file")
    parser.add_argument("--output", default="", help="write here, not to build.output")
    parser.add_argument("--sdk_container_image", help="image of the workers; else engine.image of the build file")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the graph. Exit codes are those of tokcore."""
    given, more = make_parser().parse_known_args(arguments)
    try:
        say(launch(given, more), err=True)
    except TokError as error:
        fail(error, EXIT_USAGE if isinstance(error, ConfigError) else EXIT_STAGE)


def launch(given: argparse.Namespace, more: Sequence[str]) -> str:
    """Plan, and write the graph of the stage; what was written. more: options of Beam's, as --NAME=VALUE or --NAME."""
    assigned, rest = split_options(more)
    if given.sdk_container_image:
        assigned.append(f"engine.image={given.sdk_container_image}")
    if not any(option.startswith("--template_location=") for option in rest):
        raise ConfigError("--template_location: missing. Google's launcher gives it; for a job, run tokcore itself")

    build: Any = open_build(given.build_file, RunChoices(given.output, tuple(assigned), runner_options=tuple(rest)))
    if given.stage == SHARDS.command and build.config.shuffle.seed is not None:
        raise ConfigError("[shuffle]: takes two jobs, one after the other. Run: tokcore encode --engine dataflow")
    # It loads Beam, and all modules of commands can be had without.
    from tokcore_pipelines.run.engines.dataflow_engine import TemplateWritten

    try:
        _run(build, given.stage)
    except TemplateWritten as written:
        return str(written)
    raise ConfigError(f"{given.stage}: is done already, so there is nothing to start")


def _run(build: Any, stage: str) -> None:
    if stage == "watch":
        Stream(build.config, build.options, build.output, build.progress).run()
        return
    build.count() if stage == COUNTS.command else build.encode()


def split_options(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """(KEY=VALUE of [engine], options that Beam gets as they are).

    >>> split_options(["--project=mine", "--job_name=a", "--runner=DataflowRunner"])
    (['engine.name=dataflow', 'engine.project=mine'], ['--job_name=a'])
    """
    assigned, rest = {"name": NAME}, []
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        if name in _ENGINE_KEYS:
            assigned[_ENGINE_KEYS[name]] = value
        elif name != "runner":
            rest.append(option)
    if "temp" in assigned:
        assigned.setdefault("staging", assigned["temp"])
    return [f"engine.{key}={value}" for key, value in assigned.items()], rest


if __name__ == "__main__":
    main()
