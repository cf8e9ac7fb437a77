"""Compiles or links what was not compiled before, in this clone or another; else gives back what came out then.

It stands before commands of a compiler (make_launcher):

    compile_once.py CACHE IDENTITY COMPILER ARGUMENT...

What a command makes is kept in the folder CACHE by a hash of its arguments without the path of this clone, of the
contents of all files that it reads, and of IDENTITY, which says which compiler it is. Any number of processes may use
one folder at a time: files appear whole, and one that vanishes is made again. CACHE is `tokcore-tests` below
XDG_CACHE_HOME or ~/.cache, or what TOKCORE_TEST_CACHE says.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_SOURCES = (".cpp", ".h")
_ROOT = str(Path(__file__).parents[2])
# What a compiler reads besides its command.
_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")


def find_cache() -> Path:
    """The folder of what was compiled before. It need not exist."""
    if told := os.environ.get("TOKCORE_TEST_CACHE"):
        return Path(told).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokcore-tests"


def make_launcher(compiler: Sequence[str]) -> list[str]:
    """The beginning of a command, before the compiler's own."""
    version = subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, text=True).stdout
    told = [*compiler, version, os.uname().machine, *(os.environ.get(name, "") for name in _VARIABLES)]
    identity = hashlib.sha256("\0".join(told).encode()).hexdigest()
    return [sys.executable, "-I", __file__, str(find_cache()), identity]


def run(cache: Path, identity: str, command: Sequence[str]) -> int:
    """The exit code of the command, 0 if what it makes was there."""
    told = _find_told(command)
    if "-o" not in told:
        return subprocess.run(command).returncode
    made = Path(told["-o"])
    read = list(find_read(command))
    kept = cache / make_key(identity, command, read)
    try:
        shutil.copy(kept, made)  # with its mode
        os.utime(kept)  # those not used for longest are deleted first
    except OSError:
        code = subprocess.run(command).returncode
        if code == 0:
            with contextlib.suppress(OSError):  # a cache that cannot be written is none
                _keep(made, kept)
        return code
    if "-MF" in told:
        names = " ".join(str(path).replace(" ", "\\ ") for path in read)
        Path(told["-MF"]).write_text(f"{told.get('-MT', told['-o'])}: {names}\n")
    return 0


def _find_told(command: Sequence[str]) -> dict[str, str]:
    """What the compiler is told about the files that it writes."""
    return {option: value for option, value in pairwise(command) if option in ("-o", "-MF", "-MT")}


def find_read(command: Sequence[str]) -> Iterator[Path]:
    """The files among the arguments, and what sources among them include, each once, however deep.

    Headers in <> are the compiler's own.
    """
    told = set(_find_told(command).values())
    places = [argument[2:] for argument in command if argument.startswith("-I")]
    waiting = [Path(argument) for argument in command[1:] if argument[0] != "-" and argument not in told]
    seen = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield path
        if path.suffix in _SOURCES:
            for name in _INCLUDE.findall(path.read_bytes()):
                found = (Path(place, os.fsdecode(name)) for place in (path.parent, *places))
                waiting.extend(one for one in found if one.is_file())


def make_key(identity: str, command: Sequence[str], read: Sequence[Path]) -> str:
    """The name of what the command makes."""
    written = set(_find_told(command).values())
    names = {str(path) for path in read}
    arguments = [argument.replace(_ROOT, "") for argument in command[1:] if argument not in written | names]
    digest = hashlib.sha256("\0".join([identity, *arguments]).encode())
    for path in read:
        digest.update(b"\0" + path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _keep(made: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    new = kept.with_name(f"new-{os.getpid()}-{kept.name}")
    shutil.copy(made, new)
    new.replace(kept)


def prune(cache: Path, most_bytes: int) -> None:
    """Delete what was not used for longest, until the rest has at most this many bytes."""
    entries = []
    with contextlib.suppress(OSError):
        entries = [(one.stat().st_mtime_ns, one.stat().st_size, one.path) for one in os.scandir(cache)]
    total = 0
    for _, size, path in sorted(entries, reverse=True):
        total += size
        if total > most_bytes:
            with contextlib.suppress(OSError):  # another process deleted it
                Path(path).unlink()


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
