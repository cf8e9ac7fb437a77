"""Runs of words that texts share with items of a test: found exactly, as a search for each run would find them.

Words are runs of letters, marks and digits of the text, after NFKC and lower case by the pinned Unicode tables, so
neither signs nor spaces nor case matter. An item of fewer words than a run has is never found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokcore.text.normalize import Normalizer
from tokcore.text.regex_split import find_all
from tokcore.text.texts import make_texts_from_strings

_WORD = r"[\p{L}\p{M}\p{N}]+"
_ASCII_WORD = re.compile(rb"[a-z0-9]+")  # the same, of lower case
_FACTOR = 0x9E3779B97F4A7C15  # odd, with bits spread over all 64


def list_words(text: bytes) -> list[bytes]:
    """The words of a text, as they are compared.

    >>> list_words("It's Ｆull—of WORDS, 42!".encode())
    [b'it', b's', b'full', b'of', b'words', b'42']
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    normal = Normalizer(("nfkc", "lowercase")).apply(make_texts_from_strings([text])).text(0)
    return [
        word.encode("utf-8", "surrogateescape") for word in find_all(_WORD, normal.decode(errors="surrogateescape"))
    ]


class OverlapIndex:
    """The runs of n words of many items.

    >>> index = OverlapIndex([b"To be, or not to be", b"That is the question"], n=3)
    >>> index.find_items(b"... or NOT to ..."), index.find_items(b"that is: not to"), index.num_short
    ((0,), (), 0)
    """

    def __init__(self, items: Sequence[bytes], n: int) -> None:
        self._n = n
        self._numbers: dict[bytes, int] = {}  # of the words, from 1
        runs: list[npt.NDArray[np.int32]] = []
        holders: list[int] = []
        self.num_short = 0  # items with fewer words
        for number, item in enumerate(items):
            words = list_words(item)
            if len(words) < n:
                self.num_short += 1
                continue
            ids = np.array([self._numbers.setdefault(word, len(self._numbers) + 1) for word in words], np.int32)
            own = np.unique(np.lib.stride_tricks.sliding_window_view(ids, n), axis=0)
            runs.append(own)
            holders += [number] * len(own)
        every = np.concatenate([np.zeros((0, n), np.int32), *runs])
        self._runs, which = np.unique(every, axis=0, return_inverse=True)
        hashes = self._hash(self._runs)
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._runs = hashes[order], self._runs[order]
        # The items of run i are holders[firsts[i]:firsts[i + 1]].
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        places = place[which.reshape(-1)]
        by_run = np.argsort(places, kind="stable")
        self._holders = np.array(holders, np.int64)[by_run]
        self._firsts = np.searchsorted(places[by_run], np.arange(len(order) + 1))

    def find_items(self, text: bytes) -> tuple[int, ...]:
        """The numbers of the items that share a run with a text, ascending."""
        get = self._numbers.get
        ids = np.array([get(word, 0) for word in list_words(text)], np.int32)
        if len(ids) < self._n or not len(self._runs):
            return ()
        unknown = np.concatenate([[0], np.cumsum(ids == 0)])
        where = np.flatnonzero(unknown[self._n :] == unknown[: -self._n])
        if not len(where):
            return ()
        runs = np.lib.stride_tricks.sliding_window_view(ids, self._n)[where]
        hashes = self._hash(runs)
        low, high = (np.searchsorted(self._hashes, hashes, side=side) for side in ("left", "right"))
        found: set[int] = set()
        # Runs of equal hash need not be equal.
        while len(candidates := np.flatnonzero(high > low)):
            at = low[candidates]
            for hit in at[(self._runs[at] == runs[candidates]).all(axis=1)].tolist():
                found.update(self._holders[self._firsts[hit] : self._firsts[hit + 1]].tolist())
            low = low + 1
        return tuple(sorted(found))

    def _hash(self, runs: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        hashes = np.zeros(len(runs), np.uint64)
        for column in range(self._n):
            hashes = (hashes + runs[:, column].astype(np.uint64)) * np.uint64(_FACTOR)
            hashes ^= hashes >> np.uint64(29)
        return hashes
