"""Builds with each extra of a store, in a fresh environment: PYTHONPATH=tests python tests/stores/extras.py [EXTRA ...]

Builds a wheel once, and makes a virtual environment for each extra below build/extras, which needs the network. In each
of them tokcore lists, builds and verifies what a server of the loopback device holds. Where another extra is needed,
the message must name the command that installs it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stores.files import put
from stores.servers import GCSFS_SWITCH, ROOT, STARTS
from stores.web import REPO, serve
from support.builds import jsonl, texts

FOLDER = ROOT / "build" / "extras"
EXTRAS = ("s3", "gcs", "azure", "http", "hf", "clouds")
# URL -> the extra that must be named where it is missing.
OTHERS = {
    "s3://bucket/x.jsonl": "s3",
    "gs://bucket/x.jsonl": "gcs",
    "abfs://box@account.dfs.core.windows.net/x": "azure",
}
DOCUMENTS = [{"id": str(i), "text": text} for i, text in enumerate(texts("en", 50))]


class Place(NamedTuple):
    """A server with documents."""

    build_file: str  # path or URL
    environment: Mapping[str, str]


def spell_build(files: str) -> str:
    """A build file that reads these files."""
    source = f'[[source]]\nlang = "en"\nfiles = "{files}"\nid = "id"\n'
    return f'version = 1\n[build]\noutput = "out"\n{source}[learn]\nvocab_size = 300\n'


@contextlib.contextmanager
def open_place(extra: str, folder: Path) -> Iterator[Place]:
    """A server that the extra is for. folder: an empty one on this machine."""
    if extra in STARTS or extra == "clouds":
        with STARTS["s3" if extra == "clouds" else extra]() as store:
            url = store.fresh()
            put(store, f"{url}/en-0.jsonl", jsonl(DOCUMENTS))
            put(store, f"{url}/build.toml", spell_build("en-*.jsonl").encode())
            yield Place(f"{url}/build.toml", store.variables())
        return
    (folder / "data").mkdir()
    (folder / "data" / "en-0.jsonl").write_bytes(jsonl(DOCUMENTS))
    with serve(folder / "data") as (url, _):
        files = f"{url}/en-0.jsonl" if extra == "http" else f"hf://datasets/{REPO}/en-*.jsonl"
        (folder / "build.toml").write_text(spell_build(files))
        environment = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(folder / "hf"), "NO_PROXY": "127.0.0.1"}
        yield Place(str(folder / "build.toml"), environment)


def make_environment(extra: str, wheel: Path) -> Path:
    """The folder of commands of an environment with tokcore, what builds need, and this extra."""
    folder = FOLDER / extra
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", f"{wheel}[build,{extra}]"], check=True)
        (folder / "installed").touch()
    return folder / "bin"


def run(*command: str | Path, environment: Mapping[str, str], code: int = 0) -> str:
    """What a command prints to both streams. Exits unless it ends with this code."""
    inherited = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as elsewhere:  # not where the sources are, which Python would import
        done = subprocess.run([*map(str, command)], env=inherited, cwd=elsewhere, capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def try_extra(extra: str, wheel: Path) -> str:
    """What was tried, in words."""
    commands = make_environment(extra, wheel)
    with tempfile.TemporaryDirectory() as name, open_place(extra, Path(name)) as place:
        output = place.build_file.removesuffix("build.toml") + "out"
        checked = run(commands / "tokcore", "check", place.build_file, environment=place.environment)
        assert "en-0.jsonl" in checked or "1 file" in checked, checked
        run(commands / "tokcore", "build", place.build_file, environment=place.environment)
        verified = run(commands / "tokcore", "verify", output, "--decode", "all", environment=place.environment)
        assert f"{len(DOCUMENTS)} documents decoded and equal to their source" in verified, verified
    missing = [(url, of) for url, of in OTHERS.items() if extra not in (of, "clouds")]
    for url, of in missing:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "build.toml")
            path.write_text(spell_build(url))
            told = run(commands / "tokcore", "check", path, environment=os.environ, code=2)
            assert f"pip install 'tokcore[{of}]'" in told, told
    named = ", ".join(of for _, of in missing)
    return "checked, built, verified" + (f"; named as missing: {named}" if named else "")


def main() -> None:
    """Print a line for each extra. Exits with the first failure."""
    os.environ.setdefault(GCSFS_SWITCH, "false")
    FOLDER.mkdir(parents=True, exist_ok=True)
    # As make builds it, in the same folder, so that little is compiled again.
    options = ("--no-deps", "--no-build-isolation", "--config-settings=cmake.define.TOKCORE_WERROR=ON")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", *options, "--wheel-dir", str(FOLDER), str(ROOT)], check=True
    )
    (wheel,) = FOLDER.glob("tokcore-*.whl")
    for extra in sys.argv[1:] or EXTRAS:
        print(f"tokcore[{extra}]: {try_extra(extra, wheel)}", flush=True)


if __name__ == "__main__":
    main()
