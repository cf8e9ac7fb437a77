"""Rejects of a part that quote ids. No id of a rejected record is stored, so the ids are looked for as text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import numpy as np

from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.file_rejections import REJECTS
from tokcore_pipelines.history.named_ids import IdFile, Ids
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.json_lines import read_lines

_WORD = re.compile(r"\w")
_NO_WORD_BEFORE = re.compile(r"(?<!\w)")


def read_quoted(output: str, spelled: SpelledIds) -> Iterator[tuple[str, frozenset[str]]]:
    """(uri of the input file, those of the ids that are quoted) for each reject of a part. output: URL of the part."""
    place = urls.join(output, "rejected", REJECTS)
    for reject in read_lines(place, ledger.PlacedReject):
        yield reject.file, spelled.find(f"{reject.detail}\n{reject.sample}")


class SpelledIds:
    """Finds ids in text, where they are no part of a longer word.

    >>> sorted(SpelledIds(["a-1", "a-11", "b"]).find('{"id": "a-11", "text": "b, bb"}'))
    ['a-11', 'b']
    """

    def __init__(self, ids: Ids, tombstones: TombstoneLookup | None = None) -> None:
        """tombstones: of ids that are in a file, which is read once if there is any text."""
        self._tombstones = tombstones if isinstance(ids, IdFile) else None
        self._ids = frozenset(() if isinstance(ids, IdFile) else ids)
        self._every = ids

    @functools.cached_property
    def _lengths(self) -> list[int]:
        """A pattern with thousands of alternatives takes time for each; a set does not, and lengths are few."""
        return sorted({*map(len, self._every)})

    def find(self, text: str) -> frozenset[str]:
        """Those of the ids that the text spells."""
        if not self._lengths:
            return frozenset()
        starts = [found.start() for found in _NO_WORD_BEFORE.finditer(text)]
        spelled = (
            text[start : start + length]
            for start in starts
            for length in self._lengths
            if not _WORD.match(text, start + length)
        )
        if self._tombstones is None:
            return self._ids.intersection(spelled)
        words = [*spelled]
        return frozenset(words[place] for place in np.flatnonzero(self._tombstones.mark("id", words)).tolist())
