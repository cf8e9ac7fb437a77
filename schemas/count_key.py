"""What tells count tables apart: the language, and where rows know it, the split and the source of their documents."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from tokcore.files.canonical_json import hash_sha256

CountedBy = Literal["source", "split"]

_PLAIN_NAME = re.compile(r"[a-z0-9_-]{1,64}")  # which is the same on every disk
_HASH_DIGITS = 16


class CountKey(NamedTuple):
    """Of which documents the rows of a count table are.

    split: train or validation; empty where splits are not told apart. source: its name; empty if it has none, or where
    sources are not told apart.

    >>> CountKey("en").spell(), CountKey("en", "train", "My wiki").spell()
    ('en', 'en/train/My wiki')
    """

    lang: str
    split: str = ""
    source: str = ""

    def spell(self) -> str:
        """The key as one text, of which parse_count_key makes it again: no language or split has a slash."""
        return self.lang if self == (self.lang, "", "") else f"{self.lang}/{self.split}/{self.source}"

    @property
    def file_name(self) -> str:
        """What stands for it in names of files: names that a disk could confuse, or not have, are hashed.

        >>> CountKey("en").file_name, CountKey("en", "train", "wiki").file_name
        ('en', 'en~train~wiki')
        >>> CountKey("en", "", "Wiki").file_name
        'en~~.63ec69fde300e6d6'
        """
        if self == (self.lang, "", ""):
            return self.lang
        is_plain = not self.source or _PLAIN_NAME.fullmatch(self.source)
        source = self.source if is_plain else f".{hash_sha256(self.source.encode())[:_HASH_DIGITS]}"
        return f"{self.lang}~{self.split}~{source}"


def parse_count_key(text: str) -> CountKey:
    """The key that spell() spelled.

    >>> parse_count_key("en/train/a/b")
    CountKey(lang='en', split='train', source='a/b')
    """
    return CountKey(*text.split("/", 2))
