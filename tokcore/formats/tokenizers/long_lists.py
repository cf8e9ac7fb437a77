"""The vocabulary and merges of a tokenizer.json, which are nearly all of it: the kernel reads them where they stand.

It takes the form that byte-level BPE files have. Of any other the caller parses all, and says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import orjson

from tokcore import kernel
from tokcore.models.model import Ids

_PLACED = "\x00"  # stands for each of them in the rest of the file
_PLACEHOLDER = b'"\\u0000"'
_VALUE = re.compile(rb"\s*:\s*(?=[\[{])")


class NeedsParserError(Exception):
    """The kernel does not take these lists; they may be right or wrong."""


class LongLists(NamedTuple):
    """Where both begin. It stands for the vocabulary in what split_long_lists returns."""

    data: bytes
    vocabulary_at: int
    merges_at: int

    def read(self, left_out: Collection[str]) -> tuple[tuple[bytes, ...], Ids, Ids]:
        """(tokens, their ids, ascending; merges, int32 [m, 2], pairs of ids). left_out: names that are no tokens.

        Raises NeedsParserError.
        """
        read = kernel.read_named_bpe(self.data, self.vocabulary_at, self.merges_at, [*left_out])
        if read is None:
            raise NeedsParserError
        return read


def split_long_lists(data: bytes) -> Any | None:
    """The JSON value of a tokenizer.json, with LongLists for the vocabulary of its model; None of any other file."""
    if _PLACEHOLDER in data:
        return None
    spans: list[tuple[int, int]] = []
    for key in (b'"vocab"', b'"merges"'):
        at = data.find(key, spans[0][1] if spans else 0)
        if at < 1 or data[at - 1 : at] == b"\\" or (begun := _VALUE.match(data, at + len(key))) is None:
            return None
        spans.append((begun.end(), kernel.skip_json(data, begun.end())))
        if spans[-1][1] == 0:
            return None
    (vocabulary_at, vocabulary_end), (merges_at, merges_end) = spans
    rest = (data[:vocabulary_at], data[vocabulary_end:merges_at], data[merges_end:])
    try:
        content = orjson.loads(_PLACEHOLDER.join(rest))
    except orjson.JSONDecodeError:
        return None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict) or model.get("vocab") != _PLACED or model.get("merges") != _PLACED:
        return None
    model["vocab"] = LongLists(data, vocabulary_at, merges_at)
    return content
