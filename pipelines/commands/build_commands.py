"""init, check, update, build, and the commands that make one stage each, as the table of stages has them."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.commands.command_inputs import (
    EXIT_USAGE,
    expand_local_path,
    expand_path,
    fail,
    make_absolute,
    open_build,
    print_json,
    show_progress,
)
from tokcore_pipelines.commands.command_options import (
    ALL,
    BUILD_FILE,
    BUILD_FILE_OR_OUTPUT,
    JSON,
    OUTPUT,
    SET,
    RunChoices,
    add_run_options,
    format_examples,
)
from tokcore_pipelines.local.say import say, write_data
from tokcore_schemas.stage_table import BUILD, COUNTS, PLAN, REJECTED, SHARDS, STAGES, TOKENIZER, list_commands


@click.command(epilog=format_examples("tokcore init data", "tokcore init s3://bucket/corpus -o corpus.toml"))
@click.argument("folder", metavar="FOLDER|URL")
@click.option(
    "-o", "path", default="build.toml", show_default=True, metavar="FILE", help="Write this file; - for stdout."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(folder: str, path: str, force: bool) -> None:
    """Look at a folder; write a build file for it.

    Finds formats, fields, languages (by folder, file or field) and sizes from the start of some files. The file that
    it writes has comments, passes `tokcore check`, and builds as it is.
    """
    from tokcore_pipelines.begin.build_text import write_build_text
    from tokcore_pipelines.begin.propose import propose
    from tokcore_pipelines.local.terminal import format_count
    from tokcore_pipelines.store import urls

    to_stdout = path == "-"
    target = Path.cwd() / ("build.toml" if to_stdout else expand_local_path(path))
    if target.exists() and not (force or to_stdout):
        raise ConfigError(f"{target}: is there already. Name another file with -o, or replace it with --force")
    if not to_stdout and not target.parent.is_dir():
        raise ConfigError(f"{target}: there is no folder {target.parent}. Make it, or name another file with -o")
    with show_progress("init"):
        proposal = propose(urls.resolve(str(Path.cwd()), expand_path(folder)))
        text = write_build_text(proposal, str(target))
    if to_stdout:
        write_data(text.encode())
        return
    target.write_text(text, encoding="utf-8")
    sources = format_count(len(proposal.sources), "source")
    files = format_count(sum(source.num_files for source in proposal.sources), "file")
    say(f"{path}: {sources}, {files}, {len(proposal.left_out):,} left out")
    say(f"Read it, then: tokcore check {path}; tokcore build {path}")


@click.command(epilog=format_examples("tokcore check BUILD.toml", "tokcore check BUILD.toml --output s3://bucket/out"))
@BUILD_FILE
@OUTPUT
@SET
@JSON
def check(build_file: str, output: str, assigned: tuple[str, ...], as_json: bool) -> None:
    """Look at the input and the engine, show the plan and estimates; do no work.

    Reads the start of some files of each source, and names wrong fields and formats; asks whether the engine's server
    answers, or Dataflow's bucket for staging is there. Exit code 2 if any of these would stop a build, or if the output
    holds a different build.
    """
    from tokcore_pipelines.commands.print_check import make_check_report, print_check
    from tokcore_pipelines.local.progress import StageProgress

    progress = StageProgress()
    with progress.stage("check", minor=True):
        report = make_check_report(open_build(build_file, output, assigned, None, ()), progress)
    print_json(report) if as_json else print_check(report)
    if report["refused"]:  # as `tokcore build` would
        fail(report["output_holds"], EXIT_USAGE)
    if report["problems"]:
        fail("\n".join(report["problems"]), EXIT_USAGE)


_LEARN_AT = click.option(
    "--at",
    type=click.IntRange(0),
    metavar="COMMIT",
    help="Learn from the tables of this commit; default: the newest, of an output that has commits.",
)
_ENCODE_AT = click.option(
    "--at", type=click.IntRange(0), metavar="COMMIT", help="With -o: the documents of this commit; default: the newest."
)
_OF_TOKENIZER = click.option(
    "--tokenizer",
    metavar="FINGERPRINT|URL",
    help="With -o: one of the output's tokenizers, by how its fingerprint begins, or another one.",
)
_INTO = click.option("-o", "target", metavar="OUTPUT", help="Write the documents of a commit into this new output.")


class _Runs(NamedTuple):
    """What a command that runs stages has of its own."""

    run: Callable[[Any], Any]  # the build
    replaceable: tuple[str, ...]  # what its --replace takes
    examples: tuple[str, ...]
    options: tuple[Callable[[click.Command], click.Command], ...] = ()
    # Gets the build, how it runs, as_json and options of its own; says whether it did all that there is to do.
    of_commit: Callable[..., bool] | None = None
    source: Callable[..., Any] = BUILD_FILE  # what the command is given


def _make_command(name: str, text: str, done: str, of: _Runs) -> click.Command:
    """A command that runs stages. done: what it has done, for a message."""

    @click.command(name, help=text, epilog=format_examples(*of.examples))
    @of.source
    @add_run_options
    @click.option(
        "--replace",
        type=click.Choice(of.replaceable),
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
            build_file, chosen, replace, reuse, is_learned=of.source is BUILD_FILE_OR_OUTPUT, is_to_work=is_to_work
        )
        if of.of_commit is not None and of.of_commit(build, chosen, as_json, **more):
            return
        manifest = of.run(build)
        if as_json:
            _print_as_json(build, manifest)
        elif chosen.quiet:
            say(manifest.root or manifest.content_id())
        else:
            _print_for_people(build, manifest, done, show_all)

    made: click.Command = command
    for option in of.options:
        made = option(made)
    return made


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
    from tokcore_pipelines.local.run_options import parse_slice

    if share is not None:
        return parse_slice(share, lease, waits)
    if not waits:
        raise ConfigError("--no-wait: is for --slice I/N. Leave it out.")
    return None


def _print_as_json(build: Any, manifest: Any) -> None:
    from tokcore_pipelines.store.retries import list_retries

    facts = {"output": build.output, "retries": list_retries(), "metrics": build.metrics}
    print_json({**facts, **json.loads(manifest.to_bytes())})


def _print_for_people(build: Any, manifest: Any, done: str, show_all: bool) -> None:
    """Print what the stage made. done: what the command has done, for a message. show_all: all rows of tables."""
    from tokcore_pipelines.commands.print_build import print_build, print_metrics, print_no_work, print_stage
    from tokcore_pipelines.store.retries import describe_retries

    if manifest.stage == BUILD:
        print_build(build.output, manifest, show_all, is_new=bool(build.made))
    else:
        print_stage(build.output, manifest)
    print_metrics(build.metrics)
    if not build.made and build.options.share is None:
        print_no_work(build.output, manifest.stage, done)
    if line := describe_retries():
        say(line)


@click.command(
    epilog=format_examples("tokcore update BUILD.toml", "tokcore update BUILD.toml --vanished remove"),
)
@BUILD_FILE
@add_run_options
@click.option(
    "--vanished",
    type=click.Choice(("keep", "remove", "fail")),
    help="What becomes of the documents of input files that are no longer there; replaces update.vanished.",
)
@JSON
def update(build_file: str, chosen: RunChoices, vanished: str | None, as_json: bool) -> None:
    """Follow the inputs of a finished build.

    Lists the sources again. Counts and encodes the files that are new, with the tokenizer that is there, as a part of
    its own; a new version of a file replaces its documents. Ends with one commit, which `tokcore log` shows, or with
    none if nothing changed.
    """
    from tokcore_pipelines.commands.print_log import print_updated
    from tokcore_pipelines.history.update_output import Update

    build = open_to_run(build_file, chosen)
    rule: Any = vanished or build.config.update.vanished
    follow = Update(build.config, build.options, build.output, build.progress, rule)
    commit = follow.run()
    if as_json:
        print_json(json.loads(commit.to_bytes()) if commit is not None else None)
    else:
        print_updated(build.output, commit, chosen.quiet, follow.describe_held_back(commit))


def _learn_at(build: Any, chosen: RunChoices, as_json: bool, at: int | None) -> bool:
    """Learn from a commit: the one that is named, or the newest of an output that has some after its build.

    Of a build file that was made of an output's manifests, learns from the newest commit in any case.
    """
    from tokcore_pipelines.build.read_log import has_commits
    from tokcore_pipelines.commands.print_log import print_learned
    from tokcore_pipelines.history.learn_beside import learn_at

    if at is None and build.config.sources and not has_commits(build.output):
        return False
    learned = learn_at(build, at)
    if as_json:
        print_json([one._asdict() for one in learned])
    else:
        print_learned(build.output, learned, chosen.quiet)
    return True


def _encode_at(
    build: Any, chosen: RunChoices, as_json: bool, at: int | None, tokenizer: str | None, target: str | None
) -> bool:
    """Encode the documents of a commit into a new output, if one is named."""
    from tokcore_pipelines.history.encode_commit import is_fingerprint, make_encoding

    if at is None and tokenizer is None and target is None:
        return False
    if target is None:
        raise ConfigError("--at and --tokenizer make a new output: name it with -o OUTPUT")
    named = tokenizer if not tokenizer or is_fingerprint(tokenizer) else make_absolute(tokenizer)
    encoding = make_encoding(build, make_absolute(target), at, named or "")
    manifest = encoding.run()
    if as_json:
        _print_as_json(encoding, manifest)
    elif chosen.quiet:
        say(manifest.root)
    else:
        _print_for_people(encoding, manifest, "encoded", False)
    return True


def make_stage_command(name: str) -> click.Command | None:
    """The command that makes a stage, by its row; None if there is no such command."""
    stage = next((one for one in STAGES.values() if one.command == name and one.does), None)
    if stage is None:
        return None
    plain = _Runs(operator.methodcaller("derive", stage), (name,), (f"tokcore {name} BUILD.toml",))
    return _make_command(name, stage.does, stage.done, _OWN.get(name, plain))


_OWN = {
    COUNTS.command: _Runs(
        operator.methodcaller("count"), (PLAN.command, COUNTS.command), (f"tokcore {COUNTS.command} BUILD.toml",)
    ),
    TOKENIZER.command: _Runs(
        operator.methodcaller("learn"),
        (TOKENIZER.command,),
        (
            "tokcore learn BUILD.toml",
            "tokcore learn BUILD.toml --at 3 --set learn.vocab_size=65536",
            "tokcore learn out/first --set learn.vocab_size=65536",
        ),
        (_LEARN_AT,),
        _learn_at,
        BUILD_FILE_OR_OUTPUT,
    ),
    SHARDS.command: _Runs(
        operator.methodcaller("encode"),
        (SHARDS.command,),
        ("tokcore encode BUILD.toml", "tokcore encode BUILD.toml --at 3 --tokenizer 0a1b2c3d -o out/second"),
        (_INTO, _OF_TOKENIZER, _ENCODE_AT),
        _encode_at,
    ),
}

COMMANDS = (
    init,
    check,
    update,
    _make_command(
        BUILD,
        "Run every stage that is not done yet.\n\nAfter -- come the options of a Beam runner.",
        "built",
        _Runs(
            operator.methodcaller("run"),
            tuple(list_commands()),
            (
                "tokcore build BUILD.toml",
                "tokcore build BUILD.toml --output out/second --from out/first",
                "tokcore build BUILD.toml --set learn.vocab_size=65536 --replace learn",
                "tokcore build BUILD.toml --slice 2/16",
                "tokcore build BUILD.toml -- --runner=FlinkRunner --parallelism=64",
            ),
            (ALL,),
        ),
    ),
)
