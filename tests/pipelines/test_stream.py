"""The stream of `tokcore watch --streaming`, without an engine: when arrivals pass, what panes commit, exactly once."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing import test_stream as beam_streams
from apache_beam.transforms.window import TimestampedValue
from support.builds import tokcore
from support.streams import begin, land, list_now, list_versions, require_exactly_once
from support.updates import make_texts, write_file

from tokcore.errors import StageError
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.history.make_commit import create_commit as create_any_commit
from tokcore_pipelines.history.update_output import Changes, Update
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines import stream_job
from tokcore_pipelines.run.engines.stream_graph import LATENESS_S, REMEMBERED_S, CommitArrivals, FollowSources
from tokcore_pipelines.run.engines.stream_job import StreamJob, find_kept
from tokcore_pipelines.store import crashpoints
from tokcore_pipelines.watch import stream, stream_steps
from tokcore_pipelines.watch.drift_watch import DriftWatch
from tokcore_pipelines.watch.quarantine import Quarantine
from tokcore_pipelines.watch.stream_notes import locate_look, locate_wish
from tokcore_pipelines.watch.stream_steps import StreamSteps
from tokcore_schemas.arrivals import Arrival, Batch, PaneCommitted
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.config import load_config
from tokcore_schemas.plan import InputFile

# ------------------------------------------------------------------------------------------------------------ the graph

committed: dict[str, list[list[str]]] = defaultdict(list)  # name of a test's steps -> the uris of each pane


@dataclasses.dataclass(frozen=True)
class NoteSteps:
    """Steps that only note what they are given."""

    name: str

    def look(self) -> list[Arrival]:
        return []

    def sign(self, number: int) -> None:
        pass

    def is_over(self) -> bool:
        return True

    def cut(self, arrivals: Iterable[Arrival]) -> Iterator[Batch]:
        for arrival in arrivals:
            yield Batch((arrival,))

    def read(self, batch: Batch) -> list[Batch]:
        return [batch]

    def commit(self, batches: Iterable[Batch]) -> PaneCommitted:
        committed[self.name].append(sorted(f"{a.first} {a.files[0].version}" for b in batches for a in b.arrivals))
        return PaneCommitted(len(committed[self.name]), 1)


def found(uri: str, at: float, version: str = "1") -> TimestampedValue:
    arrival = Arrival((InputFile(uri, 1, version, 0),), ())
    return TimestampedValue((arrival.key, arrival), at)


def run_stream(
    name: str, stream: beam_streams.TestStream, settle_s: float = 2, window_s: float = 10
) -> list[list[str]]:
    """The panes that are committed, in their order."""
    options = PipelineOptions(["--runner=BundleBasedDirectRunner", "--streaming"])
    with beam.Pipeline(options=options) as pipeline:
        arrivals = pipeline | stream | beam.Map(lambda one: one).with_output_types(tuple[str, Arrival])
        _ = arrivals | CommitArrivals(NoteSteps(name), settle_s, 10)
    return committed[name]


def test_an_arrival_passes_once_when_it_has_settled():
    stream = beam_streams.TestStream().advance_watermark_to(-1)
    for at in (0, 1, 2, 3, 4, 5):
        stream = stream.add_elements([found("a", at)]).advance_watermark_to(at)
    panes = run_stream("settles", stream.advance_watermark_to_infinity())
    assert panes == [["a 1"]]


def test_another_version_waits_anew_and_one_that_changes_before_it_settles_does_not_pass():
    stream = beam_streams.TestStream().advance_watermark_to(-1)
    for at, version in ((0, "1"), (1, "2"), (2, "2"), (3, "2"), (4, "2")):
        stream = stream.add_elements([found("a", at, version)]).advance_watermark_to(at)
    assert run_stream("versions", stream.advance_watermark_to_infinity()) == [["a 2"]]


def test_what_is_remembered_of_an_arrival_is_forgotten_in_time():
    """So the state does not grow, and what was not committed passes once more."""
    late = REMEMBERED_S + 10
    stream = beam_streams.TestStream().advance_watermark_to(-1)
    for at in (0, 2, 4, late - 8, late, late + 2, late + 4):
        stream = stream.add_elements([found("a", at)]).advance_watermark_to(at)
    assert run_stream("forgets", stream.advance_watermark_to_infinity()) == [["a 1"], ["a 1"]]


def test_each_window_is_a_commit_and_what_is_late_is_one_more():
    stream = (
        beam_streams.TestStream()
        .advance_watermark_to(0)
        .add_elements([found("a", 1), found("b", 2), found("c", 12)])
        .advance_watermark_to(21)
        .add_elements([found("d", 3)])
        .advance_watermark_to(LATENESS_S + 30)
        .add_elements([found("too late", 4)])
        .advance_watermark_to_infinity()
    )
    assert run_stream("windows", stream, settle_s=0) == [["a 1", "b 1"], ["c 1"], ["d 1"]]


def list_steps(graph: beam_runner_api_pb2.Pipeline) -> list[str]:
    """The names of the steps that hold state, or whose elements pass between workers."""
    return sorted(
        one.unique_name
        for one in graph.components.transforms.values()
        if one.spec.urn in ("beam:transform:group_by_key:v1", "beam:transform:pardo:v1", "beam:transform:impulse:v1")
    )


def test_names_and_coders_of_the_stream_are_frozen():
    """An engine that updates a job in place finds its state by these names; the coders say how it is written."""
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", "--streaming"]))
    _ = pipeline | "FollowSources" >> FollowSources(NoteSteps("graph"), 1, 2, 3)
    graph = pipeline.to_runner_api(return_context=False)
    assert list_steps(graph) == [
        "FollowSources/Begin",
        "FollowSources/CommitArrivals/CommitPane",
        "FollowSources/CommitArrivals/CutBatches",
        "FollowSources/CommitArrivals/GroupPane",
        "FollowSources/CommitArrivals/GroupWindow",
        "FollowSources/CommitArrivals/ReadBatch",
        "FollowSources/CommitArrivals/SettleArrivals",
        "FollowSources/CommitArrivals/Spread/DropKey",
        "FollowSources/CommitArrivals/Spread/GroupByKey",
        "FollowSources/LookForArrivals",
    ]
    unbounded = beam_runner_api_pb2.IsBounded.UNBOUNDED
    bounded = [one for one in graph.components.pcollections.values() if one.is_bounded != unbounded]
    assert len(bounded) == 1, "what begins it"
    payloads = {one.spec.payload for one in graph.components.coders.values() if one.spec.urn == "tokcore:coder:json:v1"}
    assert payloads == {b"Arrival", b"Batch", b"PaneCommitted"}
    assert {"tokcore:coder:range:v1", "tokcore:coder:time:v1"} <= {
        one.spec.urn for one in graph.components.coders.values()
    }
    urns = {one.spec.urn for one in graph.components.coders.values()}
    assert not {one for one in urns if "pickle" in one or "python" in one}, "nothing that a worker would unpickle"
    (settle,) = [one for one in graph.components.transforms.values() if one.unique_name.endswith("/SettleArrivals")]
    pardo = beam_runner_api_pb2.ParDoPayload.FromString(settle.spec.payload)
    assert set(pardo.state_specs) == {"found", "passed"}
    assert {one.time_domain for one in pardo.timer_family_specs.values()} == {beam_runner_api_pb2.TimeDomain.EVENT_TIME}
    assert len(graph.SerializeToString()) < 200_000


JOB = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("paths", "kept"),
    [
        ([], (0, "")),
        (["000001/other"], (1, "")),
        ([f"000001/{JOB}/chk-9/_metadata", f"000001/{JOB}/chk-10/_metadata"], (1, f"000001/{JOB}/chk-10")),
        ([f"000001/{JOB}/chk-9/_metadata", f"000002/{JOB}/chk-10/half"], (2, f"000001/{JOB}/chk-9")),
        ([f"000001/{JOB}/chk-9/_metadata", f"000002/{JOB}/chk-3/_metadata"], (2, f"000002/{JOB}/chk-3")),
        ([f"000001/{JOB}/chk-9/_metadata", "000001/stopped/savepoint-1/_metadata"], (1, "000001/stopped/savepoint-1")),
        ([f"000001/{JOB}/chk-9/_metadata", "000001/drained/savepoint-1/_metadata"], (1, "")),
    ],
)
def test_where_a_job_begins(paths, kept):
    """At the newest checkpoint that is whole; anew after a drain, whose savepoint is at the end of the stream."""
    assert find_kept(paths) == kept


# ------------------------------------------------------------------------------------------------------------ the steps


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a build of three files; copied for each test."""
    folder = tmp_path_factory.mktemp("begun")
    begin(folder)
    return folder


