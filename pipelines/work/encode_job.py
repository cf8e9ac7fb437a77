"""What every worker of a stage that writes shards needs to know, and the types that the steps of encoding share."""

from __future__ import annotations

import dataclasses
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tokcore.formats.metadata import Told
from tokcore.formats.shard_format import ShardSettings
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.result_keys import hash_shards_settings
from tokcore_schemas.stage_manifests import ShardsConfig

Stream = tuple[str, str]  # (folder of a language or a partition, or empty where shards hold all; split)
Positions = npt.NDArray[np.int64]

Config = TypeVar("Config")


@dataclasses.dataclass(frozen=True, slots=True)
class ShardJob(Generic[Config]):
    """What every worker of a stage that writes shards needs to know."""

    attempts: Attempts
    config: Config
    settings: ShardSettings


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeJob(ShardJob[ShardsConfig]):
    """What every worker of the encode stage needs to know."""

    base: str  # folder against which relative uris are resolved
    tokenizer: str  # URL of tokcore.json
    tokenizer_sha256: str = ""  # of that file, if it was checked before
    prepend: tuple[int, ...] = ()  # ids before each document
    append: tuple[int, ...] = ()  # ids after each document
    unknown: int | None = None  # id that stands for text without tokens
    inherits: bool = False  # whether some work items are those of another part of the output
    max_languages: int = 0  # of a work item; 0: no limit
    max_partitions: int = 0  # the same

    @property
    def partition_columns(self) -> Told:
        """The columns of metadata that the partition of a document depends on."""
        by = self.config.partitioning
        return () if by is None else by.columns_of(self.settings.metadata)

    @property
    def settings_sha256(self) -> str:
        """Of all that determines every item's shards alike: see result_keys."""
        return hash_shards_settings(self.config, self.settings.fingerprint)
