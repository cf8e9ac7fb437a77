"""The one way to paths and URLs: pins, retries, exclusive creation, and what it refuses."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import threading
import types
import weakref

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tokcore.errors import ConfigError, FormatError, StageError
from tokcore_pipelines.store import local_files, objects, retries, storage, urls
from tokcore_pipelines.store.patterns import resolve_pattern
from tokcore_pipelines.store.pins import find_version
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.retries import retry


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0)


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    """A folder of either kind of store."""
    if request.param == "local":
        yield str(tmp_path)
    else:
        yield "memory://test"
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


def put(url, data):
    with storage.write_attempt(url) as file:
        file.write(data)
    return url


# names


@pytest.mark.parametrize(
    ("base", "url", "expected"),
    [
        ("/data", "a.txt", "/data/a.txt"),
        ("/data/", "x/../a.txt", "/data/a.txt"),
        ("/data", "/other/a.txt", "/other/a.txt"),
        ("/data", "file:///other/a.txt", "/other/a.txt"),
        ("/data", "s3://bucket/a.txt", "s3://bucket/a.txt"),
        ("s3://bucket/b", "c/a.txt", "s3://bucket/b/c/a.txt"),
        ("/data", "a*?[x].txt", "/data/a*?[x].txt"),
    ],
)
def test_resolve(base, url, expected):
    assert urls.resolve(base, url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "reference://x",
        "https://example.org/a?sig=secret",
        "ftp://x/a",
        "data://x",
        "simplecache::s3://bucket/a",
        "zip://a::s3://bucket/b",
        "github://a/b",
        "s3://key:secret@bucket/a",
        "a\0b",
    ],
)
def test_refused_urls(url):
    for use in (storage.list_files, storage.stat, storage.read_bytes, lambda u: urls.resolve("/", u)):
        with pytest.raises(ConfigError) as error:
            use(url)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("url", ["s3://bucket/a?X-Amz-Signature=secret", "s3://bucket/a::s3://other/b?x=secret"])
def test_urls_that_a_user_may_not_write_and_a_listing_may_give(url):
    for use in (storage.list_files, lambda u: urls.resolve("/", u), lambda u: resolve_pattern("/", u)):
        with pytest.raises(ConfigError) as error:
            use(url)
        assert "secret" not in str(error.value)
    assert urls.resolve_name("/", url) == url
    with pytest.raises(ConfigError, match=r"write \[\?\]"):
        urls.resolve("/", "s3://bucket/a?b=c")
    assert urls.resolve("/", "s3://bucket/a[?]b=c") == "s3://bucket/a[?]b=c"


def test_missing_library_names_the_extra(monkeypatch):
    def absent(*_, **__):
        raise ImportError("no module")

    monkeypatch.setattr(fsspec, "filesystem", absent)
    with pytest.raises(ConfigError, match=r"pip install 'tokcore\[s3\]'"):
        storage.stat("s3://bucket/a")


def test_redact():
    message = "GET https://u:pass@host/x?sig=abc&y=1 and s3://bucket/plain?.txt"
    assert redact(message) == "GET https://***@host/x?*** and s3://bucket/plain?.txt"
    assert redact("glob a?b=c") == "glob a?b=c"


@pytest.mark.parametrize("path", ["a", "a/b.txt", "a..b/...c", "ü/%2e"])
def test_safe_relative(path):
    assert urls.check_relative(path) == path


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", "a/./b", "a//b", "a/", "a\\b", "a\0", "s3://a", "."])
def test_unsafe_relative(path):
    with pytest.raises(FormatError):
        urls.check_relative(path)
    with pytest.raises(FormatError):
        urls.join("/base", path)


# listing


def test_list_files(folder):
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/d.bin"):
        put(urls.join(folder, name), name.encode())

    def names(pattern):
        return [file.url.rsplit("test/", 1)[-1].removeprefix(folder + "/") for file in storage.list_files(pattern)]

    assert names(f"{folder}/*.txt") == ["a.txt", "b.txt"]
    assert names(f"{folder}/**") == ["a.txt", "b.txt", "sub/c.txt", "sub/d.bin"]
    assert names(f"{folder}/**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
    assert names(f"{folder}/[b]*") == ["b.txt"]
    assert names(f"{folder}/a.txt") == ["a.txt"]
    assert names(f"{folder}/none*") == names(f"{folder}/none") == []
    assert [f.size_bytes for f in storage.list_files(f"{folder}/*.txt")] == [5, 5]
    put(f"{folder}/new.txt", b"")
    assert names(f"{folder}/*.txt") == ["a.txt", "b.txt", "new.txt"], "a stale listing"
    with pytest.raises(ConfigError, match="is a folder"):
        storage.list_files(f"{folder}/sub")


def test_listing_equals_stat(folder):
    put(f"{folder}/a.txt", b"abc")
    (listed,) = storage.list_files(f"{folder}/*")
    assert listed == storage.stat(f"{folder}/a.txt") == storage.list_files(f"{folder}/a.txt")[0]


def test_list_files_with_odd_names(tmp_path):
    """A name that is a pattern, a link, a loop, a folder that matches, a line feed."""
    for name in ("x[1].txt", "x1.txt", "line\nfeed.txt", "a::b.txt"):
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "link.txt").symlink_to(tmp_path / "x1.txt")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder.txt" / "loop").symlink_to(tmp_path)
    assert urls.resolve(str(tmp_path), "a::b.txt") == f"{tmp_path}/a::b.txt"
    assert [f.url for f in storage.list_files(f"{tmp_path}/x[1].txt")] == [f"{tmp_path}/x[1].txt"]
    listed = [f.url.rsplit("/", 1)[1] for f in storage.list_files(f"{tmp_path}/**/*.txt")]
    assert listed == ["a::b.txt", "line\nfeed.txt", "link.txt", "x1.txt", "x[1].txt"]


class HalfDeaf(MemoryFileSystem):
    """A store that does not answer about one folder."""

    cachable = False

    def ls(self, path, detail=True, **kwargs):
        if path.endswith("silent"):
            raise PermissionError("403")
        return super().ls(path, detail, **kwargs)

    def info(self, path, **kwargs):
        if path.endswith("mute"):
            raise PermissionError("403")
        return super().info(path, **kwargs)


def test_a_folder_that_cannot_be_listed_is_not_empty(monkeypatch):
    """fsspec's glob and find skip such a folder, and its isfile and exists take any failure for no."""
    for name in ("a/1.txt", "silent/2.txt", "mute"):
        put(f"memory://deaf/{name}", b"")
    monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: HalfDeaf())
    assert len(storage.list_files("memory://deaf/a*/1.txt")) == 1
    for use in (
        lambda: storage.list_files("memory://deaf/**"),
        lambda: storage.list_files("memory://deaf/*/*.txt"),
        lambda: storage.list_tree("memory://deaf"),
        lambda: storage.list_files("memory://deaf/mute"),
        lambda: storage.exists("memory://deaf/mute"),
    ):
        with pytest.raises(StageError, match=r"cannot (list|read): 403"):
            use()
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"ETag": '"abc"'}, "etag:abc"),
        ({"etag": "abc"}, "etag:abc"),
        ({"generation": 17, "etag": "x"}, "generation:17"),
        ({"blob_id": "b"}, "blob:b"),
        ({"LastModified": "2026"}, "modified:2026"),
        ({}, "size-only"),
    ],
)
def test_version(info, version):
    assert find_version(info) == version


