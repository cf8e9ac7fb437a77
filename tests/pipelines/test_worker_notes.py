"""Notes of an engine's workers: one that is cut off, or gone, stops no build.

Its writer was killed or still writes, or another build removed it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.worker_notes import get_greetings, greet, note_item, read_greetings, read_notes


@pytest.mark.parametrize("cut", [b"", b'{"host": "a', b'{"host": "\xc3'])
def test_notes_that_are_cut_off_are_passed_over(tmp_path: Path, cut: bytes) -> None:
    attempts = Attempts(str(tmp_path), "counts", "0" * 64)
    for item in (0, 1):
        note_item(attempts, item)
    greetings = get_greetings(attempts)
    greet(greetings, "1")
    greet(greetings, "2", "the driver is of another release")
    for folder in (f"{attempts.folder}/workers", greetings):
        (Path(folder) / "item-00002.0123456789ab").write_bytes(cut)
    (process,) = read_notes(attempts)
    assert process.items == 2
    num_started, refusal = read_greetings(greetings)
    assert num_started == 1
    assert refusal.endswith(": the driver is of another release")


def test_notes_that_are_gone_are_passed_over(tmp_path: Path) -> None:
    attempts = Attempts(str(tmp_path), "counts", "0" * 64)
    note_item(attempts, 0)
    # Listed, and gone when it is read.
    (Path(attempts.folder) / "workers" / "item-00002.0123456789ab").symlink_to(tmp_path / "gone")
    (process,) = read_notes(attempts)
    assert process.items == 1
