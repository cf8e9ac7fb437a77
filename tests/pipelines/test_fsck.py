"""tokcore fsck: every rule of each format, on seeded faults; indexes that are made again."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.builds import build_file, run, small_corpus, tokcore
from support.token_batches import FINGERPRINT, Document, batch_of, write_shard

from tokcore import open_shards
from tokcore.errors import ConfigError
from tokcore.formats.documents import DocumentsWriter
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings, StoredShard
from tokcore.shards.format_table import SHARD_FORMATS, list_paths
from tokcore.shards.shard_checks import Rules
from tokcore.shards.token_batch import ShardContent, compute_document_digests
from tokcore_pipelines.check.fsck import Report, check_shards
from tokcore_pipelines.store.crashpoints import MENDING_POINTS

END = 7
VOCAB_SIZE = 1000
ROWS: list[Document] = [
    ([1, 2, 3, END], "a", "en", "s.jsonl", 0),
    ([END], None, "sw", "s.jsonl", 1),
    ([*range(10, 310), END], "c", "en", "s.jsonl", 2),
]


def make_folder(name: str, folder: Path, rows: list[Document] = ROWS, num: int = 2, dtype: str = "int32") -> Path:
    """A folder of a format with shards of a split, its indexes, and documents files beside the shards."""
    one = SHARD_FORMATS[name]
    told = ShardSettings(FINGERPRINT, VOCAB_SIZE, "zstd", dtype)
    stored = []
    for number in range(num):
        stem = f"train-{number:05d}-00000"
        main = folder / list_paths(one, stem)[0].removeprefix(f"{name}/")
        path = write_shard(
            name, Path(str(main).removesuffix(one.suffixes[0])), rows, vocab_size=VOCAB_SIZE, dtype=dtype
        )
        content, batch = ShardContent(), batch_of(rows)
        content.update(batch, compute_document_digests(batch.langs, batch.tokens, batch.offsets))
        facts = ShardFacts(stem, 0, "", "train", len(rows), content.num_tokens, content.max_token_id)
        stored.append(StoredShard(facts, Path(path).stat().st_size, content.hexdigest()))
    for path, data in one.folder_index(stored, told).items():
        (folder / path).write_bytes(data)
    return folder


def check(folder: Path, repair: bool = False, **rules) -> Report:
    return check_shards(str(folder), Rules(**rules), repair)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_sound_folders_have_no_problems(tmp_path, name):
    report = check(make_folder(name, tmp_path / name), end=END, vocab_size=VOCAB_SIZE)
    assert report.problems == ()
    assert (report.shards, report.documents, report.tokens, report.formats) == (2, 6, 612, (name,))


@pytest.mark.parametrize("name", SHARD_FORMATS)
def test_ids_outside_of_the_vocabulary_and_wrong_ends_are_named_by_document(tmp_path, name):
    rows = [*ROWS, ([4, 5, 999], "d", "en", "s.jsonl", 3), ([1, END, 2, END], "e", "en", "s.jsonl", 4)]
    folder = make_folder(name, tmp_path / name, rows, num=1)
    (path,) = (str(path) for path in open_shards(folder).paths)
    report = check(folder, end=END, vocab_size=999)
    assert sorted(report.problems) == sorted(
        [
            f"{path}: document 3: id 999 at place 2: the vocabulary has 999 ids",
            f"{path}: document 3: does not end with id {END}",
            f"{path}: document 4: id {END} at place 1, before its end: a bound is missing",
        ]
    )
    assert check(folder).problems == ()


def test_only_the_first_of_many_breaches_are_listed(tmp_path):
    folder = make_folder("datatrove", tmp_path / "x", [([900], None, "en", "s", i) for i in range(30)], num=1)
    problems = check(folder, vocab_size=900).problems
    assert len(problems) == 11
    assert problems[-1].endswith("and 20 more")


def change(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def change_json(path: Path, change: Callable[[dict], object]) -> None:
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


def cut(path: Path) -> None:
    change(path, lambda data: data[:-1])


def put(place: int, code: str, value: int) -> Callable[[bytes], bytes]:
    def write(data: bytes) -> bytes:
        changed = bytearray(data)
        struct.pack_into(code, changed, place, value)
        return bytes(changed)

    return write


IDX = "train-00000-00000_text_document.idx"
SHARD = "train-00000-00000"
FAULTS = [
    ("megatron", lambda f: change(f / IDX, put(17, "<B", 9)), "byte 17: dtype code 9"),
    ("megatron", lambda f: change(f / IDX, put(34, "<i", 5)), "byte 54: offset of sequence 1"),
    ("megatron", lambda f: change(f / IDX, put(70, "<q", 9)), "byte 70: bound of document 0 is 9"),
    ("megatron", lambda f: cut(f / f"{SHARD}_text_document.bin"), "_text_document.bin: 1223 bytes"),
    ("megatron", lambda f: (f / IDX).unlink(), f"{IDX}: is not there"),
    (
        "megatron",
        lambda f: (f / "data_path.train").write_text("5 gone\n"),
        "line 1: names .*gone.bin, which is not there",
    ),
    (
        "megatron",
        lambda f: (f / "data_path.train").write_text("gone"),
        "line 1: 'gone': expected a weight and a prefix",
    ),
    ("nanogpt", lambda f: cut(f / f"{SHARD}.bin"), "611 bytes|611"),
    (
        "nanogpt",
        lambda f: change_json(f / "index.json", lambda c: c["files"][0].update(tokens=5)),
        r"files\[0\]: tokens 5",
    ),
    ("llmc", lambda f: change(f / f"{SHARD}.bin", put(8, "<i", 300)), "accounts for 300 ids|1024"),
    ("llmc", lambda f: change(f / f"{SHARD}.bin", put(40, "<i", 3)), "byte 40: expected zeros"),
    ("datatrove", lambda f: change(f / f"{SHARD}.ds.index", put(8, "<q", 2)), "document 1 ends at 2, before it begins"),
    ("datatrove", lambda f: (f / f"{SHARD}.ds.index").unlink(), ".ds.index: is not there"),
    ("olmo", lambda f: (f / f"{SHARD}.csv.gz").write_bytes(gzip.compress(b"0,4\n5,6\n")), "line 2: a document from 5"),
    ("array_record", lambda f: cut(f / f"{SHARD}.array_record"), "131071 bytes: not an ArrayRecord file, or cut off"),
    (
        "array_record",
        lambda f: change(f / f"{SHARD}.array_record", put(150, "<B", 99)),
        "byte 64: record 0: damaged|byte 132: record 1: damaged",
    ),
    (
        "array_record",
        lambda f: change(f / f"{SHARD}.array_record", put(65_535, "<B", 1)),
        "its footer is damaged",
    ),
    (
        "array_record",
        lambda f: change(f / f"{SHARD}.array_record", put(65_536 + 80, "<B", 1)),
        "not an ArrayRecord file of single records: its footer would be at byte|its footer is damaged",
    ),
    ("mds", lambda f: change(f / f"train/{SHARD}.mds", put(0, "<I", 2)), r"\.mds: byte"),
    ("mds", lambda f: (f / "train/index.json").unlink(), "no index.json names it"),
    ("mds", lambda f: (f / "train/index.json").write_text("[1]"), "not an index of these shards"),
    (
        "mds",
        lambda f: change_json(f / "train/index.json", lambda c: c["shards"][1].update(samples=9)),
        r"shards\[1\]: documents 9, .*train-00001-00000.mds has 3",
    ),
    (
        "mds",
        lambda f: change_json(
            f / "train/index.json", lambda c: c["shards"][0].update(column_encodings=["ndarray:uint16"])
        ),
        r"shards\[0\]: dtype uint16, .* has int32",
    ),
    (
        "litdata",
        lambda f: change_json(f / "train/index.json", lambda c: c["chunks"].pop()),
        "00001-00000.bin: no index.json",
    ),
    (
        "litdata",
        lambda f: change_json(f / "train/index.json", lambda c: c["chunks"][0].update(chunk_bytes=1)),
        r"chunks\[0\]: size_bytes 1,",
    ),
    (
        "huggingface",
        lambda f: change_json(f / "train/state.json", lambda c: c["_data_files"].append({"filename": "gone.arrow"})),
        r"_data_files\[2\]: names .*gone.arrow",
    ),
    ("huggingface", lambda f: cut(f / f"train/{SHARD}.arrow"), "not an Arrow stream, or cut off"),
    ("arrow", lambda f: cut(f / f"{SHARD}.arrow"), "not an Arrow file, or cut off"),
    ("parquet", lambda f: cut(f / f"{SHARD}.parquet"), "not a Parquet file, or cut off"),
]


@pytest.mark.parametrize(("name", "fault", "what"), FAULTS)
def test_a_seeded_fault_is_named(tmp_path, name, fault, what):
    folder = make_folder(name, tmp_path / name)
    fault(folder)
    problems = check(folder).problems
    assert problems
    assert any(re.search(what, problem) for problem in problems), problems
    assert all(str(tmp_path) in problem for problem in problems)


@pytest.mark.parametrize("name", [name for name, one in SHARD_FORMATS.items() if not one.has_columns])
def test_a_documents_file_of_another_shard_is_a_problem(tmp_path, name):
    folder = make_folder(name, tmp_path / name, num=1)
    (path,) = folder.rglob("*.documents")
    with path.open("wb") as file:
        writer = DocumentsWriter(file, FINGERPRINT, VOCAB_SIZE, "none")
        writer.write(batch_of([(row[0][: 1 + i], *row[1:]) for i, row in enumerate(ROWS)]))
        writer.close()
    assert check(folder).problems


def test_shards_of_several_tokenizers_and_dtypes_are_problems(tmp_path):
    folder = make_folder("megatron", tmp_path / "x", num=1)
    (folder / "data_path.train").unlink()
    write_shard("megatron", folder / "train-00009-00000", ROWS, "cd" * 32, vocab_size=VOCAB_SIZE, dtype="uint16")
    problems = check(folder).problems
    assert [problem.split(": ")[1].split()[0] for problem in problems] == ["dtype", "fingerprint"]


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("mds", "train/index.json"),
        ("litdata", "train/index.json"),
        ("nanogpt", "index.json"),
        ("megatron", "data_path.train"),
        ("megatron", IDX),
        ("datatrove", f"{SHARD}.ds.index"),
        ("olmo", f"{SHARD}.csv.gz"),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "uint16"])
def test_an_index_is_made_again_byte_for_byte(tmp_path, name, index, damage, dtype):
    if dtype == "uint16" and dtype not in SHARD_FORMATS[name].dtypes:
        return
    folder = make_folder(name, tmp_path / name, dtype=dtype)
    sound = files_below(folder)
    path = folder / index
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(sound[index][:-2] if damage == "cut" else b"\x01\x02" + sound[index][2:])
    damaged = files_below(folder)
    found = check(folder)
    if damage == "gone" and not found.problems:
        assert index in ("data_path.train", "index.json")  # readers can do without
        return
    assert found.problems
    assert files_below(folder) == damaged
    report = check(folder, repair=True)
    assert report.problems == ()
    assert report.repaired == (str(path),)
    assert files_below(folder) == sound
    assert check(folder).problems == ()


@pytest.mark.parametrize(("name", "index"), [("megatron", IDX), ("datatrove", f"{SHARD}.ds.index")])
def test_bounds_are_found_by_the_id_that_ends_documents(tmp_path, name, index):
    folder = make_folder(name, tmp_path / name, num=1)
    sound = files_below(folder)
    for path in (folder / index, *folder.glob("*.documents")):
        path.unlink()
    report = check(folder, repair=True)
    assert any("give the id that ends each with --end ID" in problem for problem in report.problems)
    dtype = "int32" if name == "megatron" else "uint16"
    report = check(folder, repair=True, end=END, dtype=dtype)
    assert report.problems == ()
    assert (folder / index).read_bytes() == sound[index]


def test_what_the_data_do_not_allow_is_left_as_it_is(tmp_path):
    folder = make_folder("megatron", tmp_path / "x")
    cut(folder / f"{SHARD}_text_document.bin")
    damaged = files_below(folder)
    report = check(folder, repair=True)
    assert report.repaired == ()
    assert any("not made again" in problem for problem in report.problems)
    assert files_below(folder) == damaged
    folder = make_folder("mds", tmp_path / "y")
    cut(folder / f"train/{SHARD}.mds")
    (folder / "train/index.json").unlink()
    report = check(folder, repair=True)
    assert any("is not made again while a shard is damaged" in problem for problem in report.problems)
    assert not (folder / "train/index.json").exists()


@pytest.mark.parametrize("point", MENDING_POINTS)
@pytest.mark.parametrize(("name", "damaged"), [("megatron", "*.idx"), ("mds", "index.json")])
def test_a_repair_that_is_killed_is_done_by_the_next(tmp_path, name, damaged, point):
    folder = make_folder(name, tmp_path)
    sound = files_below(folder)
    path = sorted(folder.rglob(damaged))[0]
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
    killed = tokcore("fsck", folder, "--repair", env=os.environ | {"TOKCORE_CRASH": f"{point}:1"})
    moves = name == "megatron"  # an index of a folder follows from the shards, so nothing has to be kept
    assert killed.returncode == (-signal.SIGKILL if moves or point != "fsck.moved" else 0)
    assert check(folder, repair=True).problems == ()
    assert files_below(folder) == sound


def test_an_output_is_mended_by_repair(tmp_path):
    folder = make_folder("mds", tmp_path / "shards" / "mds")
    (tmp_path / "shards" / "manifest.json").write_text("{}")
    with pytest.raises(ConfigError, match="`tokcore repair OUTPUT` repairs it"):
        check(folder, repair=True)
    assert check(folder).problems == ()


def test_of_an_output_the_shards_are_checked_and_no_tables(tmp_path):
    """Tables of counts are Parquet files, too. What lies beside the output is another's."""
    small_corpus(tmp_path)
    settings = '[learn]\nvocab_size = 400\n[shards]\nformats = ["parquet", "mds"]\n[pack]\nlength = 64\n'
    run(build_file(tmp_path, settings=settings), tmp_path / "out")
    report = check(tmp_path / "out")
    num = len(open_shards(tmp_path / "out").paths) + len(open_shards(tmp_path / "out/packed").paths)
    assert (report.shards, report.formats, report.problems) == (2 * num, ("mds", "parquet"), ())
    make_folder("nanogpt", tmp_path / "theirs")
    assert check(tmp_path).formats == ("mds", "parquet", "nanogpt")
    shard = next((tmp_path / "out/shards/mds").rglob("*.mds"))
    shard.unlink()
    for place in ("out", "out/shards/mds"):
        assert any(
            f"{shard}: is not there: the manifest names it" in problem for problem in check(tmp_path / place).problems
        ), place


