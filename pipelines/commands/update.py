"""`tokcore update`."""

from __future__ import annotations

import json
from typing import Any

import click

from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.commands.command_options import BUILD_FILE, JSON, RunChoices, add_run_options, command
from tokcore_pipelines.commands.open_build import open_build
from tokcore_pipelines.commands.print_commits import print_commit
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.inputs import explain_not_taken
from tokcore_schemas.commit_log import Commit


@command("tokcore update BUILD.toml", "tokcore update BUILD.toml --vanished remove")
@BUILD_FILE
@add_run_options
@click.option(
    "--vanished",
    type=click.Choice(("keep", "remove", "fail")),
    help="What becomes of the documents of input files that are no longer there; replaces update.vanished.",
)
@click.option(
    "--all", "weights", flag_value="all", default="ask", help="Make a mixture whose weights follow from sizes again."
)
@click.option(
    "--keep-weights", "weights", flag_value="keep", help="Let documents come in the mixture as often as they did."
)
@JSON
def update(build_file: str, chosen: RunChoices, vanished: str | None, weights: Any, as_json: bool) -> None:
    """Lists the sources again. Counts and encodes the files that are new, with the tokenizer that is there, as a part
    of its own; a new version of a file replaces its documents. Ends with one commit, which `tokcore log` shows, or with
    none if nothing changed.
    """
    build = open_build(build_file, chosen)
    rule: Any = vanished or build.config.update.vanished
    follow = Update(build.config, build.options, build.output, build.progress, rule, weights=weights)
    commit = follow.run()
    if as_json:
        say_json(json.loads(commit.to_bytes()) if commit is not None else None)
    else:
        print_updated(build.output, commit, chosen.quiet, follow.describe_held_back(commit))
        not_taken = explain_not_taken(build.config, follow.left_out) if commit is None and not chosen.quiet else ""
        if not_taken:
            say(f"not taken: {not_taken}")


def print_updated(output: str, commit: Commit | None, quiet: bool, held_back: str = "") -> None:
    """Print what an update did. commit: None if nothing had changed. quiet: only the root.

    held_back: what tombstones held back, in words; empty: nothing.
    """
    if held_back and not quiet:
        say(f"{redact(output)}: {held_back}")
    if commit is not None:
        say(commit.root) if quiet else print_commit(output, commit)
        return
    log = read_log(output)
    root = log.root()
    say(root if quiet else f"{redact(output)}: nothing changed since commit {log.newest}, root {root}")
