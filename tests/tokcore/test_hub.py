"""Tokenizers from and to the Hugging Face Hub: a server of this machine, its cache, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from stores.web import REPO, serve
from support.builds import texts
from transformers import PreTrainedTokenizerFast

import tokcore
from tokcore.errors import ConfigError, LearnError
from tokcore.transformers import TokcoreTokenizer

READ = """
import sys
import tokcore
from tokcore.errors import TokError
try:
    print(tokcore.Tokenizer.from_pretrained(*sys.argv[1:]).fingerprint)
except TokError as error:
    print(type(error).__name__, error)
"""


def read_in_process(home: Path, name: str, **environment: str) -> str:
    """What a process prints: the Hub's address and its cache are settings of one."""
    told = {**os.environ, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1", **environment}
    done = subprocess.run([sys.executable, "-c", READ, name], capture_output=True, text=True, env=told, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_from_the_hub_then_from_its_cache(tmp_path):
    trained = tokcore.Tokenizer.train(texts("en", 9), vocab_size=300)
    trained.export("huggingface", tmp_path / "model")
    with serve(tmp_path / "model") as (url, requests):
        assert read_in_process(tmp_path / "hf", REPO, HF_ENDPOINT=url) == trained.fingerprint
        assert requests
        requests.clear()
        assert read_in_process(tmp_path / "hf", REPO, HF_ENDPOINT=url, HF_HUB_OFFLINE="1") == trained.fingerprint
        assert not requests
        said = read_in_process(tmp_path / "empty", REPO, HF_ENDPOINT=url, HF_HUB_OFFLINE="1")
        assert said.startswith("ConfigError corpora/small: the Hub does not answer")
        assert said.endswith(f"fetch one: hf download {REPO}")


def test_a_repository_without_a_tokenizer(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights.bin").write_bytes(b"x")
    with serve(tmp_path / "model") as (url, _):
        said = read_in_process(tmp_path / "hf", REPO, HF_ENDPOINT=url)
    assert said.startswith(f"FormatError {REPO}: this repository has no tokcore.json, tokenizer.json")


def test_a_path_is_loaded(tmp_path):
    trained = tokcore.Tokenizer.train(texts("en", 9), vocab_size=300)
    trained.save(tmp_path)
    assert tokcore.Tokenizer.from_pretrained(tmp_path) == trained
    with pytest.raises(FileNotFoundError):
        tokcore.Tokenizer.from_pretrained(tmp_path / "none" / "tokenizer.json")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (
        lambda: tokcore.Tokenizer.from_pretrained("org/name"),
        lambda: tokcore.Tokenizer.train(["ab" * 9], vocab_size=258).push_to_hub("org/name", allow_one_document=True),
    ):
        with pytest.raises(ConfigError, match=r"org/name: .* pip install 'tokcore\[hf\]'"):
            call()


class Hub:
    """What is asked of huggingface_hub.HfApi."""

    def __init__(self) -> None:
        self.made: list[tuple[str, bool | None]] = []
        self.commits: list[tuple[str, dict[str, bytes], str]] = []

    def __call__(self, token: str | None = None) -> Hub:
        if token == "wrong":
            raise ValueError("Invalid user token.\nmore")
        return self

    def create_repo(self, name: str, *, private: bool | None, exist_ok: bool) -> None:
        assert exist_ok
        self.made.append((name, private))

    def create_commit(self, name: str, operations: list[Any], *, commit_message: str) -> Any:
        self.commits.append((name, {one.path_in_repo: one.path_or_fileobj for one in operations}, commit_message))
        return SimpleNamespace(commit_url=f"https://hub/{name}/commit/1")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", made)
    return made


COMMON = texts("en", 30)
SECRET = [*COMMON, "hunter2secret " * 40]


def test_what_is_pushed_is_read_back(hub, tmp_path):
    trained = tokcore.Tokenizer.train(COMMON, vocab_size=300)
    assert trained.push_to_hub("org/name", COMMON, private=True) == "https://hub/org/name/commit/1"
    assert hub.made == [("org/name", True)]
    [(name, files, message)] = hub.commits
    assert (name, message) == ("org/name", "Upload a tokenizer")
    assert sorted(files) == ["special_tokens_map.json", "tokcore.json", "tokenizer.json", "tokenizer_config.json"]
    for name in ("tokcore.json", "tokenizer.json"):
        (tmp_path / name).write_bytes(files[name])
        assert tokcore.Tokenizer.load(tmp_path / name).vocab == trained.vocab


def test_tokens_of_one_document_are_refused(hub):
    trained = tokcore.Tokenizer.train(SECRET, vocab_size=315)
    with pytest.raises(LearnError, match=r"tokens come from one document each.*'secret', ' hunter'"):
        trained.push_to_hub("org/name", iter(SECRET))
    assert not hub.made
    with pytest.raises(ConfigError, match="texts are missing"):
        trained.push_to_hub("org/name")
    assert trained.push_to_hub("org/name", allow_one_document=True)
    with pytest.raises(ConfigError, match=r"Invalid user token\. Log in first \(hf auth login\)"):
        trained.push_to_hub("org/name", allow_one_document=True, token="wrong")
    safe = tokcore.Tokenizer.train(SECRET, vocab_size=300, min_documents=2)
    assert not any("hunter" in name for name in safe.vocab)


def test_a_tokenizer_of_transformers_is_refused_alike(monkeypatch):
    pushed: list[dict[str, Any]] = []
    monkeypatch.setattr(
        PreTrainedTokenizerFast, "push_to_hub", lambda self, repo_id, **named: pushed.append(named) or repo_id
    )
    trained = TokcoreTokenizer.from_tokcore(tokcore.Tokenizer.train(SECRET, vocab_size=315))
    with pytest.raises(LearnError, match="tokens come from one document each"):
        trained.push_to_hub("org/name", texts=SECRET, private=True)
    with pytest.raises(ConfigError, match="texts are missing"):
        trained.push_to_hub("org/name")
    trained.backend_tokenizer.model.dropout = 0.1  # of which there is no exact form
    with pytest.raises(ConfigError, match="tokcore has no form of it"):
        trained.push_to_hub("org/name", texts=SECRET)
    assert not pushed
    assert trained.push_to_hub("org/name", allow_one_document=True, private=True) == "org/name"
    assert pushed == [{"private": True}]


def test_a_model_that_transformers_has_not_is_its_own_file(hub):
    trained = tokcore.Tokenizer.train(COMMON, model="codepoint")
    trained.push_to_hub("org/name", allow_one_document=True)
    assert list(hub.commits[0][1]) == ["tokcore.json"]
