"""The command line. Results on stdout, progress and logs on stderr.

Exit codes: 0 done, 1 verify or fsck found a problem, repair left one or diff found a difference, 2 the command line or
build file is wrong, 3 a stage failed. 130 Ctrl-C, 141 another program stopped reading the output, 143 SIGTERM, as in
any shell.
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
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

import click

# numpy's linear algebra library starts a thread for every core when it is imported, and each waits in a busy loop. We
# use no linear algebra.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tokcore.errors import ConfigError, TokError
from tokcore.format_table import SHARD_FORMATS
from tokcore.formats.exports import EXPORTS, export_to

EXIT_PROBLEM, EXIT_USAGE, EXIT_STAGE = 1, 2, 3
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE, EXIT_TERMINATED = 130, 141, 143

# These run no stage. What stops them is a wrong argument, so they end with EXIT_USAGE.
_TOOLS = frozenset({"init", "audit", "diff", "gc", "export", "convert", "fsck", "show", "encode-text", "decode-ids"})


# These run stages, on the runner that the options after -- name.
_STAGES = frozenset({"build", "count", "learn", "encode"})


class _Terminated(KeyboardInterrupt):
    """SIGTERM: a scheduler's Ctrl-C."""


class _Commands(click.Group):
    """The commands, in the order of work; our errors become one message and the documented exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order in which this module defines them; click would sort them."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if ctx.invoked_subcommand not in _STAGES:
                raise
            raise click.UsageError(
                f"{error.format_message()} Options of a Beam runner come after --: "
                f"tokcore {ctx.invoked_subcommand} BUILD.toml -- {error.option_name}=...",
                error.ctx,
            ) from error
        except ConfigError as error:
            _fail(error, EXIT_USAGE)
        except TokError as error:
            _fail(error, EXIT_USAGE if ctx.invoked_subcommand in _TOOLS else EXIT_STAGE)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it again
            sys.exit(EXIT_BROKEN_PIPE)
        except OSError as error:
            if error.filename is None:
                raise
            code = EXIT_USAGE if ctx.invoked_subcommand in _TOOLS else EXIT_STAGE
            _fail(f"{os.fsdecode(error.filename)}: {error.strerror}", code)
        except KeyboardInterrupt as signalled:
            kept = "" if ctx.invoked_subcommand in _TOOLS else "; run the same command again to go on from here"
            if isinstance(signalled, _Terminated):
                _fail(f"terminated{kept}", EXIT_TERMINATED)
            _fail(f"interrupted{kept}", EXIT_INTERRUPTED)


def _fail(error: Exception | str, code: int) -> NoReturn:
    from pipelines.store.redaction import redact

    # A message may quote file names and texts; their control characters must not reach a terminal.
    shown = "".join(c if c == "\n" or c.isprintable() else " " for c in redact(str(error)))
    click.echo(f"error: {shown}", err=True)
    sys.exit(code)


def main() -> NoReturn:
    """Entry point of the console command; ends the process."""
    # As soon as Beam is imported, it warns about a missing cloud library through the root logger.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s", stream=sys.stderr, force=True)
    # We make hardly any reference cycles, and each collection would visit the half million objects of a tokenizer.
    gc.set_threshold(1 << 17)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        commands(prog_name="tokcore")
    except SystemExit as ended:
        _leave(ended.code)
    except BaseException as defect:
        _show_defect(defect)
    _leave(1)


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


def _show_defect(error: BaseException) -> None:
    """Print the traceback of an unexpected error, without secrets."""
    from pipelines.store.redaction import redact

    click.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)


def _format_examples(*lines: str) -> str:
    """The end of a help text: lines that click does not wrap."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


