"""Builds that several hosts make together: equal bytes, no matter which of them wait, die, stop or come back."""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.builds import SETTINGS, build_file, run, run_once, small_corpus, tokcore, tree
from support.slices import SliceProcesses

from tokcore_pipelines.local.run_options import Slice
from tokcore_pipelines.run.slices.claims import Claims
from tokcore_pipelines.run.slices.presence import Presence
from tokcore_pipelines.store import signs_of_life
from tokcore_pipelines.store.attempts import Attempts

EVERY_PASS = """
[plan]
range_bytes = 1500
[learn]
vocab_size = [320, 350]
[shards]
target_tokens = 300
[shuffle]
seed = 7
[pack]
length = 64
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with two build files, and a local build of the first in `local`."""
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    run_once(build_file(folder, settings=SETTINGS.replace("4000", "1500")), folder / "local")
    build_file(folder, settings=EVERY_PASS, name="every-pass.toml")
    return folder


def check(output: Path, expected: Path) -> None:
    """The bytes are those of the local build, and nothing else is left."""
    assert tree(output) == tree(expected)
    assert not (output / "_attempts").exists()


# ----------------------------------------------------------------------------------------------------------- all alive


def test_all_passes_are_shared(corpus, tmp_path):
    """With a shuffle, packed rows and several vocabulary sizes, each of three slices counts and encodes its share."""
    run(corpus / "every-pass.toml", tmp_path / "local")
    with SliceProcesses(corpus / "every-pass.toml", tmp_path / "out", 3, "--json", lease=60) as slices:
        hosts = [slices.start(number) for number in (1, 2, 3)]
        ended = [host.wait() for host in hosts]
    assert [code for code, _, _ in ended] == [0, 0, 0], ended
    check(tmp_path / "out", tmp_path / "local")
    told = [json.loads(out) for _, out, _ in ended]
    assert {one["root"] for one in told} == {json.loads((tmp_path / "local/manifest.json").read_bytes())["root"]}
    num_items = json.loads((tmp_path / "out/plan/manifest.json").read_bytes())["totals"]["items"]
    measured = [one["metrics"]["count"]["items"] for one in told if one["metrics"].get("count")]
    assert sum(measured) == num_items
    assert len(measured) == 3
    assert max(measured) - min(measured) <= 1


def test_a_slice_that_is_not_to_wait_names_the_others(corpus, tmp_path):
    """Two slices, run in turn, finish the build. Each does its own share, and takes over nothing of the other."""
    with SliceProcesses(corpus / "build.toml", tmp_path / "out", 2, "--no-wait") as slices:
        code, _, err = slices.start(1).wait()
        assert code == 4
        assert "count: slice 1/2 has done its share, and needs slice 2/2 (not seen yet" in err
        code, _, err = slices.start(2).wait()
        assert code == 4
        assert "encode: slice 2/2 has done its share, and needs slice 1/2 (host " in err
        assert ", has done its share and did not wait: run its command again)" in err
        assert (tmp_path / "out/tokenizer/manifest.json").exists()
        assert slices.start(1).wait()[0] == 0
    check(tmp_path / "out", corpus / "local")


# ------------------------------------------------------------------------------------------------- lost, late, stopped


def test_what_a_lost_slice_had_to_do_is_taken_over(corpus, tmp_path):
    """One is killed at once, one never starts: the third does all, after a lease."""
    with SliceProcesses(corpus / "build.toml", tmp_path / "out", 3) as slices:
        lost = slices.start(2)
        slices.wait_for_sign(2)
        lost.send(signal.SIGKILL)
        code, _, err = slices.start(1).wait()
    assert code == 0, err
    assert "count: slice 1/3 takes over" in err
    assert "from slice 2/3 (host " in err
    assert "from slice 3/3 (not seen yet: do all hosts share the output?)" in err
    check(tmp_path / "out", corpus / "local")


@pytest.mark.parametrize("point", ["learn.begin", "stage.worked", "stage.published:3", "build.cleaning"])
def test_a_turn_is_taken_over(corpus, tmp_path, point):
    """The slice that checks, learns and commits is killed at that point: its claim is there, and another goes on."""
    with SliceProcesses(corpus / "build.toml", tmp_path / "out", 2, lease=1) as slices:
        code, _, err = slices.start(1, TOKCORE_CRASH=point).wait()
        assert code == -signal.SIGKILL, err
        claimed = [name for name in slices.list_working() if "/claims/turn.1" in name]
        code, _, err = slices.start(2).wait()
    assert code == 0, err
    if point != "build.cleaning":
        assert claimed
        assert "takes over its turn from slice 1/2" in err
    check(tmp_path / "out", corpus / "local")


def test_a_slice_that_is_started_again_goes_on_with_its_claims(corpus, tmp_path):
    with SliceProcesses(corpus / "build.toml", tmp_path / "out", 1, "--no-wait") as slices:
        for point in ("count.table", "learn.begin", "encode.item"):
            code, _, err = slices.start(1, TOKCORE_CRASH=point).wait()
            assert code in (3, -signal.SIGKILL), err
        assert slices.start(1).wait()[0] == 0
    check(tmp_path / "out", corpus / "local")


