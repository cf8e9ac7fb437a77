"""This host's part in a build of several hosts: what it knows of the others, and the turns that one host gets alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from tokcore_pipelines.local.run_options import Slice
from tokcore_pipelines.run.slices.claims import Claims
from tokcore_pipelines.run.slices.outcomes import MadeElsewhere, SliceWaits
from tokcore_pipelines.run.slices.presence import Presence
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import redact

# At most this share of the time is spent on looking.
_LOOKING_SHARE = 0.05
_POLLS_PER_LEASE = 10
_MAX_POLL_S = 2.0
_FIRST_TELL_S = 5.0  # a shorter wait is not mentioned
_TELL_S = 30.0
_MOST_TOLD = 5  # slices in a line

TURN = "turn"  # key of the claim of what one host does for all: learning, checks and commits


class Session:
    """One process of one slice. Call begin() before the work, end() after it."""

    def __init__(self, output: str, share: Slice, say: Callable[[str], None]) -> None:
        self.share = share
        self._presence = Presence(output, share)
        self._say = say
        self._next_look = 0.0
        self._waits_for = ""
        self._tell_at = 0.0
        self._told_lost: set[tuple[str, int]] = set()

    def begin(self) -> None:
        """Show others that this slice is at work."""
        self._presence.begin()

    def end(self, error: BaseException | None = None) -> None:
        """Show no more, but what ended this slice before its time. error: that; None: nothing did."""
        self._presence.end(_describe_end(error) if error is not None else "", has_left=isinstance(error, SliceWaits))

    def take_turn(self, attempts: Attempts, is_made: Callable[[], bool]) -> None:
        """Return when this host is the one that goes on with the stage, alone.

        is_made: whether the stage has been committed. Raises MadeElsewhere once it has; SliceWaits if another slice
        has the turn, and this one is not to wait.
        """
        self.begin()
        claims = Claims(attempts, self.share)
        while True:
            if is_made():
                raise MadeElsewhere(f"{attempts.stage}: another slice has committed it")
            self.look(claims.look)
            holder = claims.find_holder(TURN)
            if holder == self.share.number:
                return
            if holder is None or (self.share.waits and self.is_lost(holder)):
                if holder is not None:
                    self.tell_lost(attempts.stage, holder, "its turn")
                if claims.take(TURN):
                    return
                continue
            self.wait(attempts.stage, {holder: "commits it"})

    def is_lost(self, number: int) -> bool:
        """Whether that slice shows no sign of life any more, as of the last look."""
        return self._presence.is_lost(number)

    def is_time_to_look(self) -> bool:
        """Whether enough time has passed since the last look, measured by what that one took."""
        return time.monotonic() >= self._next_look

    def look(self, also: Callable[[], None]) -> None:
        """See who lives, and call also(), which looks at other things."""
        began = time.monotonic()
        self._presence.look()
        also()
        now = time.monotonic()
        self._next_look = now + max(self.poll_s, (now - began) / _LOOKING_SHARE)

    @property
    def poll_s(self) -> float:
        """Seconds from one look to the next, unless looking takes long."""
        return min(_MAX_POLL_S, self.share.lease_s / _POLLS_PER_LEASE)

    def wait(self, what: str, others: dict[int, str]) -> None:
        """Sleep until it is time to look again, two seconds at most. others: slice -> what it has to do yet.

        Raises SliceWaits if this slice is not to wait.
        """
        if not self.share.waits:
            self._presence.look()
            told = self._describe(others)
            raise SliceWaits(
                f"{what}: slice {self.share.spelled} has done its share, and needs {told}. "
                f"When those are done, run this command again"
            )
        self._tell(what, others)
        time.sleep(min(max(self._next_look - time.monotonic(), 0.01), _MAX_POLL_S))

    def tell_lost(self, what: str, number: int, work: str) -> None:
        """Say, once for each stage, that this slice takes over what a lost one has left."""
        if (what, number) not in self._told_lost:
            self._told_lost.add((what, number))
            self._say(f"{what}: slice {self.share.spelled} takes over {work} from {self._presence.describe(number)}")

    def _tell(self, what: str, others: dict[int, str]) -> None:
        now = time.monotonic()
        if what != self._waits_for:
            self._waits_for, self._tell_at = what, now + _FIRST_TELL_S
        elif now >= self._tell_at:
            self._tell_at = now + _TELL_S
            self._say(f"{what}: slice {self.share.spelled} waits for {self._describe(others)}")

    def _describe(self, others: dict[int, str]) -> str:
        told = [f"{self._presence.describe(number)}: {work}" for number, work in sorted(others.items())[:_MOST_TOLD]]
        more = [f"{len(others) - _MOST_TOLD} more"] if len(others) > _MOST_TOLD else []
        return "; ".join(told + more)


def _describe_end(error: BaseException) -> str:
    """What ended a slice before its time, for others; empty if it will come back, as one that was not to wait."""
    if isinstance(error, SliceWaits):
        return ""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return redact(str(error)).split("\n")[0] or type(error).__name__
