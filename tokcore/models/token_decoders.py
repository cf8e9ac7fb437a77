"""Decoders: ids to text, by a table of the kernel that holds the bytes of each token."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tokcore.errors import IdentityError
from tokcore.kernel import Ids, TokenTable
from tokcore.text.texts import Offsets, Texts, make_texts_from_strings

GivenIds = list[int] | Ids


class TableDecoder:
    """The decoder of a model whose texts are the bytes of tokens, one after the other, but for a byte at either end."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        ids: Ids,
        special: Mapping[int, bytes],
        flags: npt.NDArray[np.uint8] | None = None,
        drops_all: bool = False,
    ) -> None:
        """tokens, ids: the ordinary ones. special: others, which come before them if ids are equal.

        flags, drops_all: of the ordinary ones, as tokcore.kernel.TokenTable has them.
        """
        every = np.concatenate([ids, np.fromiter(special, np.int32, len(special))])
        all_flags = np.zeros(len(every), np.uint8)
        if flags is not None:
            all_flags[: len(ids)] = flags
        self.table = TokenTable(every, make_texts_from_strings([*tokens, *special.values()]), all_flags, drops_all)

    def spell(self, id: int) -> bytes:
        return self.spell_all([id], False)[0]

    def spell_all(self, ids: GivenIds, is_start: bool) -> list[bytes]:
        try:
            return self.table.spell_all(_make_array(ids), is_start)
        except IndexError as error:
            self.refuse(ids, int(str(error)), error)

    def decode(self, ids: GivenIds, is_whole: bool = True, errors: str | None = None) -> Any:
        try:
            if isinstance(ids, list):
                return self.table.decode_list(ids, is_whole, errors)
            return self.table.decode(ids, is_whole, errors)
        except IndexError as error:
            self.refuse(ids, int(str(error)), error)

    def list_lists(self, rows: list[Any], errors: str | None = None) -> list[Any] | None:
        return self.table.list_lists(rows, errors)

    def list_rows(self, ids: Ids, offsets: Offsets, errors: str | None = None) -> list[Any]:
        try:
            return self.table.list_rows(ids, offsets, errors)
        except IndexError as error:
            self._refuse_row(ids, offsets, int(str(error)), error)

    def decode_rows(self, ids: Ids, offsets: Offsets) -> Texts:
        try:
            return self.table.decode_rows(ids, offsets)
        except IndexError as error:
            self._refuse_row(ids, offsets, int(str(error)), error)

    def _refuse_row(self, ids: Ids, offsets: Offsets, place: int, error: IndexError) -> NoReturn:
        row = int(np.searchsorted(offsets, place, side="right")) - 1
        first = int(offsets[row])
        self.refuse(ids[first:], place - first, error, f"batch[{row}]: ")

    def refuse(self, ids: GivenIds, place: int, error: Exception, where: str = "") -> NoReturn:
        """Raise IdentityError for the id at a place, which is no token. where: before the message."""
        raise IdentityError(
            f"{where}ids[{place}] = {ids[place]} is no token of this tokenizer (ids are below {self.table.end()}): "
            f"were the ids made by another one?"
        ) from error


def _make_array(ids: GivenIds) -> Ids:
    """A list of integers of any size as an array, in which those that no token has are negative."""
    if not isinstance(ids, list):
        return ids
    return np.array([id if 0 <= id < 2**31 else -1 for id in ids], np.int32)


class RowDecoder(abc.ABC):
    """list_rows and decode_rows of a decoder that takes rows one by one."""

    @abc.abstractmethod
    def decode(self, ids: GivenIds, is_whole: bool = True, errors: str | None = None) -> Any: ...

    def list_lists(self, rows: list[Any], errors: str | None = None) -> list[Any] | None:
        return None

    def list_rows(self, ids: Ids, offsets: Offsets, errors: str | None = None) -> list[Any]:
        rows = []
        for i in range(len(offsets) - 1):
            try:
                rows.append(self.decode(ids[offsets[i] : offsets[i + 1]], True, errors))
            except IdentityError as error:
                raise IdentityError(f"batch[{i}]: {error}") from error
        return rows

    def decode_rows(self, ids: Ids, offsets: Offsets) -> Texts:
        return make_texts_from_strings(self.list_rows(ids, offsets))
