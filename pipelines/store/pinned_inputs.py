"""The input files that an output, or a part of one, pinned, read back."""

from __future__ import annotations

import io
from collections.abc import Sequence

from tokcore.errors import FormatError
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.json_lines import parse_lines
from tokcore_schemas.plan import InputFile, pack_files

# The plan's table of files: a line each, sorted by uri.
FILES = "files.jsonl"


def read_pinned_files(output: str) -> Sequence[InputFile]:
    """The files that the output's plan pinned. Raises StageError or FormatError if its table cannot be read."""
    url = urls.join(output, "plan", FILES)
    return parse_files_table(storage.read_bytes(url), url)


def parse_files_table(data: bytes, name: str) -> Sequence[InputFile]:
    """The files of a committed plan; FormatError unless every line is canonical."""
    if data and not data.endswith(b"\n"):
        raise FormatError(f"{name}: the last line does not end")
    return pack_files(parse_lines(io.BytesIO(data), name, InputFile))
