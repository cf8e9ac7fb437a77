"""The command line. Results on stdout, progress and logs on stderr.

Exit codes: 0 done, 1 verification found a problem or diff a difference, 2 usage or configuration, 3 a stage failed; as
for any program of a shell, 130 interrupted from the keyboard, 141 nobody reads the output any more, 143 sent SIGTERM.
"""

from __future__ import annotations

import atexit
import dataclasses
import gc
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

# There is no linear algebra here, whose library would start a thread for every core when numpy is imported, as it is
# below, and have it wait for work without rest.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tokcore.errors import ConfigError, TokError

EXIT_PROBLEM, EXIT_USAGE, EXIT_STAGE = 1, 2, 3
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE, EXIT_TERMINATED = 130, 141, 143

# They run no stage: what stops them is what the user named.
_TOOLS = frozenset({"audit", "diff", "gc", "export", "show", "encode-text", "decode-ids"})


class _Terminated(KeyboardInterrupt):
    """SIGTERM: a scheduler's Ctrl-C."""


class _Commands(click.Group):
    """Turns our errors into one message and the documented exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            _fail(error, EXIT_USAGE)
        except TokError as error:
            _fail(error, EXIT_USAGE if ctx.invoked_subcommand in _TOOLS else EXIT_STAGE)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more
            sys.exit(EXIT_BROKEN_PIPE)
        except OSError as error:
            if error.filename is None:
                raise
            code = EXIT_USAGE if ctx.invoked_subcommand in _TOOLS else EXIT_STAGE
            _fail(f"{os.fsdecode(error.filename)}: {error.strerror}", code)
        except KeyboardInterrupt as signalled:
            kept = "" if ctx.invoked_subcommand in _TOOLS else "; run the same command again and it goes on from here"
            if isinstance(signalled, _Terminated):
                _fail(f"terminated{kept}", EXIT_TERMINATED)
            _fail(f"interrupted{kept}", EXIT_INTERRUPTED)


def _fail(error: Exception | str, code: int) -> NoReturn:
    from pipelines.store.redaction import redact

    # Names of files and texts that a message quotes must not act on a terminal.
    shown = "".join(c if c == "\n" or c.isprintable() else " " for c in redact(str(error)))
    click.echo(f"error: {shown}", err=True)
    sys.exit(code)


def main() -> NoReturn:
    """Entry point of the console command; ends the process."""
    # Beam tells about an optional cloud library through the root logger as soon as it is imported.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s", stream=sys.stderr, force=True)
    # Hardly anything here is cyclic, and a tokenizer is half a million objects to look at, again and again.
    gc.set_threshold(1 << 17)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        commands()
    except SystemExit as ended:
        _leave(ended.code)
    except BaseException as defect:
        _show_defect(defect)
    _leave(1)


def _leave(code: str | int | None) -> NoReturn:
    """End the process without taking the interpreter apart.

    When a stage has failed, Beam's other threads are still at work. Python would end each of them where it wakes up
    next, and the C++ that waits below it answers that with an abort, or crashes.
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


def _show_defect(error: BaseException) -> None:
    """What nobody expected, with its traceback, but without the secrets of what it quotes."""
    from pipelines.store.redaction import redact

    click.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tokcore")
def commands() -> None:
    """From raw multilingual corpora to a tokenizer and verified token shards."""


_BUILD_FILE = click.argument("build_file", metavar="BUILD.toml", type=click.Path(dir_okay=False))
_OUTPUT = click.option(
    "--output", metavar="URL", default="", help="Overrides build.output; relative to the current folder."
)
_WORKERS = click.option("--workers", type=int, metavar="N", help="Worker processes; default: one per core.")
_TOKENIZER = click.option("--tokenizer", "path", required=True, help="tokcore.json, its folder, or an output.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    runner = click.argument("runner_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUNNER OPTIONS]")
    return _OUTPUT(_WORKERS(runner(command)))


@commands.command()
@_BUILD_FILE
@_OUTPUT
@_JSON
def check(build_file: str, output: str, as_json: bool) -> None:
    """Plan, sizes, fingerprints; no work."""
    from pipelines.report import check_report, print_check

    report = check_report(_build(build_file, output, None, ()))
    _print_json(report) if as_json else print_check(report)
    if report["refused"]:  # as `tokcore build` would
        _fail(report["output_holds"], EXIT_USAGE)


