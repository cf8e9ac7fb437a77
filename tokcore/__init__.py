"""Verbs: scan, count, mix, learn, encode, read and write token shards. Pure, in memory or on local files; never Beam.

>>> import tokcore
>>> tokcore.pretokenize("Hello world", pattern="cl100k")
['Hello', ' world']
"""

from tokcore.bpe import Merge, learn_bpe
from tokcore.counting import count_pretokens
from tokcore.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    IdentityError,
    LearnError,
    StageError,
    TokError,
    VersionError,
)
from tokcore.pretokenize import pretokenize
from tokcore.shards import open_shards
from tokcore.tokenizer import Tokenizer

__version__ = "0.1.0"

__all__ = [
    "ChecksumError",
    "ConfigError",
    "FormatError",
    "IdentityError",
    "LearnError",
    "Merge",
    "StageError",
    "TokError",
    "Tokenizer",
    "VersionError",
    "__version__",
    "count_pretokens",
    "learn_bpe",
    "open_shards",
    "pretokenize",
]
