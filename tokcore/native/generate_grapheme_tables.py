"""Write kernel/text/grapheme_tables.cpp: which characters tokenizers 0.23.3 holds together in a grapheme.

Its normalizer Precompiled replaces a grapheme of fewer than six bytes as one. Which characters join the one before
them, which join the one behind, and which join none, is found by asking that normalizer, with a table of replacements
made for it, about each code point. Hangul, flags and emoji only make graphemes of six bytes and more; where these end
is taken from the classes of the `regex` package.

    pip install tokenizers==0.23.3 regex
    python tokcore/native/generate_grapheme_tables.py          # --check compares with the file that exists

Not needed to build or to run tokcore.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import regex
import tokenizers
from tokenizers import normalizers

VERSION = "0.23.3"
FILE = Path(__file__).parent / "kernel" / "text" / "grapheme_tables.cpp"
CLASSES = {
    "kJoiner": r"",  # evaluated
    "kZeroWidthJoiner": r"\u200d",
    "kPrepend": r"",  # evaluated
    "kControl": r"",  # evaluated
    "kLeading": r"\p{GCB=L}",
    "kVowel": r"\p{GCB=V}",
    "kTrailing": r"\p{GCB=T}",
    "kSyllable": r"\p{GCB=LV}",
    "kClosedSyllable": r"\p{GCB=LVT}",
    "kFlag": r"\p{GCB=RI}",
    "kPictograph": r"\p{Extended_Pictographic}",
}


def make_charsmap(replaced: dict[int, str]) -> bytes:
    """A precompiled_charsmap that replaces single bytes."""
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
        name: {ord(c) for c in map(chr, range(0x110000)) if pattern and regex.match(pattern, c)}
        for name, pattern in CLASSES.items()
        if pattern
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


def pack(members: set[int]) -> list[tuple[int, int]]:
    """Ascending ranges of code points, both ends included."""
    ranges: list[tuple[int, int]] = []
    for c in sorted(members):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1] = (ranges[-1][0], c)
        else:
            ranges.append((c, c))
    return ranges


def write_tables(classes: dict[str, set[int]]) -> str:
    """The C++ source."""
    class_of: dict[int, str] = {}
    for name in reversed(CLASSES):  # an earlier class takes precedence
        class_of |= dict.fromkeys(classes[name], name)
    rows = sorted(
        (first, last, name)
        for name in CLASSES
        for first, last in pack({c for c, own in class_of.items() if own == name})
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


def main(write: Callable[[str], object] = FILE.write_text) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file that exists")
    if tokenizers.__version__ != VERSION:
        sys.exit(f"tokenizers is {tokenizers.__version__}: install {VERSION}")
    source = write_tables(find_classes())
    if parser.parse_args().check:
        return int(source != FILE.read_text())
    write(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