@pytest.fixture
def steps(begun: Path, tmp_path: Path) -> StreamSteps:
    import shutil

    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    return StreamSteps(load_config(str(tmp_path / "build.toml")), str(tmp_path / "out"))


def restart(steps: StreamSteps) -> StreamSteps:
    """The steps as a worker has them that knows nothing yet."""
    stream_steps._updates.clear()
    return dataclasses.replace(steps)


def follow(steps: StreamSteps) -> PaneCommitted | None:
    """Look, read and commit once."""
    return steps.commit(read_all(steps, steps.look()))


def read_all(steps: StreamSteps, arrivals: Iterable[Arrival]) -> list[Batch]:
    return [ready for batch in steps.cut(arrivals) for ready in steps.read(batch, lambda _: None)]


def count_commits(steps: StreamSteps) -> int:
    return read_log(steps.output).newest


def test_what_lands_is_committed_and_looked_for_no_more(steps, tmp_path):
    for name in "defgh":
        land(tmp_path, name)
    batches = list(steps.cut(steps.look()))
    assert [len(batch.arrivals) for batch in batches] == [4, 1], "batch_files = 4"
    assert follow(steps) == PaneCommitted(1, 5)
    assert steps.look() == []
    land(tmp_path, "a", version=2)
    (arrival,) = steps.look()
    assert len(arrival.files) == 3, "the other files of its part are read again"
    assert follow(steps) == PaneCommitted(2, 3)
    require_exactly_once(tmp_path / "build.toml")


