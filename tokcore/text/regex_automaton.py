"""Regular expressions as automata, which the kernel runs: as fast for a user's pattern as for a published one.

Works for what looks at most one character ahead; all else is left to the `regex` package (tokcore.text.regex_split).
The match is the one that an engine that backtracks finds: a state is a list of places in the expression, the preferred
first, and what comes after a place where the expression ends is dropped.

Expressions that isolate their matches one after the other become one automaton where all but the last match runs of a
set. The text then has regions, the characters inside and outside of the set. Each region has an expression of its own,
for which characters of other regions are the end of the text.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Sequence_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.text.byte_alphabet import to_printable_tokens
from tokcore.text.regex_tree import Atomic, Choice, Look, Node, Place, Repeat, Sequence, Set
from tokcore.text.unicode import find_ranges

_LAST = 0x10FFFF
_MOST_CLASSES = 255
_MOST_PLACES = 4000  # in an expression, with its repetitions written out
_MOST_WORK = 2_000_000  # places looked at; a hostile expression has exponentially many states
_MOST_STATES = 20_000


class _TooMuchError(Exception):
    """The expression looks further ahead, or its automaton would be too large."""


class _Take(NamedTuple):
    """One character of these."""

    chars: int  # the number of a set


class _Check(NamedTuple):
    """The next character is one of these, or with at_end the text ends; with negated: is not, nor ends."""

    chars: int  # the number of a set; -1: of none
    at_end: bool
    negated: bool


class _Fork(NamedTuple):
    """Go on at these places, the first one preferred."""

    to: tuple[int, ...]


_Step = _Take | _Check | _Fork  # after a _Take or a _Check comes the next place


def make_automaton(tree: Node) -> kernel.Automaton | None:
    """The automaton of an expression that does not match nothing; None if it needs an engine that backtracks.

    >>> from tokcore.text.regex_tree import parse
    >>> make_automaton(parse(r"a+(?!\\S)", "regex")) is None, make_automaton(parse(r"(?<=b)a", "regex")) is None
    (False, True)
    """
    return _make(repr(tree), tree)


def make_chained(trees: Sequence_[Node]) -> kernel.Automaton | None:
    """The automaton whose pieces are those of the expressions one after the other, each isolating its matches.

    None if there is none: all but the last must match each character of one set, and nothing else.

    >>> from tokcore.text.regex_tree import parse
    >>> digits_then_words = [parse("[0-9]", "regex"), parse("[a-z]+|[0-9]+", "regex")]
    >>> make_chained(digits_then_words) is None, make_chained(digits_then_words[::-1]) is None
    (False, True)
    """
    return _make(repr(trees), *trees)


# Nodes of two kinds with the same parts are equal, but not written alike.
@functools.lru_cache(maxsize=256)
def _make(_written: str, *trees: Node) -> kernel.Automaton | None:
    try:
        program = _Program(_list_regions(trees, ()))
        classes = _Classes(program.sets)
        num_classes, transitions = _list_states(program, classes)
        leaf_of_block, leaves, byte_classes = classes.spell()
        regions = [program.find_region(inside) or 0 for inside in classes.members.tolist()] + [0]
        return kernel.Automaton(
            num_classes,
            transitions,
            leaf_of_block,
            leaves,
            byte_classes,
            np.array(regions if len(trees) > 1 else [], np.uint8),
        )
    except _TooMuchError:
        return None


_Bounds = tuple[tuple[Set, bool], ...]  # sets, and whether characters of a region are in them


def _list_regions(trees: Sequence_[Node], bounds: _Bounds) -> list[tuple[Node, _Bounds]]:
    """What matches in each region of a text that expressions split one after the other, within bounds."""
    first, *rest = trees
    if not rest:
        return [(first, bounds)]
    run = Repeat(first, 1, 1, False) if isinstance(first, Set) else first
    if not isinstance(run, Repeat) or not isinstance(run.part, Set) or run.least != 1 or run.is_lazy:
        raise _TooMuchError
    inside, outside = (*bounds, (run.part, True)), (*bounds, (run.part, False))
    others = _list_regions(rest, outside)
    if run.most is None:
        return [*_list_regions(rest, inside), *others]
    # What is split off must stay whole: it is one character, or is not cut any further.
    if run.most > 1 and _can_cut(_list_regions(rest, inside)):
        raise _TooMuchError
    return [(first, inside), *others]


def _can_cut(regions: list[tuple[Node, _Bounds]]) -> bool:
    """Whether these regions and what matches in them may cut a text of their characters."""
    program = _Program(regions)
    classes = _Classes(program.sets)
    there = {program.find_region(inside) for inside in classes.members.tolist()} - {None}
    return len(there) > 1 or bool(np.any(_list_states(program, classes)[1] & 1))


class _Program:
    """The places of an expression, in order. The last is where it ends."""

    def __init__(self, regions: list[tuple[Node, _Bounds]]) -> None:
        self.sets: list[Set] = []
        self.steps: list[_Step] = []
        self._number_of_set: dict[Set, int] = {}
        if len(regions) > _MOST_CLASSES:
            raise _TooMuchError
        # Of each region its first place, and the sets that its characters are in, or are not.
        self._starts: list[int] = []
        self._bounds = [[(self._number(one), wanted) for one, wanted in bounds] for _, bounds in regions]

        def add(tree: Node) -> None:
            self._starts.append(len(self.steps))
            self._add(tree)

        if len(regions) == 1:
            add(regions[0][0])
        else:
            self._add_choice([functools.partial(add, tree) for tree, _ in regions])

    def look(self, place: int, inside: list[bool] | None) -> list[bool] | None:
        """What is seen of a character from a place: None, as of the end of the text, if it is of another region."""
        region = self._bounds[bisect_right(self._starts, place) - 1]
        if inside is None or all(inside[number] == wanted for number, wanted in region):
            return inside
        return None

    def find_region(self, inside: list[bool]) -> int | None:
        """The region of a character; None if it is in none."""
        fits = (all(inside[number] == wanted for number, wanted in bounds) for bounds in self._bounds)
        return next((region for region, is_one in enumerate(fits) if is_one), None)

    def _add(self, node: Node) -> None:
        if len(self.steps) > _MOST_PLACES:
            raise _TooMuchError
        if isinstance(node, Set):
            self.steps.append(_Take(self._number(node)))
        elif isinstance(node, Sequence):
            for part in node.parts:
                self._add(part)
        elif isinstance(node, Choice):
            self._add_choice([lambda part=part: self._add(part) for part in node.parts])  # type: ignore[misc]
        elif isinstance(node, Repeat):
            self._add_repeat(node)
        elif isinstance(node, Atomic):
            self._add_possessive(node.part)
        elif isinstance(node, Look):
            self._add_look(node)
        else:
            self._add_place(node)

    def _number(self, found: Set) -> int:
        number = self._number_of_set.setdefault(found, len(self.sets))
        if number == len(self.sets):
            self.sets.append(found)
        return number

    def _add_choice(self, parts: Iterable[Callable[[], None]]) -> None:
        fork = self._reserve()
        starts, exits = [], []
        for add in parts:
            starts.append(len(self.steps))
            add()
            exits.append(self._reserve())
        self.steps[fork] = _Fork(tuple(starts))
        for place in exits:
            self.steps[place] = _Fork((len(self.steps),))

    def _reserve(self) -> int:
        self.steps.append(_Fork(()))
        return len(self.steps) - 1

    def _add_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._add(node.part)
        if node.most is None:
            fork = self._reserve()
            self._add(node.part)
            self.steps.append(_Fork((fork,)))
            self._close(fork, node.is_lazy)
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(self._reserve())
            self._add(node.part)
        for fork in forks:
            self._close(fork, node.is_lazy)

    def _close(self, fork: int, is_lazy: bool) -> None:
        """Let a fork choose between what follows it and what follows here."""
        inside, outside = fork + 1, len(self.steps)
        self.steps[fork] = _Fork((outside, inside) if is_lazy else (inside, outside))

    def _add_possessive(self, node: Node) -> None:
        """Characters of one set, as many as there are: what follows them is no such character, or they are the most."""
        if not isinstance(node, Repeat) or not isinstance(node.part, Set) or node.is_lazy:
            raise _TooMuchError
        no_more = _Check(self._number(node.part), False, True)
        fewer = node.most if node.most is None else node.most - 1

        def add_most() -> None:
            self._add_repeat(node._replace(least=node.most or 0))

        def add_fewer() -> None:
            self._add_repeat(node._replace(most=fewer))
            self.steps.append(no_more)

        if node.most is None:
            add_fewer()
        elif node.most == node.least:
            add_most()
        else:
            self._add_choice([add_most, add_fewer])

    def _add_look(self, node: Look) -> None:
        if node.is_behind:
            raise _TooMuchError
        parts = node.part.parts if isinstance(node.part, Choice) else (node.part,)
        sets = [part for part in parts if isinstance(part, Set)]
        ends = [part for part in parts if part == Place("end")]
        if len(sets) + len(ends) < len(parts) or len(sets) > 1:
            raise _TooMuchError
        number = self._number(sets[0]) if sets else -1
        self.steps.append(_Check(number, bool(ends), node.negated))

    def _add_place(self, node: Place) -> None:
        if node.kind == "end":
            self.steps.append(_Check(-1, True, False))
        elif node.kind == "line-end":
            self.steps.append(_Check(self._number(Set(((10, 10),))), True, False))
        else:
            raise _TooMuchError


class _Classes:
    """Code points by the sets that they are in: those of one class are in the same ones."""

    def __init__(self, sets: list[Set]) -> None:
        bounds = [_list_bounds(one) for one in sets]
        starts = np.unique(np.concatenate([np.array([0], np.int64), *bounds]))
        inside = np.zeros((len(starts), len(sets)), np.bool_)
        for i, (found, own) in enumerate(zip(sets, bounds, strict=True)):
            inside[:, i] = (np.searchsorted(own, starts, side="right") % 2 == 1) != found.negated
        kinds, of_start = np.unique(inside, axis=0, return_inverse=True)
        if len(kinds) > _MOST_CLASSES:
            raise _TooMuchError
        self.members = kinds  # bool [classes, sets]
        self._starts, self._of_start = starts, of_start.reshape(-1).astype(np.uint8)

    def spell(self) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """(leaf of each block of 256 code points, leaves, classes of bytes by their printable names)."""
        lengths = np.diff([*self._starts, _LAST + 1])
        of_character = np.repeat(self._of_start, lengths)
        number_of: dict[bytes, int] = {}
        blocks = (block.tobytes() for block in of_character.reshape(-1, 256))
        leaf_of_block = [number_of.setdefault(block, len(number_of)) for block in blocks]
        named = of_character[[ord(name) for name in to_printable_tokens([bytes([byte]) for byte in range(256)])]]
        return np.array(leaf_of_block, np.uint16), np.frombuffer(b"".join(number_of), np.uint8), named


def _list_bounds(found: Set) -> npt.NDArray[np.int64]:
    """Where the members of a set, before it is negated, begin and end, in turn."""
    ranges = list(found.ranges)
    for name, is_complement in found.classes:
        own = find_ranges(name)
        if is_complement:
            edges = [0, *(edge for first, last in own for edge in (first, last + 1)), _LAST + 1]
            own = tuple((a, b - 1) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b)
        ranges += own
    bounds: list[int] = []
    for first, last in sorted(ranges):
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], last + 1)
        else:
            bounds += [first, last + 1]
    return np.array([bound for bound in bounds if bound <= _LAST], np.int64)


def _list_states(program: _Program, classes: _Classes) -> tuple[int, npt.NDArray[np.uint16]]:
    """(number of classes with that of the end, what kernel.Automaton takes as transitions)."""
    members = classes.members.tolist()
    num_classes = len(members) + 1
    number_of: dict[tuple[int, ...], int] = {(): 0, (0,): 1}
    waiting: list[tuple[int, ...]] = [(0,)]
    rows = [[0] * num_classes]
    work = 0
    for places in waiting:  # grows while it is walked through
        row = []
        for inside in [*members, None]:
            steps = list(_reach(program, places, inside))
            work += len(places) + len(steps)
            is_match = bool(steps) and steps[-1] == len(program.steps)
            further = tuple(dict.fromkeys(place + 1 for place in steps[: len(steps) - is_match]))
            if further not in number_of:
                number_of[further] = len(number_of)
                waiting.append(further)
            row.append(2 * number_of[further] + is_match)
        rows.append(row)
        if work > _MOST_WORK or len(number_of) > _MOST_STATES or len(rows) * num_classes >= 2**23:
            raise _TooMuchError
    return num_classes, np.array(rows, np.uint16).reshape(-1)


def _reach(program: _Program, places: tuple[int, ...], inside: list[bool] | None) -> Iterator[int]:
    """The places that take the next character, the preferred first, and last the end of the expression, if it is one.

    inside: the sets that the character is in; None at the end of the text.
    """
    passed: set[int] = set()
    stack = list(reversed(places))
    while stack:
        place = stack.pop()
        if place in passed:
            continue
        passed.add(place)
        if place == len(program.steps):
            yield place
            return
        step = program.steps[place]
        if isinstance(step, _Fork):
            stack += reversed(step.to)
        elif isinstance(step, _Take):
            seen = program.look(place, inside)
            if seen is not None and seen[step.chars]:
                yield place
        else:
            seen = program.look(place, inside)
            is_one = step.at_end if seen is None else step.chars >= 0 and seen[step.chars]
            if is_one != step.negated:
                stack.append(place + 1)
