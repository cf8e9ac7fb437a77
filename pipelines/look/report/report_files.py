"""The two files of a report: the page, and its numbers as JSON. Each appears whole, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokcore.errors import ConfigError
from tokcore_pipelines.look.report.page import write_page
from tokcore_pipelines.store import urls


def check_place(page: Path, output: str, force: bool) -> None:
    """Raise ConfigError unless the report may be written there: not into the output, and not over other files."""
    if page.suffix != ".html":
        raise ConfigError(f"-o {page}: expected a name that ends with .html")
    if not page.parent.is_dir():
        raise ConfigError(f"-o {page}: there is no folder {page.parent}: make it first")
    if urls.is_local(output) and page.resolve().is_relative_to(urls.get_local_path(output).resolve()):
        raise ConfigError(f"-o {page}: is in the output, which no command but build writes to: choose another folder")
    for file in (page, page.with_suffix(".json")):
        if file.exists() and not force:
            raise ConfigError(f"-o {page}: {file} is there already: choose another name, or replace it with --force")


def write_report(report: Mapping[str, Any], page: Path) -> Iterator[Path]:
    """Write the numbers as JSON, then the page; give the path of each once it is written."""
    data = json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8", "backslashreplace")
    made = write_page(report)
    yield _write(page.with_suffix(".json"), data + b"\n")
    yield _write(page, made)


def _write(file: Path, data: bytes) -> Path:
    working = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        working.write_bytes(data)
        working.replace(file)
    finally:
        working.unlink(missing_ok=True)
    return file
