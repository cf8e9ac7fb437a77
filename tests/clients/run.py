"""Has the trainers' own readers read the demo's shards, without documents files, and compare every document.

    python tests/clients/run.py [READER ...]

Each reader gets an environment of its own, with torch from PyPI, in build/clients: their pins clash. That is some
gigabytes each, downloaded once. Prints the versions; fails if a reader failed or was skipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from clients.read import READERS

import tokcore

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "clients"

# What a reader imports besides its own distribution, where that does not say so or says more than it needs.
MORE = {"megatron": ["packaging"]}
WITHOUT_DEPENDENCIES = {"megatron"}


def main(names: list[str]) -> int:
    shards, expected = make_shards()
    failed = []
    for name in names or READERS:
        command = [make_environment(name), ROOT / "tests/clients/read.py", name, shards, expected]
        done = subprocess.run(command, check=False)
        if done.returncode:
            failed.append(name)
            print(f"{name}: failed, with exit status {done.returncode}", flush=True)
    if failed:
        print(f"{len(failed)} of {len(names or READERS)} readers failed: {', '.join(failed)}")
    return 1 if failed else 0


def make_shards() -> tuple[Path, Path]:
    """The demo's shards in all formats of READERS, and a file of what is in them."""
    output = PLACE / "demo"
    formats = ", ".join(f'"{name}"' for name in READERS)
    settings = [f"shards.formats=[{formats}]", "shards.validation=0.1"]
    command = [sys.executable, "-m", "pipelines.cli", "build", ROOT / "deploy/demo/build.toml", "--output", output]
    subprocess.run([*command, *(word for one in settings for word in ("--set", one))], check=True)
    arrays = {}
    for split in ("train", "validation"):
        shards = tokcore.open_shards(output, split)
        per_shard = [len(tokcore.open_shards(path, "all")) for path in shards.paths]
        arrays[split] = np.concatenate(list(shards))
        arrays[f"{split}_lengths"] = np.array([len(ids) for ids in shards])
        arrays[f"{split}_shards"] = np.array(per_shard)
    np.savez(PLACE / "expected.npz", **arrays)
    return output / "shards", PLACE / "expected.npz"


def make_environment(name: str) -> Path:
    """The Python of a reader's environment."""
    folder = PLACE / name
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "torch", "numpy", *MORE.get(name, [])], check=True)
        alone = ["--no-deps"] if name in WITHOUT_DEPENDENCIES else []
        subprocess.run([*install, *alone, READERS[name][0]], check=True)
        (folder / "installed").touch()
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
