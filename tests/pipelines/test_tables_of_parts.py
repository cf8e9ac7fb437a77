"""Count tables that several ranges of keys share: files that hold some of the rows each, for all that reads tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import fsspec
import pytest
from support.builds import build_file, jsonl, run, tree, write
from support.updates import SETTINGS, SOURCES, make_texts, update_here, write_file

import tokcore
from tokcore.count.pretoken_rows import list_rows
from tokcore.errors import ChecksumError, FormatError, LedgerError, StageError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_pipelines.build import count_corpus, learn_together
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.prove_file import prove_file
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.sampled import parse_sample
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.local.memory import Available
from tokcore_pipelines.local.run_options import RunOptions, Slice
from tokcore_pipelines.store import crashpoints
from tokcore_pipelines.watch import drift
from tokcore_pipelines.work.counted_parts import CountedPart, CountedParts
from tokcore_pipelines.work.search_rows import keep_tables
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import COUNTS, WHOLE

WORDS = [a + b + c for a in "abcdefgh" for b in "aeiou" for c in "nrst"]


def use_ranges(patch: pytest.MonkeyPatch, num: int) -> None:
    patch.setattr(count_corpus, "choose_num_ranges", lambda _: num)


def write_english(folder: Path, name: str, texts: Sequence[str]) -> None:
    documents = [{"id": f"{name}-{i}", "text": text} for i, text in enumerate(texts)]
    write(folder / "en" / f"{name}.jsonl", jsonl(documents))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with its builds: in one range in one/, and in six in out/."""
    folder = tmp_path_factory.mktemp("parts")
    for number, name in enumerate("ab"):
        write_english(folder, name, [*make_texts(name, 9), *(" ".join(WORDS[i::9]) for i in range(number, 9, 2))])
    write_file(folder, "mixed/c.jsonl", make_texts("c", 9), "de")
    write_file(folder, "mixed/d.jsonl", make_texts("d", 9), "fr")
    path = build_file(folder, SOURCES.replace('lang = "en"\n', 'lang = "en"\nid = "id"\n'), SETTINGS)
    run(path, folder / "one")
    with pytest.MonkeyPatch.context() as patch:
        use_ranges(patch, 6)
        run(path, folder / "out")
    return folder


