"""The commands, a row each. A new command is a file in this folder, and its row.

The command line reads rows alone until a command is asked for: what all of them import takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click


class Command(NamedTuple):
    """What is known of a command before its file is imported."""

    does: str  # how its help begins: a sentence
    purpose: str = ""  # the heading that it is listed under
    # Whether it does work, from which the same command goes on. What stops another command is a wrong argument.
    goes_on: bool = False
    has_runner: bool = False  # whether it takes options of a Beam runner after --
    page: str = ""  # where the repository, and the site, say more of it
    is_hidden: bool = False  # an earlier name, which still serves


# What commands are for: the headings of the help, the first things first.
_MAIN = "The main job"
_STAGES = "One stage of a build"
_FOLLOW = "Follow the inputs"
_COMMITS = "Commits, and what they leave out"
_REPAIR = "Repair and clean up"
_JUDGE = "Judge a tokenizer"
_HAND_ON = "Hand on tokenizers and shards"

# The file of a command, which has a function of the same name -> its row, in the order of the help.
_ROWS = {
    "init": Command("Look at a folder; write a build file for it.", _MAIN, page="docs/how-to/begin-a-build.md"),
    "check": Command(
        "Look at the input and the engine, show the plan and estimates; do no work.",
        _MAIN,
        goes_on=True,
        page="docs/how-to/begin-a-build.md",
    ),
    "build": Command(
        "Run every stage that is not done yet.\n\nAfter -- come the options of a Beam runner.",
        _MAIN,
        goes_on=True,
        has_runner=True,
        page="docs/tutorial.md",
    ),
    "verify": Command(
        "Check that an output is what was committed.",
        _MAIN,
        goes_on=True,
        has_runner=True,
        page="docs/how-to/verify-and-repair.md",
    ),
    "show": Command(
        "Show an output's shards, a shard's header, or a document.", _MAIN, page="docs/reference/shards.md"
    ),
    "update": Command(
        "Follow the inputs of a finished build.",
        _FOLLOW,
        goes_on=True,
        has_runner=True,
        page="docs/how-to/update-an-output.md",
    ),
    "watch": Command(
        "Follow the inputs until told to end.",
        _FOLLOW,
        goes_on=True,
        has_runner=True,
        page="docs/how-to/follow-a-bucket.md",
    ),
    "status": Command(
        "Show who watches for an output, what waits, which files are left alone, and whether the tokenizer still fits.",
        _FOLLOW,
        page="docs/how-to/follow-a-bucket.md",
    ),
    "compact": Command(
        "Make few large shards out of the many small ones of updates.",
        _FOLLOW,
        goes_on=True,
        page="docs/how-to/expire-and-compact.md",
    ),
    "log": Command(
        "Show the commits of an output: when, why, and what it held then.",
        _COMMITS,
        page="docs/explanation/outputs-with-a-history.md",
    ),
    "diff": Command(
        "Show what differs between two outputs, or between two commits of one: B is A, then.",
        _COMMITS,
        page="docs/how-to/update-an-output.md",
    ),
    "remove": Command(
        "Take documents out of a finished output.", _COMMITS, goes_on=True, page="docs/how-to/take-documents-down.md"
    ),
    "restore": Command(
        "Take a removal back: what `tokcore remove` took out may come again.",
        _COMMITS,
        page="docs/how-to/take-documents-down.md",
    ),
    "expire": Command(
        "Give up earlier commits of an output, and remove what only they name.",
        _COMMITS,
        page="docs/how-to/expire-and-compact.md",
    ),
    "repair": Command(
        "Make damaged and missing files of an output again.",
        _REPAIR,
        goes_on=True,
        page="docs/how-to/verify-and-repair.md",
    ),
    "fsck": Command(
        "Check that shards keep the rules of their formats.", _REPAIR, page="docs/how-to/check-files-of-others.md"
    ),
    "gc": Command("Remove files that no manifest names.", _REPAIR, page="docs/how-to/expire-and-compact.md"),
    "report": Command(
        "Write a report of a build: one page that works offline, and its numbers as JSON beside it.",
        _JUDGE,
        page="pipelines/look/report/README.md",
    ),
    "evaluate": Command(
        "Measure tokenizers beside each other, on text that was not learned from.",
        _JUDGE,
        page="docs/how-to/judge-a-tokenizer.md",
    ),
    "view": Command(
        "Look at tokens in a browser: of typed text, and of documents.", _JUDGE, page="pipelines/look/view/README.md"
    ),
    "curve": Command(
        "Show bytes per token of every language at every size.", _JUDGE, page="docs/how-to/choose-a-mix.md"
    ),
    "mix_search": Command(
        "Search for weights of languages that reach a stated target.", _JUDGE, page="docs/how-to/choose-a-mix.md"
    ),
    "audit": Command("List odd tokens of an output.", _JUDGE, page="docs/how-to/keep-secrets-out.md"),
    "tokenize": Command(
        "Show how a text is cut into tokens, by one tokenizer or by several.",
        _JUDGE,
        page="docs/how-to/use-a-tokenizer.md",
    ),
    "export": Command("Write the tokenizer in another format.", _HAND_ON, page="docs/how-to/use-a-tokenizer.md"),
    "convert": Command(
        "Write token shards in another format, without tokenizing again.",
        _HAND_ON,
        page="docs/how-to/convert-shards.md",
    ),
    "chunk": Command(
        "Cut documents into chunks for retrieval, each within a budget of tokens.",
        _HAND_ON,
        page="docs/how-to/chunk-for-retrieval.md",
    ),
    "prune": Command(
        "Take out of a tokenizer the tokens that a corpus uses least.",
        _HAND_ON,
        page="docs/how-to/prune-a-tokenizer.md",
    ),
    "vocab_map": Command(
        "Spell the tokens of a new vocabulary in an old one, for the embeddings of a moved model.",
        _HAND_ON,
        page="docs/how-to/prune-a-tokenizer.md",
    ),
    "decode_ids": Command("Decode ids from stdin; write their bytes.", _HAND_ON, page="docs/how-to/use-a-tokenizer.md"),
    "encode_text": Command("Encode stdin; print ids separated by spaces.", is_hidden=True),
    "explain": Command("Show the tokens of a text, and the merges that made each.", is_hidden=True),
}


def list_rows() -> dict[str, Command]:
    """The row of each command, by its name. After the main job come those that make one stage, by their table."""
    from tokcore_schemas.stage_table import STAGES  # loads numpy, without which the version can be told

    stages = {
        one.command: _ROWS["build"]._replace(does=one.does, purpose=_STAGES, page=one.page)
        for one in STAGES.values()
        if one.does
    }
    rows = {name.replace("_", "-"): row for name, row in _ROWS.items()}
    main = {name: row for name, row in rows.items() if row.purpose == _MAIN}
    return main | stages | rows


def load_command(name: str) -> click.Command | None:
    """The command of this name; None if there is none."""
    if name not in list_rows():
        return None
    stem = name.replace("-", "_")
    found: click.Command
    if stem in _ROWS:
        found = getattr(import_module(f"tokcore_pipelines.commands.{stem}"), stem)
    else:
        found = import_module("tokcore_pipelines.commands.stage_commands").find_stage_command(name)
    return found
