"""What count tables tell apart in an output: what it began with, or, in a new one, all that there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tokcore.errors import ConfigError
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.levels import SOURCE
from tokcore_schemas.stage_manifests import CountsConfig


def settle_counting(config: BuildConfig, stored: Callable[[], CountsConfig | None], is_own: bool = True) -> BuildConfig:
    """The build file with what rows of counts know of their documents.

    Raises ConfigError if sources are mixed, and the output does not tell them apart.
    stored: gives how an output was counted, or None; it is asked at most once. is_own: it is the output of this build,
    which goes on as it began; else one whose counts may be taken over, if they tell apart what is to be learned from.
    """
    if config.counted_by is not None or not config.counts:
        return config
    if (counts := stored()) is None:
        return config
    if is_own and config.tokenizer is None and SOURCE in config.mix.level_names and SOURCE not in counts.apart_by:
        raise ConfigError(
            f"{config.at('mix', 'over')}: mixes sources, which counts of this output do not tell apart: they had no "
            f"names when it began. Build into a new output."
        )
    wanted = config.count.splits or ("all" if is_own else "train")
    if wanted == "train" and config.has_validation and "split" not in counts.apart_by:
        return config
    return dataclasses.replace(config, counted_by=counts.apart_by)
