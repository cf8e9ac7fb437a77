"""Count tables that several ranges share, in S3: each part is an object that its worker writes."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from stores.servers import Store
from support.builds import build_file, run
from support.updates import SETTINGS, SOURCES, make_texts, update_here, write_file

import tokcore
from tokcore_pipelines.build import count_corpus
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store import crashpoints
from tokcore_schemas.stage_table import COUNTS, WHOLE


def list_rows(output: str | Path) -> list[object]:
    rows: list[object] = tokcore.open_counts(output, "en").to_pylist()
    return rows


@pytest.mark.usefixtures("s3_here")
def test_a_build_in_parts_is_the_local_one(s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [a + b + c for a in "abcdefgh" for b in "aeiou" for c in "nrst"]
    for number, name in enumerate("ab"):
        write_file(tmp_path, f"en/{name}.jsonl", [*make_texts(name, 9), " ".join(words[number::2])])
    write_file(tmp_path, "mixed/c.jsonl", make_texts("c", 9), "de")
    path = build_file(tmp_path, SOURCES, SETTINGS)
    here = run(path, tmp_path / "one")
    monkeypatch.setattr(count_corpus, "choose_num_ranges", lambda _: 5)
    output = s3.fresh()

    def stop(name: str) -> None:
        if name == "table.joined":
            raise KeyboardInterrupt

    crashpoints.watch(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(path, output)  # type: ignore[arg-type]
    finally:
        crashpoints.watch(None)
    assert run(path, output).root == here.root  # type: ignore[arg-type]
    assert require_manifest(output, WHOLE).root == here.root
    made = require_manifest(output, COUNTS)
    parts = [file.path for file in made.list_files() if "/" in file.path]
    assert len(parts) > 1
    assert list_rows(output) == list_rows(tmp_path / "one")
    assert verify(output, decode=None, base=str(tmp_path)).problems == ()
    assert gc(output, "0").removed == ()

    system, place = fsspec.core.url_to_fs(f"{output}/counts/{parts[1]}")
    whole = system.cat_file(place)
    system.pipe_file(place, whole[:-1] + bytes([whole[-1] ^ 1]))
    assert [said.split(": ")[0] for said in verify(output).problems][:1] == [f"counts/{parts[1]}"]
    system.rm_file(place)
    assert repair(output, base=str(tmp_path)).left == ()
    assert system.cat_file(place) == whole
    write_file(tmp_path, "en/b.jsonl", make_texts("other", 9))
    for where in (output, str(tmp_path / "one")):
        update_here(path, where)  # type: ignore[arg-type]
    assert list_rows(output) == list_rows(tmp_path / "one")
    assert verify(output, decode=None, base=str(tmp_path)).problems == ()
