"""Versions of code that decide bytes, besides configuration and inputs. A change makes earlier work stale. No Beam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokcore import kernel
from tokcore.text import unicode

# Raised when the same work is written to other files: no build may go on with files of another layout.
_LAYOUTS_VERSION = 4

SEMANTICS: Mapping[str, Any] = {
    "kernel": kernel.SEMANTICS_VERSION,
    "layouts": _LAYOUTS_VERSION,
    "unicode": unicode.TABLES_SHA256,
}

# Those of earlier releases, newest first. A release that raises one adds the old ones. Builds with these layouts are
# still verified; those with others are refused by name.
EARLIER: tuple[Mapping[str, Any], ...] = (
    {"kernel": 1, "unicode": "e6f3e89ac036ea6238ac91ea8fdf3dc3c8e3b3f4c05856645cd6a42284d49bf3"},  # 0.1.0
)


def has_these_layouts(semantics: Mapping[str, Any]) -> bool:
    """Whether builds of these semantics consist of files that this release reads."""
    return bool(semantics.get("layouts") == _LAYOUTS_VERSION)
