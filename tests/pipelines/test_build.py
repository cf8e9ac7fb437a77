"""Builds, end to end: what must be equal, what must be counted, what must be refused."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builds import (
    REVERSED_SOURCES,
    SETTINGS,
    SOURCES,
    build_file,
    find_file,
    jsonl,
    run,
    run_once,
    small_corpus,
    texts,
    tokcore,
    tree,
    write,
)

import tokcore as api
from tokcore.errors import ConfigError, LearnError, StageError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store.urls import resolve
from tokcore_pipelines.work.item_results import refuse_twins
from tokcore_schemas.stage_table import COUNTS, PLAN, SHARDS, WHOLE


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    build_file(folder)
    return folder


@pytest.fixture(scope="module")
def built(corpus: Path) -> Path:
    run(corpus / "build.toml", corpus / "out")
    return corpus / "out"


# ----------------------------------------------------------- (a) every byte; most of it is in chaos/test_equality.py


def test_a_build_that_tests_share_is_a_copy(built, tmp_path):
    """Its pins are those of each folder's inputs, which have one time, and nothing that is edited is handed on."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        small_corpus(tmp_path / name)
        made = run_once(build_file(tmp_path / name), tmp_path / name / "out")
        assert made.root == json.loads((built / "manifest.json").read_bytes())["root"]
        assert tree(tmp_path / name / "out") == tree(built)
        assert json.loads((tmp_path / name / "out/plan/run.json").read_bytes())["base"] == str(tmp_path / name)
        (tmp_path / name / "out/tokenizer/tokcore.json").write_bytes(b"edited")


def test_equal_when_every_bundle_runs_twice(corpus, built, tmp_path):
    run(corpus / "build.toml", tmp_path / "out", 2, ("--direct_runner_bundle_repeat=1",))
    assert tree(tmp_path / "out") == tree(built)


