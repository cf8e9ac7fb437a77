"""`tokcore convert OUTPUT --partition-by KEYS -o NEW`: the documents of an output in other folders.

As for a smaller vocabulary, the settings are those in the manifests, and tokcore_pipelines.build.smaller_size makes the
shards. So the new output is what a build with that shards.partition_by gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from tokcore.errors import ConfigError
from tokcore.formats.partition_names import Partitioning
from tokcore.shards.partitions import find_fault
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.history.smaller_output import build_from, read_whole_config, require_whole
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.config import spell_plain
from tokcore_schemas.stage_manifests import LearnedConfig

OPTIONS = {"partition_by": "--partition-by", "bins": "--bins"}


def parse_partitioning(keys: str, bins: Sequence[str]) -> Partitioning:
    """What the options of the command say. Raises ConfigError for bins that are no field with numbers.

    >>> parse_partitioning("lang,quality", ["quality=0.2,0.50"])
    Partitioning(keys=('lang', 'quality'), bins={'quality': ('0.2', '0.5')})
    """
    read: dict[str, tuple[str, ...]] = {}
    for text in bins:
        key, _, bounds = text.partition("=")
        try:
            numbers = [Decimal(one) for one in bounds.split(",")]
        except InvalidOperation:
            numbers = []
        if not key or not numbers or not all(one.is_finite() for one in numbers):
            raise ConfigError(f"--bins {text}: expected a field and numbers, as quality=0.2,0.5,0.8")
        read[key] = tuple(map(spell_plain, numbers))
    names = tuple(filter(None, keys.split(",")))
    if not names:
        raise ConfigError("--partition-by: names no key: expected lang, or fields of [metadata]")
    if len({*names}) < len(names):
        raise ConfigError(f"--partition-by {keys}: names a key twice")
    return Partitioning(names, read)


def make_partitioned_output(
    output: str,
    by: Partitioning,
    max_partitions: int,
    target: str,
    options: RunOptions | None = None,
    progress: StageProgress | None = None,
) -> Build:
    """The build, to be run, of a new output with the documents of another one, dealt to partitions.

    output, target: URLs. Raises ConfigError for an output that is not finished, or was updated since, and for
    partitions that do not follow from what is in its shards.
    """
    built = require_whole(output)
    shards = built.config.shards
    if (fault := find_fault(by, shards.metadata)) is not None:
        raise ConfigError(f"{OPTIONS[fault.key[0]]}{''.join(f' {key}' for key in fault.key[1:])}: {fault.what}")
    if shards.partitioning == by:
        raise ConfigError(f"{redact(output)}: its shards are in these partitions already")
    mixed = built.config.mixed
    for key in mixed.partition_keys if mixed is not None else ():
        if key not in by.keys:
            raise ConfigError(f"--partition-by: lacks {key}, and the output has a mixture over it. Add that key")
    stored = Stored(output)
    learned = built.config.tokenizer
    # The size that was asked for, of which a corpus may give less.
    size = learned.vocab_size if isinstance(learned, LearnedConfig) else stored.spec.vocab_size
    assert isinstance(size, int), "a list of sizes is the stage's that learns several"
    config = read_whole_config(output, built.config, size)
    bins = {key: tuple(map(Decimal, bounds)) for key, bounds in by.bins.items()}
    table = dataclasses.replace(
        config.shards, by="plan", partition_by=by.keys, bins=bins, max_partitions=max_partitions
    )
    return build_from(stored, dataclasses.replace(config, shards=table), target, stored.spec, options, progress)
