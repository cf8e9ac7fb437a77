"""Whether verification finds every damaged file of a large output, each once; and what it costs.

    PYTHONPATH=tests python tests/scale/verify_large.py FOLDER [--megabytes 300] [--shards 1200] [--flips 20]
        [--slices 4] [--killed 2] [--workers 2] [--source deploy/demo/data] [-- --engine flink --shared-filesystem ...]

Makes a corpus (as look_at_large.py does) and builds it in FOLDER, unless that was done before. Verifies it sound, with
and without --decode all, and prints the CPU time beside that of the encode stage. Then it flips a bit in each of some
files, and verifies by workers, by slices of which some are killed in the middle, and on an engine if options for one
follow --. Ends with an error unless each file is named once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from scale.look_at_large import make_corpus
from support.forging import require_each_once

BYTES_PER_TOKEN = 4  # about
COMMAND = [sys.executable, "-c", "from tokcore_pipelines.cli import main; main()"]
BUILT = "built.json"


class Ran(NamedTuple):
    """A command that ended."""

    code: int
    seconds: float
    cpu_s: float  # workers included
    driver_mb: float  # most memory of the command's own process
    peak_mb: float  # most memory of any of its processes
    told: Any  # its JSON

    def describe(self) -> str:
        """Time and memory, for a line."""
        return f"{self.seconds:.1f} s, driver {self.driver_mb:.0f} MB, any process {self.peak_mb:.0f} MB"


class Running:
    """A command that runs, in a group of processes of its own."""

    def __init__(self, *words: object) -> None:
        self.began = time.monotonic()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - wait() closes it
        told = [*COMMAND, *map(str, words)]
        self.process = subprocess.Popen(told, stdout=self._said, stderr=subprocess.DEVNULL, start_new_session=True)

    def has_ended(self) -> bool:
        """Whether it has; it can still be waited for."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def wait(self) -> Ran:
        """Wait until it ends."""
        own = 0.0
        while not self.has_ended():
            own = read_peak_mb(self.process.pid) or own
            time.sleep(0.1)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - self.began
        with self._said as file:
            file.seek(0)
            said = file.read()
        told = json.loads(said) if said.startswith(b"{") else None
        return Ran(self.process.returncode, seconds, used.ru_utime + used.ru_stime, own, used.ru_maxrss / 1e3, told)


def read_peak_mb(process: int) -> float:
    """The most memory that a process has had so far; 0 if that cannot be told."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1e3


def build(folder: Path, source: Path, megabytes: int, shards: int) -> dict[str, float]:
    """Make the corpus and its output; the CPU seconds of each stage. What was made before is taken as it is."""
    if (folder / BUILT).exists():
        return dict(json.loads((folder / BUILT).read_text()))
    make_corpus(source, folder, megabytes * 1_000_000, 0)
    target = max(1000, megabytes * 1_000_000 // BYTES_PER_TOKEN // shards)
    settings = ["--set", f"shards.target_tokens={target}", "--set", "learn.vocab_size=32768"]
    used = {}
    for stage in ("count", "learn", "encode", "build"):
        ran = Running(stage, folder / "build.toml", "--quiet", *settings).wait()
        assert ran.code == 0, f"{stage}: exit code {ran.code}"
        used[stage] = ran.cpu_s
    (folder / BUILT).write_text(json.dumps(used))
    return used


def flip(output: Path, num: int, seed: int) -> dict[Path, bytes]:
    """Flip a bit in each of some files, of every stage; the files as they were."""
    chance = random.Random(seed)
    files = sorted(path for path in output.rglob("*.*") if path.name not in ("run.json", "manifest.json"))
    sound = {}
    for path in chance.sample([path for path in files if path.stat().st_size], num):
        sound[path] = path.read_bytes()
        data = bytearray(sound[path])
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    return sound


def count_records(work: Path) -> int:
    """How many pieces of work are recorded."""
    return sum(1 for _ in work.glob("_attempts/verify-*/done/*.json"))


def verify_by_slices(output: Path, work: Path, num: int, killed: int, options: list[object]) -> list[Ran]:
    """Start slices, and kill some once each has something to show; how the others ended."""
    command = ("verify", output, "--work", work, "--json", "--lease=3", *options)
    slices = [Running(*command, f"--slice={number}/{num}") for number in range(1, num + 1)]
    while count_records(work) < killed:
        assert not any(one.has_ended() for one in slices[:killed]), "a slice ended before it was killed"
        time.sleep(0.05)
    for lost in slices[:killed]:
        os.killpg(lost.process.pid, signal.SIGKILL)
        lost.wait()
    return [one.wait() for one in slices[killed:]]


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, default=Path("deploy/demo/data"))
    for name, default in (("megabytes", 300), ("shards", 1200), ("flips", 20), ("slices", 4), ("killed", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-sound", action="store_true", help="Only look for damaged files.")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, of_engine = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1 :]
    used = build(given.folder, given.source, given.megabytes, given.shards)
    output, workers = given.folder / "out", f"--workers={given.workers}"
    totals = json.loads((output / "manifest.json").read_bytes())["totals"]
    print(
        f"{totals['shards']:,} shards, {totals['tokens']:,} tokens; encode took {used['encode']:.1f} CPU s", flush=True
    )
    for options in () if given.skip_sound else ((), ("--decode", "all")):
        ran = Running("verify", output, "--json", workers, *options).wait()
        assert ran.code == 0, ran
        share = ran.cpu_s / used["encode"]
        print(f"sound {' '.join(options)}: {ran.cpu_s:.1f} CPU s, {share:.2f} of encode, {ran.describe()}", flush=True)
    sound = flip(output, given.flips, given.seed)
    damaged = [str(path.relative_to(output)) for path in sound]
    with tempfile.TemporaryDirectory(dir=given.folder) as work:
        try:
            ran = {"workers": [Running("verify", output, "--json", workers).wait()]}
            ran["slices"] = verify_by_slices(output, Path(work) / "slices", given.slices, given.killed, ["--workers=1"])
            if of_engine:
                engine = ("verify", output, "--json", "--work", Path(work) / "engine", *of_engine)
                ran["engine"] = [Running(*engine).wait()]
        finally:
            for path, data in sound.items():
                path.write_bytes(data)
    for by, ended in ran.items():
        for one in ended:
            assert one.code == 1, one
            require_each_once(one.told["problems"], damaged)
            print(f"{by}: all {len(damaged)} damaged files found, each once: {one.describe()}", flush=True)


if __name__ == "__main__":
    main()
