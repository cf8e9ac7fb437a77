"""Long files that can be rejected whole are cut, and all of their ranges count, or none (issue 43, item 8)."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import ON_BEAM, build_file, drop_result_key, jsonl, run, texts, tokcore
from support.seekable_files import write_bgzf, write_seekable_zstd, write_xz
from support.slices import SliceProcesses

import tokcore as api
from tokcore.count.pretoken_tables import read_table
from tokcore_pipelines.build import plan_corpus
from tokcore_pipelines.build.inherited_items import find_inheritance
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.build.prove_files import prove_files
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import PROVING_POINTS
from tokcore_pipelines.store.storage import FileId
from tokcore_pipelines.work.cut_points import find_cuts
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.config import load_config
from tokcore_schemas.plan import ReadSettings

NUM = 240
DOCUMENTS = [
    {"id": f"{lang}-{i}", "lang": lang, "text": text}
    for i in range(NUM // 4)
    for lang, text in ((lang, texts(lang, NUM // 4)[i]) for lang in ("en", "ru", "zh", "hi"))
]
SOURCE = '[[source]]\nfiles = "long.*"\nid = "id"\nlang_field = "lang"\n'
SETTINGS = """
[plan]
range_bytes = 6000
[learn]
vocab_size = 400
[shards]
target_tokens = 3000
"""


def write_parquet(path: Path, documents: list[dict[str, str]] = DOCUMENTS) -> None:
    columns = {name: pa.array([one[name] for one in documents]) for name in ("id", "lang", "text")}
    pq.write_table(pa.table(columns), path, row_group_size=16, use_dictionary=False, write_page_checksum=True)


def cut_into_blocks(data: bytes, size_bytes: int = 2500) -> list[bytes]:
    return [data[start : start + size_bytes] for start in range(0, len(data), size_bytes)]


WRITERS = {
    "parquet": write_parquet,
    "jsonl.gz": lambda path: path.write_bytes(write_bgzf(cut_into_blocks(jsonl(DOCUMENTS)))),
    "jsonl.zst": lambda path: path.write_bytes(write_seekable_zstd(cut_into_blocks(jsonl(DOCUMENTS)), in_frames=True)),
    "jsonl.xz": lambda path: path.write_bytes(write_xz(cut_into_blocks(jsonl(DOCUMENTS)))),
}


def write_folder(folder: Path, name: str, settings: str = SETTINGS) -> Path:
    """A build file over one long file of a kind; its path."""
    folder.mkdir(parents=True)
    if name == "jsonl":
        (folder / "long.jsonl").write_bytes(jsonl(DOCUMENTS))
    else:
        WRITERS[name](folder / f"long.{name}")
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return build_file(folder, SOURCE, settings)


def count_ranges(output: Path) -> int:
    (file,) = Stored(str(output)).plan.files
    return len(file.cuts)


def read_counts(output: Path) -> dict[str, list[tuple[bytes, int, int]]]:
    found = {}
    for file in sorted((output / "counts").glob("*.parquet")):
        with pa.OSFile(str(file)) as opened:
            found[drop_result_key(file.name)] = [
                (rows.keys.text(i), int(rows.counts[i]), int(rows.documents[i]))
                for rows in read_table(opened)
                for i in range(rows.num_rows)
            ]
    return found


def read_ids(output: Path) -> list[tuple[str, str, list[int]]]:
    """Language, id and tokens of all documents, in the order of shards."""
    shards = api.open_shards(output)
    return [(shards.document(i).lang, shards.document(i).id or "", shards[i].tolist()) for i in range(len(shards))]


def describe_whole(output: Path) -> dict[str, bytes]:
    """All committed files but those that say when and where."""
    return {
        path.relative_to(output).as_posix(): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file() and path.name != "run.json" and "_attempts" not in path.parts
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_file_gives_what_a_plain_one_gives(tmp_path, name):
    for kind in ("jsonl", name):
        run(write_folder(tmp_path / kind, kind), tmp_path / kind / "out")
    plain, cut = tmp_path / "jsonl" / "out", tmp_path / name / "out"
    assert count_ranges(cut) >= 4
    assert read_counts(cut) == read_counts(plain)
    spec = "tokenizer/tokenizer.json"
    assert (cut / spec).read_bytes() == (plain / spec).read_bytes()
    assert read_ids(cut) == read_ids(plain)
    assert len(read_ids(cut)) == NUM
    told = tokcore("verify", cut, "--decode", "all")
    assert told.returncode == 0, told.stderr


OTHER = '[[source]]\nfiles = "other.jsonl"\nid = "id"\nlang_field = "lang"\n'
REJECTS = '[build]\noutput = "out"\nmax_rejected = 1\n'


def write_damaged(folder: Path, name: str, damage: str, range_bytes: int) -> Path:
    """A build file over a long file that is damaged, and a sound one; its path."""
    write_folder(folder, name)
    (folder / "other.jsonl").write_bytes(jsonl(DOCUMENTS[:40]))
    long = folder / f"long.{name}"
    data = bytearray(long.read_bytes())
    if damage == "middle":
        data[len(data) // 2] ^= 1
    elif damage == "end":
        del data[-9:]
    elif damage == "last part":
        del data[len(data) * 3 // 4 :]
    elif damage == "behind":
        data += b"garbage"
    long.write_bytes(data)
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    settings = SETTINGS.replace("6000", str(range_bytes))
    path = build_file(folder, SOURCE + OTHER, settings)
    path.write_text(path.read_text().replace('[build]\noutput = "out"\n', REJECTS))
    return path


def read_rejected(output: Path) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The lines of files.jsonl, and those of rejected.jsonl without details."""
    folder = output / "rejected"
    files, rejects = (
        [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in ("files", "rejected")
    )
    return files, [{**one, "detail": ""} for one in rejects]


@pytest.mark.parametrize("damage", ["middle", "end", "last part", "behind"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_rejected_as_if_one_worker_had_read_it(tmp_path, name, damage):
    found = []
    for kind, range_bytes in (("whole", 1 << 30), ("cut", 6000)):
        path = write_damaged(tmp_path / kind, name, damage, range_bytes)
        run(path, tmp_path / kind / "out")
        found.append((read_rejected(tmp_path / kind / "out"), sorted(read_ids(tmp_path / kind / "out"))))
    whole, cut = found
    assert cut == whole
    (_, rejects), ids = cut
    assert [(one["file"], one["record"]) for one in rejects] == [(f"long.{name}", None)]
    assert len(ids) == 40
    is_cut = bool(Stored(str(tmp_path / "cut" / "out")).plan.files[0].cuts)
    assert is_cut == (damage == "middle")
    told = tokcore("verify", tmp_path / "cut" / "out", "--decode", "all")
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("damage", ["", "middle"])
@pytest.mark.parametrize("shuffle", ["", "[shuffle]\nseed = 7\n"])
def test_workers_and_engines_give_the_same(tmp_path, damage, shuffle):
    found = []
    for kind, how in (("here", {}), ("workers", {"workers": 2}), ("beam", {"runner": ON_BEAM})):
        if damage:
            path = write_damaged(tmp_path / kind, "parquet", damage, 6000)
        else:
            path = write_folder(tmp_path / kind, "parquet", SETTINGS)
        path.write_text(path.read_text() + shuffle)
        run(path, tmp_path / kind / "out", **how)
        found.append(describe_whole(tmp_path / kind / "out"))
    assert found[0] == found[1] == found[2]


# ------------------------------------------------------------------------------------------------- what comes later


def is_sound(output: Path) -> None:
    told = tokcore("verify", output, "--decode", "all")
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    ("name", "settings"), [("parquet", ""), ("parquet", "[shuffle]\nseed = 7\n"), ("jsonl.gz", ""), ("jsonl.xz", "")]
)
def test_a_commit_over_a_cut_file_is_that_over_a_plain_one(tmp_path, name, settings):
    """Documents are removed and taken back, and a file changes: each commit has the documents of the plain file."""
    (tmp_path / "ids").write_text("en-3\nru-40\nhi-59\n")
    found: dict[str, list[list[tuple[str, str, list[int]]]]] = {}
    for kind in ("jsonl", name):
        folder = tmp_path / kind
        write_folder(folder, kind)
        (folder / "other.jsonl").write_bytes(jsonl([{**one, "id": one["id"] + "-other"} for one in DOCUMENTS[:40]]))
        path = build_file(folder, SOURCE + OTHER, SETTINGS + settings)
        run(path, folder / "out")
        ids = ("--ids", str(tmp_path / "ids"))
        for command in (
            ("remove", str(folder / "out"), *ids),
            ("update", str(path)),
            ("restore", str(folder / "out"), *ids),
            ("update", str(path)),
        ):
            if command[0] == "update" and len(found.get(kind, ())) == 1:
                changed = [{**one, "id": one["id"] + "-new"} for one in DOCUMENTS[30:60]]
                (folder / "other.jsonl").write_bytes(jsonl(changed))
            told = tokcore(*command)
            assert told.returncode == 0, told.stderr
            found.setdefault(kind, []).append(sorted(read_ids(folder / "out")))
            is_sound(folder / "out")
    assert found[name] == found["jsonl"]
    assert [len(one) for one in found[name]] == [NUM + 37, NUM + 27, NUM + 27, NUM + 30]


@pytest.mark.parametrize("name", ["parquet", "jsonl.gz"])
def test_what_is_damaged_in_an_output_is_made_again(tmp_path, name):
    path = write_damaged(tmp_path / "corpus", name, "middle", 6000)
    write_folder(tmp_path / "sound", name)
    long = tmp_path / "sound" / f"long.{name}"
    long.rename(tmp_path / "corpus" / f"long.2.{name}")
    run(path, tmp_path / "out")
    before = describe_whole(tmp_path / "out")
    assert len(read_ids(tmp_path / "out")) == NUM + 40
    for pattern in ("shards/**/*.arrow", "counts/*.parquet", "rejected/*.jsonl"):
        for file in sorted((tmp_path / "out").glob(pattern))[:2]:
            file.write_bytes(b"x" + file.read_bytes()[1:])
        told = tokcore("repair", tmp_path / "out")
        assert told.returncode == 0, told.stdout + told.stderr
        assert describe_whole(tmp_path / "out") == before


def test_shards_are_not_made_again_where_it_is_lost_which_files_are_rejected(tmp_path):
    """Of a build that counts nothing, what was rejected cannot be made again."""
    path, output = write_folder(tmp_path / "corpus", "parquet"), tmp_path / "out"
    run(path, tmp_path / "learned")
    imported = f'[tokenizer]\nfrom = "{tmp_path}/learned/tokenizer/tokenizer.json"\n'
    path.write_text(path.read_text().replace("[learn]\nvocab_size = 400\n", imported))
    run(path, output)
    shard = sorted(output.glob("shards/**/*.arrow"))[0]
    for file in (shard, output / "rejected" / "rejected.jsonl"):
        file.write_bytes(b"x" + file.read_bytes()[1:])
    found = repair(str(output), base=str(path.parent))
    assert found.repaired == ()
    damaged = ["rejected/rejected.jsonl", shard.relative_to(output).as_posix()]
    assert [said.split(": ")[0] for said in found.left] == damaged


# ------------------------------------------------------------------------------------------------ killed, and shared


@pytest.mark.parametrize("point", [*PROVING_POINTS, "count.item", "encode.item"])
def test_killed_builds_go_on(tmp_path, point):
    path = write_damaged(tmp_path / "corpus", "parquet", "middle", 6000)
    run(path, tmp_path / "whole")
    command = ("build", path, "--output", tmp_path / "out", "--workers", "1")
    killed = tokcore(*command, env={**os.environ, "TOKCORE_CRASH": f"{point}:2"})
    assert killed.returncode != 0
    done = tokcore(*command)
    assert done.returncode == 0, done.stderr
    assert describe_whole(tmp_path / "out") == describe_whole(tmp_path / "whole")


class Here:
    """Does the tasks of a step one after the other, in this process."""

    def do(self, step, attempts, on_progress, measured):
        for task in step.list_tasks():
            task.function(*task.arguments)
        return False


def test_a_record_of_a_proof_is_of_the_same_range_whatever_is_known(tmp_path):
    """A build that goes on may know of other files than before that they are sound."""
    damaged = write_damaged(tmp_path / "corpus", "parquet", "middle", 6000)
    shutil.copy(tmp_path / "corpus" / "long.parquet", tmp_path / "corpus" / "long.b.parquet")
    write_parquet(tmp_path / "corpus" / "long.a.parquet")
    config = load_config(str(damaged))
    plan, progress = plan_build(config), StageProgress(-1)
    assert [file.uri for file in plan.files if file.cuts] == ["long.a.parquet", "long.b.parquet", "long.parquet"]
    attempts = Attempts(str(tmp_path / "out"), "count", "0" * 64)
    attempts.begin()
    wanted = prove_files(Here(), plan, attempts, config.base, progress).rejections
    assert [*wanted] == [1, 2]
    before = dataclasses.replace(plan, files=[one for one in plan.files if one.uri == "long.a.parquet"])
    assert prove_files(Here(), plan, attempts, config.base, progress, before).rejections == wanted


def test_slices_make_the_same_build(tmp_path):
    path = write_damaged(tmp_path / "corpus", "parquet", "middle", 6000)
    run(path, tmp_path / "whole")
    with SliceProcesses(path, tmp_path / "out", 2) as slices:
        for one in [slices.start(number) for number in (1, 2)]:
            code, _, err = one.wait()
            assert code == 0, err
    assert describe_whole(tmp_path / "out") == describe_whole(tmp_path / "whole")


@pytest.mark.parametrize("damage", ["", "middle"])
def test_builds_that_count_nothing_and_builds_that_drop_duplicates(tmp_path, damage):
    """Where counting comes later, or never, the stage that reads first proves the ranges."""
    found = []
    for kind, range_bytes in (("whole", 1 << 30), ("cut", 6000)):
        path = write_damaged(tmp_path / kind, "parquet", damage, range_bytes)
        run(path, tmp_path / kind / "learned")
        text = path.read_text()
        for name, more in (
            ("imported", f'[tokenizer]\nfrom = "{tmp_path}/whole/learned/tokenizer/tokenizer.json"\n'),
            ("deduped", '[dedup]\nby = "id"\n[learn]\nvocab_size = 400\n'),
        ):
            path.write_text(text.replace("[learn]\nvocab_size = 400\n", more))
            run(path, tmp_path / kind / name)
            found.append((kind, sorted(read_ids(tmp_path / kind / name)), read_rejected(tmp_path / kind / name)))
            is_sound(tmp_path / kind / name)
    assert [one[1:] for one in found if one[0] == "cut"] == [one[1:] for one in found if one[0] == "whole"]


def test_a_file_that_changes_after_its_proof_stops_the_build(tmp_path):
    """It is not as it was planned, and says so; a file of another content and the same time is not counted in part."""
    path = write_folder(tmp_path / "corpus", "parquet")
    command = ("build", path, "--output", tmp_path / "out", "--workers", "1")
    assert tokcore(*command, env={**os.environ, "TOKCORE_CRASH": "count.item:1"}).returncode != 0
    long = tmp_path / "corpus" / "long.parquet"
    data = bytearray(long.read_bytes())
    data[len(data) // 2] ^= 1
    long.write_bytes(data)
    os.utime(long, (1_700_000_000, 1_700_000_000))
    told = tokcore(*command)
    assert told.returncode == 3
    assert "was sound when its ranges were proved, and is not any more: corrupt" in told.stderr


# ------------------------------------------------------------------------------------------------------ what is planned


def test_only_long_files_are_asked_where_they_can_be_cut(tmp_path, monkeypatch):
    path = write_folder(tmp_path / "corpus", "jsonl.gz")
    asked = []

    def find(file: FileId, settings: ReadSettings, range_bytes: int) -> tuple[int, ...]:
        asked.append(file.url.rsplit("/", 1)[-1])
        return find_cuts(file, settings, range_bytes)

    monkeypatch.setattr(plan_corpus, "find_cuts", find)
    for number in range(50):
        shutil.copy(tmp_path / "corpus" / "long.jsonl.gz", tmp_path / "corpus" / f"long.{number}.jsonl.gz")
    write_bytes = write_bgzf(cut_into_blocks(jsonl(DOCUMENTS) * 5))
    (tmp_path / "corpus" / "long.jsonl.gz").write_bytes(write_bytes)
    path.write_text(path.read_text().replace("range_bytes = 6000", f"range_bytes = {len(write_bytes)}"))
    plan = plan_build(load_config(str(path)))
    assert asked == ["long.jsonl.gz"]
    assert [file.uri for file in plan.files if file.cuts] == ["long.jsonl.gz"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_plan_that_is_there_keeps_its_ranges(tmp_path, name, monkeypatch):
    """Of an earlier release, which cut no such file, as of this one, without a look at the file."""
    path = write_folder(tmp_path / "corpus", name)
    config, output = load_config(str(path)), str(tmp_path / "corpus" / "out")
    cut = plan_build(config)
    with monkeypatch.context() as earlier:
        earlier.setattr(plan_corpus, "find_cuts", lambda *_: ())
        uncut = plan_build(config)
        assert (len(uncut.items), len(cut.items)) == (1, len(cut.files[0].cuts))
        run(path, tmp_path / "corpus" / "out")
    assert plan_build(config, output) == uncut
    assert tokcore("build", path).returncode == 0
    assert plan_build(config, str(tmp_path / "fresh"), reuse=output) == uncut
    run(path, tmp_path / "new")
    monkeypatch.setattr(plan_corpus, "find_cuts", lambda *_: pytest.fail("the plan says it"))
    assert plan_build(config, str(tmp_path / "new")) == cut


def test_an_output_of_other_files_does_not_say_where_files_are_cut(tmp_path):
    """Nothing can be taken over of it, and the build is the one that it would be alone."""
    path = write_folder(tmp_path / "corpus", "parquet")
    config, other = load_config(str(path)), str(tmp_path / "other")
    run(path, Path(other))
    write_parquet(tmp_path / "corpus" / "long.2.parquet")
    alone = plan_build(config)
    assert len([file for file in alone.files if file.cuts]) == 2
    assert plan_build(config, str(tmp_path / "new"), reuse=other) == alone


def test_an_update_adds_long_files_uncut(tmp_path):
    path = write_folder(tmp_path / "corpus", "parquet")
    run(path, tmp_path / "corpus" / "out")
    write_parquet(tmp_path / "corpus" / "long.2.parquet", [{**one, "id": one["id"] + "-2"} for one in DOCUMENTS])
    told = tokcore("update", path)
    assert told.returncode == 0, told.stderr
    assert len(read_ids(tmp_path / "corpus" / "out")) == 2 * NUM
    is_sound(tmp_path / "corpus" / "out")


def test_a_removal_finds_equal_documents_beside_a_damaged_file(tmp_path):
    """Inputs are read again for the documents that are named, and for those that are equal to them."""
    (tmp_path / "ids").write_text("en-3\n")
    found = []
    for kind, range_bytes in (("whole", 1 << 30), ("cut", 6000)):
        path, output = write_damaged(tmp_path / kind, "parquet", "middle", range_bytes), tmp_path / kind / "out"
        path.write_text(path.read_text().replace("[learn]", '[dedup]\nby = "text"\n[learn]'))
        run(path, output)
        told = tokcore("remove", output, "--ids", tmp_path / "ids")
        assert told.returncode == 0, told.stderr
        found.append(sorted(read_ids(output)))
        is_sound(output)
    assert Stored(str(tmp_path / "cut" / "out")).plan.files[0].cuts
    assert found[0] == found[1]


def read_cuts(output: Path) -> dict[str, int]:
    """Uri -> number of ranges, of the files of the newest commit; 0: it is not cut."""
    log = read_log(str(output))
    plans = [Stored(locate_part(str(output), part)).plan for part in log.parts()]
    return {file.uri: len(file.cuts) for plan in plans for file in plan.files}


def test_a_file_stays_cut_as_it_is_once_the_first_plan_is_expired(tmp_path):
    """Nor are files cut that an update adds. Documents are named by their places, and those in shards are kept."""
    path = write_folder(tmp_path / "corpus", "jsonl.zst", SETTINGS + "[shuffle]\nseed = 7\n")
    output = tmp_path / "corpus" / "out"
    run(path, output)
    for number, num in ((2, 100), (3, 40)):
        more = [{**one, "id": f"{one['id']}-{number}"} for one in DOCUMENTS[:num]]
        data = write_seekable_zstd(cut_into_blocks(jsonl(more)), in_frames=True)
        (tmp_path / "corpus" / f"long.{number}.jsonl.zst").write_bytes(data)
        told = tokcore("update", path)
        assert told.returncode == 0, told.stderr
        if number == 2:
            told = tokcore("expire", output, "--keep", "1")
            assert told.returncode == 0, told.stderr
            assert not (output / "plan" / "files.jsonl").exists()
    assert len(read_ids(output)) == NUM + 140
    is_sound(output)
    cuts = read_cuts(output)
    assert cuts.pop("long.jsonl.zst") > 4
    assert cuts == {"long.2.jsonl.zst": 0, "long.3.jsonl.zst": 0}


def test_a_file_that_is_cut_otherwise_is_read_again(tmp_path):
    """Documents of a shuffle stay in their shards, but not if their places are others."""
    path = write_folder(tmp_path / "corpus", "jsonl.zst", SETTINGS + "[shuffle]\nseed = 7\n")
    for number in range(5):
        more = [{**one, "id": f"{one['id']}-{number}"} for one in DOCUMENTS[:80]]
        (tmp_path / "corpus" / f"long.{number}.jsonl").write_bytes(jsonl(more))
    run(path, tmp_path / "out")
    config, plan = load_config(str(path)), Stored(str(tmp_path / "out")).plan
    files = [dataclasses.replace(file, cuts=()) for file in plan.files]
    uncut = make_plan(files, plan.settings, config.plan.range_bytes)
    found = find_inheritance(str(tmp_path / "out"), uncut, config.base)
    assert found is not None
    assert len(found.kept) == len(uncut.items) - 1
    assert found.alike == frozenset()
