"""How much of the sources a look asks of the stores: everything, what sorts after it, or what may have changed."""

from __future__ import annotations

import time
from collections.abc import Collection

from tokcore_pipelines.watch.known_files import KnownFiles
from tokcore_pipelines.watch.notifications import Notifications
from tokcore_schemas.build_tables import WatchTable

_SHORTEST_PAUSE_S = 1.0  # between looks at files that wait


class Looks:
    """Decides it, look by look."""

    def __init__(self, settings: WatchTable, notifications: Notifications | None) -> None:
        self.settings = settings
        self.known = KnownFiles(settings.sorted_names or notifications is not None)
        self._notifications = notifications
        self._number = 0  # looks since everything was listed
        self._full_at: float | None = None  # when that was

    def begin(self, waiting: Collection[str], is_sure: bool) -> None:
        """Decide how much the look that follows lists.

        waiting: URLs of files that may have changed since the last one. is_sure: whether the last one went well; after
        trouble everything is listed.
        """
        settings, now = self.settings, time.monotonic()
        hints = self._notifications.take() if self._notifications is not None else set()
        if self._full_at is None or not is_sure or self._is_full_due(now):
            self.known.begin_full()
        else:
            self.known.begin_small({*hints, *waiting}, settings.sorted_names)
        self._number += 1
        if self.known.is_full:
            self._full_at, self._number = now, 0

    def change_settings(self, settings: WatchTable) -> None:
        """Go by other settings from now on; patterns may match other files, so everything is listed next."""
        self.settings = settings
        self.known.keeps = settings.sorted_names or self._notifications is not None
        self.known.forget()

    def _is_full_due(self, now: float) -> bool:
        if self.settings.sorted_names:
            return self._number >= self.settings.full_looks
        assert self._full_at is not None
        return self._notifications is None or now - self._full_at >= float(self.settings.poll_seconds)

    def choose_pause(self, is_waiting: bool) -> float:
        """For how many seconds to wait after a look. is_waiting: whether files wait to settle.

        With notifications these are looked at again before the next poll, which may be far away.
        """
        poll = float(self.settings.poll_seconds)
        soon = max(_SHORTEST_PAUSE_S, float(self.settings.settle_seconds))
        return min(poll, soon) if self._notifications is not None and is_waiting else poll

    def find_gap(self) -> float:
        """The seconds from a look to one that is due to hints: files seldom come alone, and none is taken unsettled."""
        return min(float(self.settings.settle_seconds), float(self.settings.poll_seconds))
