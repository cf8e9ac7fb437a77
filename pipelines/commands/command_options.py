"""Arguments and options that several commands share, and the examples below their help."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tokcore_pipelines.commands.command_table import list_rows
from tokcore_pipelines.store.allowed_code import ALLOW_CODE as ALLOW_CODE_OPTION
from tokcore_pipelines.store.allowed_code import allow_code


class _OfEngines(click.Option):
    heading = "On an engine"


class _OfSlices(click.Option):
    heading = "On several hosts, without an engine"


class GroupedCommand(click.Command):
    """A command whose help lists options below their headings, those of its own first, and ends with its page."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if page := list_rows()[self.name or ""].page:
            formatter.write(f"\n  More: {page}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed: dict[str, list[tuple[str, str]]] = {"Options": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is not None:
                listed.setdefault(getattr(one, "heading", "Options"), []).append(record)
        for heading, records in listed.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class _BuildFile(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if Path(value).is_dir():
            self.fail(f"{value!r} is a folder: name the build file, even of an output that is there", param, ctx)
        return super().convert(value, param, ctx)


BUILD_FILE = click.argument("build_file", metavar="BUILD.toml", type=_BuildFile())
BUILD_FILE_OR_OUTPUT = click.argument("build_file", metavar="BUILD.toml|OUTPUT")

OUTPUT = click.option(
    "--output", metavar="URL", default="", help="Write here, not to build.output; relative to the current folder."
)

SET = click.option(
    "--set",
    "assigned",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the build file: learn.vocab_size=65536, source.0.text=content, "
    "source.text=content for every source. VALUE is TOML; a string needs no quotes. Repeatable.",
)

ALLOW_CODE = click.option(
    ALLOW_CODE_OPTION,
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda _context, _option, is_allowed: allow_code(is_allowed),
    help="Run the functions that [[map]] names: code, with your rights.",
)

SET_ENGINE = click.option(
    "--set",
    "assigned",
    multiple=True,
    metavar="KEY=VALUE",
    help="What a build file would say of engine and storage: engine.endpoint=HOST:PORT. Repeatable.",
)

WORKERS = click.option(
    "--workers", type=int, metavar="N", help="Worker processes; default: one per core that it may use."
)

_ENGINE = click.option(
    "--engine",
    type=click.Choice(("local", "direct", "flink", "prism", "portable", "dataflow")),
    help="Where the work is done: replaces engine.name. Its address: --set engine.endpoint=HOST:PORT; for dataflow: "
    "--set engine.project=ID, and so on.",
    cls=_OfEngines,
)

_DETACH = click.option(
    "--detach",
    is_flag=True,
    help="Ctrl-C and SIGTERM leave the engine's job running; the next run goes on with it.",
    cls=_OfEngines,
)
_SHARED = click.option(
    "--shared-filesystem",
    is_flag=True,
    help="All hosts of the engine see the local paths of this machine.",
    cls=_OfEngines,
)

_LEASE_SECONDS = 60.0
_SLICE = click.option(
    "--slice",
    "share",
    metavar="I/N",
    help="One of N hosts that do this work together, without an engine: each runs the same command with its own I. "
    "They share the output.",
    cls=_OfSlices,
)
_LEASE = click.option(
    "--lease",
    type=float,
    default=_LEASE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="With --slice: a host that shows no sign of life for so long has its work done by others.",
    cls=_OfSlices,
)
_WAIT = click.option(
    "--wait/--no-wait",
    "waits",
    default=True,
    help="With --slice: wait for other hosts, or name them and end (code 4).",
    cls=_OfSlices,
)

_HOSTS = (_ENGINE, _SHARED, _DETACH)
_SLICES = (_SLICE, _LEASE, _WAIT)

TOKENIZER = click.option(
    "--tokenizer",
    "path",
    required=True,
    metavar="URL",
    help="An output, tokcore.json, tokenizer.json, a folder of them, a rank file, or vocab.json with merges.txt.",
)

VOCAB_SIZE = click.option(
    "--vocab-size",
    type=click.IntRange(1),
    metavar="N",
    help="Of an output with tokenizers of several sizes: that size; default: the one that encoded the shards.",
)

PATTERN = click.option("--pattern", metavar="NAME|REGEX", help="For a rank file or vocab.json: the split pattern.")

END_ID = click.option(
    "--end", type=click.IntRange(0), metavar="ID", help="The id that ends each document, for files without bounds."
)

READ_DTYPE = click.option(
    "--from-dtype",
    "read_dtype",
    default="",
    metavar="DTYPE",
    help="Dtype of the ids, for files that do not say it: uint16, ...",
)

SHARDS_VOCAB_SIZE = click.option(
    "--vocab-size", type=click.IntRange(1), metavar="N", help="Every id is below it; default: what the files say."
)

AT = click.option(
    "--at", type=click.IntRange(0), metavar="COMMIT", help="The output as it was at this commit; default: the newest."
)

AT_ANY = click.option(
    "--at", type=click.IntRange(0), metavar="COMMIT", help="The parts of this commit; default: those of all."
)

BASE = click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")

DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")

JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")

ALL = click.option("--all", "show_all", is_flag=True, help="Show all rows, not only the first ones.")

_QUIET = click.option("-q", "--quiet", is_flag=True, help="Show no progress, and only the hash of the result.")

_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Also say what each stage finds, makes and commits.")


@dataclass(frozen=True)
class RunChoices:
    """What a command line says of how to run stages: the options that add_run_options adds, by their names there."""

    output: str
    assigned: tuple[str, ...]
    engine: str | None = None
    shared_filesystem: bool = False
    detach: bool = False
    workers: int | None = None
    quiet: bool = False
    verbose: bool = False
    runner_options: tuple[str, ...] = ()
    share: str | None = None  # these three only of builds
    lease: float = _LEASE_SECONDS
    waits: bool = True


def add_run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that run stages; the command gets them as one argument, chosen."""
    return _add_options(command, (OUTPUT, SET, *_HOSTS, *_SLICES, WORKERS, ALLOW_CODE, _QUIET, _VERBOSE))


def add_unsliced_run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As add_run_options, for a command that is no build which several hosts could share."""
    return _add_options(command, (OUTPUT, SET, *_HOSTS, WORKERS, ALLOW_CODE, _QUIET, _VERBOSE))


def add_check_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As add_run_options, for a command that works on an output: its argument, output, is in chosen, too."""
    return _add_options(command, (SET_ENGINE, *_HOSTS, *_SLICES, WORKERS))


def _add_options(command: Callable[..., Any], options: tuple[Callable[..., Any], ...]) -> Callable[..., Any]:
    @functools.wraps(command)
    def gather(*arguments: Any, **given: Any) -> Any:
        fields = [field.name for field in dataclasses.fields(RunChoices)]
        chosen = RunChoices(**{name: given.pop(name) for name in fields if name in given})
        return command(*arguments, chosen=chosen, **given)

    runner = click.argument("runner_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUNNER OPTIONS]")
    return functools.reduce(lambda inner, add: add(inner), reversed((*options, runner)), gather)


def format_examples(*lines: str) -> str:
    """The end of a help text: lines that click does not wrap."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def command(*examples: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command: the row of its name begins its help, and its docstring goes on from there."""

    def decorate(function: Callable[..., None]) -> click.Command:
        does = list_rows()[function.__name__.replace("_", "-")].does
        text = "\n\n".join(filter(None, (does, inspect.getdoc(function))))
        return click.command(cls=GroupedCommand, help=text, epilog=format_examples(*examples))(function)

    return decorate


REASON = click.option("--reason", default="", metavar="TEXT", help="Why, for `tokcore log`.")
BY = click.option("--by", default="", metavar="NAME", help="Who asked for it, for `tokcore log`.")
