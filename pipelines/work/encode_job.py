"""What every worker of the encode stage needs to know, and the types that its steps share."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from tokcore.formats.shard_format import ShardSettings
from tokcore.tokenizer.sampling import Randomness
from tokcore_pipelines.store.attempts import Attempts

Stream = tuple[str, str]  # (language, or empty where shards hold all; split)
Positions = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class EncodeJob:
    """What every worker of the encode stage needs to know."""

    attempts: Attempts
    base: str  # folder against which relative uris are resolved
    tokenizer: str  # URL of tokcore.json
    settings: ShardSettings
    prepend: tuple[int, ...]  # ids before each document
    append: tuple[int, ...]  # ids after each document
    special_text: str  # ordinary | special (reject is the reader's)
    formats: tuple[str, ...]
    target_tokens: int
    by_lang: bool
    validation: str  # exact decimal
    seed: int
    unknown: int | None = None  # id that stands for text without tokens
    tokenizer_sha256: str = ""  # of that file, if it was checked before
    settings_sha256: str = ""  # of all that determines every item's shards alike: see result_keys
    shuffle: int | None = None  # its seed; None: documents stay in the order of the plan
    randomness: Randomness | None = None  # how ids are drawn; None: they are not
    epoch: int = 0
    inherits: bool = False  # whether some work items are those of another part of the output
    max_languages: int = 0  # of a work item; 0: no limit
