"""Weights of a mixture: which names they may have, and those that stand in a file."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable
from decimal import Decimal

from tokcore.errors import ConfigError
from tokcore.train.weights_file import parse_weights
from tokcore_schemas.build_tables import BuildConfig
from tokcore_schemas.level_checks import WeightFault, find_item_fault, find_partition_fault
from tokcore_schemas.levels import LANG


def find_weight_fault(config: BuildConfig) -> WeightFault | None:
    """The first weight of the mixture that cannot have that name; None if all may."""
    mixture = config.mixture
    if mixture.flat_keys:
        return find_partition_fault(mixture.flat_keys, mixture.weights)
    if (fault := find_item_fault(config, mixture.own_level, mixture.weights, mixture.groups)) is not None:
        return fault
    if mixture.is_flat and mixture.weights and not any(_list_weights(config)):
        return WeightFault("", "are all 0: nothing would be in the mixture.")
    return None


def _list_weights(config: BuildConfig) -> list[Decimal]:
    """The weights of what is there, as far as the build file knows."""
    mixture, names = config.mixture, "lang" if config.mixture.own_level == LANG else "name"
    if names == "lang" and any(source.lang_field is not None for source in config.sources):
        return [Decimal(1)]
    there = [getattr(source, names) or "" for source in config.sources]
    spelled = {config.spell_lang(name) if names == "lang" else name for name in there}
    return [mixture.weights.get(name, Decimal(1)) for name in spelled]


def read_mixture_weights(config: BuildConfig, read: Callable[[str], bytes]) -> BuildConfig:
    """The config with the weights of the file that mixture.weights_file names. Raises ConfigError naming it."""
    named = config.mixture.weights_file
    if named is None:
        return config
    file = named if "://" in named else posixpath.join(config.base, named)
    key = config.at("mixture", "weights_file")
    try:
        weights = parse_weights(read(file), file)
    except OSError as error:
        raise ConfigError(f"{key} = {file}: cannot be read: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"{key} = {error}") from error
    config = dataclasses.replace(config, mixture=dataclasses.replace(config.mixture, weights=weights))
    if (fault := find_weight_fault(config)) is not None:
        raise ConfigError(f"{key} = {file}: {f'{fault.name} ' if fault.name else ''}{fault.what}")
    return config
