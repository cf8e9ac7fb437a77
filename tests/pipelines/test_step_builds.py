"""Builds whose split pattern is a list of steps: learned, counted, encoded, imported, extended and verified."""

from __future__ import annotations

import json

import pytest
import tokenizers
from support.builds import build_file, make_config, run, small_corpus, tree
from support.published_shapes import PRE_TOKENIZERS, byte_level

from tokcore import Tokenizer
from tokcore.errors import ConfigError
from tokcore.shards.opened_shards import open_shards
from tokcore_pipelines.check.verify import verify

# They leave out white space and put a blank first, so that decoding gives what the steps leave of a text.
CHANGING = [{"type": "WhitespaceSplit"}, byte_level(prefix=True), {"type": "Digits", "individual_digits": True}]


def learn(corpus, steps, name: str, more: str = ""):
    settings = f"[learn]\nvocab_size = 400\n[pretokenize]\nsteps = '''{json.dumps(steps)}'''\n{more}"
    return run(build_file(corpus, settings=settings, name=f"{name}.toml"), corpus / name)


@pytest.mark.parametrize("steps", [PRE_TOKENIZERS["falcon"], CHANGING], ids=["falcon", "changing"])
def test_a_list_of_steps_is_learned_and_comes_back(steps, tmp_path):
    small_corpus(tmp_path)
    learn(tmp_path, steps, "first")
    learn(tmp_path, steps, "again", "[count]\nmax_pretoken_bytes = 1024\n")
    assert tree(tmp_path / "first") == tree(tmp_path / "again")
    assert not verify(str(tmp_path / "first"), decode=None).problems
    tokenizer = Tokenizer.load(tmp_path / "first")
    assert tokenizer.spec.keeps_text == (steps is not CHANGING)

    # Imported from its own tokenizer.json, it gives the same shards; there, it gives the same ids.
    file = tmp_path / "first" / "tokenizer" / "tokenizer.json"
    run(build_file(tmp_path, settings=f'[tokenizer]\nfrom = "{file}"\n', name="import.toml"), tmp_path / "import")
    assert Tokenizer.load(tmp_path / "import") == tokenizer
    assert [row.tolist() for row in open_shards(tmp_path / "import")] == [
        row.tolist() for row in open_shards(tmp_path / "first")
    ]
    theirs = tokenizers.Tokenizer.from_file(str(file))
    texts = [tokenizer.decode(row[:-1]).decode() for row in open_shards(tmp_path / "first")][:20]
    assert [tokenizer.encode(text).tolist() for text in texts] == [theirs.encode(text).ids for text in texts]

    settings = f'[learn]\nextend = "{tmp_path / "first"}"\nvocab_size = 420\n'
    run(build_file(tmp_path, settings=settings, name="extend.toml"), tmp_path / "extend")
    assert Tokenizer.load(tmp_path / "extend").spec.pattern == tokenizer.spec.pattern
    assert not verify(str(tmp_path / "extend"), decode=None).problems


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("steps = '[]'", "has no ByteLevel"),
        ("steps = '[{\"type\": \"ByteLevel\"}]'\nregex = 'a+'", "and regex exclude each other"),
        ('steps = \'[{"type": "Nothing"}]\'', "Nothing is not supported: only Split"),
        ("steps = 'ByteLevel'", "are not JSON"),
        ("steps = '[{\"type\": \"ByteLevel\"}]'\n[learn]\nmodel = 'word'", "is for bpe, and learn.model is word"),
        ("steps = '[{\"type\": \"ByteLevel\"}]'\n[count]\nmask = ['email']", r"count\.mask would be elsewhere"),
    ],
)
def test_steps_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ConfigError, match=rf"pretokenize\.steps.*{message}"):
        make_config(f"[pretokenize]\n{settings}\n")
