"""Watchers in this process, which go round when a test says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from support import eager

from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.watch.service import Service
from tokcore_schemas.build_tables import TokenizerTable
from tokcore_schemas.config import load_config

WITHOUT_PROCESSES = RunOptions(2, eager.RUNNER)
AT_ONCE: dict[str, Any] = {
    "poll_seconds": Decimal("0.01"),
    "settle_seconds": Decimal(0),
    "batch_seconds": Decimal(0),
    "listen": "",
}


class Told(StageProgress):
    """Keeps what a service says."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def _say(self, text: str) -> None:
        self.lines.append(text)


@contextmanager
def watching(
    folder: Path,
    tokenizer: Path | None = None,
    count: bool = False,
    options: RunOptions = WITHOUT_PROCESSES,
    **settings: Any,
) -> Iterator[Service]:
    """A watcher of a corpus of support.updates that takes files at once; settings: of [watch], where they differ."""
    eager.seed(0, 0)
    config = load_config(str(folder / "build.toml"))
    config = dataclasses.replace(config, watch=dataclasses.replace(config.watch, **(AT_ONCE | settings)))
    if tokenizer is not None:
        table = TokenizerTable(from_=str(tokenizer))
        config = dataclasses.replace(config, tokenizer=table, special=(), counts_too=count)
    service = Service(config, options, str(folder / "out"), Told())
    with service.at_work():
        yield service


def said(service: Service) -> str:
    """All that it said."""
    assert isinstance(service.progress, Told)
    return "\n".join(service.progress.lines)
