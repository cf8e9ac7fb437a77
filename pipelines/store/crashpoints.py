"""Points where the tests kill a build: moments at which a real machine may stop.

`TOKCORE_CRASH=NAME:N` ends a process, as kill -9 does, when it reaches the point of that name for the N-th time. The
variable is read once; without it a point costs a call and a comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable

# In the order of a build. POINTS[name] is the state of the build when a process reaches the point.
POINTS = {
    "plan.listed": "the inputs are listed and pinned",
    "read.batch": "some documents of an input range are read",
    "count.spilled": "a worker's tables are in a file",
    "count.item": "a work item is counted, but not recorded",
    "merge.written": "runs are merged, but the merge is neither named nor recorded",
    "merge.named": "the merge has its name, but is not recorded",
    "count.table": "a language's table is in a file, but not recorded",
    "range.written": "the tables of a range of keys are written, but the range is not recorded",
    "learn.begin": "the count tables are there",
    "learn.learned": "the tokenizer is in memory",
    "encode.shard": "a shard is in files, but not recorded",
    "encode.item": "a work item is encoded, but not recorded",
    "stage.worked": "the workers of a stage are done, and some of what they recorded is read",
    "stage.published": "a stage's files have their final names, but no manifest names them",
    "stage.committed": "a stage's manifest is there, but nothing after it",
    "build.committed": "the build's manifest is there, but its working folders are too",
    "build.cleaning": "some working files of a committed build are removed, and others are not",
    "write.before_sync": "a file is written, but not durable",
    "write.after_sync": "a file is durable",
    "publish.before_link": "a file is about to get its final name",
    "publish.after_link": "a file has two names",
    "create.before_link": "a manifest or a record is written, but has no name",
    "create.after_link": "a manifest or a record has its name",
}

# A build reaches these only if files are cut that can be rejected whole.
PROVING_POINTS = {
    "prove.range": "a range of such a file is read, but it is not recorded whether it is sound",
}

# A build reaches these only if it is to replace a stage.
REPLACING_POINTS = {
    "replace.kept": "a stage from which the new one can take over work is put aside, and others are not",
    "replace.removed": "a manifest, or the files of a stage, are removed, and others are not",
}

# A build reaches these only if weights follow the premium.
PARITY_POINTS = {
    "learn.round": "a round of learning is done, and nothing of it is recorded",
}

# A build reaches these only if it drops duplicates.
DEDUPING_POINTS = {
    "dedup.digested": "the digests of a work item are in a file, but not recorded",
    "dedup.judged": "the duplicates of a bucket are in a file, but not recorded",
    "dedup.listed": "the duplicates of a work item are in their file, but not recorded",
}

# A build reaches these only if it writes a mixture.
MIXING_POINTS = {
    "mix.measured": "a part of the shuffle is measured, but not recorded",
    "mix.shard": "a shard of a mixture is in files, but its part is not recorded",
    "mix.part": "a part of a mixture is written, but not recorded",
}

# A build reaches these only if it packs rows.
PACKING_POINTS = {
    "pack.shard": "a shard of rows is in files, but not described",
    "pack.group": "a group is packed, but not recorded",
}

# A build reaches these only if several ranges of keys share a count table.
SHARED_TABLE_POINTS = {
    "range.part": "a part of a count table is written, but its range is not recorded",
    "table.joined": "all parts of a count table were read, but the table is not recorded",
}

# Slices reach these only if they learn together, where rows do not fit in memory.
SHARED_LEARNING_POINTS = {
    "learn.dealt": "the rows of some tables are dealt into parts, but not recorded",
    "learn.bounds": "a part has counted its pairs in a round, and nothing is in a file",
    "learn.pieces": "a part has cut its words in a round, and nothing is in a file",
    "learn.merges": "the merges of a round are in memory",
}

# Learning from a commit reaches these, beside those of learning.
LEARNING_POINTS = {"learn.published": "the files of a tokenizer have their names, but its manifest is not there"}

# All that adds a commit reaches these.
COMMITTING_POINTS = {"commit.created": "a commit is there, but README.md is still that of the one before"}

# An update reaches these, beside those of the build of its part.
UPDATING_POINTS = {
    "update.built": "the new part is a finished build, but no commit names it",
    "update.committed": "the commit is there, but nothing after it",
}

# A part reaches these only if it takes over work items of the part whose place it takes.
INHERITING_POINTS = {
    "inherit.found": "it is known which work items are taken over, and nothing is recorded",
    "inherit.shard": "a shard of another part has a second name, but its work item is not recorded",
    "inherit.surveyed": "it is known which shuffled shards of a part stay as they are, but not recorded",
    "inherit.counts": "what is left of the counts is in files, but not recorded",
}

# A watcher reaches these, beside those of updates.
WATCHING_POINTS = {
    "watch.chosen": "a batch is chosen, and nothing of it is done",
    "watch.committed": "a batch is committed, but the watcher has told nobody",
}

# The worker of a stream reaches these, beside those of the build of a part.
STREAMING_POINTS = {
    "stream.read": "a batch is read into a part, which the engine has not been told",
    "stream.built": "the parts of a pane are finished builds, but no commit names them",
    "stream.committed": "the commit is there, but the engine has not been told",
}

# A removal reaches these, beside those of the build of its part.
REMOVING_POINTS = {
    "remove.built": "the part without the documents is a finished build, but no commit names it",
    "remove.committed": "the commit is there, but nothing after it",
}

# What writes files of tombstones reaches these: a removal or a restoration of many names, and a compaction.
BURYING_POINTS = {
    "bury.written": "a file of tombstones is written, but has no name",
    "bury.named": "a file of tombstones has its name, but no commit names it",
}

# An expiry of commits reaches these.
EXPIRING_POINTS = {
    "expire.committed": "the commit is there, and so is all that it gives up",
    "expire.removing": "some of what no commit can be read for is removed, and the rest is not",
}

# A compaction reaches these, beside those of the build of its part.
COMPACTING_POINTS = {
    "compact.built": "the part with few shards is a finished build, but no commit names it",
    "compact.committed": "the commit is there, but nothing after it",
}

# A conversion reaches these, and the first ones of files: it is no build.
CONVERTING_POINTS = {
    "convert.shard": "a shard is in files of the working folder, and others are not",
    "convert.before_rename": "all files are there and durable, but the folder has its working name",
    "convert.renamed": "the folder has its name",
}

# A repair of files by fsck reaches these.
MENDING_POINTS = {
    "fsck.written": "a file is made again and durable, but has a working name",
    "fsck.moved": "the old file is out of the way, and the new one is not in its place",
    "fsck.placed": "the new file has its place, but is not known to be right",
}

_visit: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Note that this process reaches the point of that name."""
    if _visit is not None:
        _visit(name)


def watch(visit: Callable[[str], None] | None) -> None:
    """Call visit(name) at every point from now on; None to stop."""
    global _visit
    _visit = visit


def make_killer(name: str, visit: int, signal_number: int = signal.SIGKILL) -> Callable[[str], None]:
    """A function for watch(): sends this process a signal when it reaches that point for the visit-th time, from 1."""
    points = [point for table, of in globals().items() if table.endswith("POINTS") for point in of]
    if name not in points:
        raise ValueError(f"no crash point {name!r}; there are {', '.join(points)}")
    visits: Counter[str] = Counter()
    lock = threading.Lock()

    def count(reached: str) -> None:
        with lock:
            visits[reached] += 1
            if reached == name and visits[name] == visit:
                os.kill(os.getpid(), signal_number)

    return count


def obey_environment() -> None:
    """Watch for the crash point that TOKCORE_CRASH names, if it is set."""
    if wanted := os.environ.get("TOKCORE_CRASH"):
        name, _, number = wanted.partition(":")
        watch(make_killer(name, int(number or 1)))


obey_environment()
