"""`tokcore learn`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tokcore_pipelines.commands.command_options import BUILD_FILE_OR_OUTPUT, RunChoices
from tokcore_pipelines.commands.run_stages import make_stage_command
from tokcore_pipelines.local.say import say, say_json
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.stage_table import TOKENIZER

if TYPE_CHECKING:
    from tokcore_pipelines.history.learn_beside import LearnedBeside

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
    # Workers of `tokcore count` and `encode` start before this is imported.
    from tokcore_pipelines.build.read_log import has_commits
    from tokcore_pipelines.history.learn_beside import learn_at

    if at is None and build.config.sources and not has_commits(build.output):
        return False
    learned = learn_at(build, at)
    if as_json:
        say_json([one._asdict() for one in learned])
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


def print_learned(output: str, learned: Sequence[LearnedBeside], quiet: bool) -> None:
    """Print the tokenizers that were learned from a commit. quiet: only their fingerprints."""
    for one in learned:
        there = "" if one.is_new else ", which was there"
        said = f"tokenizer {one.fingerprint}: {one.vocab_size:,} ids, in {redact(urls.join(output, one.path))}{there}"
        say(one.fingerprint if quiet else said)
