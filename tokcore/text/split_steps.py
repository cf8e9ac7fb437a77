"""Pre-tokenizers that are lists of steps, as tokenizer.json has them: what each step cuts, removes or adds.

A step is an object of that file. STEPS has a row for each kind: its fields, and the operations that it comes to.
Nearly all are cuts around the matches of a regular expression, which the kernel makes; expressions that look further
than one character ahead take the `regex` package, and say so once. What the steps do was compared with tokenizers
0.23.3 for every code point. Leaves to others: whole files (tokcore.formats.tokenizers.huggingface).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.errors import ConfigError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.text.engine_tables import SCRIPTS_OF_STEPS
from tokcore.text.patterns import PATTERNS, SPLITS_OF_STEPS
from tokcore.text.regex_automaton import make_automaton, make_chained
from tokcore.text.regex_spelling import spell
from tokcore.text.regex_split import SECONDS_PER_TEXT, find_matches_with_regex
from tokcore.text.regex_tree import WORD_CLASSES, WORD_RANGES, Choice, Look, Node, Repeat, Set, list_code_points, parse
from tokcore.text.regex_tree import Sequence as Parts
from tokcore.text.texts import Offsets, Texts
from tokcore.text.unicode import find_ranges, unpack_ranges

BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
_SPACE = ord(" ")

# Digits are those of Unicode 17 there, which has more than the pinned version.
_MORE_DIGITS = ((0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6))
# As \w is in Rust: what Unicode calls alphabetic, and marks, digits, joining punctuation and the two joiners.
_WORD = Set(((0x200C, 0x200D), *WORD_RANGES), WORD_CLASSES)
_WHITE = Set((), (("White_Space", False),))
_NEITHER = Set(_WORD.ranges, (*WORD_CLASSES, *_WHITE.classes), True)
_ANY = Set((), (("Any", False),))


def is_word_character(character: str) -> bool:
    r"""Whether \w of tokenizers matches a character.

    >>> is_word_character("é"), is_word_character("-")
    (True, False)
    """
    c = ord(character)
    return any(first <= c <= last for name, _ in WORD_CLASSES for first, last in find_ranges(name)) or any(
        first <= c <= last for first, last in _WORD.ranges
    )


class Operation(Protocol):
    """Cuts each text of a batch, by itself, into pieces.

    changes_text: whether the pieces, joined, may be another text.
    """

    @property
    def changes_text(self) -> bool: ...

    def apply(self, texts: Texts) -> tuple[Texts, Offsets]:
        """(the pieces of all texts, n + 1 numbers of the first piece of each text)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Cut:
    """A cut around each match of an expression; behavior and invert as tokenizers has them."""

    tree: Node
    behavior: str = "Isolated"
    invert: bool = False
    bytewise: bool = False  # a character is a byte, by its printable name
    time_limit: float = SECONDS_PER_TEXT

    @property
    def changes_text(self) -> bool:
        return self.behavior == "Removed"

    def apply(self, texts: Texts) -> tuple[Texts, Offsets]:
        ends, are_matches, firsts = self._find(texts)
        if self.invert:
            are_matches = ~are_matches
        pieces = Texts(texts.data, np.concatenate([texts.offsets[:1], ends]))
        if self.behavior == "Isolated":
            return pieces, firsts
        if self.behavior == "Removed":
            return _keep(pieces, firsts, ~are_matches)
        begins_text = np.zeros(len(ends) + 1, np.bool_)
        begins_text[firsts] = True
        # Between each piece and the next one: whether they stay apart.
        before, after = are_matches[:-1], are_matches[1:]
        joined = {
            "MergedWithPrevious": after & ~before,
            "MergedWithNext": before & ~after,
            "Contiguous": before == after,
        }[self.behavior]
        stays = np.append(~joined, True)[: len(ends)]
        stays |= begins_text[1:]
        offsets = np.concatenate([texts.offsets[:1], ends[stays]])
        return Texts(texts.data, offsets), _count_before(stays)[firsts]

    @functools.cached_property
    def automaton(self) -> kernel.Automaton | None:
        """What finds the matches in the kernel; None if the `regex` package has to."""
        return make_automaton(self.tree)

    def _find(self, texts: Texts) -> tuple[Offsets, npt.NDArray[np.bool_], Offsets]:
        if self.automaton is not None:
            return self.automaton.split(texts, self.bytewise)
        if (groups := find_groups_from_right(self.tree)) is not None:
            return groups.find(texts, self.bytewise)
        expression = spell(self.tree)
        _say_slow(expression)
        return find_matches_with_regex(expression, texts, self.time_limit, self.bytewise)


