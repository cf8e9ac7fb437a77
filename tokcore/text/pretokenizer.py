"""Pre-tokenization: cut text into pieces whose ends no merge crosses: by a named pattern, a user's own regex or steps.

Named patterns run in the kernel, as DeepSeek V3's list of steps does. So does any other regular expression that looks
at most one character ahead, as an automaton. The rest runs in the `regex` package, with a time limit. All use the
pinned Unicode tables (tokcore.text.unicode.expand says what an expression may contain). Lists of steps are those of
tokcore.text.split_steps.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Mapping

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.text.pattern_presets import PRESETS
from tokcore.text.patterns import PATTERNS, find_named_pattern
from tokcore.text.regex_automaton import make_automaton
from tokcore.text.regex_split import SECONDS_PER_TEXT, compile_pattern, split_with_regex
from tokcore.text.regex_tree import parse
from tokcore.text.split_steps import StepList
from tokcore.text.texts import Offsets, Texts


class Pretokenizer:
    """A split pattern, by name, by text or as steps. Immutable; equal, hashed and pickled by its spec.

    >>> Pretokenizer.named("cl100k").spec
    {'name': 'cl100k'}
    """

    __slots__ = ("_kind", "_steps", "_text", "time_limit")

    def __init__(self, kind: str, text: str, time_limit: float = SECONDS_PER_TEXT) -> None:
        """kind: "name", "regex" or "steps". time_limit: seconds that the `regex` package may take for one text.

        Raises ConfigError for an unknown name, and for a pattern or a list of steps that is not valid.
        """
        self._steps: StepList | None = None
        if kind == "name":
            if text not in PATTERNS:
                raise ConfigError(_describe_unknown_name(text))
        elif kind == "steps":
            self._steps = StepList.from_text(text)
            text = self._steps.text
        elif kind != "regex":
            raise ConfigError(f"a pattern is given by name, regex or steps, not by {kind!r}")
        elif find_named_pattern(text) is None:
            compile_pattern(text)
        self._kind = kind
        self._text = text
        self.time_limit = time_limit

    @classmethod
    def named(cls, name: str) -> Pretokenizer:
        """The pattern with that name, one of PATTERNS, or what that preset of tokcore.text.pattern_presets means."""
        return cls(*next(iter(PRESETS[name].items()))) if name in PRESETS else cls("name", name)

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
        if pattern in PATTERNS or pattern in PRESETS:
            return cls.named(pattern)
        if re.fullmatch(r"[\w-]+", pattern):
            raise ConfigError(_describe_unknown_name(pattern))
        return cls.regex(pattern)

    @classmethod
    def from_spec(cls, spec: Mapping[str, str]) -> Pretokenizer:
        """The inverse of spec. Raises ConfigError for anything else."""
        if len(spec) != 1:
            raise ConfigError(f"a pattern is one of name, regex or steps, found {sorted(spec)}")
        ((kind, text),) = spec.items()
        return cls(kind, text)

    @property
    def spec(self) -> dict[str, str]:
        """The identity of the pattern: {"name": ...}, {"regex": ...} or {"steps": ...}, canonical JSON of the list."""
        return {self._kind: self._text}

    @property
    def native_name(self) -> str | None:
        """The named pattern that the kernel runs; None of any other."""
        if self._steps is not None:
            return self._steps.native_name
        if self._kind == "regex":
            return find_named_pattern(self._text)
        return self._text if self._kind == "name" else None

    @property
    def published_text(self) -> str:
        """The regular expression itself. Raises ConfigError if it is a list of steps."""
        if self._steps is not None:
            raise ConfigError(
                f"the split pattern is a list of steps, {self._text:.80}, and no single regular expression"
            )
        return PATTERNS[self._text] if self._kind == "name" else self._text

    @property
    def steps(self) -> StepList | None:
        """The list of steps, if the pattern is one."""
        return self._steps

    @property
    def keeps_text(self) -> bool:
        """Whether pre-tokens, joined, always are the text: steps may remove characters, or put a blank first."""
        return self._steps is None or self._steps.keeps_text

    def split(self, texts: Texts) -> tuple[Offsets, Offsets]:
        """(ends, firsts): ends of all pre-tokens, absolute in texts.data; ends[firsts[i]:firsts[i + 1]] are of text i.

        Every byte is in exactly one pre-token. Raises StageError if a user's pattern exceeds its time limit,
        ConfigError if steps do not keep the text.
        """
        if not self.keeps_text:
            raise ConfigError(f"the steps of the split pattern, {self._text:.80}, change the text: use cut")
        return self.cut(texts)[1:]

    def cut(self, texts: Texts) -> tuple[Texts, Offsets, Offsets]:
        """(texts, ends, firsts): as split, of the texts that come back, which steps may have changed."""
        if (name := self.native_name) is not None:
            return texts, *kernel.split(name, texts)
        if self._steps is not None:
            return self._steps.apply(texts)
        if (automaton := _find_automaton(self._text)) is not None:
            ends, _, firsts = automaton.split(texts)
            return texts, ends, firsts
        return texts, *self.regex_pieces(texts)

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


@functools.lru_cache(maxsize=64)
def _find_automaton(text: str) -> kernel.Automaton | None:
    try:
        return make_automaton(parse(text, "regex"))
    except ConfigError:
        return None  # engines differ about it, or a tree cannot hold it


def _describe_unknown_name(name: str) -> str:
    nearest = difflib.get_close_matches(name, (*PATTERNS, *PRESETS), 1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    known = ", ".join((*PATTERNS, *PRESETS))
    return f"there is no pattern named {name!r}: expected one of {known}, or a regular expression.{hint}"
