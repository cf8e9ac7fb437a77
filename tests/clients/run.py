"""Has the trainers' own readers read the demo's shards, without documents files, and compare every document.

    python tests/clients/run.py [READER ...]

Installs torch from PyPI once, into build/clients/torch. Each reader gets an environment of its own, which sees that
torch, unless its pins ask for another: some gigabytes together, downloaded once. MosaicML's also reads from an S3
server. Without names, torch's DataLoader also reads from our Loader. Prints the versions; fails if a reader failed or
was skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from clients.read import READERS
from pages.trainers import build_for, list_trainers
from stores.servers import start_s3

import tokcore

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "clients"

# What a reader imports besides its own distribution, where that does not say so or says more than it needs.
MORE = {"megatron": ["packaging"], "datatrove": ["tokenizers"]}  # datatrove for its writer, which benchmarks take
WITHOUT_DEPENDENCIES = {"megatron"}
TORCH = ["torch", "numpy"]


def main(names: list[str]) -> int:
    """Returns exit code 1 if a reader failed."""
    if unknown := set(names) - set(READERS):
        raise SystemExit(f"no such reader: {', '.join(sorted(unknown))}. There are: {', '.join(READERS)}")
    shards, expected = make_shards()
    failed, versions = [], {}
    with start_s3() as store:
        environment = os.environ | store.environment | {"TOKCORE_CLIENTS_S3": store.fresh()}
        for name in names or READERS:
            try:
                python = make_environment(name)
                versions[name] = read(python, name, shards, expected, environment)
                read_as_the_page_says(python, name)
            except (subprocess.CalledProcessError, ValueError, IndexError) as error:
                failed.append(name)
                print(f"{name}: failed: {error}", flush=True)
    if not names and not load_with_torch():
        failed.append("our Loader in torch's DataLoader")
    asked = len(names or READERS) + (not names)
    print(
        f"{asked - len(failed)} of {asked} readers read all of it" + (f"; not: {', '.join(failed)}" if failed else "")
    )
    print(describe_torch(versions))
    return 1 if failed else 0


def load_with_torch() -> bool:
    """Whether the test of our Loader in torch's DataLoader passes, which is skipped where torch is missing."""
    path = _find_packages(make_venv(PLACE / "torch", TORCH))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(path), str(ROOT / "tests")])}
    test = ROOT / "tests/tokcore/test_loader.py::test_torch_reads_it"
    for command in (["-c", "import torch"], ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]):
        if subprocess.run([sys.executable, *command], env=environment, cwd=ROOT, check=False).returncode:
            return False
    return True


def make_shards() -> tuple[Path, Path]:
    """The demo's shards in all formats of READERS, and a file of what is in them."""
    output = PLACE / "demo"
    shutil.rmtree(output, ignore_errors=True)  # an earlier tree's
    formats = ", ".join(f'"{name}"' for name in READERS)
    settings = [f"shards.formats=[{formats}]", "shards.validation=0.1"]
    command = [
        sys.executable,
        "-m",
        "tokcore_pipelines.cli",
        "build",
        ROOT / "deploy/demo/build.toml",
        "--output",
        output,
    ]
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


def read(python: Path, name: str, shards: Path, expected: Path, environment: Mapping[str, str]) -> str:
    """Prints what the reader compared; the version of its torch. Raises an error if it did not compare everything."""
    command = [python, ROOT / "tests/clients/read.py", name, shards, expected]
    done = subprocess.run(command, env=dict(environment), check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    if not all(result["compared"].get(split) for split in ("train", "validation")):
        raise ValueError(f"it compared {result['compared']}")
    numbers = " + ".join(f"{number:,} {split}" for split, number in result["compared"].items())
    told = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
    print(f"{name}: {told}: {numbers} {result['unit']} equal", flush=True)
    return str(result["versions"]["torch"])


def read_as_the_page_says(python: Path, name: str) -> None:
    """Run what docs/how-to/feed-a-trainer.md says over a build with its settings; prints how many ids it read."""
    trainer = list_trainers()[name]
    with tempfile.TemporaryDirectory() as folder:
        ids = build_for(trainer, Path(folder))
        done = subprocess.run(
            [python, "-c", trainer.compared, ids], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        )
    print(f"{name}: the page's code runs, ids read: {done.stdout.strip() or 'none, a configuration'}", flush=True)


def describe_torch(versions: Mapping[str, str]) -> str:
    """Which readers have which torch."""
    readers: dict[str, list[str]] = {}
    for name, version in versions.items():
        readers.setdefault(version, []).append(name)
    return "; ".join(f"torch {version}: {', '.join(names)}" for version, names in readers.items())


def make_environment(name: str) -> Path:
    """The Python of a reader's environment, with the torch of all of them."""
    folder = PLACE / name
    if not (folder / "installed").exists():
        shared = make_venv(PLACE / "torch", TORCH)
        alone = ["--no-deps"] if name in WITHOUT_DEPENDENCIES else []
        make_venv(folder, MORE.get(name, []), [*alone, READERS[name][0]], sees=shared)
    return folder / "bin" / "python"


def make_venv(folder: Path, *wanted: list[str], sees: Path | None = None) -> Path:
    """An environment in which pip has installed each list of arguments.

    sees: another environment, whose packages count as installed here. A second version of one is installed only if a
    pin asks for it.
    """
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        if sees is not None:
            (_find_packages(folder) / "seen.pth").write_text(f"{_find_packages(sees)}\n")
        for arguments in filter(None, wanted):
            subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", *arguments], check=True)
        (folder / "installed").touch()
    return folder


def _find_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