class GroupsFromRight(NamedTuple):
    """Runs of the characters of a set, cut into groups of `size` that are counted from the end of the run."""

    members: Set
    size: int

    def find(self, texts: Texts, bytewise: bool) -> tuple[Offsets, npt.NDArray[np.bool_], Offsets]:
        """(ends, whether each is that of a group, firsts), as kernel.Automaton.split."""
        runs = make_automaton(Repeat(self.members, 1, None, False))
        assert runs is not None, "an expression of one set"
        ends, are_matches, firsts = runs.split(texts, bytewise)
        lengths = np.diff(ends, prepend=texts.offsets[:1])
        long = np.flatnonzero(are_matches & (lengths > self.size))
        # The first byte of each character of these runs, and the number of its run.
        run = np.repeat(np.arange(len(long)), lengths[long])
        before = np.repeat(np.cumsum(lengths[long]) - lengths[long], lengths[long])
        places = np.repeat(ends[long] - lengths[long], lengths[long]) + np.arange(len(run)) - before
        is_first = np.ones(len(run), np.bool_) if bytewise else texts.data[places] & 0xC0 != 0x80
        places, run = places[is_first], run[is_first]
        counts = np.bincount(run, minlength=len(long))
        index = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
        cut = (index > 0) & ((counts[run] - index) % self.size == 0)
        more = np.bincount(long[run[cut]], minlength=len(ends))
        order = np.argsort(np.concatenate([ends, places[cut]]), kind="stable")
        ends = np.concatenate([ends, places[cut]])[order]
        are_matches = np.concatenate([are_matches, np.ones(int(cut.sum()), are_matches.dtype)])[order]
        return ends, are_matches, firsts + np.concatenate([[0], np.cumsum(more)])[firsts]


def find_groups_from_right(tree: Node) -> GroupsFromRight | None:
    r"""The groups that an expression such as \p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})) stands for; None of any other.

    >>> find_groups_from_right(parse(r"[0-9]{1,4}(?=(?:[0-9]{4})*(?![0-9]))", "regex")).size
    4
    """
    if not isinstance(tree, Parts) or not tree.parts or not isinstance(group := tree.parts[0], Repeat):
        return None
    members, size = group.part, group.most
    if not isinstance(members, Set) or size is None:
        return None
    whole = Repeat(Repeat(members, size, size, False), 0, None, False)
    rest = Look(Parts((whole, Look(members, False, True))), False, False)
    expected = Parts((Repeat(members, 1, size, False), rest))
    return GroupsFromRight(members, size) if repr(tree) == repr(expected) else None


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """Cuts that the kernel makes one after the other in one go: all isolate their matches."""

    cuts: tuple[Cut, ...]
    changes_text: bool = False

    @functools.cached_property
    def automata(self) -> list[tuple[kernel.Automaton, bool]]:
        """As few as there can be: several cuts may be one automaton."""
        found: list[tuple[kernel.Automaton, bool]] = []
        left = [*self.cuts]
        while left:
            alike = [*itertools.takewhile(lambda cut: cut.bytewise == left[0].bytewise, left)]
            sizes = range(len(alike), 0, -1)
            made = ((size, make_chained([cut.tree for cut in alike[:size]])) for size in sizes)
            size, automaton = next((size, one) for size, one in made if one is not None)
            found.append((automaton, left[0].bytewise))
            del left[:size]
        return found

    def apply(self, texts: Texts) -> tuple[Texts, Offsets]:
        ends, firsts = kernel.split_by_chain(self.automata, texts)
        return Texts(texts.data, np.concatenate([texts.offsets[:1], ends])), firsts


