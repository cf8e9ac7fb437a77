"""Documents are taken down while a run is under way: its rows stay, and padding that is masked takes their place."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.builds import build_file, run
from support.removals import SETTINGS, SOURCES, remove_here, write_corpus, write_documents
from support.updates import update_here

import tokcore
from tokcore.errors import ConfigError
from tokcore.train.loader import Loader
from tokcore_pipelines.history.restore_documents import Restore

PADDING = 9999  # no id of the tokenizer
GONE = {"a-3", "a-4", "a-5", "b-0", "b-11", "c-7", "d-0", "d-1", "d-2", "d-8"}


@pytest.fixture(scope="module", params=["", "[shuffle]\nseed = 3\n"], ids=["in order", "shuffled"])
def built(request, tmp_path_factory):
    """A folder with a corpus, and its finished build in out/."""
    folder = tmp_path_factory.mktemp("masked")
    write_corpus(folder)
    path = build_file(folder, SOURCES, SETTINGS.replace("[build]\nmax_rejected = 1\n", "") + request.param)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


@pytest.fixture
def corpus(built, tmp_path):
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def mark_removed(output: Path, gone=frozenset(), sources=()) -> np.ndarray:
    """Slow and obvious: whether each id of commit 0, document after document, is of a removed one."""
    shards = tokcore.open_shards(output, at=0)
    marks = []
    for i in range(len(shards)):
        document = shards.document(i)
        marks += [document.id in gone or document.source in sources] * len(shards[i])
    return np.array(marks, bool)


@pytest.mark.parametrize("length", [5, 16, 64])
def test_the_drill(corpus, length):
    """Train two steps, take ten documents down, mask, resume: every other id is as it was."""
    settings = {"length": length, "batch_size": 2, "seed": 4}
    before = Loader(corpus / "out", **settings)
    steps = [before[step] for step in range(len(before))]
    state = json.loads(json.dumps(before.state_dict(2)))
    done = remove_here(corpus, GONE)
    assert done.documents == len(GONE)
    with pytest.raises(ConfigError, match="the state has num_rows"):
        Loader(corpus / "out", **settings).load_state_dict(state)
    loader = Loader(corpus / "out", **settings, at=0, removed="mask", padding=PADDING)
    loader.load_state_dict(state)
    loader = pickle.loads(pickle.dumps(loader))
    resumed = list(loader)
    assert len(resumed) == len(steps) - 2
    for batch, was in zip(resumed, steps[2:], strict=True):
        assert batch.loss_mask.dtype == np.uint8
        assert np.array_equal(batch.cu_seqlens, was.cu_seqlens)
        assert np.array_equal(batch.tokens, np.where(batch.loss_mask == 1, was.tokens, PADDING))
    assert any((batch.loss_mask == 0).any() for batch in resumed)
    # What is masked is what the removed documents are.
    in_order = Loader(corpus / "out", length, batch_size=3, shuffle=False, at=0, removed="mask", padding=PADDING)
    masks = np.concatenate([batch.loss_mask.reshape(-1) for batch in in_order])
    assert np.array_equal(masks == 0, mark_removed(corpus / "out", GONE)[: len(masks)])


def test_files_and_what_was_restored(corpus):
    remove_here(corpus, GONE, sources=["d.jsonl"])
    write_documents(corpus, "en/e.jsonl", 3)
    update_here(corpus / "build.toml", corpus / "out")
    Restore(str(corpus / "out"), ("a-3",)).run()
    loader = Loader(corpus / "out", 7, batch_size=3, shuffle=False, at=0, removed="mask")
    masks = np.concatenate([batch.loss_mask.reshape(-1) for batch in loader])
    expected = mark_removed(corpus / "out", GONE - {"a-3"}, {"mixed/d.jsonl"})
    assert np.array_equal(masks == 0, expected[: len(masks)])
    # In the newest commit nothing is left to be masked.
    assert all(batch.loss_mask.all() for batch in Loader(corpus / "out", 7, batch_size=3, removed="mask"))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder with a corpus, and its finished build in out/, with a mixture and packed rows."""
    folder = tmp_path_factory.mktemp("mixed")
    write_corpus(folder)
    more = '[shuffle]\nseed = 3\n[mixture]\nstrategy = "weights"\nweights = { de = 2.5 }\n[pack]\nlength = 40\n'
    path = build_file(folder, SOURCES, SETTINGS.replace("[build]\nmax_rejected = 1\n", "") + more)
    path.write_text(path.read_text().replace("[build]\n", "[build]\nmax_rejected = 1\n"))
    run(path, folder / "out")
    return folder


