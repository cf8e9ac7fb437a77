"""What a worker does in the first pass of a shuffle: tokenize one work item, and deal its documents into buckets.

Documents wait in memory until there are enough of them, then they go to an attempt file, in the order of their places.
Each file is recorded at once: an attempt that dies later does not tokenize its documents again. No Beam.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tokcore.errors import StageError
from tokcore.formats.provenance import PLACE_BYTES, Places
from tokcore.text.texts import Texts
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.reading.input_range import Batch
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.choose_splits import choose_splits
from tokcore_pipelines.work.encode_item import (
    cut_into_slices,
    encode_texts,
    load_job_tokenizer,
    subtract_leaving,
)
from tokcore_pipelines.work.encode_job import EncodeJob, Positions
from tokcore_pipelines.work.inherit_item import Inherited, find_inherited, require_inherited_sums
from tokcore_pipelines.work.item_reader import ItemReader, write_rejects_to
from tokcore_pipelines.work.scattered_runs import Scattered, join_scattered, write_scattered
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ItemScattered, Spilled
from tokcore_schemas.shuffle import compute_place, get_heads

# What waits in memory: 64 MB of ids, or documents without many.
SPILL_TOKENS = 1 << 24
SPILL_DOCUMENTS = 1 << 20


def make_scatter_key(item: int) -> str:
    """The record key of a work item of the first pass."""
    return f"scattered-{item:05d}"


@freeing_memory
def scatter_item(
    job: EncodeJob, num_buckets: int, assignment: Assignment, heads: tuple[int, int] | None = None
) -> ItemScattered:
    """Tokenize a work item; its documents lie in attempt files, a run for each bucket.

    heads: only documents whose places begin with a number of this interval, end excluded; None: all.
    Raises StageError for an input that cannot be read or has changed, IdentityError for another tokenizer.
    """
    key = make_scatter_key(assignment.number)
    if (done := job.attempts.result(key, ItemScattered)) is not None:
        report_progress("read", assignment.size_bytes)
        return done
    alike: frozenset[str] = frozenset()
    if job.inherits:
        if (own := find_inherited(job.attempts, assignment)) is not None:
            return job.attempts.record(key, _inherit_item(job, assignment, own))
        if (shuffled := require_inherited_sums(job.attempts).shuffled) is not None:
            alike = frozenset(shuffled.alike)
    tokenizer = load_job_tokenizer(job)
    spelled: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        rejects = stack.enter_context(job.attempts.new_file(f"item-{assignment.number:05d}.rejects"))
        reader = ItemReader(
            assignment, job.base, write_rejects_to(rejects.file), job.attempts.output, job.max_languages
        )
        spills = _Spills(job, num_buckets, assignment.number)
        for source, batch in reader:
            for part in cut_into_slices(batch.texts):
                texts = Texts(batch.texts.data, batch.texts.offsets[part.start : part.stop + 1])
                spelled.update(tokenizer.spelled_special(texts))
                if source.uri in alike:  # its documents are taken from the shards that have them
                    continue
                first = spills.count_ahead(texts.num_texts)
                if first == texts.num_texts:
                    continue
                assert job.config.shuffle is not None
                places = compute_places(job.config.shuffle, batch, part)
                where = _find_wanted(places, first, heads)
                if len(where):
                    tokens, pretokens = encode_texts(job, tokenizer, source, batch, part, texts, where)
                    splits = choose_splits(job.config, batch, part, source.settings.validation)
                    is_validation = np.array([split == "validation" for split in splits])
                    spills.add(Scattered(tokens, pretokens, is_validation[where], places[where]))
        spilled = spills.close()
    reach("encode.item")
    return job.attempts.record(
        key,
        ItemScattered(
            item=assignment.number,
            ledgers=tuple(reader.ledgers),
            languages=reader.languages(),
            runs=tuple(run for one in spilled for run in one.runs),
            special_text=dict(sorted(spelled.items())),
            rejects=rejects.stored(""),
        ),
    )


def _inherit_item(job: EncodeJob, assignment: Assignment, own: Inherited) -> ItemScattered:
    """The record of an item whose documents are in shards of the part before, from which they are gathered."""
    left = subtract_leaving(job, own)
    reach("encode.item")
    return ItemScattered(
        item=assignment.number,
        ledgers=(*own.item.ledgers, *left.ledgers),
        languages=left.languages,
        runs=(),
        special_text=left.special_text,
        rejects=own.rejects,
    )


def _find_wanted(places: Places, first: int, heads: tuple[int, int] | None) -> Positions:
    """Positions of the documents from the first on that lie in the interval of heads, if there is one."""
    wanted = np.arange(len(places)) >= first
    if heads is not None:
        found = get_heads(places)
        # The end may be 2^64, which no uint64 is.
        wanted &= (found >= np.uint64(heads[0])) & (found <= np.uint64(heads[1] - 1))
    return np.flatnonzero(wanted)


def compute_places(seed: int, batch: Batch, part: slice) -> Places:
    """Where a shuffle puts each document of a part of the batch."""
    places = b"".join(
        compute_place(seed, batch.compute_key(i), batch.texts.text(i)) for i in range(part.start, part.stop)
    )
    return np.frombuffer(places, np.uint8).reshape(-1, PLACE_BYTES)


class _Spills:
    """The documents of one work item: those that wait, and those in files."""

    def __init__(self, job: EncodeJob, num_buckets: int, item: int) -> None:
        self._job = job
        self._num_buckets = num_buckets
        self._item = item
        self._waiting: list[Scattered] = []
        self._num_documents = self._num_tokens = 0
        self._done = self._find_done()
        self._ahead = sum(one.documents for one in self._done)

    def count_ahead(self, num: int) -> int:
        """How many of the next num documents are in a file of an earlier attempt. Tell it of each document once."""
        ahead = min(num, self._ahead)
        self._ahead -= ahead
        return ahead

    def add(self, documents: Scattered) -> None:
        self._waiting.append(documents)
        self._num_documents += documents.tokens.num_documents
        self._num_tokens += documents.tokens.num_tokens
        if self._num_tokens >= SPILL_TOKENS or self._num_documents >= SPILL_DOCUMENTS:
            self._spill()

    def close(self) -> Sequence[Spilled]:
        """All files. Raises StageError if an earlier attempt read more documents."""
        if self._ahead:
            raise StageError(f"work item {self._item}: {self._ahead} documents fewer than an earlier attempt read")
        if self._waiting:
            self._spill()
        return self._done

    def _spill(self) -> None:
        documents = join_scattered(self._waiting)
        self._waiting = []
        with self._job.attempts.new_file(f"scattered-{self._item:05d}-{len(self._done):05d}") as new:
            runs = write_scattered(new, documents, self._num_buckets)
        reach("encode.shard")
        spilled = Spilled(self._num_documents, runs)
        self._num_documents = self._num_tokens = 0
        self._done.append(self._job.attempts.record(self._make_key(len(self._done)), spilled))

    def _find_done(self) -> list[Spilled]:
        done: list[Spilled] = []
        while (one := self._job.attempts.result(self._make_key(len(done)), Spilled)) is not None:
            done.append(one)
        return done

    def _make_key(self, number: int) -> str:
        return f"spilled-{self._item:05d}-{number:05d}"
