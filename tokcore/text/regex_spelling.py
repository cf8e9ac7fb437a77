"""A tree of tokcore.text.regex_tree as text that the `regex` package, Oniguruma and fancy-regex read alike.

It has no flags, no possessive quantifiers, no sets within sets, and no ^ and $: engines differ in these.
"""

from __future__ import annotations

import functools

from tokcore.errors import ConfigError
from tokcore.text.regex_tree import Atomic, Choice, Dialect, Look, Node, Place, Repeat, Sequence, Set, parse

_PLACES = {
    "start": r"\A",
    "end": r"(?![\s\S])",
    "last-line": r"(?=\n?(?![\s\S]))",
    "line-start": r"(?<![^\n])",
    "inner-line-start": r"(?:\A|(?<=\n)(?=[\s\S]))",
    "line-end": r"(?![^\n])",
}
_CONTROLS = {9: r"\t", 10: r"\n", 13: r"\r"}
_SPECIAL = frozenset(r"\.^$|()[]{}*+?-&~#")


@functools.lru_cache(maxsize=64)
def translate(pattern: str, dialect: Dialect, to: Dialect) -> str:
    r"""The pattern as another engine has to be told it: as it is if it means the same there.

    Raises ConfigError, which names the part, for what cannot be told.

    >>> print(translate(r"\p{L}+|[^a]+$", "regex", "oniguruma"))
    \p{L}+|[^a]+(?=\n?(?![\s\S]))
    """
    tree = parse(pattern, dialect)
    try:
        if parse(pattern, to) == tree:
            return pattern
    except ConfigError:
        pass  # it has another meaning there, or none
    return spell(tree)


def spell(node: Node) -> str:
    """The text of a tree."""
    if isinstance(node, Choice):
        return "|".join(map(spell, node.parts))
    if isinstance(node, Sequence):
        return "".join(f"(?:{spell(part)})" if isinstance(part, Choice) else spell(part) for part in node.parts)
    if isinstance(node, Atomic):
        return f"(?>{spell(node.part)})"
    if isinstance(node, Look):
        return f"(?{'<' if node.is_behind else ''}{'!' if node.negated else '='}{spell(node.part)})"
    if isinstance(node, Place):
        return _PLACES[node.kind]
    if isinstance(node, Repeat):
        inner = spell(node.part)
        part = inner if isinstance(node.part, Set | Atomic) else f"(?:{inner})"
        return part + _spell_times(node.least, node.most) + ("?" if node.is_lazy else "")
    return _spell_set(node)


def _spell_times(least: int, most: int | None) -> str:
    if (least, most) in (short := {(0, None): "*", (1, None): "+", (0, 1): "?"}):
        return short[least, most]
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _spell_set(found: Set) -> str:
    ranges = [(first, last) for first, last in found.ranges]
    if not found.negated and not found.classes and len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _spell_character(ranges[0][0])
    if not ranges and len(found.classes) == 1:
        name, negated = found.classes[0]
        return _spell_property(name, negated != found.negated)
    items = [_spell_character(a) if a == b else f"{_spell_character(a)}-{_spell_character(b)}" for a, b in ranges]
    items += [_spell_property(name, negated) for name, negated in found.classes]
    return f"[{'^' if found.negated else ''}{''.join(items)}]"


def _spell_property(name: str, negated: bool) -> str:
    if name == "Any":
        if negated:
            raise ConfigError(r"\P{Any} matches nothing, and engines spell that in different ways")
        return r"[\s\S]"
    if name == "White_Space":
        return r"\S" if negated else r"\s"
    return rf"\{'P' if negated else 'p'}{{{name}}}"


def _spell_character(c: int) -> str:
    if c in _CONTROLS:
        return _CONTROLS[c]
    if 0xD800 <= c < 0xE000:
        raise ConfigError(f"U+{c:04X} is a surrogate, which is no character of a text")
    text = chr(c)
    if text in _SPECIAL:
        return f"\\{text}"
    if text.isprintable() or c > 0xFFFF:
        return text
    return f"\\x{c:02X}" if c < 0x80 else f"\\u{c:04X}"
