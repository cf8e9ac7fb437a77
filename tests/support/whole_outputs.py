"""Outputs of which each commit is one part, beside a fresh build of the same documents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.builds import tree
from support.updates import build_fresh

import tokcore as package
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.check.verify import verify

DERIVED = ("mixed", "packed")


def read_shards(output: Path) -> dict[str, bytes]:
    """The files of all shards and rows of a part, without the key in their names, which tells of tombstones."""
    return {
        f"{stage}/{name}{Path(path).suffix}": data
        for stage in ("shards", *DERIVED)
        for path, data in tree(output / stage).items()
        if (name := path.rpartition("-")[0])
    }


def read_receipt(folder: Path) -> object:
    """What the manifest of a stage says of all that it holds; None if there is none."""
    path = folder / "manifest.json"
    return (
        {k: v for k, v in json.loads(path.read_text()).items() if k in ("totals", "languages")}
        if path.is_file()
        else None
    )


def require_fresh(folder: Path, gone=frozenset()) -> None:
    """Assert that the newest commit is sound, and one part: what a build gives that never had these documents."""
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()
    fresh = folder / "fresh"
    shutil.copytree(folder, fresh, ignore=shutil.ignore_patterns("out", "fresh"))
    for path in [*fresh.glob("en/*"), *fresh.glob("mixed/*")]:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if json.loads(line)["id"] not in gone))
    totals = build_fresh(fresh / "build.toml", fresh / "out", folder / "out")
    log = read_log(str(folder / "out"))
    (part,) = log.parts()
    made, expected = read_shards(Path(locate_part(log.output, part))), read_shards(fresh / "out")
    assert len(expected) > len(made) / 2
    if gone:  # provenance and so on have ordinals: those of the input files, which hold what was removed
        ordered = {path for path in made if path.rpartition(".")[2] not in ("provenance", "pieces")}
        if not any(path.endswith(".provenance") for path in made):  # and so do ranges, which unshuffled shards follow
            ordered = set()
        made, expected = ({path: data for path, data in of.items() if path in ordered} for of in (made, expected))
    assert made == expected
    for stage in DERIVED:
        mine, theirs = (read_receipt(Path(place) / stage) for place in (locate_part(log.output, part), fresh / "out"))
        assert mine == theirs
        if mine is not None:
            mine, theirs = (package.open_shards(place / stage, "all") for place in (folder / "out", fresh / "out"))
            assert len(mine)
            assert [ids.tolist() for ids in mine] == [ids.tolist() for ids in theirs]
            assert not gone & {mine.document(i).id for i in range(len(mine))}
    for name in ("documents", "text_bytes", "tokens", "documents_digest", "shards"):
        assert getattr(log.totals(), name) == getattr(totals, name)
    for split in ("train", "validation"):
        mine, theirs = (package.open_shards(place, split) for place in (folder / "out", fresh / "out"))
        assert [ids.tolist() for ids in mine] == [ids.tolist() for ids in theirs]  # in this order
    shutil.rmtree(fresh)
