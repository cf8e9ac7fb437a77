"""Reconciliation is a gate: whatever a worker loses, doubles or miscounts, nothing is committed and the exit code is 3.

Each fault is put into the work itself, where only the ledgers can see it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import eager
from support.builds import build_file, jsonl, run, texts, tree, write

from tokcore.errors import LedgerError, StageError
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.cli import commands
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.reading import streams
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work import count_item, shard_attempt
from tokcore_pipelines.work import item_reader as documents
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.config import load_config
from tokcore_schemas.plan import InputFile, ReadSettings
from tokcore_schemas.refs import LanguageCounts, RangeLedger
from tokcore_schemas.stage_manifests import CountedLanguage

SOURCES = """
[[source]]
lang_field = "l"
files = "*.jsonl"
"""
SETTINGS = """
[plan]
range_bytes = 3000
[learn]
vocab_size = 290
[shards]
target_tokens = 1000
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name, seed in (("a", 1), ("b", 2)):
        rows = [{"l": lang, "text": text} for lang in ("en", "ru") for text in texts(lang, 12, seed)]
        write(folder / f"{name}.jsonl", jsonl(rows))
    build_file(folder, SOURCES, SETTINGS)
    return folder


@pytest.fixture(scope="module")
def built(corpus: Path) -> dict[str, str]:
    run(corpus / "build.toml", corpus / "out", 1, eager.RUNNER)
    return tree(corpus / "out")


@pytest.fixture(autouse=True)
def _orderly_runner() -> None:
    eager.seed(0, share=0)


def once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, fault) -> list[object]:
    """Replace owner.name by fault(original, ...) in its second call. The list that is returned has an item per call."""
    original = getattr(owner, name)
    calls: list[object] = []

    def replaced(*arguments, **options):
        calls.append(None)
        if len(calls) == 2:
            return fault(original, *arguments, **options)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, replaced)
    return calls


# ---------------------------------------------------------------------------------------------- what a worker may do


def batch_without_its_last_document(original, *arguments):
    """The reader drops a document, but reports it as read."""
    for number, batch in enumerate(original(*arguments)):
        if number == 0:
            keep = slice(0, batch.texts.num_texts - 1)
            texts = type(batch.texts)(batch.texts.data, batch.texts.offsets[: keep.stop + 1])
            batch = batch._replace(texts=texts, langs=batch.langs[keep], ordinals=batch.ordinals[keep])
        yield batch


def document_overlooked(original, *arguments):
    """The reader skips a record: its report is true, but counting had read one more."""
    for number, batch in enumerate(batch_without_its_last_document(original, *arguments)):
        yield batch._replace(num_records=batch.num_records - 1) if number == 0 else batch


def batch_twice(original, *arguments):
    """The reader gives a batch out twice; records, documents and bytes agree."""
    for batch in original(*arguments):
        yield batch
        yield batch


def line_lost_at_a_cut(original, *arguments):
    """No range reads its first line: records and documents agree, the bytes do not."""
    for number, block in enumerate(original(*arguments)):
        yield block[block.index(b"\n") + 1 :] if number == 0 else block


def line_read_by_both(original, file, start, end):
    """The text before a range, or after the first range of a file, is read as part of it, too."""
    yield from original(file, max(0, start - 500), end if start else end + 500)


def nothing(_original, *_arguments):
    return None


def twice(original, *arguments):
    original(*arguments)
    return original(*arguments)


def miscounted(original, reader):
    """One byte too many in the totals of one language."""
    totals = original(reader)
    lang = next(iter(totals))
    return {**totals, lang: dataclasses.replace(totals[lang], text_bytes=totals[lang].text_bytes + 1)}


def shard_without_its_last_document(original, shard, some):
    return original(shard, some.slice(0, some.tokens.num_documents - 1))


def digests_without_the_last(original, total, digests):
    return original(total, digests[:-1])


FAULTS = {
    "a document lost while reading": (documents, "read_documents", batch_without_its_last_document),
    "a batch read twice": (documents, "read_documents", batch_twice),
    "a line lost at the cut of two ranges": (streams, "_read_line_blocks", line_lost_at_a_cut),
    "a line read by two ranges": (streams, "_read_line_blocks", line_read_by_both),
    "a byte miscounted": (documents.ItemReader, "languages", miscounted),
    "a batch not counted": (count_item.LanguageTables, "add", nothing),
    "a batch counted twice": (count_item.LanguageTables, "add", twice),
    "a run of counts lost": (count_item.LanguageTables, "_spill", nothing),
}
ENCODE_FAULTS = {
    "a document lost while reading": FAULTS["a document lost while reading"],
    "a document overlooked": (documents, "read_documents", document_overlooked),
    "a batch read twice": FAULTS["a batch read twice"],
    "a line lost at the cut of two ranges": FAULTS["a line lost at the cut of two ranges"],
    "a byte miscounted": FAULTS["a byte miscounted"],
    "a document not written": (shard_attempt.ShardAttempt, "write", shard_without_its_last_document),
    "documents written twice": (shard_attempt.ShardAttempt, "write", twice),
    "a digest lost": (DocumentsDigest, "add", digests_without_the_last),
}


