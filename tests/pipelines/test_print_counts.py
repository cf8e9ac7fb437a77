"""Nouns that commands print go by their number."""

from __future__ import annotations

import dataclasses

import pytest

from tokcore_pipelines.check import fsck
from tokcore_pipelines.check.rebuild import Rebuilt
from tokcore_pipelines.check.verify import Report
from tokcore_pipelines.check.verify_removed import RemovalReport
from tokcore_pipelines.commands.compact import print_compacted
from tokcore_pipelines.commands.convert import print_converted
from tokcore_pipelines.commands.fsck import print_checked
from tokcore_pipelines.commands.print_build import print_metrics
from tokcore_pipelines.commands.print_commits import print_log
from tokcore_pipelines.commands.show import print_shards
from tokcore_pipelines.commands.verify import print_rebuilt, print_removal_report, print_verified
from tokcore_pipelines.history.compact_output import Compacted
from tokcore_pipelines.look import convert
from tokcore_pipelines.look.show import ListedShards

VERIFIED = Report(
    problems=(),
    root="0a",
    num_files=1,
    size_bytes=1,
    seconds=1,
    num_read=1,
    num_decoded=1,
    lossless=True,
    num_leftovers=0,
    totals={},
)
TOTALS = {"documents": 1, "text_bytes": 5, "tokens": 1, "shards": 1}
COMMIT = {
    "number": 1,
    "date": "",
    "why": {"command": "remove", "removed": 1},
    "totals": TOTALS,
    "added": [],
    "dropped": [],
    "root": "0a",
}


@pytest.mark.parametrize(
    ("show", "said"),
    [
        (lambda: print_compacted("out", Compacted(None, 1, 1, ())), "nothing to gain: 1 small shard stays as it is"),
        (lambda: print_compacted("out", Compacted(None, 2, 2, ())), "nothing to gain: 2 small shards stay as they are"),
        (lambda: print_removal_report(RemovalReport((), (), (), 1, 1)), "is left in 1 commit\n"),
        (
            lambda: print_log([COMMIT]),
            "remove: 1 document removed\n  1 document with 5 bytes of text, 1 token in 1 shard\n",
        ),
        (lambda: print_metrics({"count": {"items": 1, "records": 1}}), "1 work item, 1 record, "),
        (lambda: print_shards("out", ListedShards([], 1, 1, 1, {})), "\n1 shard in out/shards: 1 document, 1 token\n"),
        (lambda: print_verified(VERIFIED), "1 document decoded and equal to its source\n"),
        (
            lambda: print_verified(dataclasses.replace(VERIFIED, lossless=False)),
            "1 document encoded again, with equal tokens\n",
        ),
        (lambda: print_rebuilt(Rebuilt("train-0", (), (), 1, 1, 1, 1)), "1 document, 1 token computed again"),
    ],
)
def test_one_thing_is_said_to_be_one(show, said, capsys):
    show()
    assert said in capsys.readouterr().out


def test_metrics_fit_a_screen(capsys):
    rejected = {f"rejected:{reason}": 1_234_567 for reason in ("invalid_utf8", "missing_text", "too_long", "empty")}
    amounts = {"items": 12_345, "cache_hits": 1, "records": 1_368, "stored_bytes": 1_683_664, "text_bytes": 3_764_907}
    print_metrics({"count": amounts, "encode": amounts | rejected})
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line[:11].strip() for line in lines] == ["count", "", "encode", "", ""]
    assert lines[1] == "           stored, 3,764,907 of text"


def test_commands_about_shards_say_how_many(capsys):
    checked = fsck.Report(1, 1, 1, ("arrow",), ("broken",), ())
    print_checked(checked)
    print_checked(dataclasses.replace(checked, problems=()))
    print_converted("new", convert.Report("new", "arrow", 1, 1, 1, ()))
    assert capsys.readouterr().out.splitlines() == [
        "broken",
        "1 shard (arrow), 1 document, 1 token: 1 problem",
        "1 shard (arrow), 1 document, 1 token: no problems",
        "new: 1 shard, 1 document, 1 token",
    ]
