"""A watcher over days, played in minutes: PYTHONPATH=tests python -m stores.soak

Files land in a bucket on a server of the loopback device: new ones, the same ones again, and other versions of earlier
ones. Two watchers follow, each killed now and then and started again, while the store refuses a share of all requests.
At the end each file must be held once, in its last version, and all of it equal to a batch build of the files. A reader
follows the output, is killed as often and goes on: it must have got each document of each commit once.

    [--files 10000] [--seconds 1200] [--kills 20] [--refused 0.05] [--again 0.05] [--overwritten 0.2] [--seed 0]

Fails too if the memory of a watcher, or of one of its workers, grows by 1 MB or more for 1,000 files, or if the 99th
percentile of lag is above settle_seconds and the time of two batches.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import posixpath
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from stores.files import open_system, put
from stores.proxy import Faults
from stores.servers import Store, start_s3
from support.builds import build_file, jsonl, run, texts, tokcore, write

from tokcore import Tokenizer

POLL_S, SETTLE_S, BATCH_S, LEASE_S = 4.0, 1.0, 4.0, 6.0
_KILLED_SHARE = 0.6  # of the time in which files land; in the rest memory can show how it grows
_LONGEST_SILENCE_S = 600  # without a commit, while files wait
BUILD = f"""
version = 1
[build]
output = "out"
max_rejected = 1
[[source]]
lang = "en"
files = "en/**/*.jsonl"
[[source]]
lang_field = "lang"
files = "mixed/**/*.jsonl"
[plan]
range_bytes = 131072  # about 100 of these tiny files, which are read again when one of them changes
[shards]
target_tokens = 100000
[update]
vanished = "keep"
[watch]
poll_seconds = {POLL_S}
settle_seconds = {SETTLE_S}
batch_seconds = {BATCH_S}
lease_seconds = {LEASE_S}
listen = ""
"""


@dataclasses.dataclass(frozen=True)
class Options:
    files: int = 10_000
    seconds: float = 1200  # in which they land
    kills: int = 20
    refused: float = 0.05  # share of requests
    again: float = 0.05  # of files, after each of which an earlier one lands again
    overwritten: float = 0.2  # of these, which are other versions
    seed: int = 0


@dataclasses.dataclass
class Figures:
    """What a soak measured."""

    files: int  # at its end
    landings: int  # files that landed, other versions included
    commits: int
    kills: int
    refused: int  # requests
    p50_lag_s: float
    p99_lag_s: float
    longest_batch_s: float  # from one commit to the next, while files waited
    growth: float | None  # MB of one process's memory for 1,000 files that landed meanwhile; None: too few to tell
    followed: int  # documents that a reader got, which followed the output
    seconds: float


class Soak:
    """The bucket, those who write to it, and the watchers."""

    def __init__(self, store: Store, folder: Path, options: Options) -> None:
        self.store = store
        self.options = options
        self.chance = random.Random(options.seed)
        self.root = store.fresh()
        self.landed: dict[str, list[tuple[float, bytes]]] = {}  # name -> its versions, and when each came
        self.committed: list[float] = []  # when commit 1, 2 ... was seen
        self.memory: dict[int, list[tuple[int, float]]] = {}  # of each process: (landings, MB)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.num_kills = self.num_landings = 0
        self.errors: list[BaseException] = []
        self.followed: list[Any] = []  # what the reader that follows printed
        self._plans: dict[str, list[Any]] = {}  # of parts, which never change
        self._folder = folder
        self._system = open_system(store)
        self._is_over = threading.Event()

    def run(self) -> Figures:
        """Play it. Raises AssertionError if a file is lost, doubled or of an old version."""
        began = time.monotonic()
        self._begin()
        self.store.proxy.faults = Faults({"slow_down": self.options.refused}, seed=self.options.seed)
        with self._watched():
            self._land_files()
            self._wait_for_the_last_commit()
        refused = self.store.proxy.faults.fired.total()
        self.store.proxy.reset()
        lags = self._check()
        return Figures(
            files=len(self.landed),
            landings=self.num_landings,
            commits=len(self.committed),
            kills=self.num_kills,
            refused=refused,
            p50_lag_s=round(lags[len(lags) // 2], 2),
            p99_lag_s=round(lags[len(lags) * 99 // 100], 2),
            longest_batch_s=round(max((b - a for a, b in itertools.pairwise(self.committed)), default=0.0), 2),
            growth=self._measure_growth(),
            followed=len(self.followed),
            seconds=round(time.monotonic() - began, 1),
        )

    # ----------------------------------------------------------------------------------------------------------- setup

    def _begin(self) -> None:
        """A tokenizer, and an output that has no documents yet."""
        corpus = self._folder / "learned"
        write(corpus / "en.jsonl", jsonl([{"text": text} for text in texts("en", 200, 1)]))
        source = '\n[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
        self.tokenizer = corpus / "out"
        run(build_file(corpus, source, "[learn]\nvocab_size = 300\n"), self.tokenizer)
        put(self.store, f"{self.root}/build.toml", BUILD.encode())

    def _start(self, number: int) -> None:
        with (self._folder / f"watcher-{number}.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tokcore_pipelines.cli", "watch", f"{self.root}/build.toml"),
                    *("--tokenizer", self.tokenizer, "--count", "--workers", "2"),
                ],
                env=self.store.variables(),
                stderr=log,
            )
        self.processes[number : number + 1] = [process]

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Two watchers, of which one is killed now and then; commits are noted as they appear."""
        threads = [
            threading.Thread(target=self._guard, args=(work,), daemon=True)
            for work in (self._kill, self._note, self._weigh, self._follow)
        ]
        for number in range(2):
            self._start(number)
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()
            for process in self.processes:
                process.terminate()
            codes = [process.wait(60) for process in self.processes]
        assert codes == [0, 0], f"the watchers ended with {codes}"
        if self.errors:
            raise self.errors[0]

    def _guard(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    # ------------------------------------------------------------------------------------------------- what goes on

    def _land_files(self) -> None:
        """Write the files, at an even pace: some of them again, and some in another version."""
        began = time.monotonic()
        for number in range(self.options.files):
            self._land(self._make_name(number), self._make_content(number, 0))
            if self.chance.random() < self.options.again:
                again = self.chance.randrange(number + 1)
                name = self._make_name(again)
                version = len(self.landed[name]) if self.chance.random() < self.options.overwritten else 0
                self._land(name, self._make_content(again, version))
            due = began + (number + 1) * self.options.seconds / self.options.files
            time.sleep(max(0.0, due - time.monotonic()))
            if self.errors:
                raise self.errors[0]

    def _land(self, name: str, content: bytes) -> None:
        self._system.pipe_file(f"{self.root.removeprefix('s3://')}/{name}", content)
        self.landed.setdefault(name, []).append((time.monotonic(), content))
        self.num_landings += 1

    def _make_name(self, number: int) -> str:
        """Names do not sort as files come: late ones lie among early ones."""
        day = random.Random(f"{self.options.seed} day {number}").randrange(30)
        return f"{'en' if number % 3 else 'mixed'}/day-{day:02d}/{number:06d}.jsonl"

    def _make_content(self, number: int, version: int) -> bytes:
        lang = ("de", "fr", "it")[number % 9 // 3]
        documents = [{"text": text, "lang": lang} for text in texts("en", 3, number * 100 + version)]
        return jsonl(documents)

    def _kill(self) -> None:
        """Kill a watcher, the one or the other, and start it again a moment later."""
        pause = _KILLED_SHARE * self.options.seconds / (self.options.kills + 1)
        for _ in range(self.options.kills):
            if self._is_over.wait(pause * self.chance.uniform(0.5, 1.5)):
                return
            number = self.chance.randrange(2)
            for process in self.processes:
                assert process.poll() is None, f"a watcher ended by itself, with {process.returncode}"
            self.processes[number].kill()
            self.processes[number].wait()
            self.num_kills += 1
            time.sleep(self.chance.uniform(0, 2))
            self._start(number)

    def _note(self) -> None:
        """Note when commits appear, the last one, too."""
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(0.2)
            while self._system.exists(self._locate(f"log/{len(self.committed) + 1}.json")):
                self.committed.append(time.monotonic())

    def _follow(self) -> None:
        """Read what each commit brings, in a process that is killed now and then and goes on from its last document."""
        chance = random.Random(self.options.seed)
        pause = self.options.seconds / max(1, self.options.kills)
        while not self._is_over.is_set():
            self._follow_for(max(5.0, pause * chance.uniform(0.5, 1.5)))

    def _follow_for(self, seconds: float, most: int = sys.maxsize) -> None:
        """Read on from the last document, until so many have come in all, or for some seconds."""
        state = json.dumps(self.followed[-1][3]) if self.followed else ""
        with subprocess.Popen(
            [sys.executable, "-m", "stores.follower", f"{self.root}/out", state],
            env=self.store.variables() | {"PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a store in trouble ends it, too
        ) as process:
            end = threading.Timer(seconds, process.kill)
            end.start()
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith(b"\n"):  # else it was cut by the kill
                    self.followed.append(json.loads(line))
                if len(self.followed) >= most:
                    process.kill()
        end.cancel()

    def _weigh(self) -> None:
        """Note how much memory watchers and their workers take, each process for itself."""
        while not self._is_over.wait(1):
            for process in self.processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    watcher = psutil.Process(process.pid)
                    for one in (watcher, *watcher.children()):
                        weight = one.memory_info().rss / 1e6
                        self.memory.setdefault(one.pid, []).append((self.num_landings, weight))

    def _wait_for_the_last_commit(self) -> None:
        """Wait until all is committed. Raises AssertionError if for long nothing is: the machine may be busy."""
        number, since = -1, time.monotonic()
        while missing := self._find_missing(self._read_held(newest := self._count_commits())):
            if newest != number:
                number, since = newest, time.monotonic()
            assert time.monotonic() - since < _LONGEST_SILENCE_S, f"commit {newest} lacks {missing[:10]}"
            time.sleep(1)
            if self.errors:
                raise self.errors[0]

    # ---------------------------------------------------------------------------------------------------------- checks

    def _locate(self, path: str) -> str:
        return f"{self.root.removeprefix('s3://')}/out/{path}"

    def _read_json(self, path: str) -> Any:
        return json.loads(self._system.cat_file(self._locate(path)))

    def _count_commits(self) -> int:
        try:
            return len(self._system.ls(self._locate("log"), detail=False))
        except FileNotFoundError:
            return 0

    def _read_held(self, number: int | None = None) -> dict[str, str]:
        """uri -> version that a commit holds. Raises AssertionError for a file that it holds twice."""
        number = self._count_commits() if number is None else number
        held: dict[str, str] = {}
        for part in self._read_json(f"log/{number}.json")["parts"] if number else []:
            for line in self._read_plan(part["path"]):
                assert line["uri"] not in held, f"{line['uri']} is in two parts of commit {number}"
                held[line["uri"]] = line["version"]
        return held

    def _read_plan(self, part: str) -> list[Any]:
        if part not in self._plans:
            data = self._system.cat_file(self._locate(posixpath.normpath(f"{part}/plan/files.jsonl")))
            self._plans[part] = [json.loads(line) for line in data.splitlines()]
        return self._plans[part]

    def _list_versions(self) -> dict[str, str]:
        """uri -> version of the file as it is: its ETag. The store is not asked, which has enough to do."""
        return {name: _spell_etag(versions[-1][1]) for name, versions in self.landed.items()}

    def _find_missing(self, held: Mapping[str, str]) -> list[str]:
        """The files whose last version is not held."""
        versions = self._list_versions()
        return [name for name in self.landed if versions[name] not in held.get(name, "")]

    def _check(self) -> list[float]:
        """Compare the output with a batch build of the files; the lags of all files, sorted."""
        env = self.store.variables()

        def run(*arguments: Any) -> Any:
            done = tokcore(*arguments, "--json", env=env, timeout=1800)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        number = self._count_commits()
        assert {*self._read_held(number)} == {*self.landed}
        fresh = run(
            *("build", f"{self.root}/build.toml", "--output", f"{self.root}/fresh"),
            *("--set", f'tokenizer.from="{self.tokenizer}"'),
        )
        newest = self._read_json(f"log/{number}.json")["totals"]
        expected = fresh["totals"]
        assert newest["documents_digest"] == expected["documents_digest"]
        assert newest["tokens"] == expected["tokens"]
        assert newest["documents"] == expected["records"]["documents"]
        assert run("verify", f"{self.root}/out")["problems"] == []
        status = run("status", f"{self.root}/out")
        assert (status["quarantine"], status["newest_commit"]) == ([], number)
        self._check_followed(number)
        return sorted(self._find_lags(number))

    def _check_followed(self, newest: int) -> None:
        """Assert that the reader got each document of each version that a commit brought, once, with that commit."""
        tokenizer = Tokenizer.load(self.tokenizer)
        contents = {_spell_etag(content): content for versions in self.landed.values() for _, content in versions}
        expected: Counter[tuple[int, str]] = Counter()
        before: Mapping[str, str] = {}
        for number in range(1, newest + 1):
            held = self._read_held(number)
            for name in [name for name, version in held.items() if before.get(name) != version]:
                for line in contents[held[name].removeprefix("etag:")].splitlines():
                    ids = [*tokenizer.encode(json.loads(line)["text"]).tolist(), tokenizer.eos_id]
                    digest = hashlib.sha256(b"".join(id.to_bytes(4, "little") for id in ids)).hexdigest()
                    expected[number, digest] += 1
            before = held
        deadline = time.monotonic() + 300
        while len(self.followed) < expected.total() and time.monotonic() < deadline:
            self._follow_for(60, expected.total())
        self._follow_for(5)  # in which nothing more may come
        assert Counter((commit, digest) for commit, _, digest, _ in self.followed) == expected

    def _find_lags(self, newest: int) -> Iterator[float]:
        """For each file the time from its last landing to the commit that first held that version."""
        waiting = self._list_versions()
        for number in range(1, newest + 1):
            held = self._read_held(number)
            for name in [name for name, version in waiting.items() if version in held.get(name, "")]:
                del waiting[name]
                # Bytes that came again are the same version, so it is the first of these that waits.
                last = self.landed[name][-1][1]
                first = next(when for when, content in self.landed[name] if content == last)
                yield max(0.0, self.committed[number - 1] - max(first, self._find_change(name)))
        assert not waiting

    def _find_change(self, name: str) -> float:
        """When the content of a file last became what it is."""
        versions = self.landed[name]
        changes = [when for (_, before), (when, content) in itertools.pairwise(versions) if before != content]
        return changes[-1] if changes else versions[0][0]

    def _measure_growth(self) -> float | None:
        """The most that one process grew, in MB for 1,000 landings, over a time in which enough landed to tell."""
        rates = []
        for weights in self.memory.values():
            first, last = weights[0][0], weights[-1][0]
            settled = [one for one in weights if 2 * one[0] >= first + last]  # imports and first batches come before
            if last - settled[0][0] >= self.num_landings / 8:
                # A batch takes memory and gives it back, so two samples say little: the slope of a line through all.
                landed, weight = zip(*settled, strict=True)
                rates.append(round(statistics.linear_regression(landed, weight).slope * 1000, 3))
        return max(rates, default=None)


def _spell_etag(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def find_problems(figures: Figures) -> list[str]:
    """What is not as it should be."""
    problems = []
    most = SETTLE_S + POLL_S + 2 * max(figures.longest_batch_s, BATCH_S)
    if figures.p99_lag_s > most:
        problems.append(f"the 99th percentile of lag is {figures.p99_lag_s:.1f} s, more than {most:.1f} s")
    if figures.growth is None:
        problems.append("no watcher lived long enough to tell how its memory grows: let more files land")
    elif figures.growth >= 1:
        problems.append(f"a watcher, or one of its workers, grew by {figures.growth:.2f} MB for 1,000 files")
    return problems


def main() -> None:
    """Print the figures. Exits with 1 if they are not as they should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Options):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    options = Options(**vars(parser.parse_args()))
    os.environ.setdefault("TOKCORE_TEST_SERVERS", "required")
    with start_s3() as store, tempfile.TemporaryDirectory() as folder:
        figures = Soak(store, Path(folder), options).run()
    print(json.dumps(dataclasses.asdict(figures), indent=1))
    for problem in (problems := find_problems(figures)):
        print(f"problem: {problem}", file=sys.stderr)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
