"""The demo's root, the same on every machine: it depends on content alone, not on codecs, times or paths.

A change here is a change of output bytes: mark it [bytes] in the changelog.
"""

from __future__ import annotations

from support.builds import ROOT, run

from pipelines.inspect.verify import verify
from pipelines.stages.commit import find_manifest
from schemas.stage_manifests import RecordTotals

DEMO_ROOT = "2e771d687e9fddf2ff01ab8319f8ed1867f56cc9e9b49e2b99076dfe3fb505a5"
DOCUMENTS_DIGEST = "4b5318c5e4cdf55aad8fc3f10ebb2316121617a6da5a03525bf4d7bc37b357b0"


def test_the_demo_has_the_root_that_the_readme_names(tmp_path):
    build = run(ROOT / "deploy" / "demo" / "build.toml", tmp_path / "out")
    assert build.totals.records == RecordTotals(read=477, documents=477, rejected={})
    assert build.totals.documents_digest == DOCUMENTS_DIGEST
    assert build.root == DEMO_ROOT
    assert DEMO_ROOT in (ROOT / "README.md").read_text()
    report = verify(str(tmp_path / "out"), decode=None, root=DEMO_ROOT)
    assert report.problems == ()
    assert report.num_decoded == 477
    assert find_manifest(str(tmp_path / "out"), "plan").totals.items > 1
