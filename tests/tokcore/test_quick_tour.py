"""The five lines of Hugging Face's quick tour and ours, as a page has them side by side, give the same."""

from __future__ import annotations

import re
from typing import Any

from support.builds import ROOT, texts
from transformers import AutoTokenizer

import tokcore


def read_columns() -> tuple[list[str], list[str]]:
    """Their lines and ours."""
    page = (ROOT / "docs" / "how-to" / "use-a-tokenizer.md").read_text()
    section = page.split("## Beside Hugging Face's quick tour\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [a-z ,]+ \| `(.+?)` \| `(.+?)` \|$", section, re.MULTILINE)
    return [theirs for theirs, _ in rows], [ours for _, ours in rows]


def test_both_columns_run_and_agree(tmp_path, monkeypatch):
    corpus = texts("en", 30)
    tokcore.Tokenizer.train(corpus, vocab_size=320, pattern="gpt2").export("huggingface", tmp_path / "model")
    found: list[dict[str, Any]] = []
    for number, lines in enumerate(read_columns()):
        assert len(lines) == 5
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        names: dict[str, Any] = {"name": str(tmp_path / "model"), "texts": corpus, "tokcore": tokcore}
        exec("\n".join(lines), names | {"AutoTokenizer": AutoTokenizer}, names)
        trained = AutoTokenizer.from_pretrained(folder / "mine")
        assert len(trained) == 300
        assert trained.decode(trained("the cat").input_ids) == "the cat"
        found.append(names)
    theirs, ours = found
    assert theirs["inputs"] == ours["inputs"]
    for key, value in theirs["batch"].items():
        assert value.tolist() == ours["batch"][key].tolist()
    assert theirs["batch"]["input_ids"].shape == (30, 8)
    assert theirs["text"] == ours["text"] == "We are very happy to show you this."