def test_a_step_that_is_repeated_doubles_nothing(steps, tmp_path):
    """As an engine repeats it that was restored: read twice, committed twice, by workers that know nothing."""
    land(tmp_path, "d")
    arrivals = steps.look()
    first = read_all(steps, arrivals)
    second = read_all(restart(steps), arrivals)
    assert first == second
    assert restart(steps).commit(first) == PaneCommitted(1, 1)
    assert restart(steps).commit(second) is None
    assert read_all(restart(steps), arrivals) == [], "what the log holds is not read again"
    assert count_commits(steps) == 1


class Died(BaseException):
    """What ends a worker, as a kill does."""


def test_every_point_that_code_reaches_can_be_named():
    room = Path(crashpoints.__file__).parents[1]
    reached = {
        point for path in room.rglob("*.py") for point in re.findall(r'\breach\("([a-z._]+)"\)', path.read_text())
    }
    assert {"stream.read", "plan.listed"} <= reached
    for point in reached:
        crashpoints.make_killer(point, 1)


@pytest.mark.parametrize("point", [*crashpoints.STREAMING_POINTS, "encode.shard", "build.committed"])
def test_a_worker_that_dies_loses_and_doubles_nothing(steps, tmp_path, point):
    """Another one is given the same bundles, and knows nothing; then the engine looks again."""
    for name in "def":
        land(tmp_path, name)
    arrivals = steps.look()

    def die(name: str) -> None:
        if name == point:
            raise Died

    crashpoints.watch(die)
    try:
        with pytest.raises(Died):
            steps.commit(read_all(steps, arrivals))
    finally:
        crashpoints.watch(None)
    steps = restart(steps)
    steps.commit(read_all(steps, arrivals))
    assert steps.look() == []
    require_exactly_once(tmp_path / "build.toml")


