"""Two processes that create the same objects: each object has one creator, and a refused one can tell.

With the libraries that are installed; oldest.py races with the oldest that pyproject.toml allows.
"""

from __future__ import annotations

import subprocess
import sys
import time

from stores.proxy import Faults
from stores.servers import ROOT, Store

RACES = 200

RACER = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from tokcore_pipelines.store.storage import create_exclusive, read_bytes
folder, name, races, start = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
create_exclusive(f"{folder}/warm-{name}", b"", folder)  # the library is loaded, the connection is open
time.sleep(max(0, start - time.time()))
with ThreadPoolExecutor(8) as threads:
    won = list(threads.map(lambda race: create_exclusive(f"{folder}/{race}", name.encode(), folder), range(races)))
    owners = list(threads.map(lambda race: read_bytes(f"{folder}/{race}").decode(), range(races)))
for one, owner in zip(won, owners):
    print(int(one), owner)
"""

PROBE = """
import sys
from tokcore_pipelines.store.storage import require_exclusive_creation
from tokcore.errors import ConfigError
try:
    require_exclusive_creation(sys.argv[1])
except ConfigError as error:
    print(error)
"""


def race(store: Store, races: int, code: str = RACER, **variables: str) -> list[list[tuple[bool, str]]]:
    """Of each racer, for each object: whether it created it, and whose it then was."""
    folder, start = store.fresh(), time.time() + 5
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, folder, name, str(races), str(start)],
            env={**store.variables(), **variables},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "other")
    ]
    results = []
    for racer in racers:
        said, trouble = racer.communicate(timeout=200)
        assert racer.returncode == 0, trouble
        lines = [line.split() for line in said.splitlines()]
        results.append([(won == "1", owner) for won, owner in lines])
    return results


def assert_one_winner_each(results: list[list[tuple[bool, str]]], races: int) -> None:
    one, other = results
    assert len(one) == len(other) == races
    for (one_won, owner), (other_won, same_owner) in zip(one, other, strict=True):
        assert one_won != other_won
        assert owner == same_owner == ("one" if one_won else "other")


def test_one_creator_wins(store: Store) -> None:
    assert_one_winner_each(race(store, RACES), RACES)
    lost = [r for r in store.proxy.requests if r.creates_only and r.status in (409, 412)]
    assert len(lost) >= RACES
    assert {r.key.rpartition("/")[2] for r in lost} >= {str(number) for number in range(RACES)}


def test_a_conflict_is_no_defeat(s3: Store) -> None:
    """S3 answers 409 while another creation is under way, which may yet fail: the name is asked for again."""
    s3.proxy.faults = Faults({"conflict": 0.4}, concerns=lambda operation, key: operation == "PutObject")
    assert_one_winner_each(race(s3, 50), 50)
    assert s3.proxy.faults.fired["conflict"] > 10


def test_an_answer_that_is_lost_is_no_defeat(s3: Store) -> None:
    """The creation was done, but the connection was cut: who made it finds its own bytes there.

    Where aiohttp has asked again by itself, no racer is told that it won; callers tell by the bytes.
    """
    s3.proxy.faults = Faults({"cut_after": 0.4}, concerns=lambda operation, key: operation == "PutObject")
    one, other = race(s3, 50)
    for (one_won, owner), (other_won, same_owner) in zip(one, other, strict=True):
        assert owner == same_owner
        assert (one_won, other_won) in ((owner == "one", owner == "other"), (False, False))
    assert sum(won for won, _ in one + other) > 25
    assert s3.proxy.faults.fired["cut_after"] > 10


def test_without_the_condition_both_would_win(s3: Store) -> None:
    """That the races above can be lost."""
    s3.proxy.ignores_conditions = True
    one, other = race(s3, 20)
    assert all(won for won, _ in one + other)


def test_a_store_that_ignores_the_condition_is_refused(s3: Store) -> None:
    s3.proxy.ignores_conditions = True
    url = s3.fresh()
    done = subprocess.run(
        [sys.executable, "-c", PROBE, url], env=s3.variables(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert url in done.stdout
    assert "creates an object although its name is taken" in done.stdout
