"""Verbs: scan, count, mix, learn, encode, read and write token shards. In memory or on local files; never Beam.

>>> import tokcore
>>> tokcore.pretokenize("Hello world", pattern="cl100k")
['Hello', ' world']
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tokcore import earlier_names
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
from tokcore.text.pretokenize import pretokenize

if TYPE_CHECKING:
    from tokcore.count.count_tables import open_counts
    from tokcore.count.counting import count_pretokens
    from tokcore.learn.merges import Merge, learn_bpe
    from tokcore.shards.opened_shards import open_shards
    from tokcore.tokenizer.tokenizer import Tokenizer

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
    "open_counts",
    "open_shards",
    "pretokenize",
]

# Imported when they are first asked for: a process that needs none of them starts in half the time.
_MODULES = {
    "Merge": "learn.merges",
    "Tokenizer": "tokenizer.tokenizer",
    "count_pretokens": "count.counting",
    "learn_bpe": "learn.merges",
    "open_counts": "count.count_tables",
    "open_shards": "shards.opened_shards",
}

earlier_names.find_moved_modules()


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tokcore' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"tokcore.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
