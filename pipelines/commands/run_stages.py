"""What commands that run stages have in common."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.commands.command_inputs import make_absolute
from tokcore_pipelines.commands.command_options import (
    BUILD_FILE,
    BUILD_FILE_OR_OUTPUT,
    JSON,
    RunChoices,
    add_run_options,
    format_examples,
)
from tokcore_pipelines.commands.command_table import list_rows
from tokcore_pipelines.commands.open_build import open_build
from tokcore_pipelines.local.run_options import parse_slice
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

    @click.command(name, help=list_rows()[name].does, epilog=format_examples(*examples))
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
        build = open_to_run(
            build_file, chosen, replace, reuse, is_learned=source is BUILD_FILE_OR_OUTPUT, is_to_work=is_to_work
        )
        if of_commit is not None and of_commit(build, chosen, as_json, **more):
            return
        manifest = run(build)
        if as_json:
            print_as_json(build, manifest)
        elif chosen.quiet:
            say(manifest.root or manifest.content_id())
        else:
            print_for_people(build, manifest, done, show_all)

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


def open_to_run(
    build_file: str,
    chosen: RunChoices,
    replace: str | None = None,
    reuse: str | None = None,
    *,
    is_learned: bool = False,
    is_to_work: bool = False,
) -> Any:
    """The build, with the stage to make again and the output to take stages from.

    is_learned, is_to_work: as for open_build.
    """
    if chosen.quiet and chosen.verbose:
        raise click.UsageError("--quiet and --verbose exclude each other: leave one of them out")
    from_other = make_absolute(reuse) if reuse else ""
    assigned = chosen.assigned
    if chosen.engine is not None:
        assigned += (f"engine.name={chosen.engine}",)
    if chosen.shared_filesystem:
        assigned += ("engine.shared_filesystem=true",)
    build = open_build(
        build_file,
        chosen.output,
        assigned,
        chosen.workers,
        chosen.runner_options,
        chosen.detach,
        _find_slice(chosen.share, chosen.lease, chosen.waits),
        is_learned=is_learned,
        is_to_work=is_to_work,
        replace=replace or "",
        reuse=from_other,
    )
    build.progress.level = -1 if chosen.quiet else int(chosen.verbose)
    return build


def _find_slice(share: str | None, lease: float, waits: bool) -> Any:
    if share is not None:
        return parse_slice(share, lease, waits)
    if not waits:
        raise ConfigError("--no-wait: is for --slice I/N. Leave it out.")
    return None


def print_as_json(build: Any, manifest: Any) -> None:
    facts = {"output": build.output, "retries": list_retries(), "metrics": build.metrics}
    say_json({**facts, **json.loads(manifest.to_bytes())})


def print_for_people(build: Any, manifest: Any, done: str, show_all: bool) -> None:
    """Print what the stage made. done: what the command has done, for a message. show_all: all rows of tables."""
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