def test_list_tree(folder):
    for name in ("b", "a/c", "a/b/d"):
        put(urls.join(folder, "tree", name), b"")
    assert storage.list_tree(f"{folder}/tree") == ["a/b/d", "a/c", "b"]
    storage.remove_file(f"{folder}/tree/b")
    storage.remove_file(f"{folder}/tree/b")
    assert storage.list_tree(f"{folder}/tree") == ["a/b/d", "a/c"]
    assert storage.exists(f"{folder}/tree/a")
    storage.remove_tree(f"{folder}/tree")
    storage.remove_tree(f"{folder}/tree")
    assert storage.list_tree(f"{folder}/tree") == []
    assert not storage.exists(f"{folder}/tree/a/c")


def test_list_tree_shows_links(tmp_path):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "to_folder").symlink_to(tmp_path)
    (tmp_path / "tree" / "sub" / "to_file").symlink_to("/etc/hostname")
    assert storage.list_tree(f"{tmp_path}/tree") == ["sub/to_file", "to_folder"]


def write_new(out):
    put(f"{out}/new/a", b"a")
    return f"{out}/new/a"


def create_new(out):
    assert storage.create_exclusive(f"{out}/new/a", b"a", f"{out}/scratch/files")
    return f"{out}/new/a"


def link_new(out):
    storage.link(f"{out}/there/a", f"{out}/new/a")
    return f"{out}/new/a"


def move_new(out):
    storage.move_folder(f"{out}/there", f"{out}/new/below")
    return f"{out}/new/below/a"