def test_an_engine_that_was_restored_may_deal_files_into_other_panes(steps, tmp_path):
    """What was committed before is in the log, so only the rest of such a pane is committed."""
    for name in "de":
        land(tmp_path, name)
    d, e = steps.look()
    both = read_all(steps, [d, e])
    assert steps.commit(read_all(steps, [d])) == PaneCommitted(1, 1)
    assert steps.commit(both) == PaneCommitted(2, 1)
    require_exactly_once(tmp_path / "build.toml")


def test_panes_at_the_same_time(steps, tmp_path):
    """Two workers commit the same and other files at once: each file is in one commit."""
    for name in "def":
        land(tmp_path, name)
    d, e, f = steps.look()
    panes = [read_all(steps, [d, e]), read_all(steps, [e, f]), read_all(steps, [d, e])]
    threads = [threading.Thread(target=steps.commit, args=(pane,)) for pane in panes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    require_exactly_once(tmp_path / "build.toml")


def test_a_commit_of_another_is_followed(steps, tmp_path, monkeypatch):
    """One that comes first, between the look at the log and the commit."""
    for name in "de":
        land(tmp_path, name)
    d, e = steps.look()
    ready = read_all(steps, [d])
    both = read_all(steps, [d, e])
    calls = []

    def come_second(*arguments):
        if not calls:
            calls.append(StreamSteps(steps.config, steps.output))
            monkeypatch.setattr(stream_steps, "create_commit", create_any_commit)
            assert calls[0].commit(both) == PaneCommitted(1, 2)
        return create_any_commit(*arguments)

    monkeypatch.setattr(stream_steps, "create_commit", come_second)
    assert steps.commit(ready) is None
    assert calls
    assert count_commits(steps) == 1


def test_of_two_versions_in_a_pane_one_is_committed_and_the_other_found_again(steps, tmp_path):
    land(tmp_path, "d")
    (old,) = steps.look()
    ready = read_all(steps, [old])
    land(tmp_path, "d", version=2)
    (new,) = steps.look()
    assert old.key != new.key
    assert steps.commit([*ready, *read_all(steps, [new])]).files == 1
    while steps.look():
        follow(steps)
    require_exactly_once(tmp_path / "build.toml")


def test_of_two_versions_in_a_window_the_one_that_is_there_is_committed(steps, tmp_path):
    """As a window has them that was restored with much in it. Both were let through, and neither comes again soon."""
    for number in range(3):
        land(tmp_path, "d", version=number)
        land(tmp_path, "e")
        old = steps.look()
        land(tmp_path, "d", version=number + 10)
        if number == 2:
            land(tmp_path, "a", version=2)
            old += steps.look()
            land(tmp_path, "b", version=2)
        new = steps.look()
        assert {one.key for one in old} != {one.key for one in new}
        steps.commit(read_all(steps, [*old, *new]))
        assert {uri: one for uri, one in list_versions(tmp_path).items() if "/d" in uri or "/e" in uri} == {
            uri: one for uri, one in list_now(tmp_path / "build.toml").items() if "/d" in uri or "/e" in uri
        }
    while steps.look():
        follow(steps)
    require_exactly_once(tmp_path / "build.toml")


def test_a_file_that_changed_since_it_was_listed_is_left_to_its_next_look(steps, tmp_path):
    for name in "de":
        land(tmp_path, name)
    arrivals = steps.look()
    land(tmp_path, "d", version=2)
    assert steps.commit(read_all(steps, arrivals)) == PaneCommitted(1, 1)
    assert Quarantine(steps.output).notes == {}
    assert follow(steps) == PaneCommitted(2, 1)
    require_exactly_once(tmp_path / "build.toml")


def test_a_file_that_fails_is_named_and_stops_no_other(steps, tmp_path, monkeypatch):
    for name in "def":
        land(tmp_path, name)
    make = StreamSteps._make_part

    def fail(self, batch, log):
        if any("en/e.jsonl" in one.first for one in batch.arrivals):
            raise stream_steps.TokError("it is poison")
        return make(self, batch, log)

    monkeypatch.setattr(StreamSteps, "_make_part", fail)
    assert follow(steps) == PaneCommitted(1, 2)
    assert steps.look() == [], "it is left alone"
    quarantine = Quarantine(steps.output)
    quarantine.read()
    assert [note["uri"] for note in quarantine.notes.values()] == ["en/e.jsonl"]
    monkeypatch.undo()
    land(tmp_path, "e", version=2)
    assert follow(steps) == PaneCommitted(2, 1)


def test_a_full_disk_is_no_fault_of_files(steps, tmp_path, monkeypatch):
    land(tmp_path, "d")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StreamSteps, "_make_part", fail)
    with pytest.raises(OSError, match="No space left"):
        follow(steps)
    monkeypatch.undo()
    assert follow(steps) == PaneCommitted(1, 1)


