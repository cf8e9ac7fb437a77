"""Compile the learners in several ways, and compare what they learn from one table: make fingerprints.

With -O0 and with -O2 for the C library of this system, and with -O2 for musl, by the compiler of the package ziglang,
where that is installed. The words are those of the demo's corpus.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from support.compile_once import make_launcher

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KERNEL = ROOT / "tokcore" / "native" / "kernel"
SOURCES = [
    HERE / "learn_fingerprint.cpp",
    *sorted((KERNEL / "learn").glob("*.cpp")),
    *(KERNEL / "encode" / f"{name}.cpp" for name in ("free_places", "pair_ranks", "symbol_merges")),
    KERNEL / "sentencepiece" / "piece_trie.cpp",
    KERNEL / "sentencepiece" / "piece_words.cpp",
    *(
        KERNEL / "unigram" / f"{name}.cpp"
        for name in ("exact_math", "fewest_tokens", "score_trie", "seed_pieces", "unigram_learner", "unigram_pieces")
    ),
    KERNEL / "wordpiece" / "character_words.cpp",
    KERNEL / "scan" / "unicode_tables.cpp",
    KERNEL / "text" / "bert_tables.cpp",
]
# As the kernel's own CMakeLists.txt: what multiplies and adds is not fused.
FLAGS = ["-std=c++20", "-ffp-contract=off", f"-I{KERNEL}", "-pthread"]
MUSL = "musl -O2"


def list_ways() -> dict[str, list[str]]:
    """Name of a way to compile -> its command, without sources."""
    native = os.environ.get("CXX") or shutil.which("c++") or "c++"
    ways = {"-O0": [native, "-O0"], "-O2": [native, "-O2"]}
    if find_spec("ziglang") is not None:
        target = f"{platform.machine()}-linux-musl"
        ways[MUSL] = [sys.executable, "-m", "ziglang", "c++", "-O2", "-static", "-target", target]
    return ways


def make_table() -> bytes:
    """Words of the demo's texts that are not compressed, with their counts."""
    words: Counter[str] = Counter()
    for path in sorted((ROOT / "deploy" / "demo" / "data").rglob("*.jsonl")):
        words.update(path.read_text(encoding="utf-8").split())
    words.update(word for path in sorted(ROOT.glob("*/README.md")) for word in path.read_text(encoding="utf-8").split())
    return "".join(f"{count * 7}\t\u2581{word}\n" for word, count in sorted(words.items())).encode()


def compile_way(command: Sequence[str], folder: Path) -> Path:
    """The program, compiled file by file into a folder. Raises CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    once = make_launcher(command)

    def compile_file(source: Path) -> str:
        made = str(folder / f"{source.stem}.o")
        subprocess.run([*once, *command, *FLAGS, "-c", str(source), "-o", made], check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        objects = list(threads.map(compile_file, SOURCES))
    program = folder / "learn_fingerprint"
    subprocess.run([*once, *command, "-pthread", *objects, "-o", str(program)], check=True)
    return program


def compute_fingerprints(folder: Path, ways: Mapping[str, Sequence[str]], threads: Sequence[int]) -> dict[str, str]:
    """`WAY, N threads` -> a line for each learner."""
    table = make_table()
    found = {}
    for number, (name, command) in enumerate(ways.items()):
        program = compile_way(command, folder / str(number))
        for num in threads:
            done = subprocess.run([program, str(num)], input=table, stdout=subprocess.PIPE, check=True)
            found[f"{name}, {num} threads"] = done.stdout.decode()
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = compute_fingerprints(Path(folder), list_ways(), (1, 3))
    if MUSL not in list_ways():
        print("without musl: pip install ziglang")
    for name, lines in found.items():
        print(f"{name}\n{lines}")
    same = len(set(found.values())) == 1
    print("all are the same" if same else "THEY DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
