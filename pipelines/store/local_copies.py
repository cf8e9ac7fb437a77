"""Files of a folder as files on this machine, for libraries that map them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.parallel_requests import MOST_FILES, run_at_once
from tokcore_pipelines.store.read_file import BLOCK_BYTES

_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def copy_if_remote(folder: str, paths: Iterable[str], sizes: Mapping[str, int] | None = None) -> Iterator[str]:
    """The folder, on this machine, below which these files of a folder are; copies go when the block ends.

    paths: relative to the folder, a URL. sizes: path -> bytes, where known. A file that is known to be small takes
    one request instead of two.
    """
    if urls.is_local(folder):
        yield str(urls.get_local_path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="tokcore-") as copies:

        def fetch(path: str) -> None:
            copy = Path(copies, urls.check_relative(path))
            copy.parent.mkdir(parents=True, exist_ok=True)
            if (sizes or {}).get(path, BLOCK_BYTES) < BLOCK_BYTES:
                copy.write_bytes(storage.read_bytes(urls.join(folder, path)))
                return
            with storage.open_read(urls.join(folder, path)) as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)

        run_at_once(fetch, paths, MOST_FILES)
        yield copies
