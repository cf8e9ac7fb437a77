"""Seeded defects: small mistakes that are easily made, each with the tests that must notice it. A file for each room.

`make mutants` (mutants.run) puts them into a copy of the tree, one at a time. `make lint` checks that each applies.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from mutants.defect import Defect

_FILES = sorted(file.name for file in pkgutil.iter_modules(__path__))

DEFECTS: tuple[Defect, ...] = tuple(
    defect for file in _FILES for defect in import_module(f"mutants.defects.{file}").DEFECTS
)