_AFTER_COMMANDS = (
    _format_examples(
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
  130, 143  interrupted by Ctrl-C or SIGTERM: the same command goes on
  141       another program stopped reading the output, as head does

\b
Shell completion, for bash (zsh and fish likewise):
  eval "$(_TOKCORE_COMPLETE=bash_source tokcore)"

Results go to stdout, progress and errors to stderr.
"""
)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_AFTER_COMMANDS)
@click.version_option(package_name="tokcore")
def commands() -> None:
    """From raw multilingual corpora to a tokenizer and verified token shards."""


_BUILD_FILE = click.argument("build_file", metavar="BUILD.toml", type=click.Path(dir_okay=False))
_OUTPUT = click.option(
    "--output", metavar="URL", default="", help="Write here, not to build.output; relative to the current folder."
)
_SET = click.option(
    "--set",
    "assigned",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the build file: learn.vocab_size=65536, source.0.text=content, "
    "source.text=content for every source. VALUE is TOML; a string needs no quotes. Repeatable.",
)
_WORKERS = click.option("--workers", type=int, metavar="N", help="Worker processes; default: one per core.")
_ENGINE = click.option(
    "--engine",
    type=click.Choice(("local", "prism", "portable")),
    help="Where the work is done: engine.name of the build file. --set engine.endpoint=HOST:PORT says more.",
)
_SHARED = click.option(
    "--shared-filesystem", is_flag=True, help="All hosts of the engine see the local paths of this one."
)
_TOKENIZER = click.option(
    "--tokenizer",
    "path",
    required=True,
    metavar="URL",
    help="An output, tokcore.json, tokenizer.json, a folder of them, or a rank file.",
)
_PATTERN = click.option("--pattern", metavar="NAME|REGEX", help="For a rank file: its split pattern.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_ALL = click.option("--all", "show_all", is_flag=True, help="Show all rows, not only the first ones.")
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Show no progress, and only the hash of the result.")
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Also say what each stage finds, makes and commits.")


def _add_run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    runner = click.argument("runner_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUNNER OPTIONS]")
    return _OUTPUT(_SET(_ENGINE(_SHARED(_WORKERS(_QUIET(_VERBOSE(runner(command))))))))


@commands.command(epilog=_format_examples("tokcore init data", "tokcore init s3://bucket/corpus -o corpus.toml"))
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
    from pipelines.inspect.build_text import write_build_text
    from pipelines.inspect.propose import propose
    from pipelines.store import urls

    to_stdout = path == "-"
    target = Path.cwd() / ("build.toml" if to_stdout else _expand(path))
    if target.exists() and not (force or to_stdout):
        raise ConfigError(f"{target}: is there already. Name another file with -o, or replace it with --force")
    if not to_stdout and not target.parent.is_dir():
        raise ConfigError(f"{target}: there is no folder {target.parent}. Make it, or name another file with -o")
    with _show_progress("init"):
        proposal = propose(urls.resolve(str(Path.cwd()), _expand(folder)))
        text = write_build_text(proposal, str(target))
    if to_stdout:
        click.echo(text, nl=False)
        return
    target.write_text(text, encoding="utf-8")
    num_files = sum(source.num_files for source in proposal.sources)
    click.echo(f"{path}: {len(proposal.sources)} sources, {num_files:,} files, {len(proposal.left_out):,} left out")
    click.echo(f"Read it, then: tokcore check {path}; tokcore build {path}")


@commands.command(
    epilog=_format_examples("tokcore check BUILD.toml", "tokcore check BUILD.toml --output s3://bucket/out")
)
@_BUILD_FILE
@_OUTPUT
@_SET
@_JSON
def check(build_file: str, output: str, assigned: tuple[str, ...], as_json: bool) -> None:
    """Look at the input, show the plan and estimates; do no work.

    Reads the start of some files of each source: wrong fields and formats are named. Ends with exit code 2 if they
    would stop a build, or if the output holds a different one.
    """
    from pipelines.print_reports import make_check_report, print_check

    with _show_progress("check"):
        report = make_check_report(_build(build_file, output, assigned, None, ()))
    _print_json(report) if as_json else print_check(report)
    if report["refused"]:  # as `tokcore build` would
        _fail(report["output_holds"], EXIT_USAGE)
    if report["problems"]:
        _fail("\n".join(report["problems"]), EXIT_USAGE)


def _stage_command(
    name: str, done: str, run: Callable[[Any], Any], replaceable: tuple[str, ...], text: str, *examples: str
) -> None:
    """done: what the command has done, for a message. replaceable: the stages that --replace takes."""

    @commands.command(name, help=text, epilog=_format_examples(*examples))
    @_BUILD_FILE
    @_add_run_options
    @click.option(
        "--replace",
        type=click.Choice(replaceable),
        help="Remove what this step made, and all that follows from it; then make them again.",
    )
    @click.option("--from", "reuse", metavar="OUTPUT", help="Take over from this output the stages that still apply.")
    @_JSON
    def command(
        build_file: str,
        output: str,
        assigned: tuple[str, ...],
        engine: str | None,
        shared_filesystem: bool,
        workers: int | None,
        runner_options: tuple[str, ...],
        quiet: bool,
        verbose: bool,
        replace: str | None,
        reuse: str | None,
        as_json: bool,
        show_all: bool = False,
    ) -> None:
        from pipelines.print_build import print_build
        from pipelines.print_reports import print_no_work, print_stage
        from pipelines.store.retries import describe_retries, list_retries

        if quiet and verbose:
            raise click.UsageError("--quiet and --verbose exclude each other: leave one of them out")
        from_other = _make_absolute(reuse) if reuse else ""
        if engine is not None:
            assigned += (f"engine.name={engine}",)
        if shared_filesystem:
            assigned += ("engine.shared_filesystem=true",)
        build = _build(build_file, output, assigned, workers, runner_options, replace=replace or "", reuse=from_other)
        build.progress.level = -1 if quiet else int(verbose)
        manifest = run(build)
        if as_json:
            facts = {"output": build.output, "retries": list_retries()}
            _print_json({**facts, **json.loads(manifest.to_bytes())})
        elif quiet:
            click.echo(manifest.root or manifest.content_id())
        elif manifest.stage == "build":
            print_build(build.output, manifest, show_all)
        else:
            print_stage(build.output, manifest)
        if not (build.made or as_json or quiet):
            print_no_work(build.output, manifest.stage, done)
        if not (as_json or quiet) and (line := describe_retries()):
            click.echo(line)

    if name == "build":
        _ALL(command)


_stage_command(
    "build",
    "built",
    lambda build: build.run(),
    ("plan", "count", "learn", "encode"),
    "Run every stage that is not done yet.\n\nAfter -- come the options of a Beam runner.",
    "tokcore build BUILD.toml",
    "tokcore build BUILD.toml --output out/second --from out/first",
    "tokcore build BUILD.toml --set learn.vocab_size=65536 --replace learn",
    "tokcore build BUILD.toml -- --runner=FlinkRunner --parallelism=64",
)
_stage_command(
    "count",
    "counted",
    lambda build: build.count(),
    ("plan", "count"),
    "Plan, then count pre-tokens for each language.",
    "tokcore count BUILD.toml",
)
_stage_command(
    "learn",
    "learned",
    lambda build: build.learn(),
    ("learn",),
    "Learn the tokenizer from the count tables.",
    "tokcore learn BUILD.toml",
)
_stage_command(
    "encode",
    "encoded",
    lambda build: build.encode(),
    ("encode",),
    "Tokenize the corpus into shards.",
    "tokcore encode BUILD.toml",
)


@commands.command(
    epilog=_format_examples(
        "tokcore verify out/first",
        "tokcore verify out/first --decode 1000 --root a689...d024",
        "tokcore verify out/first --rebuild train-00000-00000",
    )
)
@click.argument("output")
@click.option(
    "--decode",
    default="0",
    metavar="N|all",
    help="Decode at least N documents and compare them with their source.",
)
@click.option("--root", metavar="HEX", help="Fail unless the output has this root.")
@click.option("--quick", is_flag=True, help="Only hash the files; do not read shards and tables.")
@click.option("--rebuild", metavar="SHARD", help="Only compute this shard again from its inputs, and compare.")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
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
    """Check that an output is what was committed.

    Hashes every file, then checks that shards, tables, ledgers and manifests agree. With --decode, also compares
    documents with their source. Exit code 1 if there is a problem.
    """
    from pipelines.inspect.verify import verify as run
    from pipelines.local.progress import StageProgress
    from pipelines.local.run_options import RunOptions
    from pipelines.print_reports import print_verified

    if rebuild is not None:
        if decode != "0" or root is not None or quick:
            raise click.UsageError(
                "--rebuild checks one shard; leave out --decode, --root and --quick, which check the whole output"
            )
        _rebuild(_make_absolute(output), rebuild, _expand(base), as_json)
        return
    if decode != "all" and not decode.isdecimal():
        raise click.BadParameter(f"{decode!r}: expected a number of documents, or all", param_hint="--decode")
    if root == "":  # a script's empty variable must not pass for a root that was compared
        raise click.BadParameter("expected the root, as hexadecimal digits; found an empty string", param_hint="--root")
    report = run(
        _make_absolute(output),
        decode=None if decode == "all" else int(decode),
        root=(root or "").lower(),
        quick=quick,
        base=_expand(base),
        options=RunOptions(workers),
        progress=StageProgress(),
    )
    _print_json(dataclasses.asdict(report)) if as_json else print_verified(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


@commands.command(epilog=_format_examples("tokcore repair out/first"))
@click.argument("output")
@click.option("--base", default="", metavar="FOLDER", help="Folder of the build file, if it has moved.")
@_WORKERS
@_JSON
def repair(output: str, base: str, workers: int | None, as_json: bool) -> None:
    """Make damaged and missing files of an output again.

    From the pinned inputs, and from what is left. A file gets its place only if its bytes are those that were
    committed. Exit code 1 if something stays damaged; each such file is named, with what to do.
    """
    from pipelines.inspect.repair import repair as run
    from pipelines.local.run_options import RunOptions
    from pipelines.print_reports import print_repaired

    report = run(_make_absolute(output), base, RunOptions(workers))
    _print_json(dataclasses.asdict(report)) if as_json else print_repaired(report)
    if report.left:
        sys.exit(EXIT_PROBLEM)


def _rebuild(output: str, shard: str, base: str, as_json: bool) -> None:
    from pipelines.inspect.rebuild import rebuild
    from pipelines.print_reports import print_rebuilt

    with _show_progress("rebuild"):
        report = rebuild(output, shard, base)
    _print_json(dataclasses.asdict(report)) if as_json else print_rebuilt(report)
    if report.problems:
        sys.exit(EXIT_PROBLEM)


@commands.command(
    epilog=_format_examples(
        "tokcore show out/first",
        "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow",
        "tokcore show out/first/shards/arrow/train-00000-00000-KEY.arrow:7 --all",
    )
)
@click.argument("what", metavar="OUTPUT|SHARD[:N]")
@click.option("--tokenizer", "path", default="", help="Tokenizer that wrote the shard; default: that of its output.")
@_ALL
@_JSON
def show(what: str, path: str, show_all: bool, as_json: bool) -> None:
    """Show an output's shards, a shard's header, or a document.

    For document N, counted from 0, shows the text beside the tokens, as much as fits on a screen.
    """
    from pipelines import show as run

    url = _make_absolute(what)
    name, _, row = url.rpartition(":")
    if name and row.isdecimal():
        document = run.read_document(name, int(row), _load_tokenizer(path) if path else None)
        _print_json(document.as_json()) if as_json else run.print_document(document, show_all)
    elif run.names_a_shard(url):
        described = run.describe_shard(url)
        _print_json(described) if as_json else run.print_described(described)
    else:
        shards = run.list_shards(url)
        _print_json(shards) if as_json else run.print_shards(url, shards, show_all)


@commands.command(epilog=_format_examples("tokcore audit out/first --sources"))
@click.argument("output")
@click.option(
    "--rare",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Ids written at most N times are rare.",
)
@click.option("--sources", is_flag=True, help="Also list ids that come from one file. Reads all shards.")
@_JSON
def audit(output: str, rare: int, sources: bool, as_json: bool) -> None:
    """List odd tokens of an output.

    Tokens that were written rarely or never, that no text encodes to, that come from one document (with --sources, from
    one file), or that hold invisible characters.
    """
    from pipelines.inspect.audit import audit as run
    from pipelines.inspect.audit import print_audit

    with _show_progress("audit"):
        report = run(_make_absolute(output), _load_tokenizer(output), rare, sources)
    _print_json(report) if as_json else print_audit(report)


@commands.command(
    epilog=_format_examples(
        "tokcore export out/first --to huggingface -o tokenizer.json", "tokcore export out/first --to gpt2 -o gpt2"
    )
)
@click.argument("output")
@click.option("--to", "target", type=click.Choice(list(EXPORTS)), required=True)
@click.option("-o", "path", required=True, type=click.Path(), help="File or folder to write.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def export(output: str, target: str, path: str, force: bool) -> None:
    """Write the tokenizer in another format.

    huggingface: a folder that AutoTokenizer reads, or with FILE.json its tokenizer.json alone. tiktoken: a rank file.
    gpt2: a folder with vocab.json and merges.txt. bert: a folder with vocab.txt, tokenizer.json and the
    configuration that makes AutoTokenizer put [CLS] and [SEP] around a text. token_bytes: an array with the number of
    bytes of each token. Folders are made; a file that is there is not replaced.
    """
    path = _expand(path)
    spec = _load_tokenizer(output).spec
    try:
        export_to(spec, target, Path(path), replace=force)
    except FileExistsError as error:
        if error.filename is not None:
            raise
        raise ConfigError(f"{error} with --force") from error
    if left_out := EXPORTS[target].left_out(spec):
        click.echo(f"note: {left_out}", err=True)


_FORMATS_TO = f"One of {', '.join(sorted(SHARD_FORMATS))}."
_END = click.option(
    "--end", type=click.IntRange(0), metavar="ID", help="The id that ends each document, for files without bounds."
)
_READ_DTYPE = click.option(
    "--from-dtype",
    "read_dtype",
    default="",
    metavar="DTYPE",
    help="Of ids in files that nothing says it of: uint16, ...",
)
_VOCAB_SIZE = click.option(
    "--vocab-size", type=click.IntRange(1), metavar="N", help="Every id is below it; default: what the files say."
)


@commands.command(
    epilog=_format_examples(
        "tokcore convert out/first --to mds -o out/mds",
        "tokcore convert their_text_document.bin --to parquet -o rows",
        "tokcore convert fineweb --to megatron --end 50256 -o fineweb-megatron",
    )
)
@click.argument("source", metavar="FROM")
@click.option(
    "--to", "target", type=click.Choice(list(SHARD_FORMATS)), required=True, metavar="FORMAT", help=_FORMATS_TO
)
@click.option("-o", "path", required=True, metavar="FOLDER", help="The folder to make; nothing may have that name.")
@click.option("--dtype", default="", metavar="DTYPE", help="Of ids, in formats that leave the choice.")
@click.option(
    "--compression",
    type=click.Choice(["zstd", "lz4", "none"]),
    default="zstd",
    show_default=True,
    help="Of Arrow files.",
)
@_END
@click.option("--whole", is_flag=True, help="Take each file without bounds for one document.")
@_READ_DTYPE
@_VOCAB_SIZE
@_JSON
def convert(
    source: str,
    target: str,
    path: str,
    dtype: str,
    compression: str,
    end: int | None,
    whole: bool,
    read_dtype: str,
    vocab_size: int | None,
    as_json: bool,
) -> None:
    """Write token shards in another format, without tokenizing again.

    FROM is an output, a folder of shards of any format, or a file of one, written by tokcore or by others. FOLDER
    becomes what the format's reader opens. Ids, languages and sources go along; formats without room for them get a
    .documents file beside each shard. FOLDER appears when it is complete: killed, the same command starts again.
    """
    from pipelines.inspect.convert import convert_shards
    from tokcore.conversion import Reading

    if end is not None and whole:
        raise click.UsageError("--end and --whole exclude each other: leave one of them out")
    with _show_progress("convert"):
        report = convert_shards(
            _make_absolute(source),
            target,
            _make_absolute(path),
            Reading(end, whole, read_dtype),
            vocab_size,
            compression,
            dtype,
        )
    if as_json:
        _print_json(dataclasses.asdict(report))
        return
    for note in report.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"{path}: {report.shards:,} shards, {report.documents:,} documents, {report.tokens:,} tokens")


@commands.command(
    epilog=_format_examples("tokcore fsck out/first/shards/mds", "tokcore fsck theirs --end 50256 --repair")
)
@click.argument("path", metavar="PATH")
@click.option("--repair", is_flag=True, help="Make indexes again that are gone or wrong, where the data allow it.")
@_END
@_READ_DTYPE
@_VOCAB_SIZE
@_JSON
def fsck(path: str, repair: bool, end: int | None, read_dtype: str, vocab_size: int | None, as_json: bool) -> None:
    """Check that shards keep the rules of their formats.

    PATH is a folder of shards, or a file of one, written by tokcore or by others. Reads all of it: sizes, headers,
    bounds, dtypes, ids and, with --end, ends of documents; then indexes of folders. Names each breach with file and
    byte, row or document. --repair makes the .idx of Megatron, datatrove's and OLMo's bounds (from documents files, or
    with --end) and index.json again. Exit code 1 if something is wrong.
    """
    from pipelines.inspect.fsck import check_shards
    from tokcore.shard_checks import Rules

    with _show_progress("fsck"):
        report = check_shards(_make_absolute(path), Rules(vocab_size, end, read_dtype), repair)
    if as_json:
        _print_json(dataclasses.asdict(report))
    else:
        for problem in report.problems:
            click.echo("".join(c if c.isprintable() else " " for c in problem))
        for file in report.repaired:
            click.echo(f"made again: {file}")
        held = f"{report.shards:,} shards ({', '.join(report.formats)}), {report.documents:,} documents"
        click.echo(f"{held}, {report.tokens:,} tokens: {len(report.problems) or 'no'} problems")
    if report.problems:
        sys.exit(EXIT_PROBLEM)


@commands.command("encode-text", epilog=_format_examples("tokcore encode-text --tokenizer out/first < text.txt"))
@_TOKENIZER
@_PATTERN
def encode_text(path: str, pattern: str | None) -> None:
    """Encode stdin; print ids separated by spaces."""
    ids = _load_tokenizer(path, pattern).encode(sys.stdin.buffer.read())
    sys.stdout.write(" ".join(map(str, ids.tolist())) + "\n")


@commands.command("decode-ids", epilog=_format_examples("echo 72 105 | tokcore decode-ids --tokenizer out/first"))
@_TOKENIZER
@_PATTERN
def decode_ids(path: str, pattern: str | None) -> None:
    """Decode ids from stdin; write their bytes."""
    words = sys.stdin.buffer.read().split()
    if wrong := [word for word in words if not word.isdigit() or len(word) > len(str(2**31))]:
        raise ConfigError(f"stdin: {wrong[0][:20].decode(errors='replace')!r} is not a token id")
    sys.stdout.buffer.write(_load_tokenizer(path, pattern).decode([int(word) for word in words]))


@commands.command(epilog=_format_examples("tokcore diff out/first out/second"))
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@_JSON
def diff(one: str, other: str, as_json: bool) -> None:
    """Show what differs between two outputs.

    Compares configuration, inputs, counts, tokenizers, documents and shards, as far as both outputs have them. Exit
    code 1 if anything differs.
    """
    from pipelines.inspect.diff import diff as run
    from pipelines.print_reports import print_diff

    one, other = (_make_absolute(output) for output in (one, other))
    with _show_progress("diff"):
        found = run(one, other)
    _print_json(found) if as_json else print_diff(found, one, other)
    if found:
        sys.exit(EXIT_PROBLEM)


@commands.command(
    "gc", epilog=_format_examples("tokcore gc out/first --dry-run", "tokcore gc out/first --older-than 0")
)
@click.argument("output")
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option(
    "--older-than",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="Remove nothing younger: 90s, 30m, 24h, 7d, or 0.",
)
@_JSON
def collect(output: str, dry_run: bool, older_than: str, as_json: bool) -> None:
    """Remove files that no manifest names.

    These are left by builds that were killed: unfinished work, and files of stages that were never committed. If any of
    them is younger than DURATION, nothing is removed, so that a running build is safe.
    """
    from pipelines.inspect.gc import gc as run
    from pipelines.print_reports import print_collected

    with _show_progress("gc"):
        collected = run(_make_absolute(output), older_than, dry_run)
    if as_json:
        _print_json({"dry_run": dry_run, **dataclasses.asdict(collected)})
    else:
        print_collected(collected, dry_run, older_than)


def _make_absolute(output: str) -> str:
    """The URL of an output as the command line names it: a relative path starts at the current folder.

    Raises ConfigError for a build file, with what to write in its place.
    """
    from pipelines.store import urls

    url = urls.resolve(os.getcwd(), _expand(output))  # noqa: PTH109 - resolve wants a str
    if url.endswith(".toml") and urls.is_local(url) and Path(url).is_file():
        raise ConfigError(f"{output}: is a build file; name its output instead: {_find_output(url)}")
    return url


def _find_output(build_file: str) -> str:
    from pipelines.store import urls
    from schemas.config import load_config

    try:
        config = load_config(build_file)
        return urls.resolve(config.base, config.build.output)
    except ConfigError:
        return "the folder that its build.output names"


def _expand(path: str) -> str:
    from schemas.paths import expand

    try:
        return expand(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _show_progress(name: str) -> AbstractContextManager[object]:
    """Show progress on stderr while the block runs."""
    from pipelines.local.progress import StageProgress

    return StageProgress().stage(name, minor=True)


def _load_tokenizer(path: str, pattern: str | None = None) -> Any:
    """The tokenizer at a path or URL, in any form that [tokenizer] from takes."""
    from pipelines.stages.tokenizer_files import read_tokenizer
    from tokcore import Tokenizer

    return Tokenizer(read_tokenizer(_make_absolute(path), pattern, (), ("tokenizer", "--pattern")))


def _build(
    build_file: str,
    output: str,
    assigned: tuple[str, ...],
    workers: int | None,
    runner_options: tuple[str, ...],
    **how: Any,
) -> Any:
    from pipelines.local.run_options import RunOptions
    from pipelines.stages.build import Build
    from pipelines.store.options import use_options
    from pipelines.store.storage import read_bytes
    from schemas.config import load_config

    if runner_options and not runner_options[0].startswith("-"):
        raise click.UsageError(f"unexpected argument {runner_options[0]!r} (runner options begin with --)")
    config = load_config(_expand(build_file), assigned, read_bytes)
    use_options(dataclasses.asdict(config.storage))
    where = _make_absolute(output) if output else ""
    return Build(config, RunOptions(workers, runner_options), where, **how)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, default=str))


if __name__ == "__main__":
    main()
