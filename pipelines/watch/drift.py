"""Whether the tokenizer still fits: what landed last, beside the corpus that the tokenizer was learned from.

All figures follow from what the log names: the manifests of parts, their counts of token ids and, if they have them,
their count tables. So a watcher that starts anew has the same ones.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.count.key_filter import KeyFilter
from tokcore.count.pretoken_rows import CountRows
from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.read_log import Log, locate_part, read_part
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS, read_token_counts
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_pipelines.work.stored_tables import StoredTable
from tokcore_schemas.build_tables import WatchTable
from tokcore_schemas.commit_log import OWN, Part
from tokcore_schemas.stage_manifests import BuildManifest, CountsManifest, LearnedConfig
from tokcore_schemas.stage_table import COUNTS, WHOLE

MOST_PARTS = 1000  # of a window: each is a few requests to a store
_SHORT_BYTES = 3  # tokens with fewer bytes are letters and halves of letters
_MOST_FILTER_BYTES = 1 << 26
_AT_ONCE = 16  # parts that are read at a time


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What documents look like to a tokenizer; None where there are no counts of that."""

    text_bytes: dict[str, int]  # language -> bytes
    tokens: int
    token_bytes: int | None  # of the tokens that stand for text
    short_bytes: int | None  # those in tokens of fewer than three bytes
    pretokens: int | None
    unseen: float | None  # of these, those that the other corpus does not have

    @property
    def size_bytes(self) -> int:
        return sum(self.text_bytes.values())

    def describe(self) -> dict[str, Any]:
        """The shares and rates of which drift is judged."""
        size = self.size_bytes
        return {
            "text_bytes": size,
            "bytes_per_token": round(size / self.tokens, 4) if self.tokens else None,
            "short_tokens": _divide(self.short_bytes, self.token_bytes),
            "unseen": _divide(self.unseen, self.pretokens),
            "languages": {lang: round(number / size, 4) for lang, number in sorted(self.text_bytes.items()) if number},
        }


