"""The log of an output, read: commits are what their files say, however they were read; old ones take little memory."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.builds import build_file, run
from support.updates import SETTINGS, SOURCES, make_texts, update_here, write_corpus, write_file

from tokcore_pipelines.build.cached_parts import KeptParts
from tokcore_pipelines.build.read_log import Log, read_log
from tokcore_schemas.commit_log import Part, parse_commit


@pytest.fixture(scope="module")
def output(tmp_path_factory) -> Path:
    """An output with four commits; the third takes the place of a part."""
    folder = tmp_path_factory.mktemp("log")
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS)
    run(path, folder / "out")
    for number, name in enumerate(("e", "f", "e", "g")):
        write_file(folder, f"en/{name}.jsonl", make_texts(f"{name} {number}", 4 + number))
        update_here(path, folder / "out")
    return folder / "out"


def read_files(output: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in (output / "log").iterdir()}


def test_parts_are_those_that_the_files_of_commits_name(output):
    log, files = read_log(str(output)), read_files(output)
    told = {number: parse_commit(data, str(number)) for number, data in files.items()}
    assert log.newest == len(told) == 4
    assert any(commit.dropped for commit in told.values())
    assert {number: log.parts(number) for number in told} == {number: one.parts for number, one in told.items()}
    assert log.parts() == told[4].parts
    (own,) = log.parts(0)
    reachable = {own: [0]}
    for number, commit in sorted(told.items()):
        for part in commit.parts:
            reachable.setdefault(part, []).append(number)
    assert log.reachable() == reachable


def test_hashes_are_those_of_the_files(output):
    log, files = read_log(str(output)), read_files(output)
    assert {number: log.hash_commit(number) for number in files} == {
        number: hashlib.sha256(data).hexdigest() for number, data in files.items()
    }
    assert log.hash_commit(0) == hashlib.sha256((output / "manifest.json").read_bytes()).hexdigest()


def test_a_log_that_is_followed_is_the_log_that_is_read_at_once(output):
    whole = read_log(str(output))
    followed = Log(str(output), whole.build, ())
    for data in (data for _, data in sorted(read_files(output).items())):
        followed = followed.add(parse_commit(data, "a commit"))
    assert followed == whole
    assert read_log(str(output), known=Log(str(output), whole.build, ())) == whole


def test_only_the_newest_commit_holds_its_parts(output):
    """Else the memory of a watcher would grow with the square of its commits."""
    *before, newest = read_log(str(output)).commits
    assert newest.parts
    assert not any(one.parts for one in before)


def test_kept_parts_are_read_once_and_forgotten_once_they_are_gone():
    read: list[str] = []

    def note(output: str, part: Part) -> str:
        read.append(part.path)
        return f"{output} {part.path}"

    kept = KeptParts(note)
    a, b, c = (Part(name, "", "") for name in "abc")
    assert kept.read_all("out", [a, b]) == ["out a", "out b"]
    assert kept.read_all("out", [c, b]) == ["out c", "out b"]
    assert sorted(read) == ["a", "b", "c"]
    assert kept.read_all("out", [a]) == ["out a"]
    assert kept.read_all("other", [a]) == ["other a"]
    assert sorted(read) == ["a", "a", "a", "b", "c"]
