"""The stream of `tokcore watch --streaming`: the same work as an update, as one pipeline that does not end.

    LookForArrivals -> (key, arrival) -> SettleArrivals -> one key -> windows -> GroupWindow -> CutBatches
        -> Spread -> ReadBatch -> GroupPane -> CommitPane

Event time is the time of the look that found an arrival, by the clock of the worker that looks. The watermark follows
the looks; what is being read holds it back. So a window is committed once all that was found in it has been read, and
what comes later all the same makes a pane, and a commit, of its own. All that costs time is before GroupPane, under
names that follow from the content. So a step that an engine repeats finds what it has done, and doubles nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import apache_beam as beam
from apache_beam import coders
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.core import RestrictionProvider, WatermarkEstimatorProvider
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Duration, Timestamp

from tokcore_pipelines.run.engines.across import run_here
from tokcore_pipelines.run.engines.coders import RangeCoder, TimeCoder, import_in_workers
from tokcore_pipelines.run.engines.measure import count_in_metrics
from tokcore_pipelines.run.engines.spread_items import Spread
from tokcore_schemas.arrivals import Arrival, Batch, PaneCommitted

# An arrival that is not committed for so long after it was let through is let through again. So nothing is lost for
# ever, whatever an engine forgets; and what is remembered of arrivals does not grow.
REMEMBERED_S = 3600.0
LATENESS_S = 3600.0
_MOST_LOOKS = 1 << 60
_ONE_KEY = "output"


class Steps(Protocol):
    """What the steps of the stream do; tokcore_pipelines.watch.stream_steps has them."""

    def look(self) -> Iterable[Arrival]:
        """All that waits."""

    def sign(self, number: int, /) -> None:
        """Leave the number of a look, for the driver."""

    def is_over(self) -> bool:
        """Whether the stream was told to end."""

    def cut(self, arrivals: Iterable[Arrival], /) -> Iterable[Batch]:
        """Batches of these arrivals."""

    def read(self, batch: Batch, /) -> Iterable[Batch]:
        """What of a batch is ready to be committed."""

    def commit(self, batches: Iterable[Batch], /) -> PaneCommitted | None:
        """Commit these batches at once; None if all of them are."""


@dataclasses.dataclass
class FollowSources(beam.PTransform):
    """PBegin -> PCollection[PaneCommitted]: looks for arrivals again and again, and commits them."""

    steps: Steps
    poll_s: float  # from one look to the next
    settle_s: float  # so long an arrival must look the same
    window_s: float  # what is found in a window is one commit

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[PaneCommitted]:
        import_in_workers(begin.pipeline)
        look = _Look(self.steps, self.poll_s)
        arrivals = (
            begin
            | "Begin" >> beam.Impulse()
            | "LookForArrivals" >> beam.ParDo(look).with_output_types(tuple[str, Arrival])
        )
        arrivals.is_bounded = False  # Beam does not see it from the step
        return arrivals | "CommitArrivals" >> CommitArrivals(self.steps, self.settle_s, self.window_s)


@dataclasses.dataclass
class CommitArrivals(beam.PTransform):
    """PCollection[tuple[key, Arrival]], each found again and again -> PCollection[PaneCommitted]."""

    steps: Steps
    settle_s: float
    window_s: float

    def expand(self, arrivals: beam.PCollection[tuple[str, Arrival]]) -> beam.PCollection[PaneCommitted]:
        settle = _SettleArrival(self.settle_s)
        return (
            arrivals
            | "SettleArrivals" >> beam.ParDo(settle).with_output_types(tuple[str, Arrival])
            | "IntoWindows"
            >> beam.WindowInto(
                window.FixedWindows(max(self.window_s, 1)),
                trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
                allowed_lateness=LATENESS_S,
            )
            | "GroupWindow" >> beam.GroupByKey()
            | "CutBatches" >> beam.ParDo(_CutBatches(self.steps)).with_output_types(tuple[str, Batch])
            | "Spread" >> Spread(Batch)
            | "ReadBatch" >> beam.ParDo(_ReadBatch(self.steps)).with_output_types(tuple[str, Batch])
            | "GroupPane" >> beam.GroupByKey()
            | "CommitPane" >> beam.ParDo(_CommitPane(self.steps)).with_output_types(PaneCommitted)
        )


class _Watermark(WatermarkEstimatorProvider):
    """The watermark that a step says itself; None at first."""

    def initial_estimator_state(self, _element: bytes, _restriction: OffsetRange) -> None:
        return None

    def create_watermark_estimator(self, state: Timestamp | None) -> ManualWatermarkEstimator:
        return ManualWatermarkEstimator(state)

    def estimator_state_coder(self) -> coders.Coder:
        return TimeCoder()


class _Looks(RestrictionProvider):
    """The looks of a stream by number; a drain, which truncates them, leaves none."""

    def initial_restriction(self, _element: bytes) -> OffsetRange:
        return OffsetRange(0, _MOST_LOOKS)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def split(self, _element: bytes, restriction: OffsetRange) -> Iterator[OffsetRange]:
        yield restriction

    def restriction_size(self, _element: bytes, _restriction: OffsetRange) -> int:
        return 1

    def restriction_coder(self) -> coders.Coder:
        return RangeCoder()

    def truncate(self, _element: bytes, _restriction: OffsetRange) -> None:
        return None


_LOOKS = beam.DoFn.RestrictionParam(_Looks())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(_Watermark())


@beam.DoFn.unbounded_per_element()
class _Look(beam.DoFn):
    """One look at a time; the engine calls again after poll_s, in whole seconds, with the number of the next one."""

    def __init__(self, steps: Steps, poll_s: float) -> None:
        self._steps = steps
        self._pause_s = math.ceil(poll_s)  # Flink leaves out fractions, and would look without a pause

    def process(
        self,
        _begin: bytes,
        looks: Any = _LOOKS,
        watermark: Any = _WATERMARK,
    ) -> Iterator[window.TimestampedValue]:
        number = looks.current_restriction().start
        if run_here(self._steps.is_over):
            looks.try_claim(_MOST_LOOKS - 1)  # the last one there is
            return
        if not looks.try_claim(number):
            return
        found = list(run_here(self._steps.look))
        run_here(lambda: self._steps.sign(number))
        now = Timestamp.now()
        before = watermark.current_watermark()
        if before is not None and before > now:
            now = before  # a clock that was put back
        for arrival in found:
            yield window.TimestampedValue((arrival.key, arrival), now)
        count_in_metrics("Look", {"looks": 1, "found": len(found)})
        watermark.set_watermark(now)
        looks.defer_remainder(Duration(self._pause_s))


_FOUND = beam.DoFn.StateParam(userstate.ReadModifyWriteStateSpec("found", TimeCoder()))  # at first
_PASSED = beam.DoFn.StateParam(userstate.ReadModifyWriteStateSpec("passed", coders.BooleanCoder()))
# In event time: a timer of processing time would hold back the watermark.
_FORGET_SPEC = userstate.TimerSpec("forget", TimeDomain.WATERMARK)
_FORGET = beam.DoFn.TimerParam(_FORGET_SPEC)


class _SettleArrival(beam.DoFn):
    """Lets an arrival through once, when it has been found unchanged for settle_s; its key holds its versions."""

    def __init__(self, settle_s: float) -> None:
        self._settle_s = settle_s

    def process(
        self,
        keyed: tuple[str, Arrival],
        timestamp: Any = beam.DoFn.TimestampParam,
        found: Any = _FOUND,
        passed: Any = _PASSED,
        forget: Any = _FORGET,
    ) -> Iterator[tuple[str, Arrival]]:
        first = found.read()
        if first is None:
            found.write(first := timestamp)
            forget.set(timestamp + Duration(self._settle_s + REMEMBERED_S))
        if passed.read() or timestamp - first < Duration(self._settle_s):
            return
        passed.write(True)
        forget.set(timestamp + Duration(REMEMBERED_S))
        yield _ONE_KEY, keyed[1]

    @userstate.on_timer(_FORGET_SPEC)
    def forget(self, found: Any = _FOUND, passed: Any = _PASSED) -> Iterable[Any]:
        """Begin anew with an arrival that is found once more."""
        found.clear()
        passed.clear()
        return ()


class _CutBatches(beam.DoFn):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def process(self, group: tuple[str, Iterable[Arrival]]) -> Iterator[tuple[str, Batch]]:
        for batch in self._steps.cut(group[1]):  # a pane may be empty: an engine that was restored fires such
            yield batch.arrivals[0].key, batch


class _ReadBatch(beam.DoFn):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def process(self, batch: Batch) -> Iterator[tuple[str, Batch]]:
        for ready in run_here(lambda: list(self._steps.read(batch))):
            count_in_metrics("ReadBatch", {"batches": 1, "files": sum(len(one.files) for one in ready.arrivals)})
            yield _ONE_KEY, ready


class _CommitPane(beam.DoFn):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def process(self, group: tuple[str, Iterable[Batch]]) -> Iterator[PaneCommitted]:
        batches = list(group[1])
        committed = run_here(lambda: self._steps.commit(batches))
        if committed is not None:
            count_in_metrics("CommitPane", {"commits": 1})
            yield committed
