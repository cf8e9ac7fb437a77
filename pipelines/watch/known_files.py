"""What listings showed before, brought up to date by less than a listing: what sorts after it, and single files.

A full listing now and then puts right what this misses: late names, files that changed or went without a word.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Collection, Sequence

from pipelines.store import storage, urls
from pipelines.store.at_once import run_at_once
from pipelines.store.listing import compile_glob, is_glob
from pipelines.store.listing_after import can_list_after, list_files_after
from tokcore.errors import ConfigError

MOST_CONFIRMED = 1000  # files that are looked at one by one: a full listing has so many in one request
_STORES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}  # of which notifications come
_NEAR_END = 10_000  # names; a listing from there on is a few requests


class KnownFiles:
    """Stands for storage.list_files. Say before each look how much of it is to be asked of the store."""

    def __init__(self, keeps: bool) -> None:
        """keeps: whether any look asks for less than everything, so that what was listed is kept in memory."""
        self.keeps = keeps
        self.num_full = 0  # looks that listed everything
        self._held: dict[str, dict[str, storage.FileId]] = {}  # pattern -> URL -> the file, in the order of URLs
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

    def list_files(self, pattern: str) -> Sequence[storage.FileId]:
        """As storage.list_files."""
        held = self._held.get(pattern)
        is_known = held is not None and not self.is_full and is_glob(pattern)
        found = self._bring_up_to_date(pattern, held or {}) if is_known else storage.list_files(pattern)
        if self.keeps:
            self._held[pattern] = {file.url: file for file in found}
        return found

    def _bring_up_to_date(self, pattern: str, held: dict[str, storage.FileId]) -> Sequence[storage.FileId]:
        confirm = {url for url in self._confirm if url in held or _is_like(url, pattern)}
        files = dict(held)
        if self._is_sorted:
            if not can_list_after(pattern):
                return storage.list_files(pattern)
            names = [*held]
            # Files that wait are mostly the newest: the listing begins before them, so that it shows them again.
            near = sorted(url for url in confirm if url in held and url >= names[-_NEAR_END:][0])
            start = bisect.bisect_left(names, near[0]) if near else len(names)
            for url in names[start:]:
                del files[url]
            confirm -= {*names[start:]}
            files |= {file.url: file for file in list_files_after(pattern, names[start - 1] if start else "")}
        wanted = sorted(confirm - ({*files} - {*held}))
        for url, found in zip(wanted, run_at_once(storage.list_files, wanted), strict=True):
            files.pop(url, None)
            files |= {file.url: file for file in found if file.url == url}
        return sorted(files.values())


def _is_like(url: str, pattern: str) -> bool:
    """Whether a URL, which anybody may have written, is of the store of a pattern, and matches it."""
    if _STORES.get(urls.find_scheme(url) or "") != _STORES.get(urls.find_scheme(pattern) or "", ""):
        return False
    with contextlib.suppress(ConfigError):
        return compile_glob(urls.open_file_system(pattern)[1]).match(urls.open_file_system(url)[1]) is not None
    return False
