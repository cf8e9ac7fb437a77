"""The budget of requests of a build on S3, line by line, from what the proxy recorded."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stores.proxy import Request

from tokcore_pipelines.store.read_file import BLOCK_BYTES
from tokcore_pipelines.work.merge_tree import FAN_IN

PUTS = ("PutObject", "UploadPart", "CreateMultipartUpload", "CompleteMultipartUpload")
_SHARDS = re.compile(r"/shards/(?!manifest\.json|run\.json|token_counts).*\.(arrow|bin|idx|documents|npy|mds|parquet)$")


class Line(NamedTuple):
    """One line of a budget."""

    what: str
    found: float
    allowed: float

    @property
    def is_broken(self) -> bool:
        return self.found > self.allowed


def list_lines(asked: Sequence[Request], left: Mapping[str, int]) -> list[Line]:
    """What a build of shards in an empty folder asked of S3. left: the files that it left -> their bytes."""
    operations = Counter(one.operation for one in asked)
    puts = [one for one in asked if one.operation in PUTS]
    runs = [one for one in asked if "/counts-" in one.key and re.search(r"\.runs?\.", one.key)]
    written = [one for one in runs if one.operation in PUTS and ".runs." in one.key]
    sections = sum(one.sent_bytes for one in written)
    levels = max(1, math.ceil(math.log(max(1, len(written)), FAN_IN))) + 1  # the table is one more
    fetched = [one for one in runs if one.operation not in PUTS and not one.operation.startswith("Delete")]
    return [
        Line("copies", operations["CopyObject"] + operations["UploadPartCopy"], 0),
        Line("bytes of shards that were read", sum(one.received_bytes for one in asked if _is_of_shard(one)), 0),
        Line(f"PUT requests, for {len(left):,} files left", len(puts), 5 * len(left) + 50),
        Line("requests for each coalesced range", len(fetched) / max(1, _count_ranges(fetched)), 3),
        Line(
            f"bytes that merges fetched, times section bytes, in {levels} levels",
            sum(one.received_bytes for one in fetched) / max(1, sections),
            1.2 * levels,
        ),
        Line("write amplification", sum(one.sent_bytes for one in puts) / sum(left.values()), 2),
    ]


def _is_of_shard(one: Request) -> bool:
    return one.operation == "GetObject" and "/_attempts/" not in one.key and _SHARDS.search(one.key) is not None


def _count_ranges(fetched: Iterable[Request]) -> int:
    """How many ranges these requests are for: a long one is asked for a block at a time."""
    ranges: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in fetched:
        if one.operation == "GetObject":
            ranges[one.key].append(one.range or (0, one.received_bytes))
    total = 0
    for of_key in ranges.values():
        full = {end for start, end in of_key if end - start == BLOCK_BYTES}
        total += sum(start not in full for start, _ in of_key)
    return total
