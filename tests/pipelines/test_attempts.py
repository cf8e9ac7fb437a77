"""The working folder of a stage: several attempts may be made at the same piece of work, and one of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.store.attempts import Attempts
from schemas.refs import RunRef


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
