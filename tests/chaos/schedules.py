"""Schedules of faults, one per seed. Whatever happens in a schedule:

- between any two attempts, every manifest is whole, and every file that it names exists and is whole;
- an attempt that does not finish was killed, or ends with a named error and the documented exit code;
- the same command, run again without faults, gives the files of an undisturbed build, and `verify` finds no problem.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chaos.faultfs import READS, WRITES, random_faults
from chaos.server import Warm
from support.builds import build_file, jsonl, texts, tree, write

from tokcore_schemas.stage_table import STAGES, parse_manifest

# A build of a dozen items in four languages and three formats, with every kind of work and hardly any text.
SOURCES = """
[[source]]
lang = "en"
files = "en.jsonl.zst"
id = "id"
[[source]]
lang_field = "l"
files = ["mixed.jsonl", "more.jsonl.gz"]
[[source]]
lang = "hi"
files = "hi.txt"
unit = "line"
"""
SETTINGS = """
[plan]
range_bytes = 2500
[learn]
vocab_size = {vocab_size}
[shards]
target_tokens = 600
validation = 0.1
"""


# What else a build does that shuffles, mixes and packs its documents.
DERIVED = """
[shuffle]
seed = 7
[mixture]
strategy = "unimax"
max_epochs = 3
[pack]
length = 64
"""


class Broken(AssertionError):  # noqa: N818 - what is broken is a promise
    """A promise was not kept."""


@dataclasses.dataclass
class Lab:
    """The corpus, what undisturbed builds of it give, and the process that builds."""

    folder: Path
    warm: Warm
    build_files: dict[str, Path] = dataclasses.field(default_factory=dict)
    roots: dict[str, str] = dataclasses.field(default_factory=dict)
    trees: dict[tuple[str, str], dict[str, str]] = dataclasses.field(default_factory=dict)
    # Build file -> crash point -> how often an undisturbed build comes there.
    visits: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    store_visits: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  # from and to a store
    calls: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  # of that store
    tally: Counter[str] = dataclasses.field(default_factory=Counter)

    def new_output(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder, prefix="out-")) / "out"


@contextmanager
def opened_lab() -> Iterator[Lab]:
    """A lab, in memory if the machine allows it: these tests do not depend on a file system that syncs."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="tokcore-chaos-", dir=memory if memory.is_dir() else None))
    warm = Warm()
    try:
        lab = Lab(folder, warm)
        _prepare(lab)
        yield lab
    finally:
        warm.close()
        shutil.rmtree(folder, ignore_errors=True)


def corpus(folder: Path) -> None:
    """Write 40 documents in four files."""
    write(folder / "en.jsonl.zst", jsonl([{"id": f"e{i}", "text": t} for i, t in enumerate(texts("en", 14))]))
    mixed = [{"l": lang, "text": texts(lang, 1, i)[0]} for i in range(6) for lang in ("en", "ru")]
    write(folder / "mixed.jsonl", jsonl(mixed))
    write(folder / "more.jsonl.gz", jsonl([{"l": "zh", "text": t} for t in texts("zh", 8)]))
    write(folder / "hi.txt", "\n".join(t.replace("\n", " ") for t in texts("hi", 6)).encode())


def _prepare(lab: Lab) -> None:
    corpus(lab.folder)
    for name, vocab_size, more in (("a", 300, ""), ("b", 310, ""), ("c", 300, DERIVED)):
        lab.build_files[name] = build_file(
            lab.folder, SOURCES, SETTINGS.format(vocab_size=vocab_size) + more, name=f"{name}.toml"
        )
    for name, inputs in (("a", ""), ("b", ""), ("c", ""), ("a", "faultfs"), ("c", "faultfs")):
        output = lab.new_output()
        where = f"faultfs://{output}" if inputs else str(output)
        done = lab.warm.build(lab.build_files[name], where, inputs=inputs, hostility=0, verify=True)
        if "root" not in done or done["problems"]:
            raise Broken(f"an undisturbed build: {done}")
        if lab.roots.setdefault(name, done["root"]) != done["root"]:
            raise Broken("inputs read through another store give another root")
        lab.trees[name, inputs] = tree(output)
        if inputs:
            lab.calls[name], lab.store_visits[name] = done["calls"], done["visits"]
        else:
            lab.visits[name] = done["visits"]
        shutil.rmtree(output)


# ---------------------------------------------------------------------------------------------------------- the checks


