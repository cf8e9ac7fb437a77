"""Weights of a mixture: which names they may have, and those that stand in a file."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.formats.partition_names import find_name_fault
from tokcore.train.weights_file import parse_weights
from tokcore_schemas.build_tables import BuildConfig
from tokcore_schemas.config_reader import suggest_nearest
from tokcore_schemas.stage_manifests import list_partition_keys


class WeightFault(NamedTuple):
    """A weight that nothing has, and what is wrong with it; without a name, what is wrong with all of them."""

    name: str
    what: str


def find_weight_fault(config: BuildConfig) -> WeightFault | None:
    """The first weight of the mixture that cannot have that name; None if all may."""
    weights = config.mixture.weights
    if keys := list_partition_keys(config.mixture.over):
        faults = ((name, find_name_fault(name, keys)) for name in weights)
        return next((WeightFault(name, f"weighs no partition: {fault}.") for name, fault in faults if fault), None)
    over_sources = config.mixture.over == "sources"
    if not over_sources and any(source.lang_field is not None for source in config.sources):
        return None
    spell = str if over_sources else config.spell_lang
    known = sorted({spell((source.name if over_sources else source.lang) or "") for source in config.sources})
    what = "source" if over_sources else "language"
    for name in weights:
        if spell(name) not in known:
            hint = suggest_nearest(name, known)
            return WeightFault(name, f"weighs a {what} that is not there: expected one of {', '.join(known)}.{hint}")
    if weights and all(weights.get(name) == 0 for name in known):
        return WeightFault("", "are all 0: nothing would be in the mixture.")
    return None


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
