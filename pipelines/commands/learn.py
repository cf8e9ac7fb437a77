"""`tokcore learn`."""

from __future__ import annotations

import operator
from typing import Any

import click

from tokcore_pipelines.commands.command_inputs import (
    print_json,
)
from tokcore_pipelines.commands.command_options import (
    BUILD_FILE_OR_OUTPUT,
    RunChoices,
)
from tokcore_pipelines.commands.run_stages import make_stage_command
from tokcore_schemas.stage_table import TOKENIZER

_AT = click.option(
    "--at",
    type=click.IntRange(0),
    metavar="COMMIT",
    help="Learn from the tables of this commit; default: the newest, of an output that has commits.",
)


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


learn = make_stage_command(
    TOKENIZER,
    operator.methodcaller("learn"),
    examples=(
        "tokcore learn BUILD.toml",
        "tokcore learn BUILD.toml --at 3 --set learn.vocab_size=65536",
        "tokcore learn out/first --set learn.vocab_size=65536",
    ),
    options=(_AT,),
    of_commit=_learn_at,
    source=BUILD_FILE_OR_OUTPUT,
)
