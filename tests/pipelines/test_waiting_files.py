"""Which files make a batch: settled ones, the oldest first, within limits; those that fail are told apart by halves."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tokcore_pipelines.watch.waiting_files import MOST_NEW, Waiting, WaitingFiles
from tokcore_schemas.build_tables import WatchTable


def new(size: int = 10, version: str = "1", part: str = "") -> Waiting:
    return Waiting(size, version, part)


def queue(**settings) -> WaitingFiles:
    return WaitingFiles(WatchTable(**{"settle_seconds": Decimal(5), "batch_seconds": Decimal(30), **settings}))


def test_a_file_is_taken_once_it_has_looked_the_same_for_long_enough():
    files = queue(batch_seconds=Decimal(0))
    files.observe({"a": new()}, 0)
    assert files.choose_batch(4.9) == []
    files.observe({"a": new(20, "2")}, 5)  # it has grown
    assert files.choose_batch(9.9) == []
    assert files.choose_batch(10) == ["a"]


def test_a_batch_is_due_when_it_is_full_or_old():
    files = queue(batch_bytes=30, batch_files=4)
    files.observe({"a": new(), "b": new()}, 0)
    assert files.choose_batch(29) == []
    assert files.choose_batch(29, hurry=True) == ["a", "b"]
    assert files.choose_batch(30) == ["a", "b"]
    files.observe({"a": new(), "b": new(), "c": new()}, 10)
    assert files.choose_batch(14) == []  # c has not settled
    assert files.choose_batch(15) == ["a", "b", "c"]
    files.observe({name: new(0) for name in "abcdefgh"}, 100)
    assert files.choose_batch(105) == ["a", "b", "c", "d"]  # a burst is cut


def test_a_file_without_its_marker_waits():
    files = queue()
    files.observe({"a": new(), "b": new()}, 0, marked={"b"})
    assert files.choose_batch(40) == ["b"]


def test_changes_of_one_part_are_in_one_batch():
    files = queue(batch_files=2)
    changes = {"a": new(part="p"), "b": new(part="p"), "c": new(part="p"), "d": new()}
    files.observe(changes, 0)
    assert files.choose_batch(40) == ["a", "b", "c"]  # more than a batch, since the part is read again as a whole
    files.observe({**changes, "b": new(version="2", part="p")}, 40)
    assert files.choose_batch(41) == ["d"]
    assert files.choose_batch(41, without={"b"}) == ["a", "c"]


def test_the_file_to_blame_is_found_and_the_others_go_on():
    """The bad one of 50 is alone after log2(50) failures or so, and spends its tries; each other file is in a batch."""
    files = queue(tries=3, batch_seconds=Decimal(0), settle_seconds=Decimal(0), poll_seconds=Decimal(1))
    waiting = {f"{i:02d}": new() for i in range(50)}
    now, failures, quarantined = 0.0, 0, set()
    while set(waiting) - quarantined:
        now += 10
        files.observe(waiting, now)
        batch = files.choose_batch(now, quarantined)
        if "17" in batch:
            failures += 1
            quarantined |= {*files.fail(batch, now)}
        else:
            assert batch
            waiting = {uri: one for uri, one in waiting.items() if uri not in batch}
    assert quarantined == {"17"}
    assert failures <= 10


def test_a_file_that_failed_waits_longer_each_time_and_a_new_version_does_not():
    files = queue(tries=10, batch_seconds=Decimal(0), settle_seconds=Decimal(0), poll_seconds=Decimal(1))
    files.observe({"a": new()}, 0)
    for pause in (1, 2, 4):
        now = pause * 100
        assert files.fail(["a"], now) == []
        assert files.choose_batch(now + pause - 0.1) == []
        assert files.choose_batch(now + pause) == ["a"]
    files.fail(["a"], 1000)
    files.observe({"a": new(version="2")}, 1000)
    assert files.choose_batch(1000) == ["a"]


changes = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Waiting, st.integers(0, 50), st.sampled_from("12"), st.sampled_from(["", "p", "q"])),
)


@given(st.lists(st.tuples(changes, st.floats(0, 20), st.booleans(), st.sets(st.sampled_from("abc"))), max_size=30))
def test_what_is_chosen_waits_is_ready_and_comes_once(rounds):
    files = queue(batch_bytes=100, batch_files=5, tries=2)
    now, since = 0.0, {}
    for waiting, pause, fails, without in rounds:
        now += pause
        since = {
            uri: (one, since[uri][1]) if uri in since and since[uri][0] == one else (one, now)
            for uri, one in waiting.items()
        }
        files.observe(waiting, now)
        batch = files.choose_batch(now, without)
        assert len(set(batch)) == len(batch)
        assert set(batch) <= set(waiting) - without
        assert all(now - since[uri][1] >= 5 for uri in batch)
        for part in {waiting[uri].part for uri in batch} - {""}:  # whole parts
            assert {uri for uri in waiting if waiting[uri].part == part} - without <= set(batch)
        if fails and batch:
            assert set(files.fail(batch, now)) <= set(batch)


def test_batches_are_smaller_while_files_change_as_they_are_read():
    files = queue(batch_files=64)
    files.observe({f"{i:03d}": new() for i in range(200)}, 0)
    sizes = []
    for num_changed in (8, 1, 1):
        sizes.append(len(files.choose_batch(40)))
        files.shrink(sizes[-1], num_changed)
    for _ in range(8):
        sizes.append(len(files.choose_batch(40)))
        files.note_committed(sizes[-1], 1.0)
    assert sizes[:9] == [64, 16, 11, 7, 8, 10, 15, 30, 64]
    assert sizes[-1] == 64


def test_the_rest_of_a_failed_batch_comes_next_and_alone():
    files = queue(batch_files=4)
    names = {"a": new(), "b": new(part="parts/1"), "c": new(part="parts/1"), "d": new(part="parts/2"), "e": new()}
    files.observe(names, 0)
    assert files.choose_batch(40) == ["a", "b", "c", "d"]
    files.shrink(4, 1)
    files.put_first(["b", "c", "d"])
    files.observe(names | {"b": new(version="3", part="parts/1")}, 41)  # so the part of b and c has to wait
    assert files.choose_batch(42) == ["d"]
    assert files.choose_batch(42) == ["a", "d"]  # once
    files.put_first(["b"])
    assert files.choose_batch(43) == ["a", "d"]  # b has not settled


def test_a_watcher_begins_with_small_batches():
    files = queue(batch_files=2000)
    files.observe({f"{i:04d}": new(0) for i in range(5000)}, 0)
    sizes = []
    for _ in range(4):
        sizes.append(len(files.choose_batch(40)))
        files.note_committed(sizes[-1], 1.0)
    assert sizes == [256, 512, 1536, 2000]


def test_batches_that_take_long_are_followed_by_smaller_ones():
    files = queue(batch_files=2000, batch_seconds=20)
    files.observe({f"{i:04d}": new(0) for i in range(5000)}, 0)
    sizes = []
    for seconds in (10, 40, 40, 80, 80, 20, 0):  # twice batch_seconds is long
        sizes.append(len(files.choose_batch(40)))
        files.note_committed(sizes[-1], seconds)
    assert sizes == [256, 512, 512, 512, 256, 128, 256]
    files = queue(batch_files=2000, batch_seconds=1)
    files.note_committed(200, 40)  # and so are 20 s
    files.observe({f"{i:04d}": new(0) for i in range(5000)}, 0)
    assert len(files.choose_batch(40)) == 100


def test_a_burst_waits_in_the_store():
    """100,000 files: so many are known of as there is room for, and those that are known of go first."""
    files = queue()
    burst = [f"{i:06d}" for i in range(100_000)]
    files.observe({uri: new() for uri in burst[50_000:50_100]}, 0)
    chosen = files.choose_new(burst, without={burst[0]})
    assert len(chosen) == MOST_NEW + 1
    assert {burst[0], *burst[1:1000], *burst[50_000:50_100]} <= {*chosen}
    files.observe({uri: new() for uri in chosen}, 0)
    later = burst[MOST_NEW // 2 :]  # the others are done
    assert {*chosen} & {*later} <= {*files.choose_new(later)}
    assert len(files.choose_new(later)) == MOST_NEW
