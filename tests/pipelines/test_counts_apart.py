"""Rows of count tables know the split and the source of their documents, so that learning can choose among them."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import ON_BEAM, build_file, jsonl, run, texts, write
from support.examples import examples
from support.forging import Forger
from support.updates import build_fresh, update_here

import tokcore
from tokcore.errors import ConfigError, LearnError, LedgerError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.ledger import check_origins
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.settle_counting import settle_counting
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.history.learn_beside import learn_at
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.curve import compute_curve
from tokcore_pipelines.look.report.compose import Wishes, make_report
from tokcore_pipelines.look.report.page import write_page
from tokcore_schemas.config import load_config
from tokcore_schemas.count_key import CountKey, parse_count_key
from tokcore_schemas.document import compute_document_key, is_selected
from tokcore_schemas.refs import LanguageCounts, StoredFile, TableRef
from tokcore_schemas.stage_table import COUNTS, TOKENIZER, WHOLE

# Name of a source -> languages of its documents; the last one is kept for validation.
CORPUS = {"wiki": ("en", "ru"), "Web, 2024": ("en", "hi"), "": ("en",), "held": ("ru", "zh")}
SHARE = Decimal("0.3")
SETTINGS = """
[plan]
range_bytes = 4000
[learn]
vocab_size = 300
[shards]
target_tokens = 500
validation = 0.3
"""


def make_documents() -> list[tuple[str, str, str, str]]:
    """(source, language, id, text) of all documents."""
    return [
        (source, lang, f"{source}-{lang}-{i}", text)
        for number, (source, langs) in enumerate(CORPUS.items())
        for lang in langs
        for i, text in enumerate(texts(lang, 12, number))
    ]


def choose_split(source: str, lang: str, id: str) -> str:
    chosen = source == "held" or is_selected(compute_document_key(lang, id, b""), 0, "validation", SHARE)
    return "validation" if chosen else "train"


def write_corpus(folder: Path, documents: list[tuple[str, str, str, str]], is_held: bool = True) -> str:
    """Write a file for each source; return the sources that read them."""
    sources = ""
    for number, name in enumerate(CORPUS):
        own = [{"id": id, "lang": lang, "text": text} for source, lang, id, text in documents if source == name]
        if not own:
            continue
        write(folder / f"{number}.jsonl", jsonl(own))
        sources += f'[[source]]\nlang_field = "lang"\nid = "id"\nfiles = "{number}.jsonl"\n'
        sources += f'name = "{name}"\n' if name else ""
        sources += "validation = true\n" if name == "held" and is_held else ""
    return sources


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    folder = tmp_path_factory.mktemp("apart")
    run(build_file(folder, write_corpus(folder, make_documents()), SETTINGS), folder / "out")
    return folder


@pytest.fixture
def folder(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture(scope="module")
def early(built):
    """The same build as an earlier release made it: its rows know nothing but the language."""
    config = dataclasses.replace(load_config(str(built / "build.toml")), counted_by=())
    Build(config, RunOptions(here=True), str(built / "early")).run()
    return built / "early"


def count_by_hand(documents: list[tuple[str, str, str, str]]) -> list[dict[str, Any]]:
    return tokcore.count_pretokens([text for *_, text in documents]).to_pylist()


def choose(lang: str, split: str | None, source: str | None) -> list[tuple[str, str, str, str]]:
    return [
        one
        for one in make_documents()
        if one[1] == lang and split in (None, choose_split(*one[:3])) and source in (None, one[0])
    ]


def read_merges(output: Path) -> list[list[int]]:
    return tokcore.Tokenizer.load(output / "tokenizer").spec.model.merges.tolist()


def test_counts_can_be_added_up_by_split_source_and_language(built):
    num = 0
    for lang in ("en", "hi", "ru", "zh"):
        for split in (None, "train", "validation"):
            for source in (None, *CORPUS):
                if documents := choose(lang, split, source):
                    table = tokcore.open_counts(built / "out", lang, split=split, source=source)
                    assert table.to_pylist() == count_by_hand(documents)
                    num += 1
    assert num > 20


def test_the_manifest_says_what_each_split_and_source_brings(built):
    made = require_manifest(str(built / "out"), COUNTS)
    assert made.config.apart_by == ("source", "split")
    assert (made.config.validation, made.config.seed) == ("0.3", 0)
    for lang, told in made.languages.items():
        found = {(one.split, one.source): one for one in told.origins}
        wanted = {(choose_split(*one[:3]), one[0]) for one in choose(lang, None, None)}
        assert found.keys() == wanted
        for (split, source), one in found.items():
            documents = choose(lang, split, source)
            assert one.counted_documents == len(documents)
            assert one.counted_bytes == sum(len(text.encode()) for *_, text in documents)
            assert one.pretokens == sum(row["count"] for row in count_by_hand(documents))
    assert {entry.about.key.file_name + f"-{entry.about.result_key}.parquet" for entry in made.files} == {
        entry.path for entry in made.files
    }


def test_what_cannot_be_told_apart_is_refused(built, early):
    with pytest.raises(ConfigError, match=r"split = 'dev': .* has counts of en for 'train', 'validation'"):
        tokcore.open_counts(built / "out", "en", split="dev")
    with pytest.raises(ConfigError, match=r"source = 'held': .* has counts of en for '', 'Web, 2024', 'wiki'"):
        tokcore.open_counts(built / "out", "en", source="held")
    with pytest.raises(ConfigError, match="do not tell splits apart"):
        tokcore.open_counts(early, "en", split="train")


def test_the_validation_split_is_not_learned_from(built, tmp_path):
    kept = [one for one in make_documents() if choose_split(*one[:3]) == "train"]
    path = build_file(tmp_path, write_corpus(tmp_path, kept), SETTINGS.replace("validation = 0.3", ""))
    run(path, tmp_path / "out")
    assert read_merges(built / "out") == read_merges(tmp_path / "out")
    made = require_manifest(str(built / "out"), TOKENIZER)
    assert (made.config.splits, "zh" in made.languages) == ("train", False)


def test_all_can_be_learned_from(built, early, tmp_path):
    sources = write_corpus(tmp_path, make_documents())
    settings = SETTINGS.replace("[learn]", '[count]\nsplits = "all"\n[learn]')
    run(build_file(tmp_path, sources, settings), tmp_path / "out")
    plain = write_corpus(tmp_path, make_documents(), is_held=False)
    run(build_file(tmp_path, plain, SETTINGS.replace("validation = 0.3", "")), tmp_path / "plain")
    assert read_merges(tmp_path / "out") == read_merges(tmp_path / "plain") == read_merges(early)
    assert read_merges(early) != read_merges(built / "out")
    assert require_manifest(str(tmp_path / "out"), TOKENIZER).config.splits == ""
    assert require_manifest(str(tmp_path / "out"), COUNTS).root == require_manifest(str(built / "out"), COUNTS).root


@pytest.mark.parametrize(("workers", "runner"), [(2, ()), (0, ON_BEAM)], ids=["two-workers", "beam"])
def test_the_root_is_the_same_however_it_was_counted(folder, workers, runner):
    again = run(folder / "build.toml", folder / "again", workers, runner)
    assert again.root == require_manifest(str(folder / "out"), WHOLE).root


def test_it_is_verified_and_repaired(folder):
    output = folder / "out"
    assert verify(str(output), decode=None, base=str(folder)).problems == ()
    lost = {path: path.read_bytes() for path in (output / "counts").glob("en~*")}
    assert len(lost) > 4
    for path in lost:
        path.unlink()
    assert verify(str(output)).problems
    repair(str(output))
    assert {path: path.read_bytes() for path in lost} == lost


def test_a_part_takes_over_what_is_left_of_each_split_and_source(folder):
    path, output = folder / "build.toml", folder / "out"
    for name in ("0.jsonl", "3.jsonl"):  # dealt by ids, which decoded documents lack, and all of one split
        write(folder / name, (folder / name).read_bytes().partition(b"\n")[2])  # the old ones are decoded
    update_here(path, output)
    require_equal_apart(output, folder, "changed")
    Remove(str(output), ("wiki-en-3", "Web, 2024-hi-5", "held-zh-0"), (), options=RunOptions(here=True)).run()
    lines = {one: one.read_bytes() for one in folder.glob("*.jsonl")}
    for one, data in lines.items():
        gone = (b'"wiki-en-3"', b'"Web, 2024-hi-5"', b'"held-zh-0"')
        write(one, b"".join(line for line in data.splitlines(True) if not any(id in line for id in gone)))
    require_equal_apart(output, folder, "removed")
    assert verify(str(output)).problems == ()


def require_equal_apart(output: Path, folder: Path, name: str) -> None:
    """Assert that rows are those of a fresh build of the files that are there now."""
    build_fresh(folder / "build.toml", folder / name, output)
    made = require_manifest(str(folder / name), COUNTS)
    num = 0
    for lang, told in made.languages.items():
        for one in told.origins:
            mine, theirs = (
                tokcore.open_counts(of, lang, split=one.split, source=one.source) for of in (output, folder / name)
            )
            assert mine.equals(theirs)
            num += 1
    assert num == 12


FORGERIES = {
    "more of one": lambda of: of[0].update(pretokens=of[0]["pretokens"] + 1),
    "from one to another": lambda of: (
        of[0].update(pretokens=of[0]["pretokens"] + 1),
        of[1].update(pretokens=of[1]["pretokens"] - 1),
    ),
    "documents of the other split": lambda of: (
        of[0].update(counted_documents=of[0]["counted_documents"] + 1),
        of[-1].update(counted_documents=of[-1]["counted_documents"] - 1),
    ),
    "another split": lambda of: of[0].update(split="validation" if of[0]["split"] == "train" else "train"),
    "no such split": lambda of: of[0].update(split="test"),
    "one twice": lambda of: of.append(dict(of[0])),
    "one lost": lambda of: of.pop(),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_verify_adds_up_what_splits_and_sources_bring(folder, name):
    forger = Forger(folder / "out")
    FORGERIES[name](forger.manifests["counts"]["languages"]["en"]["origins"])
    forger.hash_again(3)
    assert any(
        one.startswith("counts/manifest.json: ") or "shards/manifest.json: documents by split: " in one
        for one in verify(str(folder / "out")).problems
    )


def test_a_ledger_that_does_not_balance_is_refused():
    def describe(num: int) -> LanguageCounts:
        return LanguageCounts(0, 0, 1, num, num)

    def tables(**sizes: int) -> list[TableRef]:
        file = StoredFile("", "", 0, "", "")
        return [TableRef("en", file, 1, num, 1, split) for split, num in sizes.items()]

    languages = {"en": LanguageCounts(2, 9, 2, 9, 9)}
    origins = {"en/train/": describe(5), "en/validation/": describe(4)}
    check_origins(languages, origins, tables(train=5, validation=4))
    with pytest.raises(LedgerError, match=r"en: .* by split and source"):
        check_origins(languages, {"en/train/": describe(5)}, tables(train=5, validation=4))
    with pytest.raises(LedgerError, match="count table en/train/: holds 4 pre-tokens, 5 were counted"):
        check_origins(languages, origins, tables(train=4, validation=5))


# -------------------------------------------------------------------------------- outputs of earlier releases


def test_an_output_of_an_earlier_release_goes_on(built, early, tmp_path):
    made = json.loads((early / "counts" / "manifest.json").read_text())
    assert "apart_by" not in made["config"]
    assert all("origins" not in one for one in made["languages"].values())
    shutil.copytree(built, tmp_path / "copy")
    output, path = tmp_path / "copy" / "early", tmp_path / "copy" / "build.toml"
    before = (output / "manifest.json").read_bytes()
    run(path, output)
    assert (output / "manifest.json").read_bytes() == before
    document = {"id": "new", "lang": "en", "text": "the new one is not the old one"}
    write(path.parent / "2.jsonl", (path.parent / "2.jsonl").read_bytes() + jsonl([document]))
    Update(load_config(str(path)), RunOptions(here=True), str(output)).run()
    assert verify(str(output)).problems == ()
    with pytest.raises(ConfigError, match="do not tell splits apart"):
        tokcore.open_counts(output, "en", split="train")
    table = {row["pretoken"]: row["count"] for row in tokcore.open_counts(output, "en").to_pylist()}
    counted = Counter({row["pretoken"]: row["count"] for row in count_by_hand(choose("en", None, None))})
    counted.update({row["pretoken"]: row["count"] for row in tokcore.count_pretokens([document["text"]]).to_pylist()})
    assert table == counted
    (learned,) = learn_at(Build(load_config(str(path)), RunOptions(here=True), str(output)))
    assert learned.is_new


def test_what_it_cannot_tell_apart_needs_a_new_count(built, early, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    folder = tmp_path / "copy"
    path = folder / "build.toml"
    path.write_text(path.read_text().replace("[learn]", '[count]\nsplits = "train"\n[learn]'))
    with pytest.raises(ConfigError, match=r"--replace count"):
        run(path, folder / "early")
    Build(load_config(str(path)), RunOptions(here=True), str(folder / "early"), replace="count").run()
    assert read_merges(folder / "early") == read_merges(folder / "out")


def test_counts_of_another_output_are_taken_over_only_if_they_tell_enough(built, early, tmp_path):
    def build_from(other: Path, name: str) -> list[str]:
        build = Build(
            load_config(str(built / "build.toml")), RunOptions(here=True), str(tmp_path / name), reuse=str(other)
        )
        build.run()
        return [*build.metrics]

    assert "count" in build_from(early, "new")
    assert "count" not in build_from(built / "out", "taken")
    assert read_merges(tmp_path / "new") == read_merges(tmp_path / "taken") == read_merges(built / "out")


def test_which_counts_an_output_goes_on_with(built):
    config = load_config(str(built / "build.toml"))
    new = config.count_identity()
    old = dataclasses.replace(new, apart_by=(), validation="", seed=None)

    def settle(splits: str | None, stored: Any, is_own: bool = True) -> tuple[Any, str]:
        table = dataclasses.replace(config.count, splits=splits)
        settled = settle_counting(dataclasses.replace(config, count=table), lambda: stored, is_own)
        return settled.counts_apart_by, settled.learned_splits

    assert settle(None, None) == settle(None, new) == settle("train", old) == (("source", "split"), "train")
    assert settle(None, old) == settle("all", old) == settle("all", old, False) == ((), "")
    assert settle(None, old, False) == (("source", "split"), "train")
    assert settle("all", None) == (("source", "split"), "")
    without = dataclasses.replace(
        config, shards=dataclasses.replace(config.shards, validation=Decimal(0)), sources=config.sources[:-1]
    )
    assert without.counts_apart_by == ("source",)
    assert settle_counting(without, lambda: old, False).counts_apart_by == ()


# -------------------------------------------------------------------------------- what is said


def test_the_report_says_what_was_not_learned_from(built, early):
    documents = [one for lang in ("en", "hi", "ru", "zh") for one in choose(lang, "validation", None)]
    for output, is_learned_from in ((built / "out", False), (early, True)):
        report = make_report(read_output(str(output)), Wishes(), StageProgress(-1))
        told = report["corpus"]["validation"]
        assert told["is_learned_from"] == is_learned_from
        assert (told["documents"], told["text_bytes"]) == (
            len(documents),
            sum(len(one[3].encode()) for one in documents),
        )
        tokenizer = tokcore.Tokenizer.load(output / "tokenizer")
        num_tokens = sum(len(tokenizer.encode(text)) + 1 for *_, text in documents)
        assert told["tokens"] == num_tokens
        assert told["bytes_per_token"] == pytest.approx(told["text_bytes"] / num_tokens, abs=1e-4)
        assert told["languages"].keys() == {one[1] for one in documents}
        said = "learned from, too" if is_learned_from else "not learned from"
        assert f"bytes per token, validation ({said})".encode() in write_page(report)


def test_a_curve_is_of_all_counts(built):
    output = built / "out"
    curve = compute_curve(read_output(str(output)), tokcore.Tokenizer.load(output / "tokenizer"))
    wanted = {lang: sum(len(one[3].encode()) for one in choose(lang, None, None)) for lang in ("en", "hi", "ru", "zh")}
    assert {lang: one["bytes"] for lang, one in curve["languages"].items()} == wanted


def test_a_corpus_that_is_all_validation_has_a_way_out(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": "all of it"}]))
    source = '[[source]]\nlang = "en"\nfiles = "a.jsonl"\nvalidation = true\n'
    path = build_file(tmp_path, source, "[learn]\nvocab_size = 257")
    with pytest.raises(LearnError, match=r"not learned from.*count\.splits"):
        run(path, tmp_path / "out")


# -------------------------------------------------------------------------------- properties

names = st.text(min_size=1, max_size=6) | st.sampled_from(["wiki", "Wiki", "a/b", "..", "~", "x" * 300])
keys = st.builds(
    CountKey, st.sampled_from(["en", "en-x", "e"]), st.sampled_from(["", "train", "validation"]), st.just("") | names
)


@given(st.sets(keys, max_size=30))
def test_keys_of_tables_come_back_and_have_files_of_their_own(some):
    assert {parse_count_key(key.spell()) for key in some} == some
    files = {key.file_name.lower() for key in some}
    assert len(files) == len(some)
    assert all(len(name) < 200 and not set(name) & set("/\\\0") for name in files)


@examples(6)
@given(
    documents=st.lists(
        st.tuples(
            st.sampled_from(["wiki", "Web, 2024", ""]),
            st.sampled_from(["en", "ru"]),
            st.lists(st.sampled_from(["a", " b", " cc", "d\n", " Ärger"]), max_size=6).map("".join),
        ),
        min_size=1,
        max_size=25,
    ),
    share=st.sampled_from(["0", "0.2", "0.9"]),
    range_bytes=st.integers(40, 400),
)
def test_counts_are_those_of_a_count_by_hand(tmp_path_factory, documents, share, range_bytes):
    folder = tmp_path_factory.mktemp("counted")
    named = [(source, lang, f"{i}", text) for i, (source, lang, text) in enumerate(documents)]
    settings = f"[plan]\nrange_bytes = {range_bytes}\n[shards]\nvalidation = {share}"
    path = build_file(folder, write_corpus(folder, named), settings)
    Build(load_config(str(path)), RunOptions(here=True), str(folder / "out")).count()
    made = require_manifest(str(folder / "out"), COUNTS)
    expected: dict[tuple[str, ...], list[str]] = {}
    for source, lang, id, text in named:
        chosen = is_selected(compute_document_key(lang, id, b""), 0, "validation", Decimal(share))
        split = ("validation" if chosen else "train") if share != "0" else ""
        expected.setdefault((lang, split, source), []).append(text)
    found = {(lang, one.split, one.source): one for lang, of in made.languages.items() for one in of.origins}
    if made.config.apart_by:
        assert {key: one.counted_documents for key, one in found.items()} == {k: len(v) for k, v in expected.items()}
    for (lang, split, source), own in expected.items():
        if any(own):
            asked = {"split": split or None, "source": source if "source" in made.config.apart_by else None}
            assert (
                tokcore.open_counts(folder / "out", lang, **asked).to_pylist()
                == tokcore.count_pretokens(own).to_pylist()
            )
