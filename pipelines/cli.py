"""The command line. Results on stdout, progress and logs on stderr.

Exit codes: 0 done, 1 verify or fsck found a problem, repair left one or diff found a difference, 2 the command line or
build file is wrong, 3 a stage failed, 4 a slice needs others and was told not to wait. 130 Ctrl-C, 141 another program
stopped reading the output, 143 SIGTERM, as in any shell.
"""

from __future__ import annotations

import atexit
import difflib
import gc
import io
import itertools
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

# numpy's linear algebra library starts a thread for every core when it is imported, and each waits in a busy loop. We
# use no linear algebra.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore_pipelines.commands.command_options import format_examples
from tokcore_pipelines.commands.command_table import Command, list_rows, load_command
from tokcore_pipelines.commands.fail import EXIT_STAGE, EXIT_USAGE, EXIT_WAITS, fail
from tokcore_pipelines.local.say import LogFormatter, say, say_message
from tokcore_pipelines.local.spare_pandas import spare_pandas
from tokcore_pipelines.local.threads import (
    describe_shortage,
    describe_small_space,
    limit_thread_starts,
    spare_address_space,
)
from tokcore_pipelines.run.slices.outcomes import SliceWaits

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

EXIT_INTERRUPTED, EXIT_BROKEN_PIPE, EXIT_TERMINATED = 130, 141, 143

# Ours, though not all commands that run stages have them.
_OF_SLICES = frozenset({"--slice", "--lease", "--wait", "--no-wait"})


class _Terminated(KeyboardInterrupt):
    """SIGTERM: a scheduler's Ctrl-C."""


class _Commands(click.Group):
    """The commands, in the order of work; our errors become one message and the documented exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of their table; click would sort them."""
        return [*list_rows()]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands below what they are for."""
        rows = {name: row for name, row in list_rows().items() if not row.is_hidden}
        for purpose, named in itertools.groupby(rows, key=lambda name: rows[name].purpose):
            with formatter.section(purpose):
                formatter.write_dl([(name, rows[name].does.partition("\n\n")[0]) for name in named])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A stand-in, which a list of commands takes for it: its name and how its help begins."""
        row = list_rows().get(cmd_name)
        return None if row is None else click.Command(cmd_name, help=row.does, hidden=row.is_hidden)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the command itself; of a word that is none, says which one is close to it."""
        try:
            name, _, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            shown = [name for name, row in list_rows().items() if not row.is_hidden]
            close = difflib.get_close_matches(args[0], shown, 2)
            if not close:
                raise
            meant = " or ".join(f"'{name}'" for name in close)
            raise click.UsageError(f"{error.message} Did you mean {meant}?", ctx) from error
        if name is None:  # while a shell completes it
            return None, None, rest
        ctx.invoked_subcommand = name  # not later: a signal may come while it is imported
        return name, load_command(name), rest

    def invoke(self, ctx: click.Context) -> Any:
        if small := describe_small_space():
            fail(small, EXIT_USAGE)
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if not _get_row(ctx).has_runner or error.option_name in _OF_SLICES:
                raise
            raise click.UsageError(
                f"{error.format_message()} Options of a Beam runner come after --: "
                f"tokcore {ctx.invoked_subcommand} BUILD.toml -- {error.option_name}=...",
                error.ctx,
            ) from error
        except (ConfigError, FormatError) as error:
            if shortage := describe_shortage(error):  # neither the build file nor bytes are to blame
                fail(shortage, EXIT_STAGE)
            fail(error, EXIT_USAGE if isinstance(error, ConfigError) else _choose_code(ctx))
        except SliceWaits as error:
            fail(error, EXIT_WAITS)
        except TokError as error:
            if shortage := describe_shortage(error.__cause__):
                fail(f"{error}: {shortage}", EXIT_STAGE)
            fail(error, _choose_code(ctx))
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it again
            sys.exit(EXIT_BROKEN_PIPE)
        except (MemoryError, ImportError, RuntimeError) as error:
            if shortage := describe_shortage(error):
                fail(shortage, EXIT_STAGE)
            if (loop := str(error)).startswith("Symlink loop from "):  # as Path.resolve says it
                fail(f"{loop}: a link that leads back to itself", _choose_code(ctx))
            raise
        except OSError as error:
            if shortage := describe_shortage(error):
                fail(shortage, EXIT_STAGE)
            if error.filename is None:
                raise
            fail(f"{os.fsdecode(error.filename)}: {error.strerror}", _choose_code(ctx))
        except KeyboardInterrupt as signalled:
            kept = "; run the same command again to go on from here" if _get_row(ctx).goes_on else ""
            if isinstance(signalled, _Terminated):
                fail(f"terminated{kept}", EXIT_TERMINATED)
            fail(f"interrupted{kept}", EXIT_INTERRUPTED)


def _get_row(ctx: click.Context) -> Command:
    """The row of the command that was given, as soon as that is known."""
    return list_rows().get(ctx.invoked_subcommand or "", Command(""))


def _choose_code(ctx: click.Context) -> int:
    """The exit code of what a command cannot read or write."""
    return EXIT_STAGE if _get_row(ctx).goes_on else EXIT_USAGE


def main() -> NoReturn:
    """Entry point of the console command; ends the process."""
    # As soon as Beam is imported, it warns about a missing cloud library through the root logger.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[handler], force=True)
    # We make hardly any reference cycles, and each collection would visit the half million objects of a tokenizer.
    # Our imports and Beam's make 220,000 objects, which is below the threshold: none of them starts a collection.
    gc.set_threshold(1 << 18)
    spare_pandas()
    limit_thread_starts()
    spare_address_space()
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _send_again
    threading.excepthook = lambda ended: _show_defect(ended.exc_value) if ended.exc_value is not None else None
    try:
        run()
    except SystemExit as ended:
        _leave(ended.code)
    except BaseException as defect:
        if shortage := describe_shortage(defect):
            say_message(f"error: {shortage}")
            _leave(EXIT_STAGE)
        _show_defect(defect)
    _leave(1)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; ends with SystemExit. arguments: of the command line; None: those of this process."""
    try:
        sys.exit(commands.main(arguments, "tokcore", standalone_mode=False))
    except click.ClickException as error:  # a wrong command line: what click would print
        text = io.StringIO()
        error.show(text)
        say(*text.getvalue().rstrip("\n").split("\n"), err=True)
        sys.exit(error.exit_code)
    except click.Abort as error:  # a signal before a command had begun
        is_terminated = isinstance(error.__cause__, _Terminated)
        fail("terminated" if is_terminated else "interrupted", EXIT_TERMINATED if is_terminated else EXIT_INTERRUPTED)


