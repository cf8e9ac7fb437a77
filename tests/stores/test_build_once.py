"""A build to S3: the same as on a disk, also if it was killed; nothing is copied, and no shard is read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores.servers import Store
from support.builds import build_file, small_corpus, tokcore

from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store import storage
from tokcore_schemas.stage_table import WHOLE

_SETTINGS = "[plan]\nrange_bytes = 20000\n[learn]\nvocab_size = 400\n"


@pytest.mark.usefixtures("s3_here")
def test_a_build_to_s3_is_the_local_one(s3: Store, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    small_corpus(corpus)
    path = build_file(corpus, settings=_SETTINGS)
    local, output = str(tmp_path / "out"), s3.fresh()
    done = tokcore("build", path, "--output", local, env=s3.variables())
    assert done.returncode == 0, done.stderr
    s3.proxy.reset()
    killed = tokcore("build", path, "--output", output, env={**s3.variables(), "TOKCORE_CRASH": "stage.published:5"})
    assert killed.returncode == -9, killed.stderr
    done = tokcore("build", path, "--output", output, env=s3.variables())
    assert done.returncode == 0, done.stderr
    here, there = (require_manifest(where, WHOLE) for where in (local, output))
    assert (there.root, there.totals) == (here.root, here.totals)
    assert not {"CopyObject", "UploadPartCopy"} & s3.proxy.count().keys()
    read = {one.key for one in s3.proxy.requests if one.operation == "GetObject"}
    assert not [key for key in read if key.endswith((".arrow", ".bin", ".idx"))]
    assert not [name for name in storage.list_tree(output) if name.startswith("_attempts")]
    assert verify(output).problems == ()