def test_files_that_vanish(steps, tmp_path):
    """With update.vanished = "remove" their documents go; and all of them at once are a store in trouble."""
    removing = dataclasses.replace(
        steps,
        config=dataclasses.replace(steps.config, update=dataclasses.replace(steps.config.update, vanished="remove")),
    )
    (tmp_path / "en/a.jsonl").unlink()
    assert follow(removing) == PaneCommitted(1, 2)
    assert list_versions(tmp_path) == list_now(tmp_path / "build.toml")
    restart(steps)
    for path in [*(tmp_path / "en").iterdir(), *(tmp_path / "mixed").iterdir()]:
        path.unlink()
    assert removing.look() == []


def test_what_was_removed_stays_out(steps, tmp_path):
    """Documents that somebody removes between the reading of a batch and its commit."""
    write_file(tmp_path, "mixed/x.jsonl", make_texts("x", 4), "fr")
    ready = read_all(steps, steps.look())
    done = tokcore("remove", steps.output, "--lang", "fr", "--allow-missing")
    assert done.returncode == 0, done.stderr
    assert steps.commit(ready) is not None
    assert read_log(steps.output).commits[-1].totals.removed == 4


def test_marked_files_and_the_wish_to_end(steps, tmp_path):
    watch = dataclasses.replace(steps.config.watch, marker="*.done")
    marked = dataclasses.replace(steps, config=dataclasses.replace(steps.config, watch=watch))
    land(tmp_path, "d")
    assert marked.look() == []
    (tmp_path / "en/d.jsonl.done").touch()
    assert [one.first for one in marked.look()] == ["en/d.jsonl"]
    assert not steps.is_over()
    Path(locate_wish(steps.output)).parent.mkdir(parents=True, exist_ok=True)
    Path(locate_wish(steps.output)).touch()
    assert steps.is_over()


def test_what_waits_for_a_stream_is_told(steps, tmp_path, monkeypatch):
    """In `tokcore status`, with its driver and without, and in the driver's metrics; drift, too."""
    land(tmp_path, "d")
    config = dataclasses.replace(steps.config, engine=EngineTable(name="prism", shared_filesystem=True))
    driver = stream.Stream(config, RunOptions(), steps.output, StageProgress(level=-1))
    now = [1000.0]
    monkeypatch.setattr(stream_steps.time, "monotonic", lambda: now[0])
    steps.look()
    now[0] += 60
    arrivals = steps.look()
    steps.sign(7)
    driver._require_looks(SimpleNamespace())
    size = (tmp_path / "en/d.jsonl").stat().st_size
    told = {"waiting_files": 1, "waiting_bytes": size, "oldest_waiting_s": 60}
    assert told.items() <= driver._describe().items()
    assert b"tokcore_oldest_waiting_seconds 60.0" in driver.meters.write()
    status = tokcore("status", steps.output)
    assert "1 file with" in status.stdout
    assert "the oldest for 60 s" in status.stdout
    steps.commit(read_all(steps, arrivals))
    driver._drift = DriftWatch(config, steps.output, driver.meters, driver.progress.say)
    driver._tell_commits()
    assert driver._describe()["drift"]["window"]["text_bytes"] > 0
    assert b"tokcore_drift_bytes_per_token" in driver.meters.write()


def test_a_stream_lists_what_comes_after_the_last_name(steps, tmp_path, monkeypatch):
    """With watch.sorted_names, as other watchers do: only some looks list everything."""
    watch = dataclasses.replace(steps.config.watch, sorted_names=True, full_looks=3)
    sorted_steps = dataclasses.replace(steps, config=dataclasses.replace(steps.config, watch=watch))
    stream_steps._updates.clear()
    for _ in range(6):
        sorted_steps.look()
    assert sorted_steps._open().looks.known.num_full == 2


