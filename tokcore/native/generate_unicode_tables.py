"""Write kernel/scan/unicode_tables.cpp and ../text/unicode_data.py from one pinned Unicode version.

Source: the package unicodedata2 (general categories and names of Unicode 16.0.0), the White_Space property, which
has not changed since 6.3, and Python's own case mappings for every character that both versions know. What the
interpreter is too old for is derived from the character names, and everything is then compared, for each of the
1,112,064 scalar values, with what the two most used tokenizer engines do:

    pip install unicodedata2==16.0.0 tokenizers==0.23.3 tiktoken==0.14.0
    python tokcore/native/generate_unicode_tables.py          # --check compares with the files that exist

Nothing is written unless all comparisons hold. Not needed to build or to run tokcore.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import tiktoken
import tokenizers
import unicodedata2
from generated_files import Ranges, find_ranges, write_files  # type: ignore[import-not-found]

VERSION = "16.0.0"
WHITE_SPACE = frozenset([*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029])
WHITE_SPACE |= {0x202F, 0x205F, 0x3000}
NUM_CODE_POINTS = 0x110000
HERE = Path(__file__).parent


def pack_ranges(ranges: Ranges) -> str:
    """Text form of the data module: gap and length - 1 of each range, in hexadecimal, length left out when one."""
    words = []
    position = 0
    for first, last in ranges:
        words.append(f"{first - position:x}" + (f"+{last - first:x}" if last > first else ""))
        position = last + 1
    return " ".join(words)


def find_lowercase() -> dict[int, str]:
    """Lowercase of each character that has another one, without context (a final sigma is a sigma)."""
    by_name: dict[str, str] = {}
    for c in range(NUM_CODE_POINTS):
        if unicodedata2.category(chr(c)) == "Ll":
            by_name[unicodedata2.name(chr(c))] = chr(c)
    # Two new capitals of letters whose small form is not named after them.
    irregular = {0xA7CB: "\u0264", 0xA7DC: "\u019b"}
    lower = {}
    for c in range(NUM_CODE_POINTS):
        character = chr(c)
        if 0xD800 <= c < 0xE000 or unicodedata2.category(character) == "Cn":
            continue
        low = character.lower()
        if low == character and unicodedata2.category(character) == "Lu":
            name = unicodedata2.name(character)
            small = irregular.get(c) or by_name.get(name.replace(" CAPITAL ", " SMALL "))
            # Mathematical alphabets are capitals without a small form.
            if small and " CAPITAL " in name and unicodedata2.decomposition(character)[:1] != "<":
                low = small
        if low != character:
            lower[c] = low
    return lower


def pack_lowercase(lower: dict[int, str]) -> str:
    """Runs first+count*step>delta in hexadecimal; a longer lowercase is first=code points joined by a comma."""
    words = []
    single = sorted((c, ord(low) - c) for c, low in lower.items() if len(low) == 1)
    i = 0
    while i < len(single):
        first, delta = single[i]
        step = single[i + 1][0] - first if i + 1 < len(single) and single[i + 1][1] == delta else 1
        count = 1
        while i + count < len(single) and single[i + count] == (first + count * step, delta):
            count += 1
        words.append(f"{first:x}+{count:x}*{step:x}>{'-' if delta < 0 else ''}{abs(delta):x}")
        i += count
    words += [f"{c:x}=" + ",".join(f"{ord(x):x}" for x in low) for c, low in sorted(lower.items()) if len(low) > 1]
    return " ".join(words)


def list_scalar_values() -> str:
    return "".join(chr(c) for c in range(NUM_CODE_POINTS) if not 0xD800 <= c < 0xE000)


def match_by_tokenizers(pattern: str, text: str) -> frozenset[int]:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed")
    return frozenset(map(ord, text)) - {ord(c) for piece, _ in split.pre_tokenize_str(text) for c in piece}


def match_by_tiktoken(pattern: str, text: str) -> frozenset[int]:
    # Its encoder drops what no match covers.
    ranks = {bytes([i]): i for i in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return frozenset(map(ord, bytes(encoding.encode_ordinary(text)).decode()))


def compare_with_engines(categories: list[str], lower: dict[int, str]) -> None:
    """SystemExit if an engine disagrees about one code point."""
    text = list_scalar_values()
    engines: list[tuple[str, Callable[[str, str], frozenset[int]]]] = [
        ("tokenizers", match_by_tokenizers),
        ("tiktoken", match_by_tiktoken),
    ]
    for name in ["L", "N", "M", "Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "P", "S", "Z", "C", "White_Space"]:
        if name == "White_Space":
            ours, pattern = WHITE_SPACE, r"\s"
        else:
            ours = frozenset(ord(c) for c in text if categories[ord(c)].startswith(name))
            pattern = rf"\p{{{name}}}"
        for engine, matched in engines:
            theirs = matched(pattern, text)
            if ours != theirs:
                examples = [hex(c) for c in sorted(ours ^ theirs)[:20]]
                sys.exit(f"{pattern}: {engine} differs on {len(ours ^ theirs)} characters: {examples}")
        print(f"{pattern:10} {len(ours):7,} equal")
    normalizer = tokenizers.normalizers.Lowercase()
    wrong = [c for c in text if normalizer.normalize_str(c) != lower.get(ord(c), c)]
    # Its lowercase is one version ahead of its categories: characters that ours does not know yet.
    if any(categories[ord(c)] != "Cn" for c in wrong):
        sys.exit(f"lowercase differs from tokenizers on {[hex(ord(c)) for c in wrong]}")
    print(f"lowercase  {len(lower):7,} equal, but for {len(wrong)} unassigned in {VERSION}")


def write_python_source(categories: list[str], lower: dict[int, str]) -> tuple[str, str]:
    """The data module and the hash of its content."""

    def quoted(text: str, indent: str) -> str:
        lines = textwrap.wrap(text, 108, break_long_words=False, break_on_hyphens=False)
        return "\n".join(f'{indent}"{line}{" " if i + 1 < len(lines) else ""}"' for i, line in enumerate(lines))

    names = sorted(set(categories))
    ranges = {
        name: pack_ranges(find_ranges(c for c in range(NUM_CODE_POINTS) if categories[c] == name)) for name in names
    }
    ranges["White_Space"] = pack_ranges(find_ranges(sorted(WHITE_SPACE)))
    mapping = pack_lowercase(lower)
    content = "".join(f"{name}:{text}\n" for name, text in [("version", VERSION), *ranges.items(), ("lower", mapping)])
    digest = hashlib.sha256(content.encode()).hexdigest()
    rows = ""
    for name, text in ranges.items():
        line = f'    "{name}": "{text}",\n'
        rows += line if len(line) <= 121 else f'    "{name}": (\n{quoted(text, " " * 8)}\n    ),\n'
    source = (
        f'"""Unicode {VERSION}: general categories, White_Space, lowercase; unicode.py says how they are packed.\n\n'
        'Written by native/generate_unicode_tables.py; do not edit.\n"""\n\n'
        f'VERSION = "{VERSION}"\n'
        f'SHA256 = "{digest}"\n'
        f"RANGES = {{\n{rows}}}\n"
        f"LOWERCASE = (\n{quoted(mapping, '    ')}\n)\n"
    )
    return source, digest


