"""An output and its inputs change in every way, in any order; commands are killed, and run at once. A model tells all.

The model: the documents that the output holds, by the versions of files that it has read and the ids that were removed.
After each step the output is compared with a fresh build over these documents: tables row by row, totals, digest,
tokens; and a tokenizer that is learned from it with one that a build learns.

`make history` plays more of it (HISTORY: examples, of STEPS steps each).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from chaos.server import Warm
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from support import eager
from support.builds import build_file, jsonl, texts, write
from support.examples import scaled
from support.updates import build_fresh

import tokcore
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import crashpoints
from tokcore_schemas.commit_log import CommitTotals
from tokcore_schemas.config import load_config

SOURCES = """
[[source]]
lang_field = "l"
files = "in/*.jsonl"
id = "id"
"""
SETTINGS = """
[plan]
range_bytes = 2000
[learn]
vocab_size = 280
allow_smaller = true
[shards]
target_tokens = 500
validation = 0.2
"""
# Tables for which each change has all files read again; then what they write is compared in its order.
WHOLE = """
[shuffle]
seed = 5
[mixture]
strategy = "weights"
weights = { en = 1.5, ru = 0.7 }
[pack]
length = 64
"""
LEARNED = 290  # tokens of tokenizers that are learned from commits
LANGS = ("en", "ru")
FIRST = "0.jsonl"  # never vanishes: a source without files is an error

EXAMPLES, STEPS = int(os.environ.get("HISTORY") or scaled(2)), int(os.environ.get("STEPS") or 5)

Version = tuple[int, int]  # which content, time of change
Command = tuple[Any, ...]


class Inputs(NamedTuple):
    """What became of the files that the output holds."""

    are_pinned: bool  # all of them are as they were read
    are_there: bool


# Where a command may be killed: around its commit, in the build of its part, in each kind of write.
CRASHES = st.tuples(
    st.sampled_from(
        [
            *crashpoints.UPDATING_POINTS,
            *crashpoints.COMMITTING_POINTS,
            *crashpoints.REMOVING_POINTS,
            *crashpoints.BURYING_POINTS,
            *crashpoints.COMPACTING_POINTS,
            *crashpoints.EXPIRING_POINTS,
            *crashpoints.LEARNING_POINTS,
            *("plan.listed", "count.item", "count.table", "learn.learned", "encode.shard", "encode.item"),
            *("stage.published", "stage.committed", "build.committed", "build.cleaning"),
            *("write.before_sync", "publish.after_link", "create.before_link", "create.after_link"),
        ]
    ),
    st.integers(1, 4),
)
CONTENTS = st.integers(0, 3)
IDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=3)
COMMANDS = st.one_of(
    st.tuples(st.just("update"), st.sampled_from(["keep", "remove"])),
    st.tuples(st.just("remove"), IDS.map(lambda pairs: [f"{file}-{i}" for file, i in pairs])),
    st.tuples(st.just("bury"), IDS.map(lambda pairs: [f"{file}-{i}" for file, i in pairs])),
    st.tuples(st.just("compact")),
    st.tuples(st.just("learn"), st.just(LEARNED)),
)
ALONE = st.one_of(COMMANDS, st.tuples(st.just("expire"), st.integers(1, 3)))  # expire wants no other command beside it


def list_documents(name: str, number: int) -> list[dict[str, str]]:
    """The documents of a version of a file. Ids are those of other versions, too; their number grows with it."""
    stem = name.removesuffix(".jsonl")
    lang = LANGS[int(stem) % 2]
    written = texts(lang, 3 + number, int(stem) * 10 + number)
    return [{"l": lang, "id": f"{stem}-{i}", "text": text} for i, text in enumerate(written)]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    client = Warm()
    yield client
    client.close()


def machine(warm: Warm, base: Path, scheme: str, more: str = "") -> type[RuleBasedStateMachine]:
    """The machine, for a server of commands, a folder, and where outputs are: scheme is "" or "faultfs://".

    more: further tables of the build file.
    """
    examples = iter(range(1 << 30))
    fresh: dict[str, CommitTotals] = {}  # folders of fresh builds -> what they hold

    class History(RuleBasedStateMachine):
        @initialize(numbers=st.lists(CONTENTS, min_size=2, max_size=3))
        def start(self, numbers: list[int]) -> None:
            self.folder = base / f"example-{next(examples)}"
            self.output = self.folder / "out"
            self.files: dict[str, Version] = {}
            self.removed: set[str] = set()
            self.was_decoded = False  # whether tokens may have stood for a source
            self.clock = 1_000_000_000
            for place, number in enumerate(numbers):
                self.put(f"{place}.jsonl", number)
            self.build_file = build_file(self.folder, SOURCES, SETTINGS + more)
            done = warm.build(self.build_file, self.where(), hostility=0)
            assert "root" in done, done
            self.held = dict(self.files)
            self.fingerprint = tokcore.Tokenizer.load(self.output).fingerprint

        def teardown(self) -> None:
            if hasattr(self, "folder"):
                shutil.rmtree(self.folder, ignore_errors=True)

        def where(self, name: str = "out") -> str:
            return f"{scheme}{self.folder / name}"

        # ------------------------------------------------------------------------------------------------- the inputs

        def put(self, name: str, number: int) -> None:
            path = write(self.folder / "in" / name, jsonl(list_documents(name, number)))
            self.clock += 1
            os.utime(path, (self.clock, self.clock))
            self.files[name] = (number, self.clock)

        @rule(place=st.integers(0, 3), number=CONTENTS)
        def write_a_file(self, place: int, number: int) -> None:
            self.put(f"{place}.jsonl", number)

        @precondition(lambda self: len(self.files) > 1)
        @rule(place=st.integers(1, 3))
        def remove_a_file(self, place: int) -> None:
            if self.files.pop(f"{place}.jsonl", None) is not None:
                (self.folder / "in" / f"{place}.jsonl").unlink()

        # ------------------------------------------------------------------------------------------------- the commands

        def run(self, command: Command, **how: Any) -> dict[str, Any]:
            return warm.build(self.build_file, self.where(), command=list(command), **how)

        def is_as_pinned(self) -> bool:
            return all(self.files.get(name) == version for name, version in self.held.items())

        def look(self) -> Inputs:
            return Inputs(self.is_as_pinned(), {*self.held} <= {*self.files})

        def note(self, command: Command, done: dict[str, Any], inputs: Inputs) -> None:
            """Note what a command that was not killed did. inputs: as they were when it began."""
            if "error" in done:
                # Inputs that are gone may stand in the way of an update. A removal decodes tokens in their place.
                assert done["error"] == "StageError", done
                assert command[:2] == ("update", "keep"), done
                assert not inputs.are_there, done
            elif command[0] == "update":
                kept = self.held if command[1] == "keep" else {}
                self.held = {**kept, **self.files}
            elif command[0] in ("remove", "bury"):
                self.removed |= {*command[1]}
                self.was_decoded |= not inputs.are_pinned
            elif command[0] == "learn":
                assert done["fingerprint"] == self.learn_fresh(), done

        @rule(command=ALONE, seed=st.integers(0, 1 << 20))
        def run_a_command(self, command: Command, seed: int) -> None:
            inputs = self.look()
            self.note(command, self.run(command, seed=seed), inputs)
            self.check()

        @rule(command=ALONE, crash=CRASHES, seed=st.integers(0, 1 << 20))
        def kill_a_command(self, command: Command, crash: tuple[str, int], seed: int) -> None:
            inputs = self.look()
            done = self.run(command, crash=crash, seed=seed)
            if "killed" in done:
                assert self.run(("verify", 0))["problems"] == []
                done = self.run(command, seed=seed)
            self.note(command, done, inputs)
            self.check()

        @rule(commands=st.tuples(COMMANDS, COMMANDS), seed=st.integers(0, 1 << 20))
        def run_two_at_once(self, commands: tuple[Command, Command], seed: int) -> None:
            inputs = self.look()
            numbers = [
                warm.start(self.build_file, self.where(), command=list(command), seed=seed) for command in commands
            ]
            for command, done in zip(commands, [warm.wait(number) for number in numbers], strict=True):
                if command[0] != "learn" or "error" in done:  # which commit it has learned from is not known
                    self.note(command, done, inputs)
            self.check()

        @precondition(lambda self: self.is_as_pinned())
        @rule()
        def encode_anew(self) -> None:
            learned = self.run(("learn", LEARNED))["fingerprint"]
            done = self.run(("encode", self.where("anew"), learned))
            assert "root" in done, done
            found = tokcore.open_shards(self.folder / "anew", "all")
            tokenizer = tokcore.Tokenizer.load(self.folder / "anew")
            assert tokenizer.fingerprint == learned
            assert {found.document(i).id: tokenizer.decode(found[i][:-1]) for i in range(len(found))} == {
                one["id"]: one["text"].encode() for one in self.list_held()
            }
            shutil.rmtree(self.folder / "anew")

        # --------------------------------------------------------------------------------------- what the output holds

        def list_held(self) -> list[dict[str, str]]:
            """The documents that the output has to hold."""
            every = [one for name, (number, _) in sorted(self.held.items()) for one in list_documents(name, number)]
            return [one for one in every if one["id"] not in self.removed]

        def write_fresh(self) -> Path:
            """A folder with just these documents, in files of the same names; and a build file."""
            key = json.dumps([self.fingerprint, {n: v[0] for n, v in sorted(self.held.items())}, sorted(self.removed)])
            folder = base / "fresh" / f"{abs(hash(key)):x}"
            if not folder.exists():
                for name, (number, _) in self.held.items():
                    kept = [one for one in list_documents(name, number) if one["id"] not in self.removed]
                    write(folder / "in" / name, jsonl(kept))
                build_file(folder, SOURCES, SETTINGS + more)
            return folder

        def learn_fresh(self) -> str:
            """The fingerprint of the tokenizer that a build of these documents learns."""
            folder = self.write_fresh()
            if not (folder / "learned").exists():
                eager.seed(0, 0)
                config = load_config(str(folder / "build.toml"), (f"learn.vocab_size={LEARNED}",))
                Build(config, RunOptions(1, eager.RUNNER), str(folder / "learned")).run()
            return tokcore.Tokenizer.load(folder / "learned").fingerprint

        def check(self) -> None:
            """Compare the newest commit with a fresh build, and have it verified."""
            folder = self.write_fresh()
            if str(folder) not in fresh:
                fresh[str(folder)] = build_fresh(folder / "build.toml", folder / "out", self.output)
            log = read_log(str(self.output))
            if log.commits:
                newest, expected = log.commits[-1].totals, fresh[str(folder)]
                for name in ("files", "documents", "text_bytes", "tokens", "documents_digest"):
                    assert getattr(newest, name) == getattr(expected, name), name
            for lang in LANGS:
                assert open_rows(self.output, lang) == open_rows(folder / "out", lang)
            for split in ("train", "validation"):
                mine, theirs = (tokcore.open_shards(place, split) for place in (self.output, folder / "out"))
                assert sorted(ids.tolist() for ids in mine) == sorted(ids.tolist() for ids in theirs)
            for stage in ("shards", "mixed", "packed") if more else ():
                below = stage if stage != "shards" else ""
                mine, theirs = (tokcore.open_shards(place / below, "all") for place in (self.output, folder / "out"))
                assert [ids.tolist() for ids in mine] == [ids.tolist() for ids in theirs], stage
                assert not {mine.document(i).id for i in range(len(mine))} & self.removed, stage
            is_compared = self.is_as_pinned()
            report = self.run(("verify", None if is_compared else 0))
            assert report.get("problems") == [], report
            if is_compared and not self.was_decoded:
                assert report["num_decoded"] == len(self.list_held())

    return History


def open_rows(output: Path, lang: str) -> list[dict[str, object]]:
    """The rows of a language's table; none if there is none."""
    try:
        return tokcore.open_counts(output, lang).to_pylist()
    except tokcore.ConfigError:
        return []


@pytest.mark.parametrize("more", ["", WHOLE], ids=["parts", "whole"])
@pytest.mark.parametrize("scheme", ["", "faultfs://"], ids=["disk", "store"])
def test_an_output_and_what_happens_to_it(warm, tmp_path, scheme, more):
    run_state_machine_as_test(
        machine(warm, tmp_path, scheme, more),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            # A failing example takes minutes to shrink; `make history` says what it did.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