def test_a_job_whose_source_has_stopped_is_given_up(steps, monkeypatch):
    """The next one begins without its checkpoints. One that looks is left alone."""
    config = dataclasses.replace(steps.config, engine=EngineTable(name="prism", shared_filesystem=True))
    driver = stream.Stream(config, RunOptions(), steps.output, StageProgress(level=-1))
    given_up = []
    job = SimpleNamespace(give_up=lambda: given_up.append(True))
    now = [0.0]
    monkeypatch.setattr(stream.time, "monotonic", lambda: now[0])
    for number in range(3):
        steps.sign(number)
        driver._require_looks(job)
        now[0] += 200
    assert not given_up
    now[0] += 4000
    with pytest.raises(StageError, match="has not looked at its sources"):
        driver._require_looks(job)
    assert given_up


def test_a_first_look_leaves_a_sign_before_it_begins(steps, monkeypatch):
    """It may take long, and the driver would take the job for one that does not look."""
    begun = []
    look = Update.look

    def note(update: Update) -> Changes:
        begun.append(Path(locate_look(steps.output)).exists())
        return look(update)

    monkeypatch.setattr(Update, "look", note)
    steps.look()
    assert begun == [True]


class LookingJob:
    """A job that looks whenever it is asked whether it runs, and ends soon after it is told to."""

    def __init__(self, driver: stream.Stream, steps: StreamSteps, number: int, keeps: bool) -> None:
        self.driver, self.steps, self.number, self.keeps_every_look = driver, steps, number, keeps
        self.calls: list[str] = []

    def start(self, _follow) -> None:
        assert not self.steps.is_over(), "it would end at once"
        self.number = 0 if self.calls else self.number
        self.calls.append("start")

    def look(self) -> bool:
        self.steps.sign(self.number)
        self.number += 1
        if self.calls.count("start") == 2 or self.number > 3000:
            self.driver.wishes._over.set()
        return self.calls[-1] != "drain"

    def drain(self) -> bool:
        assert self.steps.is_over()
        self.calls.append("drain")
        return True


@pytest.mark.parametrize(
    ("keeps", "calls"), [(True, ["start", "drain", "start", "drain"]), (False, ["start", "drain"])]
)
def test_a_job_that_keeps_every_look_is_replaced(steps, monkeypatch, keeps, calls):
    """Flink keeps something of each look of a job (beam issue 27648): another takes its place in time."""
    config = dataclasses.replace(steps.config, engine=EngineTable(name="prism", shared_filesystem=True))
    driver = stream.Stream(config, RunOptions(), steps.output, StageProgress(level=-1))
    monkeypatch.setattr(driver.wishes, "wait", lambda _: None)
    monkeypatch.setattr(stream.time, "sleep", lambda _: None)
    ticks = iter(range(10**9))
    monkeypatch.setattr(stream.time, "monotonic", lambda: next(ticks))
    job = LookingJob(driver, steps, stream._MOST_LOOKS - 3 if keeps else 2999, keeps)
    driver._watch(job, None)
    assert job.calls == calls


class IdleJob:
    """Runs num_idle times without a look. The next run looks, and ends after a while."""

    keeps_every_look = True

    def __init__(self, steps: StreamSteps, num_idle: int, at_work_s: float) -> None:
        self.steps, self.num_idle, self.at_work_s = steps, num_idle, at_work_s
        self.calls: list[str] = []

    def start(self, _follow) -> None:
        self.calls.append("start")

    def look(self) -> bool:
        if self.calls.count("start") > self.num_idle:
            self.steps.look()
        else:
            self.calls.append("look")
        return len(self.calls) < 100

    def give_up(self) -> None:
        self.calls.append("give up")


