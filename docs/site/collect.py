"""All pages of the site in one folder, as Markdown, with what they show.

Pages are written so that their links work where they lie. In the site, docs/ is the root, and the other pages of the
repository lie beside it. Reference pages follow from the code, drawings from text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import drawings
import reference

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(\]\()([^)\s#]+)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def collect(folder: Path) -> None:
    """Write the pages into a new folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=_ROOT, capture_output=True, check=True
    )
    files = listed.stdout.decode().splitlines()
    pages = {path: (_ROOT / path).read_text() for path in files if path.endswith(".md") and "tests/data/" not in path}
    named = {target for path, text in pages.items() for target in _list_targets(path, text)} - pages.keys()
    made = {**reference.list_pages(), **drawings.list_drawings()}
    places = {path: _place(path) for path in [*pages, *named.intersection(files)]} | {
        f"docs/{path}": path for path in made
    }
    for path, text in pages.items():
        _write(folder / places[path], _lead_links(path, text, places))
    for path, text in made.items():
        _write(folder / path, _lead_links(f"docs/{path}", text, places))
    for path in [one for one in places if one not in pages and one in files]:
        (folder / places[path]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_ROOT / path, folder / places[path])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _place(path: str) -> str:
    """Where a file of the repository is in the site, whose first page is not README.md, and which hides no folder."""
    return "readme.md" if path == "README.md" else path.removeprefix("docs/").removeprefix(".")


def _list_targets(page: str, text: str) -> Iterable[str]:
    return [_join(page, target) for _, target in _LINK.findall(text) if "://" not in target]


def _join(page: str, target: str) -> str:
    return os.path.normpath(PurePosixPath(page).parent / target)


def _find_map(folder: str, places: dict[str, str]) -> str:
    """The place of a folder's README.md, or of the nearest one above it."""
    above = (os.path.normpath(f"{one}/README.md") for one in (folder, *PurePosixPath(folder).parents))
    return next(places[one] for one in above if one in places)


def _lead_links(page: str, text: str, places: dict[str, str]) -> str:
    """Links between files, as the site has them. What has no place there stays as it is."""

    def lead(link: re.Match[str]) -> str:
        target = _join(page, link[2])
        place = places.get(target) or (_find_map(target, places) if (_ROOT / target).is_dir() else None)
        return f"{link[1]}{os.path.relpath(place, PurePosixPath(places[page]).parent)}" if place else link[0]

    pieces = _FENCE.split(text)
    return "".join(piece if piece.startswith("```") else _LINK.sub(lead, piece) for piece in pieces)
