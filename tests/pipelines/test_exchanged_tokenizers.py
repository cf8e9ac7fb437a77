"""Tokenizers that leave a build and come back: special tokens by role, exports, imports, and the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tokenizers
from support.builds import SETTINGS, build_file, run, small_corpus, tokcore

import tokcore as api
from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.check.verify import verify
from tokcore_schemas.stage_table import SHARDS

SPECIAL = """
[special]
"<|end|>" = "document_end"
"<|begin|>" = "document_begin"
"<|pad|>" = "padding"
"<|x|>" = "plain"
"""
TEXT = "и в не на я the of and 的一是 2024\n\n के में"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    small_corpus(folder)
    (folder / "chat.jinja").write_text("{{ messages }}é")
    return folder


@pytest.fixture(scope="module")
def built(corpus) -> Path:
    settings = SETTINGS.replace("[learn]", '[learn]\nchat_template = "chat.jinja"') + SPECIAL
    run(build_file(corpus, settings=settings), corpus / "out")
    return corpus / "out"


def ids(built: Path) -> dict[str, int]:
    return api.Tokenizer.load(built).specials


def test_documents_begin_and_end_with_the_tokens_of_these_roles(built):
    begin, end = ids(built)["<|begin|>"], ids(built)["<|end|>"]
    for path in ("arrow", "megatron"):
        shards = api.open_shards(built / "shards" / path)
        assert len(shards) == 102
        for tokens in shards:
            assert (tokens[0], tokens[-1]) == (begin, end)
            assert not {begin, end} & set(tokens[1:-1].tolist())
    assert verify(str(built), decode=None).problems == ()
    assert find_manifest(str(built), SHARDS).config.prepend == ("<|begin|>",)


def test_prepend_is_what_the_build_file_says(corpus, tmp_path):
    settings = SETTINGS + SPECIAL + '[encode]\nprepend = ["<|x|>", "<|x|>"]\nappend = []\n'
    run(build_file(corpus, settings=settings, name="prepend.toml"), tmp_path / "out")
    x = ids(tmp_path / "out")["<|x|>"]
    for tokens in api.open_shards(tmp_path / "out"):
        assert tokens[:2].tolist() == [x, x]
        assert x not in tokens[2:]
    assert verify(str(tmp_path / "out"), decode=None).problems == ()
    wrong = build_file(corpus, settings=settings.replace('["<|x|>", ', '["<|y|>", '), name="wrong.toml")
    assert 'encode.prepend names "<|y|>", which [special] does not declare' in tokcore("check", wrong).stderr


FORMS = ["", "tokenizer", "tokenizer/tokcore.json", "tokenizer/tokenizer.json"]
# The files that hold no split pattern and no roles.
PARTS = {
    "ranks": "tokenizer/tokenizer.tiktoken",
    "vocabulary": "tokenizer/vocab.json",
    "merges": "tokenizer/merges.txt",
}


@pytest.mark.parametrize("form", [*FORMS, *PARTS, "hf", "gpt2"])
def test_an_import_of_an_own_export_is_the_same_tokenizer(corpus, built, form, tmp_path):
    place, more = built / form, ""
    if form == "hf":
        place = tmp_path / "deep" / "hf"
        assert tokcore("export", built, "--to", "huggingface", "-o", place).returncode == 0
    if form == "gpt2":
        place, more = tmp_path / "gpt2", f'pattern = "{pattern(built)}"\n{SPECIAL}'
        assert tokcore("export", built, "--to", "gpt2", "-o", place).returncode == 0
    if form in PARTS:
        place, more = built / PARTS[form], f'pattern = "{pattern(built)}"\n{SPECIAL}'
    settings = f'[plan]\nrange_bytes = 4000\n[tokenizer]\nfrom = "{place}"\n{more}'
    run(build_file(corpus, settings=settings, name="import.toml"), tmp_path / "out")
    first, again = (find_manifest(str(one), SHARDS) for one in (built, tmp_path / "out"))
    assert again.totals.fingerprint == first.totals.fingerprint
    assert again.totals.documents_digest == first.totals.documents_digest, "documents begin and end alike"
    assert verify(str(tmp_path / "out"), decode=None).problems == ()


def pattern(built: Path) -> str:
    return str(api.Tokenizer.load(built).spec.pattern["name"])


@pytest.mark.parametrize("form", [*FORMS, *PARTS])
def test_encode_text_takes_every_form(built, form):
    more = ["--pattern", pattern(built)] if form in PARTS else []
    place = built / PARTS.get(form, form)
    done = tokcore("tokenize", "-", "--ids", "--tokenizer", place, *more, input=TEXT)
    assert done.stdout.split() == [str(id) for id in api.Tokenizer.load(built).encode(TEXT)], done.stderr
    assert tokcore("decode-ids", "--tokenizer", place, *more, input=done.stdout).stdout == TEXT


def test_a_tokenizer_that_cannot_be_read_is_named(built, tmp_path):
    for place, message in (
        (built / "tokenizer" / "tokenizer.tiktoken", "--pattern is missing"),
        (
            built / "tokenizer" / "vocab.json",
            '--pattern is missing: .* most readers of these files split as "gpt2" does',
        ),
        (tmp_path / "none", "there is no .*none"),
        (tmp_path, "no tokcore.json in it nor in its folder tokenizer, and no tokenizer.json"),
    ):
        done = tokcore("tokenize", "-", "--ids", "--tokenizer", place, input="x")
        assert (done.returncode, done.stdout) == (2, "")
        assert re.search(message, done.stderr)


def test_export_makes_folders_and_replaces_nothing(built, tmp_path):
    names = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}
    folder = tmp_path / "a" / "b"
    assert tokcore("export", built, "--to", "huggingface", "-o", folder).returncode == 0
    assert {path.name for path in folder.iterdir()} == names
    for name in names:
        assert (folder / name).read_bytes() == (built / "tokenizer" / name).read_bytes()
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text("mine")
    done = tokcore("export", built, "--to", "huggingface", "-o", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "tokenizer_config.json is there already, with other content" in done.stderr
    assert "--force" in done.stderr
    assert not (folder / "tokenizer.json").exists(), "nothing is written before all is known to be free"
    assert (folder / "tokenizer_config.json").read_text() == "mine"
    assert tokcore("export", built, "--to", "huggingface", "-o", folder, "--force").returncode == 0
    assert json.loads((folder / "tokenizer_config.json").read_text())["pad_token"] == "<|pad|>"
    for target, name in (("huggingface", "c/x.json"), ("tiktoken", "d/x.tiktoken"), ("gpt2", "e/x.json")):
        assert tokcore("export", built, "--to", target, "-o", tmp_path / name).returncode == 0
        assert (tmp_path / name).is_file() == (target != "gpt2")
        file = tmp_path / name if target != "gpt2" else tmp_path / name / "merges.txt"
        file.write_text("mine")
        assert tokcore("export", built, "--to", target, "-o", tmp_path / name).returncode == 2
        assert file.read_text() == "mine"


def test_the_chat_template_is_part_of_the_build(corpus, built, tmp_path):
    config = json.loads((built / "tokenizer" / "tokenizer_config.json").read_text())
    assert config["chat_template"] == "{{ messages }}é"
    settings = (corpus / "build.toml").read_text()
    other = corpus / "other.toml"
    other.write_text(settings.replace('chat_template = "chat.jinja"\n', ""))
    assert "learn.chat_template was" in tokcore("check", other, "--output", built).stderr
    other.write_text(settings.replace("chat.jinja", "none.jinja"))
    assert re.search(
        r"other.toml:\d+: learn.chat_template = .*none.jinja: cannot be read", tokcore("check", other).stderr
    )


def test_an_imported_template_says_what_is_put_around_documents(corpus, built, tmp_path):
    """As transformers would: unless the build file says otherwise."""
    content = json.loads((built / "tokenizer" / "tokenizer.json").read_text())
    del content["decoder"]["tokcore"]
    x = ids(built)["<|x|>"]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|x|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|x|>": {"id": "<|x|>", "ids": [x], "tokens": ["<|x|>"]}},
    }
    (tmp_path / "t.json").write_text(json.dumps(content))
    settings = f'[tokenizer]\nfrom = "{tmp_path / "t.json"}"\n'
    run(build_file(corpus, settings=settings, name="template.toml"), tmp_path / "out")
    written = tmp_path / "out" / "tokenizer" / "tokenizer.json"
    config = find_manifest(str(tmp_path / "out"), SHARDS).config
    assert (config.prepend, config.append) == (("<|x|>",), ())
    assert all(tokens[0] == x for tokens in api.open_shards(tmp_path / "out"))
    assert verify(str(tmp_path / "out"), decode=None).problems == ()
    theirs, ours = (tokenizers.Tokenizer.from_file(str(path)) for path in (tmp_path / "t.json", written))
    assert ours.encode("a text").ids == theirs.encode("a text").ids
    assert ours.encode("a text").ids[0] == x
    del content["post_processor"]["pair"][1]
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"tokenizer\.from was .* with the post_processor .*, now .* with the"):
        run(build_file(corpus, settings=settings, name="template.toml"), tmp_path / "out")
    content["post_processor"]["special_tokens"]["<|x|>"]["ids"] = [5]
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="post_processor puts the id 5"):
        run(build_file(corpus, settings=settings, name="template.toml"), tmp_path / "other")


def test_a_name_of_the_hub_without_its_scheme_is_told_how_to_be_written(corpus):
    for name, is_hinted in (("org/name", True), ("none.json", False), ("org/name/tokenizer.json", False)):
        settings = f'[tokenizer]\nfrom = "{name}"\n'
        with pytest.raises(ConfigError, match=f"there is no .*{name}: expected a file") as refused:
            run(build_file(corpus, settings=settings, name="named.toml"), corpus / "named")
        assert ("is named hf://ORG/NAME" in str(refused.value)) == is_hinted
