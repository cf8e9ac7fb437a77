"""A build to S3 that drops duplicates: the same as on a disk, also if it was killed while it found them."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores.servers import Store
from support.builds import build_file, jsonl, texts, tokcore, write

from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.stage_table import DEDUP, WHOLE


@pytest.mark.usefixtures("s3_here")
def test_a_build_to_s3_is_the_local_one(s3: Store, tmp_path: Path) -> None:
    for number in range(4):
        documents = [{"id": f"{number}-{i}", "text": text} for i, text in enumerate(texts("en", 30 + number))]
        write(tmp_path / f"{number}.jsonl", jsonl(documents))
    source = '[[source]]\nlang = "en"\nid = "id"\nfiles = "*.jsonl"\n[dedup]\nby = "text"\n'
    path = build_file(tmp_path, source, "[plan]\nrange_bytes = 3000\n[learn]\nvocab_size = 300\n")
    local, output = str(tmp_path / "out"), s3.fresh()
    done = tokcore("build", path, "--output", local, env=s3.variables())
    assert done.returncode == 0, done.stderr
    killed = tokcore("build", path, "--output", output, env={**s3.variables(), "TOKCORE_CRASH": "dedup.listed:2"})
    assert killed.returncode != 0
    done = tokcore("build", path, "--output", output, env=s3.variables())
    assert done.returncode == 0, done.stderr
    here, there = (require_manifest(where, WHOLE) for where in (local, output))
    assert (there.root, there.totals) == (here.root, here.totals)
    assert require_manifest(output, DEDUP).totals.duplicates > 60
    assert verify(output, decode=None, base=str(tmp_path)).problems == ()