def add_up(parts: Sequence[Figures]) -> Figures:
    """The figures of all parts together; a part without some counts leaves the sum without them."""
    languages: Counter[str] = Counter()
    for part in parts:
        languages.update(part.text_bytes)

    def total(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if None in values else sum(values)

    names = ("tokens", "token_bytes", "short_bytes", "pretokens", "unseen")
    return Figures(dict(languages), *map(total, names))


class Drift:
    """Compares the newest parts of an output with a baseline."""

    def __init__(self, output: str, settings: WatchTable, named: str = "", begun_with: str = "") -> None:
        """named: URL of the output to compare with; empty: the one that the tokenizer was learned in, if it is known.

        begun_with: URL of what the tokenizer was taken from; empty: it was learned in the output.
        """
        self._output = output
        self._settings = settings
        self._named = named.rstrip("/")
        self._begun_with = begun_with.rstrip("/")
        self._known: dict[str, Figures] = {}  # path of a part -> its figures
        self._lengths: npt.NDArray[np.int64] | None = None  # bytes of each token
        self._place: str | None = None  # URL of the baseline, "" for the first window; None: not looked for yet
        self._baseline: Figures | None = None
        self._seen: KeyFilter | None = None  # pre-tokens of the baseline

    def measure(self, log: Log) -> dict[str, Any]:
        """The baseline, the window, and what of it is out of bounds, in words; all of it is JSON.

        Raises ConfigError for a baseline with another tokenizer, FormatError for damage, StageError if a store fails.
        """
        parts = log.parts()
        if self._lengths is None:
            self._lengths = _read_lengths(self._output)
        if self._place is None:
            self._place = self._find_baseline(log)
        own = self._place == self._output
        if self._place and self._baseline is None:
            self._read_baseline(log.build if own else find_manifest(self._place, WHOLE))
        landed = [part for part in parts if part.path != OWN or not own]
        window = self._choose(reversed(landed))
        kept = landed[-len(window) - _AT_ONCE :]
        if not self._place and self._baseline is None:
            kept += self._begin_with_first_window(landed, window)
        paths = {part.path for part in kept}
        self._known = {path: one for path, one in self._known.items() if path in paths}
        now = add_up([self._read(part) for part in window])
        is_full = now.size_bytes >= self._settings.drift_window_bytes or len(window) == MOST_PARTS
        return self._describe(now, is_full)

    def _describe(self, now: Figures, is_full: bool) -> dict[str, Any]:
        baseline = self._baseline.describe() if self._baseline is not None else None
        window = now.describe()
        exceeded = [*find_exceeded(self._settings, baseline, window)] if baseline is not None and is_full else []
        return {
            "against": redact(self._place or "the first files that landed"),
            "baseline": baseline,
            "window": window,
            "is_full": is_full and baseline is not None,
            "wanted_bytes": self._settings.drift_window_bytes,
            "wrongly_seen": round(self._seen.share_wrong, 6) if self._seen is not None else None,
            "exceeded": dict(exceeded),
        }

    # -------------------------------------------------------------------------------------------------------- baseline

    def _find_baseline(self, log: Log) -> str:
        """The URL of the output that the tokenizer was learned from, or that the settings name; "" if none is known."""
        fingerprint = log.build.totals.fingerprint
        if named := self._named:
            build = find_manifest(named, WHOLE)
            if build is None or build.totals.fingerprint != fingerprint:
                what = "holds no finished build" if build is None else "was encoded with another tokenizer"
                raise ConfigError(f"watch.drift_baseline: {redact(named)}: {what}. Name an output with this tokenizer.")
            return named
        if isinstance(log.build.config.tokenizer, LearnedConfig):
            return self._output
        folder = self._begun_with.removesuffix("/tokcore.json")
        for place in dict.fromkeys(filter(None, (folder, folder.removesuffix("/tokenizer")))):
            build = find_manifest(place, WHOLE)
            if build is not None and isinstance(build.config.tokenizer, LearnedConfig):
                return place if build.totals.fingerprint == fingerprint else ""
        return ""

    def _begin_with_first_window(self, landed: Sequence[Part], window: Sequence[Part]) -> list[Part]:
        """Take the first parts that landed for the baseline, if none of them is in the window.

        Returns the parts whose figures the next call needs: these, until they are the baseline.
        """
        first = self._choose(iter(landed))
        total = add_up([self._read(part) for part in first])
        if {*first} & {*window} or total.size_bytes < self._settings.drift_window_bytes:
            return first
        self._seen = make_filter([locate_part(self._output, part) for part in first])
        self._baseline = dataclasses.replace(total, unseen=None if self._seen is None else 0.0)
        self._known.clear()  # measured without the filter
        return []

    def _read_baseline(self, build: BuildManifest | None) -> None:
        assert build is not None
        assert self._place
        self._seen = make_filter([self._place])
        self._baseline = self._measure(build, self._place, is_baseline=True)

    # ----------------------------------------------------------------------------------------------------------- parts

    def _choose(self, parts: Iterator[Part]) -> list[Part]:
        """As many parts as make a window."""
        chosen: list[Part] = []
        size = 0
        while some := [*itertools.islice(parts, _AT_ONCE)]:
            for part, figures in zip(some, run_at_once(self._read, some), strict=True):
                if size >= self._settings.drift_window_bytes or len(chosen) == MOST_PARTS:
                    return chosen
                chosen.append(part)
                size += figures.size_bytes
        return chosen

    def _read(self, part: Part) -> Figures:
        """The figures of a part, which never changes."""
        if part.path not in self._known:
            place = locate_part(self._output, part)
            self._known[part.path] = self._measure(read_part(self._output, part), place)
        return self._known[part.path]

    def _measure(self, build: BuildManifest, place: str, is_baseline: bool = False) -> Figures:
        short = self._measure_tokens(place)
        pretokens, unseen = count_unseen(place, None if is_baseline else self._seen)
        return Figures(
            text_bytes={lang: one.text_bytes for lang, one in build.languages.items()},
            tokens=sum(one.tokens for one in build.languages.values()),
            token_bytes=short[0] if short else None,
            short_bytes=short[1] if short else None,
            pretokens=pretokens,
            unseen=0.0 if is_baseline and pretokens is not None else unseen,
        )

    def _measure_tokens(self, place: str) -> tuple[int, int] | None:
        """(bytes of the tokens that stand for text, those in short tokens); None if they are not counted there."""
        if not storage.exists(urls.join(place, "shards", TOKEN_COUNTS)):
            return None
        assert self._lengths is not None
        table = read_token_counts(place)
        lengths = self._lengths[table["id"].to_numpy()]
        size = lengths * table["count"].to_numpy().astype(np.int64)
        return int(size.sum()), int(size[lengths < _SHORT_BYTES].sum())


def _read_lengths(output: str) -> npt.NDArray[np.int64]:
    """The bytes of each token of an output's tokenizer; 0 of special tokens and unused ids."""
    tokenizer = load_tokenizer(output)
    special = {*tokenizer.specials.values()}
    is_text = (id not in special and tokenizer.id_to_token(id) is not None for id in range(tokenizer.vocab_size))
    return np.array([len(tokenizer.token_bytes(id)) if text else 0 for id, text in enumerate(is_text)], np.int64)


# ------------------------------------------------------------------------------------------------ what is out of bounds


def find_exceeded(settings: WatchTable, baseline: dict[str, Any], window: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(what drifted, in words) for each figure that is further from the baseline than the settings allow."""
    then, now = baseline["bytes_per_token"], window["bytes_per_token"]
    if then and now and now < then * (1 - float(settings.drift_bytes_per_token)):
        yield "bytes_per_token", f"a token stands for {now:.2f} bytes, and stood for {then:.2f}"
    then, now = baseline["short_tokens"], window["short_tokens"]
    if then is not None and now is not None and now - then > settings.drift_short_tokens:
        yield "short_tokens", f"{now:.1%} of the text is in tokens of one or two bytes, and {then:.1%} was"
    now = window["unseen"]
    if now is not None and now > settings.drift_unseen:
        yield "unseen", f"{now:.1%} of the pre-tokens are new"
    for lang in sorted({*baseline["languages"], *window["languages"]}):
        then, now = baseline["languages"].get(lang, 0.0), window["languages"].get(lang, 0.0)
        if abs(now - then) > settings.drift_language:
            yield f"language {lang}", f"{now:.1%} of the text is in {lang}, and {then:.1%} was"


def _divide(part: float | None, whole: int | None) -> float | None:
    return round(part / whole, 4) if part is not None and whole else None


# ---------------------------------------------------------------------------------------------------------- pre-tokens


def make_filter(places: Sequence[str]) -> KeyFilter | None:
    """The pre-tokens that are counted in some outputs; None if one has no counts."""
    counted = [_find_counts(place) for place in places]
    if None in counted:
        return None
    rows = sum(one.rows for counts in counted if counts is not None for one in counts.languages.values())
    seen = KeyFilter(rows, _MOST_FILTER_BYTES)
    for place, counts in zip(places, counted, strict=True):
        for block in _read_rows(place, counts):
            seen.add(block.keys)
    return seen


def count_unseen(place: str, seen: KeyFilter | None) -> tuple[int | None, float | None]:
    """(pre-tokens that an output counted, about how many of them a filter has not seen); None where nobody knows."""
    counts = _find_counts(place)
    if counts is None:
        return None, None
    total = sum(one.pretokens for one in counts.languages.values())
    if seen is None:
        return total, None
    unseen = sum(int(block.counts[~seen.find(block.keys)].sum()) for block in _read_rows(place, counts))
    return total, min(float(total), unseen / (1 - seen.share_wrong))


def _find_counts(place: str) -> CountsManifest | None:
    """The manifest of an output's counts; None if it has none, or their tables were given up."""
    counts = find_manifest(place, COUNTS)
    first = itertools.islice(counts.list_files(), 1) if counts is not None else ()
    if counts is None or not all(storage.exists(urls.join(place, "counts", file.path)) for file in first):
        return None
    return counts


def _read_rows(place: str, counts: CountsManifest | None) -> Iterator[CountRows]:
    for entry in counts.files if counts is not None else ():
        yield from StoredTable.of(place, entry).read()