def check_manifests(output: Path) -> None:
    """Raises Broken unless every manifest there is names only what is there, whole."""
    for path in [*output.glob("manifest.json"), *output.glob("*/manifest.json")]:
        manifest = parse_manifest(path.read_bytes(), str(path))
        for entry in manifest.files:
            file = path.parent / entry.path
            if not file.is_file():
                raise Broken(f"{path} names {entry.path}, which is not there")
            data = file.read_bytes()
            if len(data) != entry.size_bytes or hashlib.sha256(data).hexdigest() != entry.sha256:
                raise Broken(f"{path} names {entry.path}, which holds other bytes")
        for stage, made_from in manifest.inputs.items():
            if stage in STAGES:
                made = (output / stage / "manifest.json").read_bytes()
                if hashlib.sha256(made).hexdigest() != made_from.sha256:
                    raise Broken(f"{path} was made from another {stage}")


def check_finished(lab: Lab, name: str, inputs: str, output: Path, done: dict[str, Any]) -> None:
    """Raises Broken unless a build finished as the undisturbed one did."""
    if "root" not in done:
        raise Broken(f"left alone, the build did not finish: {done}")
    if done["root"] != lab.roots[name]:
        raise Broken(f"root {done['root']}, expected {lab.roots[name]}")
    if done["problems"]:
        raise Broken(f"verify: {done['problems']}")
    # A build removes its own working files. What is left may be that of another build, which did not finish.
    manifests = [parse_manifest(path.read_bytes(), str(path)) for path in output.rglob("manifest.json")]
    own = tuple(f"_attempts/{made.stage}-{made.identity[:16]}" for made in manifests)
    found = {
        path: digest
        for path, digest in tree(output).items()
        if path.startswith(own) or path.endswith(".claim") or not path.startswith("_attempts")
    }
    expected = lab.trees[name, inputs]
    if found != expected:
        differ = sorted(path for path in {*found, *expected} if found.get(path) != expected.get(path))
        raise Broken(f"other files than of an undisturbed build: {differ}")


def check_ended(lab: Lab, name: str, output: Path, done: dict[str, Any]) -> None:
    """Raises Broken unless the attempt finished or failed as documented, with nothing half-done visible."""
    check_manifests(output)
    if "killed" in done:
        lab.tally["killed"] += 1
    elif "error" in done:
        if done["error"] == "bug" or done["code"] not in (2, 3):
            raise Broken(f"an error without a name: {done['message']}")
        lab.tally["errors named"] += 1
    elif done["root"] != lab.roots[name]:
        raise Broken(f"an attempt ended with root {done['root']}, expected {lab.roots[name]}")
    else:
        lab.tally["finished in spite of it"] += 1
    for fault in done.get("fired", ()):
        lab.tally[f"fault {fault}"] += 1


def leave_alone(lab: Lab, chance: random.Random, name: str, output: Path, where: str, inputs: str = "") -> None:
    """Run the same command again without faults, on the hostile runner."""
    how = {"seed": chance.randrange(1 << 30), "hostility": 0.4, "concurrent": chance.random() < 0.5}
    done = lab.warm.build(lab.build_files[name], where, inputs=inputs, verify=True, **how)
    check_finished(lab, name, inputs, output, done)
    lab.tally["resumed"] += 1


# ------------------------------------------------------------------------------------------------------- the schedules


def choose_build(chance: random.Random) -> str:
    """A plain build, or one that shuffles, mixes and packs."""
    return chance.choice(["a", "a", "c"])


