"""Write ../text/sentencepiece_data.py and ../text/nmt_nfkc.bin: SentencePiece's scripts and its normalizer nmt_nfkc.

Both are copied from its sources: they follow a version of Unicode of their own. Copyright 2016 Google Inc., Apache
License 2.0, which is the license of this project, too.

    pip install sentencepiece==0.2.3
    pip download --no-deps --no-binary :all: sentencepiece==0.2.3 && tar xf sentencepiece-0.2.3.tar.gz
    python tokcore/native/generate_sentencepiece_tables.py sentencepiece-0.2.3/sentencepiece/src

Not needed to build or to run tokcore.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import sys
import textwrap
from pathlib import Path

import sentencepiece
from generated_files import write_files  # type: ignore[import-not-found]

from tokcore.formats.protobuf import Field, read_message

VERSION = "0.2.3"
PACKAGE = Path(__file__).parent.parent / "text"
CHARSMAP_FILE = "nmt_nfkc.bin"
INHERITED = 254  # as in kernel/learn/piece_limits.h
HAN = ("Han", "Hiragana", "Katakana")  # one script to SentencePiece
LONG_VOWEL = 0x30FC  # U+30FC, which is of that script, too


def read_scripts(header: str) -> list[str]:
    """The script of every code point: what is in no range is Common."""
    scripts = ["Common"] * 0x110000
    ranges = re.findall(r"c = (0x[0-9A-F]+); c <= (0x[0-9A-F]+); \+\+c\)\s*\(\*smap\)\[c\] = U_(\w+);", header)
    ranges += [(c, c, name) for c, name in re.findall(r"\(\*smap\)\[(0x[0-9A-F]+)\] = U_(\w+);", header)]
    for first, last, name in ranges:
        for c in range(int(first, 16), int(last, 16) + 1):
            scripts[c] = name
    scripts[LONG_VOWEL] = "Han"
    return ["Han" if name in HAN else name for name in scripts]


def pack_scripts(scripts: list[str]) -> str:
    """`length*number` for each run of one script, in hexadecimal."""
    names = sorted({*scripts} - {"Inherited"})
    numbers = {name: number for number, name in enumerate(names)} | {"Inherited": INHERITED}
    runs: list[list[int]] = []
    for name in scripts:
        if not runs or runs[-1][1] != numbers[name]:
            runs.append([0, numbers[name]])
        runs[-1][0] += 1
    return " ".join(f"{length:x}*{number:x}" for length, number in runs)


def read_charsmap() -> bytes:
    """The precompiled charsmap of nmt_nfkc, out of a model that is learned for it."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["abc abd"] * 9),
        model_writer=written,
        vocab_size=9,
        hard_vocab_limit=False,
        minloglevel=2,
        normalization_rule_name="nmt_nfkc",
    )
    skipped = {number: Field(str(number), "bytes", repeated=True) for number in (1, 2, 4, 5)}
    model = read_message(memoryview(written.getvalue()), {**skipped, 3: Field("normalizer", "bytes")}, "a model")
    fields = {2: Field("charsmap", "bytes"), **{number: Field(str(number), "skip") for number in (1, 3, 4, 5, 6)}}
    return bytes(read_message(model["normalizer"], fields, "its normalizer")["charsmap"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", type=Path, help="the folder src of SentencePiece's sources")
    parser.add_argument("--check", action="store_true", help="exit 1 if the files are not what would be written")
    arguments = parser.parse_args()
    if sentencepiece.__version__ != VERSION:
        sys.exit(f"sentencepiece is {sentencepiece.__version__}: install {VERSION}")
    scripts = pack_scripts(read_scripts((arguments.src / "unicode_script_map.h").read_text()))
    charsmap = read_charsmap()
    lines = textwrap.wrap(scripts, 110, break_long_words=False)
    source = (
        f'"""SentencePiece {VERSION}: scripts of code points, and what its normalizer nmt_nfkc is;'
        "\nsentencepiece_tables.py says how they are packed.\n\nCopyright 2016 Google Inc., Apache License 2.0."
        '\nWritten by native/generate_sentencepiece_tables.py; do not edit.\n"""\n\n'
        f'CHARSMAP_FILE = "{CHARSMAP_FILE}"\nCHARSMAP_SHA256 = "{hashlib.sha256(charsmap).hexdigest()}"\n'
        "SCRIPTS = (\n" + "".join(f'    "{line} "\n' for line in lines) + ")\n"
    )
    write_files({PACKAGE / CHARSMAP_FILE: charsmap, PACKAGE / "sentencepiece_data.py": source}, arguments.check)


if __name__ == "__main__":
    main()
