"""Faults of a log: each is named by `tokcore verify`, also where hashes were corrected, and readers refuse it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from support.builds import build_file, run
from support.updates import SETTINGS, SOURCES, make_texts, update_here, write_corpus, write_file

from tokcore.errors import TokError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.commit_log import hash_parts, name_part, parse_commit
from tokcore_schemas.stage_table import WHOLE, parse_manifest


@pytest.fixture(scope="module")
def updated(tmp_path_factory):
    """An output with three commits, and one of other documents with one."""
    folder = tmp_path_factory.mktemp("faults")
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS)
    run(path, folder / "out")
    for name in ("e", "f", "g"):
        write_file(folder, f"en/{name}.jsonl", make_texts(name, 4))
        update_here(path, folder / "out")
    other = folder / "elsewhere"
    write_corpus(other)
    write_file(other, "en/b.jsonl", make_texts("quite another fox", 12))
    path = build_file(other, SOURCES, SETTINGS)
    run(path, other / "out")
    write_file(other, "en/h.jsonl", make_texts("h", 4))
    update_here(path, other / "out")
    return folder


@pytest.fixture
def output(updated, tmp_path):
    shutil.copytree(updated / "out", tmp_path / "out")
    return tmp_path / "out"


def read(output: Path, number: int) -> dict:
    return json.loads((output / "log" / f"{number}.json").read_bytes())


def write(output: Path, number: int, commit: dict) -> None:
    (output / "log" / f"{number}.json").write_bytes(write_canonical_json(commit))


def hash_again(output: Path, number: int) -> None:
    """Make the commits after an edited one follow from it."""
    while (output / "log" / f"{number + 1}.json").exists():
        data = (output / "log" / f"{number}.json").read_bytes()
        commit = read(output, number + 1)
        commit["previous"] = hashlib.sha256(data).hexdigest()
        write(output, number + 1, commit)
        number += 1


def gap(output: Path, _updated: Path) -> None:
    (output / "log" / "2.json").unlink()


def fork(output: Path, _updated: Path) -> None:
    """Commit 2 is replaced by one that could have been, without what came after."""
    commit = read(output, 2)
    commit["why"]["new"] = 9
    write(output, 2, commit)


def fork_at_the_end(output: Path, updated: Path) -> None:
    shutil.copy(updated / "elsewhere" / "out" / "log" / "1.json", output / "log" / "4.json")


def edited_and_hashed_again(output: Path, _updated: Path) -> None:
    commit = read(output, 2)
    commit["totals"]["documents"] += 1
    write(output, 2, commit)
    hash_again(output, 2)


def digest_edited_and_hashed_again(output: Path, _updated: Path) -> None:
    for number in (1, 2, 3):
        commit = read(output, number)
        commit["totals"]["documents_digest"] = read(output, 3)["totals"]["documents_digest"]
        write(output, number, commit)
        hash_again(output, number)


def part_left_out_and_hashed_again(output: Path, _updated: Path) -> None:
    commit = read(output, 3)
    commit["parts"] = commit["parts"][1:]
    write(output, 3, commit)


def root_edited(output: Path, _updated: Path) -> None:
    commit = read(output, 3)
    commit["root"] = "0" * 64
    write(output, 3, commit)


def add_part(output: Path, path: str) -> None:
    """Let the last commit name the part at a path in place of what it added, with all hashes as they should be."""
    commit = parse_commit((output / "log" / "3.json").read_bytes(), "3.json")
    data = (output / path / "manifest.json").read_bytes()
    root = parse_manifest(data, "manifest.json", WHOLE).root
    value = read(output, 3)
    value["added"] = [{"path": path, "root": root, "sha256": hashlib.sha256(data).hexdigest()}]
    value["parts"] = value["parts"][:-1] + value["added"]
    parts = [type(commit.parts[0])(**part) for part in value["parts"]]
    value["root"] = hash_parts(parts)
    write(output, 3, value)


def part_of_another_output(output: Path, updated: Path) -> None:
    """Its tokenizer is another one."""
    theirs = updated / "elsewhere" / "out"
    (part,) = parse_commit((theirs / "log" / "1.json").read_bytes(), "1.json").added
    shutil.copytree(theirs / part.path, output / part.path)
    add_part(output, part.path)


def part_with_another_name(output: Path, _updated: Path) -> None:
    last = read(output, 3)["added"][0]["path"]
    (output / last).rename(output / name_part("0" * 64))
    add_part(output, name_part("0" * 64))


def part_twice(output: Path, _updated: Path) -> None:
    add_part(output, read(output, 1)["added"][0]["path"])


def part_gone(output: Path, _updated: Path) -> None:
    shutil.rmtree(output / read(output, 2)["added"][0]["path"])


def part_made_again(output: Path, _updated: Path) -> None:
    """Its manifest is replaced by that of the part after it."""
    one, other = (output / read(output, number)["added"][0]["path"] / "manifest.json" for number in (2, 3))
    one.write_bytes(other.read_bytes())


def file_of_a_part_damaged(output: Path, _updated: Path) -> None:
    path = next((output / read(output, 2)["added"][0]["path"] / "shards" / "arrow").iterdir())
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))


def not_canonical(output: Path, _updated: Path) -> None:
    (output / "log" / "2.json").write_text(json.dumps(read(output, 2), indent=1))


def stray_file(output: Path, _updated: Path) -> None:
    (output / "log" / "notes.txt").write_text("hello")


def files_of_a_part_damaged(output: Path, _updated: Path) -> None:
    """Its list of input files cannot be read, which stops neither this check nor others."""
    path = output / read(output, 2)["added"][0]["path"] / "plan" / "files.jsonl"
    path.write_bytes(path.read_bytes().replace(b"{", b"[", 1))


FAULTS = {
    gap: "log/3.json: there is no log/2.json: the log has a gap",
    fork: "log/3.json: does not follow from log/2.json",
    fork_at_the_end: "log/4.json: says that it is commit 1",
    edited_and_hashed_again: "log/2.json: its totals: documents = 51, its parts have 50",
    digest_edited_and_hashed_again: "log/1.json: its totals: documents_digest = ",
    part_left_out_and_hashed_again: "log/3.json: its parts are not those of the commit before",
    root_edited: "log/3.json: its root does not follow from its parts",
    part_of_another_output: "a part of another output: its tokenizer is",
    part_with_another_name: "a part of another output: its name does not follow from its plan",
    part_twice: "log/3.json: its parts are not those of the commit before",
    part_gone: "manifest.json: missing",
    part_made_again: "not the manifest that the log names",
    file_of_a_part_damaged: "its bytes are not the ones that were committed",
    files_of_a_part_damaged: "plan/files.jsonl: its bytes are not the ones that were committed",
    not_canonical: "log/2.json: ",
    stray_file: "log/notes.txt: no manifest names it",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_verification_names_a_fault(output, updated, fault):
    fault(output, updated)
    problems = verify(str(output)).problems
    assert any(FAULTS[fault] in problem for problem in problems), problems


def test_other_parts_are_checked_where_the_list_of_files_of_one_is_damaged(output, updated):
    files_of_a_part_damaged(output, updated)
    (output / "README.md").write_text("edited")
    shard = next((output / read(output, 3)["added"][0]["path"] / "shards" / "arrow").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1])
    first, second, third = sorted(verify(str(output)).problems)
    assert first.startswith("README.md: ")
    assert {one.split("/", 2)[2].split(":")[0] for one in (second, third)} == {
        "plan/files.jsonl",
        f"shards/arrow/{shard.name}",
    }


def test_totals_are_compared_field_by_field(output, updated):
    commit = read(output, 3)
    digest = commit["totals"]["documents_digest"]
    commit["totals"]["documents_digest"] = "f" * len(digest)
    commit["totals"]["tokens"] += 1
    write(output, 3, commit)
    tokens = commit["totals"]["tokens"]
    assert verify(str(output)).problems[:2] == (
        f"log/3.json: its totals: tokens = {tokens}, its parts have {tokens - 1}",
        f"log/3.json: its totals: documents_digest = {'f' * 16}..., its parts have {digest[:16]}...",
    )


def test_a_log_without_faults_has_no_problems(output):
    report = verify(str(output))
    assert (report.problems, report.num_leftovers) == ((), 0)
    assert report.root == read(output, 3)["root"] == read_log(str(output)).commits[-1].root


def test_an_unbroken_log_ends_before_a_gap(output, updated):
    """What comes after a gap is no state of the output; verification says that it is there."""
    gap(output, updated)
    assert read_log(str(output)).newest == 1


@pytest.mark.parametrize("fault", [fork, fork_at_the_end, part_left_out_and_hashed_again, root_edited])
def test_readers_refuse_a_broken_log(output, updated, fault):
    fault(output, updated)
    with pytest.raises(TokError, match=r"log/\d.json: .*`tokcore verify` says more"):
        read_log(str(output))