@pytest.mark.parametrize("make", [write_new, create_new, link_new, move_new])
def test_a_folder_that_another_build_removes_is_made_again(tmp_path, monkeypatch, make):
    """A build that ends removes empty folders: those, too, that another has made and put nothing into yet."""
    put(f"{tmp_path}/out/there/a", b"a")
    really_make, removed = local_files._make_folder, []

    def make_folder(folder):
        really_make(folder)
        if removed.count(folder) < 3:
            removed.append(folder)
            storage.remove_empty_folders(str(tmp_path / "out"))

    monkeypatch.setattr(local_files, "_make_folder", make_folder)
    assert storage.read_bytes(make(f"{tmp_path}/out")) == b"a"
    assert removed.count(tmp_path / "out/new") == 3
    assert removed.count(tmp_path / "out/scratch/files") == (3 if make is create_new else 0)


@pytest.mark.parametrize("make", [write_new, create_new, link_new])
def test_a_folder_that_goes_while_it_is_made_is_made_again(tmp_path, monkeypatch, make):
    """mkdir finds the folder there, and then it is gone: Python says that a file is in its place."""
    put(f"{tmp_path}/out/there/a", b"a")
    (tmp_path / "out/new").mkdir()
    really, removed = type(tmp_path).is_dir, []

    def is_dir(path):
        if path.name == "new" and not removed:
            removed.append(path)
            path.rmdir()
        return really(path)

    monkeypatch.setattr(type(tmp_path), "is_dir", is_dir)
    assert storage.read_bytes(make(f"{tmp_path}/out")) == b"a"
    assert removed


@pytest.mark.parametrize("make", [write_new, create_new, link_new])
def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path, make):
    put(f"{tmp_path}/out/there/a", b"a")
    put(f"{tmp_path}/out/new", b"a file")
    with pytest.raises(StageError, match="Not a directory"):
        make(f"{tmp_path}/out")


def test_a_link_to_a_file_that_is_gone_is_refused(tmp_path):
    with pytest.raises(StageError, match="b: cannot link: "):
        storage.link(f"{tmp_path}/a", f"{tmp_path}/new/b")


# reading


def test_read(folder):
    url = put(f"{folder}/a", bytes(range(256)) * 100)
    with storage.open_pinned(storage.stat(url)) as file:
        assert file.size() == 25_600
        assert file.read(3) == b"\0\1\2"
        file.seek(-2, io.SEEK_END)
        assert (file.tell(), file.read(10), file.read()) == (25_598, b"\xfe\xff", b"")
        file.seek(255)
        assert io.BufferedReader(file).read(2) == b"\xff\0"
    assert len(storage.read_bytes(url)) == 25_600


@pytest.mark.parametrize("use", [storage.read_bytes, storage.stat, storage.open_read])
def test_missing_file_is_named(folder, use):
    with pytest.raises(StageError, match=r"none\.txt: cannot read"):
        use(f"{folder}/none.txt")


def test_input_that_grows_shrinks_or_vanishes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(3 << 20))
    pin = storage.stat(str(path))

    def read_while(change):
        with storage.open_pinned(pin) as file:
            file.read(1 << 20)
            change()
            while file.read(1 << 20):
                pass

    for change in (lambda: os.truncate(path, 2 << 20), lambda: os.truncate(path, 4 << 20), path.unlink):
        path.write_bytes(bytes(3 << 20))
        os.utime(path, ns=(0, int(pin.version.split(":")[1])))
        with pytest.raises(StageError, match="input changed since it was planned"):
            read_while(change)
    with pytest.raises(StageError, match="it is gone"):
        storage.open_pinned(pin)


def test_input_overwritten_with_as_many_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    pin = storage.stat(str(path))
    os.utime(path, ns=(0, 1))
    with pytest.raises(StageError, match=r"mtime_ns:.* then, mtime_ns:1 now"):
        storage.open_pinned(pin)


