"""A manifest that stands beside what its files give: any entry that only one of them has is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.manifests import MANIFESTS

from tokcore_pipelines.build.stage import Made
from tokcore_pipelines.check import recount as recounting
from tokcore_pipelines.check.recount import recount
from tokcore_schemas.refs import StoredFile


@pytest.mark.parametrize("change", ["none", "first", "last", "one more"])
def test_every_entry_is_compared(monkeypatch, change):
    """Entries at the end, too, where one list is a beginning of the other."""
    made = MANIFESTS["counts"]
    files = [
        (StoredFile(one.path, "", one.size_bytes, one.sha256, one.content_sha256), one.about) for one in made.files
    ]
    given = {"none": files, "first": files[1:], "last": files[:-1], "one more": [*files, files[-1]]}[change]
    work = SimpleNamespace(recount=lambda *_: Made(given, made.totals, made.languages), as_said=None)
    monkeypatch.setitem(recounting.WORK, "counts", work)
    assert bool([*recount(None, made, ())]) == (change != "none")
