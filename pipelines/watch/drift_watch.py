"""Drift over the life of a watcher: measured when more has landed, kept in metrics, reported once if out of bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokcore.errors import TokError
from tokcore_pipelines.build.read_log import Log
from tokcore_pipelines.store import urls
from tokcore_pipelines.watch.blamed_files import shorten
from tokcore_pipelines.watch.drift import Drift
from tokcore_pipelines.watch.meters import Meters
from tokcore_schemas.config import BuildConfig


class DriftWatch:
    """The drift of one output."""

    def __init__(self, config: BuildConfig, output: str, meters: Meters, say: Callable[[str], None]) -> None:
        """say: called once for each figure that is out of bounds, and for each reason why drift is not measured."""
        named = config.watch.drift_baseline
        begun_with = config.tokenizer.from_ if config.tokenizer is not None else None
        places = (urls.resolve(config.base, place) if place else "" for place in (named, begun_with))
        self.found: dict[str, Any] | None = None  # as it was measured last
        self._drift = Drift(output, config.watch, *places)
        self._meters = meters
        self._say = say
        self._at = -1  # the newest commit when it was measured
        self._told: set[str] = set()

    def measure(self, log: Log) -> bool:
        """Compare what landed with the tokenizer's corpus, if more has landed; whether there are new figures.

        A failure is reported, and stops nothing.
        """
        if self._at == log.newest:
            return False
        self._at = log.newest
        before = self.found["exceeded"] if self.found is not None else {}
        try:
            self.found = self._drift.measure(log)
        except (TokError, OSError) as error:
            if (said := shorten(error)) not in self._told:
                self._told.add(said)
                self._say(f"drift is not measured: {said}")
            return False
        self._meters.note_drift(self.found)
        for what, words in self.found["exceeded"].items():
            if what not in before:
                self._say(f"does the tokenizer still fit? {words} (drift, `tokcore status` has more)")
        return True
