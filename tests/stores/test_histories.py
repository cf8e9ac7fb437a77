"""Histories of outputs in each store: every command says what it says of the same history on local disks.

Pins of inputs differ between stores, and with them what follows from pins: names of parts and files, hashes of
manifests. All else is equal: roots, totals, digests, tombstones, tokens, merges.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from stores.files import put, remove
from stores.servers import Store
from support import eager
from support.builds import build_file
from support.removals import SOURCES, write_documents
from support.updates import SMALL

import tokcore
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.cli import commands
from tokcore_pipelines.history.compact_output import Compact
from tokcore_pipelines.history.encode_commit import make_encoding
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.learn_beside import learn_at
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage
from tokcore_schemas.config import load_config

# Each change then makes all of it again.
WHOLE = """
[shuffle]
seed = 5
[mixture]
strategy = "weights"
weights = { en = 1.5 }
[pack]
length = 64
"""
OPTIONS = RunOptions(2, eager.RUNNER)
IDS = ["a-3", "e-1", "f-0", "h-2"]
# What pins decide: hashes of manifests, which name them, and sizes and names made of such hashes. And times.
OF_PINS = {"sha256", "previous", "mtime_ns", "size_bytes", "date", "seconds"}
NAMES = re.compile(r"parts/[0-9a-f]{12}|-[0-9a-f]{12}(?=[._]|$)")


class Place(NamedTuple):
    """Where a history is played."""

    files: Path  # a folder of this machine, where inputs are made
    url: str  # where they are read
    send: Callable[[str], None]  # bring an input file there as it is now, or that it is gone

    def write(self, name: str, *what: Any) -> None:
        write_documents(self.files, name, *what)
        self.send(name)

    def run(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        done = CliRunner().invoke(commands, [*arguments, "--json"])
        assert done.exit_code in (0, 1), done.output
        return json.loads(done.stdout)


def play(place: Place, more: str) -> dict[str, Any]:
    """Command, and when -> what it said or made. more: further tables of the build file."""
    said: dict[str, Any] = {}
    output = f"{place.url}/out"

    def open_build(*assigned: str) -> Build:
        eager.seed(0, 0)
        return Build(load_config(f"{place.url}/build.toml", assigned, storage.read_bytes), OPTIONS, output)

    def update(name: str) -> None:
        build = open_build()
        said[name] = Update(build.config, OPTIONS, output).run()

    def take_out(name: str, *ids: str) -> None:
        said[name] = Remove(output, ids, options=OPTIONS, allow_missing=True).run()

    build_file(place.files, SOURCES, SMALL + more, build="max_rejected = 1")
    place.send("build.toml")
    place.write("en/a.jsonl", 12)
    place.write("mixed/c.jsonl", 4, "de")
    said["build"] = open_build().run().root
    place.write("en/g.jsonl", 2)
    place.write("mixed/h.jsonl", 3, "de")
    update("update 1")
    place.write("en/g.jsonl", 2, "", "other")
    place.write("en/e.jsonl", 2)
    update("update 2")
    place.write("en/f.jsonl", 2)
    update("update 3")
    said["compact 4"] = Compact(output, options=OPTIONS).run()  # e and f get into one run
    take_out("remove 5", "a-3", "e-1", "f-0")
    (place.files / "mixed/h.jsonl").unlink()
    place.send("mixed/h.jsonl")
    take_out("remove 6", "h-2")  # from tokens
    if more:  # and so are documents of that file, in rows that stay where they are
        said["in place"] = Remove(output, ("a-4",), options=OPTIONS, in_place_rows=True).run()
    last = read_log(output).newest  # where each change makes one part, there was nothing to compact
    (learned,) = learn_at(open_build("learn.vocab_size=283"), 4)
    said["learn"] = learned.fingerprint
    make_encoding(open_build(), f"{place.url}/anew", 0, learned.fingerprint).run()
    said["encode"] = [one.tolist() for one in tokcore.open_shards(f"{place.url}/anew", "all")]
    for at in (0, 4, last):
        said[f"show {at}"] = place.run("show", output, "--at", str(at))
        said[f"rows {at}"] = [tokcore.open_counts(output, lang, at=at).to_pylist() for lang in ("en", "de")]
        for stage in ("", "/mixed", "/packed") if more else ("",):
            found = tokcore.open_shards(f"{output}{stage}", "all", at=at)
            said[f"ids {at} {stage}"] = [one.tolist() for one in found]
    said["diff"] = place.run("diff", output, output, "--at", "1", "--with", str(last))
    said["expire 7"] = expire(output, keep=2)._replace(out_of_reach="")._asdict()
    (place.files / "ids.txt").write_text("\n".join(IDS))
    said["removed"] = place.run("verify", output, "--removed", str(place.files / "ids.txt"))
    said["verify"] = dataclasses.asdict(verify(output, decode=None, options=RunOptions(here=True)))
    said["log"] = place.run("log", output)
    said["commits"] = [(one.root, one.removed, one.totals) for one in read_log(output).commits]
    return {name: strip(what, place.url) for name, what in said.items()}


def strip(value: Any, url: str) -> Any:
    """What a command said, without what follows from pins."""
    if dataclasses.is_dataclass(value):
        value = to_jsonable(value)
    if isinstance(value, dict):
        return {key: strip(one, url) for key, one in value.items() if key not in OF_PINS}
    if isinstance(value, (list, tuple)):
        return [strip(one, url) for one in value]
    return NAMES.sub("", value.replace(url, "")) if isinstance(value, str) else value


@pytest.fixture(scope="module", params=["", WHOLE], ids=["parts", "whole"])
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Further tables of the build file, and what commands say on local disks."""
    folder = tmp_path_factory.mktemp("local")
    return request.param, play(Place(folder, str(folder), lambda name: None), request.param)


def test_commands_say_what_they_say_on_local_disks(
    store: Store, local: tuple[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    url = store.fresh()

    def send(name: str) -> None:
        path = tmp_path / name
        put(store, f"{url}/{name}", path.read_bytes()) if path.exists() else remove(store, f"{url}/{name}")

    more, here = local
    there = play(Place(tmp_path, url, send), more)
    differ = {name: (said, there[name]) for name, said in here.items() if there[name] != said}
    assert differ == {}
