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
    # Whether it does work, from which the same command goes on. What stops another command is a wrong argument.
    goes_on: bool = False
    has_runner: bool = False  # whether it takes options of a Beam runner after --
    is_hidden: bool = False  # an earlier name, which still serves


# The file of a command, which has a function of the same name -> its row, in the order of work, which the help keeps.
_ROWS = {
    "init": Command("Look at a folder; write a build file for it."),
    "check": Command("Look at the input and the engine, show the plan and estimates; do no work.", goes_on=True),
    "build": Command(
        "Run every stage that is not done yet.\n\nAfter -- come the options of a Beam runner.",
        goes_on=True,
        has_runner=True,
    ),
    "update": Command("Follow the inputs of a finished build.", goes_on=True, has_runner=True),
    "watch": Command("Follow the inputs until told to end.", goes_on=True, has_runner=True),
    "status": Command(
        "Show who watches for an output, what waits, which files are left alone, and whether the tokenizer still fits."
    ),
    "verify": Command("Check that an output is what was committed.", goes_on=True, has_runner=True),
    "log": Command("Show the commits of an output: when, why, and what it held then."),
    "remove": Command("Take documents out of a finished output.", goes_on=True),
    "restore": Command("Take a removal back: what `tokcore remove` took out may come again."),
    "expire": Command("Give up earlier commits of an output, and remove what only they name."),
    "compact": Command("Make few large shards out of the many small ones of updates.", goes_on=True),
    "repair": Command("Make damaged and missing files of an output again.", goes_on=True),
    "show": Command("Show an output's shards, a shard's header, or a document."),
    "curve": Command("Show bytes per token of every language at every size."),
    "audit": Command("List odd tokens of an output."),
    "report": Command("Write a report of a build: one page that works offline, and its numbers as JSON beside it."),
    "view": Command("Look at tokens in a browser: of typed text, and of documents."),
    "export": Command("Write the tokenizer in another format."),
    "convert": Command("Write token shards in another format, without tokenizing again."),
    "chunk": Command("Cut documents into chunks for retrieval, each within a budget of tokens."),
    "prune": Command("Take out of a tokenizer the tokens that a corpus uses least."),
    "vocab_map": Command("Spell the tokens of a new vocabulary in an old one, for the embeddings of a moved model."),
    "fsck": Command("Check that shards keep the rules of their formats."),
    "tokenize": Command("Show how a text is cut into tokens, by one tokenizer or by several."),
    "encode_text": Command("Encode stdin; print ids separated by spaces.", is_hidden=True),
    "decode_ids": Command("Decode ids from stdin; write their bytes."),
    "explain": Command("Show the tokens of a text, and the merges that made each.", is_hidden=True),
    "diff": Command("Show what differs between two outputs, or between two commits of one: B is A, then."),
    "gc": Command("Remove files that no manifest names."),
}


def list_rows() -> dict[str, Command]:
    """The row of each command, by its name. After `build` come those that make one stage, by the table of stages."""
    from tokcore_schemas.stage_table import STAGES  # loads numpy, without which the version can be told

    rows = {}
    for name, row in _ROWS.items():
        rows[name.replace("_", "-")] = row
        if name == "build":
            rows |= {one.command: row._replace(does=one.does) for one in STAGES.values() if one.does}
    return rows


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