def test_a_change_explains_what_went_wrong_with_the_content(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def parse():
        with storage.open_pinned(storage.stat(str(path))):
            path.write_bytes(b"other")
            raise FormatError("not what it should be")

    with pytest.raises(StageError, match="input changed"):
        parse()


class Flaky:
    """A file of a store that fails now and then."""

    def __init__(self, data, failures):
        self.data, self.failures = io.BytesIO(data), failures

    def tell(self):
        return self.data.tell()

    def seek(self, offset):
        return self.data.seek(offset)

    def close(self):
        pass

    def read(self, size):
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return self.data.read(min(size, failure))
        return self.data.read(size)


def flaky_read(monkeypatch, failures, size=1000):
    data = bytes(i % 251 for i in range(size))
    with fsspec.open("memory://flaky", "wb") as file:
        file.write(data)

    def reopen(self):
        self._file = Flaky(data, failures)

    monkeypatch.setattr(storage.ReadFile, "_reopen", reopen)
    with storage.open_pinned(storage.stat("memory://flaky")) as opened:
        assert opened.read(size) == data


def test_transient_errors_are_retried_where_they_happened(monkeypatch):
    reset = ConnectionResetError("reset")
    flaky_read(monkeypatch, [10, reset, 0, 7, TimeoutError(), 1, OSError("throttled"), reset])


def read_what_is_missing(folder):
    assert storage.read_if_there(urls.join(folder, "missing")) is None


def succeed_at_the_third_attempt(folder):
    failures = [OSError("throttled"), OSError("throttled")]

    def operate():
        if failures:
            raise failures.pop()

    retry("read", folder, operate)


@pytest.mark.parametrize("use", [read_what_is_missing, succeed_at_the_third_attempt])
def test_errors_that_are_dealt_with_keep_nothing_alive(folder, use):
    """An error holds the frames that it passed. If one of these held the error, all arrays of callers would stay."""

    def call():
        held = np.zeros(1)  # as a worker holds ids
        use(folder)
        return weakref.ref(held)

    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()


def test_an_unreadable_url_is_named_after_the_last_attempt(monkeypatch):
    failures = [OSError("no answer from https://u:secret@host/?sig=secret")] * 100
    with pytest.raises(StageError, match=r"/flaky: cannot read, tried 8 times: no answer") as error:
        flaky_read(monkeypatch, failures)
    assert "secret" not in str(error.value)
    assert len(failures) == 92


class NoCredentialsError(Exception):
    """As botocore names it."""


def with_status(error: Exception, **attributes) -> Exception:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "failure",
    [
        NoCredentialsError("Unable to locate credentials"),
        caused(OSError("request failed"), NoCredentialsError()),
        with_status(OSError("denied"), status=401),
        with_status(OSError("denied"), code="403"),
        with_status(OSError("denied"), response=types.SimpleNamespace(status_code=401)),
        with_status(OSError("denied"), response={"ResponseMetadata": {"HTTPStatusCode": 403}}),
    ],
)
def test_missing_credentials_are_not_tried_again(failure):
    calls = []

    def operation():
        calls.append(1)
        raise failure

    with pytest.raises(StageError, match=r"b/k: cannot read: .*\. The store wants other credentials: set them"):
        retry("read", "s3://b/k", operation)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "failure",
    [
        with_status(OSError("rateLimitExceeded"), code=403),
        with_status(OSError("slow down"), response={"ResponseMetadata": {"HTTPStatusCode": 503}}),
        with_status(OSError("busy"), status=429, response=None, code="SlowDown"),
    ],
)
def test_a_busy_store_is_tried_again(failure, monkeypatch):
    monkeypatch.setattr("tokcore_pipelines.store.retries.FIRST_PAUSE_SECONDS", 0)
    failures = [failure, failure]

    def operation():
        if failures:
            raise failures.pop()
        return "read"

    assert retry("read", "s3://b/k", operation) == "read"


def test_an_early_end_is_no_end(monkeypatch):
    with pytest.raises(StageError, match="ends at byte 10 of 1000"):
        flaky_read(monkeypatch, [10] + [0] * 50)


# writing


def test_write_attempt_that_fails_leaves_nothing(folder):
    def crash():
        with storage.write_attempt(f"{folder}/sub/a") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        crash()
    assert storage.list_tree(folder) == []


def test_write_attempt_is_durable_when_it_ends(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append((os.fstat(fd).st_ino, os.fstat(fd).st_size)))
    put(f"{tmp_path}/sub/a", b"12345")
    (file, size), (folder, _) = synced
    assert (file, size) == ((tmp_path / "sub" / "a").stat().st_ino, 5)
    assert folder == (tmp_path / "sub").stat().st_ino, "its name must survive, too"


def test_names_are_given_to_what_is_durable_and_are_durable_themselves(tmp_path, monkeypatch):
    """After a power cut no manifest has a name without its bytes, and no name that was reported is lost."""
    real_link, done = os.link, []
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(os, "link", lambda source, target: (done.append("link"), real_link(source, target)))
    (tmp_path / "sub").mkdir()
    folder = (tmp_path / "sub").stat().st_ino
    assert storage.create_exclusive(f"{tmp_path}/sub/manifest.json", b"first", str(tmp_path))
    assert done == [(tmp_path / "sub" / "manifest.json").stat().st_ino, "link", folder]
    put(f"{tmp_path}/attempt", b"content")
    done.clear()
    storage.publish(f"{tmp_path}/attempt", f"{tmp_path}/sub/name")
    assert done == ["link", folder]


