"""Outputs that an earlier release left, with their build files and inputs: tests/data/version_2."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import zstandard
from support.builds import ROOT

_STORED = ROOT / "tests" / "data" / "version_2" / "outputs.tar.zst"


def unpack_earlier(folder: Path, name: str, is_readable: bool = False) -> Path:
    """The folder of one of the outputs, `plain`, `changed` or `rejects`, with build.toml, in/ and out/.

    is_readable: False: the inputs have the sizes and times with which they are pinned, and other bytes, so that who
    reads one again gets rejects.
    """
    data = zstandard.ZstdDecompressor().decompress(_STORED.read_bytes(), max_output_size=1 << 24)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [one for one in archive if one.name.split("/")[0] == name]
        archive.extractall(folder, members, filter="data")
    for path in [] if is_readable else (folder / name / "in").rglob("*.jsonl"):
        facts = path.stat()
        path.write_bytes(b"?" * facts.st_size)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    return folder / name