def test_equal_with_sources_in_another_order_and_another_name(corpus, built, tmp_path):
    path = build_file(corpus, REVERSED_SOURCES, name="reversed.toml", build='name = "other"')
    run(path, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(built)


def test_a_finished_build_is_not_run_again(corpus, built):
    times = {path: path.stat().st_mtime_ns for path in built.rglob("*")}
    manifest = run(corpus / "build.toml", built)
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*")} == times
    assert manifest == find_manifest(str(built), WHOLE)


# ------------------------------------------------------------------------------------ (c) the same documents elsewhere


def test_counts_and_tokens_follow_from_the_documents_alone(corpus, built, tmp_path):
    """Renamed, re-split, recompressed and reordered: everything but the shard files is the same."""
    en, ru, zh = (
        [{"id": f"{lang}-{i}", "text": text} for i, text in enumerate(texts(lang, 30))] for lang in ("en", "ru", "zh")
    )
    write(tmp_path / "1.jsonl", jsonl(en[20:]))
    write(tmp_path / "2.jsonl.gz", jsonl(en[:20][::-1]))
    mixed = [{**document, "l": lang} for lang, some in (("ru", ru), ("zh", zh)) for document in some]
    random.Random(1).shuffle(mixed)
    write(tmp_path / "mixed.jsonl.zst", jsonl(mixed))
    write(tmp_path / "hi.jsonl", jsonl([{"text": text} for text in texts("hi", 12)]))
    sources = """
    [[source]]
    lang = "en"
    files = "[12].jsonl*"
    id = "id"
    [[source]]
    lang_field = "l"
    files = "mixed*"
    id = "id"
    [[source]]
    lang = "hi"
    files = "hi.jsonl"
    """
    path = build_file(tmp_path, sources, SETTINGS.replace("range_bytes = 4000", "range_bytes = 900"))
    again, first = run(path, tmp_path / "out"), find_manifest(str(built), WHOLE)
    for lang in first.languages:
        ours, theirs = (find_file(out, f"counts/{lang}.parquet") for out in (tmp_path / "out", built))
        assert ours.read_bytes() == theirs.read_bytes()
    for name in ("tokcore.json", "tokenizer.json", "tokenizer.tiktoken", "vocab.json", "merges.txt"):
        assert (tmp_path / "out" / "tokenizer" / name).read_bytes() == (built / "tokenizer" / name).read_bytes()
    ours, theirs = (pq.read_table(out / "shards" / "token_counts.parquet") for out in (tmp_path / "out", built))
    assert ours == theirs
    assert again.languages == first.languages
    for name in ("documents_digest", "tokens", "fingerprint", "text_bytes", "records"):
        assert getattr(again.totals, name) == getattr(first.totals, name)


# ------------------------------------------------------------------------------------------------------- what is in it


def test_count_tables_are_the_counts(corpus, built):
    table = pq.read_table(find_file(built, "counts/ru.parquet"))
    assert table.column_names == ["pretoken", "count", "documents"]
    assert [str(field.type) for field in table.schema] == ["binary", "uint64", "uint64"]
    assert table.equals(api.count_pretokens(texts("ru", 30)).combine_chunks())
    counts, documents = Counter(), Counter()
    for text in texts("ru", 30):
        pretokens = api.pretokenize(text)
        counts.update(pretokens)
        documents.update(set(pretokens))
    expected = sorted((word.encode(), counts[word], documents[word]) for word in counts)
    assert [tuple(row.values()) for row in table.to_pylist()] == expected


def test_shards_hold_every_document_in_order(corpus, built):
    tokenizer = api.Tokenizer.load(built)
    shards = api.open_shards(built)
    assert len(shards) == 102
    end = tokenizer.special_id("<|endoftext|>")
    by_source: dict[str, list[str]] = {}
    ordinals: dict[str, list[int]] = {}
    for i in range(len(shards)):
        tokens = shards[i].tolist()
        assert tokens[-1] == end
        by_source.setdefault(shards.document(i).source, []).append(tokenizer.decode(tokens[:-1]).decode())
        ordinals.setdefault(shards.document(i).source, []).append(shards.document(i).ordinal)
    assert all(numbers == sorted(set(numbers)) for numbers in ordinals.values()), "over all ranges of a file"
    assert by_source["ru.jsonl"] == texts("ru", 30)
    assert by_source["zh.jsonl.gz"] == texts("zh", 30)
    assert by_source["hi.txt"] == texts("hi", 12)


def test_both_formats_hold_the_same(built):
    arrow = api.open_shards(built / "shards" / "arrow")
    megatron = api.open_shards(built / "shards" / "megatron")
    assert [a.tolist() for a in arrow] == [m.tolist() for m in megatron]
    assert [arrow.document(i) for i in range(len(arrow))] == [megatron.document(i) for i in range(len(megatron))]


def test_a_shard_ends_with_the_document_that_reaches_the_target(built):
    manifest = find_manifest(str(built), SHARDS)
    items: dict[str, list[int]] = {}
    for entry in manifest.files:
        if entry.path.endswith(".arrow") and entry.path.startswith("arrow"):
            items.setdefault(entry.about.shard.rsplit("-", 1)[0], []).append(entry.about.tokens)
    longest = max(len(tokens) for tokens in api.open_shards(built))
    for sizes in items.values():
        assert all(2000 <= size < 2000 + longest for size in sizes[:-1])
    assert sum(sum(sizes) for sizes in items.values()) == manifest.totals.tokens


def test_nothing_is_left_of_the_work(built):
    assert not (built / "_attempts").exists()


def test_learned_as_the_api_learns(corpus, built):
    """With natural weights the build's merges are those of the summed tables."""
    path = build_file(corpus, settings=SETTINGS + '[mix]\nstrategy = "natural"\n', name="natural.toml")
    run(path, corpus / "natural")
    everything = [text for lang, num in (("en", 30), ("ru", 30), ("zh", 30), ("hi", 12)) for text in texts(lang, num)]
    merges = api.learn_bpe(api.count_pretokens(everything), vocab_size=399, min_count=2)
    learned = json.loads((corpus / "natural" / "tokenizer" / "tokcore.json").read_bytes())["model"]
    tokenizer = api.Tokenizer.load(corpus / "natural")
    assert [tokenizer.token_bytes(256 + i) for i in range(len(merges))] == [m.left + m.right for m in merges]
    assert learned["counts"] == [m.count for m in merges]


# ------------------------------------------------------------------------------------------------------- other choices


def test_spilling_changes_nothing(corpus, built, tmp_path):
    """A budget below one document's table: every batch spills."""
    path = build_file(corpus, settings=SETTINGS + "[count]\nmemory_bytes = 1_048_576\n", name="spill.toml")
    run(path, tmp_path / "out")
    for table in (built / "counts").glob("*.parquet"):
        assert (tmp_path / "out" / "counts" / table.name).read_bytes() == table.read_bytes()


def test_validation_and_languages_apart(corpus, built, tmp_path):
    settings = SETTINGS + 'by = "lang"\nvalidation = 0.25\ncompression = "none"\nformats = ["arrow"]\n'
    settings += '[count]\nsplits = "all"\n'  # so that the tokenizer is the one of the other build
    manifest = run(build_file(corpus, settings=settings, name="apart.toml"), tmp_path / "out")
    train, validation, both = (api.open_shards(tmp_path / "out", split=s) for s in ("train", "validation", "all"))
    assert len(train) + len(validation) == len(both) == manifest.totals.records.documents
    assert 5 < len(validation) < 50
    assert manifest.totals.documents_digest == find_manifest(str(built), WHOLE).totals.documents_digest
    for lang in ("en", "ru", "zh", "hi"):
        one = api.open_shards(tmp_path / "out" / "shards" / "arrow" / lang, split="all")
        assert {one.document(i).lang for i in range(len(one))} == {lang}
    assert not verify(str(tmp_path / "out"), decode=None).problems


def test_sampling_counts_a_share_and_encodes_everything(corpus, tmp_path):
    manifest = run(
        build_file(corpus, settings=SETTINGS + "[count]\nsample = 0.5\n", name="sample.toml"), tmp_path / "out"
    )
    counts = find_manifest(str(tmp_path / "out"), COUNTS)
    counted = sum(language.counted_documents for language in counts.languages.values())
    assert 25 < counted < 77
    assert manifest.totals.records.documents == 102


@pytest.mark.parametrize("mode", ["ordinary", "special", "reject"])
def test_text_that_spells_a_special_token(mode, tmp_path):
    spelling = ["one<|endoftext|>two", "plain three", "<|endoftext|><|endoftext|>"]
    write(tmp_path / "a.jsonl", jsonl([{"text": text} for text in [*spelling, *texts("en", 20)]]))
    settings = f'[learn]\nvocab_size = 300\n[encode]\nspecial_text = "{mode}"\n'
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n', settings, build="max_rejected = 1")
    manifest = run(path, tmp_path / "out")
    tokenizer, shards = api.Tokenizer.load(tmp_path / "out"), api.open_shards(tmp_path / "out")
    end = tokenizer.special_id("<|endoftext|>")
    assert not verify(str(tmp_path / "out"), decode=None).problems
    if mode == "reject":
        assert manifest.totals.records.rejected == {"special_text": 2}
        assert len(shards) == 21
        return
    assert manifest.totals.special_text == {"<|endoftext|>": 3}
    assert [shards[i].tolist().count(end) for i in range(3)] == ([1, 1, 1] if mode == "ordinary" else [2, 1, 3])


def test_a_normalizer_and_a_regex_of_ones_own(tmp_path):
    write(tmp_path / "a.jsonl", jsonl([{"text": "ＡＢ ½ É " + text} for text in texts("en", 20)]))
    settings = "[learn]\nvocab_size = 290\n[normalize]\nsteps = ['nfkc', 'lowercase']\n"
    settings += "[pretokenize]\nregex = '''\\p{L}+|\\s+|.'''\n"
    path = build_file(tmp_path, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n', settings)
    run(path, tmp_path / "out")
    tokenizer = api.Tokenizer.load(tmp_path / "out")
    assert tokenizer.decode(api.open_shards(tmp_path / "out")[0][:-1]).decode().startswith("ab 1⁄2 é ")
    assert not verify(str(tmp_path / "out"), decode=None).problems


@pytest.mark.parametrize("name", ["tokcore.json", "tokenizer.json", "tokenizer.tiktoken"])
def test_an_imported_tokenizer(corpus, built, name, tmp_path):
    ranks = name.endswith("tiktoken")
    pattern = 'pattern = "o200k"\n' if ranks else ""
    settings = f'[plan]\nrange_bytes = 4000\n[tokenizer]\nfrom = "{built}/tokenizer/{name}"\n{pattern}'
    manifest = run(build_file(corpus, settings=settings, name=f"import-{name}.toml"), tmp_path / "out")
    first = find_manifest(str(built), WHOLE)
    assert manifest.totals.documents_digest == first.totals.documents_digest
    assert manifest.totals.tokens == first.totals.tokens
    assert not (tmp_path / "out" / "counts").exists()
    assert (tmp_path / "out" / "rejected" / "manifest.json").exists()
    assert not verify(str(tmp_path / "out"), decode=None).problems


def test_a_tokenizer_is_imported_from_an_output_and_named_if_it_is_none(corpus, built, tmp_path):
    def imported(place: str) -> str:
        path = build_file(corpus, settings=f'[tokenizer]\nfrom = "{place}"\n', name="import.toml")
        return str(run(path, tmp_path / Path(place).name).totals.fingerprint)

    assert imported(str(built)) == api.Tokenizer.load(built).fingerprint
    for place, message in (("nowhere", "there is no .*nowhere"), ("ru.jsonl", "ru.jsonl: not JSON")):
        with pytest.raises(ConfigError, match=rf"import.toml:\d+: tokenizer.from: .*{message}"):
            imported(place)
        assert not (tmp_path / place).exists(), "found after work had begun"
        done = tokcore("check", corpus / "import.toml")
        assert (done.returncode, done.stdout) == (2, "")
        assert re.search(message, done.stderr)
    path = build_file(
        corpus, settings=f'[tokenizer]\nfrom = "{built}"\n[encode]\nappend = ["<|x|>"]\n', name="import.toml"
    )
    said = tokcore("check", path).stderr
    assert "'<|x|>' is not a special token of the tokenizer" in said
    assert "Write append = [...] in [encode] with tokens that it has, or append = []" in said
    path = build_file(corpus, settings=f'[tokenizer]\nfrom = "{built}"\n', name="import.toml")
    report = json.loads(tokcore("check", path, "--json").stdout)
    assert report["tokenizer"] == {"vocab_size": 400, "special": 1}
    assert report["settings"]["tokenizer"]["fingerprint"] == api.Tokenizer.load(built).fingerprint


# -------------------------------------------------------------------------------------------------------- nothing lost


def test_every_reject_has_its_place_and_reason(tmp_path):
    lines = [
        b'{"text": "good one", "lang": "en"}',
        b'{"text": "bad", "lang": "en"',
        b'{"lang": "en"}',
        b'{"text": 7, "lang": "en"}',
        b"",
        b'{"text": "\xff", "lang": "en"}',
        b'{"text": "\\ud800", "lang": "en"}',
        b'{"text": "x", "lang": "../en"}',
        b'{"text": "", "lang": "en"}',
        b'{"text": "good two", "lang": "en"}',
    ]
    write(tmp_path / "a.jsonl", b"\r\n".join(lines))
    write(tmp_path / "good.jsonl.zst", jsonl([{"text": text, "lang": "ru"} for text in texts("ru", 5)]))
    cut = write(tmp_path / "cut.jsonl.zst", jsonl([{"text": text, "lang": "ru"} for text in texts("ru", 50)]))
    cut.write_bytes(cut.read_bytes()[:-7])
    sources = '[[source]]\nlang_field = "lang"\nfiles = ["*.jsonl", "*.zst"]\n'
    path = build_file(tmp_path, sources, "[plan]\nrange_bytes = 40\n[learn]\nvocab_size = 270\nmin_count = 0\n")
    with pytest.raises(StageError, match=r"max_rejected.*(?s:.)*a.jsonl: record 1: bad_json"):
        run(path, tmp_path / "out")
    path.write_text(path.read_text().replace("[build]", "[build]\nmax_rejected = 1"))
    manifest = run(path, tmp_path / "out")
    rejected = [json.loads(line) for line in (tmp_path / "out/rejected/rejected.jsonl").read_bytes().splitlines()]
    assert [(r["file"], r["record"], r["reason"]) for r in rejected] == [
        ("a.jsonl", 1, "bad_json"),
        ("a.jsonl", 2, "missing_text"),
        ("a.jsonl", 3, "bad_text"),
        ("a.jsonl", 4, "invalid_utf8"),
        ("a.jsonl", 5, "lone_surrogate"),
        ("a.jsonl", 6, "bad_lang"),
        ("cut.jsonl.zst", None, "truncated"),
    ]
    records = manifest.totals.records
    assert records.read == 14 == records.documents + sum(records.rejected.values())
    assert manifest.totals.files.rejected == {"truncated": 1}
    files = [json.loads(line) for line in (tmp_path / "out/rejected/files.jsonl").read_bytes().splitlines()]
    assert {f["uri"]: f["documents"] for f in files} == {"a.jsonl": 3, "cut.jsonl.zst": 0, "good.jsonl.zst": 5}
    assert sum(f["stored_bytes"] for f in files) == sum(p.stat().st_size for p in tmp_path.glob("*.json*"))
    assert not verify(str(tmp_path / "out"), decode=None).problems


def test_a_file_matched_twice_is_read_once_and_reported(corpus, tmp_path):
    sources = f'[[source]]\nlang = "en"\nfiles = ["{corpus}/en.jsonl.zst", "{corpus}/en.*"]\n'
    manifest = run(build_file(tmp_path, sources, "[learn]\nvocab_size = 300\n"), tmp_path / "out")
    assert manifest.totals.records.read == 30
    assert find_manifest(str(tmp_path / "out"), PLAN).totals.duplicates == (f"{corpus}/en.jsonl.zst",)


def test_a_file_spelled_in_two_ways_is_read_once(corpus, tmp_path):
    spellings = ["en.jsonl.zst", f"{corpus}/en.*", f"file://{corpus}/en.jsonl.zst"]
    for number, files in enumerate((spellings, spellings[::-1])):
        source = f'[[source]]\nlang = "en"\nfiles = {json.dumps(files)}\n'
        path = build_file(corpus, source, "[learn]\nvocab_size = 300\n", name="spelled.toml")
        manifest = run(path, tmp_path / str(number))
        assert manifest.totals.records.read == 30
        assert find_manifest(str(tmp_path / str(number)), PLAN).totals.duplicates == ("en.jsonl.zst",)
    assert tree(tmp_path / "0") == tree(tmp_path / "1")


# ----------------------------------------------------------------------------------------------------- what is refused


def refused(folder: Path, sources: str = SOURCES, settings: str = SETTINGS, name: str = "refused.toml") -> str:
    with pytest.raises((ConfigError, LearnError, StageError)) as error:
        run(build_file(folder, sources, settings, name), folder / name.replace(".toml", ""))
    return f"{error.type.__name__}: {error.value}"


def test_a_folder_that_is_no_build(corpus, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        run(corpus / "build.toml", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_too_few_pairs(corpus):
    message = refused(corpus, settings="[learn]\nvocab_size = 30000\n", name="few.toml")
    assert message.startswith("LearnError")
    assert re.search(r"few.toml:\d+: learn.vocab_size = 30000: the counts give only ", message)
    assert "(min_count = 2)" in message
    assert "allow_smaller" in message
    path = build_file(corpus, settings="[learn]\nvocab_size = 30000\nallow_smaller = true\n", name="smaller.toml")
    assert run(path, corpus / "smaller").totals.vocab_size < 30000


def test_no_documents(tmp_path):
    write(tmp_path / "a.jsonl", b"\n\n")
    assert "empty" in refused(tmp_path, '[[source]]\nlang = "en"\nfiles = "a.jsonl"\n')
    small_corpus(tmp_path)
    message = refused(tmp_path, SOURCES + '[[source]]\nlang = "de"\nfiles = "a.jsonl"\n', name="language.toml")
    assert "'de' has no documents" in message


def test_no_files(tmp_path):
    message = refused(tmp_path, '[[source]]\nlang = "en"\nfiles = "*.jsonl"\n')
    assert message.startswith("ConfigError")
    assert f"no file matches {resolve(str(tmp_path), '*.jsonl')}" in message


def test_languages_that_differ_in_case_only():
    """Refused on every file system, so that a build that runs on one runs on all. A sample may not show it."""
    with pytest.raises(StageError, match=r"^languages 'EN' and 'en' differ in case only"):
        refuse_twins(("en", "de", "EN"))


def test_two_sources_that_read_one_file_differently(tmp_path):
    small_corpus(tmp_path)
    message = refused(tmp_path, SOURCES + '[[source]]\nlang = "de"\nfiles = "*.zst"\n')
    assert re.search(r":\d+: source\[4\].files: .*en.jsonl.zst is also matched by .*:\d+: source\[0\].files", message)
