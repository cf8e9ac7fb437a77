"""Weights in a file: of languages, sources or partitions, as a build's [mixture] and a Loader take them."""

from __future__ import annotations

import json
import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from tokcore.errors import ConfigError
from tokcore.files.url_files import read_first


def parse_weights(data: bytes, name: str) -> dict[str, Decimal]:
    """Name -> weight, exact, of a table in TOML (.toml) or an object in JSON (any other file).

    name: of the file. Raises ConfigError, naming it, for what is no table of numbers of at least 0.

    >>> parse_weights(b'{"topic=code": 1.5, "topic=web": 1}', "weights.json")
    {'topic=code': Decimal('1.5'), 'topic=web': Decimal('1')}
    """
    try:
        text = data.decode("utf-8-sig")
        if name.endswith(".toml"):
            table: Any = tomllib.loads(text, parse_float=Decimal)
        else:
            table = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_take_once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f'{name}: is no table of weights, such as {{"en": 1.5}}: {error}') from error
    if not isinstance(table, dict) or not table:
        raise ConfigError(f'{name}: expected a table of weights with lines like "en": 1.5')
    for key, weight in table.items():
        is_number = isinstance(weight, (int, Decimal)) and not isinstance(weight, bool)
        if not is_number or not Decimal(weight).is_finite() or weight < 0:
            raise ConfigError(f"{name}: {key} = {str(weight)[:40]}: expected a number of at least 0")
    return {key: Decimal(weight) for key, weight in table.items()}


def read_whole_weights(path: str) -> dict[str, int]:
    """The weights of a file, at a path or a URL, as whole numbers in the same proportions; those of 0 are left out.

    Raises ConfigError as parse_weights, for a file that cannot be read, and if all are 0.
    """
    try:
        found = read_first([path]) if "://" in path else (path, Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"mixture: {path}: cannot be read: {error.strerror}") from error
    if found is None:
        raise ConfigError(f"mixture: {path}: there is no such file")
    exact = {name: Fraction(weight) for name, weight in parse_weights(found[1], path).items() if weight}
    if not exact:
        raise ConfigError(f"mixture: {path}: all weights are 0")
    scale = math.lcm(*(weight.denominator for weight in exact.values()))
    return {name: int(weight * scale) for name, weight in exact.items()}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _take_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in names if names.count(key) > 1)} is there twice")
    return found