def mark_packed(output: Path, gone: set[str]) -> np.ndarray:
    """Slow and obvious: whether each id of the rows of commit 0 is of a removed document."""
    marks: list[bool] = []
    for shard in tokcore.open_shards(output / "packed", at=0).list_files():
        pieces = shard.find_pieces().read()
        for row in range(pieces.num_rows):
            of_row = np.flatnonzero(pieces.rows == row)
            own = [pieces.ids[i] in gone for i in of_row for _ in range(pieces.lengths[i])]
            marks += own + [False] * (40 - len(own))
    return np.array(marks, bool)


@pytest.mark.parametrize("stage", ["mixed", "packed"])
def test_rows_of_a_mixture_and_packed_ones(mixed, tmp_path, stage):
    shutil.copytree(mixed, tmp_path / "copy")
    output = tmp_path / "copy" / "out"
    before = Loader(output / stage, 40, 2, seed=4)
    steps, state = list(before), before.state_dict(2)
    assert remove_here(tmp_path / "copy", GONE).documents == len(GONE)
    loader = Loader(output / stage, 40, 2, seed=4, at=0, removed="mask", padding=PADDING)
    loader.load_state_dict(state)
    resumed = list(loader)
    assert len(resumed) == len(steps) - 2 > 2
    for batch, was in zip(resumed, steps[2:], strict=True):
        assert np.array_equal(batch.tokens, np.where(batch.loss_mask == 1, was.tokens, PADDING))
    in_order = Loader(output / stage, 40, 3, shuffle=False, at=0, removed="mask")
    masks = np.concatenate([batch.loss_mask.reshape(-1) for batch in in_order])
    if stage == "packed":
        expected = mark_packed(output, GONE)
    else:
        shards = tokcore.open_shards(output / stage, at=0)
        expected = np.array([shards.document(i).id in GONE for i in range(len(shards)) for _ in shards[i]])
    assert expected.any()
    assert np.array_equal(masks == 0, expected[: len(masks)])
    # The newest commit has no such documents in its mixture and its rows.
    newest = Loader(output / stage, 40, 3, removed="mask")
    assert all(batch.loss_mask.all() for batch in newest)


def test_nothing_is_masked_unasked(corpus):
    assert Loader(corpus / "out", 7, batch_size=3)[0].loss_mask is None
    masked = Loader(corpus / "out", 7, batch_size=3, removed="mask")[0]
    assert (masked.loss_mask.shape, bool(masked.loss_mask.all())) == (masked.tokens.shape, True)


def test_what_cannot_be_masked_is_refused(corpus):
    remove_here(corpus, GONE)
    for place in (corpus / "out" / "shards", *(corpus / "out" / "parts").iterdir()):
        with pytest.raises(ConfigError, match="is not the folder of an output"):
            Loader(place, 7, batch_size=3, removed="mask")
    with pytest.raises(ConfigError, match=r"removed = 'drop': expected \"mask\""):
        Loader(corpus / "out", 7, batch_size=3, removed="drop")
    with pytest.raises(ConfigError, match="padding = -1"):
        Loader(corpus / "out", 7, batch_size=3, removed="mask", padding=-1)
