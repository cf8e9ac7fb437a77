"""What a lint finds."""

from __future__ import annotations

from typing import NamedTuple


class Offence(NamedTuple):
    """One place that breaks a rule. It is shown as path:line: what it does, and the way out."""

    path: str  # below the root of the tree
    line: int
    what: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}. {self.way_out}"