def _chain(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, those that can be made in one go together."""
    chained: list[Operation] = []
    for can_chain, group in itertools.groupby(operations, _can_chain):
        members = [*group]
        cuts = tuple(one for one in members if isinstance(one, Cut))
        chained += [Chain(cuts)] if can_chain else members
    return chained


def _can_chain(operation: Operation) -> bool:
    return isinstance(operation, Cut) and operation.behavior == "Isolated" and operation.automaton is not None


class Prefix(NamedTuple):
    """A character before each text that is not empty and does not begin with it."""

    character: bytes = b" "
    changes_text: bool = True

    def apply(self, texts: Texts) -> tuple[Texts, Offsets]:
        starts, sizes = texts.offsets[:-1], np.diff(texts.offsets)
        lacks = sizes > 0
        begins = lacks & (sizes >= len(self.character))
        for i, byte in enumerate(self.character):
            begins[begins] = texts.data[starts[begins] + i] == byte
        lacks &= ~begins
        first = texts.offsets[0]
        places = np.repeat(starts[lacks] - first, len(self.character))
        added = np.tile(np.frombuffer(self.character, np.uint8), int(lacks.sum()))
        data = np.insert(texts.data[first : texts.offsets[-1]], places, added)
        offsets = texts.offsets - first + len(self.character) * _count_before(lacks)
        return Texts(data, offsets), np.arange(texts.num_texts + 1)


class MarkBlanks(NamedTuple):
    """Another character for each blank."""

    character: bytes
    changes_text: bool = True

    def apply(self, texts: Texts) -> tuple[Texts, Offsets]:
        first = texts.offsets[0]
        used = texts.data[first : texts.offsets[-1]]
        is_blank = used == _SPACE
        sizes = np.where(is_blank, len(self.character), 1)
        data = np.repeat(used, sizes)
        starts = np.cumsum(sizes) - sizes
        for i, byte in enumerate(self.character):
            data[starts[is_blank] + i] = byte
        offsets = texts.offsets - first + (len(self.character) - 1) * _count_before(is_blank)[texts.offsets - first]
        return Texts(data, offsets), np.arange(texts.num_texts + 1)


def _keep(pieces: Texts, firsts: Offsets, kept: npt.NDArray[np.bool_]) -> tuple[Texts, Offsets]:
    """The pieces less those that are not kept."""
    if kept.all():
        return pieces, firsts
    lengths = np.diff(pieces.offsets)
    data = pieces.data[pieces.offsets[0] : pieces.offsets[-1]][np.repeat(kept, lengths)]
    offsets = np.zeros(int(kept.sum()) + 1, np.int64)
    np.cumsum(lengths[kept], out=offsets[1:])
    return Texts(data, offsets), _count_before(kept)[firsts]


def _count_before(flags: npt.NDArray[np.bool_]) -> Offsets:
    counts = np.zeros(len(flags) + 1, np.int64)
    np.cumsum(flags, out=counts[1:])
    return counts


@functools.cache
def _say_slow(expression: str) -> None:
    warnings.warn(
        f"the split pattern {expression!r:.200} looks further than one character ahead, or is too large for the kernel:"
        f" the regex package splits by it, which is exact and many times slower",
        stacklevel=2,
    )


# -------------------------------------------------------------------------------------------------------------- table


class Kind(NamedTuple):
    """A kind of step. fields: name -> what reads its value, and the default; no default where one must be given."""

    fields: Mapping[str, tuple[Callable[[Any], Any], Any]]
    make: Callable[[Mapping[str, Any]], list[Operation]]


_REQUIRED = object()


def _read_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def _read_behavior(value: Any) -> str:
    # Their Python classes spell it as "merged_with_previous", their files do not.
    if value not in BEHAVIORS:
        raise ValueError(" or ".join(BEHAVIORS))
    return str(value)


def _read_pattern(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) != 1 or not isinstance(text := next(iter(value.values())), str):
        raise ValueError('{"Regex": ...} or {"String": ...}')
    if "String" in value and text:
        return {"String": text}
    if "Regex" not in value:
        raise ValueError('{"Regex": ...}, or {"String": ...} of a text that is not empty')
    parse_split(text)
    return {"Regex": text}


def _read_delimiter(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise ValueError("one character")
    return value


def _read_length(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 1000:
        raise ValueError("1 to 1000")
    return value


def parse_split(text: str) -> Node:
    """The tree of the regular expression of a Split, as tokenizers' engine reads it.

    Raises ConfigError for what we cannot follow exactly.
    """
    return parse(text, "oniguruma")


def _make_split(step: Mapping[str, Any]) -> list[Operation]:
    pattern = step["pattern"]
    tree = parse_split(pattern["Regex"]) if "Regex" in pattern else parse(re.escape(pattern["String"]), "regex")
    return [Cut(tree, step["behavior"], step["invert"])]


def _make_digits(step: Mapping[str, Any]) -> list[Operation]:
    digits = Set(_MORE_DIGITS, (("N", False),))
    return [Cut(digits if step["individual_digits"] else Repeat(digits, 1, None, False))]


def _make_byte_level(step: Mapping[str, Any]) -> list[Operation]:
    prefix: list[Operation] = [Prefix()] if step["add_prefix_space"] else []
    return [*prefix, *([Cut(parse(PATTERNS["gpt2"], "regex"))] if step["use_regex"] else [])]


def _read_scheme(value: Any) -> str:
    if value not in ("always", "never"):
        raise ValueError("always or never (first is followed only in files that were made from SentencePiece models)")
    return str(value)


def _make_metaspace(step: Mapping[str, Any]) -> list[Operation]:
    mark = step["replacement"]
    prefix: list[Operation] = [Prefix(mark.encode())] if step["prepend_scheme"] == "always" else []
    cut: list[Operation] = [Cut(Set(((ord(mark),) * 2,)), "MergedWithNext")] if step["split"] else []
    return [MarkBlanks(mark.encode()), *prefix, *cut]


@functools.cache
def _make_script_cut() -> Cut:
    """Runs of one script; characters of none go with what is before them, and go where nothing is."""
    scripts = [Set(tuple(unpack_ranges(packed))) for packed in SCRIPTS_OF_STEPS]
    none = list_code_points(Set(tuple(one for script in scripts for one in script.ranges), (), True))
    runs = (Parts((script, Repeat(Set((*script.ranges, *none)), 0, None, False))) for script in scripts)
    return Cut(Choice(tuple(runs)), "Removed", True)


def _make_punctuation_cut(behavior: str) -> Cut:
    # Runs of one set, isolated, are what its members are when they stay together: it is what the kernel has in chains.
    if behavior == "Contiguous":
        return Cut(Repeat(_make_punctuation(), 1, None, False))
    return Cut(_make_punctuation(), behavior)


def _make_punctuation() -> Set:
    # That of "bert": its second choice.
    found = parse(PATTERNS["bert"], "regex").parts[1]  # type: ignore[union-attr]
    assert isinstance(found, Set)
    return found


_WORDS = Choice((Repeat(_WORD, 1, None, False), Repeat(_NEITHER, 1, None, False)))
_REMOVE_WHITE = Cut(_WHITE, "Removed")

STEPS: Mapping[str, Kind] = {
    "Split": Kind(
        {
            "pattern": (_read_pattern, _REQUIRED),
            "behavior": (_read_behavior, _REQUIRED),
            "invert": (_read_bool, False),
        },
        _make_split,
    ),
    "Digits": Kind({"individual_digits": (_read_bool, False)}, _make_digits),
    "Punctuation": Kind(
        {"behavior": (_read_behavior, "Isolated")}, lambda step: [_make_punctuation_cut(step["behavior"])]
    ),
    "Whitespace": Kind({}, lambda _: [Cut(_WORDS, "Removed", True)]),
    "WhitespaceSplit": Kind({}, lambda _: [_REMOVE_WHITE]),
    "BertPreTokenizer": Kind({}, lambda _: [_REMOVE_WHITE, Cut(_make_punctuation())]),
    "CharDelimiterSplit": Kind(
        {"delimiter": (_read_delimiter, _REQUIRED)},
        lambda step: [Cut(Set(((ord(step["delimiter"]),) * 2,)), "Removed")],
    ),
    "FixedLength": Kind({"length": (_read_length, 5)}, lambda step: [Cut(Repeat(_ANY, 1, step["length"], False))]),
    "ByteLevel": Kind(
        # trim_offsets is about the positions of tokens.
        {"add_prefix_space": (_read_bool, True), "use_regex": (_read_bool, True)},
        _make_byte_level,
    ),
    "Metaspace": Kind(
        {
            "replacement": (_read_delimiter, "\u2581"),
            "prepend_scheme": (_read_scheme, "always"),
            "split": (_read_bool, True),
        },
        _make_metaspace,
    ),
    "UnicodeScripts": Kind({}, lambda _: [_make_script_cut()]),
}

BYTES = "ByteLevel"  # after it, characters are bytes, by their printable names


class StepList:
    """A list of steps. Immutable.

    >>> steps = StepList([{"type": "Digits", "individual_digits": True}, {"type": "WhitespaceSplit"}])
    >>> steps.keeps_text, steps.text[:40]
    (False, '[{"individual_digits":true,"type":"Digit')
    """

    def __init__(self, value: Any) -> None:
        """value: a pre_tokenizer of tokenizer.json, or a list of them.

        Raises ConfigError, naming the step and the field, for what we cannot follow exactly.
        """
        self.steps: tuple[dict[str, Any], ...] = tuple(_list_steps(value, "pre_tokenizer"))
        self._operations: list[Operation] = []
        is_bytes = False
        for step in self.steps:
            made = STEPS[step["type"]].make(step)
            if is_bytes and (step["type"] == BYTES or not all(isinstance(one, Cut) for one in made)):
                raise ConfigError(f"pre_tokenizer {step['type']} after {BYTES}: characters are bytes there already")
            self._operations += [
                dataclasses.replace(one, bytewise=is_bytes) if isinstance(one, Cut) else one for one in made
            ]
            is_bytes |= step["type"] == BYTES

    @classmethod
    @functools.lru_cache(maxsize=64)
    def from_text(cls, text: str) -> StepList:
        """The inverse of text. Raises ConfigError."""
        try:
            return cls(json.loads(text))
        except ValueError as error:
            raise ConfigError(f"the steps of a split, {text!r:.80}, are not JSON: {error}") from error

    @functools.cached_property
    def _chained(self) -> list[Operation]:
        return _chain(self._operations)

    @property
    def text(self) -> str:
        """Canonical JSON of the steps, with all fields that decide pieces."""
        return write_canonical_json(list(self.steps)).decode().rstrip()

    @functools.cached_property
    def native_name(self) -> str | None:
        """The pattern of the kernel that cuts as these steps do: gpt2, or of PATTERNS_OF_STEPS; None if none does."""
        return _name_known_lists().get(self.text)

    @property
    def is_bytewise(self) -> bool:
        """Whether pieces are for a vocabulary of bytes."""
        return any(step["type"] == BYTES for step in self.steps)

    @property
    def keeps_text(self) -> bool:
        """Whether pieces, joined, always are the text."""
        return not any(one.changes_text for one in self._operations)

    def apply(self, texts: Texts) -> tuple[Texts, Offsets, Offsets]:
        """(texts as the steps leave them, ends, firsts): as Pretokenizer.split, of the texts that come back."""
        pieces, firsts = texts, np.arange(texts.num_texts + 1)
        for operation in self._chained:
            pieces, further = operation.apply(pieces)
            firsts = further[firsts]
        # An empty text, which nothing has cut, is a piece until here.
        kept = pieces.offsets[1:] > pieces.offsets[:-1]
        if kept.all():
            return Texts(pieces.data, pieces.offsets[firsts]), pieces.offsets[1:], firsts
        return Texts(pieces.data, pieces.offsets[firsts]), pieces.offsets[1:][kept], _count_before(kept)[firsts]


@functools.cache
def _name_known_lists() -> dict[str, str]:
    named = {StepList([{"type": BYTES, "add_prefix_space": False, "use_regex": True}]).text: "gpt2"}
    for name, expressions in SPLITS_OF_STEPS.items():
        splits = [{"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated"} for one in expressions]
        named[StepList([*splits, {"type": BYTES, "add_prefix_space": False, "use_regex": False}]).text] = name
    return named


def _list_steps(value: Any, place: str) -> list[dict[str, Any]]:
    """The steps of sequences within sequences, in order, with defaults filled in."""
    if isinstance(value, list):
        return [step for i, one in enumerate(value) for step in _list_step(one, f"{place}[{i}]")]
    return _list_step(value, place)


def _list_step(value: Any, place: str) -> list[dict[str, Any]]:
    """The step that an object is, or those of a sequence."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise ConfigError(f"{place} is {value!r:.80}: expected an object with a type")
    if kind == "Sequence":
        steps = value.get("pretokenizers", [])
        if not isinstance(steps, list):
            raise ConfigError(f"{place} Sequence has pretokenizers = {steps!r:.80}: expected a list")
        return _list_steps(steps, place)
    if kind not in STEPS:
        raise ConfigError(f"{place} {kind} is not supported: only {', '.join(STEPS)} and sequences of them")
    if kind == "Metaspace" and value.get("add_prefix_space") is False:
        value = {"prepend_scheme": "never"} | value  # as files before 2024 say it
    step: dict[str, Any] = {"type": kind}
    for field, (read, default) in STEPS[kind].fields.items():
        found = value.get(field, None if default is _REQUIRED else default)
        try:
            step[field] = read(found)
        except ValueError as error:
            raise ConfigError(f"{place} {kind} has {field} = {found!r:.80}: expected {error}") from error
    return [step]


def write_steps(listed: StepList) -> dict[str, Any] | None:
    """The pre_tokenizer of a list of steps; None of an empty one."""
    steps = [step | ({"trim_offsets": True} if step["type"] == BYTES else {}) for step in listed.steps]
    if len(steps) == 1:
        return steps[0]
    return {"type": "Sequence", "pretokenizers": steps} if steps else None
