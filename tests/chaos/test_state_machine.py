"""Files are added, changed and removed; builds are killed, run again, run twice at once. A small model predicts all.

The model: the first build that gets as far as the plan pins the inputs. As long as the inputs are those pinned, builds
give the root of an undisturbed build of them. Otherwise builds end with exit code 2 and change nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.schedules import check_manifests
from chaos.server import Warm
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.builds import build_file, jsonl, texts, tree, write
from support.examples import examples

SOURCES = """
[[source]]
lang_field = "l"
files = "in/*.jsonl"
"""
SETTINGS = """
[plan]
range_bytes = 2000
[learn]
vocab_size = 280
[shards]
target_tokens = 500
"""
# Where a build may be killed: early, in the middle of each stage, around every commit.
CRASHES = st.tuples(
    st.sampled_from(
        [
            "plan.listed",
            "read.batch",
            "count.item",
            "merge.named",
            "count.table",
            "learn.learned",
            "encode.shard",
            "encode.item",
            "stage.published",
            "stage.committed",
            "build.committed",
            "publish.after_link",
            "create.before_link",
        ]
    ),
    st.integers(1, 6),
)
CONTENTS = st.integers(0, 3)

Inputs = dict[str, tuple[bytes, int]]  # name -> (content, time of change)


def content(number: int) -> bytes:
    rows = [{"l": lang, "text": text} for lang in ("en", "ru") for text in texts(lang, 4, number)]
    return jsonl(rows)


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    client = Warm()
    yield client
    client.close()


def machine(warm: Warm, base: Path) -> type[RuleBasedStateMachine]:
    """The machine, for a server of builds and a folder."""
    roots: dict[str, str] = {}  # roots of undisturbed builds, by their inputs
    examples = iter(range(1 << 30))

    class Builds(RuleBasedStateMachine):
        @initialize(numbers=st.lists(CONTENTS, min_size=1, max_size=2))
        def start(self, numbers: list[int]) -> None:
            self.folder = base / f"example-{next(examples)}"
            self.output = self.folder / "out"
            self.pinned: Inputs | None = None  # the inputs that the output's first build pinned
            self.clock = 1_000_000_000
            self.files = 0
            self.is_done = False
            for number in numbers:
                self.add(number)
            self.build_file = build_file(self.folder, SOURCES, SETTINGS)

        def teardown(self) -> None:
            if hasattr(self, "folder"):
                shutil.rmtree(self.folder, ignore_errors=True)

        # ------------------------------------------------------------------------------------------------- the inputs

        def put(self, name: str, data: bytes) -> None:
            path = write(self.folder / "in" / name, data)
            self.clock += 1
            os.utime(path, (self.clock, self.clock))

        def inputs(self) -> Inputs:
            return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (self.folder / "in").iterdir()}

        @rule(number=CONTENTS)
        def add(self, number: int) -> None:
            self.put(f"{self.files}.jsonl", content(number))
            self.files += 1

        @rule(number=CONTENTS)
        def overwrite(self, number: int) -> None:
            self.put("0.jsonl", content(number))

        @precondition(lambda self: self.pinned is not None)
        @rule()
        def restore(self) -> None:
            """Restore the pinned inputs, times included."""
            shutil.rmtree(self.folder / "in")
            for name, (data, mtime_ns) in (self.pinned or {}).items():
                path = write(self.folder / "in" / name, data)
                os.utime(path, ns=(mtime_ns, mtime_ns))

        # ------------------------------------------------------------------------------------------------- the builds

        def build(self, **how: object) -> dict[str, object]:
            return warm.build(self.build_file, self.output, **how)

        def note_pins(self) -> None:
            """Note the inputs once a first build has gone as far as pinning them."""
            planned = (self.output / "plan" / "manifest.json", self.output / "_attempts" / "plan.claim")
            if self.pinned is None and any(path.exists() for path in planned):
                self.pinned = self.inputs()

        def expected_root(self) -> str:
            inputs = self.inputs()
            key = hashlib.sha256(repr(sorted((n, d) for n, (d, _) in inputs.items())).encode()).hexdigest()
            if key not in roots:
                done = warm.build(self.build_file, self.folder / "undisturbed", hostility=0)
                roots[key] = str(done["root"])
                shutil.rmtree(self.folder / "undisturbed")
            return roots[key]

        def check(self, done: dict[str, object]) -> None:
            """Check the outcome of a build that was not killed."""
            if self.pinned is not None and self.inputs() != self.pinned:
                assert done.get("code") == 2, done
                return
            assert done.get("root") == self.expected_root(), done
            self.is_done = True

        @rule(seed=st.integers(0, 1 << 20))
        def run(self, seed: int) -> None:
            before = tree(self.output) if self.is_done else None
            done = self.build(seed=seed)
            self.check(done)
            self.note_pins()
            assert before is None or tree(self.output) == before, "a finished build was changed"

        @rule(crash=CRASHES, seed=st.integers(0, 1 << 20))
        def crash(self, crash: tuple[str, int], seed: int) -> None:
            done = self.build(crash=crash, seed=seed)
            if "killed" not in done:
                self.check(done)
            self.note_pins()

        @rule(seeds=st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20)))
        def run_two_at_once(self, seeds: tuple[int, int]) -> None:
            numbers = [warm.start(self.build_file, self.output, seed=seed) for seed in seeds]
            for done in [warm.wait(number) for number in numbers]:
                self.check(done)
            self.note_pins()

        @precondition(lambda self: self.output.exists())
        @rule()
        def verify(self) -> None:
            problems = warm.build(self.build_file, self.output, only="verify")["problems"]
            has_manifest = (self.output / "manifest.json").exists()
            assert (not problems) == has_manifest, problems

        @precondition(lambda self: (self.output / "_attempts").exists() or self.is_done)
        @rule()
        def gc(self) -> None:
            """gc removes exactly what no manifest names. Without a committed plan, nothing is pinned afterwards."""
            before = tree(self.output)
            removed = warm.build(self.build_file, self.output, only="gc")["removed"]
            after = tree(self.output)
            assert all(path not in removed for path in after)
            assert not (self.output / "_attempts").exists()
            assert {path: before[path] for path in after} == after
            if self.is_done:
                assert after == before
            if not (self.output / "plan" / "manifest.json").exists():
                self.pinned = None

        # ----------------------------------------------------------------------------------------------- at all times

        @invariant()
        def nothing_half_done_is_visible(self) -> None:
            if hasattr(self, "output") and self.output.exists():
                check_manifests(self.output)

    return Builds


def test_builds_and_what_happens_to_their_inputs(warm, tmp_path):
    run_state_machine_as_test(
        machine(warm, tmp_path),
        settings=examples(6, stateful_step_count=10, suppress_health_check=list(HealthCheck)),
    )
