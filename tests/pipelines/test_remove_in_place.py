"""Documents are taken down in place: packed rows keep number, order and length, and padding is where they were."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.builds import build_file, jsonl, run, tokcore, write
from support.removals import SETTINGS, SOURCES, compact_here, list_ids, require_without, write_corpus

import tokcore as package
from tokcore.errors import ConfigError, LedgerError
from tokcore.formats.pieces import PiecesFile
from tokcore.shards.format_table import FormatFile
from tokcore.train.loader import Loader
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.check.repair import repair
from tokcore_pipelines.check.rows_in_place import look_at_shard
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.check.verify_removed import verify_removed
from tokcore_pipelines.history.expire_commits import expire
from tokcore_pipelines.history.remove_documents import Remove
from tokcore_pipelines.history.restore_documents import Restore
from tokcore_pipelines.history.update_output import Update
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.stored_shards import find_main_files
from tokcore_pipelines.work.row_gaps import Place, compare_streams
from tokcore_schemas.config import load_config
from tokcore_schemas.gaps import Gaps
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import parse_manifest
from tokcore_schemas.tombstones import merge_tombstones

GONE = ("a-3", "a-4", "a-5", "b-0", "b-11", "c-7", "d-0", "d-1", "d-2", "d-8")
LENGTH = 40
PACK = f"[pack]\nlength = {LENGTH}\n"
KINDS = {
    "best fit": f"{PACK}[special]\n'<|endoftext|>' = 'document_end'\n'<|pad|>' = 'padding'\n",
    "one document a row, by language": f'{PACK}strategy = "one"\n',
    "concatenated and shuffled": f'{PACK}strategy = "concatenate"\nlast = "keep"\n[shuffle]\nseed = 3\n',
    "mixed": '[shuffle]\nseed = 3\n[mixture]\nstrategy = "temperature"\nalpha = 0.3\ntokens = 1800\n' + PACK,
}
FORMATS = ("array_record", "arrow", "datatrove", "huggingface", "litdata", "mds", "megatron", "nanogpt", "parquet")


def build_here(folder: Path, more: str) -> Path:
    write_corpus(folder)
    settings = SETTINGS.replace("[build]\nmax_rejected = 1\n", "")
    if "by language" in more:
        settings, more = settings.replace("[shards]\n", '[shards]\nby = "lang"\n'), KINDS[more]
    path = build_file(folder, SOURCES, settings + KINDS.get(more, more))
    text = path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n")
    path.write_text(text.replace("[pack]\n", f"[pack]\nformats = {json.dumps(FORMATS)}\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture(scope="module", params=KINDS)
def built(request, tmp_path_factory):
    return build_here(tmp_path_factory.mktemp("rows"), request.param)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return build_here(tmp_path_factory.mktemp("mixed"), "mixed")


def copy(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def remove(folder, ids=GONE, **how):
    options = RunOptions(here=True)
    return Remove(
        str(folder / "out"), tuple(ids), base=str(folder), options=options, **{"in_place_rows": True, **how}
    ).run()


def find_rows(output: Path) -> Path:
    """The folder of the rows of the newest commit."""
    log = read_log(str(output))
    return output / log.parts()[-1].path / "packed"


def read_manifest(rows: Path) -> AnyManifest:
    return parse_manifest((rows / "manifest.json").read_bytes(), "manifest.json")


def read_rows(rows: Path, name: str) -> list[bytes]:
    """All rows of one format, in order, read shard by shard."""
    found = []
    for shard in list_named_shards(read_manifest(rows)):
        (path,) = [file.path for file in find_main_files(shard) if file.format == name]
        for batch in FormatFile(name, str(rows / path)).open().batches():
            ids = batch.tokens.astype(np.int32)
            found += [ids[start:end].tobytes() for start, end in zip(batch.offsets, batch.offsets[1:], strict=False)]
    return found


def read_pieces(rows: Path) -> list[list[tuple[int, str | None, str, int]]]:
    """Of each row: (ids, id of the document, language, document in its shard) of each piece."""
    found = []
    for shard in list_named_shards(read_manifest(rows)):
        pieces = PiecesFile(str(rows / f"pieces/{shard.facts.stem}.pieces")).read()
        for row in range(pieces.num_rows):
            found.append(
                [
                    (int(pieces.lengths[i]), pieces.ids[i], pieces.langs[i], int(pieces.documents[i]))
                    for i in np.flatnonzero(pieces.rows == row)
                ]
            )
    return found


def mask_by_hand(row: bytes, pieces: list[tuple[int, str | None, str, int]], gone: set[str], padding: int) -> bytes:
    """Slow and obvious: a row with padding where pieces of these documents are."""
    ids, at = np.frombuffer(row, np.int32).copy(), 0
    for length, id, _, _ in pieces:
        if id in gone:
            ids[at : at + length] = padding
        at += length
    return ids.tobytes()


def find_padding(before: Path) -> int:
    """The id after the last piece of some row."""
    for row, pieces in zip(read_rows(before, "arrow"), read_pieces(before), strict=True):
        ids, used = np.frombuffer(row, np.int32), sum(length for length, *_ in pieces)
        if used < len(ids):
            return int(ids[used])
    spec = json.loads((before.parent / "tokenizer/tokcore.json").read_text())
    return next(one["id"] for one in spec["special"] if one["text"] == "<|endoftext|>")


def require_in_place(before: Path, after: Path, gone: set[str], padding: int) -> None:
    """Assert that the rows are those before, in every format, but for these documents; and so are the pieces."""
    then, now = read_pieces(before), read_pieces(after)
    assert [[one[0] for one in row] for row in now] == [[one[0] for one in row] for row in then]
    for row, was in zip(now, then, strict=True):
        for piece, old in zip(row, was, strict=True):
            is_gap = old[1] in gone or old[3] == -1
            assert piece[1:] == (None, "zxx", -1) if is_gap else piece[1:3] == old[1:3]
    for name in FORMATS:
        rows = [mask_by_hand(row, of, gone, padding) for row, of in zip(read_rows(before, name), then, strict=True)]
        assert read_rows(after, name) == rows


def train(loader: Loader, steps: int) -> list[tuple[bytes, ...]]:
    """What a model would see: the ids of each row, and which of them count in the loss."""
    seen = []
    for batch in loader:
        masks = batch.loss_mask if batch.loss_mask is not None else np.ones_like(batch.tokens, np.uint8)
        seen.append(tuple(row.tobytes() + mask.tobytes() for row, mask in zip(batch.tokens, masks, strict=True)))
        if len(seen) == steps:
            break
    return seen


def test_the_drill(built, tmp_path):
    """Train two steps, take ten documents down in place, resume: every other row is as it was, byte by byte."""
    folder = copy(built, tmp_path)
    before, padding = find_rows(folder / "out"), find_padding(folder / "out" / "packed")
    settings = {"length": LENGTH, "batch_size": 2, "seed": 4}
    loader = Loader(folder / "out" / "packed", **settings)
    undisturbed = train(Loader(folder / "out" / "packed", **settings), 10**6)
    assert train(loader, 2) == undisturbed[:2]
    state = json.loads(json.dumps(loader.state_dict(2)))
    of_rows = {
        row: {id for _, id, *_ in of} for row, of in zip(read_rows(before, "arrow"), read_pieces(before), strict=True)
    }

    done = remove(folder)
    assert (done.documents, done.commit.why.in_place_rows) == (len(GONE), True)
    resumed = Loader(folder / "out" / "packed", **settings)
    resumed.load_state_dict(state)
    seen = train(resumed, 10**6)
    assert len(seen) == len(undisturbed) - 2
    num_touched = 0
    for now, then in zip(seen, undisturbed[2:], strict=True):
        for row, was in zip(now, then, strict=True):
            ids, mask = np.frombuffer(row[: 4 * LENGTH], np.int32), np.frombuffer(row[4 * LENGTH :], np.uint8)
            if of_rows[was[: 4 * LENGTH]].isdisjoint(GONE):
                assert row == was
                continue
            num_touched += 1
            # What is gone has no loss, and what has loss is what was there.
            assert np.array_equal(ids, np.where(mask == 1, np.frombuffer(was[: 4 * LENGTH], np.int32), padding))
            assert not mask.all()
    assert num_touched
    require_in_place(before, find_rows(folder / "out"), set(GONE), padding)
    report = verify(str(folder / "out"), decode=None, options=RunOptions(here=True))
    assert report.problems == ()


def test_what_was_masked_is_told(built, tmp_path):
    folder = copy(built, tmp_path)
    then = read_pieces(folder / "out" / "packed")
    of_rows = [[one for one in row if one[1] in GONE] for row in then]
    tokens = sum(length for row in of_rows for length, *_ in row)
    cost = remove(folder, dry_run=True).cost
    assert (cost.rows, cost.all_rows, cost.row_tokens) == (sum(map(bool, of_rows)), len(then), tokens)
    assert not cost.moves_weights
    assert read_log(str(folder / "out")).newest == 0
    remove(folder)
    totals = read_manifest(find_rows(folder / "out")).totals
    documents = totals.removed
    assert (documents >= len(GONE), totals.removed_tokens) == (True, tokens)
    # Earlier commits have the documents until they are expired.
    held = verify_removed(str(folder / "out"), GONE)
    assert [one.path for one in held.held] == ["."]
    expire(str(folder / "out"), keep=1)
    report = verify_removed(str(folder / "out"), GONE)
    assert report.problems == ()
    assert (report.masked_documents, report.masked_tokens) == (documents, tokens)
    assert any(
        f"in {sum(map(bool, of_rows))} rows are padding in every format, {tokens} ids" in one for one in report.notes
    )
    shown = tokcore("verify", str(folder / "out"), "--removed", os.devnull)
    assert "are padding in every format" in shown.stdout
    assert "rows kept in place" in tokcore("log", str(folder / "out")).stdout


@pytest.mark.parametrize("name", FORMATS)
def test_an_id_in_place_of_a_document_is_found_in_each_format(mixed, tmp_path, name, monkeypatch):
    """The proof reads the bytes: an id that is no padding, where a document was, in one format alone."""
    folder = copy(mixed, tmp_path)
    remove(folder)
    rows, padding = find_rows(folder / "out"), find_padding(folder / "out" / "packed")
    removed = read_log(str(folder / "out")).tombstones()
    for shard in list_named_shards(read_manifest(rows)):
        pieces = PiecesFile(str(rows / f"pieces/{shard.facts.stem}.pieces")).read()
        look = lambda shard=shard: look_at_shard(str(rows.parent), shard, removed, padding)  # noqa: E731
        assert look().wrong == 0
        if (gaps := np.flatnonzero(pieces.are_gaps)).size:
            start = int(pieces.find_places(LENGTH)[0][gaps[0]])
            opened = FormatFile.open

            def open_spoiled(file, start=start, opened=opened):
                reader = opened(file)
                if file.format != name:
                    return reader
                whole = list(reader.batches())

                class Spoiled:
                    def batches(self):
                        at = 0
                        for batch in whole:
                            tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]].copy()
                            if at <= start < at + len(tokens):
                                tokens[start - at] = 65
                            at += len(tokens)
                            yield batch._replace(tokens=tokens, offsets=batch.offsets - batch.offsets[0])

                return Spoiled()

            with monkeypatch.context() as patched:
                patched.setattr(FormatFile, "open", open_spoiled)
                assert look().wrong == 1


def test_rows_that_name_a_document_are_found(mixed):
    """Without the names being removed: rows of commit 0 have all of them."""
    output = mixed / "out"
    removed = merge_tombstones("00" * 32, [])
    assert removed is None
    key = merge_tombstones("00" * 32, ["0"])
    wanted = merge_tombstones(key.key, [key.spell("id", "a-3"), key.spell("lang", "fr")])
    rows = output / "packed"
    found = sum(look_at_shard(str(output), one, wanted, 0).wrong for one in list_named_shards(read_manifest(rows)))
    assert found == sum(any(one[1] == "a-3" or one[2] == "fr" for one in row) for row in read_pieces(rows)) > 0


def test_a_second_removal_over_the_first(built, tmp_path):
    folder = copy(built, tmp_path)
    before, padding = read_rows(folder / "out/packed", "arrow"), find_padding(folder / "out" / "packed")
    pieces = read_pieces(folder / "out" / "packed")
    remove(folder)
    first = find_rows(folder / "out")
    again = ("a-2", "a-6", "c-8", "b-1")
    remove(folder, again)
    second = find_rows(folder / "out")
    require_in_place(first, second, {*again}, padding)
    everything = {*GONE, *again}
    assert read_rows(second, "arrow") == [
        mask_by_hand(row, of, everything, padding) for row, of in zip(before, pieces, strict=True)
    ]
    expire(str(folder / "out"), keep=1)
    report = verify(str(folder / "out"), decode=None, options=RunOptions(here=True))
    assert report.problems == ()
    assert verify_removed(str(folder / "out"), sorted(everything)).problems == ()


def test_a_language_goes_as_a_whole(built, tmp_path):
    """Also where it has a folder of shards of its own, in which nothing but padding is left."""
    folder = copy(built, tmp_path)
    before, padding = find_rows(folder / "out"), find_padding(folder / "out" / "packed")
    remove(folder, (), langs=("fr",))
    after = find_rows(folder / "out")
    require_in_place(before, after, {f"d-{i}" for i in range(9)}, padding)
    assert all(one[2] != "fr" for row in read_pieces(after) for one in row)
    report = verify(str(folder / "out"), decode=None, options=RunOptions(here=True))
    assert report.problems == ()


@pytest.mark.parametrize("strategy", ["best-fit", "concatenate"])
def test_many_groups_and_gaps_at_their_ends(tmp_path, strategy, monkeypatch):
    """Rows of several groups, from any documents: the first ones, the last ones, all of a shard, every second one."""
    monkeypatch.setattr("tokcore_schemas.pack_groups.SHARDS_PER_GROUP", 1)
    monkeypatch.setattr("tokcore_schemas.pack_groups.WINDOW_DOCUMENTS", 7)
    folder = build_here(tmp_path, f'{PACK}strategy = "{strategy}"\n')
    before, padding = find_rows(folder / "out"), find_padding(folder / "out" / "packed")
    assert len({one.facts.item for one in list_named_shards(read_manifest(before))}) > 1
    shards = package.open_shards(folder / "out")
    in_order = [shards.document(i).id for i in range(len(shards))]
    of_shard = shards.list_files()[1].num_documents
    first = shards.list_files()[0].num_documents
    chosen = {*in_order[:2], *in_order[-2:], *in_order[first : first + of_shard], *in_order[::2]}
    remove(folder, sorted(chosen))
    require_in_place(before, find_rows(folder / "out"), chosen, padding)
    report = verify(str(folder / "out"), decode=None, options=RunOptions(here=True))
    assert report.problems == ()


def test_a_converted_copy_is_masked_too(mixed, tmp_path):
    """It has no manifest, but pieces files."""
    folder = copy(mixed, tmp_path)
    remove(folder)
    rows = find_rows(folder / "out")
    done = tokcore("convert", str(rows), "--to", "arrow", "-o", str(tmp_path / "converted"))
    assert done.returncode == 0, done.stderr
    masked = {row for step in train(Loader(rows, LENGTH, 2), 10**6) for row in step}
    assert {row for step in train(Loader(tmp_path / "converted", LENGTH, 2), 10**6) for row in step} == masked
    assert any(not np.frombuffer(row[4 * LENGTH :], np.uint8).all() for row in masked)


def test_equal_documents_go_from_rows_too(tmp_path):
    """With [dedup]: the one that is named is in no shard, but an equal one is."""
    write(
        tmp_path / "en/0.jsonl", jsonl([{"id": f"x-{i}", "text": f"the tale of number {i} goes on"} for i in range(9)])
    )
    write(tmp_path / "en/1.jsonl", jsonl([{"id": "copy-4", "text": "the tale of number 4 goes on"}]))
    more = f'[dedup]\nby = "text"\n{PACK}formats = {json.dumps(FORMATS)}\n'
    path = build_file(
        tmp_path, '[[source]]\nlang = "en"\nfiles = "en/*.jsonl"\nid = "id"\n', f"[learn]\nvocab_size = 270\n{more}"
    )
    run(path, tmp_path / "out")
    before, padding = find_rows(tmp_path / "out"), find_padding(tmp_path / "out" / "packed")
    (kept,) = {"x-4", "copy-4"} & list_ids(tmp_path / "out")
    remove(tmp_path, {"x-4", "copy-4"} - {kept})
    require_in_place(before, find_rows(tmp_path / "out"), {kept}, padding)
    with pytest.raises(ConfigError, match="--in-place-rows: with --this-copy"):
        remove(tmp_path, ("x-5",), this_copy=True)


def test_what_follows_closes_the_gaps(mixed, tmp_path):
    """An update, or a removal without the option, packs rows anew; nothing is left to compact."""
    folder = copy(mixed, tmp_path)
    remove(folder)
    assert compact_here(folder).commit is None
    Restore(str(folder / "out"), ("a-3",)).run()
    assert "a-3" not in list_ids(folder / "out")
    config = load_config(str(folder / "build.toml"))
    Update(config, RunOptions(here=True), str(folder / "out"), weights="all").run()
    totals = read_manifest(find_rows(folder / "out")).totals
    assert (totals.removed, "a-3" in list_ids(folder / "out")) == (0, True)
    require_without(folder, {*GONE} - {"a-3"})
    remove(folder, ("a-3",), in_place_rows=False)
    assert read_manifest(find_rows(folder / "out")).totals.removed == 0
    require_without(folder, GONE)


def test_damaged_rows_are_made_again(mixed, tmp_path):
    folder = copy(mixed, tmp_path)
    remove(folder)
    expire(str(folder / "out"), keep=1)
    rows = find_rows(folder / "out")
    paths = [path for path in rows.rglob("*") if path.is_file() and path.suffix in (".arrow", ".pieces", ".bin")]
    whole = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert repair(str(rows.parent)).left == ()
    assert {path: path.read_bytes() for path in paths} == whole


POINTS = ["pack.shard", "pack.group", "stage.worked", "stage.published", "build.committed", "remove.built"]


@pytest.mark.parametrize("point", [*POINTS, "remove.committed"])
def test_a_killed_removal_goes_on_to_the_same_commit(mixed, tmp_path, point):
    folder, other = copy(mixed, tmp_path), tmp_path / "other"
    shutil.copytree(folder, other)
    for one in (folder, other):
        (one / "gone.txt").write_text("".join(f"{id}\n" for id in GONE))

    def command(place):
        return [
            "remove",
            str(place / "out"),
            "--ids",
            str(place / "gone.txt"),
            "--in-place-rows",
            "--base",
            str(folder),
        ]

    killed = tokcore(*command(folder), env={**os.environ, "TOKCORE_CRASH": f"{point}:1"})
    assert killed.returncode != 0
    again = tokcore(*command(folder))
    assert again.returncode == 0, again.stderr
    assert tokcore(*command(other)).returncode == 0
    assert (folder / "out/log/1.json").read_bytes() == (other / "out/log/1.json").read_bytes()
    report = verify(str(folder / "out"), options=RunOptions(here=True))
    assert report.problems == ()


def test_outputs_without_rows_are_refused(tmp_path):
    write_corpus(tmp_path)
    run(tmp_path / "build.toml", tmp_path / "out")
    with pytest.raises(ConfigError, match=r'has no \[pack\].*Loader\(at=0, removed="mask"\)'):
        remove(tmp_path)
    assert read_log(str(tmp_path / "out")).newest == 0


def test_rows_stay_only_if_the_documents_are_those_before():
    a, b, c = (Place("f", ordinal, 3) for ordinal in range(3))
    assert [*compare_streams([a, b, c], [b])] == [(0, 3), (2, 3)]
    assert [*compare_streams([a, c], [c], Gaps("train", (1, 3), (8, 9)))] == [(0, 3), (1, 8), (3, 9)]
    for after in ([c, a], [a, b, c, c], [Place("f", 0, 4)]):
        with pytest.raises(LedgerError, match="cannot stay where"):
            list(compare_streams([a, b, c], after))
