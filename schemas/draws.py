"""Ids that are drawn: how a build draws them, and the seed of each document.

A document's seed follows from the build's seed, its key and the epoch alone. So an epoch has the same ids wherever and
in whatever order documents are encoded, and another epoch has others.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal

from tokcore.tokenizer.sampling import Randomness
from tokcore_schemas.stage_manifests import ShardsConfig

_PREFIX = b"tokcore-draws-v1"


def make_randomness(config: ShardsConfig) -> Randomness | None:
    """How the ids of shards are drawn; None if they are not."""
    if config.dropout:
        return Randomness(dropout=Decimal(config.dropout))
    return Randomness(sampling=Decimal(config.sampling)) if config.sampling else None


def compute_draw_seed(seed: int, epoch: int, key: bytes) -> int:
    """The 64 bits from which a document's ids are drawn. key: as tokcore_schemas.document computes it.

    >>> compute_draw_seed(0, 0, b"k") == compute_draw_seed(0, 0, b"k")
    True
    >>> len({compute_draw_seed(0, 0, b"k"), compute_draw_seed(0, 1, b"k"), compute_draw_seed(1, 0, b"k")})
    3
    """
    return int.from_bytes(hashlib.sha256(b"%s\0%d\0%d\0%s" % (_PREFIX, seed, epoch, key)).digest()[:8], "big")
