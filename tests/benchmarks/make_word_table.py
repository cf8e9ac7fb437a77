"""Make a count table of many words from a corpus: what learning gets at the scale of a crawl.

    python tests/benchmarks/make_word_table.py TABLE.parquet [--corpus FOLDER] [--copies 7]

The rows are those of the corpus with the pattern cl100k, and those of copies in which a seed permutes the bytes a-z,
A-Z and 0x80-0xBF, each group within itself. So lengths and counts stay those of real text, but the words differ. Seven
copies of a corpus of 180 MB give about 11 million rows and 140 MB of keys.
"""

from __future__ import annotations

import argparse
import itertools
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import texts
from measuring import ROOT

from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import convert_rows_to_table, convert_table_to_rows, merge_rows
from tokcore.text.texts import Texts

GROUPS = (range(ord("a"), ord("z") + 1), range(ord("A"), ord("Z") + 1), range(0x80, 0xC0))


def permutation(seed: int) -> np.ndarray:
    """Maps each byte to a byte. Seed 0 changes nothing."""
    table = np.arange(256, dtype=np.uint8)
    chance = random.Random(seed)
    for group in GROUPS:
        shuffled = list(group)
        if seed:
            chance.shuffle(shuffled)
        table[list(group)] = shuffled
    return table


def permuted(rows: CountRows, seed: int) -> CountRows:
    """The rows with their bytes permuted, sorted again."""
    data = permutation(seed)[rows.keys.data].tobytes()
    bounds = rows.keys.offsets.tolist()
    keys = [data[start:end] for start, end in itertools.pairwise(bounds)]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__))
    lengths = np.diff(rows.keys.offsets)[order]
    joined = np.frombuffer(b"".join(keys[i] for i in order.tolist()), np.uint8)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return CountRows(Texts(joined, offsets), rows.counts[order], rows.documents[order])


def write(corpus: Path, path: Path, copies: int) -> int:
    """Write the table; returns its number of rows."""
    table = count_pretokens([document.text for document in texts.documents(corpus)], "cl100k")
    rows = convert_table_to_rows(table)
    merged = convert_rows_to_table(merge_rows([[permuted(rows, seed)] for seed in range(copies)]))
    pq.write_table(merged, path, compression="zstd", compression_level=1)
    return merged.num_rows


def main() -> None:
    """Write the table and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--corpus", type=Path, default=ROOT / "deploy/demo/data")
    parser.add_argument("--copies", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{write(arguments.corpus, arguments.table, arguments.copies)} rows")


if __name__ == "__main__":
    main()
