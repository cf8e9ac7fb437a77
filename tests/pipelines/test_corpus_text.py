"""Corpus text never becomes control: secrets of few documents, and the longest token."""

from __future__ import annotations

from pathlib import Path

import pytest
from builds import build_file, jsonl, run, small_corpus, texts, write

import tokcore as api
from tokcore.errors import LearnError

# Pre-tokens that no other document has, so that every part of it longer than a few bytes is its own.
SECRET = "Xq7Zk9vPw3RtYb5N"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    return folder


def longest_part(tokenizer: api.Tokenizer, secret: str) -> int:
    """Bytes of the longest token that is a part of the secret."""
    tokens = tokenizer.spec.model.tokens
    return max(len(token) for token in tokens if token in secret.encode())


def with_canary(folder: Path, num_documents: int, repeats: int) -> None:
    documents = [{"text": text} for text in texts("en", 30)]
    documents += [{"text": (SECRET + " ") * repeats + str(i)} for i in range(num_documents)]
    write(folder / "en.jsonl", jsonl(documents))


ENGLISH = """
[[source]]
lang = "en"
files = "en.jsonl"
"""


@pytest.mark.parametrize(("documents", "least", "learned"), [(1, 0, True), (1, 2, False), (2, 2, True), (4, 5, False)])
def test_a_secret_of_few_documents_does_not_become_a_token(tmp_path, documents, least, learned):
    """A hundred thousand times in one document: a token of its own, unless rows of one document take no part."""
    with_canary(tmp_path, documents, 100_000 // documents)
    settings = f"[learn]\nvocab_size = 300\nmin_documents = {least}\n"
    run(build_file(tmp_path, ENGLISH, settings), tmp_path / "out")
    tokenizer = api.Tokenizer.load(tmp_path / "out")
    assert (longest_part(tokenizer, SECRET) > 3) == learned
    # What takes no part in learning is encoded all the same.
    assert tokenizer.decode(api.open_shards(tmp_path / "out")[30]).startswith(SECRET.encode())


def test_documents_are_added_up_over_languages(tmp_path):
    for lang in ("en", "ru"):
        write(tmp_path / f"{lang}.jsonl", jsonl([{"text": text} for text in texts(lang, 20)] + [{"text": SECRET * 50}]))
    both = ENGLISH + ENGLISH.replace("en", "ru")
    for least, learned in ((2, True), (3, False)):
        out = tmp_path / str(least)
        run(build_file(tmp_path, both, f"[learn]\nvocab_size = 300\nmin_documents = {least}\n"), out)
        assert (longest_part(api.Tokenizer.load(out), SECRET) > 3) == learned


def test_no_pretoken_in_that_many_documents_is_an_error_that_says_so(tmp_path, corpus):
    path = build_file(corpus, settings="[learn]\nvocab_size = 300\nmin_documents = 1000\n", name="many.toml")
    with pytest.raises(LearnError, match=r"learn.min_documents = 1000: no pre-token is in that many documents"):
        run(path, tmp_path / "out")


def test_no_token_of_a_build_is_longer_than_allowed(tmp_path, corpus):
    path = build_file(corpus, settings="[learn]\nvocab_size = 500\nmax_token_bytes = 6\n", name="short.toml")
    run(path, tmp_path / "out")
    tokens = api.Tokenizer.load(tmp_path / "out").spec.model.tokens
    assert max(map(len, tokens)) == 6
