"""Counts the pre-tokens of texts as they come, by language and on several threads, in bounded memory.

When the counters have grown to their limit, they become sorted runs in temporary files, as those of a build's workers
do. What is counted depends neither on that nor on threads.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tokcore import kernel
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import read_run, write_run
from tokcore.count.text_sources import TextBatch
from tokcore.text.masking import add_texts, check_mask
from tokcore.text.normalize import Normalizer
from tokcore.text.pretokenizer import Pretokenizer

_BATCHES_PER_THREAD = 2  # that wait or are counted


@dataclasses.dataclass(frozen=True, slots=True)
class CountingRules:
    """What decides the counts of a text. The names are those of a build file."""

    pretokenizer: Pretokenizer
    normalizer: Normalizer
    max_pretoken_bytes: int = 1024
    mask: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Sizes:
    """How much there is of a language: texts, normalized bytes and pre-tokens."""

    documents: int = 0
    bytes: int = 0
    pretokens: int = 0


class Counted(NamedTuple):
    """What count_languages found. runs may be read once, while its block runs."""

    sizes: dict[str, Sizes]  # by language
    runs: list[tuple[str, Iterable[CountRows]]]  # sorted rows of a language, which may have several runs
    most_rows: int  # of all runs together, and the bytes of their keys
    most_bytes: int


@contextlib.contextmanager
def count_languages(
    batches: Iterable[TextBatch],
    rules: CountingRules,
    threads: int = 1,
    memory_bytes: int = 1 << 30,
    advance: Callable[[int], None] | None = None,
) -> Iterator[Counted]:
    """The counts of all batches. memory_bytes: of the counters together. advance: hears how many texts were counted."""
    with tempfile.TemporaryDirectory(prefix="tokcore-counts-") as folder:
        counting = _Counting(rules, threads, Path(folder))
        with concurrent.futures.ThreadPoolExecutor(threads) as executor:
            pending: set[concurrent.futures.Future[int]] = set()
            for batch in batches:
                if len(pending) >= threads * _BATCHES_PER_THREAD:
                    pending = _wait(pending, concurrent.futures.FIRST_COMPLETED, advance)
                    if counting.memory_bytes > memory_bytes:
                        pending = _wait(pending, concurrent.futures.ALL_COMPLETED, advance)
                        counting.spill()
                pending.add(executor.submit(counting.add, batch))
            _wait(pending, concurrent.futures.ALL_COMPLETED, advance)
        yield counting.finish()


def _wait(
    pending: set[concurrent.futures.Future[int]], until: str, advance: Callable[[int], None] | None
) -> set[concurrent.futures.Future[int]]:
    """Those that are not done yet. Raises what one of the others raised."""
    done, others = concurrent.futures.wait(pending, return_when=until)
    for future in done:
        num = future.result()
        if advance is not None:
            advance(num)
    return others


class _Counting:
    def __init__(self, rules: CountingRules, threads: int, folder: Path) -> None:
        self._rules = rules
        self._mask = check_mask(rules.mask)
        self._threads = threads
        self._lock = threading.Lock()
        self._folder = folder
        self._counters: list[dict[str, kernel.Counter]] = [{} for _ in range(threads)]  # by language, of each thread
        self._free = [*self._counters]  # a thread takes one from here, and puts it back
        self._sizes: defaultdict[str, Sizes] = defaultdict(Sizes)
        self._files: list[tuple[str, Path]] = []
        self._most_rows = self._most_bytes = 0

    @property
    def memory_bytes(self) -> int:
        return sum(counter.memory_bytes for counters in self._counters for counter in [*counters.values()])

    def add(self, batch: TextBatch) -> int:
        """Count a batch; the number of its texts."""
        counters = self._free.pop()
        found = []
        try:
            for lang, raw in batch.by_lang():
                texts = self._rules.normalizer.apply(raw)
                counter = counters.get(lang)
                if counter is None:
                    # A user's own pattern is split outside; the counter's own pattern is not used then.
                    name = self._rules.pretokenizer.native_name or "gpt2"
                    counter = counters[lang] = kernel.Counter(name, self._rules.max_pretoken_bytes)
                before = counter.num_pretokens
                add_texts(counter, texts, self._rules.pretokenizer, self._mask)
                found.append((lang, texts, counter.num_pretokens - before))
        finally:
            self._free.append(counters)
        with self._lock:
            for lang, texts, num_pretokens in found:
                sizes = self._sizes[lang]
                sizes.documents += texts.num_texts
                sizes.bytes += texts.size_bytes
                sizes.pretokens += num_pretokens
        return sum(texts.num_texts for _, texts, _ in found)

    def spill(self) -> None:
        """Write the counts so far to disk, and start again from zero. No thread may be counting."""
        for lang, rows in self._take():
            path = self._folder / str(len(self._files))
            with path.open("wb") as file:
                write_run(file, rows)
            self._files.append((lang, path))

    def finish(self) -> Counted:
        runs: list[tuple[str, Iterable[CountRows]]] = [(lang, _read_file(path)) for lang, path in self._files]
        runs += self._take()
        return Counted(dict(self._sizes), runs, self._most_rows, self._most_bytes)

    def _take(self) -> Iterator[tuple[str, Sequence[CountRows]]]:
        for lang in sorted({lang for counters in self._counters for lang in counters}):
            counters = [counters.pop(lang) for counters in self._counters if lang in counters]
            rows = kernel.Counter.take_all(counters, self._threads)
            self._most_rows += sum(block.num_rows for block in rows)
            self._most_bytes += sum(block.keys.size_bytes for block in rows)
            yield lang, rows


def _read_file(path: Path) -> Iterator[CountRows]:
    with path.open("rb") as file:
        yield from read_run(file)
