"""How the loop and the workers of a stream look at the sources: what changed, and what of it waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokcore_pipelines.history.input_files_held import HeldFiles
from tokcore_pipelines.history.update_output import Changes, Update
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import urls
from tokcore_pipelines.watch.reach_of_looks import Looks
from tokcore_pipelines.watch.waiting_files import Waiting
from tokcore_schemas.config import BuildConfig


def make_update(
    config: BuildConfig, options: RunOptions, output: str, progress: StageProgress, looks: Looks, **more: Any
) -> Update:
    """What compares the sources with the output. Files that vanish stop no watcher. more: fields of Update."""
    rule: Any = "keep" if config.update.vanished == "fail" else config.update.vanished
    return Update(config, options, output, progress, rule, grows=True, list_files=looks.known.list_files, **more)


def look(update: Update, looks: Looks, waiting: Iterable[str], *, is_sure: bool) -> tuple[Changes, bool]:
    """(what changed, whether the sources look empty: a store is in trouble then, and nothing is removed).

    waiting: uris that the last look showed. is_sure: whether that one went well. Raises as Update.look() does.
    """
    looks.begin({urls.resolve_name(update.config.base, uri) for uri in waiting}, is_sure)
    changes = update.look()
    if changes.vanished and not changes.plan.files and update.held:
        return changes._replace(vanished=[]), True
    return changes, False


def list_waiting(changes: Changes, held: HeldFiles) -> dict[str, Waiting]:
    """Uri -> the change that waits."""
    wanted = {*changes.new, *changes.changed}
    now = {file.uri: file for file in changes.plan.files if file.uri in wanted}
    return {
        uri: Waiting(
            now[uri].size_bytes if uri in now else 0,
            now[uri].version if uri in now else "",
            held[uri].part if uri in held else "",
        )
        for uri in [*changes.new, *changes.changed, *changes.vanished]
    }