def watch_idle(steps, monkeypatch, job):
    engine = EngineTable(name="flink", shared_filesystem=True, checkpoints="c")
    config = dataclasses.replace(steps.config, engine=engine)
    told = []
    driver = stream.Stream(config, RunOptions(), steps.output, StageProgress(level=-1))
    monkeypatch.setattr(driver.progress, "say", told.append)
    monkeypatch.setattr(driver.wishes, "wait", lambda _: job.calls.append("wait"))
    ticks = iter(range(10**9))
    monkeypatch.setattr(stream.time, "monotonic", lambda: next(ticks))
    driver._watch(job, None)
    return told


def test_a_job_that_does_not_begin_to_look_is_replaced(steps, monkeypatch):
    """Flink has kept the one element that a source begins with."""
    job = IdleJob(steps, 2, stream._FIRST_LOOK_S + 1)
    told = watch_idle(steps, monkeypatch, job)
    assert job.calls[:7] == ["start", "look", "give up", "start", "look", "give up", "start"]
    assert {*job.calls[7:]} == {"wait"}, "this one looks"
    assert sum("another one begins" in text for text in told) == 2


def test_a_look_that_is_being_written_is_not_missed(steps):
    config = dataclasses.replace(steps.config, engine=EngineTable(name="prism", shared_filesystem=True))
    driver = stream.Stream(config, RunOptions(), steps.output, StageProgress(level=-1))
    steps.sign(3)
    for content in (None, b'{"look":', b""):
        if content is not None:
            Path(locate_look(steps.output)).write_bytes(content)
        driver._require_looks(SimpleNamespace())
        assert driver._look["look"] == 3


def test_a_job_has_time_until_its_first_look(steps, monkeypatch):
    job = IdleJob(steps, 1, stream._FIRST_LOOK_S)
    watch_idle(steps, monkeypatch, job)
    assert "give up" not in job.calls


def test_jobs_that_never_look_end_the_stream(steps, monkeypatch):
    with pytest.raises(StageError, match=r"3 jobs in a row\. Look into the log of flink"):
        watch_idle(steps, monkeypatch, IdleJob(steps, 3, stream._FIRST_LOOK_S + 1))


def test_flink_keeps_no_output_of_a_bundle_for_the_next_one(tmp_path):
    """A source begins with a single bundle."""
    assert "--finish_bundle_before_checkpointing" in make_flink_job(tmp_path)._list_checkpoint_options("")


def make_flink_job(folder) -> StreamJob:
    return StreamJob(RunOptions(engine="flink"), str(folder / "out"), str(folder / "checkpoints"), 1.0, print)


def test_another_job_of_a_stream_can_be_submitted(steps, monkeypatch):
    """Of the same sources, by the same driver."""
    submitted = []

    def submit(pipeline, *_):
        submitted.append(pipeline)
        return SimpleNamespace(listen=lambda: None)

    monkeypatch.setattr(stream_job, "submit_job", submit)
    job = StreamJob(RunOptions(engine="prism"), steps.output, "", 1.0, print)
    follow = FollowSources(steps, 1.0, 0.5, 1.0)
    for _ in range(2):
        job._run_pipeline(PipelineOptions([]), follow)
    assert len(submitted) == 2


def test_only_an_own_job_is_known_to_be_new():
    """A job that an earlier driver submitted may be amidst a long look, though no sign of it is left."""
    job = object.__new__(StreamJob)
    job._workers = SimpleNamespace(started_at=time.monotonic() - 5)
    for job._is_own, least in ((True, 5), (False, 0)):
        assert least <= job.at_work_s <= least * 10
    job._is_own, job._workers.started_at = True, None
    assert job.at_work_s == 0


# -------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "its sources do not wait"),
        (("--engine=flink", "--shared-filesystem"), "engine.checkpoints: missing"),
        (("--engine=prism", "--shared-filesystem", "--set=engine.checkpoints=c"), "keeps none"),
        (("--engine=prism", "--shared-filesystem", "--set=watch.notifications=sqs://q"), "hears of no queue"),
        (("--", "--runner=FnApiRunner"), "this runner has no streams"),
    ],
)
def test_engines_without_streams_are_refused(begun, options, said):
    done = tokcore("watch", begun / "build.toml", "--output", begun / "out", "--streaming", *options)
    assert done.returncode == 2
    assert said in done.stderr
