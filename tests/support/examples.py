"""How many examples tests try. TOKCORE_TEST_PROFILE says it: change (a tenth), ci, proof (ten times as many).

`ci`, the default, tries the same examples in each run. `proof` draws new ones and keeps those that failed.
"""

from __future__ import annotations

import os

_FACTORS = {"change": 0.1, "ci": 1.0, "proof": 10.0}
PROFILE = os.environ.get("TOKCORE_TEST_PROFILE", "ci")


def scaled(count: int) -> int:
    """The number of examples where `ci` tries this many; at least 1."""
    return max(1, round(count * _FACTORS[PROFILE]))
