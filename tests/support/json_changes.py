"""One place of a JSON file replaced, for tests of readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def change_json(content: Any, changes: Mapping[str, Any]) -> None:
    """Replace values in place, or remove those that are `...`. `model__vocab__7` is content["model"]["vocab"][7]."""
    for path, value in changes.items():
        *folders, key = (int(name) if name.isdigit() else name for name in path.split("__"))
        place = content
        for folder in folders:
            place = place[folder]
        if value is ...:
            del place[key]
        else:
            place[key] = value
