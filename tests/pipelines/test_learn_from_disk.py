"""Learning from rows that do not fit in memory: the bytes of learning from memory, and nothing left on the disk."""

from __future__ import annotations

import pytest
from support.builds import build_file, run, small_corpus

from tokcore.errors import StageError
from tokcore.learn.rounds import Round
from tokcore_pipelines.local.memory import Available
from tokcore_pipelines.work import learn_model

SETTINGS = {
    "plain": "vocab_size = 500",
    "several sizes": "vocab_size = [400, 500]",
    "all that there are": "vocab_size = 9000\nallow_smaller = true\nmin_count = 3",
    "short tokens": "vocab_size = 350\nmax_token_bytes = 4\nmin_documents = 2",
    "words with ends": 'vocab_size = 700\nend_of_word = "</w>"',
}


@pytest.fixture
def too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory for the rows of the small corpus, and what is left is enough for rounds."""
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: Available(500, "a limit"))
    monkeypatch.setattr(learn_model, "READ_BYTES", 0)
    monkeypatch.setattr(learn_model, "LEAST_BYTES", 1)
    monkeypatch.setattr(learn_model, "find_read_bytes", lambda rows: 0)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_bytes_as_from_memory(tmp_path, too_little, monkeypatch, name):
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings=f"[learn]\n{SETTINGS[name]}\n")
    rounds: list[Round] = []
    monkeypatch.setattr(learn_model, "describe_round", lambda told: rounds.append(told) or "")
    from_disk = run(path, tmp_path / "disk")
    assert rounds
    with monkeypatch.context() as plenty:
        plenty.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: None)
        from_memory = run(path, tmp_path / "memory")
    assert from_disk.root == from_memory.root
    assert rounds[-1].num_merges == from_memory.totals.vocab_size - (513 if "end_of_word" in SETTINGS[name] else 257)


def test_a_limit_of_the_build_file_bounds_it_and_changes_no_bytes(tmp_path, monkeypatch):
    """The limit is no part of what the output is: another one goes on with it."""
    monkeypatch.setattr(learn_model, "READ_BYTES", 0)
    monkeypatch.setattr(learn_model, "LEAST_BYTES", 1)
    monkeypatch.setattr(learn_model, "find_read_bytes", lambda rows: 0)
    monkeypatch.setattr("tokcore_pipelines.work.learn_model.require_memory", _require_at_most(1 << 20))
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings="[learn]\nvocab_size = 500\nmemory_bytes = 1_048_576\n")
    manifest = run(path, tmp_path / "out")
    other = build_file(tmp_path, settings="[learn]\nvocab_size = 500\n", name="other.toml")
    assert run(other, tmp_path / "out").root == manifest.root


def _require_at_most(size_bytes):
    def require(num_rows, row_bytes, held_bytes=0, available=None):
        assert available.size_bytes <= size_bytes, "learn.memory_bytes does not bound it"
        raise learn_model.TooLittleMemoryError("too little", available)

    return require


@pytest.mark.parametrize(
    "learn",
    ['model = "unigram"\nvocab_size = 400', 'model = "wordpiece"\nvocab_size = 400', "vocab_size = 500"],
)
def test_what_cannot_be_learned_in_rounds_is_refused(tmp_path, monkeypatch, learn):
    """Other models, and BPE with hardly any memory: with the figure that would do."""
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: Available(500, "a limit"))
    small_corpus(tmp_path)
    with pytest.raises(StageError, match=r"distinct pre-tokens need about .* a limit leaves 500 bytes"):
        run(build_file(tmp_path, settings=f"[learn]\n{learn}\n"), tmp_path / "out")


def test_an_end_in_the_middle_leaves_nothing_and_the_next_run_goes_on(tmp_path, too_little, monkeypatch):
    small_corpus(tmp_path)
    files = tmp_path / "temporary"
    files.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(files))
    path = build_file(tmp_path, settings="[learn]\nvocab_size = 500\n")

    def fail(told: Round) -> str:
        raise StageError(f"in round {told.number}")

    with monkeypatch.context() as failing:
        failing.setattr(learn_model, "describe_round", fail)
        with pytest.raises(StageError, match="in round 1"):
            run(path, tmp_path / "out")
    assert list(files.iterdir()) == []
    root = run(path, tmp_path / "out").root
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: None)
    assert run(path, tmp_path / "again").root == root
