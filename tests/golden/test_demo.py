"""The demo's root, the same on every machine: it depends on content alone, not on codecs, times or paths.

A change here is a change of output bytes: mark it [bytes] in the changelog.
"""

from __future__ import annotations

from support.builds import ROOT, run

from tokcore.files.canonical_json import hash_sha256
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.stage_manifests import RecordTotals
from tokcore_schemas.stage_table import PLAN

DEMO_ROOT = "0ea9036d9f799cbeffb4d3350fd269e32657d98fc4e6eb6c70c2381cfb13bd21"
# sha256 of documents_digest, which has 768 digits; Bitcoin Core prints its bytes in reverse order.
DOCUMENTS_DIGEST = "5bed69110dd57ddb9bed3be4d1a66f90bde093954126c0621ba1e3a4340f0022"


def test_the_demo_has_the_root_that_the_readme_names(tmp_path):
    build = run(ROOT / "deploy" / "demo" / "build.toml", tmp_path / "out")
    assert build.totals.records == RecordTotals(read=477, documents=477, rejected={})
    assert hash_sha256(bytes.fromhex(build.totals.documents_digest)) == DOCUMENTS_DIGEST
    assert build.root == DEMO_ROOT
    assert DEMO_ROOT in (ROOT / "README.md").read_text()
    report = verify(str(tmp_path / "out"), decode=None, root=DEMO_ROOT)
    assert report.problems == ()
    assert report.num_decoded == 477
    assert find_manifest(str(tmp_path / "out"), PLAN).totals.items > 1
