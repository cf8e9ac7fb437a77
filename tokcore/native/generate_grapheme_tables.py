"""Write kernel/text/grapheme_tables.cpp: which characters tokenizers 0.23.3 holds together in a grapheme.

Its normalizer Precompiled replaces a grapheme of fewer than six bytes as one. So we ask that normalizer, with tables of
replacements made for it, about each code point: does it join the character before it, the one after it, or none?
Hangul, flags and emoji make only graphemes of six bytes and more, of which the normalizer says nothing: their classes
are those of the `regex` package.

    pip install tokenizers==0.23.3 regex
    python tokcore/native/generate_grapheme_tables.py          # --check compares with the file that exists

Not needed to build or to run tokcore.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import regex
import tokenizers
from generated_files import find_ranges, write_files  # type: ignore[import-not-found]
from tokenizers import normalizers

VERSION = "0.23.3"
FILE = Path(__file__).parent / "kernel" / "text" / "grapheme_tables.cpp"
# Class -> its code points, as a pattern of regex; None: the normalizer is asked. An earlier class takes precedence.
CLASSES = {
    "kJoiner": None,
    "kZeroWidthJoiner": r"\u200d",
    "kPrepend": None,
    "kControl": None,
    "kLeading": r"\p{GCB=L}",
    "kVowel": r"\p{GCB=V}",
    "kTrailing": r"\p{GCB=T}",
    "kSyllable": r"\p{GCB=LV}",
    "kClosedSyllable": r"\p{GCB=LVT}",
    "kFlag": r"\p{GCB=RI}",
    "kPictograph": r"\p{Extended_Pictographic}",
}


def make_charsmap(replaced: dict[int, str]) -> bytes:
    """A precompiled_charsmap that replaces single bytes, as a double array: see kernel/sentencepiece/charsmap.h."""
    units = [0] * 512
    units[0] = 256 << 10
    texts = b""
    for byte, text in replaced.items():
        at = 256 ^ byte
        offset = (len(units) | byte) ^ at
        units += [0] * 256
        units[at] = offset << 10 | 1 << 8 | byte
        units[at ^ offset] = 1 << 31 | len(texts)
        texts += text.encode() + b"\0"
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts


def list_characters(max_bytes: int) -> Iterator[str]:
    """All characters of up to that many bytes."""
    for code_point in range(0x110000):
        if not 0xD800 <= code_point < 0xE000 and len(chr(code_point).encode()) <= max_bytes:
            yield chr(code_point)


def find_classes() -> dict[str, set[int]]:
    """Class -> its code points."""
    by_a = normalizers.Precompiled(make_charsmap({ord("a"): "X"})).normalize_str
    by_lead = normalizers.Precompiled(make_charsmap(dict.fromkeys([*range(1, 96), *range(194, 245)], "X")))
    found = {
        name: {c for c in range(0x110000) if regex.match(pattern, chr(c))}
        for name, pattern in CLASSES.items()
        if pattern is not None
    }
    found["kJoiner"] = {ord(c) for c in list_characters(4) if ord(c) >= 0x80 and by_a("a" + c) == "X"}
    found["kPrepend"] = {ord(c) for c in list_characters(4) if ord(c) >= 0x80 and by_lead.normalize_str(c + "a") == "X"}
    # U+0301 joins all but these; its own first byte must not be replaced.
    leads = {lead: "X" for lead in [*range(1, 0x60), *range(0xC2, 0xF5)] if lead != 0xCC}
    by_other = normalizers.Precompiled(make_charsmap(leads)).normalize_str
    controls = {c for c in list_characters(3) if by_other(c + "\u0301") == "X\u0301"}
    found["kControl"] = (
        set(map(ord, controls))
        | set(range(0x20))
        | {0x7F}
        | {ord(c) for c in list_characters(4) if regex.match(r"\p{GCB=Control}", c) and ord(c) > 0xFFFF}
    )
    found["kJoiner"] -= found["kZeroWidthJoiner"]
    return found


def write_tables(classes: dict[str, set[int]]) -> str:
    """The C++ source."""
    class_of: dict[int, str] = {}
    for name in reversed(CLASSES):  # so that an earlier class overwrites a later one
        class_of |= dict.fromkeys(classes[name], name)
    rows = sorted(
        (first, last, name)
        for name in CLASSES
        for first, last in find_ranges(sorted(c for c, own in class_of.items() if own == name))
    )
    # Syllables without and with a final consonant alternate; the kernel computes which is which.
    rows = [row for row in rows if row[2] not in ("kSyllable", "kClosedSyllable")]
    lines = [f"    {{0x{first:X}, 0x{last:X}, GraphemeClass::{name}}}," for first, last, name in rows]
    return "\n".join(
        [
            f"// Written by generate_grapheme_tables.py, which evaluates tokenizers {VERSION}.",
            '#include "text/graphemes.h"',
            "",
            "namespace tokcore {",
            "",
            "const GraphemeRange kGraphemeRanges[] = {",
            *lines,
            "};",
            f"const size_t kNumGraphemeRanges = {len(rows)};",
            "",
            "}  // namespace tokcore",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is not what would be written")
    arguments = parser.parse_args()
    if tokenizers.__version__ != VERSION:
        sys.exit(f"tokenizers is {tokenizers.__version__}: install {VERSION}")
    write_files({FILE: write_tables(find_classes())}, arguments.check)


if __name__ == "__main__":
    main()