def refuse_then_fix(monkeypatch, corpus, output, built, stage, fault, stages):
    build = Build(load_config(str(corpus / "build.toml")), RunOptions(1, eager.RUNNER), str(output))
    for before in stages:
        getattr(build, before)()
    committed = set(output.rglob("manifest.json"))
    with monkeypatch.context() as patched:
        calls = once(patched, *fault)
        with pytest.raises(LedgerError, match="Nothing was committed; run the command again to redo this stage"):
            getattr(build, stage)()
        assert len(calls) >= 2, "the fault did not happen"
    assert set(output.rglob("manifest.json")) == committed
    # The workers' records are gone with it, so the same command begins afresh, and finishes.
    run(corpus / "build.toml", output, 1, eager.RUNNER)
    assert tree(output) == built


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_while_counting(corpus, built, fault, tmp_path, monkeypatch):
    refuse_then_fix(monkeypatch, corpus, tmp_path / "out", built, "count", fault, ["plan"])


def test_the_exit_code_is_3(corpus, tmp_path, monkeypatch):
    once(monkeypatch, *FAULTS["a byte miscounted"])
    command = ["build", str(corpus / "build.toml"), "--output", str(tmp_path / "out"), "--", *eager.RUNNER]
    done = CliRunner().invoke(commands, command)
    assert done.exit_code == 3, done.output
    assert "the ledger does not balance" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("fault", ENCODE_FAULTS.values(), ids=ENCODE_FAULTS)
def test_while_encoding(corpus, built, fault, tmp_path, monkeypatch):
    refuse_then_fix(monkeypatch, corpus, tmp_path / "out", built, "encode", fault, ["plan", "count", "learn"])


# ------------------------------------------------------------------------------------------------ the sums themselves


def ledgers(**changes: object) -> list[RangeLedger]:
    """The ledgers of one file of 100 bytes in two ranges; changes: to the second one."""
    first = RangeLedger(0, 0, 60, 55, 3, 3, 30, {}, "")
    return [first, dataclasses.replace(RangeLedger(0, 60, 40, 45, 2, 1, 10, {"bad_json": 1}, ""), **changes)]


READ = ReadSettings("jsonl", "none", "text", "", "en", "", "reject", 1000, "", "")
PLAN = make_plan([InputFile("a.jsonl", 100, "", 0)], [READ], 60)
LANGUAGES = {"en": LanguageCounts(4, 40)}


def test_a_ledger_that_balances():
    (file,) = ledger.balance_ledgers(PLAN, ledgers(), LANGUAGES)
    assert (file.records, file.documents, file.text_bytes, file.rejected) == (5, 4, 40, {"bad_json": 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"num_records": 3},
        {"num_documents": 0},
        {"num_documents": 2},
        {"rejected": {}},
        {"rejected": {"bad_json": 2}},
        {"text_bytes": 11},
        {"read_bytes": 44},
        {"read_bytes": 46},
        {"size_bytes": 39},
        {"start": 0},
        {"start": 59},
        {"file": 1},
    ],
    ids=str,
)
def test_every_number_of_a_range_is_held_against_another(changes):
    with pytest.raises(LedgerError):
        ledger.balance_ledgers(PLAN, ledgers(**changes), LANGUAGES)


@pytest.mark.parametrize("languages", [{}, {"en": LanguageCounts(4, 39)}, {"en": LanguageCounts(5, 40)}], ids=str)
def test_languages_are_held_against_files(languages):
    with pytest.raises(LedgerError, match="by language"):
        ledger.balance_ledgers(PLAN, ledgers(), languages)


def test_a_file_that_is_rejected_whole_needs_no_bytes():
    whole = ledgers(num_records=0, num_documents=0, text_bytes=0, rejected={}, rejected_file="truncated", read_bytes=0)
    (file,) = ledger.balance_ledgers(PLAN, whole, {"en": LanguageCounts(3, 30)})
    assert file.rejected_file == "truncated"


def test_an_item_without_results(corpus, tmp_path, monkeypatch):
    """A runner loses an element: the error says which record is missing."""
    original = Attempts.result
    monkeypatch.setattr(
        Attempts, "result", lambda self, key, cls: None if key == "counted-00001" else original(self, key, cls)
    )
    with pytest.raises(StageError, match="without a result for counted-00001"):
        run(corpus / "build.toml", tmp_path / "out", 1, eager.RUNNER)
    assert not (tmp_path / "out" / "counts" / "manifest.json").exists()


def test_counting_and_encoding_read_the_same():
    counted = {"en": CountedLanguage(4, 40, 4, 40, 8, 6)}
    files = [*ledger.write_files_table(ledger.balance_ledgers(PLAN, ledgers(), LANGUAGES))]
    digest = hashlib.sha256(b"".join(files)).hexdigest()
    ledger.check_read_alike(counted, digest, LANGUAGES, files)
    for languages in ({}, {"en": LanguageCounts(4, 41)}, {**LANGUAGES, "ru": LanguageCounts(1, 0)}):
        with pytest.raises(LedgerError, match="counting had read"):
            ledger.check_read_alike(counted, digest, languages, files)
    with pytest.raises(LedgerError, match="from some file"):
        ledger.check_read_alike(counted, digest, LANGUAGES, [*files, b"{}\n"])