def test_what_is_removed_soon_is_not_synced(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.fstat(descriptor).st_ino))
    with storage.make_scratch_folder("tokcore-test-") as folder:
        put(f"{folder}/sub/a", b"12345")
        assert storage.create_exclusive(f"{folder}/sub/b", b"first", folder)
        assert done == []
        put(f"{tmp_path}/a", b"12345")
        assert done == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino], "all else is"
    assert not (tmp_path / folder).exists()


def test_publish(tmp_path):
    put(f"{tmp_path}/attempt", b"content")
    storage.publish(f"{tmp_path}/attempt", f"{tmp_path}/final/name")
    assert storage.read_bytes(f"{tmp_path}/final/name") == b"content"
    assert storage.list_tree(str(tmp_path)) == ["final/name"]

    put(f"{tmp_path}/attempt", b"content")
    storage.publish(f"{tmp_path}/attempt", f"{tmp_path}/final/name")
    assert storage.list_tree(str(tmp_path)) == ["final/name"]

    put(f"{tmp_path}/attempt", b"CONTENT")
    with pytest.raises(StageError, match="other bytes"):
        storage.publish(f"{tmp_path}/attempt", f"{tmp_path}/final/name")
    assert storage.read_bytes(f"{tmp_path}/final/name") == b"content"


def test_create_exclusive(folder):
    url = f"{folder}/sub/manifest.json"
    assert storage.create_exclusive(url, b"first", folder)
    assert not storage.create_exclusive(url, b"second", folder)
    assert storage.read_bytes(url) == b"first"
    assert storage.list_tree(folder) == ["sub/manifest.json"]


@pytest.mark.parametrize("block_bytes", [1 << 24, 4], ids=["in one request", "in parts"])
def test_a_file_is_created_from_pieces(folder, monkeypatch, block_bytes):
    monkeypatch.setattr(objects, "BLOCK_BYTES", block_bytes)
    url = f"{folder}/sub/manifest.json"
    for pieces in ([], [b""], [b"", b"ab", b"", b"cdef", b"g"]):
        storage.remove_file(url)
        assert storage.create_exclusive(url, lambda pieces=pieces: iter(pieces), folder)
        assert storage.read_bytes(url) == b"".join(pieces)
    assert not storage.create_exclusive(url, lambda: iter([b"ot", b"her", b"s"]), folder)
    assert storage.read_bytes(url) == b"abcdefg"
    assert storage.list_tree(folder) == ["sub/manifest.json"]


def test_what_is_not_finished_lies_apart(tmp_path):
    """A process killed while it creates a manifest leaves nothing beside it, which verify would call an extra file."""
    script = (
        "from tokcore_pipelines.store.storage import create_exclusive\n"
        f"create_exclusive({str(tmp_path / 'out' / 'manifest.json')!r}, b'x', {str(tmp_path / 'scratch')!r})"
    )
    environment = {**os.environ, "TOKCORE_CRASH": "create.before_link", "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert len(list((tmp_path / "scratch").iterdir())) == 1


def test_create_exclusive_has_one_winner(tmp_path):
    for attempt in range(20):
        url = f"{tmp_path}/{attempt}"
        start = threading.Barrier(8)
        won = []

        def race(number, url=url, start=start, won=won):
            start.wait()
            if storage.create_exclusive(url, b"%d" % number * 1000, str(tmp_path)):
                won.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = won
        assert storage.read_bytes(url) == b"%d" % winner * 1000


@pytest.mark.parametrize("data", [b"mine", lambda: iter([b"mi", b"ne"])], ids=["whole", "in pieces"])
@pytest.mark.parametrize(("ours", "expected"), [(b"mine", True), (b"theirs", False)])
def test_a_lost_answer_is_looked_up(monkeypatch, ours, expected, data):
    """The store created the file, but we saw a time-out, and then that the name is taken."""

    class Store(MemoryFileSystem):
        def pipe_file(self, path, value, mode="overwrite", **kwargs):
            if not self.exists(path):
                super().pipe_file(path, ours)
                raise TimeoutError
            raise FileExistsError

    monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: Store())
    try:
        assert storage.create_exclusive("memory://manifest", data, "memory://") is expected
        assert storage.read_bytes("memory://manifest") == ours
    finally:
        MemoryFileSystem.store.clear()
