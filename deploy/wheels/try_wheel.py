"""Install a wheel into clean environments, and see that it works there.

    python deploy/wheels/try_wheel.py dist/tokcore-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl [--wheelhouse FOLDER]

1. The base alone learns merges, by the kernel as by the definition.
2. With `build`, the demo is built and verified; its root is printed, and compared with --root.
3. The base alone loads the demo's tokenizer, encodes, and opens the shards.

Each runs in a folder that has `pipelines`, `schemas` and `json.py` of its own, which end whatever imports them. Without
a wheelhouse, packages come from pip's index; with one, from there alone. Needs nothing but Python's own library.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy" / "demo" / "build.toml"
FOREIGN = "raise RuntimeError('a foreign module')\n"

# Prints the CPU seconds and the megabytes that it took.
READ = """
import sys

import tokcore

tokenizer = tokcore.Tokenizer.load(sys.argv[1])
ids = tokenizer.encode("Straße")
assert tokenizer.decode(ids) == "Straße".encode()
for place in sys.argv[2:]:
    shards = tokcore.open_shards(place)
    assert len(shards) > 0
    assert len(shards[0]) > 0

import resource

used = resource.getrusage(resource.RUSAGE_SELF)
unit = 1 << (20 if sys.platform == "darwin" else 10)
print(f"{used.ru_utime + used.ru_stime:.2f} {used.ru_maxrss / unit:.0f}")
"""

LEARN = """
import tokcore
from tokcore import kernel

texts = ["low lower lowest newer newest wider Straße 的的 "] * 3
counts = tokcore.count_pretokens(texts, pattern="cl100k")
found = {}
for name in kernel.list_available():
    with kernel.force(name):
        found[name] = [(merge.left, merge.right) for merge in tokcore.learn_bpe(counts, vocab_size=270)]
assert len(found) > 1, f"only {[*found]}"
assert len({str(merges) for merges in found.values()}) == 1, found
print(f"{len(found)} kernels learn the same")
"""


class Environment(NamedTuple):
    """A clean environment that has tokcore."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def program(self) -> Path:
        return self.folder / "bin" / "tokcore"

    def list_packages(self) -> list[str]:
        """NAME==VERSION of all packages, tokcore among them."""
        return pip(self.python, "list", "--format=freeze").split()

    def measure(self) -> int:
        """Bytes that these packages take, without bytecode."""
        (place,) = self.folder.glob("lib/python*/site-packages")
        files = (path for path in place.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return sum(path.stat().st_size for path in files)


def run(command: Sequence[object], **more: object) -> str:
    """What a command prints. Ends this program with what went wrong if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def make_environment(folder: Path, wheel: Path, extra: str = "", wheelhouse: Path | None = None) -> Environment:
    """A clean environment with the wheel, and with an extra of it."""
    venv.create(folder, symlinks=True)
    made = Environment(folder)
    where = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    pip(made.python, "install", "--quiet", "--no-compile", *where, f"{wheel}[{extra}]" if extra else wheel)
    pip(made.python, "check")
    return made


def pip(python: Path, *arguments: object) -> str:
    """What pip prints. It is that of the Python which runs this, and works in the environment of another one."""
    return run([sys.executable, "-m", "pip", "--python", python, *arguments], env=clean_variables())


def make_hostile_folder(folder: Path) -> Path:
    """A folder whose modules have names that are common, and end what imports them."""
    for name in ("pipelines", "schemas"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(FOREIGN)
    (folder / "json.py").write_text(FOREIGN)
    return folder


def clean_variables(path: Path | None = None) -> Mapping[str, str]:
    """Variables without those that lead Python and pip elsewhere. path: is searched for modules first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PYTHONPATH": str(path)} if path is not None else kept


def read_on_base(made: Environment, folder: Path, output: Path) -> tuple[float, int]:
    """CPU seconds and megabytes that it takes to load the tokenizer, encode, and open the shards of every format."""
    names = [path for path in sorted((output / "shards").iterdir()) if path.is_dir() and path.name not in _BESIDE]
    # -P: no folder of a caller's is searched; json.py there would end Python's own library.
    told = run([made.python, "-P", "-c", READ, output, *names], cwd=folder, env=clean_variables())
    seconds, megabytes = told.split()
    return float(seconds), int(megabytes)


_BESIDE = ("documents", "provenance", "pieces")


def describe(made: Environment) -> str:
    """How many packages there are, and how large they are."""
    return f"{len(made.list_packages())} packages, {made.measure() / 1e6:.0f} MB"


def learn_tokenizer(made: Environment, folder: Path) -> None:
    """On the base alone, where builds are not installed: learn merges and count, and compare with the definition."""
    told = run([made.python, "-P", "-c", LEARN], cwd=folder, env=clean_variables())
    print(f"base: {describe(made)}; {told.strip()}", flush=True)


def main() -> None:
    """Try the wheel, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--wheelhouse", type=Path)
    parser.add_argument("--root", help="that the demo has to have")
    parser.add_argument("--base-only", action="store_true", help="where apache-beam has no wheels, as with musl")
    given = parser.parse_args()
    wheel = given.wheel.resolve()
    wheelhouse = given.wheelhouse.resolve() if given.wheelhouse else None
    print(wheel.name, flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = make_hostile_folder(folder / "work")
        base = make_environment(folder / "base", wheel, "", wheelhouse)
        learn_tokenizer(base, work)
        if given.base_only:
            return
        build = make_environment(folder / "build", wheel, "build", wheelhouse)
        output = folder / "demo"
        command = [build.program, "build", DEMO, "--output", output, "--quiet"]
        root = run(command, cwd=work, env=clean_variables()).strip()
        if given.root not in (None, root):
            raise SystemExit(f"the demo has the root {root}, expected {given.root}")
        run([build.program, "verify", output], cwd=work, env=clean_variables())
        print(f"with build: {describe(build)}; the demo has the root {root}", flush=True)
        seconds, megabytes = read_on_base(base, work, output)
        print(f"base: load, encode, open: {seconds} s of CPU, {megabytes} MB")


if __name__ == "__main__":
    main()
