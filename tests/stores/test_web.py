"""Whole builds from a web server and from the Hugging Face Hub, by requests for ranges; equal to the local build."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from stores.web import REPO, serve
from support.builds import SOURCES, build_file, small_corpus, tokcore

FILES = ("en.jsonl.zst", "ru.jsonl", "zh.jsonl.gz", "hi.txt")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web")
    small_corpus(folder)
    return folder


@pytest.mark.parametrize("scheme", ["http", "hf"])
def test_a_build_from_the_web(scheme: str, corpus: Path, tmp_path: Path) -> None:
    """What documents decide is equal: counts, tokenizer, digest. The plan names other files."""
    local = tmp_path / "local"
    assert tokcore("build", build_file(corpus), "--output", local).returncode == 0
    (corpus / "build.toml").unlink()
    with serve(corpus) as (url, requests):
        root = url if scheme == "http" else f"hf://datasets/{REPO}"
        sources = SOURCES
        for name in FILES:
            sources = sources.replace(f'"{name}"', f'"{root}/{name}"')
        if scheme == "hf":  # a hub lists files
            sources = sources.replace("ru.jsonl", "r*.jsonl")
        environment = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}
        path = build_file(tmp_path, sources)
        done = tokcore("build", path, "--json", env=environment, timeout=200)
        assert done.returncode == 0, done.stderr
        verified = tokcore("verify", tmp_path / "out", "--decode", "all", "--json", env=environment, timeout=200)
        assert json.loads(verified.stdout)["num_decoded"] == 102, verified.stderr
    theirs = json.loads((local / "manifest.json").read_bytes())
    ours = json.loads(done.stdout)
    for name in ("documents_digest", "tokens", "fingerprint"):
        assert ours["totals"][name] == theirs["totals"][name]
    for lang in ("en", "ru", "zh", "hi"):
        [table], [there] = ((output / "counts").glob(f"{lang}-*.parquet") for output in (tmp_path / "out", local))
        assert table.read_bytes() == there.read_bytes()
    assert [path for method, path, ranged in requests if method == "GET" and ranged.startswith("bytes=")]


def test_the_tokenizer_of_a_model_of_the_hub(corpus: Path, tmp_path: Path) -> None:
    """Read once; then from the Hub's cache, where the Hub does not answer and where it must not be asked."""
    model = tmp_path / "model"
    assert tokcore("build", build_file(corpus), "--output", tmp_path / "learned").returncode == 0
    model.mkdir()
    shutil.copy(tmp_path / "learned" / "tokenizer" / "tokenizer.json", model)
    path = build_file(corpus, settings=f'[tokenizer]\nfrom = "hf://{REPO}"\n', name="imported.toml")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}
    roots = set()
    with serve(model) as (url, requests):
        environment["HF_ENDPOINT"] = url
        for number, more in enumerate(({}, {"HF_HUB_OFFLINE": "1"})):
            done = tokcore("build", path, "--output", tmp_path / str(number), "--quiet", env=environment | more)
            assert done.returncode == 0, done.stderr
            roots.add(done.stdout)
            asked, requests[:] = requests[:], []
            assert bool(asked) == (number == 0)
    done = tokcore("build", path, "--output", tmp_path / "2", "--quiet", env=environment)
    assert done.returncode == 0, done.stderr
    assert roots == {done.stdout}
    unknown = tokcore(
        "build", path, "--set", f"tokenizer.from=hf://{REPO}-2", "--output", tmp_path / "3", env=environment
    )
    assert unknown.returncode == 2
    assert f"hf download {REPO}-2" in unknown.stderr
