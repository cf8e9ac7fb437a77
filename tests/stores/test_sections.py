"""Sections of run files are read by exact ranges of an object: neighbours by one request, and nothing around them."""

from __future__ import annotations

from stores.servers import Store

from tokcore.count.pretoken_rows import list_rows, make_rows
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.runs import read_sections, write_section


def test_neighbours_are_fetched_by_one_exact_range(s3_here: Store) -> None:
    attempts = Attempts(s3_here.fresh(), "counts", "0" * 64)
    rows = [[(b"%d-%03d" % (which, i), i + 1, 1) for i in range(200)] for which in range(6)]
    with attempts.new_file("item.runs") as new:
        runs = [write_section(new.file, new.attempt, 0, [("en", make_rows(some))]) for some in rows]
    s3_here.proxy.reset()
    chosen = [4, 1, 2]
    found = [
        [row for _, block in section for row in list_rows(block)]
        for section in read_sections(attempts, [runs[i] for i in chosen])
    ]
    assert found == [rows[i] for i in chosen]
    asked = [one for one in s3_here.proxy.requests if one.operation == "GetObject"]
    end = {i: runs[i].offset + runs[i].size_bytes for i in chosen}
    assert sorted(one.range for one in asked if one.range) == [(runs[1].offset, end[2]), (runs[4].offset, end[4])]
    assert len(asked) == 2
    assert sum(one.received_bytes for one in asked) == sum(runs[i].size_bytes for i in chosen)
