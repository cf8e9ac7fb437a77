"""The examples in the pages of docs/ run, and the golden bytes of shards there are what is written."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from support.token_batches import batch_of, shard_bytes

ROOT = Path(__file__).parents[2]


PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page):
    failed, attempted = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert attempted > 2


def test_the_pages_with_examples_are_found():
    assert {"tie-rule", "shards", "models", "use-a-tokenizer"} <= {page.stem for page in PAGES}


def test_golden_bytes():
    text = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    block = text.split("Golden bytes, documents `[1, 2, 3]` and `[4, 5]`:")[1].split("```")[1]
    told_bin, told_idx = (part.split() for part in block.replace(".bin", "").split(".idx"))
    batch = batch_of([([1, 2, 3], None, "en", "a", 0), ([4, 5], None, "en", "a", 1)])
    files = shard_bytes("megatron", [batch])
    assert files["_text_document.bin"].hex() == "".join(told_bin)
    assert files["_text_document.idx"].hex() == "".join(told_idx)
    assert f"as uint16: `{shard_bytes('nanogpt', [batch], vocab_size=6)['.bin'].hex()}`" in text
