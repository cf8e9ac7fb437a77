"""Builds give equal bytes whatever varies; each seed varies everything at once.

A build's bytes must not depend on workers, bundles and their repeats, the order of sources and files, names, hash seed,
locale, time zone, kernel or kills. Each build of one corpus draws all of these again, and every file but run.json must
be equal. The sizes of ranges and of shards are part of a build. So builds that differ in them are compared by what the
documents alone decide: count tables, tokenizer, totals, digest of all documents.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from chaos.schedules import SETTINGS, SOURCES, corpus
from chaos.server import Warm
from support.builds import ROOT, build_file, drop_result_key, find_file, tokcore, tree

from tokcore import kernel
from tokcore_pipelines.build.commit import find_manifest
from tokcore_schemas.stage_table import WHOLE

VOCAB_SIZE = 300
ENVIRONMENTS = {
    "PYTHONHASHSEED": ["0", "1", "4242", "random"],
    "TZ": ["UTC", "Asia/Kathmandu", "America/Caracas", "Pacific/Chatham"],
    "LC_ALL": ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8"],
    "LANG": ["C", "ar_EG.UTF-8"],
    "TOKCORE_KERNEL": [*kernel.list_available()],
    "OMP_NUM_THREADS": ["1", "7"],
    "UMASK": ["077", "022"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus")
    corpus(path)
    return path


@pytest.fixture(scope="module")
def built(folder: Path, warm: Warm) -> Path:
    path = build_file(folder, SOURCES, SETTINGS.format(vocab_size=VOCAB_SIZE))
    assert "root" in warm.build(path, folder / "out", hostility=0)
    return folder / "out"


def shuffled_sources(chance: random.Random) -> str:
    """The same sources in another order, their files in another order and spelling."""
    tables = ["[[source]]" + table for table in SOURCES.split("[[source]]")[1:]]
    chance.shuffle(tables)
    files = ["mixed.jsonl", "more.jsonl.gz", "mo*.gz"]
    chance.shuffle(files)
    return "".join(tables).replace('["mixed.jsonl", "more.jsonl.gz"]', repr(files).replace("'", '"'))


@pytest.mark.parametrize("seed", range(6))
def test_any_layout_of_bundles(folder, built, warm, seed, tmp_path):
    """Our own runner, over shuffled sources; half of the builds are killed and resumed on the way."""
    chance = random.Random(seed)
    path = build_file(
        folder, SOURCES, SETTINGS.format(vocab_size=VOCAB_SIZE), name=f"{seed}.toml", build=f'name = "{seed}"'
    )
    how: dict[str, Any] = {"hostility": chance.choice([0.2, 0.9]), "concurrent": chance.random() < 0.5}
    for _ in range(chance.choice([0, 0, 1, 3])):
        crash = [chance.choice(["count.item", "merge.named", "encode.shard", "stage.published"]), chance.randint(1, 4)]
        warm.build(path, tmp_path / "out", seed=chance.randrange(1 << 30), crash=crash, **how)
    assert "root" in warm.build(path, tmp_path / "out", seed=chance.randrange(1 << 30), **how)
    assert tree(tmp_path / "out") == tree(built)


def test_any_order_of_sources(folder, built, warm, tmp_path):
    """Files named twice are reported in the plan, so the plan's manifest is left out here; no other file differs."""
    for seed in range(2):
        chance = random.Random(seed)
        path = build_file(
            folder, shuffled_sources(chance), SETTINGS.format(vocab_size=VOCAB_SIZE), name=f"shuffled-{seed}.toml"
        )
        assert "root" in warm.build(path, tmp_path / str(seed), seed=seed)
    first, *others = (tree(tmp_path / str(seed)) for seed in range(2))
    assert all(other == first for other in others)
    for part in ("counts", "tokenizer", "shards", "rejected"):
        for name in (built / part).rglob("*"):
            if name.is_file() and name.name not in ("run.json", "manifest.json"):
                same = find_file(tmp_path / "0", drop_result_key(str(name.relative_to(built))))
                assert name.read_bytes() == same.read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_any_environment_and_number_of_workers(folder, built, seed, tmp_path):
    """The command line with worker processes. Some builds are killed once at a random moment, and resume."""
    chance = random.Random(100 + seed)
    environment = {name: chance.choice(values) for name, values in ENVIRONMENTS.items()}
    environment["TOKCORE_KERNEL"] = kernel.list_available()[seed % len(kernel.list_available())]
    workers = [1, 2, 8, 3][seed]
    options = ["--", "--direct_runner_bundle_repeat=1"] if seed % 2 else []
    command = ["build", folder / "build.toml", "--output", tmp_path / "out", "--workers", str(workers), *options]
    old = os.umask(int(environment.pop("UMASK"), 8))
    try:
        if seed % 2:
            driver = subprocess.Popen(
                [sys.executable, "-m", "tokcore_pipelines.cli", *map(str, command)],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(chance.uniform(1.5, 3.5))
            driver.send_signal(signal.SIGKILL)
            driver.wait()
        done = tokcore(*command, env={**os.environ, **environment})
    finally:
        os.umask(old)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "out") == tree(built)


@pytest.mark.parametrize("seed", range(3))
def test_any_size_of_ranges_and_shards(folder, built, warm, seed, tmp_path):
    """Another plan is another build; what the documents alone decide is the same."""
    chance = random.Random(200 + seed)
    settings = SETTINGS.format(vocab_size=VOCAB_SIZE)
    settings = settings.replace("range_bytes = 2500", f"range_bytes = {chance.randint(200, 20_000)}")
    settings = settings.replace("target_tokens = 600", f"target_tokens = {chance.randint(50, 5000)}")
    path = build_file(folder, SOURCES, settings, name=f"ranges-{seed}.toml")
    done = warm.build(path, tmp_path / "out", seed=seed, verify=True)
    assert done.get("problems") == [], done
    for part in ("counts/*.parquet", "tokenizer/*"):
        for file in built.glob(part):
            if file.name not in ("run.json", "manifest.json"):
                same = find_file(tmp_path / "out", drop_result_key(str(file.relative_to(built))))
                assert same.read_bytes() == file.read_bytes()
    now, before = (find_manifest(str(output), WHOLE) for output in (tmp_path / "out", built))
    assert now is not None
    assert before is not None
    assert now.languages == before.languages
    for name in ("documents_digest", "tokens", "fingerprint", "text_bytes", "records"):
        assert getattr(now.totals, name) == getattr(before.totals, name)
