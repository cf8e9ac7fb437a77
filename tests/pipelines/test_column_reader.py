"""Parquet and Arrow files that crash the process that reads them are rejected whole and named; the rest goes on."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builds import ROOT, build_file, drop_result_key, find_file, run, small_corpus, texts, tokcore, tree

from tokcore.errors import FormatError, StageError
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.rebuild import rebuild
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.look.audit import audit
from tokcore_pipelines.reading import column_reader, column_reader_messages, limits
from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_schemas.plan import ReadSettings

REGRESSIONS = ROOT / "tests" / "fuzz" / "regressions"
# Real files on which the real library ends the process, if it is called as CARELESS calls it.
CRASHING = {
    "parquet": REGRESSIONS / "parquet" / "histogram-of-other-levels",
    "arrow": REGRESSIONS / "arrow" / "view-behind-a-null",
}

# Every Python process runs this when it starts. In readers it adds calls that our checks avoid.
CARELESS = """
import sys
if "tokcore_pipelines.reading.column_reader_process" in sys.orig_argv:
    import pyarrow as pa
    import pyarrow.parquet as pq

    open_parquet, open_stream = pq.ParquetFile.__init__, pa.ipc.open_stream

    def ask_about_columns(self, *arguments, **options):
        open_parquet(self, *arguments, **options)
        for group in range(self.metadata.num_row_groups):
            for column in range(self.metadata.num_columns):
                self.metadata.row_group(group).column(column)

    def cast_views(source, **options):
        for batch in open_stream(source):
            for column in batch.columns:
                if column.type == pa.string_view():
                    column.view(pa.binary_view()).cast(pa.large_binary())
        source.seek(0)
        return open_stream(source, **options)

    pq.ParquetFile.__init__, pa.ipc.open_stream = ask_about_columns, cast_views
