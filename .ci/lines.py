"""Count the lines of the product, room by room: PYTHON lines.py [FOLDER ...]

The product is what git holds in these folders; without any, in all that are installed or deployed. Code and pages (.md)
are added up apart. Tests are elsewhere. Data, pinned packages, what our generators write and what others wrote are left
out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("pipelines", "schemas", "tokcore", "deploy")
DATA = re.compile(
    r"\.(?:json|jsonl|gz|zst|parquet|svg|png|bin|lock)$|(?<!/CMakeLists)\.txt$|/charts/(?:charts\.js|SHA256SUMS)$"
)
GENERATED = re.compile(rb"Written by \S*generate_\w+\.py")  # in the first lines of a file
HEAD_BYTES = 400


def list_files(root: Path, folders: Iterable[str]) -> dict[str, bytes]:
    """What is counted: names below the root, and what they hold."""
    command = ["git", "ls-files", "-z", "--", *folders]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    held = {name: (root / name).read_bytes() for name in names if not DATA.search(name) and (root / name).is_file()}
    return {name: data for name, data in held.items() if not GENERATED.search(data[:HEAD_BYTES])}


def find_room(name: str) -> str:
    """The folder that a file is counted with.

    >>> [find_room(name) for name in ("tokcore/kernel.py", "tokcore/text/unicode.py", "tokcore/native/kernel/scan/a.h")]
    ['tokcore', 'tokcore/text', 'tokcore/native/kernel/scan']
    """
    folders = PurePosixPath(name).parent.parts
    return "/".join(folders[: 4 if folders[1:2] == ("native",) else 2])


def main(folders: list[str]) -> None:
    """Print a line for each room, and the sums."""
    code, pages = Counter[str](), Counter[str]()
    for name, data in list_files(ROOT, folders or FOLDERS).items():
        (pages if name.endswith(".md") else code)[find_room(name)] += data.count(b"\n")
    for room in sorted(code | pages):
        print(f"{code[room]:8,} {pages[room]:7,}  {room}")
    print(f"{code.total():8,} {pages.total():7,}  lines of code, and of pages")


if __name__ == "__main__":
    main(sys.argv[1:])
