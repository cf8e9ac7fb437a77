"""Following an output: each document comes once, in the order of commits, from wherever one stopped."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from support.builds import build_file, run
from support.updates import SETTINGS, SOURCES, make_texts, update_here, write_corpus, write_file

import tokcore
from tokcore.errors import ConfigError, FormatError
from tokcore_pipelines.history.expire_commits import expire


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A corpus, and an output with commits: two new files, then a new version of one beside a third."""
    folder = tmp_path_factory.mktemp("follow")
    write_corpus(folder)
    run(build_file(folder, SOURCES, SETTINGS), folder / "out")
    for name in ("e", "f"):
        write_file(folder, f"en/{name}.jsonl", make_texts(name, 4))
    update_here(folder / "build.toml", folder / "out")
    write_file(folder, "en/e.jsonl", make_texts("other", 3))  # f.jsonl is read again with it
    write_file(folder, "mixed/g.jsonl", make_texts("g", 2), "de")
    update_here(folder / "build.toml", folder / "out")
    return folder


def follow(folder: Path, **how):
    return tokcore.open_shards(folder / "out", "all", follow=True, **how)


def decode(folder: Path, documents) -> list[str]:
    """The texts of documents, sorted; the token at the end of each is left out."""
    tokenizer = tokcore.Tokenizer.load(folder / "out")
    return sorted(tokenizer.decode(one.tokens[:-1].tolist()).decode() for one in documents)


def expected(*names_and_numbers) -> list[str]:
    return sorted(text for name, number in names_and_numbers for text in make_texts(name, number))


def test_each_document_comes_once(grown):
    documents = [*follow(grown).read_available()]
    by_commit = [[one for one in documents if one.commit == number] for number in range(3)]
    assert decode(grown, by_commit[0]) == expected(("a", 12), ("b", 12), ("c", 9), ("d", 9))
    assert decode(grown, by_commit[1]) == expected(("e", 4), ("f", 4))
    assert decode(grown, by_commit[2]) == expected(("other", 3), ("g", 2))
    for brought in by_commit:
        assert [one.document for one in brought] == list(range(len(brought)))


def test_it_goes_on_from_any_document(grown):
    def spell(documents):
        return [(*one[:2], one.tokens.tolist()) for one in documents]

    whole = spell(follow(grown).read_available())
    for cut in (0, 1, len(whole) // 2, 42, 43, 50, len(whole) - 1, len(whole)):
        first, second = follow(grown), follow(grown)
        iterator = first.read_available()
        begun = spell(next(iterator) for _ in range(cut))
        second.load_state_dict(first.state_dict())
        assert begun + spell(second.read_available()) == whole


def test_it_begins_with_any_commit(grown):
    newest = [*follow(grown, at=2).read_available()]
    assert len(newest) == len(tokcore.open_shards(grown / "out", "all"))
    with pytest.raises(ConfigError, match="has no commit 3"):
        next(follow(grown, at=3).read_available())


def test_it_waits_for_commits(grown, tmp_path):
    shutil.copytree(grown, tmp_path / "copy")
    followed = tokcore.open_shards(tmp_path / "copy" / "out", "all", at=2, follow=True)
    followed.poll_seconds = 0.05
    come = []
    five_are_there = threading.Event()

    def read():
        for one in followed:
            come.append(one)
            if one[:2] == (3, 4):
                five_are_there.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    write_file(tmp_path / "copy", "en/h.jsonl", make_texts("h", 5))
    update_here(tmp_path / "copy" / "build.toml", tmp_path / "copy" / "out")
    assert five_are_there.wait(30)
    followed.close()
    thread.join(10)
    assert not thread.is_alive()
    assert decode(grown, [one for one in come if one.commit == 3]) == expected(("h", 5))


def test_expired_commits_are_named(grown, tmp_path):
    shutil.copytree(grown, tmp_path / "copy")
    expire(str(tmp_path / "copy" / "out"), keep=1)
    with pytest.raises(FormatError):
        [*follow(tmp_path / "copy", at=1).read_available()]
    assert [*follow(tmp_path / "copy", at=2).read_available()]


def test_a_wrong_state_is_refused(grown):
    for state in ({}, {"first": 0, "commit": -1, "document": 0}, {"first": 0, "commit": 1}):
        with pytest.raises(ConfigError, match="expected what state_dict"):
            follow(grown).load_state_dict(state)