def _stage_command(name: str, run: Callable[[Any], Any], text: str) -> None:
    @commands.command(name, help=text)
    @_BUILD_FILE
    @_run_options
    @_JSON
    def command(
        build_file: str, output: str, workers: int | None, runner_options: tuple[str, ...], as_json: bool
    ) -> None:
        from pipelines.report import print_build, print_stage

        build = _build(build_file, output, workers, runner_options)
        manifest = run(build)
        if as_json:
            _print_json({"output": build.output, **json.loads(manifest.to_bytes())})
        elif manifest.stage == "build":
            print_build(build.output, manifest)
        else:
            print_stage(build.output, manifest)


_stage_command("build", lambda build: build.run(), "Run every stage whose manifest is missing.")
_stage_command("count", lambda build: build.count(), "Plan and count pre-tokens per language.")
_stage_command("learn", lambda build: build.learn(), "Learn the tokenizer from the count tables.")
_stage_command("encode", lambda build: build.encode(), "Tokenize the corpus into shards.")


@commands.command()
@click.argument("output")
@click.option(
    "--decode", default="0", metavar="N|all", help="Compare so many documents, or a few more, with their source."
)
@click.option("--root", metavar="HEX", help="The root that the output must have.")
@click.option("--quick", is_flag=True, help="Hash what is stored; read nothing out of shards and tables.")
@click.option("--rebuild", metavar="SHARD", help="Compute this shard again from its inputs, and compare; only that.")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it moved since.")
@_WORKERS
@_JSON
def verify(
    output: str,
    decode: str,
    root: str | None,
    quick: bool,
    rebuild: str | None,
    base: str,
    workers: int | None,
    as_json: bool,
) -> None:
    """Check that an output is what was committed and that all its parts agree; with --decode, against its source."""
    from pipelines.inspect.verify import verify as run
    from pipelines.local.run_options import RunOptions
    from pipelines.report import print_verified
    from pipelines.store import urls

    if rebuild is not None:
        if decode != "0" or root is not None or quick:
            raise click.UsageError("--rebuild stands alone: --decode, --root and --quick are about the whole output")
        _rebuild(urls.resolve(os.getcwd(), output), rebuild, base, as_json)  # noqa: PTH109 - resolve wants a str
        return
    if decode != "all" and not decode.isdecimal():
        raise click.BadParameter(f"{decode!r}: expected a number of documents, or all", param_hint="--decode")
    if root == "":  # a script's empty variable must not pass for a root that was compared
        raise click.BadParameter("expected the root as hexadecimal digits, found nothing", param_hint="--root")
    report = run(
        urls.resolve(os.getcwd(), output),  # noqa: PTH109 - resolve wants a str
        decode=None if decode == "all" else int(decode),
        root=(root or "").lower(),
        quick=quick,
        base=base,
        options=RunOptions(workers),
    )
    _print_json(dataclasses.asdict(report)) if as_json else print_verified(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


def _rebuild(output: str, shard: str, base: str, as_json: bool) -> None:
    from pipelines.inspect.rebuild import rebuild
    from pipelines.report import print_rebuilt

    report = rebuild(output, shard, base)
    _print_json(dataclasses.asdict(report)) if as_json else print_rebuilt(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


@commands.command()
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@_JSON
def diff(one: str, other: str, as_json: bool) -> None:
    """What differs between two outputs: configuration, inputs, counts, merges, documents, shards. Exit 1 if anything.

    The outputs need not be finished: what both have is compared.
    """
    from pipelines.inspect.diff import diff as run
    from pipelines.report import print_diff
    from pipelines.store import urls

    one, other = (urls.resolve(os.getcwd(), output) for output in (one, other))  # noqa: PTH109
    found = run(one, other)
    _print_json(found) if as_json else print_diff(found, one, other)
    if found:
        sys.exit(EXIT_PROBLEM)


@commands.command("gc")
@click.argument("output")
@click.option("--dry-run", is_flag=True, help="Say what would be removed.")
@click.option(
    "--older-than", default="24h", show_default=True, metavar="DURATION", help="90s, 30m, 24h, 7d; 0: at once."
)
@_JSON
def collect(output: str, dry_run: bool, older_than: str, as_json: bool) -> None:
    """Remove what no manifest names: unfinished work, files of stages that were never committed.

    Nothing is removed while the youngest of it is younger than DURATION, so that a running build is safe.
    """
    from pipelines.inspect.gc import gc as run
    from pipelines.report import print_collected
    from pipelines.store import urls

    collected = run(urls.resolve(os.getcwd(), output), older_than, dry_run)  # noqa: PTH109 - resolve wants a str
    if as_json:
        _print_json({"dry_run": dry_run, **dataclasses.asdict(collected)})
    else:
        print_collected(collected, dry_run, older_than)


@commands.command()
@click.argument("output")
@click.option(
    "--rare",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Ids written at most N times are rare.",
)
@click.option("--sources", is_flag=True, help="Also find ids that come from one file; reads all shards.")
@_JSON
def audit(output: str, rare: int, sources: bool, as_json: bool) -> None:
    """Odd tokens of an output: never or rarely written, unreachable, of one document or file, invisible characters."""
    from pipelines.inspect.audit import audit as run
    from pipelines.inspect.audit import print_audit
    from pipelines.store import urls

    tokenizer = _tokenizer(output)
    report = run(urls.resolve(os.getcwd(), output), tokenizer, rare, sources)  # noqa: PTH109 - resolve wants a str
    _print_json(report) if as_json else print_audit(report)


@commands.command()
@click.argument("output")
@click.option("--to", "target", type=click.Choice(["huggingface", "tiktoken", "gpt2"]), required=True)
@click.option("-o", "path", required=True, type=click.Path(), help="A file; a folder for gpt2.")
def export(output: str, target: str, path: str) -> None:
    """Write the tokenizer in a format of the field: tokenizer.json, a rank file, or vocab.json + merges.txt."""
    from tokcore.formats import gpt2, huggingface, tiktoken

    spec = _tokenizer(output).spec
    left_out = ""
    if target == "huggingface":
        Path(path).write_bytes(huggingface.tokenizer_json(spec))
    elif target == "tiktoken":
        Path(path).write_bytes(tiktoken.rank_file(spec))
        left_out = tiktoken.left_out(spec)
    else:
        files = gpt2.vocabulary_files(spec)
        left_out = gpt2.left_out(spec)
        Path(path).mkdir(parents=True, exist_ok=True)
        for name, data in files:
            (Path(path) / name).write_bytes(data)
    if left_out:
        click.echo(f"note: {left_out}", err=True)


@commands.command()
@click.argument("shard", metavar="SHARD[:DOCUMENT]")
@_JSON
def show(shard: str, as_json: bool) -> None:
    """A shard's header, or one document's tokens."""
    from pipelines.report import print_shown, shown

    path, _, row = shard.rpartition(":")
    if not path or not row.isdecimal():
        path, row = shard, ""
    report = shown(path, int(row) if row else None)
    _print_json(report) if as_json else print_shown(report)


@commands.command("encode-text")
@_TOKENIZER
def encode_text(path: str) -> None:
    """Text on stdin, token ids on stdout, separated by spaces."""
    ids = _tokenizer(path).encode(sys.stdin.buffer.read())
    sys.stdout.write(" ".join(map(str, ids.tolist())) + "\n")


@commands.command("decode-ids")
@_TOKENIZER
def decode_ids(path: str) -> None:
    """Token ids on stdin, separated by white space, their bytes on stdout."""
    words = sys.stdin.buffer.read().split()
    if wrong := [word for word in words if not word.isdigit() or len(word) > len(str(2**31))]:
        raise ConfigError(f"stdin: {wrong[0][:20].decode(errors='replace')!r} is not a token id")
    sys.stdout.buffer.write(_tokenizer(path).decode([int(word) for word in words]))


def _tokenizer(path: str) -> Any:
    """The tokenizer of a local path as Tokenizer.load finds it, or of an output at a URL."""
    from pipelines.store import urls
    from pipelines.work.decode_item import load_tokenizer
    from tokcore import Tokenizer

    return Tokenizer.load(urls.local_path(path)) if urls.is_local(path) else load_tokenizer(path)


def _build(build_file: str, output: str, workers: int | None, runner_options: tuple[str, ...]) -> Any:
    from pipelines.local.run_options import RunOptions
    from pipelines.stages.build import Build
    from pipelines.store import urls
    from schemas.config import load_config

    if runner_options and not runner_options[0].startswith("-"):
        raise click.UsageError(f"got one argument too many: {runner_options[0]!r} (runner options begin with --)")
    where = urls.resolve(os.getcwd(), output) if output else ""  # noqa: PTH109 - resolve wants a str
    return Build(load_config(build_file), RunOptions(workers, runner_options), where)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, default=str))


if __name__ == "__main__":
    main()
