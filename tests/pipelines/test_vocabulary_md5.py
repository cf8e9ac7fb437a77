"""The MD5 of vocab.json in the manifest: the file's own, no part of a root, compared by verify, not in old outputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.builds import build_file, run, small_corpus
from support.forging import Forger

from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.stage_table import TOKENIZER, TOKENIZERS, WHOLE


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("md5")
    small_corpus(folder)
    run(build_file(folder, settings="[learn]\nvocab_size = [300, 320]"), folder / "out")
    return folder / "out"


def test_it_is_that_of_the_file(output):
    for stage, num in ((TOKENIZER, 1), (TOKENIZERS, 2)):
        made = find_manifest(str(output), stage)
        found = {entry.path: entry.about.md5 for entry in made.files}
        said = {path: md5 for path, md5 in found.items() if md5}
        assert len(said) == num
        for path, md5 in said.items():
            assert path.rpartition("/")[2] == "vocab.json"
            assert hashlib.md5((output / stage.name / path).read_bytes()).hexdigest() == md5


def test_another_one_is_found_and_none_is_an_old_output(output):
    root = find_manifest(str(output), WHOLE).root
    forger = Forger(output)
    (entry,) = [one for one in forger.manifests["tokenizer"]["files"] if one["path"] == "vocab.json"]
    md5, entry["about"]["md5"] = entry["about"]["md5"], "0" * 32
    forger.hash_again(2)
    assert verify(str(output), root=root).problems == (
        f"tokenizer/manifest.json: files[vocab.json].about.md5 = {'0' * 32!r}, its files give {md5!r}",
    )
    del entry["about"]["md5"]
    forger.hash_again(2)
    assert verify(str(output), root=root).problems == ()
    forger.restore()
