"""What is done to a text before pieces of a SentencePiece model are looked for in it."""

from __future__ import annotations

from typing import NamedTuple


class PieceRules(NamedTuple):
    """What SentencePiece does to a text before it looks for pieces."""

    charsmap: bytes  # precompiled_charsmap of a model: replacements of characters; empty for none
    add_dummy_prefix: bool  # a space before the text, or after it if whitespace_is_suffix
    remove_extra_whitespaces: bool
    escape_whitespaces: bool  # spaces become U+2581
    whitespace_is_suffix: bool


# What a TextStep does, in the order of the kernel's numbers.
STEP_KINDS = (
    *("prepend", "replace", "replace-spans", "strip-left", "strip-right", "charsmap"),
    *("metaspace", "metaspace-first", "words", "ascii-words", "metaspace-start"),
)


class TextStep(NamedTuple):
    """What a tokenizer.json made from a SentencePiece model does to a text before it looks for pieces: one step of it.

    prepend: puts `text` before a text that is not empty. replace: `pattern` becomes `text`. replace-spans: two spaces
    or more become `text`. strip-left, strip-right: remove white space. charsmap: `text` is the table of replacements.
    metaspace: spaces become U+2581. metaspace-first: the same, and one U+2581 goes before a text that does not begin
    with it. words: the same as metaspace-first for each part between white space, which is left out. ascii-words: one
    U+2581 before each part between ASCII's white space and U+2581, which are left out, as are, before any step, bytes
    outside of well-formed UTF-8; without this step, such bytes become U+FFFD. metaspace-start: as metaspace-first, but
    only where the first character is what the steps before have made of the first one of the text.
    """

    kind: str  # one of STEP_KINDS
    pattern: str
    text: bytes