"""


def settings(kind: str = "parquet", **changes) -> ReadSettings:
    told = {"format": kind, "compression": "none", "text": "text", "id": "", "lang": "en", "lang_field": ""}
    told |= {"invalid_utf8": "reject", "max_document_bytes": 1 << 28, "unit": "", "separator": ""}
    return ReadSettings(**{**told, **changes})


def parquet(path: Path, documents: list[str], **options) -> storage.FileId:
    pq.write_table(pa.table({"text": documents}), path, **options)
    return storage.stat(str(path))


def read(pin: storage.FileId, how: ReadSettings | None = None) -> list[bytes]:
    return [
        batch.texts.text(i)
        for batch in read_documents(pin, 0, pin.size_bytes, how or settings())
        for i in range(batch.texts.num_texts)
    ]


def readers() -> list[int]:
    """The processes of idle readers."""
    return [one._process.pid for one in column_reader._idle]


@pytest.fixture(autouse=True)
def _readers_of_its_own():
    column_reader.close_readers()
    yield
    column_reader.close_readers()


@pytest.fixture(scope="module")
def _module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("careless")
    (folder / "sitecustomize.py").write_text(CARELESS)
    return folder


@pytest.fixture
def careless(_module, monkeypatch):
    """Readers that really crash on CRASHING."""
    _make_careless(monkeypatch, _module)


def _make_careless(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


# ------------------------------------------------------------------------------------------------------------- builds

SOURCE = """
[[source]]
lang = "en"
files = "more.*"
"""


def corpus(folder: Path, *kinds: str) -> Path:
    """The small corpus with a sound file and crashing ones; its build file."""
    folder.mkdir()
    small_corpus(folder)
    parquet(folder / "more.good.parquet", texts("en", 40, seed=1))
    for kind in kinds:
        (folder / f"more.bad.{kind}").write_bytes(CRASHING[kind].read_bytes())
    sources = (ROOT / "tests/support/builds.py").read_text().split('SOURCES = """')[1].split('"""')[0]
    return build_file(folder, sources.replace("\\\\", "\\") + SOURCE, build="max_rejected = 1")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def built(_module, tmp_path_factory):
    """(folder, build file) of a corpus with two crashing files, built by two workers."""
    folder = tmp_path_factory.mktemp("built") / "corpus"
    path = corpus(folder, "parquet", "arrow")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _make_careless(monkeypatch, _module)
        manifest = run(path, folder / "out", workers=2)
    assert manifest.totals.files.rejected == {"reader_crashed": 2}
    return folder, path


def test_a_build_goes_on_without_the_files_that_crash(built, careless, tmp_path):
    folder, path = built
    out = folder / "out"
    rejects = lines(out / "rejected" / "rejected.jsonl")
    assert [(r["file"], r["record"], r["reason"]) for r in rejects] == [
        ("more.bad.arrow", None, "reader_crashed"),
        ("more.bad.parquet", None, "reader_crashed"),
    ]
    of = {one["uri"]: one for one in lines(out / "rejected" / "files.jsonl")}
    assert (of["more.bad.parquet"]["records"], of["more.good.parquet"]["documents"]) == (0, 40)

    # All else is as in a build that never saw them.
    without = corpus(tmp_path / "without")
    alone = run(without, tmp_path / "without" / "out")
    assert alone.totals.files.rejected == {}
    for name in (file.relative_to(out) for folder in ("counts", "tokenizer") for file in (out / folder).iterdir()):
        if name.name not in ("run.json", "manifest.json"):
            same = find_file(tmp_path / "without" / "out", drop_result_key(str(name)))
            assert (out / name).read_bytes() == same.read_bytes(), name
    digests = [
        json.loads((one / "shards" / "manifest.json").read_text())["totals"]["documents_digest"]
        for one in (out, tmp_path / "without" / "out")
    ]
    assert digests[0] == digests[1]

    # Whatever the workers, the runner and repeats.
    before = tree(out)
    run(path, tmp_path / "one", workers=1)
    assert tree(tmp_path / "one") == before
    run(path, tmp_path / "beam", runner=("--runner=FnApiRunner",))
    assert tree(tmp_path / "beam") == before


def test_the_output_can_be_verified_rebuilt_and_repaired(built, careless, tmp_path):
    out = Path(shutil.copytree(built[0] / "out", tmp_path / "out"))
    before = tree(out)
    assert verify(str(out), decode=None).problems == ()
    shards = sorted((out / "shards" / "arrow").iterdir())
    for shard in (shards[0], shards[-1]):
        assert rebuild(str(out), shard.name.removesuffix(".arrow")).problems == ()
        shard.unlink()
    (out / "rejected" / "rejected.jsonl").unlink()
    find_file(out, "counts/en.parquet").unlink()
    report = repair(str(out))
    assert report.left == ()
    assert "rejected/rejected.jsonl" in report.repaired
    assert tree(out) == before


def test_an_audit_names_no_file_that_crashes(built):
    out = str(built[0] / "out")
    report = audit(read_output(out), load_tokenizer(out), rare=0, sources=True)
    assert report["missing"] == {}
    tops = {one["top_source"] for one in report["mostly_one_document"] + report["mostly_one_source"]}
    assert tops
    assert not any("bad" in source for source in tops)


@pytest.mark.parametrize("point", ["count.item", "encode.shard"])
def test_a_build_that_is_killed_on_the_way(built, careless, tmp_path, point):
    folder, path = built
    out = tmp_path / "killed"
    killed = tokcore("build", path, "--output", out, env={**os.environ, "TOKCORE_CRASH": f"{point}:2"})
    assert killed.returncode != 0
    done = tokcore("build", path, "--output", out)
    assert done.returncode == 0, done.stderr
    assert "2 of 7 files rejected: 2 reader_crashed" in done.stdout
    assert tree(out) == tree(folder / "out")


def test_count_alone_and_encode_without_counts(built, careless, tmp_path):
    folder, path = built
    assert tokcore("count", path, "--output", tmp_path / "counted").returncode == 0
    for name in ("rejected.jsonl", "files.jsonl"):
        other = tmp_path / "counted" / "rejected" / name
        assert other.read_bytes() == (folder / "out" / "rejected" / name).read_bytes()
    toml = path.read_text().replace(
        "[learn]\nvocab_size = 400", f'[tokenizer]\nfrom = "{folder}/out/tokenizer/tokcore.json"'
    )
    (folder / "encode.toml").write_text(toml)
    done = tokcore("build", folder / "encode.toml", "--output", tmp_path / "encoded")
    assert done.returncode == 0, done.stderr
    other = tmp_path / "encoded" / "rejected" / "rejected.jsonl"
    assert other.read_bytes() == (folder / "out" / "rejected" / "rejected.jsonl").read_bytes()


def test_a_crashing_file_counts_against_max_rejected(tmp_path, careless):
    path = corpus(tmp_path / "corpus", "parquet")
    path.write_text(path.read_text().replace("max_rejected = 1", ""))
    done = tokcore("build", path, "--output", tmp_path / "out")
    assert done.returncode == 3
    assert "more.bad.parquet: the whole file: reader_crashed: the Arrow library crashes" in done.stderr


# ------------------------------------------------------------------------------------------------------------ readers


@pytest.mark.parametrize("kind", CRASHING)
def test_files_that_crashed_the_library_are_refused_before_it_sees_them(kind):
    """Readers are as usual here, not careless."""
    for file in sorted((REGRESSIONS / kind).iterdir()):
        with suppress(FileRejected):
            read(storage.stat(str(file)), settings(kind))
            continue
        (process,) = readers()
        with pytest.raises(FileRejected, match=r"corrupt|over_limit"):
            read(storage.stat(str(file)), settings(kind))
        assert readers() == [process]


@pytest.mark.parametrize("kind", CRASHING)
def test_a_reader_that_crashes_twice(tmp_path, careless, kind):
    good = parquet(tmp_path / "good.parquet", ["a", "b"])
    assert read(good) == [b"a", b"b"]
    (first,) = readers()
    for _ in range(2):
        with pytest.raises(FileRejected, match="reader_crashed: the Arrow library crashes when it reads this file"):
            read(storage.stat(str(CRASHING[kind])), settings(kind))
        assert readers() == [], "it ended, and so did the second"
        assert read(good) == [b"a", b"b"]
    assert readers() != [first]


def test_a_reader_serves_one_file_after_the_other(tmp_path):
    pin = parquet(tmp_path / "good.parquet", ["a", "b"])
    assert read(pin) == [b"a", b"b"]
    before = readers()
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 this is no parquet file PAR1")
    with pytest.raises(FileRejected, match="corrupt"):
        read(storage.stat(str(tmp_path / "bad.parquet")))
    assert read(pin) == [b"a", b"b"]
    assert readers() == before
    assert len(before) == 1


class Killing:
    """Kills readers with a signal as soon as they ask for bytes, the first `times` of them."""

    def __init__(self, monkeypatch, number: int, times: int) -> None:
        self.killed = 0
        serve = column_reader._Reader._serve

        def kill_first(one, *arguments):
            if self.killed < times:
                self.killed += 1
                one._process.send_signal(number)
                one._process.wait()
            serve(one, *arguments)

        monkeypatch.setattr(column_reader._Reader, "_serve", kill_first)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGRTMIN])
def test_a_reader_that_is_ended_once(tmp_path, monkeypatch, number):
    """The file is read again, whatever signal ended the reader."""
    pin = parquet(tmp_path / "good.parquet", ["a", "b"])
    killing = Killing(monkeypatch, number, 1)
    assert read(pin) == [b"a", b"b"]
    assert killing.killed == 1


def test_a_killed_reader_is_no_rejection(tmp_path, monkeypatch):
    """Only a crash of the library may reject a file: a machine that runs out of memory kills with SIGKILL."""
    pin = parquet(tmp_path / "good.parquet", ["a", "b"])
    Killing(monkeypatch, signal.SIGKILL, 9)
    with pytest.raises(StageError, match=r"good\.parquet: the process that reads it was killed by SIGKILL again"):
        read(pin)


def test_two_crashes_condemn_a_file(tmp_path, monkeypatch):
    pin = parquet(tmp_path / "good.parquet", ["a", "b"])
    killing = Killing(monkeypatch, signal.SIGBUS, 2)
    with pytest.raises(FileRejected, match="reader_crashed"):
        read(pin)
    assert killing.killed == 2


def test_a_reader_that_is_ended_half_way(tmp_path, monkeypatch):
    """Batches that were returned are not returned again."""
    monkeypatch.setattr(limits, "KEPT_BYTES", 0)
    monkeypatch.setattr(limits, "IN_MEMORY_BYTES", 0)
    documents = [f"{i} " * 3000 for i in range(900)]
    pin = parquet(tmp_path / "good.parquet", documents, row_group_size=100)
    started: list[subprocess.Popen] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **b: started.append(popen(*a, **b)) or started[-1])
    batches = read_documents(pin, 0, pin.size_bytes, settings())
    got = [next(batches)]
    (process,) = started
    process.kill()
    got += batches
    assert len(got) > 2
    assert [one.texts.text(i).decode() for one in got for i in range(one.texts.num_texts)] == documents
    assert [number for one in got for number in one.ordinals.tolist()] == list(range(900))


def test_two_crashes_behind_the_first_batch_condemn_a_file_of_which_some_rows_are_read(tmp_path, monkeypatch):
    """They are given out as they come: a file that is proved in ranges is rejected as one that is read whole."""
    pin = parquet(tmp_path / "good.parquet", [f"{i} " * 3000 for i in range(900)], row_group_size=100)
    given = []
    serve = column_reader._Reader._serve

    def kill_behind_the_first(one, *arguments):
        if given:
            one._process.send_signal(signal.SIGSEGV)
            one._process.wait()
        serve(one, *arguments)

    monkeypatch.setattr(column_reader._Reader, "_serve", kill_behind_the_first)
    batches = column_reader.read_columns(pin, settings(), 0, 900)
    given.append(next(batches))
    with pytest.raises(FileRejected, match="reader_crashed"):
        given.extend(batches)


def test_texts_that_are_larger_than_the_shared_memory(tmp_path):
    documents = [
        "x" * (column_reader_messages.SHARED_BYTES + 1),
        "y",
        "z" * (column_reader_messages.SHARED_BYTES // 2),
        "ł" * 99,
    ]
    assert read(parquet(tmp_path / "a.parquet", documents)) == [text.encode() for text in documents]


def test_a_batch_waits_until_it_is_wanted(tmp_path):
    """However far ahead the reader could be, it overwrites no batch that was not taken."""
    documents = [f"{i} " * 200 for i in range(30_000)]
    pin = parquet(tmp_path / "a.parquet", documents)
    batches = read_documents(pin, 0, pin.size_bytes, settings())
    got = [next(batches)]
    time.sleep(1)
    got += batches
    assert len(got) > 3
    assert [one.texts.text(i).decode() for one in got for i in range(one.texts.num_texts)] == documents


def test_a_reading_that_is_given_up_leaves_no_process(tmp_path, monkeypatch):
    pin = parquet(tmp_path / "a.parquet", ["x" * 1000] * 20_000)
    batches = read_documents(pin, 0, pin.size_bytes, settings())
    next(batches)
    batches.close()
    assert readers() == []
    assert read(pin)[0] == b"x" * 1000


def test_threads_have_readers_of_their_own(tmp_path):
    pins = [parquet(tmp_path / f"{i}.parquet", [f"{i}-{j}" for j in range(500)]) for i in range(3)]
    got: dict[int, list[bytes]] = {}

    def work(i: int) -> None:
        for _ in range(5):
            got[i] = read(pins[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {i: [f"{i}-{j}".encode() for j in range(500)] for i in range(3)}
    assert 1 <= len(readers()) <= 3


def test_readers_end_with_their_parent(tmp_path):
    """Even if it is killed, and even while they have nothing to do."""
    pin = parquet(tmp_path / "a.parquet", ["a"])
    code = f"""
