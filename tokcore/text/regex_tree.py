"""Regular expressions as trees: what a pattern means, in the spelling of one of three engines.

Equal trees mean the same. Flags are resolved: letters whose case is ignored become sets of characters. What is parsed
is what the `regex` package, Oniguruma (Hugging Face's tokenizers) and fancy-regex (tiktoken, which Mistral's library
uses) can all be told; all else is refused by name. Leaves to others: writing (tokcore.text.regex_spelling), splitting
(tokcore.text.regex_split).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Listed
from typing import Literal, NamedTuple, TypeAlias

from tokcore.errors import ConfigError
from tokcore.text.engine_tables import SCRIPTS
from tokcore.text.regex_split import find_cases, find_ranges_of
from tokcore.text.unicode import find_category, find_ranges, unpack_ranges

Dialect = Literal["regex", "oniguruma", "fancy"]
Ranges = tuple[tuple[int, int], ...]


class Set(NamedTuple):
    """One character: of these ranges and classes, or with negated of none of them.

    classes: names that tokcore.text.unicode.find_ranges knows, and whether their complement is meant.
    """

    ranges: Ranges
    classes: tuple[tuple[str, bool], ...] = ()
    negated: bool = False


class Sequence(NamedTuple):
    """One part after the other."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """The first part that leads to a match."""

    parts: tuple[Node, ...]


class Repeat(NamedTuple):
    """A part least to most times. most: None for no limit. is_lazy: as few as possible come first."""

    part: Node
    least: int
    most: int | None
    is_lazy: bool


class Atomic(NamedTuple):
    """A part that is not matched otherwise once it has matched."""

    part: Node


class Look(NamedTuple):
    """A place that a part follows, or with is_behind precedes; with negated: does not."""

    part: Node
    is_behind: bool
    negated: bool


class Place(NamedTuple):
    """A place in the text: start, end, last-line (the end, or before a line feed that ends the text), line-start,
    inner-line-start (which is not the end, unless the text is empty), line-end.
    """

    kind: str


Node: TypeAlias = Set | Sequence | Choice | Repeat | Atomic | Look | Place

_INTERVAL = re.compile(r"\{(?:(\d+)(,?)(\d*)|,(\d+))\}")
_CODE = {"x": 2, "u": 4, "U": 8}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_ANY = Set((), (("Any", False),))
_NO_LINE_FEED = Set(((10, 10),), (), True)
_HEX_DIGITS = Set(((48, 57), (65, 70), (97, 102)))
# Characters that are several lowercase ones when case is ignored: Oniguruma finds them where these are spelled.
_LIGATURES = ("ss", "ff", "fi", "fl", "st")
_MOST_REPEATS = 1000
# Where $ is, outside of (?m). Oniguruma's is at every line.
_LAST: Mapping[Dialect, str] = {"regex": "last-line", "fancy": "end"}
_OPERATORS: Mapping[Dialect, tuple[str, ...]] = {"regex": (), "oniguruma": (), "fancy": ("&&", "--", "~~")}
# \w of Oniguruma: what Unicode calls alphabetic, and marks, digits, joining punctuation, and numbers of Latin-1.
WORD_CLASSES = tuple((name, False) for name in ("L", "M", "Nd", "Nl", "Pc"))
WORD_RANGES = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_WORD = Set(((0xB2, 0xB3), (0xB9, 0xB9), (0xBC, 0xBE), *WORD_RANGES), WORD_CLASSES)
_LAST_CODE_POINT = 0x10FFFF


@functools.lru_cache(maxsize=64)
def parse(pattern: str, dialect: Dialect) -> Node:
    """The tree of a pattern.

    Raises ConfigError, which names the part and its place, for what is refused. The pattern is valid in its dialect.
    """
    return _Parser(pattern, dialect).parse()


def can_be_empty(node: Node) -> bool:
    """Whether a part may match no character. Engines go on in different ways after such a match."""
    if isinstance(node, Set):
        return False
    if isinstance(node, Sequence):
        return all(map(can_be_empty, node.parts))
    if isinstance(node, Choice):
        return any(map(can_be_empty, node.parts))
    if isinstance(node, Repeat):
        return node.least == 0 or can_be_empty(node.part)
    return can_be_empty(node.part) if isinstance(node, Atomic) else True


def _is_ligature(one: Node, other: Node) -> bool:
    """Whether two neighbours spell what is one character in another case."""
    both = [
        "".join(chr(c) for first, last in part.ranges if last < 128 for c in range(first, last + 1))
        for part in (one, other)
        if isinstance(part, Set)
    ]
    return len(both) == 2 and any(two[0] in both[0] and two[1] in both[1] for two in _LIGATURES)


class _Flags(NamedTuple):
    ignores_case: bool = False
    lines: bool = False  # ^ and $ are at every line
    dot_is_any: bool = False
    verbose: bool = False


class _Parser:
    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self._pattern, self._dialect = pattern, dialect
        self._at = 0

    def parse(self) -> Node:
        flags = _Flags()
        if match := self._take(r"\(\?([a-z]+)\)"):
            flags = self._set_flags(flags, match[1], "", 0)
        node = self._parse_choice(flags)
        if self._at < len(self._pattern):
            raise self._refuse(")", self._at, "closes no group")
        if can_be_empty(node):
            raise ConfigError(
                f"the regular expression {self._pattern!r:.200} can match nothing, after which engines differ"
            )
        return node

    # ------------------------------------------------------------------------------------------------------- structure

    def _parse_choice(self, flags: _Flags) -> Node:
        parts = [self._parse_sequence(flags)]
        while self._take(r"\|"):
            parts.append(self._parse_sequence(flags))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _parse_sequence(self, flags: _Flags) -> Node:
        parts: list[Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if (flags.verbose and self._take(r"\s+|#[^\n]*")) or self._take(r"\(\?#[^)]*\)"):
                continue
            start = self._at
            if match := self._take(r"\(\?[a-z]+\)"):
                raise self._refuse(match[0], start, "sets flags in the middle: engines differ in how far they hold")
            node = self._parse_quantified(self._parse_atom(flags), flags)
            parts += node.parts if isinstance(node, Sequence) else [node]
            if self._dialect == "oniguruma" and flags.ignores_case and any(map(_is_ligature, parts, parts[1:])):
                raise self._refuse(self._pattern[start : self._at], start, "ends a ligature, where case is ignored")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _parse_quantified(self, node: Node, flags: _Flags) -> Node:
        while True:
            if flags.verbose:
                self._take(r"(?:\s+|#[^\n]*)+")
            start = self._at
            if match := self._take(r"[*+?]"):
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[match[0]]
                kind = self._take(r"[+?]")
                how = kind[0] if kind else ""
            elif match := self._take(_INTERVAL.pattern):
                least = int(match[1] or 0)
                most = int(match[4]) if match[4] else least if not match[2] else int(match[3]) if match[3] else None
                ends = self._take(r"[+?]")
                how = ends[0] if ends else ""
                if self._dialect == "oniguruma" and how == "+":
                    raise self._refuse(match[0] + how, start, "repeats a group there, and is possessive elsewhere")
                if self._dialect == "oniguruma" and how == "?" and not match[2] and not match[4]:
                    node, (least, most), how = Repeat(node, least, most, False), (0, 1), ""
            else:
                return node
            if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
                raise self._refuse(match[0], start, f"counts beyond {_MOST_REPEATS}, or from more to less")
            if isinstance(node, Place | Look) or can_be_empty(node):
                raise self._refuse(match[0] + how, start, "repeats what can match nothing")
            node = Repeat(node, least, most, how == "?" and least != most)
            node = Atomic(node) if how == "+" else node

    def _parse_atom(self, flags: _Flags) -> Node:
        start = self._at
        character = self._pattern[start]
        self._at += 1
        if character == "(":
            return self._parse_group(flags, start)
        if character == "[":
            return self._fold(self._parse_class(start), flags, start)
        if character == "\\":
            return self._parse_escape(flags, start)
        if character == ".":
            return _ANY if flags.dot_is_any else _NO_LINE_FEED
        if character in "^$":
            if self._dialect == "oniguruma":
                return Place("inner-line-start" if character == "^" else "line-end")
            names = ("line-start", "line-end") if flags.lines else ("start", _LAST[self._dialect])
            return Place(names[character == "$"])
        if character in "*+?{":
            raise self._refuse(character, start, f"repeats nothing: write \\{character} for the character")
        return self._fold(Set(((ord(character),) * 2,)), flags, start)

    def _parse_group(self, flags: _Flags, start: int) -> Node:
        wrap: Callable[[Node], Node] = lambda node: node  # noqa: E731
        if match := self._take(r"\?([a-z]*)(?:-([a-z]+))?:"):
            flags = self._set_flags(flags, match[1], match[2] or "", start)
        elif self._take(r"\?>"):
            wrap = Atomic
        elif match := self._take(r"\?(<?)([=!])"):
            behind, negated = bool(match[1]), match[2] == "!"
            wrap = lambda node: self._look(node, behind, negated, start)  # noqa: E731
        elif self._take(r"\?") and not self._take(r"P?<\w+>"):
            raise self._refuse(self._pattern[start : self._at + 1], start, "is not known")
        node = self._parse_choice(flags)
        if not self._take(r"\)"):
            raise self._refuse("(", start, "is not closed")
        return wrap(node)

    def _look(self, node: Node, is_behind: bool, negated: bool, start: int) -> Look:
        parts = node.parts if isinstance(node, Sequence) else (node,)
        if is_behind and not all(isinstance(part, Set) for part in parts):
            raise self._refuse(self._pattern[start : self._at], start, "looks behind for more than some characters")
        return Look(node, is_behind, negated)

    def _set_flags(self, flags: _Flags, on: str, off: str, start: int) -> _Flags:
        names = {"i": "ignores_case", "x": "verbose"}
        names |= {"m": "dot_is_any"} if self._dialect == "oniguruma" else {"m": "lines", "s": "dot_is_any"}
        for letter in on + off:
            if letter not in names:
                raise self._refuse(f"(?{letter}", start, f"is no flag that is known: use {', '.join(names)}")
            flags = flags._replace(**{names[letter]: letter in on})
        return flags

    # ------------------------------------------------------------------------------------------------------ characters

    def _parse_escape(self, flags: _Flags, start: int) -> Node:
        letter = self._pattern[self._at : self._at + 1]
        places = {"A": "start", "z": "end", "Z": "end" if self._dialect == "regex" else "last-line"}
        if self._dialect == "fancy" and letter and letter in "Z<>":
            raise self._refuse(f"\\{letter}", start, "is a place there that other engines do not know")
        if letter in places and letter:
            self._at += 1
            return Place(places[letter])
        found = self._parse_escaped(start)
        return self._fold(found if isinstance(found, Set) else Set(((found, found),)), flags, start)

    def _parse_escaped(self, start: int) -> int | Set:
        """The code point, or the set, that an escape stands for. The backslash is behind us."""
        if match := self._take(r"([pP])(?:\{(\^?)([^{}]*)\}|([A-Za-z]))"):
            if self._dialect == "oniguruma" and match[3] in SCRIPTS:
                return _find_script(match[3])._replace(negated=(match[1] == "P") != bool(match[2]))
            name = find_category(match[3] if match[4] is None else match[4])
            is_theirs = match[4] is None and len(match[3]) <= 2
            if name is None or (self._dialect == "oniguruma" and not is_theirs and match[3] not in _LONG):
                raise self._refuse(f"\\{match[0]}", start, "is no general category that all engines know alike")
            return Set((), ((name, (match[1] == "P") != bool(match[2])),))
        if self._dialect == "oniguruma" and (match := self._take(r"[wW]")):
            return _WORD._replace(negated=match[0] == "W")
        if match := self._take(r"[sSdD]"):
            return Set((), (("White_Space" if match[0] in "sS" else "Nd", match[0] in "SD"),))
        braced = {"oniguruma": "x", "fancy": "[xuU]"}.get(self._dialect)
        if braced and (match := self._take(braced + r"\{([0-9A-Fa-f]{1,6})\}")):
            return int(match[1], 16)
        if self._dialect != "regex" and (match := self._take(r"[hH]")):
            return _HEX_DIGITS._replace(negated=match[0] == "H")
        if match := self._take(r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}"):
            code = int(match[0][1:], 16)
            if self._dialect == "oniguruma" and (match[0][0] == "U" or (match[0][0] == "x" and code > 127)):
                raise self._refuse(f"\\{match[0]}", start, "is a byte there, or nothing")
            return code
        if match := self._take(r"[nrtfva]"):
            return ord(_CONTROLS[match[0]])
        if match := self._take(r"[^A-Za-z0-9]"):
            return ord(match[0])
        shown = self._pattern[start : self._at + 1]
        raise self._refuse(shown, start, "depends on the Unicode tables or on the kind of the engine")

    def _parse_class(self, start: int) -> Set:
        negated = bool(self._take(r"\^"))
        ranges: list[tuple[int, int]] = []
        classes: list[tuple[str, bool]] = []
        is_first = True
        others: list[Set] = []  # what && stands between
        while not self._take(r"\]") or is_first:
            if self._at >= len(self._pattern):
                raise self._refuse("[", start, "is not closed")
            if is_first and self._pattern[self._at - 1] == "]":
                self._at -= 1
            begin = self._at
            if self._dialect == "oniguruma" and self._take("&&"):
                if is_first or self._take(r"(?=\]|&&)"):
                    raise self._refuse("&&", begin, "has nothing beside it")
                others.append(Set(tuple(ranges), tuple(classes)))
                ranges, classes = [], []
                continue
            one = self._parse_member(is_first)
            is_first = False
            if not isinstance(one, int):
                if one.negated:
                    ranges += list_code_points(one)
                else:
                    ranges += one.ranges
                    classes += one.classes
                continue
            last = one
            self._require_no_operator()
            if self._take(r"-(?!\])"):
                end = self._parse_member(False)
                if not isinstance(end, int) or end < one:
                    raise self._refuse(self._pattern[begin : self._at], begin, "is no range")
                last = end
            ranges.append((one, last))
        if others:
            ranges, classes = _intersect([*others, Set(tuple(ranges), tuple(classes))]), []
        return Set(tuple(ranges), tuple(classes), negated)

    def _parse_member(self, is_first: bool) -> int | Set:
        start = self._at
        self._require_no_operator()
        character = self._pattern[start : start + 1]
        self._at += 1
        if character == "\\":
            if self._take("b"):
                return 8
            return self._parse_escaped(start)
        pair = self._pattern[start : start + 2]
        if character == "[" and pair != "[:" and self._dialect == "oniguruma":
            return self._parse_class(start)  # its members are those of the set around it
        if character == "[" and (self._dialect != "regex" or pair == "[:"):
            raise self._refuse(pair, start, "is a set within a set there: write \\[ for the character")
        if not character or (character == "]" and is_first and self._dialect == "oniguruma"):
            raise self._refuse("]", start, "ends an empty class")
        return ord(character)

    def _require_no_operator(self) -> None:
        pair = self._pattern[self._at : self._at + 2]
        if pair in _OPERATORS[self._dialect]:
            raise self._refuse(pair, self._at, f"is an operation on sets there: write \\{pair[0]}")

    def _fold(self, found: Set, flags: _Flags, start: int) -> Set:
        """The set with the other cases of its letters, if case is ignored."""
        if not flags.ignores_case:
            return found
        if self._dialect != "regex":
            if found.classes or any(last > 127 for _, last in found.ranges):
                shown = self._pattern[start : self._at]
                raise self._refuse(shown, start, "beyond ASCII ignores case by the engine's own tables")
            letters = {c for first, last in found.ranges for c in range(first, last + 1) if chr(c).isalpha()}
            more = {ord(chr(c).swapcase()) for c in letters} - letters
            more |= {other for one, other in ((ord("s"), 0x17F), (ord("k"), 0x212A)) if letters & {one, one - 32}}
            return found._replace(ranges=(*found.ranges, *find_ranges_of(more)))
        return found._replace(ranges=(*found.ranges, *find_ranges_of(find_cases(found.ranges, found.classes))))

    # ----------------------------------------------------------------------------------------------------------- tools

    def _take(self, form: str) -> re.Match[str] | None:
        match = re.compile(form).match(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _refuse(self, part: str, at: int, why: str) -> ConfigError:
        return ConfigError(f"{part!r} at character {at} of the regular expression {self._pattern!r:.200} {why}")


@functools.cache
def _find_script(name: str) -> Set:
    return Set(tuple(unpack_ranges(SCRIPTS[name])))


@functools.lru_cache(maxsize=256)
def list_code_points(found: Set) -> Ranges:
    """The members of a set as inclusive ranges, ascending."""
    named = [_complement(find_ranges(name)) if negated else find_ranges(name) for name, negated in found.classes]
    united: list[tuple[int, int]] = []
    for first, last in sorted(one for ranges in (found.ranges, *named) for one in ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = united[-1][0], max(last, united[-1][1])
        else:
            united.append((first, last))
    return _complement(united) if found.negated else tuple(united)


def _complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    edges = [0, *(edge for first, last in ranges for edge in (first, last + 1)), _LAST_CODE_POINT + 1]
    return tuple((a, b - 1) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b)


def _intersect(sets: Listed[Set]) -> list[tuple[int, int]]:
    outside = [one for found in sets for one in _complement(list_code_points(found))]
    return [*_complement(list_code_points(Set(tuple(outside))))]


_LONG = frozenset(("Letter", "Mark", "Number", "Symbol", "Separator", "Any"))
