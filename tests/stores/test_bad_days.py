"""Bad days of a watcher, with real stores and disks: clear words, nothing lost, and no hand needed where that is so."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores.proxy import Faults
from stores.servers import Store
from stores.test_notifications import SETTINGS, build_over, count_files, land
from support.builds import build_file, run
from support.updates import make_texts, write_file
from support.watchers import said, watching

from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.watch.read_status import read_status


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("forbidden", "forbidden. These credentials"),  # a credential that was revoked
        ("unavailable", "Service Unavailable"),
        ("skewed", "clock"),
        ("cut_before", "cannot list"),
    ],
)
def test_a_source_that_cannot_be_read_for_long_is_waited_for(
    trouble: str, words: str, s3_here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of it takes no more looks than the pauses allow, one line in the log, and goes by itself."""
    monkeypatch.setattr("tokcore_pipelines.store.retries.ATTEMPTS", 1)
    monkeypatch.setattr("tokcore_pipelines.store.libraries.ATTEMPTS", 1)
    url = build_over(s3_here, tmp_path)
    with watching(tmp_path, tries=1, poll_seconds=10) as watcher:
        watcher.go_round()
        land(s3_here, f"{url}/new.jsonl")
        s3_here.proxy.faults = Faults({trouble: 1.0})
        looks, waited = 0, 0.0
        while waited < 3600:
            waited += watcher.go_round()  # the hour itself is not waited for
            looks += 1
        assert 15 <= looks <= 20  # 10, 20, 40 ... and then every five minutes
        assert not watcher.show_ready().is_well
        assert said(watcher).count("Nothing is lost: it is tried again") == 1
        assert words in said(watcher)
        s3_here.proxy.reset()
        watcher.go_round()
        assert watcher.show_ready().is_well
        assert count_files(tmp_path) == 4
        assert read_status(str(tmp_path / "out"))["quarantine"] == []


@contextlib.contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that size, for as long as the block runs."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_a_disk_that_is_full_is_waited_for(tmp_path: Path) -> None:
    """Real ENOSPC, from workers and from this process: no file is blamed, and once there is room all goes on."""
    with small_disk(tmp_path / "disk", 32) as disk:
        write_file(disk, "en/a.jsonl", make_texts("a", 12))
        source = '[[source]]\nlang = "en"\nfiles = "en/*.jsonl"\n'
        run(build_file(disk, source, SETTINGS), disk / "out")
        with watching(disk, tries=1) as watcher:
            watcher.go_round()
            write_file(disk, "en/b.jsonl", make_texts("b", 12))
            fill(disk / "filler")
            for _ in range(3):
                watcher.go_round()
            assert os.strerror(28) in said(watcher)
            assert said(watcher).count("Nothing is lost: it is tried again") == 1
            (disk / "filler").unlink()
            watcher.go_round()
            assert count_files(disk) == 2
            assert read_status(str(disk / "out"))["quarantine"] == []
        assert verify(str(disk / "out"), decode=None, base=str(disk)).problems == ()


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
