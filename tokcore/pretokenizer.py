"""Pre-tokenization: cut text into pieces whose ends no merge crosses, by a named pattern or a user's own regex.

Named patterns run in the kernel. Any other regular expression runs in the `regex` package, on the pinned Unicode
tables (tokcore.unicode.expand says what it may contain), with a time limit.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.patterns import PATTERNS, find_named_pattern
from tokcore.regex_split import compile_pattern, split_with_regex
from tokcore.texts import Offsets, Texts

SECONDS_PER_TEXT = 60.0


class Pretokenizer:
    """A split pattern, by name or by text. Immutable; equal, hashed and pickled by its spec.

    >>> Pretokenizer.named("cl100k").spec
    {'name': 'cl100k'}
    """

    __slots__ = ("_kind", "_text", "time_limit")

    def __init__(self, kind: str, text: str, time_limit: float = SECONDS_PER_TEXT) -> None:
        """kind: "name" or "regex". time_limit: seconds that the `regex` package may take for one text.

        Raises ConfigError for an unknown name or a pattern that is not valid.
        """
        if kind == "name":
            if text not in PATTERNS:
                raise ConfigError(_describe_unknown_name(text))
        elif kind != "regex":
            raise ConfigError(f"a pattern is given by name or regex, not by {kind!r}")
        elif find_named_pattern(text) is None:
            compile_pattern(text)
        self._kind = kind
        self._text = text
        self.time_limit = time_limit

    @classmethod
    def named(cls, name: str) -> Pretokenizer:
        """The pattern with that name, one of PATTERNS."""
        return cls("name", name)

    @classmethod
    def regex(cls, text: str, time_limit: float = SECONDS_PER_TEXT) -> Pretokenizer:
        """The pattern with that text."""
        return cls("regex", text, time_limit)

    @classmethod
    def of(cls, pattern: str) -> Pretokenizer:
        """The pattern with that name or that text.

        Raises ConfigError for what looks like a misspelled name, TypeError for what is no str.
        """
        if not isinstance(pattern, str):
            raise TypeError(f"pattern = {pattern!r:.80}: expected the name of a pattern or a regular expression")
        if pattern in PATTERNS:
            return cls.named(pattern)
        if re.fullmatch(r"[\w-]+", pattern):
            raise ConfigError(_describe_unknown_name(pattern))
        return cls.regex(pattern)

    @classmethod
    def from_spec(cls, spec: Mapping[str, str]) -> Pretokenizer:
        """The inverse of spec. Raises ConfigError for anything else."""
        if len(spec) != 1:
            raise ConfigError(f"a pattern is one of name or regex, found {sorted(spec)}")
        ((kind, text),) = spec.items()
        return cls(kind, text)

    @property
    def spec(self) -> dict[str, str]:
        """The identity of the pattern: {"name": ...} or {"regex": ...}."""
        return {self._kind: self._text}

    @property
    def native_name(self) -> str | None:
        """The named pattern that the kernel runs; None if the `regex` package does."""
        return self._text if self._kind == "name" else find_named_pattern(self._text)

    @property
    def published_text(self) -> str:
        """The regular expression itself."""
        return PATTERNS[self._text] if self._kind == "name" else self._text

    def split(self, texts: Texts) -> tuple[Offsets, Offsets]:
        """(ends, firsts): ends of all pre-tokens, absolute in texts.data; ends[firsts[i]:firsts[i + 1]] are of text i.

        Every byte is in exactly one pre-token. Raises StageError if a user's pattern exceeds its time limit.
        """
        name = self.native_name
        return self.regex_pieces(texts) if name is None else kernel.split(name, texts)

    def regex_pieces(self, texts: Texts) -> tuple[Offsets, Offsets]:
        """As split, but always through the `regex` package."""
        return split_with_regex(self.published_text, texts, self.time_limit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pretokenizer) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash((self._kind, self._text))

    def __repr__(self) -> str:
        return f"Pretokenizer({self._kind!r}, {self._text!r})"

    def __reduce__(self) -> tuple[Callable[..., Pretokenizer], tuple[str, str, float]]:
        return Pretokenizer, (self._kind, self._text, self.time_limit)


def _describe_unknown_name(name: str) -> str:
    nearest = difflib.get_close_matches(name, PATTERNS, 1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"there is no pattern named {name!r}: expected one of {', '.join(PATTERNS)}, or a regular expression.{hint}"
