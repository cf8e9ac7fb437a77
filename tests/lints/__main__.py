"""`python -m lints`: list all places of the tree that break a rule of ours. Exit code 1 if there are any."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from lints import code_from_data, late_imports, layers, seeded_defects, stages
from lints.offence import Offence
from support.source import no_search_for_garbage

ROOT = Path(__file__).parents[2]

# What each checks is the first line of its file.
LINTS: tuple[Callable[[Path], Iterable[Offence]], ...] = (
    layers.find_offences,
    late_imports.find_offences,
    code_from_data.find_offences,
    seeded_defects.find_offences,
    stages.find_offences,
)


def main() -> int:
    """0 if no lint found anything, otherwise 1."""
    with no_search_for_garbage():
        offences = [offence for lint in LINTS for offence in lint(ROOT)]
    print(*offences, sep="\n", end="\n" if offences else "")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
