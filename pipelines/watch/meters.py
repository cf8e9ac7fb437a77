"""What a watcher measures, in Prometheus' terms: https://prometheus.io/docs/practices/naming/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from tokcore_pipelines.store.retries import count_retries
from tokcore_schemas.commit_log import Commit
from tokcore_schemas.stage_manifests import BuildManifest

_LAG_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)


class Meters:
    """Counters are of this process, and of the commits that it made."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()

        def count(name: str, about: str, *labels: str) -> prometheus_client.Counter:
            return prometheus_client.Counter(f"tokcore_{name}", about, labels, registry=registry)

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"tokcore_{name}", about, labels, registry=registry)

        def spread(name: str, about: str) -> Histogram:
            return Histogram(f"tokcore_{name}", about, registry=registry, buckets=_LAG_SECONDS)

        self._documents = count("documents", "Documents in shards.", "language")
        self._text_bytes = count("text_bytes", "Bytes of text in shards, UTF-8.", "language")
        self._tokens = count("tokens", "Tokens in shards.", "language")
        self._rejected = count("rejected_records", "Records that are no document.", "reason")
        self._files = count("files", "Input files that were committed: new or changed, or gone.", "change")
        self._commits = count("commits", "Commits of this watcher.")
        self._cache_hits = count("cache_hits", "Work items that an earlier attempt had done.")
        self._retries = count("worker_retries", "Requests to stores that workers tried again.")
        self._notifications = count("notifications", "Messages of the queue: with a file, or without.", "about")
        self._failures = count("failures", "What failed and is tried again.", "what")
        self._lag = spread("lag_seconds", "From the first look at a file to the commit that holds it.")
        self._batch = spread("batch_seconds", "From the choice of a batch to its commit.")
        self.waiting_files = gauge("waiting_files", "Files that are seen and not committed.")
        self.waiting_bytes = gauge("waiting_bytes", "Their stored bytes.")
        self.oldest = gauge("oldest_waiting_seconds", "For how long the oldest of them has waited.")
        self.quarantined = gauge("quarantined_files", "Files that failed too often, and are left alone.")
        self.newest = gauge("newest_commit", "The number of the newest commit.")
        self.has_turn = gauge("has_turn", "1 if this watcher commits, 0 if it stands by.")
        of = "baseline, or the window of what landed last"
        self._drift = {
            "bytes_per_token": gauge("drift_bytes_per_token", f"Bytes of text per token: {of}.", "of"),
            "short_tokens": gauge("drift_short_token_share", f"Share of text in tokens of 1 or 2 bytes: {of}.", "of"),
            "unseen": gauge("drift_unseen_share", f"Share of pre-tokens that the baseline does not have: {of}.", "of"),
        }
        self._shares = gauge("drift_language_share", f"Share of a language in the text: {of}.", "language", "of")
        self._exceeded = gauge("drift_exceeded", "1 if a figure of the window is out of bounds.", "figure")
        gauge("store_retries", "Requests to stores that were tried again.").set_function(count_retries)

    def note_commit(self, commit: Commit, parts: list[BuildManifest], lags_s: list[float], seconds: float) -> None:
        """Count a commit. parts: those that it adds. lags_s: of its new and changed files."""
        for part in parts:
            for name, language in part.languages.items():
                self._documents.labels(name).inc(language.documents)
                self._text_bytes.labels(name).inc(language.text_bytes)
                self._tokens.labels(name).inc(language.tokens)
            for reason, number in part.totals.records.rejected.items():
                self._rejected.labels(reason).inc(number)
        for change in ("new", "changed", "vanished"):
            self._files.labels(change).inc(getattr(commit.why, change))
        for lag in lags_s:
            self._lag.observe(lag)
        self._batch.observe(seconds)
        self._commits.inc()
        self.newest.set(commit.number)

    def note_measured(self, measured: Counter[str]) -> None:
        """Take what work items counted; it is gone then."""
        self._cache_hits.inc(measured.pop("cache_hits", 0))
        self._retries.inc(measured.pop("retries", 0))
        measured.clear()

    def note_messages(self, named: int, other: int) -> None:
        """Count messages of the queue."""
        self._notifications.labels("file").inc(named)
        self._notifications.labels("other").inc(other)

    def note_drift(self, drift: Mapping[str, Any]) -> None:
        """Take over what Drift.measure gives."""
        for of in ("baseline", "window"):
            figures = drift[of] or {}
            for name, gauge in self._drift.items():
                if figures.get(name) is not None:
                    gauge.labels(of).set(figures[name])
        self._shares.clear()  # languages come and go
        for of in ("baseline", "window"):
            for lang, share in (drift[of] or {}).get("languages", {}).items():
                self._shares.labels(lang, of).set(share)
        self._exceeded.clear()
        for name in (*self._drift, "language"):
            self._exceeded.labels(name).set(any(one.split()[0] == name for one in drift["exceeded"]))

    def note_failure(self, what: str) -> None:
        """what: look, or batch."""
        self._failures.labels(what).inc()

    def write(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
