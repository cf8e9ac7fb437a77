"""`tokcore init`."""

from __future__ import annotations

from pathlib import Path

import click

from tokcore.errors import ConfigError
from tokcore_pipelines.begin.build_text import write_build_text
from tokcore_pipelines.begin.propose import propose
from tokcore_pipelines.build.named_paths import expand_path
from tokcore_pipelines.commands.answers import show_progress
from tokcore_pipelines.commands.command_inputs import expand_local_path
from tokcore_pipelines.commands.command_options import command
from tokcore_pipelines.local.say import say, write_data
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store import urls


@command("tokcore init data", "tokcore init s3://bucket/corpus -o corpus.toml")
@click.argument("folder", metavar="FOLDER|URL")
@click.option(
    "-o", "path", default="build.toml", show_default=True, metavar="FILE", help="Write this file; - for stdout."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(folder: str, path: str, force: bool) -> None:
    """Finds formats, fields, languages (by folder, file or field) and sizes from the start of some files. The file that
    it writes has comments, passes `tokcore check`, and builds as it is.
    """
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