@pytest.mark.parametrize("name", ["manifest.json", "shards/manifest.json"])
@pytest.mark.parametrize("place", ["", "shards/arrow"])
def test_no_manifest_that_is_a_fifo_is_waited_for(output, name, place):
    (output / name).unlink()
    os.mkfifo(output / name)
    done = tokcore("fsck", output / place, timeout=60)
    assert done.returncode == 1, done.stderr
    assert f"{output / name}: expected a file, found a folder, a FIFO or a device\n" in done.stdout
    assert "counts/" not in done.stdout
    with pytest.raises(ConfigError, match="`tokcore repair OUTPUT` repairs it"):
        check(output / place, repair=True)


@pytest.mark.parametrize(
    "name", ["arrow/train-*.arrow", "megatron/train-*.idx", "documents/train-*.documents", "megatron/data_path.train"]
)
@pytest.mark.parametrize("kind", ["FIFO", "link"])
def test_what_is_no_file_of_an_output_is_named_and_not_opened(output, name, kind):
    whole = check(output)
    path = sorted((output / "shards").glob(name))[0]
    path.unlink()
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/passwd")
    what = "expected a file, found a folder, a FIFO or a device" if kind == "FIFO" else "a link to a place outside"
    for place in (output, output / "shards", path.parent):
        (problem,) = check(place).problems
        assert problem.startswith(f"{path}: {what}")
    assert 0 < check(output).shards < whole.shards