def choose_crash(lab: Lab, chance: random.Random, name: str, attempt: int = 0) -> list[Any]:
    """A crash point of a build, and at which visit. What an earlier attempt finished is not visited again."""
    point = chance.choice(sorted(lab.visits[name]))
    return [point, chance.randint(1, max(1, lab.visits[name][point] // (1 + attempt)))]


def crashes(lab: Lab, chance: random.Random, output: Path) -> None:
    """kill -9 at one to four crash points, one after the other."""
    name = choose_build(chance)
    for attempt in range(chance.randint(1, 4)):
        crash = choose_crash(lab, chance, name, attempt)
        done = lab.warm.build(lab.build_files[name], output, crash=crash, seed=chance.randrange(1 << 30))
        check_ended(lab, name, output, done)
        if "killed" in done:
            lab.tally[f"crash {crash[0]}"] += 1
    leave_alone(lab, chance, name, output, str(output))


def store_faults(lab: Lab, chance: random.Random, output: Path) -> None:
    """A store that misbehaves, for the inputs, the output, or both; sometimes with a crash as well."""
    name, where = choose_build(chance), f"faultfs://{output}"
    for _ in range(chance.randint(1, 3)):
        faults = random_faults(chance, lab.calls[name], {**READS, **WRITES})
        how: dict[str, Any] = {"faults": faults, "seed": chance.randrange(1 << 30), "hostility": 0}
        if chance.random() < 0.2:
            how["crash"] = choose_crash(lab, chance, name)
        with _kept_inputs(lab.folder):
            done = lab.warm.build(lab.build_files[name], where, inputs="faultfs", **how)
        check_ended(lab, name, output, done)
    leave_alone(lab, chance, name, output, where, "faultfs")


@contextmanager
def _kept_inputs(folder: Path) -> Iterator[None]:
    """Restore input files that a fault changed, with their times, because times are pinned too."""
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}
    yield
    for path, (data, mtime_ns) in before.items():
        if path.stat().st_mtime_ns != mtime_ns:
            path.write_bytes(data)
            os.utime(path, ns=(mtime_ns, mtime_ns))


def two_at_once(lab: Lab, chance: random.Random, output: Path) -> None:
    """Two builds into one output. If they differ, exactly one commits, and the other says so with exit code 2."""
    names = chance.choice([("a", "a"), ("a", "b"), ("c", "c")])
    ways: list[dict[str, Any]] = [{"seed": chance.randrange(1 << 30)} for _ in names]
    if chance.random() < 0.3:
        ways[0]["crash"] = choose_crash(lab, chance, names[0])
    numbers = [lab.warm.start(lab.build_files[name], output, **how) for name, how in zip(names, ways, strict=True)]
    outcomes = [lab.warm.wait(number) for number in numbers]
    for name, done in zip(names, outcomes, strict=True):
        check_ended(lab, name, output, done)
    survivors = [(n, d) for n, d in zip(names, outcomes, strict=True) if "killed" not in d]
    if names[0] == names[1]:
        if failed := [done for _, done in survivors if "root" not in done]:
            raise Broken(f"of two equal builds, one failed: {failed[0]}")
    elif len(survivors) == 2:
        winners = [name for name, done in survivors if "root" in done]
        losers = [done for _, done in survivors if "root" not in done]
        if len(winners) != 1:
            raise Broken(f"of two different builds {len(winners)} committed: {outcomes}")
        if losers[0]["code"] != 2:
            raise Broken(f"the build that lost ended otherwise than with exit code 2: {losers[0]}")
        leave_alone(lab, chance, winners[0], output, str(output))
        return
    if names[0] == names[1]:
        leave_alone(lab, chance, names[0], output, str(output))


def another_configuration(lab: Lab, chance: random.Random, output: Path) -> None:
    """A killed build, then another build file for the same output: they are never mixed, and one of them finishes."""
    for _ in range(chance.randint(1, 2)):
        crash = choose_crash(lab, chance, "a")
        check_ended(lab, "a", output, lab.warm.build(lab.build_files["a"], output, crash=crash))
    done = lab.warm.build(lab.build_files["b"], output, verify=True)
    check_ended(lab, "b", output, done)
    if "root" in done:
        check_finished(lab, "b", "", output, done)
    else:
        if done["code"] != 2:
            raise Broken(f"another configuration in the output is a matter of configuration: {done}")
        leave_alone(lab, chance, "a", output, str(output))


def random_moments(lab: Lab, chance: random.Random, output: Path) -> None:
    """With worker processes: the driver, a worker or all of them get a signal at a random moment."""
    import psutil

    name = choose_build(chance)
    for _ in range(chance.randint(1, 2)):
        number = lab.warm.start(lab.build_files[name], output, workers=2, beam=chance.random() < 0.5)
        driver = psutil.Process(lab.warm.pids[number])
        time.sleep(chance.uniform(0.05, 1.6))
        victim = chance.choice(["driver", "worker", "group", "SIGTERM", "SIGINT"])
        try:
            workers = driver.children(recursive=True)
            if victim == "worker":
                if not workers:
                    victim = "driver"
                else:
                    chance.choice(workers).kill()
            if victim == "driver":
                driver.kill()
            elif victim == "group":
                os.killpg(driver.pid, signal.SIGKILL)
            elif victim.startswith("SIG"):
                driver.send_signal(signal.Signals[victim])
        except (psutil.NoSuchProcess, ProcessLookupError):
            workers, victim = [], "nobody"
        done = lab.warm.wait(number)
        lab.tally[f"signal to {victim}"] += 1
        if alive := _outlived(workers):
            raise Broken(f"workers outlived their driver: {alive}")
        if victim == "SIGINT" and done.get("error") == "bug" and "KeyboardInterrupt" in done["message"]:
            done = {"killed": signal.SIGINT}  # the command line turns it into exit code 130
        if victim == "worker" and "error" in done and "resumes" not in done["message"]:
            raise Broken(f"a worker died and the message does not say what to do: {done}")
        check_ended(lab, name, output, done)
    leave_alone(lab, chance, name, output, str(output))


def woken_too_late(lab: Lab, chance: random.Random, output: Path) -> None:
    """A build hangs (its machine swaps, or a virtual machine migrates) and is taken for dead. It goes on after another
    has done its work again: what it writes then is ignored, and it ends as the other did."""
    name = choose_build(chance)
    stop = choose_crash(lab, chance, name)
    number = start_and_stand_still(lab.warm, lab.build_files[name], output, stop, seed=chance.randrange(1 << 30))
    check_manifests(output)
    again = lab.warm.build(lab.build_files[name], output, seed=chance.randrange(1 << 30))
    check_ended(lab, name, output, again)
    if "root" not in again:
        raise Broken(f"a build that stood still was in the way: {again}")
    done = woken(lab.warm, number)
    check_ended(lab, name, output, done)
    if "root" not in done:
        raise Broken(f"an equal build was faster, and this one failed: {done}")
    lab.tally["woken"] += 1
    leave_alone(lab, chance, name, output, str(output))


def start_and_stand_still(warm: Warm, path: Path, output: Path, stop: list[Any], **how: Any) -> int:
    """Start a build that hangs at a crash point, if it comes to it, until it is woken. stop: [point, visit]."""
    import psutil

    number = warm.start(path, output, stop=stop, **how)
    with suppress(psutil.NoSuchProcess):  # it came to the point less often, and has ended
        process = psutil.Process(warm.pids[number])
        while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            time.sleep(0.01)
    return number


def woken(warm: Warm, number: int) -> dict[str, Any]:
    """Let a hanging build go on; returns its outcome."""
    with suppress(ProcessLookupError):
        os.kill(warm.pids[number], signal.SIGCONT)
    return warm.wait(number)


def _outlived(workers: list[Any]) -> list[Any]:
    """The workers that still run after a second, with some more time for a busy machine."""
    deadline = time.monotonic() + 3
    while alive := [worker for worker in workers if worker.is_running() and worker.status() != "zombie"]:
        if time.monotonic() > deadline:
            return alive
        time.sleep(0.02)
    return []


# How many of a hundred schedules are of each kind.
KINDS: dict[Callable[[Lab, random.Random, Path], None], int] = {
    crashes: 48,
    store_faults: 28,
    two_at_once: 8,
    another_configuration: 8,
    woken_too_late: 4,
    random_moments: 4,
}


def kind_of(seed: int) -> Callable[[Lab, random.Random, Path], None]:
    """The kind of a seed's schedule. A hundred seeds in a row have the shares of KINDS."""
    kinds = [kind for kind, share in KINDS.items() for _ in range(share)]
    random.Random(0).shuffle(kinds)
    return kinds[seed % len(kinds)]


def choose_seeds(num: int) -> list[int]:
    """That many seeds, the lowest ones; but of each kind of schedule at least one.

    >>> choose_seeds(7)
    [0, 1, 4, 7, 8, 14, 33]
    """
    first: dict[object, int] = {}
    for seed in range(sum(KINDS.values())):
        first.setdefault(kind_of(seed), seed)
    others = (seed for seed in itertools.count() if seed not in first.values())
    return sorted([*first.values(), *itertools.islice(others, max(0, num - len(first)))])


def play(lab: Lab, seed: int) -> None:
    """Run one schedule. Raises Broken, with what happened."""
    kind = kind_of(seed)
    output = lab.new_output()
    lab.tally[f"schedules: {kind.__name__}"] += 1
    kind(lab, random.Random(seed), output)
    shutil.rmtree(output.parent)
