"""Make a large corpus from a small one: copies in which a seed permutes the letters of every script.

    python tests/benchmarks/large_corpus.py SOURCE_FOLDER TARGET_FOLDER --copies 11

The statistics stay those of real text, but every copy has words of its own. So unique pre-tokens grow with the corpus
as they do in a crawl. Reads *.jsonl.zst and *.jsonl.gz with fields text and lang; writes one .jsonl.zst per copy and
source file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import unicodedata
from pathlib import Path

import zstandard


def permutation(seed: int) -> dict[int, int]:
    """Maps letters to letters of the same case within the same 128 code points. Seed 0 changes nothing."""
    groups: dict[tuple[int, str], list[int]] = {}
    for code in range(0x20000):
        if (kind := unicodedata.category(chr(code))).startswith("L"):
            groups.setdefault((code >> 7, kind), []).append(code)
    chance = random.Random(seed)
    table = {}
    for letters in groups.values():
        shuffled = list(letters)
        if seed:
            chance.shuffle(shuffled)
        table.update(zip(letters, shuffled, strict=True))
    return table


def main() -> None:
    """Write the copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--copies", type=int, default=11)
    arguments = parser.parse_args()
    files = sorted([*arguments.source.rglob("*.jsonl.zst"), *arguments.source.rglob("*.jsonl.gz")])
    for copy in range(arguments.copies):
        table = permutation(copy)
        for path in files:
            with (gzip.open if path.suffix == ".gz" else zstandard.open)(path) as file:
                documents = [json.loads(line) for line in file.read().splitlines()]
            lines = [
                json.dumps(
                    {"id": f"{copy}-{d['id']}", "text": d["text"].translate(table), "lang": d["lang"]},
                    ensure_ascii=False,
                ).encode()
                for d in documents
            ]
            target = arguments.target / f"{copy:03d}-{path.name.split('.')[0]}.jsonl.zst"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(zstandard.ZstdCompressor(3).compress(b"\n".join(lines) + b"\n"))
        print(f"copy {copy + 1} of {arguments.copies}")


if __name__ == "__main__":
    main()