def _leave(code: str | int | None) -> NoReturn:
    """End the process without finalizing the interpreter.

    After a stage has failed, Beam's other threads still run. Python would end each of them when it next takes the GIL,
    and C++ code that waits for the GIL in such a thread aborts or crashes.
    """
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        code = EXIT_BROKEN_PIPE
    os._exit(code if isinstance(code, int) else int(code is not None))


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def _send_again(dropped: UnraisableHookArgs) -> None:
    """Send a signal again whose exception was dropped: Python does that in callbacks, such as those of imports."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    number = signal.SIGTERM if isinstance(dropped.exc_value, _Terminated) else signal.SIGINT
    later = threading.Timer(0.01, os.kill, (os.getpid(), number))  # sent now, it would be dropped here, too
    later.daemon = True
    later.start()


def _show_defect(error: BaseException) -> None:
    """Print the traceback of an unexpected error, without secrets."""
    from tokcore_pipelines.store.redaction import redact  # loads fsspec

    say_message(redact("".join(traceback.format_exception(error))))


_AFTER_COMMANDS = (
    format_examples(
        "tokcore init FOLDER                 write a build file for what is there",
        "tokcore check BUILD.toml            what would be done, without doing it",
        "tokcore build BUILD.toml            do it; the same command resumes it",
        "tokcore verify OUTPUT --decode all  check every file and every document",
        "tokcore show OUTPUT                 look at what came out",
    )
    + """

\b
Exit codes:
  0         done
  1         verify, fsck or repair found a problem, or diff a difference
  2         the command line or the build file is wrong
  3         a stage failed
  4         a slice needs what others have not done, and was not to wait
  130, 143  interrupted by Ctrl-C or SIGTERM: the same command goes on
  141       another program stopped reading the output, as head does

\b
Shell completion, for bash (zsh and fish likewise):
  eval "$(_TOKCORE_COMPLETE=bash_source tokcore)"

Results go to stdout, progress and errors to stderr.

More: docs/index.md
"""
)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_AFTER_COMMANDS)
@click.version_option(package_name="tokcore")
def commands() -> None:
    """From raw multilingual corpora to a tokenizer and verified token shards."""


if __name__ == "__main__":
    main()
