"""What, besides configuration and inputs, decides bytes: a change here makes earlier work stale. No Beam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokcore import kernel, unicode

SEMANTICS: Mapping[str, Any] = {"kernel": kernel.SEMANTICS_VERSION, "unicode": unicode.TABLES_SHA256}

# Those of earlier releases, newest first: their builds are still verified. A release that raises one adds the old ones.
EARLIER: tuple[Mapping[str, Any], ...] = ()
