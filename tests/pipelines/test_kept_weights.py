"""Mixtures whose weights follow from sizes: an update asks, moves all of them, or lets documents come as often."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.builds import build_file, run, tokcore
from support.removals import SETTINGS, SOURCES, compact_here, remove_here, write_corpus, write_documents
from support.updates import build_fresh

import tokcore as package
from tokcore.errors import ConfigError
from tokcore_pipelines.build.read_log import locate_part, read_log
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_schemas.config import load_config

TEMPERATURE = '[shuffle]\nseed = 3\n[mixture]\nstrategy = "temperature"\nalpha = 0.3\n'
FIXED = '[shuffle]\nseed = 3\n[mixture]\nstrategy = "weights"\nweights = { de = 2.5, fr = 0.5 }\n'


def build_mixed(folder, mixture):
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS.replace("[build]\nmax_rejected = 1\n", "") + mixture)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build_mixed(tmp_path_factory.mktemp("temperature"), TEMPERATURE + "[pack]\nlength = 64\n")


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def update(folder, weights="ask"):
    config = load_config(str(folder / "build.toml"))
    return Update(config, RunOptions(here=True), str(folder / "out"), weights=weights).run()


def count_copies(folder) -> Counter:
    """How often each document comes in the mixture of the newest commit."""
    mixed = package.open_shards(folder / "out" / "mixed", "all")
    return Counter(mixed.document(i).id for i in range(len(mixed)))


def read_settings(folder) -> dict:
    log = read_log(str(folder / "out"))
    return json.loads(Path(locate_part(log.output, log.parts()[-1]), "mixed/manifest.json").read_text())


def require_sound(folder) -> None:
    assert verify(str(folder / "out"), decode=None, base=str(folder)).problems == ()


def test_weights_that_follow_from_sizes_are_asked_for(corpus):
    write_documents(corpus, "en/e.jsonl", 40)
    said = (
        r"mixture.strategy is 'temperature', so its weights follow from sizes.*5 input files of .* would be read, and "
        r"\d+ shards, a mixture of \d+ documents and .* tokens and \d+ rows of 64 ids be written\. Pass --all .*"
        r"as often as in commit 0"
    )
    with pytest.raises(ConfigError, match=said):
        update(corpus)
    assert read_log(str(corpus / "out")).newest == 0
    done = tokcore("update", corpus / "build.toml", "--all")
    assert done.returncode == 0, done.stderr
    require_sound(corpus)
    assert "kept" not in read_settings(corpus)["config"]
    build_fresh(corpus / "build.toml", corpus / "fresh", corpus / "out")
    for stage in ("mixed", "packed"):
        mine, theirs = (package.open_shards(corpus / place / stage, "all") for place in ("out", "fresh"))
        assert [ids.tolist() for ids in mine] == [ids.tolist() for ids in theirs]


def test_kept_weights_move_no_other_document(corpus):
    before = count_copies(corpus)
    write_documents(corpus, "en/e.jsonl", 40)
    write_documents(corpus, "mixed/f.jsonl", 5, "it")
    assert update(corpus, "keep").why.kept_weights
    require_sound(corpus)
    after = count_copies(corpus)
    assert {one: after[one] for one in after if one[0] not in "ef"} == before
    assert all(after[f"f-{i}"] == 1 for i in range(5))  # of a language that is new
    made = read_settings(corpus)
    assert {*made["config"]["kept"]} == {"en", "de", "fr"}
    for lang, share in made["languages"].items():
        kept = made["config"]["kept"].get(lang, "1").partition("+")
        assert (str(share["copies"]), share.get("cut", "")) == (kept[0], kept[2])
    shown = tokcore("show", corpus / "out" / "mixed").stdout
    assert "documents come as often as before the update" in shown
    assert "weights of the mixture kept" in tokcore("log", corpus / "out").stdout
    # A removal goes on with them, and so does a compaction; an update asks again.
    remove_here(corpus, {"a-3", "e-7"})
    require_sound(corpus)
    assert count_copies(corpus) == Counter({one: num for one, num in after.items() if one not in {"a-3", "e-7"}})
    assert compact_here(corpus).commit is None
    write_documents(corpus, "en/g.jsonl", 3)
    with pytest.raises(ConfigError, match="as often as in commit 2"):
        update(corpus)
    assert not update(corpus, "all").why.kept_weights
    require_sound(corpus)


def test_all_ends_kept_weights_though_no_input_changed(corpus):
    write_documents(corpus, "en/e.jsonl", 40)
    update(corpus, "keep")
    assert update(corpus) is None
    commit = update(corpus, "all")
    assert (commit.why.new, commit.why.read_again, commit.why.kept_weights) == (0, 0, False)
    require_sound(corpus)
    build_fresh(corpus / "build.toml", corpus / "fresh", corpus / "out")
    for stage in ("mixed", "packed"):
        mine, theirs = (package.open_shards(corpus / place / stage, "all") for place in ("out", "fresh"))
        assert [ids.tolist() for ids in mine] == [ids.tolist() for ids in theirs]
    assert update(corpus, "all") is None


def test_kept_weights_of_partitions(tmp_path):
    folder = build_mixed(tmp_path, 'partition_by = ["lang"]\n' + TEMPERATURE + 'over = "lang"\n')
    before = count_copies(folder)
    kept = {name: share["copies"] for name, share in read_settings(folder)["totals"]["partitions"].items()}
    assert set(kept) == {"lang=en", "lang=de", "lang=fr"}
    assert len(set(before.values())) > 1
    write_documents(folder, "en/e.jsonl", 40)
    assert update(folder, "keep").why.kept_weights
    require_sound(folder)
    after = count_copies(folder)
    assert {one: after[one] for one in after if not one.startswith("e-")} == before
    assert {
        name: int(spelled.partition("+")[0]) for name, spelled in read_settings(folder)["config"]["kept"].items()
    } == kept


def test_a_removal_keeps_weights_if_it_is_asked_to(corpus):
    before = count_copies(corpus)
    gone = {f"a-{i}" for i in range(12)} | {f"c-{i}" for i in range(5)}
    shutil.copytree(corpus, corpus.parent / "moved")
    options = RunOptions(here=True)
    done = Remove(str(corpus / "out"), tuple(gone), base=str(corpus), options=options, keep_weights=True).run()
    assert (done.documents, done.commit.why.kept_weights) == (len(gone), True)
    require_sound(corpus)
    kept = Counter({one: num for one, num in before.items() if one not in gone})
    assert count_copies(corpus) == kept
    remove_here(corpus.parent / "moved", gone)
    assert count_copies(corpus.parent / "moved") != kept


def test_the_same_files_with_and_without_are_parts_apart(corpus):
    path = write_documents(corpus, "en/e.jsonl", 40)
    first = update(corpus, "keep")
    path.rename(corpus / "e.jsonl")
    update_config = load_config(str(corpus / "build.toml"))
    Update(update_config, RunOptions(here=True), str(corpus / "out"), vanished="remove", weights="all").run()
    (corpus / "e.jsonl").rename(path)
    second = update(corpus, "all")
    assert first.added[0].path != second.added[0].path
    require_sound(corpus)


def test_a_language_goes_that_weights_name(tmp_path):
    build_mixed(tmp_path, FIXED)
    done = remove_here(tmp_path, langs=["fr"])
    assert done.documents == 9
    require_sound(tmp_path)
    assert not any(one.startswith("d-") for one in count_copies(tmp_path))
    write_documents(tmp_path, "en/e.jsonl", 4)
    assert update(tmp_path) is not None  # these weights do not follow from sizes
    require_sound(tmp_path)


def test_there_are_no_weights_without_a_mixture(tmp_path):
    build_mixed(tmp_path, "")
    write_documents(tmp_path, "en/e.jsonl", 4)
    with pytest.raises(ConfigError, match=r"has no \[mixture\], and no weights"):
        update(tmp_path, "keep")
