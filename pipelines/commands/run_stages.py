"""What commands that run stages have in common."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import click

from tokcore_pipelines.commands.command_options import (
    BUILD_FILE,
    BUILD_FILE_OR_OUTPUT,
    JSON,
    GroupedCommand,
    RunChoices,
    add_run_options,
    format_examples,
)
from tokcore_pipelines.commands.command_table import list_rows
from tokcore_pipelines.commands.open_build import open_build
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.store.retries import describe_retries, list_retries
from tokcore_schemas.stage_table import BUILD, REJECTED, STAGES, Stage


def make_run_command(
    name: str,
    done: str,
    run: Callable[[Any], Any],
    replaceable: tuple[str, ...],
    examples: tuple[str, ...],
    options: tuple[Callable[[click.Command], click.Command], ...] = (),
    of_commit: Callable[..., bool] | None = None,
    source: Callable[..., Any] = BUILD_FILE,
) -> click.Command:
    """A command that runs stages.

    done: what it has done, for a message. run: gets the build. replaceable: what its --replace takes. options: more of
    them. of_commit: gets the build, how it runs, as_json and these options; says whether it did all that there is to
    do. source: what the command is given.
    """

    @click.command(name, cls=GroupedCommand, help=list_rows()[name].does, epilog=format_examples(*examples))
    @source
    @add_run_options
    @click.option(
        "--replace",
        type=click.Choice(replaceable),
        help="Remove what this step made, and all that follows from it; then make it again.",
    )
    @click.option("--from", "reuse", metavar="OUTPUT", help="Take over the stages of this output that still apply.")
    @JSON
    def command(
        build_file: str,
        chosen: RunChoices,
        replace: str | None,
        reuse: str | None,
        as_json: bool,
        show_all: bool = False,
        **more: Any,
    ) -> None:
        is_to_work = name == BUILD or name in {STAGES[one].command for one in REJECTED.within}
        build = open_build(
            build_file, chosen, replace, reuse, is_learned=source is BUILD_FILE_OR_OUTPUT, is_to_work=is_to_work
        )
        if of_commit is not None and of_commit(build, chosen, as_json, **more):
            return
        print_made(build, run(build), done, chosen, as_json, show_all)

    made: click.Command = command
    for option in options:
        made = option(made)
    return made


def make_stage_command(
    stage: Stage[Any],
    run: Callable[[Any], Any] | None = None,
    *,
    replaceable: tuple[str, ...] = (),
    examples: tuple[str, ...] = (),
    **more: Any,
) -> click.Command:
    """The command that makes a stage, by its row. more: as for make_run_command."""
    return make_run_command(
        stage.command,
        stage.done,
        run or operator.methodcaller("derive", stage),
        replaceable or (stage.command,),
        examples or (f"tokcore {stage.command} BUILD.toml",),
        **more,
    )


def print_made(build: Any, manifest: Any, done: str, chosen: RunChoices, as_json: bool, show_all: bool = False) -> None:
    """Print what a command made. done: what it has done, for a message. show_all: all rows of tables."""
    if as_json:
        facts = {"output": build.output, "retries": list_retries(), "metrics": build.metrics}
        say_json({**facts, **json.loads(manifest.to_bytes())})
        return
    if chosen.quiet:
        say(manifest.root or manifest.content_id())
        return
    # Workers start before this is imported.
    from tokcore_pipelines.commands.print_build import print_build, print_metrics, print_no_work, print_stage

    if manifest.stage == BUILD:
        print_build(build.output, manifest, show_all, is_new=bool(build.made))
    else:
        print_stage(build.output, manifest)
    print_metrics(build.metrics)
    if not build.made and build.options.share is None:
        print_no_work(build.output, manifest.stage, done)
    if line := describe_retries():
        say(line)
