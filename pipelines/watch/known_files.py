"""What listings showed before, brought up to date by less than a listing: what sorts after it, and single files.

A full listing now and then puts right what this misses: late names, files that changed or went without a word.
"""

from __future__ import annotations

import bisect
import contextlib
import heapq
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.disk_listing import Link, Links
from tokcore_pipelines.store.listing_after import can_list_after, list_files_after
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.patterns import Pattern, compile_glob, is_glob, name_exactly
from tokcore_schemas.packed_rows import PackedRows

MOST_CONFIRMED = 1000  # files that are looked at one by one: a full listing has so many in one request
_STORES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}  # of which notifications come
_NEAR_END = 10_000  # names; a listing from there on is a few requests


class _Held(NamedTuple):
    """What a pattern matched."""

    files: Sequence[storage.FileId]  # sorted by URL
    met: dict[str, Link]  # as in Links


class KnownFiles:
    """Stands for storage.list_files. Say before each look how much of it is to be asked of the store."""

    def __init__(self, keeps: bool) -> None:
        """keeps: whether any look asks for less than everything, so that what was listed is kept in memory."""
        self.keeps = keeps
        self.num_full = 0  # looks that listed everything
        self._held: dict[tuple[Pattern, bool], _Held] = {}  # pattern, whether links are followed -> what it matched
        self.is_full = True  # whether the look at hand lists everything
        self._is_sorted = False
        self._confirm: Collection[str] = ()

    def forget(self) -> None:
        """Know nothing: each pattern is listed."""
        self._held = {}

    def begin_full(self) -> None:
        """Let the look that follows list everything."""
        self.is_full = True
        self.num_full += 1

    def begin_small(self, confirm: Collection[str], is_sorted: bool) -> None:
        """Let the look that follows list what sorts after all that is known, if is_sorted, and look at some URLs.

        confirm: files that may be new, may have changed or be gone. Too many of them, and everything is listed.
        """
        if len(confirm) > MOST_CONFIRMED:
            self.begin_full()
            return
        self.is_full, self._is_sorted, self._confirm = False, is_sorted, confirm

    def list_files(self, pattern: Pattern, links: Links | None = None) -> Sequence[storage.FileId]:
        """As storage.list_files."""
        links = links or Links()
        held = self._held.get((pattern, links.follows))
        is_asked = self._is_sorted and not can_list_after(pattern)
        if held is None or self.is_full or is_asked or not is_glob(pattern.glob):
            found = storage.list_files(pattern, links)
        else:
            found = self._bring_up_to_date(pattern, held.files)
            links.met |= held.met
        if self.keeps:
            self._held[pattern, links.follows] = _Held(found, links.met)
        return found

    def _bring_up_to_date(self, pattern: Pattern, held: Sequence[storage.FileId]) -> Sequence[storage.FileId]:
        known = {url: _find(held, url) for url in self._confirm}
        confirm = {url for url, place in known.items() if place is not None or _is_like(url, pattern)}
        tail: Sequence[storage.FileId] = ()
        start = len(held)
        if self._is_sorted:
            # Files that wait are mostly the newest: the listing begins before them, so that it shows them again.
            near = (place for url in confirm if (place := known[url]) is not None and place >= len(held) - _NEAR_END)
            start = min(near, default=start)
            confirm = {url for url in confirm if (place := known[url]) is None or place < start}
            tail = list_files_after(pattern, held[start - 1].url if start else "")
            confirm -= {file.url for file in tail}
        wanted = sorted(confirm)
        found = {
            url: next((file for file in files if file.url == url), None)
            for url, files in zip(wanted, run_at_once(storage.list_files, map(name_exactly, wanted)), strict=True)
        }
        listed = itertools.chain(itertools.islice(held, start), tail)
        if all((place := known[url]) is not None and held[place] == file for url, file in found.items()):
            return held if start == len(held) and not tail else _pack(listed)
        kept = (file for file in listed if file.url not in found)
        return _pack(heapq.merge(kept, (file for file in found.values() if file is not None)))


def _find(files: Sequence[storage.FileId], url: str) -> int | None:
    """The place of a URL among files that are sorted by it."""
    place = bisect.bisect_left(files, url, key=lambda file: file.url)
    return place if place < len(files) and files[place].url == url else None


def _pack(files: Iterable[storage.FileId]) -> PackedRows[storage.FileId]:
    """Files in some dozen bytes each, as there may be millions."""
    return PackedRows(tuple, storage.FileId, files)


def _is_like(url: str, pattern: Pattern) -> bool:
    """Whether a URL, which anybody may have written, is of the store of a pattern, and matches it."""
    if _STORES.get(urls.find_scheme(url) or "") != _STORES.get(urls.find_scheme(pattern.url) or "", ""):
        return False
    with contextlib.suppress(ConfigError):
        system, path = urls.open_file_system(url)
        return compile_glob(urls.find_path(system, pattern.glob)).match(path) is not None
    return False
