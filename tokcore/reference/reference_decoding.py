"""Slow and obvious: ids to text, one by one, out of a dictionary. The oracle of tokcore.kernel.TokenTable."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tokcore.reference.arrays import Ids
from tokcore.text.texts import Bytes, Offsets

MARKED, SILENT, ENDS = 1, 2, 4


class TokenTable:
    """As tokcore.kernel.TokenTable, behind its door."""

    def __init__(self, ids: Ids, data: Bytes, offsets: Offsets, flags: Bytes, drops_all: bool) -> None:
        if (ids < 0).any():
            raise ValueError("ids: one is negative")
        spelled = [data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]
        self._tokens = dict(zip(ids.tolist(), spelled, strict=True))
        self._flags = dict(zip(ids.tolist(), flags.tolist(), strict=True))
        self._drops_all = drops_all

    def decode(self, ids: Ids, is_whole: bool, errors: str | None) -> bytes | str:
        listed = ids.tolist()
        text = b"".join(self.spell_all(ids, is_whole))
        if is_whole and listed and self._flags[listed[-1]] & ENDS:
            text = text[:-1]
        return text if errors is None else text.decode(errors=errors)

    def decode_list(self, ids: list[Any], is_whole: bool, errors: str | None) -> bytes | str | None:
        if any(type(id) is not int for id in ids):
            return None
        known = [id if 0 <= id < 2**31 else -1 for id in ids]
        return self.decode(np.array(known, np.int32), is_whole, errors)

    def spell_all(self, ids: Ids, is_start: bool) -> list[bytes]:
        listed = ids.tolist()
        if (wrong := next((i for i, id in enumerate(listed) if id not in self._tokens), None)) is not None:
            raise IndexError(str(wrong))
        found = [self._tokens[id] for id in listed]
        for i, id in enumerate(listed) if is_start else ():
            if self._flags[id] & SILENT:
                continue
            if self._flags[id] & MARKED:
                found[i] = found[i][1:]
                if not self._drops_all:
                    break
            if found[i]:
                break
        return found

    def list_rows(self, ids: Ids, offsets: Offsets, errors: str | None) -> list[bytes | str]:
        rows = []
        for first, last in zip(offsets.tolist(), offsets[1:].tolist(), strict=False):
            try:
                rows.append(self.decode(ids[first:last], True, errors))
            except IndexError as error:
                raise IndexError(str(first + int(str(error)))) from error
        return rows

    def list_lists(self, rows: list[Any], errors: str | None) -> list[Any] | None:
        if any(type(row) is not list or any(id not in self._tokens for id in row) for row in rows):
            return None
        found = [self.decode_list(row, True, errors) for row in rows]
        return None if None in found else found

    def decode_rows(self, ids: Ids, offsets: Offsets) -> tuple[Bytes, Offsets]:
        rows = self.list_rows(ids, offsets, None)
        ends = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=ends[1:])
        return np.frombuffer(b"".join(row for row in rows if isinstance(row, bytes)), np.uint8), ends

    def end(self) -> int:
        return max(self._tokens, default=-1) + 1

    def size_bytes(self) -> int:
        return sum(map(len, self._tokens.values()))