def test_a_slice_that_was_overtaken_does_no_harm(corpus, tmp_path):
    """It stands still for longer than a lease, as a host that swaps, and then does what others have done already."""
    with SliceProcesses(corpus / "build.toml", tmp_path / "out", 2, lease=1) as slices:
        still = slices.start(1)
        slices.wait_until(lambda: any("/done/counted-" in name for name in slices.list_working()))
        still.send(signal.SIGSTOP)
        code, _, err = slices.start(2).wait()
        assert code == 0, err
        still.send(signal.SIGCONT)
        code, _, err = still.wait()
        assert code == 0, err
    check(tmp_path / "out", corpus / "local")


def test_a_slice_that_is_terminated_says_so(corpus, tmp_path):
    """Others need not wait for the lease, and are told why."""
    began = time.monotonic()
    with SliceProcesses(corpus / "build.toml", tmp_path / "out", 2, lease=90) as slices:
        ended = slices.start(2)
        slices.wait_for_sign(2)
        ended.send(signal.SIGTERM)
        code, _, err = ended.wait()
        assert code == 143, err
        code, _, err = slices.start(1).wait()
    assert code == 0, err
    assert ", ended: interrupted)" in err
    assert time.monotonic() - began < 60
    check(tmp_path / "out", corpus / "local")


def test_an_error_is_told_to_others(corpus, tmp_path):
    """Each slice that finds it ends with the same line, and leaves nothing that a corrected build file trips over."""
    build = build_file(corpus, settings="[learn]\nvocab_size = 30000\n", name="too-large.toml")
    with SliceProcesses(build, tmp_path / "out", 2, lease=30) as slices:
        ended = [one.wait() for one in [slices.start(1), slices.start(2)]]
    assert [code for code, _, _ in ended] == [3, 3]
    assert all("learn.vocab_size = 30000: the counts give only" in err for _, _, err in ended)
    assert sum("takes over its turn from slice" in err and "ended: " in err for _, _, err in ended) == 1


# --------------------------------------------------------------------------------------------------- signs and claims


def test_no_clock_of_another_host_is_read(tmp_path, monkeypatch):
    """A slice is lost once its sign has not changed for a lease here, whatever the dates of files say."""
    now = [1000.0]
    monkeypatch.setattr(signs_of_life.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(signs_of_life.time, "time", lambda: pytest.fail("a wall clock was read"), raising=False)
    watching = Presence(str(tmp_path), Slice(1, 3, lease_s=10))
    living = Presence(str(tmp_path), Slice(2, 3, lease_s=10))
    living.beat()
    watching.look()
    for _ in range(5):
        now[0] += 6
        living.beat()
        watching.look()
        assert not watching.is_lost(2)
    assert watching.is_lost(3), "it never came"
    now[0] += 11
    watching.look()
    assert watching.is_lost(2)
    living.beat()
    watching.look()
    assert not watching.is_lost(2), "it is back"
    assert not watching.is_lost(1), "oneself never is"


def test_each_claim_has_one_holder(tmp_path):
    """Of many that want a generation, one gets it; the others see who."""
    attempts = Attempts(str(tmp_path), "counts", "0" * 64)
    for _ in range(3):
        claims = [Claims(attempts, Slice(number, 8)) for number in range(1, 9)]
        for one in claims:
            one.look()
        ready = threading.Barrier(8)

        def take(one: Claims, ready: threading.Barrier = ready) -> bool:
            ready.wait()
            return one.take("merged-en-000")

        with ThreadPoolExecutor(8) as threads:
            won = list(threads.map(take, claims))
        assert sum(won) == 1
        assert {one.find_holder("merged-en-000") for one in claims} == {won.index(True) + 1}
    assert len(list((tmp_path / "_attempts" / "counts-0000000000000000" / "claims").iterdir())) == 3


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--slice=0/3",), "--slice 0/3: expected I/N"),
        (("--slice=4/3",), "--slice 4/3: expected I/N"),
        (("--slice=first",), "--slice first: expected I/N"),
        (("--slice=1/3", "--lease=0"), "--lease 0: must be at least 1 second"),
        (("--slice=1/3", "--replace=learn"), "--replace learn: hosts with slices must not remove"),
        (("--slice=1/3", "--engine=prism", "--shared-filesystem"), '--slice: engine.name = "prism" has hosts'),
        (("--slice=1/3", "--", "--runner=FlinkRunner"), "--slice: hosts with slices need no engine"),
        (("--no-wait",), "--no-wait: is for --slice I/N"),
    ],
)
def test_options_that_do_not_fit(corpus, tmp_path, options, told):
    done = tokcore("build", corpus / "build.toml", "--output", tmp_path / "out", *options)
    assert done.returncode == 2
    assert told in done.stderr
