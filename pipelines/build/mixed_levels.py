"""What a build says of a mix by levels: of each level, what its items have in the corpus and when learning."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from tokcore_pipelines.local.terminal import make_printable
from tokcore_schemas.levels import LANG
from tokcore_schemas.stage_manifests import LevelShare, TokenizerManifest

_MOST_ITEMS = 2  # of a level, at the end of a build


def tell_levels(made: TokenizerManifest) -> list[str]:
    """A line for each level of a mix by levels, for the end of a build, whose table has languages."""
    return [_tell_level(level, shares) for level, shares in (made.totals.levels or {}).items() if level != LANG]


def _tell_level(level: str, shares: Mapping[str, LevelShare]) -> str:
    """The largest items of a level with their shares of bytes in the corpus and when learning."""
    largest = sorted(shares.items(), key=lambda item: (-Decimal(item[1].share_of_bytes[1]), item[0]))
    parts = [
        f"{make_printable(item)} {100 * Decimal(before):.1f} to {100 * Decimal(after):.1f} %"
        for item, one in largest[:_MOST_ITEMS]
        for before, after in [one.share_of_bytes]
    ]
    more = f", and {len(largest) - _MOST_ITEMS:,} more" if len(largest) > _MOST_ITEMS else ""
    return f"bytes learned from by {level}: {', '.join(parts)}{more}"
