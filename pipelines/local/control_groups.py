"""The control groups above this process, of both versions of Linux: limits that no count of cores or memory shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple


class ControlGroup(NamedTuple):
    """A folder with the limits of one group. is_first: of version 1, whose files have other names."""

    folder: Path
    is_first: bool

    def read(self, name: str) -> str:
        """A file of the group; "" where there is none."""
        return read_text(self.folder / name)


def list_groups(controller: str, root: Path = Path("/")) -> Iterator[ControlGroup]:
    """The groups that a controller limits, the closest first: cpu, memory. root: where /proc and /sys are."""
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        # In a container the path may be that on the host, and lead nowhere: then the mount is the group itself.
        for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
            yield ControlGroup(mount / str(folder).lstrip("/"), bool(controllers))


def read_text(path: Path) -> str:
    """What a file of the system says; "" where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
