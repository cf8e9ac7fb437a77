"""Encoded: the ids of a batch of texts."""

from __future__ import annotations

from typing import NamedTuple

from tokcore.kernel import Ids
from tokcore.texts import Offsets


class Encoded(NamedTuple):
    """The ids of a batch of texts."""

    ids: Ids  # int32, of all texts
    offsets: Offsets  # int64, n + 1; text i is ids[offsets[i]:offsets[i + 1]]
    pretokens: Offsets  # int64, n; the number of pre-tokens of each text
