"""Finds where functions, classes and constants of C++ are defined. It knows what our kernel uses of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Comments, directives and texts first: what looks like code in them is none.
_TOKENS = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
      | (?P<text>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
      | (?P<word>\w+(?:'\d+)*|::|[^\w\s])""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class _Token(NamedTuple):
    text: str
    start: int
    end: int


def find_all(text: str) -> Iterator[tuple[str, int, int]]:
    """(qualified name, start, end) of each definition; namespaces are left out of names, and comments before it.

    >>> text = "namespace n { int f() { return 1; } struct A { int b; void g() {} }; void A::h() {} }"
    >>> [name for name, _, _ in find_all(text)]
    ['f', 'A', 'A::g', 'A::h']
    """
    tokens = [
        _Token('""' if one["text"] else one.group(), one.start(), one.end())
        for one in _TOKENS.finditer(text)
        if not one["skip"]
    ]
    yield from _definitions(tokens, 0, len(tokens), "")


def _definitions(tokens: list[_Token], at: int, end: int, outer: str) -> Iterator[tuple[str, int, int]]:
    start = at
    while at < end:
        text = tokens[at].text
        head = [token.text for token in tokens[start:at]]
        if text in ("(", "["):
            at = _after(tokens, at)
        elif text == ";" or (text == ":" and head[-1:] in (["public"], ["private"], ["protected"])):
            if text == ";" and (name := _variable(head)):
                yield outer + name, tokens[start].start, tokens[at].end
            start = at = at + 1
        elif text != "{":
            at += 1
        elif "namespace" in head or head[:1] == ["extern"]:
            close = _after(tokens, at)
            yield from _definitions(tokens, at + 1, close - 1, outer)
            start = at = close
        elif name := _type(head):
            close = _after(tokens, at)
            yield outer + name, tokens[start].start, tokens[close - 1].end
            if "enum" not in head:
                yield from _definitions(tokens, at + 1, close - 1, f"{outer}{name}::")
            start = at = close
        elif _is_body(head) and (name := _function(head)):
            close = _after(tokens, at)
            yield outer + name, tokens[start].start, tokens[close - 1].end
            start = at = close
        else:
            at = _after(tokens, at)  # a value


def _after(tokens: list[_Token], at: int) -> int:
    """The place after the bracket that closes the one here."""
    depth, opening, closing = 0, tokens[at].text, _PAIRS[tokens[at].text]
    while at < len(tokens):
        depth += (tokens[at].text == opening) - (tokens[at].text == closing)
        at += 1
        if depth == 0:
            return at
    return at


def _without_template(head: list[str]) -> list[str]:
    while head[:1] == ["template"]:
        depth = 0
        for at, text in enumerate(head):
            depth += (text == "<") - (text == ">")
            if text == ">" and depth == 0:
                head = head[at + 1 :]
                break
        else:
            return head
    return head


def _type(head: list[str]) -> str:
    """The name of the class, struct, union or enumeration that begins so, or nothing."""
    head = _without_template(head)
    while head and head[0] not in ("class", "struct", "union", "enum"):
        if head[0] not in ("typedef", "static", "const", "constexpr"):
            return ""
        head = head[1:]
    words = [text for text in head[1:] if text not in ("class", "struct")]
    if "(" in words or "=" in words:  # a function or a variable of that type, or an attribute
        words = words[words.index(")") + 1 :] if words[:1] == ["alignas"] else []
    while words[:1] == ["["]:
        words = words[words.index("]") + 1 :]
        words = words[1:] if words[:1] == ["]"] else words
    return words[0] if words and words[0].isidentifier() else ""


def _function(head: list[str]) -> str:
    """The qualified name before the parameters, or nothing."""
    head = _without_template(head)
    if "(" not in head:
        return ""
    at = head.index("(")
    if "operator" in head[:at]:
        first = head.index("operator")
        at = at + 2 if head[first + 1 : first + 3] == ["(", ")"] else at
        name = "".join(head[first:at])
        while first >= 2 and head[first - 1] == "::":
            first -= 2
            name = f"{head[first]}::{name}"
        return name
    if "=" in head[:at]:
        return ""
    first = at - 1
    if first >= 0 and head[first].isidentifier():
        while first >= 1 and head[first - 1] == "~":
            first -= 1
        while first >= 2 and head[first - 1] == "::" and head[first - 2].isidentifier():
            first -= 2
        return "".join(head[first:at])
    return ""


def _is_body(head: list[str]) -> bool:
    """Whether what opens after this is the body of a function, not the value of a member that its constructor sets."""
    if "(" not in head:
        return False
    at, depth = head.index("("), 0
    while at < len(head):
        depth += (head[at] == "(") - (head[at] == ")")
        at += 1
        if depth == 0 and head[at : at + 1] != ["("]:  # operator() has two
            break
    return ":" not in head[at:] or not (head[-1].isidentifier() or head[-1] == ">")


def _variable(head: list[str]) -> str:
    """The name of what is defined with a value, or nothing."""
    head = _without_template(head)
    for at, text in enumerate(head):
        if text in ("=", "[", "{") and at and head[at - 1].isidentifier():
            return head[at - 1]
        if text == "(":
            return ""
    return ""