def write_cpp_source(categories: list[str], digest: str) -> str:
    bits = {"Lu": 17, "Lt": 17, "Ll": 33, "Lm": 1, "Lo": 1, "Nd": 2, "Nl": 2, "No": 2, "Mn": 8, "Mc": 8, "Me": 8}
    bits |= {name: 64 for name in set(categories) if name[0] in "PS"}
    classes = [4 if c in WHITE_SPACE else bits.get(categories[c], 0) for c in range(NUM_CODE_POINTS)]
    leaves: dict[tuple[int, ...], int] = {}
    blocks = [leaves.setdefault(tuple(classes[i : i + 256]), len(leaves)) for i in range(0, NUM_CODE_POINTS, 256)]
    if len(leaves) > 256:
        sys.exit(f"{len(leaves)} different leaves do not fit a byte index")

    # The same once more, by 64 characters and class bit: the last byte of a UTF-8 sequence picks the bit.
    planes: dict[tuple[int, ...], int] = {}
    rows_of_64 = [
        planes.setdefault(tuple(sum((c >> bit & 1) << k for k, c in enumerate(row)) for bit in range(7)), len(planes))
        for row in (classes[i : i + 64] for i in range(0, 0x10000, 64))
    ]

    def rows(numbers: Iterable[int], indent: str) -> str:
        text = ", ".join(map(str, numbers))
        return "\n".join(textwrap.wrap(text, 110, initial_indent=indent, subsequent_indent=indent))

    row_body = "".join(f"    {{{', '.join(f'{plane:#x}' for plane in row)}}},\n" for row in planes)
    body = "".join(f"    {{\n{rows(leaf, '        ')}\n    }},\n" for leaf in leaves)
    return (
        f"// Unicode {VERSION}. Written by generate_unicode_tables.py; do not edit.\n"
        '#include "scan/unicode_tables.h"\n\n'
        "// clang-format off\n"
        "namespace tokcore::unicode {\n\n"
        f'const char kVersion[] = "{VERSION}";\n'
        f'const char kTablesSha256[] = "{digest}";\n\n'
        f"const uint8_t kLeafOfBlock[(kMaxCodePoint >> 8) + 1] = {{\n{rows(blocks, '    ')}\n}};\n\n"
        f"const uint8_t kLeaves[][256] = {{\n{body}}};\n\n"
        f"const uint16_t kRowOf64[1024] = {{\n{rows(rows_of_64, '    ')}\n}};\n\n"
        f"const uint64_t kRows[][7] = {{\n{row_body}}};\n\n"
        "}  // namespace tokcore::unicode\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if the files are not what would be written")
    arguments = parser.parse_args()
    if unicodedata2.unidata_version != VERSION:
        sys.exit(f"unicodedata2 has Unicode {unicodedata2.unidata_version}, expected {VERSION}")
    categories = [unicodedata2.category(chr(c)) for c in range(NUM_CODE_POINTS)]
    lower = find_lowercase()
    compare_with_engines(categories, lower)
    data, digest = write_python_source(categories, lower)
    files = {
        HERE / "kernel" / "scan" / "unicode_tables.cpp": write_cpp_source(categories, digest),
        HERE.parent / "text" / "unicode_data.py": data,
    }
    write_files(files, arguments.check)


if __name__ == "__main__":
    main()
