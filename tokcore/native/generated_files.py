"""What the generators of tables share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

Ranges = list[tuple[int, int]]


def find_ranges(members: Iterable[int]) -> Ranges:
    """Ascending code points as inclusive ranges."""
    ranges: Ranges = []
    for c in members:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1] = (ranges[-1][0], c)
        else:
            ranges.append((c, c))
    return ranges


def write_files(files: Mapping[Path, str | bytes], check: bool) -> None:
    """Write files, path -> content. check: write nothing, and exit with an error if a file differs."""
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        if check and path.read_bytes() != data:
            sys.exit(f"{path} is not what this generator writes")
        if not check:
            path.write_bytes(data)
        print(f"{path.name}: {len(data):,} bytes")
