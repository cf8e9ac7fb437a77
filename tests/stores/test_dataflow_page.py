"""The commands of docs/how-to/dataflow.md from the build file on, in a shell, on a fake of the service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stores.files import put
from stores.servers import Store
from support.builds import ROOT, jsonl, texts
from support.dataflow import IMAGE, PROJECT, REGION, start_dataflow

from tokcore_pipelines.local.engines import find_worker_program

PAGE = (ROOT / "docs" / "how-to" / "dataflow.md").read_text()
# Of step 3 without its environment; the build of step 4 from here; step 5.
STEPS = [re.findall(rf"\*\*{n}\. .*?```sh\n(.*?)```", PAGE, re.DOTALL)[0] for n in (3, 4, 5)]


@pytest.fixture
def shell(gcs: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Runs commands of the page where my-corpus, the output's bucket and Terraform's answer are those of tests."""
    for name, value in gcs.environment.items():
        monkeypatch.setenv(name, value)
    folder = gcs.fresh()
    documents = [{"id": str(n), "text": text} for n, text in enumerate(texts("en", 200))]
    put(gcs, f"{folder}/corpus/en/pages.jsonl", jsonl(documents))
    (tmp_path / "engine.toml").write_text(
        f'[engine]\nname = "dataflow"\nproject = "{PROJECT}"\nregion = "{REGION}"\nimage = "{IMAGE}"\n'
        f'staging = "{gcs.root}/staging"\nsubnetwork = "regions/{REGION}/subnetworks/workers"\n'
    )
    with start_dataflow(gcs, tmp_path / "prism.log") as service:
        service.worker = find_worker_program()

        def run(commands: str) -> str:
            for there, here in {
                r"python3.11 -m venv .*\n": "",
                r"\.venv/bin/tokcore build .*": rf"\g<0> --quiet -- {' '.join(service.options)}",
                r"\.venv/bin/": f"{Path(sys.executable).parent}/",
                "gs://my-corpus": f"{folder}/corpus",
                "gs://my-project-1-tokcore-output": f"{folder}/output",
                "terraform .* output -raw engine": "cat engine.toml",
            }.items():
                commands = re.sub(there, here, commands)
            done = subprocess.run(
                ["bash", "-ec", commands], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield run


def test_from_a_bucket_to_verified_shards(shell, tmp_path):
    assert "input       1 file" in shell(STEPS[0])
    assert '/output/out"' in (tmp_path / "build.toml").read_text()
    root = shell(STEPS[1]).strip()
    verified = shell(STEPS[2])
    assert "200 documents decoded and equal to their source" in verified
    assert f"root {root}" in verified
