"""YouTokenToMe's model files: lines of numbers, which are BPE over characters with U+2581 before each word.

    CHARACTERS MERGES           how many lines of each follow
    CODE_POINT ID               for each character; U+2581 is one
    LEFT RIGHT ID               for each merge, the first learned first: ids of two tokens, and of what they become
    UNK PAD BOS EOS             ids of special tokens; -1: there is none

Its encoder leaves out bytes outside of well-formed UTF-8, cuts words at ASCII's white space and U+2581, and makes one
<UNK> of unknown characters that follow each other in a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tokcore.errors import FormatError
from tokcore.models.model import ID_LIMIT, MAX_TOKEN_BYTES, MAX_VOCABULARY_BYTES, make_too_long_error
from tokcore.models.sentencepiece.converted import PieceBpeModel
from tokcore.models.sentencepiece.piece_text import SPACE
from tokcore.text.text_steps import TextStep
from tokcore.tokenizer.tokenizer_spec import UNKNOWN, SpecialToken, TokenizerSpec

_SPECIAL = (("<UNK>", UNKNOWN), ("<PAD>", "padding"), ("<BOS>", "document_begin"), ("<EOS>", "document_end"))
_START = re.compile(rb"\d+ \d+\r?\n\d+ \d+\r?\n")
_END = re.compile(rb"\n\d+ -?\d+ -?\d+ -?\d+\s*\Z")


def is_youtokentome_model(data: bytes) -> bool:
    """Whether a file begins and ends as such a model does: two lines of two numbers, and one of four."""
    return _START.match(data) is not None and _END.search(data[-200:]) is not None


def read_youtokentome_model(data: bytes, name: str) -> TokenizerSpec:
    """The tokenizer of such a file; name is the file's, for errors.

    Raises FormatError, naming the line, for numbers that are missing, too large, or used before they are given, and for
    two tokens with one text, which tokcore does not tell apart.
    """
    try:
        lines = data.decode("ascii").splitlines()
        num_characters, num_merges = _read_numbers(lines, 0, 2)
        if not 0 < num_characters <= len(lines) or not 0 <= num_merges <= len(lines):
            raise FormatError(
                f"line 1 says {num_characters} characters and {num_merges} merges, and there are {len(lines)} lines"
            )
        text_of = _read_characters(lines, num_characters)
        merges = _read_merges(lines, 1 + num_characters, num_merges, text_of)
        special = _read_special(lines, 1 + num_characters + num_merges, text_of)
        named = sorted(text_of.items())
        model = PieceBpeModel(
            tuple(text.encode() for _, text in named),
            np.array([id for id, _ in named], np.int32),
            spells_bytes=False,
            unknown=special[0].id,
            unknown_surface=special[0].text,
            steps=(TextStep("ascii-words", "", b""),),
            splits_every_space=True,
            merges=np.array(merges, np.int32).reshape(-1, 2),
        )
        return TokenizerSpec((), {"name": "metaspace"}, model, tuple(special))
    except (FormatError, UnicodeDecodeError) as error:
        raise FormatError(f"{name}: {error}") from error


def _read_numbers(lines: Sequence[str], at: int, num: int) -> list[int]:
    """The numbers of a line. Raises FormatError unless there are num."""
    if at >= len(lines):
        raise FormatError(f"line {at + 1} is missing: the file is cut off")
    parts = lines[at].split()
    if len(parts) != num or not all(re.fullmatch(r"-1|\d{1,10}", part) for part in parts):
        raise FormatError(f"line {at + 1} is {lines[at]!r:.80}: expected {num} numbers")
    return [int(part) for part in parts]


def _read_characters(lines: Sequence[str], num: int) -> dict[int, str]:
    """Id -> character."""
    text_of: dict[int, str] = {}
    seen: set[int] = set()
    for at in range(1, 1 + num):
        code_point, id = _read_numbers(lines, at, 2)
        if not 0 <= code_point < 0x110000 or 0xD800 <= code_point < 0xE000 or code_point in seen:
            raise FormatError(f"line {at + 1}: {code_point} is no code point of a character, or is there twice")
        _check_id(id, at, text_of)
        seen.add(code_point)
        text_of[id] = chr(code_point)
    if SPACE not in text_of.values():
        raise FormatError(f"no line gives the character {ord(SPACE)}, which stands for spaces")
    return text_of


def _read_merges(lines: Sequence[str], first: int, num: int, text_of: dict[int, str]) -> list[tuple[int, int]]:
    """The pairs that are merged; adds the tokens that they become."""
    texts = {text: id for id, text in text_of.items()}
    merges: list[tuple[int, int]] = []
    total = 0
    for at in range(first, first + num):
        left, right, id = _read_numbers(lines, at, 3)
        for part in (left, right):
            if part not in text_of:
                raise FormatError(f"line {at + 1}: the id {part} is no character's, nor an earlier merge's")
        _check_id(id, at, text_of)
        text = text_of[left] + text_of[right]
        size = len(text.encode())
        total += size
        if size > MAX_TOKEN_BYTES or total > MAX_VOCABULARY_BYTES:
            raise make_too_long_error(size, total, f"line {at + 1}")
        if text in texts:
            raise FormatError(
                f"line {at + 1} makes {text!r:.80} with the id {id}, and the id {texts[text]} has the same text: two "
                f"tokens of one text are not supported"
            )
        texts[text] = id
        text_of[id] = text
        merges.append((left, right))
    return merges


def _read_special(lines: Sequence[str], at: int, text_of: dict[int, str]) -> list[SpecialToken]:
    ids = _read_numbers(lines, at, 4)
    if ids[0] < 0:
        raise FormatError(f"line {at + 1} gives unknown text the id -1: it needs one")
    special: list[SpecialToken] = []
    for (text, role), id in zip(_SPECIAL, ids, strict=True):
        if id < 0:
            continue
        if id in text_of or id >= ID_LIMIT or any(id == token.id for token in special):
            raise FormatError(f"line {at + 1}: the id {id} of {text} is another token's, or too large")
        special.append(SpecialToken(text, id, role))
    return special


def _check_id(id: int, at: int, text_of: dict[int, str]) -> None:
    if not 0 <= id < ID_LIMIT or id in text_of:
        raise FormatError(f"line {at + 1}: the id {id} is given twice, or is not below {ID_LIMIT}")
