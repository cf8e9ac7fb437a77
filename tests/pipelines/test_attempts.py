"""The working folder of a stage: several attempts may be made at the same piece of work, and one of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokcore.errors import StageError
from tokcore_pipelines.store.attempts import Attempts, publish
from tokcore_schemas.refs import RunRef


def attempts(folder: Path, identity: str = "0") -> Attempts:
    return Attempts(str(folder), "counts", identity * 64)


def ref(attempt: str) -> RunRef:
    return RunRef("en", 0, attempt, 0, 1, "")


def test_the_first_record_wins(tmp_path):
    """The second attempt goes on with the recorded result, and no manifest names its own."""
    first, second = attempts(tmp_path), attempts(tmp_path)
    assert first.record("item", ref("first")) == ref("first")
    assert second.record("item", ref("second")) == ref("first")
    assert first.result("item", RunRef) == ref("first")


def test_another_identity_finds_nothing(tmp_path):
    attempts(tmp_path).record("item", ref("mine"))
    assert attempts(tmp_path, "1").result("item", RunRef) is None
    assert attempts(tmp_path).result("item", RunRef) == ref("mine")


def test_attempts_at_one_piece_do_not_meet(tmp_path):
    """An attempt that is given up half-way changes nothing of the other."""

    def given_up() -> None:
        with attempts(tmp_path).new_file("item.runs") as other:
            other.file.write(b"other")
            raise RuntimeError

    with attempts(tmp_path).new_file("item.runs") as new:
        new.file.write(b"mine")
        with pytest.raises(RuntimeError):
            given_up()
        new.file.write(b", whole")
    assert Path(new.url).read_bytes() == b"mine, whole"
    assert new.stored("item.runs").sha256 == new.file.sha256


def test_a_store_that_does_not_keep_a_working_file_is_noticed(monkeypatch):
    """Also of files that nothing but a reference names: runs of counts, digests."""
    monkeypatch.setattr("tokcore_pipelines.store.objects.create", lambda url, data: None)
    with pytest.raises(StageError, match=r"memory://attempts/.*item\.runs"), store().new_file("item.runs") as new:
        new.file.write(b"mine")


def test_an_empty_working_file_is_not_sent(monkeypatch):
    sent = []
    monkeypatch.setattr("tokcore_pipelines.store.objects.create", lambda url, data: sent.append(url))
    with store().new_file("item.rejects", skip_empty=True) as new:
        pass
    assert new.stored("").size_bytes == 0
    assert sent == []


def test_an_empty_working_file_is_not_kept(tmp_path):
    own = attempts(tmp_path)
    with own.new_file("item.rejects", skip_empty=True) as new:
        pass
    assert new.stored("").size_bytes == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    with own.new_file("item.rejects", skip_empty=True) as new:
        new.file.write(b"a")
    assert new.stored("").size_bytes == 1


def test_names_are_durable_before_files_are_published(tmp_path, monkeypatch):
    """Each folder is synced once, however many files get their names there."""
    own, files = attempts(tmp_path), []
    for path in ("a/1", "a/2", "b/3"):
        with own.new_file(path) as new:
            new.file.write(path.encode())
        files.append(new.stored(path))
    for name in ("a", "b"):
        (tmp_path / "counts" / name).mkdir(parents=True)
    synced: list[str] = []
    monkeypatch.setattr("tokcore_pipelines.store.local_files.sync_folder", lambda folder: synced.append(folder.name))
    publish(own, str(tmp_path / "counts"), files)
    assert synced == ["a", "b"]
    assert (tmp_path / "counts" / "b" / "3").read_bytes() == b"b/3"


def test_a_file_that_is_taken_over_is_durable_after_sync(tmp_path, monkeypatch):
    own = attempts(tmp_path)
    with own.new_file("a") as new:
        new.file.write(b"a")
    synced: list[str] = []
    monkeypatch.setattr("tokcore_pipelines.store.local_files.sync_folder", lambda folder: synced.append(str(folder)))
    taken = own.take_over(new.url, new.stored("a"), "b")
    own.sync()
    assert (Path(own.url(taken.attempt)).read_bytes(), synced) == (b"a", [own.scratch])


def store() -> Attempts:
    return Attempts("memory://attempts", "counts", "0" * 64)
