"""Write kernel/text/composition_tables.cpp: what tells whether a text is in Unicode's form NFC.

    pip install unicodedata2==16.0.0
    python tokcore/native/generate_composition_tables.py       # --check compares with the file that exists

Not needed to build or to run tokcore.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import unicodedata2
from generated_files import find_ranges, write_files  # type: ignore[import-not-found]

FILE = Path(__file__).parent / "kernel" / "text" / "composition_tables.cpp"
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)


def list_trailing() -> list[tuple[int, int, int]]:
    """(first, last, combining class of the last mark) of the characters that stand for a letter and marks in NFC."""
    found: dict[int, int] = {}
    for c in range(0x110000):
        if c not in SURROGATES and not unicodedata2.combining(chr(c)):
            decomposed = unicodedata2.normalize("NFD", chr(c))
            if len(decomposed) > 1 and unicodedata2.normalize("NFC", chr(c)) == chr(c):
                found[c] = unicodedata2.combining(decomposed[-1])
    values = sorted(set(found.values()) - {0})
    return sorted(
        (first, last, value)
        for value in values
        for first, last in find_ranges(c for c, own in sorted(found.items()) if own == value)
    )


def list_rows() -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
    """(first, last, class) of characters of other classes than 0, and the pairs that compose, without Hangul's.

    The class is the canonical combining class, or 255 of a character that never stands in NFC.
    """
    classes: dict[int, int] = {}
    pairs = []
    for c in range(0x110000):
        if c in SURROGATES:
            continue
        if unicodedata2.normalize("NFC", chr(c)) != chr(c):
            classes[c] = 255
        elif combining := unicodedata2.combining(chr(c)):
            classes[c] = combining
        decomposed = unicodedata2.decomposition(chr(c)).split()
        is_canonical = len(decomposed) == 2 and not decomposed[0].startswith("<")
        if is_canonical and classes.get(c) != 255 and c not in HANGUL:
            pairs.append((int(decomposed[0], 16), int(decomposed[1], 16)))
    rows = [
        (first, last, value)
        for value in sorted(set(classes.values()))
        for first, last in find_ranges(c for c, own in sorted(classes.items()) if own == value)
    ]
    return sorted(rows), sorted(pairs)


def write_tables() -> str:
    """The C++ source."""
    rows, pairs = list_rows()
    trailing = list_trailing()
    return "\n".join(
        [
            f"// Written by generate_composition_tables.py, from Unicode {unicodedata2.unidata_version}.",
            '#include "text/composition.h"',
            "",
            "namespace tokcore {",
            "",
            "const CombiningRange kCombiningRanges[] = {",
            *(f"    {{0x{first:X}, 0x{last:X}, {value}}}," for first, last, value in rows),
            "};",
            f"const size_t kNumCombiningRanges = {len(rows)};",
            "",
            "const CombiningRange kTrailingRanges[] = {",
            *(f"    {{0x{first:X}, 0x{last:X}, {value}}}," for first, last, value in trailing),
            "};",
            f"const size_t kNumTrailingRanges = {len(trailing)};",
            "",
            "const ComposingPair kComposingPairs[] = {",
            *(f"    {{0x{left:X}, 0x{right:X}}}," for left, right in pairs),
            "};",
            f"const size_t kNumComposingPairs = {len(pairs)};",
            "",
            "}  // namespace tokcore",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is not what would be written")
    write_files({FILE: write_tables()}, parser.parse_args().check)


if __name__ == "__main__":
    main()
