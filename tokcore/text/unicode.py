"""The pinned Unicode version: general categories, White_Space and lowercase, independent of interpreter and packages.

The tables are those on which tokenizers 0.23 and tiktoken 0.14 agree, character by character. The kernel has the same
tables in another form; TABLES_SHA256 is the hash of their content in both.

unicode_data.RANGES packs the ranges of a category as words `gap+more`, in hexadecimal: code points skipped since the
last range, then the number of code points after its first ("+more" left out if there are none). LOWERCASE packs runs as
`first+count*step>delta`, and a lowercase of several characters as `character=code points`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from tokcore.errors import ConfigError
from tokcore.text import unicode_data

VERSION = unicode_data.VERSION
TABLES_SHA256 = unicode_data.SHA256

Ranges = tuple[tuple[int, int], ...]

_LAST = 0x10FFFF
_LONG_NAMES = {
    "letter": "L",
    "uppercaseletter": "Lu",
    "lowercaseletter": "Ll",
    "titlecaseletter": "Lt",
    "modifierletter": "Lm",
    "otherletter": "Lo",
    "mark": "M",
    "combiningmark": "M",
    "nonspacingmark": "Mn",
    "spacingmark": "Mc",
    "enclosingmark": "Me",
    "number": "N",
    "decimalnumber": "Nd",
    "digit": "Nd",
    "letternumber": "Nl",
    "othernumber": "No",
    "punctuation": "P",
    "punct": "P",
    "connectorpunctuation": "Pc",
    "dashpunctuation": "Pd",
    "openpunctuation": "Ps",
    "closepunctuation": "Pe",
    "initialpunctuation": "Pi",
    "finalpunctuation": "Pf",
    "otherpunctuation": "Po",
    "symbol": "S",
    "mathsymbol": "Sm",
    "currencysymbol": "Sc",
    "modifiersymbol": "Sk",
    "othersymbol": "So",
    "separator": "Z",
    "spaceseparator": "Zs",
    "lineseparator": "Zl",
    "paragraphseparator": "Zp",
    "other": "C",
    "control": "Cc",
    "cntrl": "Cc",
    "format": "Cf",
    "surrogate": "Cs",
    "privateuse": "Co",
    "unassigned": "Cn",
    "whitespace": "White_Space",
    "wspace": "White_Space",
    "space": "White_Space",
}
_CATEGORIES = [name for name in unicode_data.RANGES if len(name) == 2]
_NAMES = {name.lower(): name for name in [*_CATEGORIES, *(name[0] for name in _CATEGORIES)]} | _LONG_NAMES

# Escapes whose meaning depends on the Unicode tables of `regex` -> what to write instead.
_REFUSED = {
    "w": r"[\p{L}\p{N}_]",
    "W": r"[^\p{L}\p{N}_]",
    "b": r"a lookaround such as (?<!\p{L})(?=\p{L})",
    "B": "a lookaround",
    "m": r"(?<!\p{L})(?=\p{L})",
    "M": r"(?<=\p{L})(?!\p{L})",
    "X": r"\P{M}\p{M}*",
    "h": r"[ \t\p{Zs}]",
    "N": r"the character's code, as \u00e9",
    "L": "an alternation",
}
_TOKEN = re.compile(
    r"""
      \\[pP]\{(?P<braced>[^{}]*)\} | \\[pP](?P<single>[A-Za-z])
    | \\(?P<escape>.)
    | (?P<posix>\[:\^?\w+:\])
    | \(\?(?P<flags>[a-zA-Z]*[01]?(?:-[a-zA-Z]+)?)(?=[:)])
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


@functools.cache
def find_ranges(name: str) -> Ranges:
    """Inclusive ranges of a general category ("Lu", "L", "Any") or of "White_Space", ascending.

    >>> find_ranges("Zs")[:2]
    ((32, 32), (160, 160))
    """
    if name == "Any":
        return ((0, _LAST),)
    if name in unicode_data.RANGES:
        return tuple(unpack_ranges(unicode_data.RANGES[name]))
    members = [c for c in _CATEGORIES if c[0] == name]
    if not members:
        raise KeyError(name)
    return _unite_ranges(r for member in members for r in find_ranges(member))


@functools.cache
def map_lowercase() -> dict[int, str]:
    """Code point -> lowercase, for all characters that differ from their lowercase; for str.translate.

    Each character by itself: a capital sigma becomes a sigma, also at the end of a word.
    """
    lower: dict[int, str] = {}
    for word in unicode_data.LOWERCASE.split():
        if "=" in word:
            character, low = word.split("=")
            lower[int(character, 16)] = "".join(chr(int(c, 16)) for c in low.split(","))
        else:
            first, count, step, delta = (int(part, 16) for part in re.split(r"[+*>]", word))
            lower |= {c: chr(c + delta) for c in range(first, first + count * step, step)}
    return lower


def expand(pattern: str) -> str:
    r"""The same regular expression with \p{..}, \P{..}, \s, \S, \d and \D spelled as ranges of the pinned tables.

    The result means the same in every release of the `regex` package, whatever its Unicode version. Categories may have
    their short or long names. An undecodable byte (a surrogate, by `surrogateescape`) is neither a letter nor a number
    nor whitespace.

    Raises ConfigError, which names the place, for what would still depend on the package's own tables (\w, \b, scripts,
    [[:posix:]] classes) and for inline flags that change the meaning of the rest.

    >>> expand(r"[^\p{Zs}a]")
    '[^\\x20\\xa0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000a]'
    """
    return _expand(pattern)[0]


