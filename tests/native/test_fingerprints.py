"""Learners give one result, whatever compiler, optimisation, C library and number of threads."""

from __future__ import annotations

import re
from pathlib import Path

from native.fingerprints import MUSL, compute_fingerprints, list_ways


def test_compilers_and_libraries_agree(tmp_path: Path) -> None:
    ways = list_ways()
    found = compute_fingerprints(tmp_path, ways, (1, 3))
    assert len(set(found.values())) == 1, found
    learned = re.findall(r"(?m)^(\S+) (\d+) [0-9a-f]{16}$", next(iter(found.values())))
    assert [name for name, _ in learned] == [
        *("bpe", "pathpiece", "wordpiece", "wordpiece-pmi", "sentencepiece-bpe", "unigram")
    ]
    assert all(int(size) > 500 for _, size in learned), learned
    assert {"-O0", "-O2"} <= set(ways) <= {"-O0", "-O2", MUSL}
