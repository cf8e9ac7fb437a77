"""Texts to judge tokenizers on: of a validation split, or of files; and how much of them a tokenizer was learned from.

Of each language the texts with the smallest sha256 are taken, each once: the draw depends on the texts alone.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError
from tokcore.evaluate.spread import DIGITS
from tokcore.shards.token_batch import TokenBatch
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import Output, read_output
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.stored_shards import read_batches
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.item_reader import ItemReader
from tokcore_pipelines.work.read_shards import count_around
from tokcore_pipelines.work.read_source import list_source_items
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import LearnedConfig, ShardsConfig
from tokcore_schemas.stage_table import SHARDS, TOKENIZER


class Judged(NamedTuple):
    """Texts that were drawn, by language; how many documents each has; whether all their texts were drawn."""

    texts: dict[str, list[bytes]]  # by their sha256
    documents: dict[str, int]  # copies of a text and empty ones included
    is_whole: dict[str, bool]


MOST_BYTES = 4 << 20  # of each language: no text is taken after so many


class TextDraw:
    """Of each language the texts with the smallest digests, each once; empty ones never."""

    def __init__(self, most: int) -> None:
        """most: texts to keep of each language."""
        self._most = most
        self._kept: dict[str, dict[bytes, bytes]] = {}
        self._sizes: Counter[str] = Counter()  # bytes kept of each language, about
        self._documents: Counter[str] = Counter()
        self._is_whole: dict[str, bool] = {}

    def add(self, lang: str, text: bytes) -> None:
        """Take the text of a document into the draw."""
        self._documents[lang] += 1
        if not text:
            return
        kept = self._kept.setdefault(lang, {})
        kept[hashlib.sha256(text).digest()] = text
        self._sizes[lang] += len(text)
        if len(kept) >= 2 * self._most or self._sizes[lang] >= 2 * MOST_BYTES:
            self._drop(lang)

    def _drop(self, lang: str) -> None:
        """Keep the first texts. What is among the first of all texts is so of some, too, so the order is no matter."""
        kept = self._kept[lang]
        first: dict[bytes, bytes] = {}
        size = 0
        for key in sorted(kept)[: self._most]:
            if size >= MOST_BYTES:
                break
            first[key] = kept[key]
            size += len(kept[key])
        self._is_whole[lang] = len(first) == len(kept) and self._is_whole.get(lang, True)
        self._kept[lang], self._sizes[lang] = first, size

    def finish(self) -> Judged:
        """What was drawn."""
        langs = sorted(self._kept)
        for lang in langs:
            self._drop(lang)
        texts = {lang: [*self._kept[lang].values()] for lang in langs}
        documents = {lang: self._documents[lang] for lang in langs}
        return Judged(texts, documents, {lang: self._is_whole[lang] for lang in langs})


def find_output(named: str) -> Output | None:
    """The output that a tokenizer is named by; None for a file of a tokenizer, and a model's repository."""
    if urls.find_scheme(named) in urls.INPUT_ONLY or find_manifest(named, SHARDS) is None:
        return None
    return read_output(named)


def has_validation(output: Output) -> bool:
    """Whether shards of an output hold documents of its validation split."""
    return any(True for _ in _list_shards(output, ("validation",)))


def draw_validation(output: Output, most: int, advance: Callable[[int], None]) -> Judged:
    """Texts of the validation split, as its tokens give them back. advance: told documents read.

    Raises ConfigError if they do not give back text.
    """
    spec = load_spec(output.url)
    if not spec.keeps_text:
        raise ConfigError(
            f"{redact(output.url)}: its tokenizer normalizes text, or leaves some of it out, so its shards do not give "
            f"back the text of the validation split. Name files that were not learned from: --data FILES"
        )
    tokenizer, draw = Tokenizer(spec), TextDraw(most)
    for config, batch in _read_documents(output, ("validation",)):
        ids, offsets = _leave_out_around(config, batch)
        texts = tokenizer.decode_texts(ids, offsets)
        for row in range(batch.num_documents):
            draw.add(batch.langs[row], texts.text(row))
        advance(batch.num_documents)
    return draw.finish()