def list_properties(pattern: str) -> frozenset[str]:
    r"""The classes that expand() spells out, by the names that find_ranges() knows.

    >>> sorted(list_properties(r"\s\p{Letter}"))
    ['L', 'White_Space']
    """
    return _expand(pattern)[1]


@functools.cache
def _expand(pattern: str) -> tuple[str, frozenset[str]]:
    out = []
    used = set()
    in_class = False
    class_start = 0
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if (found := _find_property(token, pattern)) is not None:
            name, negated = found
            used.add(name)
            out.append(_spell_set(find_ranges(name), negated, in_class))
            continue
        out.append(text)
        if token["escape"]:
            _check_escape(token, pattern, in_class)
        elif in_class:
            if token["posix"]:
                raise _make_refusal(pattern, token.start(), text, r"a category such as \p{L}")
            # A bracket right after the opening one is a member. Within a class, flags stand for themselves.
            if text == "]" and token.start() > class_start:
                in_class = False
        else:
            _check_flags(token, pattern)
            if token["posix"]:
                raise _make_refusal(pattern, token.start(), text, r"a category such as [\p{L}]")
            if text == "[":
                in_class = True
                class_start = token.end() + (pattern[token.end() : token.end() + 1] == "^")
    return "".join(out), frozenset(used)


def _find_property(token: re.Match[str], pattern: str) -> tuple[str, bool] | None:
    r"""(property, whether its complement is meant) of a token that is one, such as \p{L}, \PL or \s; else None."""
    text = token.group()
    name = token["braced"] if token["braced"] is not None else token["single"]
    if name is not None:
        negated = text[1] == "P"
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        return _spell_property(name, pattern, token.start(), text), negated
    escape = token["escape"]
    if escape and escape in "sSdD":
        return "White_Space" if escape in "sS" else "Nd", escape in "SD"
    return None


def _check_escape(token: re.Match[str], pattern: str, in_class: bool) -> None:
    escape = token["escape"]
    if escape in "pP" or (escape in _REFUSED and not (in_class and escape == "b")):
        instead = _REFUSED.get(escape, r"\p{L}, with the category in braces")
        raise _make_refusal(pattern, token.start(), token.group(), instead)


def _check_flags(token: re.Match[str], pattern: str) -> None:
    flags = token["flags"]
    if flags in ("R", "0"):
        raise ConfigError(
            f"{token.group() + ')'!r} at character {token.start()} of the pattern {pattern!r} calls the whole pattern,"
            f" which need not come to an end, and no tokenizer file can hold it. Write out what it should match."
        )
    if flags and set(flags) - set("imsx-") and not re.fullmatch(r"\d+", flags):
        raise ConfigError(
            f"{token.group()!r} at character {token.start()} of the pattern {pattern!r} changes what the rest means."
            f" Use only the flags i, m, s and x."
        )


def _make_refusal(pattern: str, position: int, text: str, instead: str) -> ConfigError:
    return ConfigError(
        f"{text!r} at character {position} of the pattern {pattern!r} depends on the Unicode tables of the installed"
        f" `regex` package. Write {instead} instead."
    )


def _spell_property(name: str, pattern: str, position: int, text: str) -> str:
    key, _, value = name.rpartition("=")
    loose = re.sub(r"[\s_-]", "", value).lower()
    if re.sub(r"[\s_-]", "", key).lower() in ("", "gc", "generalcategory"):
        if loose == "any":
            return "Any"
        if loose in _NAMES:
            return _NAMES[loose]
    raise _make_refusal(
        pattern, position, text, r"a general category (such as \p{Lu}) or ranges (such as [\u0370-\u03ff])"
    )


def find_category(name: str) -> str | None:
    """The short name of a general category, by its short or long name; "White_Space" and "Any", too; else None.

    >>> find_category("Letter"), find_category("Greek")
    ('L', None)
    """
    try:
        return _spell_property(name, "", 0, name)
    except ConfigError:
        return None


def _spell_set(members: Ranges, negated: bool, in_class: bool) -> str:
    if in_class:
        return _spell(_complement_ranges(members) if negated else members)
    return f"[{'^' if negated else ''}{_spell(members)}]"


def _spell(members: Ranges) -> str:
    return "".join(
        _spell_character(a) if a == b else f"{_spell_character(a)}-{_spell_character(b)}" for a, b in members
    )


def _spell_character(c: int) -> str:
    if chr(c).isascii() and chr(c).isalnum():
        return chr(c)
    return f"\\x{c:02x}" if c < 0x100 else f"\\u{c:04x}" if c < 0x10000 else f"\\U{c:08x}"


def _complement_ranges(members: Ranges) -> Ranges:
    gaps = []
    position = 0
    for first, last in members:
        if first > position:
            gaps.append((position, first - 1))
        position = last + 1
    if position <= _LAST:
        gaps.append((position, _LAST))
    return tuple(gaps)


def _unite_ranges(members: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(members):
        if merged and merged[-1][1] + 1 >= first:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def unpack_ranges(text: str) -> Iterable[tuple[int, int]]:
    """The ranges, both ends included, of a packed table."""
    position = 0
    for word in text.split():
        gap, _, more = word.partition("+")
        first = position + int(gap, 16)
        last = first + int(more or "0", 16)
        yield first, last
        position = last + 1
