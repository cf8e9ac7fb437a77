"""Where code wants tokens to end: between the parts of identifiers, around operators, after indentation.

Places are found in the bytes of texts, once for all tokenizers; what follows are counts of tokens that begin there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.evaluate.spread import DIGITS
from tokcore.evaluate.token_starts import TokenStarts
from tokcore.text.texts import Offsets

# What parts an identifier: underscores between letters or digits; a small letter before a capital; several capitals
# before a capital and a small letter.
_JOINT = re.compile(rb"(?<=[A-Za-z0-9])_+(?=[A-Za-z0-9])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z][A-Z])(?=[A-Z][a-z])")
# Those of C and its kin, and of Python, of two signs or more that text seldom has; the longest first.
_OPERATORS = (
    *("===", "!==", "<<=", ">>=", "==", "!=", "<=", ">=", "->", "=>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="),
    *("&&", "||", "::", "<<", ">>", ":="),
)
_OPERATOR = re.compile(
    rb"(?<=[\w\])}\"'])( *)(?:" + b"|".join(re.escape(one.encode()) for one in _OPERATORS) + rb")"
    rb"(?![-+*/%=<>!&|^~:.])( *)(?=[\w(\[{\"'$@])"
)
_INDENT = re.compile(rb"(?:(?<=\n)|\A)(?: {2,}|\t+ *)(?=\S)")

# What is found in texts -> how many bounds each such place has.
_KINDS = {"joints": 2, "operators": 4, "indents": 2}


class Places:
    """Places in texts, as bytes from the begin of the first text on. Each array is int64 [places, bounds].

    joints: where one part of an identifier ends, and the next begins. operators: where the blanks before one begin and
    end, and where those after it do. indents: where indentation begins and ends.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        found: dict[str, list[tuple[int, ...]]] = {name: [] for name in _KINDS}
        base = 0
        self._texts: dict[str, list[int]] = {name: [] for name in _KINDS}
        for number, text in enumerate(texts):
            for name, places in _find(text).items():
                found[name] += [tuple(base + bound for bound in place) for place in places]
                self._texts[name] += [number] * len(places)
            base += len(text)
        self._bounds: dict[str, Offsets] = {
            name: np.array(places, np.int64).reshape(-1, _KINDS[name]) for name, places in found.items()
        }

    def count(self, starts: TokenStarts) -> Counts:
        """What a tokenizer does at the places of texts that are known to it. starts: of the same texts."""
        (joint, next_part), (before, operator, end, after), (indent, text) = (
            self._bounds[name][starts.known[self._texts[name]]].T for name in _KINDS
        )
        apart = (starts.count_between(before, operator + 1) > 0) & (starts.count_between(end, after + 1) > 0)
        return np.array(
            [
                len(joint),
                (starts.count_between(joint, next_part + 1) > 0).sum(),
                len(operator),
                apart.sum(),
                (starts.count_between(operator + 1, end) == 0).sum(),
                len(indent),
                starts.count_between(indent, text).sum(),
            ],
            np.int64,
        )


Counts = npt.NDArray[np.int64]  # as Places.count gives them; those of several batches may be added
NO_COUNTS: Counts = np.zeros(7, np.int64)


def _find(text: bytes) -> Mapping[str, list[tuple[int, ...]]]:
    return {
        "joints": [found.span() for found in _JOINT.finditer(text)],
        "operators": [(*found.span(1), *found.span(2)) for found in _OPERATOR.finditer(text)],
        "indents": [found.span() for found in _INDENT.finditer(text)],
    }


def tell_boundaries(counts: Counts) -> dict[str, Any]:
    """Shares of places, and tokens for each indentation; None of what the texts do not have.

    >>> tell_boundaries(NO_COUNTS + [4, 3, 2, 2, 1, 0, 0])
    {'identifiers': 0.75, 'operators_apart': 1.0, 'operators_whole': 0.5, 'indentation': None}
    """
    joints, parted, operators, apart, whole, indents, tokens = counts.tolist()

    def divide(some: int, every: int) -> float | None:
        return round(some / every, DIGITS) if every else None

    return {
        "identifiers": divide(parted, joints),
        "operators_apart": divide(apart, operators),
        "operators_whole": divide(whole, operators),
        "indentation": divide(tokens, indents),
    }
