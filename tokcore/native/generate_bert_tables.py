"""Write kernel/text/bert_tables.cpp and ../text/bert_characters_data.py: what BERT's tokenizer does to each code point.

Hugging Face's BertNormalizer and BertPreTokenizer follow no single version of Unicode: categories, decompositions and
lowercase come from crates of different age. So both are evaluated, for each of the 1,112,064 scalar values. One thing
cannot be seen one by one: decomposing also sorts neighbouring marks. Most marks are removed; those that stay are found
here, and the order is then compared with theirs on random rows of marks.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python tokcore/native/generate_bert_tables.py          # --check compares with the files that exist

Not needed to build or to run tokcore.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import tokenizers
import unicodedata2
from generate_unicode_tables import list_scalar_values, pack_ranges  # type: ignore[import-not-found]
from generated_files import find_ranges, write_files  # type: ignore[import-not-found]

VERSION = "0.23.3"
NUM_CODE_POINTS = 0x110000
NUM_ROWS_OF_MARKS = 200_000
HERE = Path(__file__).parent

# What becomes of a code point, in the kernel's tables. From MARK on: it stays, and MARK is added to its class of
# canonical order. From REPLACED on: the number of its replacement.
STAYS, REMOVED, REMOVED_STARTER, SPACE, SURROUNDED, HANGUL, MARK, REPLACED = 0, 1, 2, 3, 4, 5, 8, 512

Replacements = dict[int, str]


def find_replacements(normalize: Callable[[str], str]) -> Replacements:
    """Each code point that does not stay, and what it becomes."""
    return {ord(c): low for c in list_scalar_values() if (low := normalize(c)) != c}


def find_split_classes() -> tuple[list[int], list[int]]:
    """White space, and what is a pre-token of its own."""
    split = tokenizers.pre_tokenizers.BertPreTokenizer()
    space, alone = [], []
    for c in list_scalar_values():
        pieces = [piece for piece, _ in split.pre_tokenize_str(f"a{c}a")]
        if pieces == ["a", "a"]:
            space.append(ord(c))
        elif pieces == ["a", c, "a"]:
            alone.append(ord(c))
        elif pieces != [f"a{c}a"]:
            sys.exit(f"U+{ord(c):04X} is split as {pieces}")
    return space, alone


def find_marks_that_stay(lower: Replacements) -> dict[int, int]:
    """Marks that are sorted among their neighbours and stay -> class of canonical order."""
    marks = {ord(c): unicodedata2.combining(c) for c in list_scalar_values() if unicodedata2.combining(c)}
    normalize = tokenizers.normalizers.NFD().normalize_str
    last = "\u0345"  # of the highest class
    kept = {c: order for c, order in marks.items() if c not in lower}
    return {c: order for c, order in kept.items() if normalize(f"a{last}{chr(c)}") != f"a{last}{chr(c)}"}


def find_removed_starters(lower: Replacements, cased: Replacements) -> list[int]:
    """Removed after decomposing, and no mark that is sorted: marks before and after it keep their order."""
    normalize = tokenizers.normalizers.BertNormalizer().normalize_str
    high, low = "\u302e", "\u1b44"  # of the classes 224 and 9; both stay
    after = [c for c, to in lower.items() if not to and c not in cased]
    return [c for c in after if normalize(f"a{high}{chr(c)}{low}") == f"a{high}{low}"]


def normalize_text(text: str, lower: Replacements, marks: dict[int, int], starters: frozenset[int]) -> str:
    """What the tables say of a text: the reference does the same."""
    out: list[str] = []
    run: list[str] = []
    for c in text:
        if ord(c) in starters:
            out += sorted(run, key=lambda mark: marks[ord(mark)])
            run = []
        for kept in lower.get(ord(c), c):
            if ord(kept) in marks:
                run.append(kept)
            else:
                out += sorted(run, key=lambda mark: marks[ord(mark)])
                run = []
                out.append(kept)
    return "".join([*out, *sorted(run, key=lambda mark: marks[ord(mark)])])


def compare_rows(lower: Replacements, marks: dict[int, int], starters: frozenset[int]) -> None:
    """SystemExit if theirs sorts marks in another way."""
    draw = random.Random(0)
    drawn = [*marks] * 3 + [c for c in lower if unicodedata2.combining(chr(c))] + [*starters] + [ord("a"), 0xE9, 0xAC01]
    drawn += [c for c, to in lower.items() if any(ord(x) in marks for x in to)] * 9 + [0x200B, 0x4E00, 0xFFFD] * 9
    theirs = tokenizers.normalizers.BertNormalizer()
    for _ in range(NUM_ROWS_OF_MARKS):
        text = "".join(chr(draw.choice(drawn)) for _ in range(draw.randint(2, 8)))
        if normalize_text(text, lower, marks, starters) != theirs.normalize_str(text):
            sys.exit(f"{[hex(ord(c)) for c in text]} becomes {theirs.normalize_str(text)!r}")
    print(f"{NUM_ROWS_OF_MARKS:,} rows of marks are equal")


def number_actions(
    table: Replacements, marks: dict[int, int], starters: frozenset[int], pool: dict[str, int]
) -> list[int]:
    """What becomes of each code point, by number. pool: all longer replacements and their numbers."""
    found = [STAYS] * NUM_CODE_POINTS
    for c, order in marks.items():
        found[c] = MARK + order
    for c, to in table.items():
        if to == "":
            found[c] = REMOVED_STARTER if c in starters else REMOVED
        elif to == " ":
            found[c] = SPACE
        elif to == f" {chr(c)} ":
            found[c] = SURROUNDED
        elif 0xAC00 <= c < 0xD7A4 and to == "".join(list_jamo(c)):
            found[c] = HANGUL
        else:
            found[c] = REPLACED + pool[to]
    return found


def list_jamo(c: int) -> Iterable[str]:
    """The parts of a Hangul syllable, which follow from its number."""
    lead, rest = divmod(c - 0xAC00, 588)
    vowel, tail = divmod(rest, 28)
    yield chr(0x1100 + lead)
    yield chr(0x1161 + vowel)
    if tail:
        yield chr(0x11A7 + tail)


def format_rows(numbers: Iterable[int], indent: str) -> str:
    text = ", ".join(map(str, numbers))
    return "\n".join(textwrap.wrap(text, 110, initial_indent=indent, subsequent_indent=indent))


def write_cpp_table(name: str, kind: str, values: list[int]) -> str:
    """Two arrays: the leaf of each block of 256 code points, and the leaves, each once."""
    leaves: dict[tuple[int, ...], int] = {}
    blocks = [leaves.setdefault(tuple(values[i : i + 256]), len(leaves)) for i in range(0, NUM_CODE_POINTS, 256)]
    body = "".join(f"    {{\n{format_rows(leaf, '        ')}\n    }},\n" for leaf in leaves)
    return (
        f"const uint16_t k{name}LeafOfBlock[] = {{\n{format_rows(blocks, '    ')}\n}};\n\n"
        f"const {kind} k{name}Leaves[][256] = {{\n{body}}};\n\n"
    )


def write_cpp_source(tables: dict[str, list[int]], classes: list[int], pool: dict[str, int], num_plain: int) -> str:
    starts, data = [0], b""
    for to in pool:
        data += to.encode()
        starts.append(len(data))
    return (
        f"// Evaluated with tokenizers {VERSION}. Written by generate_bert_tables.py; do not edit.\n"
        '#include "text/bert_tables.h"\n\n'
        "// clang-format off\n"
        "namespace tokcore::bert {\n\n"
        + write_cpp_table("Lower", "uint16_t", tables["bert"])
        + write_cpp_table("Cased", "uint16_t", tables["bert-cased"])
        + write_cpp_table("Class", "uint8_t", classes)
        + f"const uint16_t kNumPlainReplacements = {num_plain};\n\n"
        f"const uint32_t kReplacementStarts[] = {{\n{format_rows(starts, '    ')}\n}};\n\n"
        f"const uint8_t kReplacements[] = {{\n{format_rows(data, '    ')}\n}};\n\n"
        "}  // namespace tokcore::bert\n"
    )


def pack_mapping(table: Replacements) -> str:
    """Words first=code points, joined by commas, in hexadecimal; of those that removing and spaces do not tell."""
    kept = {c: to for c, to in table.items() if to not in ("", " ", f" {chr(c)} ") and not 0xAC00 <= c < 0xD7A4}
    return " ".join(f"{c:x}=" + ",".join(f"{ord(x):x}" for x in to) for c, to in sorted(kept.items()))


def write_python_source(content: dict[str, str]) -> str:
    digest = hashlib.sha256("".join(f"{name}:{text}\n" for name, text in content.items()).encode()).hexdigest()

    def quoted(text: str) -> str:
        lines = textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False)
        if len(lines) <= 1:
            return f'"{text}"'
        body = "\n".join(f'    "{line}{" " if i + 1 < len(lines) else ""}"' for i, line in enumerate(lines))
        return f"(\n{body}\n)"

    return (
        f'"""BERT\'s tokenizer, code point by code point, as tokenizers {VERSION} has it; see bert.py.\n\n'
        'Written by native/generate_bert_tables.py; do not edit.\n"""\n\n'
        f'SHA256 = "{digest}"\n' + "".join(f"{name} = {quoted(text)}\n" for name, text in content.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 if the files are not what would be written")
    arguments = parser.parse_args()
    if tokenizers.__version__ != VERSION:
        sys.exit(f"tokenizers is {tokenizers.__version__}, expected {VERSION}")
    lower = find_replacements(tokenizers.normalizers.BertNormalizer().normalize_str)
    cased = find_replacements(tokenizers.normalizers.BertNormalizer(lowercase=False).normalize_str)
    for c in range(0xAC00, 0xD7A4):
        if lower.get(c) != "".join(list_jamo(c)):
            sys.exit(f"U+{c:04X} becomes {lower.get(c)!r}, and not its parts")
    marks = find_marks_that_stay(lower)
    starters = frozenset(find_removed_starters(lower, cased))
    compare_rows(lower, marks, starters)
    space, alone = find_split_classes()
    longer = {to for c, to in [*lower.items(), *cased.items()] if to not in ("", " ", f" {chr(c)} ")}
    longer -= {"".join(list_jamo(c)) for c in range(0xAC00, 0xD7A4)}
    is_marked = {to: any(ord(x) in marks for x in to) for to in longer}
    pool = {to: i for i, to in enumerate(sorted(longer, key=lambda to: (is_marked[to], to)))}
    none: frozenset[int] = frozenset()
    tables = {
        "bert": number_actions(lower, marks, starters, pool),
        "bert-cased": number_actions(cased, {}, none, pool),
    }
    classes = [0] * NUM_CODE_POINTS
    for number, members in ((1, space), (2, alone)):
        for c in members:
            classes[c] = number
    content = {
        "SPACE": pack_ranges(find_ranges(space)),
        "ALONE": pack_ranges(find_ranges(alone)),
        "LOWER_REMOVED": pack_ranges(find_ranges(c for c, to in sorted(lower.items()) if to == "")),
        "LOWER_SPACE": pack_ranges(find_ranges(c for c, to in sorted(lower.items()) if to == " ")),
        "LOWER_SURROUNDED": pack_ranges(find_ranges(c for c, to in sorted(lower.items()) if to == f" {chr(c)} ")),
        "LOWER_MAPPED": pack_mapping(lower),
        "CASED_REMOVED": pack_ranges(find_ranges(c for c, to in sorted(cased.items()) if to == "")),
        "CASED_SPACE": pack_ranges(find_ranges(c for c, to in sorted(cased.items()) if to == " ")),
        "CASED_SURROUNDED": pack_ranges(find_ranges(c for c, to in sorted(cased.items()) if to == f" {chr(c)} ")),
        "CASED_MAPPED": pack_mapping(cased),
        "MARKS": " ".join(f"{c:x}={order:x}" for c, order in sorted(marks.items())),
        "REMOVED_STARTERS": pack_ranges(find_ranges(sorted(starters))),
    }
    num_plain = sum(not marked for marked in is_marked.values())
    files = {
        HERE / "kernel" / "text" / "bert_tables.cpp": write_cpp_source(tables, classes, pool, num_plain),
        HERE.parent / "text" / "bert_characters_data.py": write_python_source(content),
    }
    write_files(files, arguments.check)


if __name__ == "__main__":
    main()
