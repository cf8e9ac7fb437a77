"""The input files whose documents an output holds, found by uri.

A watcher keeps them for as long as it lives, and there may be millions. So they lie in arrays: a file takes about 120
bytes, not the 370 of objects in a dictionary.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.read_log import locate_part, read_part
from tokcore_pipelines.store.pinned_inputs import read_pinned_files
from tokcore_schemas.commit_log import Part
from tokcore_schemas.plan import InputFile, ReadSettings
from tokcore_schemas.stage_table import PLAN

_ERRORS = "surrogatepass"  # of names of local files that are not UTF-8


class HeldFile(NamedTuple):
    """An input file whose documents are in an output."""

    part: str  # path of the part that holds them
    file: InputFile  # as it was then
    settings: ReadSettings  # how it was read

    @property
    def pin(self) -> tuple[int, str, ReadSettings]:
        """What is equal while the documents of the file are: tombstones aside, which only leave some out."""
        return make_pin(self.file, self.settings)


def make_pin(file: InputFile, settings: ReadSettings) -> tuple[int, str, ReadSettings]:
    """As HeldFile.pin."""
    return file.size_bytes, file.version, strip_settings(settings)


def strip_settings(settings: ReadSettings) -> ReadSettings:
    """The settings without those that say which documents are left out, or that tokens are read in place of a file."""
    return dataclasses.replace(settings, removed=None, decoded_from="")


class PartFiles:
    """The files of one part, in the order of its plan."""

    def __init__(self, part: str, files: Iterable[InputFile], settings: Sequence[ReadSettings]) -> None:
        """part: its path."""
        self.part = part
        self.settings = settings
        self.stripped = [*map(strip_settings, settings)]
        self.hashes = array("q")  # of uris, as this process hashes them
        self._sizes = array("q")
        self._settings = array("i")
        self._cuts: dict[int, tuple[int, ...]] = {}  # of few
        self._ends = array("q")  # of the uri, then of the version, of each file in the text
        text = bytearray()
        for file in files:
            for word in (file.uri, file.version):
                text += word.encode("utf-8", _ERRORS)
                self._ends.append(len(text))
            self.hashes.append(hash(file.uri))
            self._sizes.append(file.size_bytes)
            self._settings.append(file.settings)
            if file.cuts:
                self._cuts[len(self._sizes) - 1] = file.cuts
        self._text = bytes(text)

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[InputFile]:
        return map(self.read_file, range(len(self)))

    def read_file(self, row: int) -> InputFile:
        """One file."""
        pin = self._read_word(2 * row), self._sizes[row], self._read_word(2 * row + 1)
        return InputFile(*pin, self._settings[row], self._cuts.get(row, ()))

    def read_uri(self, row: int) -> str:
        """The uri of one file."""
        return self._read_word(2 * row)

    def _read_word(self, number: int) -> str:
        start = self._ends[number - 1] if number else 0
        return self._text[start : self._ends[number]].decode("utf-8", _ERRORS)


class HeldFiles(Mapping[str, HeldFile]):
    """The files of some parts, which have no file in common: part by part, each in the order of its plan.

    The place of a file is its number in that order, from 0.
    """

    def __init__(self, parts: Iterable[PartFiles] = ()) -> None:
        self.parts = {one.part: one for one in parts}
        self._parts = [*self.parts.values()]
        self._starts = [0, *itertools.accumulate(map(len, self._parts))]
        hashes = np.concatenate([np.empty(0, np.int64), *(np.frombuffer(one.hashes, np.int64) for one in self._parts)])
        order = np.argsort(hashes, kind="stable")
        # Arrays of Python: bisect reads their elements faster than those of numpy.
        self._hashes = array("q", hashes[order].tobytes())
        self._order = array("q", order.astype(np.int64).tobytes())

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[str]:
        return (part.read_uri(row) for part in self._parts for row in range(len(part)))

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and self.find(uri) is not None

    def __getitem__(self, uri: str) -> HeldFile:
        if (place := self.find(uri)) is None:
            raise KeyError(uri)
        part, row = self._locate(place)
        file = part.read_file(row)
        return HeldFile(part.part, file, part.settings[file.settings])

    def find(self, uri: str) -> int | None:
        """The place of a file, None if it is not held."""
        wanted = hash(uri)
        at = bisect.bisect_left(self._hashes, wanted)
        while at < len(self._hashes) and self._hashes[at] == wanted:
            if self.read_uri(place := self._order[at]) == uri:
                return place
            at += 1
        return None

    def read_uri(self, place: int) -> str:
        """The uri of the file at a place."""
        part, row = self._locate(place)
        return part.read_uri(row)

    def is_as_before(self, place: int, file: InputFile, stripped: ReadSettings) -> bool:
        """Whether the file at a place is this one, read in the same way. stripped: its settings, by strip_settings."""
        part, row = self._locate(place)
        held = part.read_file(row)
        return (held.size_bytes, held.version) == (file.size_bytes, file.version) and (
            part.stripped[held.settings] == stripped
        )

    def _locate(self, place: int) -> tuple[PartFiles, int]:
        number = bisect.bisect_right(self._starts, place) - 1
        return self._parts[number], place - self._starts[number]


def read_part_files(output: str, part: Part) -> PartFiles:
    """The files of one part. Raises ConfigError, StageError or FormatError if it is not as the log says."""
    url = locate_part(output, part)
    read_part(output, part)
    settings = require_manifest(url, PLAN, "build").config.settings
    return PartFiles(part.path, read_pinned_files(url), settings)


def read_held(output: str, parts: Iterable[Part]) -> HeldFiles:
    """The files of some parts of a commit. Raises as read_part_files()."""
    return HeldFiles(read_part_files(output, part) for part in parts)