def draw_from_files(
    sources: Iterable[tuple[Mapping[str, Any], str]], most: int, advance: Callable[[int], None]
) -> Judged:
    """Texts of files. sources: settings of a [[source]], and the folder of its patterns. advance: told documents read.

    Raises ConfigError for wrong settings and if no text is found, StageError for files that cannot be read.
    """
    draw = TextDraw(most)
    rejected: Counter[str] = Counter()
    for settings, base in sources:
        for _, assignment in list_source_items(settings, base):
            for _, batch in ItemReader(assignment, base, lambda one: rejected.update([one.reason])):
                for row in range(batch.texts.num_texts):
                    draw.add(batch.langs[row], batch.texts.text(row))
                advance(batch.texts.num_texts)
    judged = draw.finish()
    if not judged.texts:
        said = ", ".join(f"{reason}: {number:,}" for reason, number in sorted(rejected.items())) or "they are empty"
        raise ConfigError(
            f"--data: no text in these files ({said}): name others, or the field that has it with --text FIELD"
        )
    return judged


def find_learned_share(named: str, tokenizer: Tokenizer, texts: Mapping[str, Sequence[bytes]]) -> float | None:
    """The share of the bytes of texts that are documents which a tokenizer was learned from; None if nothing tells.

    named: URL of the tokenizer; an output tells it, if it learned the tokenizer and its shards hold what it encodes:
    the documents of the training split, or of both, if it was learned from both. Reads their ids: of the first commit,
    or where that is given up, of the newest.
    """
    output = find_output(named)
    made = None if output is None else find_manifest(named, TOKENIZER)
    if output is None or made is None or not isinstance(made.config, LearnedConfig):
        return None
    with contextlib.suppress(ConfigError):  # given up since then; what is left of it is in the newest commit
        output = read_output(named, 0)
    splits = (made.config.splits,) if made.config.splits else ("train", "validation")
    shards = output.find_all(SHARDS)
    if not shards or any(one.config.dropout or one.config.sampling for _, one in shards):
        return None
    if shards[0][1].totals.fingerprint != tokenizer.fingerprint:
        return None
    every = [text for of in texts.values() for text in of]
    encoded = tokenizer.encode_strings(every)
    wanted: dict[bytes, int] = {}
    for text, start, end in zip(every, encoded.offsets[:-1].tolist(), encoded.offsets[1:].tolist(), strict=True):
        wanted[encoded.ids[start:end].tobytes()] = len(text)
    keys = np.unique(_make_keys(encoded.ids, encoded.offsets))
    learned: set[bytes] = set()
    for config, batch in _read_documents(output, splits):
        ids, offsets = _leave_out_around(config, batch)
        for row in np.flatnonzero(np.isin(_make_keys(ids, offsets), keys)).tolist():
            found = ids[offsets[row] : offsets[row + 1]].astype(np.int32).tobytes()
            if found in wanted:
                learned.add(found)
    return round(sum(wanted[one] for one in learned) / sum(wanted.values()), DIGITS)


def _make_keys(ids: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A number for each document, of its length and three of its ids: equal documents have equal ones. 0 of no ids."""
    lengths = np.diff(offsets)
    keys = lengths.astype(np.uint64)
    some = lengths > 0
    starts, ends = offsets[:-1][some], offsets[1:][some]
    for places in (starts, (starts + ends) // 2, ends - 1):
        keys[some] = keys[some] * np.uint64(0x9E3779B97F4A7C15) + ids[places].astype(np.uint64)
    return keys


def _leave_out_around(config: ShardsConfig, batch: TokenBatch) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The ids of the documents of a batch without those that stand before and after each, and where each begins."""
    before, after = count_around(config)
    lengths = np.diff(batch.offsets) - before - after
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    starts = batch.offsets[:-1] - batch.offsets[0] + before
    taken = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts, lengths)
    return batch.tokens[taken].astype(np.int32), offsets


def _list_shards(output: Output, splits: Sequence[str]) -> Iterator[tuple[str, ShardsConfig, ShardRef]]:
    for url, made in output.find_all(SHARDS):
        for shard in list_named_shards(made):
            if shard.facts.split in splits:
                yield url, made.config, shard


def _read_documents(output: Output, splits: Sequence[str]) -> Iterator[tuple[ShardsConfig, TokenBatch]]:
    for url, config, shard in _list_shards(output, splits):
        for batch in read_batches(url, shard):
            yield config, batch