def test_a_foreign_shard_with_bounds_that_are_no_file(tmp_path):
    folder = make_folder("datatrove", tmp_path / "x")
    bounds = folder / f"{SHARD}.ds.index"
    bounds.unlink()
    os.mkfifo(bounds)
    assert f"{bounds}: expected a file, found a folder, a FIFO or a device" in check(folder).problems
    done = tokcore("fsck", bounds, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a file or a folder, found a FIFO" in done.stderr


def test_the_command(tmp_path):
    folder = make_folder("mds", tmp_path / "x")
    done = tokcore("fsck", folder)
    assert (done.returncode, done.stdout) == (0, "2 shards (mds), 6 documents, 612 tokens: no problems\n")
    (folder / "train/index.json").unlink()
    done = tokcore("fsck", folder, "--json")
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["problems"]) == 2
    done = tokcore("fsck", folder, "--repair")
    assert done.returncode == 0
    assert f"made again: {folder}/train/index.json" in done.stdout
    for words, what in (
        ([tmp_path / "none"], "there is no such file or folder"),
        (["s3://bucket/x"], "reads local files"),
    ):
        done = tokcore("fsck", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert what in done.stderr


def test_llmc_of_others_is_checked_without_bounds(tmp_path):
    header = np.zeros(256, "<i4")
    header[:3] = (20240520, 1, 3)
    (tmp_path / "fineweb_train_000001.bin").write_bytes(header.tobytes() + np.array([1, 2, 50256], "<u2").tobytes())
    assert check(tmp_path, end=50256).problems == ()
    (problem,) = check(tmp_path, vocab_size=50256).problems
    assert "document 0: id 50256 at place 2" in problem