@pytest.fixture
def corpus(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, in which everything is done in six ranges."""
    use_ranges(monkeypatch, 6)
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def list_parts(output: Path, key: str = "en~train~") -> list[Path]:
    return sorted(output.glob(f"counts/{key}-*.parquet/*.parquet"))


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def read_all(output: Path | str) -> dict[str, list[object]]:
    """The rows of all languages, and those of one without its validation split."""
    found = {lang: tokcore.open_counts(output, lang).to_pylist() for lang in ("en", "de")}
    return {**found, "en, train": tokcore.open_counts(output, "en", split="train").to_pylist()}


# -------------------------------------------------------------------------------------------------------- what they are


def test_an_entry_of_the_manifest_lists_its_parts(built):
    made = require_manifest(str(built / "out"), COUNTS)
    single = require_manifest(str(built / "one"), COUNTS)
    assert made.content_id() == single.content_id()
    assert [entry.content_sha256 for entry in made.files] == [entry.content_sha256 for entry in single.files]
    assert [entry.about for entry in made.files] == [entry.about for entry in single.files]
    shared = [entry for entry in made.files if entry.parts]
    assert len(list_parts(built / "out")) > 1
    for entry in shared:
        assert sum(part.rows for part in entry.parts) == entry.about.rows
        assert sum(part.size_bytes for part in entry.parts) == entry.size_bytes
    every = (file for file in (built / "out" / "counts").rglob("*.parquet") if file.is_file())
    there = {str(file.relative_to(built / "out" / "counts")) for file in every}
    assert there == {file.path for file in made.list_files()}


def test_they_are_read_in_python_as_one_table(built, tmp_path):
    assert read_all(built / "out") == read_all(built / "one")
    memory = fsspec.filesystem("memory")
    for file in (built / "out").rglob("*.*"):
        if file.is_file():
            memory.pipe_file(f"/parts-of-tables/{file.relative_to(built / 'out')}", file.read_bytes())
    assert read_all("memory://parts-of-tables") == read_all(built / "one")


def test_other_bytes_and_another_order_are_refused_in_python(corpus):
    first, second, *_ = list_parts(corpus / "out")
    whole = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(ChecksumError, match=r"00000\.parquet: its bytes are not those that were committed"):
        tokcore.open_counts(corpus / "out", "en")
    first.write_bytes(whole)
    path = corpus / "out" / "counts" / "manifest.json"
    made = json.loads(path.read_bytes())
    (entry,) = (one for one in made["files"] if one["path"] == first.parent.name)
    entry["parts"][0], entry["parts"][1] = entry["parts"][1], entry["parts"][0]
    path.write_bytes(write_canonical_json(made))
    with pytest.raises(FormatError, match=r"00000\.parquet: begins before the end of the part before it"):
        tokcore.open_counts(corpus / "out", "en", split="train")
    entry["parts"][0]["path"] = "../x.parquet"
    path.write_bytes(write_canonical_json(made))
    with pytest.raises(FormatError, match=r"names '\.\./x\.parquet', which is not in its folder"):
        tokcore.open_counts(corpus / "out", "en")


def test_all_that_reads_tables_reads_parts(built):
    sides = [
        CountedParts((CountedPart(str(built / name), require_manifest(str(built / name), COUNTS)),))
        for name in ("one", "out")
    ]
    rows = [[row for block in side.read_rows("en") for row in list_rows(block)] for side in sides]
    assert rows[0] == rows[1]
    kept = [[(table.key, list_rows(table.rows)) for table in keep_tables(side, 100)] for side in sides]
    assert kept[0] == kept[1]
    one, several = ([(key, rows) for key, _, rows in side.sized_files] for side in sides)
    assert len(several) > len(one)
    assert sum(rows for _, rows in several) == sum(rows for _, rows in one), "what is dealt to hosts, a part at a time"
    outputs = [str(built / name) for name in ("one", "out")]
    total = sum(one.pretokens for one in sides[0].languages.values())
    assert drift.count_unseen(outputs[1], drift.make_filter(outputs[:1])) == (total, 0)
    assert drift.count_unseen(outputs[0], drift.make_filter(outputs[1:])) == (total, 0)


def test_hosts_that_learn_together_deal_a_part_each(corpus, monkeypatch):
    monkeypatch.setattr(learn_together, "find_learn_memory", lambda config: Available(500, "a limit"))
    monkeypatch.setattr(learn_together, "READ_BYTES", 0)
    monkeypatch.setattr(learn_together, "LEAST_BYTES", 1)
    monkeypatch.setattr(learn_together, "find_read_bytes", lambda rows: 0)
    dealt: list[str] = []
    group = learn_together.list_groups
    monkeypatch.setattr(
        learn_together, "list_groups", lambda files, most: dealt.extend(url for url, *_ in files) or group(files, most)
    )
    options = RunOptions(1, here=True, share=Slice(1, 1))
    made = Build(load_config(str(corpus / "build.toml")), options, str(corpus / "together")).run()
    assert made.root == require_manifest(str(corpus / "one"), WHOLE).root
    assert {*map(str, list_parts(corpus / "together"))} <= {*dealt}
    assert len({*dealt}) == len(dealt)


# -------------------------------------------------------------------------------------------------------- whole outputs


def test_an_output_is_sound_and_is_recognised(corpus):
    report = verify(str(corpus / "out"), decode=None, base=str(corpus))
    assert report.problems == ()
    for seed in range(3):
        assert verify(str(corpus / "out"), sample=parse_sample("0.3", seed)).problems == ()
    before = tree(corpus / "out")
    build = Build(load_config(str(corpus / "build.toml")), RunOptions(here=True), str(corpus / "out"))
    build.run()
    assert build.made == []
    assert gc(str(corpus / "out"), "0").removed == ()
    assert tree(corpus / "out") == before
    (entry, *_) = (one for one in require_manifest(str(corpus / "out"), COUNTS).files if one.parts)
    assert prove_file(read_output(str(corpus / "out")), f"counts/{entry.path}").sha256 == entry.sha256


@pytest.mark.parametrize("what", ["missing", "damaged", "swapped", "gone"])
def test_a_part_that_is_not_as_committed_is_named_and_made_again(corpus, what):
    before = tree(corpus / "out")
    parts = list_parts(corpus / "out")
    if what == "missing":
        wrong = parts[1:2]
        parts[1].unlink()
    elif what == "damaged":
        wrong = parts[:1]
        damage(parts[0])
    elif what == "swapped":
        wrong = parts[:2]
        first, second = (part.read_bytes() for part in wrong)
        parts[0].write_bytes(second)
        parts[1].write_bytes(first)
    else:
        wrong = parts
        shutil.rmtree(parts[0].parent)
    named = {str(part.relative_to(corpus / "out")) for part in wrong}
    problems = verify(str(corpus / "out")).problems
    assert {said.split(": ")[0] for said in problems} == named
    if what in ("missing", "gone"):
        with pytest.raises(StageError, match=r"\.parquet: missing.*`tokcore repair"):
            run(corpus / "build.toml", corpus / "out")
    report = repair(str(corpus / "out"), base=str(corpus))
    assert report.left == ()
    assert {*report.repaired} == named
    assert tree(corpus / "out") == before


@pytest.mark.parametrize("num", [1, 2, 9])
def test_a_table_is_repaired_as_it_was_cut_then(corpus, num, monkeypatch):
    """By a release that makes other ranges: outputs of one file, and of other parts."""
    use_ranges(monkeypatch, num)
    for name in ("one", "out"):
        before = tree(corpus / name)
        for path in sorted((corpus / name / "counts").rglob("*.parquet")):
            if path.is_file():
                path.unlink()
        assert repair(str(corpus / name), base=str(corpus)).left == ()
        assert tree(corpus / name) == before


def test_another_output_takes_them_over(corpus, tmp_path):
    build = Build(
        load_config(str(corpus / "build.toml")), RunOptions(here=True), str(corpus / "other"), reuse=str(corpus / "out")
    )
    build.run()
    assert tree(corpus / "other") == tree(corpus / "out")
    damage(list_parts(corpus / "out")[1])
    build = Build(
        load_config(str(corpus / "build.toml")), RunOptions(here=True), str(corpus / "third"), reuse=str(corpus / "out")
    )
    with pytest.raises(StageError, match=r"00001\.parquet: its bytes are not the ones that were committed"):
        build.run()


# -------------------------------------------------------------------------------------------------------------- history


@pytest.fixture
def changed(corpus: Path) -> Path:
    """The corpus with some files changed, one gone and one new."""
    write_english(corpus, "b", [*make_texts("b", 6), " ".join(WORDS[::9])])
    write_english(corpus, "new", [" ".join(WORDS[3::9]), *make_texts("new", 5)])
    (corpus / "mixed" / "d.jsonl").unlink()
    return corpus


def test_updates_subtract_from_parts(changed, monkeypatch):
    """An output of parts, and one of single files, whose new tables lie in parts."""
    for name in ("out", "one"):
        assert update_here(changed / "build.toml", changed / name, vanished="remove").number == 1
    use_ranges(monkeypatch, 1)
    assert any(map(list_parts, (changed / "out" / "parts").iterdir())), "tables of what was inherited are shared, too"
    assert read_all(changed / "out") == read_all(changed / "one")
    run(changed / "build.toml", changed / "fresh")
    assert read_all(changed / "fresh") == read_all(changed / "out")
    for name in ("out", "one"):
        assert verify(str(changed / name), decode=None, base=str(changed)).problems == ()
    expired = expire(str(changed / "out"), keep=1)
    assert expired.files > 0
    assert not list_parts(changed / "out")
    assert verify(str(changed / "out")).problems == ()
    assert gc(str(changed / "out"), "0").removed == ()


def test_removals_subtract_from_parts(corpus):
    texts_of_one, texts_of_out = (read_all(corpus / name) for name in ("one", "out"))
    for name in ("one", "out"):
        done = Remove(str(corpus / name), ("a-1", "a-12"), options=RunOptions(here=True)).run()
        assert done.commit is not None
    assert read_all(corpus / "out") == read_all(corpus / "one") != texts_of_one == texts_of_out
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()


def test_a_damaged_part_is_not_taken_over(corpus):
    write_english(corpus, "a", make_texts("other", 5))
    damage(list_parts(corpus / "out")[1])
    with pytest.raises(
        StageError, match=r"00001\.parquet: its bytes are not those that were committed. `tokcore repair`"
    ):
        update_here(corpus / "build.toml", corpus / "out")


# ---------------------------------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize(("point", "visit"), [("range.part", 1), ("range.part", 3), ("table.joined", 1)])
def test_a_killed_writer_leaves_nothing_that_is_trusted(corpus, point, visit):
    assert point in crashpoints.SHARED_TABLE_POINTS
    reached: list[str] = []

    def stop(name: str) -> None:
        reached.append(name)
        if reached.count(point) == visit and name == point:
            raise KeyboardInterrupt

    crashpoints.watch(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(corpus / "build.toml", corpus / "again")
    finally:
        crashpoints.watch(None)
    assert not (corpus / "again" / "counts").exists()
    run(corpus / "build.toml", corpus / "again")
    assert tree(corpus / "again") == tree(corpus / "out")


def test_a_part_that_a_disk_changed_is_not_trusted(corpus):
    changed: list[Path] = []

    def change(name: str) -> None:
        if name == "range.written" and not changed:
            changed.extend((corpus / "again" / "_attempts").rglob("en~train*00000.parquet.*"))
            for part in changed:
                damage(part)

    crashpoints.watch(change)
    try:
        with pytest.raises(LedgerError, match=r"00000\.parquet.*: its bytes are not those"):
            run(corpus / "build.toml", corpus / "again")
    finally:
        crashpoints.watch(None)
    run(corpus / "build.toml", corpus / "again")
    assert tree(corpus / "again") == tree(corpus / "out")
