"""Streams of small corpora: files that land while an engine follows, and what the output must hold at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from support.builds import build_file
from support.drivers import Driver, wait_for
from support.updates import SETTINGS, SOURCES, build_fresh, make_texts, require_equal, write_file

from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.history.input_files_held import read_held
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config

WATCH = """
[watch]
poll_seconds = 0.5
settle_seconds = 0.4
batch_seconds = 1
batch_files = 4
tries = 1
drain_seconds = 300
listen = ""
"""


def begin(folder: Path) -> Path:
    """A corpus with a finished build in `out`; its build file."""
    for name, lang in (("a", ""), ("b", "")):
        write_file(folder, f"en/{name}.jsonl", make_texts(name, 12), lang)
    write_file(folder, "mixed/c.jsonl", make_texts("c", 9), "de")
    path = build_file(folder, SOURCES, SETTINGS + WATCH)
    config = load_config(str(path))
    Build(config, RunOptions(workers=1, here=True), str(folder / "out")).run()
    return path


def land(folder: Path, name: str, version: int = 0) -> None:
    """A file that appears, or a new version of it."""
    write_file(folder, f"en/{name}.jsonl", make_texts(f"{name}{version or ''}", 5))


def list_versions(folder: Path) -> dict[str, tuple[int, str]]:
    """uri -> size and version, of what the newest commit holds."""
    output = str(folder / "out")
    held = read_held(output, read_log(output).parts())
    return {uri: (one.file.size_bytes, one.file.version) for uri, one in held.items()}


def list_now(path: Path) -> dict[str, tuple[int, str]]:
    """The same, of the sources as they are."""
    from tokcore_pipelines.build.plan_corpus import plan_build

    plan = plan_build(load_config(str(path)), str(path.parent / "out"))
    return {file.uri: (file.size_bytes, file.version) for file in plan.files}


def wait_until_held(path: Path, driver: Driver, *names: str) -> None:
    """Return when the output holds these files, or all of the sources, as they are now."""

    def find() -> bool:
        driver.require_running()
        held, now = list_versions(path.parent), list_now(path)
        return all(held.get(uri) == now[uri] for uri in ([f"en/{name}.jsonl" for name in names] or now))

    wait_for(find, f"commits of {names or 'all files'}", driver.describe)


def require_exactly_once(path: Path) -> None:
    """Assert that each version of a file was added once in all commits, and that the output equals a fresh build."""
    output = path.parent / "out"
    log = read_log(str(output))
    added = [(0, log.parts(0)), *((commit.number, commit.added) for commit in log.commits)]
    versions: Counter[tuple[str, str]] = Counter()
    for commit in log.commits:
        fresh = read_held(str(output), commit.added)
        before = read_held(str(output), log.parts(commit.number - 1))
        versions.update(
            (uri, one.file.version) for uri, one in fresh.items() if uri not in before or before[uri].pin != one.pin
        )
    assert added
    assert not [one for one, times in versions.items() if times > 1]
    assert list_versions(path.parent) == list_now(path)
    require_equal(output, path.parent / "fresh", build_fresh(path, path.parent / "fresh", output))