import os, signal
from tokcore_pipelines.reading import column_reader
from tokcore_pipelines.reading.input_range import read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.plan import ReadSettings
pin = storage.stat({pin.url!r})
list(read_documents(pin, 0, pin.size_bytes, {settings()!r}))
print(column_reader._idle[0]._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for _ in range(100):
        if not Path(f"/proc/{int(done.stdout)}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the reader lives on")


def test_more_memory_than_a_reader_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr(column_reader, "MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(column_reader, "COPIES", 0)
    pin = parquet(tmp_path / "a.parquet", ["x" * (1 << 20)] * 20)
    with pytest.raises(FileRejected, match="reader_crashed"):
        read(pin)


def test_a_defect_of_ours_is_no_rejection(tmp_path, monkeypatch):
    """Neither in what the reader does, nor when it cannot even start."""
    pin = parquet(tmp_path / "a.parquet", ["a"])
    with pytest.raises(
        StageError, match=r"a\.parquet: its reader failed:\n(.*\n)*.*FormatError: Request of .*: settings\.forbidden"
    ):
        read(pin, settings(forbidden=(5,)))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StageError, match="a reader process ended with exit code 1"):
        read(pin)


SETTINGS = ReadSettings("parquet", "none", "text", "id", "en", "", "reject", 1000, "", "", ("<|endoftext|>",))


def test_messages_come_back_as_they_were_sent():
    for message in (
        column_reader_messages.Request(SETTINGS, 1, 2, 3, 4),
        column_reader_messages.Rejected("corrupt", "\ud800"),
    ):
        assert column_reader_messages.read_body(type(message), column_reader_messages.write_body(message)) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"?", "Rejected of a reader process"),
        (b'["corrupt", "detail"]', "expected an object"),
        (b'{"reason": "corrupt", "detail": 1}', "detail: expected str, found 1"),
        (b'{"reason": "corrupt", "detail": "x", "more": 1}', "unknown field 'more'"),
    ],
)
def test_a_message_of_another_form_is_refused(body, message):
    """Hostile bytes were in the memory of the process that sent it."""
    with pytest.raises(FormatError, match=message):
        column_reader_messages.read_body(column_reader_messages.Rejected, body)


@pytest.mark.parametrize(
    ("head", "error"),
    [
        ({"ids": [1]}, FormatError),
        ({"ids": ["a", "b"]}, ValueError),
        ({"rejects": [[0, "corrupt", "detail"]]}, FormatError),
        ({"texts": "1"}, FormatError),
    ],
)
def test_a_batch_whose_parts_do_not_fit_is_refused(head, error):
    told = json.dumps(
        {"texts": 1, "ids": ["a"], "langs": ["en"], "groups": None, "rejects": [], "records": 1} | head
    ).encode()
    told += b" " * (-len(told) % 8)
    arrays = np.array([0, 2], np.int64).tobytes() + np.zeros(1, np.int64).tobytes() + np.zeros(1, np.int32).tobytes()
    body = len(told).to_bytes(8, "little") + told + arrays + b"ab"
    with mmap.mmap(-1, column_reader_messages.SHARED_BYTES) as shared, pytest.raises(error):
        column_reader_messages.take_batch(body, shared)
