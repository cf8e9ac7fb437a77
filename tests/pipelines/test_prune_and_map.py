"""tokcore prune and tokcore vocab-map: what they write, from outputs and files of others."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tokenizers
import yaml
from support.builds import build_file, run, small_corpus, tokcore

from tokcore import open_counts, open_shards
from tokcore.errors import ConfigError
from tokcore.look.vocabulary_map import map_vocabulary
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.look.vocab_map import list_for_mergekit

SETTINGS = """
[learn]
vocab_size = {size}
[special]
"{end}" = "document_end"
"<|more|>" = "plain"
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Outputs of two sizes, with other special tokens."""
    folder = tmp_path_factory.mktemp("prune")
    small_corpus(folder)
    for size, end in ((400, "<|end|>"), (330, "</s>")):
        path = build_file(folder, settings=SETTINGS.format(size=size, end=end), name=f"{size}.toml")
        run(path, folder / str(size))
    return folder


def load(folder):
    return Tokenizer.load(str(folder / "tokcore.json"))


@pytest.mark.parametrize("renumber", [False, True])
def test_a_pruned_tokenizer_is_a_folder_like_any_other(outputs, tmp_path, renumber):
    output, target = outputs / "400", tmp_path / "pruned"
    more = ["--renumber"] if renumber else []
    done = tokcore("prune", output, "--counts", output, "--vocab-size", "350", "-o", target, *more)
    assert done.returncode == 0, done.stderr
    own, large = load(target), load(output / "tokenizer")
    gone = pq.read_table(target / "gone.parquet").to_pylist()
    assert len(gone) == 50
    assert f"350 tokens, ids below {350 if renumber else 400:,}; 50 went" in done.stdout
    used = np.bincount(np.concatenate([*open_shards(output, "all")]), minlength=400)
    leaves = {*range(256, 398)} - {*large.spec.model.merges.ravel().tolist()}
    assert gone[0]["uses"] == used[gone[0]["id"]] == min(used[id] for id in leaves)
    assert {large.token_bytes(one["id"]) for one in gone} == {one["token"] for one in gone}
    assert (target / "ids.parquet").exists() == renumber
    text = b"the of and to in a"
    assert own.decode(own.encode(text)) == text
    named = json.loads((target / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(named) == 350  # special tokens, too
    again = tokcore("prune", output, "--counts", output, "--vocab-size", "350", "-o", target)
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_counts_of_another_tokenizer_are_taken_from_tables(outputs, tmp_path):
    """What the shards hold are ids of another one; the pre-tokens of the tables are encoded."""
    done = tokcore(
        *("prune", outputs / "400", "--counts", outputs / "330", "--vocab-size", "399", "-o", tmp_path / "new"),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    (gone,) = pq.read_table(tmp_path / "new" / "gone.parquet").to_pylist()
    tokenizer = load(outputs / "400" / "tokenizer")
    assert gone["uses"] == sum(count_in_tables(outputs / "330", tokenizer, gone["id"]).values())
    gpt2 = build_file(
        outputs, settings=SETTINGS.format(size=300, end="<e>") + '[pretokenize]\npattern = "gpt2"\n', name="gpt2.toml"
    )
    run(gpt2, tmp_path / "gpt2")
    wrong = tokcore(
        "prune", outputs / "400", "--counts", tmp_path / "gpt2", "--vocab-size", "399", "-o", tmp_path / "no"
    )
    assert wrong.returncode == 2
    assert "pre-tokens that the tokenizer does not cut so" in wrong.stderr


def count_in_tables(output, tokenizer, id):
    """Language -> how often an id occurs in the pre-tokens of its table."""
    found = {}
    for lang in ("en", "ru", "zh", "hi"):
        table = open_counts(str(output), lang)
        rows = zip(table["pretoken"].to_pylist(), table["count"].to_pylist(), strict=True)
        found[lang] = sum(count * tokenizer.encode(text).tolist().count(id) for text, count in rows)
    return found


def test_a_map_spells_new_tokens_with_old_ones(outputs, tmp_path):
    old, new = outputs / "330", outputs / "400"
    done = tokcore("vocab-map", old, new, "--counts", new, "-o", tmp_path / "map.parquet", "--json")
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "map.parquet").to_pylist()
    before, after = load(old / "tokenizer"), load(new / "tokenizer")
    assert [row["id"] for row in rows] == [*range(400)]
    for row in rows[:398]:
        assert row["token"] == after.token_bytes(row["id"])
        assert b"".join(before.token_bytes(id) for id in row["old_ids"]) == row["token"]
        assert row["is_same"] == (len(row["old_ids"]) == 1)
        assert row["role"] is None
    # 256 bytes and the first merges are the same; special tokens follow text, then role.
    assert [row["old_ids"] for row in rows[:328]] == [[id] for id in range(328)]
    assert [(row["token"], row["role"], row["old_ids"], row["is_same"]) for row in rows[398:]] == [
        (b"<|end|>", "document_end", [328], False),
        (b"<|more|>", "plain", [329], True),
    ]
    common = max(range(256, 398), key=lambda id: sum(dict(rows[id]["counts"]).values()))
    expected = {lang: count for lang, count in count_in_tables(new, after, common).items() if count}
    assert dict(rows[common]["counts"]) == expected
    # Mean initialisation, as a training script does it.
    embeddings = np.random.default_rng(0).normal(size=(330, 8))
    moved = np.stack([embeddings[row["old_ids"]].mean(axis=0) for row in rows])
    assert np.array_equal(moved[:328], embeddings[:328])


def merge_embeddings(part, old_embeddings, old_vocab, new_vocab):
    """What mergekit 0.1.4 makes of one model and the part `tokenizer` of its configuration (its PermutedEmbeddings)."""
    assert part.keys() == {"source", "tokens"}
    new = np.zeros((len(new_vocab), old_embeddings.shape[1]))
    for name, id in new_vocab.items():
        of = part["tokens"].get(name, {})
        assert of.keys() <= {"source", "force"}
        if name in old_vocab and not of.get("force", False):
            new[id] = old_embeddings[old_vocab[name]]
        elif of:
            assert of["source"].keys() == {"kind", "model", "token_id"}
            assert of["source"]["kind"] == "model_token"
            new[id] = old_embeddings[of["source"]["token_id"]]
    return new


def test_mergekit_takes_the_old_embedding_of_each_token_that_is_one_old_one(outputs, tmp_path):
    old, new = outputs / "400" / "tokenizer", outputs / "330" / "tokenizer"
    done = tokcore("vocab-map", old / "tokenizer.json", outputs / "330", "-o", tmp_path / "map.yml")
    assert done.returncode == 0, done.stderr
    part = yaml.safe_load((tmp_path / "map.yml").read_text())["tokenizer"]
    assert part["source"] == str(new)
    assert {of["source"]["model"] for of in part["tokens"].values()} == {str(old)}
    vocabs = [tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab() for folder in (old, new)]
    assert part["tokens"]["</s>"]["source"]["token_id"] == vocabs[0]["<|end|>"]
    embeddings = np.random.default_rng(3).normal(size=(400, 4))
    merged = merge_embeddings(part, embeddings, *vocabs)
    for one in map_vocabulary(load(old), load(new)):
        expected = embeddings[one.old_ids[0]] if len(one.old_ids) == 1 else np.zeros(4)
        assert merged[one.id].tolist() == expected.tolist(), one


def test_another_token_of_the_same_name_is_no_source():
    """Names of special tokens may be those that other vocabularies give to ordinary ones."""
    special = {"<|end|>": "document_end", "ab": "plain", "bc": "plain"}
    old = Tokenizer.from_merges([(b"a", b"c")], pattern="gpt2", special=special)
    new = Tokenizer.from_merges([(b"a", b"b"), (b"a", b"c")], pattern="gpt2", special={"bc": "document_end"})
    tokens = list_for_mergekit(map_vocabulary(old, new), old, new, "m")
    assert tokens == {"ab": {"source": {"kind": "zero"}, "force": True}}


def test_models_whose_tokens_are_no_text_have_no_map(outputs, tmp_path):
    wordpiece = build_file(outputs, settings='[learn]\nmodel = "wordpiece"\nvocab_size = 200\n', name="wordpiece.toml")
    run(wordpiece, tmp_path / "wordpiece")
    bpe, words = load(outputs / "400" / "tokenizer"), load(tmp_path / "wordpiece" / "tokenizer")
    for pair, name in (((bpe, words), "new"), ((words, bpe), "old")):
        with pytest.raises(
            ConfigError, match=f"the {name} tokenizer is .*: its tokens are not the bytes of their text"
        ):
            map_vocabulary(*pair)
    done = tokcore(
        *("prune", tmp_path / "wordpiece", "--counts", outputs / "400", "--vocab-size", "150", "-o", tmp_path / "no")
    )
    assert done.returncode == 2
    assert "only a byte-level BPE can be pruned" in done.stderr or "does not cut so" in done.stderr
