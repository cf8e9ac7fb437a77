"""The build file: defaults as documented, every rule with its message, and identities that follow bytes alone."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builds import make_config

from tokcore.errors import ConfigError
from tokcore.files.jsonable import to_jsonable
from tokcore.models.wordpiece.learned_wordpiece import BERT_ROLES
from tokcore.text.pattern_presets import PRESETS
from tokcore.text.patterns import PATTERNS
from tokcore_schemas.build_tables import (
    CODE_TOKENS,
    SEVERAL,
    TABLES,
    BuildTable,
    CountTable,
    EncodeTable,
    LearnTable,
    MixTable,
    NormalizeTable,
    PlanTable,
    PretokenizeTable,
    ShardsTable,
    SpecialTable,
    TokenizerTable,
    list_parameters,
)
from tokcore_schemas.config import (
    BuildConfig,
    Source,
    find_format,
    load_config,
    make_pretokenizer,
    parse_config,
    spell_plain,
)
from tokcore_schemas.json_schema import make_json_schema, write_json_schema
from tokcore_schemas.setting import list_settings
from tokcore_schemas.stage_manifests import LearnedConfig, NaturalMix, UnimaxMix, WeightsMix

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "deploy" / "examples"

START = 'version = 1\n[build]\noutput = "out"\n'
SOURCE = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
MINIMAL = START + SOURCE
END = SpecialTable(text="<|endoftext|>", role="document_end")


def parse(text: str) -> BuildConfig:
    return parse_config(text, "/corpus/b.toml")


def refused(text: str) -> str:
    """The message with which the text is refused, without the file's name: "LINE: KEY ..."."""
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "b.toml")
    message = str(raised.value)
    assert message.startswith("b.toml:")
    return message.removeprefix("b.toml:").strip()


# ------------------------------------------------------------------------------------------------------------ defaults


def test_defaults():
    """Every default is written out here."""
    assert parse(MINIMAL) == BuildConfig(
        path="/corpus/b.toml",
        base="/corpus",
        build=BuildTable(name="", output="out", seed=0, max_rejected=Decimal("0.001")),
        sources=(
            Source(
                lang="en",
                lang_field=None,
                files=("en.jsonl",),
                format=None,
                text="text",
                id=None,
                invalid_utf8="reject",
                max_document_bytes=268_435_456,
                unit=None,
                separator=None,
            ),
        ),
        normalize=NormalizeTable(steps=()),
        pretokenize=PretokenizeTable(pattern="o200k", regex=None),
        plan=PlanTable(range_bytes=67_108_864),
        count=CountTable(max_pretoken_bytes=1024, memory_bytes=536_870_912, sample=Decimal(1)),
        mix=MixTable(
            strategy="temperature",
            alpha=Decimal("0.7"),
            density=Decimal("0.8"),
            density_cap=Decimal(5),
            preset=None,
            unit="bytes",
            max_epochs=None,
            budget=None,
            weights={},
        ),
        learn=LearnTable(
            model="bpe", vocab_size=None, allow_smaller=False, min_count=2, min_documents=0, max_token_bytes=0
        ),
        special=(END,),
        encode=EncodeTable(append=("<|endoftext|>",), special_text="ordinary"),
        shards=ShardsTable(
            formats=("arrow", "megatron"),
            target_tokens=10_000_000,
            by="plan",
            validation=Decimal(0),
            compression="zstd",
        ),
        tokenizer=None,
    )


def example(name: str) -> BuildConfig:
    return load_config(str(EXAMPLES / name))


def test_the_full_example_states_the_defaults():
    full = example("full.toml")
    minimal = example("minimal.toml")
    assert (
        dataclasses.replace(full, path=minimal.path, build=dataclasses.replace(full.build, output=minimal.build.output))
        == minimal
    )


def test_the_full_example_names_every_key():
    text = (EXAMPLES / "full.toml").read_text(encoding="utf-8")
    for name, (_, table) in TABLES.items():
        section = re.search(rf"^(# )?\[\[?{name}\]\]?.*?(?=^(# )?\[[a-z\[]+\]|\Z)", text, re.DOTALL | re.MULTILINE)
        assert section, name
        for key, setting in list_settings(table).items():
            spelled = rf"\[mix\.{key}\]" if key == "weights" else rf"\b{key} = "
            assert re.search(spelled, section[0] if key != "weights" else text), f"{name}.{key}"
            if isinstance(setting.default, str):
                assert re.search(rf'\b{key} = "{setting.default}"', section[0]) or name == "special"


def test_the_unimax_example():
    config = example("unimax.toml")
    assert config.mix == MixTable(strategy="unimax", max_epochs=Decimal(4))
    assert config.sources[0].lang_field == "language"
    assert [token.id for token in config.special] == [65600, 65601]
    assert config.encode.append == ("<|endoftext|>",)
    assert config.shards.validation == Decimal("0.001")


def test_the_import_example():
    config = example("import-tokenizer.toml")
    assert config.tokenizer == TokenizerTable(from_="tokenizer.json")
    assert config.encode.append == ("<|endoftext|>",)


def test_the_demo_is_a_build_file():
    assert len(load_config(str(ROOT / "deploy" / "demo" / "build.toml")).sources) == 15


# -------------------------------------------------------------------------------------------------------------- values


def test_special_tokens():
    config = parse(
        MINIMAL
        + '[special]\n"<e>" = "document_end"\n"<p>" = { role = "padding", id = 40000 }\n"<x>" = { id = 40001 }\n'
        '"<f>" = { role = "document_end" }\n"<o>" = {}'
    )
    assert config.special == (
        SpecialTable(text="<e>", role="document_end"),
        SpecialTable(text="<p>", role="padding", id=40000),
        SpecialTable(text="<x>", role="plain", id=40001),
        SpecialTable(text="<f>", role="document_end"),
        SpecialTable(text="<o>", role="plain"),
    )
    assert config.encode.append == ("<e>", "<f>"), "not set: the tokens of role document_end"


def test_append():
    special = MINIMAL + '[special]\n"<a>" = "plain"\n"<b>" = "plain"\n'
    assert "nothing would mark the end of a document" in refused(special)
    assert parse(special + '[encode]\nappend = ["<b>", "<a>", "<b>"]').encode.append == ("<b>", "<a>", "<b>")
    assert parse(special + "[encode]\nappend = []").encode.append == ()
    assert parse(MINIMAL + "[special]").special == ()
    assert parse(MINIMAL + "[special]").encode.append == ()


def test_home_and_environment_variables_in_paths(monkeypatch):
    """They are expanded in output, files and from alone. An unknown one is named, and no folder gets its name."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("DATA_1", "s3://bucket")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("NOT_SET", raising=False)

    def with_output(path: str) -> str:
        return f'version = 1\n[build]\noutput = "{path}"\n' + SOURCE

    for path, expected in (
        ("~/out", "/home/me/out"),
        ("~", "/home/me"),
        ("$HOME/out", "/home/me/out"),
        ("${DATA_1}/a-${DATA_1}$$1", "s3://bucket/a-s3://bucket$1"),
        ("a~/$5", "a~/$5"),
    ):
        assert parse(with_output(path)).build.output == expected
    for path, message in (
        ("$NOT_SET/out", 'build.output = "$NOT_SET/out": the environment variable NOT_SET is not set.'),
        ("${EMPTY}/out", "the environment variable EMPTY is not set."),
        ("${HOME", "expected a name in braces after $"),
        ("~nobody-of-that-name/out", "no home folder is known for ~nobody-of-that-name."),
    ):
        assert message in refused(with_output(path))
    config = parse(START + '[[source]]\nlang = "en"\nfiles = ["~/a", "$DATA_1/b"]\ntext = "$HOME"\n')
    assert (config.sources[0].files, config.sources[0].text) == (("/home/me/a", "s3://bucket/b"), "$HOME")
    assert parse(MINIMAL + '[tokenizer]\nfrom = "~/t.json"\n').tokenizer == TokenizerTable(from_="/home/me/t.json")


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("b.yaml", "# a build\nversion: 1\n", "YAML"),
        ("b.toml", "---\nversion: 1\n", "YAML"),
        ("b.toml", "build:\n  output: out\n", "YAML"),
        ("b.toml", '{"version": 1}', "JSON"),
    ],
)
def test_another_language_is_named_with_what_to_write(name, text, language):
    with pytest.raises(ConfigError, match=f"a build file is TOML, and this looks like {language}.*") as raised:
        parse_config(text, f"/corpus/{name}")
    told = str(raised.value).partition("keys like\n")[2]
    assert parse(told).build.output == "out"


def test_decimals_are_exact_and_may_be_integers():
    mix = parse(MINIMAL + "[mix]\nalpha = 0.1000000000000000000000000000010").mix
    assert mix.alpha == Decimal("0.1000000000000000000000000000010")
    assert parse(MINIMAL + "[mix]\nalpha = 1").mix.alpha == Decimal(1)
    assert type(parse(MINIMAL + "[count]\nsample = 1").count.sample) is Decimal
    assert parse(MINIMAL + '[mix]\nstrategy = "unimax"\nmax_epochs = 2.5').mix.max_epochs == Decimal("2.5")
    assert parse(MINIMAL + '[mix]\nstrategy = "unimax"\nmax_epochs = 2').mix.max_epochs == Decimal(2)
    assert spell_plain(parse(MINIMAL + "[shards]\nvalidation = -0.0e-999999").shards.validation) == "0"


@given(st.decimals(0, 1, allow_nan=False).filter(lambda number: len(format(number, "f")) < 28))
def test_plain_is_one_spelling_a_value(number):
    assert Decimal(spell_plain(number)) == number
    assert spell_plain(number + Decimal("0.00")) == spell_plain(number)


def test_files_may_be_one_or_several():
    assert parse(MINIMAL).sources[0].files == ("en.jsonl",)
    several = parse(START + '[[source]]\nlang_field = "l"\nfiles = ["a.jsonl", "s3://b/*.parquet"]').sources[0]
    assert several.files == ("a.jsonl", "s3://b/*.parquet")


def test_text_sources():
    for setting in ('unit = "line"', 'separator = "\\n\\n\\n"'):
        for files in ('"a.txt.zst"', '["a.txt", "b.jsonl"]', '"part-*"'):
            assert parse(START + f'[[source]]\nlang = "en"\nfiles = {files}\n{setting}')
        assert parse(START + f'[[source]]\nlang = "en"\nfiles = "a.jsonl"\nformat = "text"\n{setting}')


def test_a_default_may_be_spelled_out_where_it_has_no_effect():
    for strategy in ('"natural"', '"unimax"\nmax_epochs = 4', '"weights"\nweights = { en = 2 }'):
        assert parse(MINIMAL + f'[mix]\nstrategy = {strategy}\nalpha = 0.70\ndensity = 0.80\nunit = "bytes"')
    assert parse(START + '[[source]]\nlang = "en"\nfiles = "a.txt"\ntext = "text"')


def test_formats_have_one_order():
    assert parse(MINIMAL + '[shards]\nformats = ["megatron", "arrow"]').shards.formats == ("arrow", "megatron")


def test_patterns():
    for name in PATTERNS:
        assert make_pretokenizer(parse(MINIMAL + f'[pretokenize]\npattern = "{name}"')).spec == {"name": name}
    own = parse(MINIMAL + "[pretokenize]\nregex = '''\\p{L}+|\\P{L}'''")
    assert make_pretokenizer(own).spec == {"regex": r"\p{L}+|\P{L}"}


def test_where_relative_paths_start(tmp_path, monkeypatch):
    path = tmp_path / "b.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_config(str(path)).base == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert load_config("b.toml") == dataclasses.replace(load_config(str(path)), path="b.toml")
    assert parse_config(MINIMAL, "s3://bucket/builds/b.toml").base == "s3://bucket/builds"


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot read the build file: No such file"):
        load_config(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b'version = 1 # caf\xe9"')
    with pytest.raises(ConfigError, match=r"latin\.toml: a build file is UTF-8, and byte 17 is not"):
        load_config(str(tmp_path / "latin.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version 1", "1: not TOML: Expected '=' after a key in a key/value pair (column 9), in \"version 1\""),
        (MINIMAL + "[learn]\nvocab_size =", "8: not TOML: Invalid value"),
        (
            MINIMAL + '[special]\n"<|a|>" = "plain"\n"<|a|>" = "padding"',
            "9: not TOML: a key or table is there twice: Cannot overwrite a value, in ",
        ),
        (
            MINIMAL + '[special]\n"<|a|>" = "plain"\n"<|\\u0061|>" = "plain"',
            "9: not TOML: a key or table is there twice",
        ),
        (MINIMAL + "[build]", "7: not TOML: "),
        ("version = 1" + "0" * 5000, "a number has too many digits"),
        ("x = 1e99999999999999999999", "a number has too many digits"),
        ("x = " + "[" * 100_000, "tables are nested too deeply"),
    ],
)
def test_what_is_not_toml(text, message):
    assert message in refused(text)


SPECIAL = MINIMAL + "[special]\n"
NO_END = "[encode]\nappend = []\n"
UNIMAX = MINIMAL + '[mix]\nstrategy = "unimax"\n'
IMPORT = MINIMAL + '[tokenizer]\nfrom = "t.json"\n'
RANKS = MINIMAL + '[tokenizer]\nfrom = "t.tiktoken"\npattern = "cl100k"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # version
        ('[build]\noutput = "o"', "version is missing: write `version = 1` at the top"),
        (MINIMAL.replace("1", "2", 1), "1: version = 2: expected 1, the version that this release of tokcore reads."),
        (MINIMAL.replace("1", "true", 1), "1: version = true: expected 1"),
        (MINIMAL.replace("1", "1.0", 1), "1: version = 1.0: expected 1"),
        # required
        ("version = 1\n" + SOURCE, 'build.output is missing: add a line output = "..." (a folder, or a URL'),
        ("version = 1\n[build]\nseed = 1\n" + SOURCE, "2: build.output is missing"),
        (START, "source is missing: add a table [[source]]"),
        (START + "[[source]]\nlang = 'en'", '4: source[0].files is missing: add a line files = "..."'),
        (START + "[[source]]\nfiles = 'a'", '4: source[0] needs either lang = "..." or lang_field = "...": neither'),
        (MINIMAL + "lang_field = 'l'", "4: source[0] needs either lang"),
        (MINIMAL + "[tokenizer]", '7: tokenizer.from is missing: add a line from = "..."'),
        (UNIMAX, "7: mix.max_epochs is missing: unimax needs it, for example max_epochs = 4."),
        (MINIMAL + '[mix]\nstrategy = "weights"', "7: mix.weights is missing: add a table [mix.weights]"),
        # unknown names
        (MINIMAL + "[lern]", "7: lern is not a key of the build file. Did you mean learn?"),
        (MINIMAL + "[learn]\nvocabsize = 1", "8: learn.vocabsize is not a key of [learn]. Did you mean vocab_size?"),
        (MINIMAL + "[count]\nvocab_size = 1", "8: count.vocab_size is not a key of [count]. It is a key of [learn]."),
        ("vocab_size = 300\n" + MINIMAL, "1: vocab_size is not a key of the build file. It is a key of [learn]."),
        (MINIMAL + "[plan]\nx = 1", "8: plan.x is not a key of [plan]. Known are range_bytes."),
        (MINIMAL + "langs = 1", "7: source[0].langs is not a key of [source]. Did you mean lang?"),
        (
            MINIMAL + "[special]\n'<a>' = { rol = 'plain' }",
            '8: special."<a>".rol is not a key of [special]. Did you mean r',
        ),
        (MINIMAL + "[tokenizer]\nfrom_ = 'x'", "8: tokenizer.from_ is not a key of [tokenizer]. Did you mean from?"),
        (MINIMAL + "[special]\n'<a>' = { text = 'b' }", '8: special."<a>".text is not a key of [special].'),
        # types
        ("build = 3\nversion = 1\n" + SOURCE, "1: build = 3: expected a table."),
        (START + "[source]\nlang = 'en'", "4: source must be written [[source]], with two brackets"),
        ("source = [1]\n" + START, "1: source[0] = 1: expected a table."),
        (MINIMAL.replace('"out"', "7"), "3: build.output = 7: expected a string."),
        (MINIMAL + "text = ['a']", '7: source[0].text = ["a"]: expected a string.'),
        (START + "seed = 1.0\n" + SOURCE, "4: build.seed = 1.0: expected a whole number of at least 0."),
        (START + "seed = true\n" + SOURCE, "4: build.seed = true: expected a whole number"),
        (START + "max_rejected = true\n" + SOURCE, "4: build.max_rejected = true: expected a number from 0 to 1."),
        (START + "max_rejected = '0.5'\n" + SOURCE, '4: build.max_rejected = "0.5": expected a number from 0 to 1.'),
        (MINIMAL + "[mix]\nalpha = nan", "8: mix.alpha = NaN: expected a number from 0 to 1."),
        (MINIMAL + "[learn]\nallow_smaller = 1", "8: learn.allow_smaller = 1: expected true or false."),
        (MINIMAL + "[normalize]\nsteps = 'nfc'", '8: normalize.steps = "nfc": expected a list of strings.'),
        (MINIMAL.replace('"en.jsonl"', "2024-01-01"), '6: source[0].files = "2024-01-01": expected a string or a list'),
        (MINIMAL.replace('"en.jsonl"', '["a",\n2]'), "7: source[0].files[1] = 2: expected a string."),
        (MINIMAL + "[mix]\nstrategy = 'weights'\nweights = 1", "9: mix.weights = 1: expected a table of lines like en"),
        (MINIMAL + "special = 1", "7: source[0].special is not a key of [source]. Known are lang, "),
        ("special = 1\n" + MINIMAL, '1: special = 1: expected a table with lines like "<|pad|>" = "padding".'),
        (SPECIAL + '"<a>" = 5', '8: special."<a>" = 5: expected a role, or a table { role = "...", id = N }.'),
        # limits
        (START + "seed = -1\n" + SOURCE, "4: build.seed = -1: expected a whole number of at least 0."),
        (START + f"seed = {2**63}\n" + SOURCE, f"4: build.seed = {2**63}: expected a whole number"),
        (START + "max_rejected = 1.01\n" + SOURCE, "4: build.max_rejected = 1.01: expected a number from 0 to 1."),
        (
            MINIMAL + "max_document_bytes = 0",
            "7: source[0].max_document_bytes = 0: expected a whole number of at least 1.",
        ),
        (MINIMAL + "[plan]\nrange_bytes = 0", "8: plan.range_bytes = 0: expected a whole number of at least 1."),
        (
            MINIMAL + "[count]\nmemory_bytes = 5",
            "8: count.memory_bytes = 5: expected a whole number of at least 1048576.",
        ),
        (MINIMAL + "[count]\nsample = 0", "8: count.sample = 0: expected a number above 0 and of at most 1."),
        (MINIMAL + "[count]\nmax_pretoken_bytes = 15", "8: count.max_pretoken_bytes = 15: expected at least 16, or 0"),
        (
            MINIMAL + "[count]\nmax_pretoken_bytes = -1",
            "8: count.max_pretoken_bytes = -1: expected a whole number of at",
        ),
        (MINIMAL + "[mix]\ndensity = 9", "8: mix.density = 9: expected a number from 0 to 8."),
        (MINIMAL + "[mix]\ndensity_cap = 0.5", "8: mix.density_cap = 0.5: expected a number of at least 1."),
        (MINIMAL + "[mix]\nalpha = 1.5", "8: mix.alpha = 1.5: expected a number from 0 to 1."),
        (MINIMAL + "[mix]\nalpha = 1e-31", "8: mix.alpha = 1E-31: expected at most 30 digits after the point."),
        (MINIMAL + "[mix]\nalpha = 1e-999999999", "8: mix.alpha = 1E-999999999: expected at most 30 digits"),
        (UNIMAX + "max_epochs = 0", "9: mix.max_epochs = 0: expected a number above 0."),
        (UNIMAX + "max_epochs = 1e999999999", "9: mix.max_epochs = 1E+999999999: expected a number above 0."),
        (UNIMAX + "max_epochs = 0.5", "9: mix.max_epochs = 0.5: expected at least 1, as a budget of the whole corpus"),
        (UNIMAX + "max_epochs = 4\nbudget = 0", "10: mix.budget = 0: expected a whole number of at least 1."),
        (UNIMAX + "max_epochs = 4\nbudget = 1.5", "10: mix.budget = 1.5: expected a whole number"),
        (
            MINIMAL + "[learn]\nmax_token_bytes = 1",
            "8: learn.max_token_bytes = 1: expected at least 2, as every merge has",
        ),
        (MINIMAL + "[learn]\nmin_count = -1", "8: learn.min_count = -1: expected a whole number of at least 0."),
        (
            MINIMAL + f"[learn]\nvocab_size = {2**31}",
            f"8: learn.vocab_size = {2**31}: expected a whole number of at most {2**31 - 1}",
        ),
        (
            MINIMAL + "[learn]\nvocab_size = 256",
            "8: learn.vocab_size = 256: must be at least 257 (256 for bytes, 1 for special tokens). Raise vocab_size",
        ),
        (
            MINIMAL + "[shards]\ntarget_tokens = 0",
            "8: shards.target_tokens = 0: expected a whole number of at least 1.",
        ),
        (
            MINIMAL + "[shards]\nvalidation = 1",
            "8: shards.validation = 1: expected a number of at least 0 and below 1.",
        ),
        # empty strings and lists
        (MINIMAL.replace('"out"', '""'), '3: build.output = "": expected a string that is not empty (a folder'),
        (MINIMAL.replace('"en.jsonl"', '""'), '6: source[0].files = "": expected a string that is not empty'),
        (MINIMAL.replace('"en.jsonl"', '["a", ""]'), '6: source[0].files[1] = "": expected a string that is not empty'),
        (MINIMAL.replace('"en.jsonl"', "[]"), "6: source[0].files = []: expected at least 1 of them."),
        (
            MINIMAL + "format = 'text'\nseparator = ''",
            '8: source[0].separator = "": expected a string that is not empty',
        ),
        (MINIMAL + "[pretokenize]\nregex = ''", '8: pretokenize.regex = "": expected a string that is not empty'),
        (MINIMAL + "[shards]\nformats = []", "8: shards.formats = []: expected at least 1 of them."),
        (
            MINIMAL + "[shuffle]",
            "7: shuffle is empty, so it does nothing: add, for example, seed = 7, or remove the table.",
        ),
        (MINIMAL + "[pack]", "7: pack is empty, so it does nothing: add, for example, length = 4096,"),
        (SPECIAL + '"" = "plain"', '8: special."" is empty: a special token needs a text.'),
        # one of
        (
            MINIMAL + "format = 'json'",
            '7: source[0].format = "json": expected one of jsonl, parquet, arrow, text, csv',
        ),
        (MINIMAL + "invalid_utf8 = true", "7: source[0].invalid_utf8 = true: expected one of reject, replace, bytes."),
        (
            MINIMAL + "[normalize]\nsteps = ['nfc', 'lower']",
            '8: normalize.steps[1] = "lower": expected one of nfc, nfd, ',
        ),
        (MINIMAL + "[normalize]\nsteps = ['nfc', 'nfc']", '8: normalize.steps = ["nfc", "nfc"]: "nfc" is there twice;'),
        (
            MINIMAL + "[pretokenize]\npattern = 'cl100'",
            '8: pretokenize.pattern = "cl100": expected one of gpt2, cl100k, cl100k-2023, o200k, llama3, qwen2, '
            "nanochat, tekken, bert, metaspace, digits-from-right, camel-case, code, multilingual, or regex "
            "= '''...''' for one of your own. Did you mean cl100k?",
        ),
        (
            MINIMAL + "[mix]\nstrategy = 'uni'",
            '8: mix.strategy = "uni": expected one of temperature, unimax, natural, we',
        ),
        (MINIMAL + "[learn]\nmodel = 'unigrams'", '8: learn.model = "unigrams": expected one of bpe, byte, '),
        (
            SPECIAL + '"<a>" = "end"',
            '8: special."<a>".role = "end": expected one of document_end, document_begin, padding',
        ),
        (
            SPECIAL + '"<a>" = "EOS"',
            '8: special."<a>".role = "EOS": expected one of document_end, document_begin, padding, unknown, mask, '
            "separator, classifier, plain. "
            'Write "document_end".',
        ),
        (
            SPECIAL + '"<a>" = { role = "pad" }',
            '8: special."<a>".role = "pad": expected one of document_end, document_begin, padding, unknown, mask, '
            "separator, classifier, plain. "
            'Write "padding".',
        ),
        (
            SPECIAL + '"<|pad|>" = "padding"',
            "7: special has no token of role document_end, so nothing would mark the end of a document: add a line "
            '"<|endoftext|>" = "document_end", or write append = [] in [encode] if that is meant.',
        ),
        (
            MINIMAL + "[shards]\nformats = ['arow']",
            '8: shards.formats = "arow": expected one of array_record, arrow, datatrove, huggingface, litdata, llmc',
        ),
        (
            MINIMAL + "[shards]\nformats = ['arrow', 'arrow']",
            '8: shards.formats = ["arrow", "arrow"]: "arrow" is there tw',
        ),
        # sources
        (MINIMAL.replace('"en"', '"../en"'), '5: source[0].lang = "../en": expected a letter or digit, then'),
        (MINIMAL + SOURCE.replace("en", "é"), '8: source[1].lang = "é": expected a letter or digit, then'),
        (MINIMAL + "unit = 'line'", '7: source[0].unit is for text files: remove it, or set format = "text".'),
        (MINIMAL + "separator = 'x'", "7: source[0].separator is for text files: remove it, or set format"),
        (
            MINIMAL + "format = 'text'\nunit = 'line'\nseparator = 'x'",
            "9: source[0].separator and unit exclude each other",
        ),
        (
            MINIMAL + "[shards]\nformats = ['llmc']\ndtype = 'uint16'\n[learn]\nvocab_size = 65_537",
            '11: learn.vocab_size = 65537: shards.dtype = "uint16" holds ids below 65536.',
        ),
        (
            MINIMAL + "[shards]\nformats = ['megatron']\ndtype = 'uint32'",
            '9: shards.dtype = "uint32": is for datatrove, llmc, mds, olmo, and shards.formats names none of them.',
        ),
        (
            MINIMAL + "[shards]\nformats = ['mds']\ntarget_tokens = 600_000_000",
            "9: shards.target_tokens = 600000000: expected at most 536870912 for the format mds",
        ),
        (
            MINIMAL + "[shards]\nformats = ['llmc']\ntarget_tokens = 2_147_483_648",
            "9: shards.target_tokens = 2147483648: expected at most 2147483647 for the format llmc",
        ),
        (MINIMAL + "quotes = false", '7: source[0].quotes is for csv and tsv files: remove it, or set format = "csv".'),
        (MINIMAL + "delimiter = ';'", "7: source[0].delimiter is for csv and tsv files"),
        (MINIMAL + "format = 'csv'\ndelimiter = ';;'", '8: source[0].delimiter = ";;": expected one ASCII character'),
        (MINIMAL + "format = 'csv'\ndelimiter = '\"'", '8: source[0].delimiter = "\\"": expected one ASCII character'),
        (MINIMAL + "format = 'parquet'\nencoding = 'latin-1'", "8: source[0].encoding is for jsonl, csv, tsv and text"),
        (
            MINIMAL + "encoding = 'windows-1252'",
            '7: source[0].encoding = "windows-1252": expected one of utf-8, utf-16',
        ),
        (
            MINIMAL + "encoding = 'latin-1'\ninvalid_utf8 = 'bytes'",
            '8: source[0].invalid_utf8 = "bytes" keeps the bytes of UTF-8 files, and encoding = "latin-1" changes them',
        ),
        (
            MINIMAL + "format = 'warc'\ntext = 'body'",
            "8: source[0].text names a field, and the text of a WARC record",
        ),
        (MINIMAL + "format = 'text'\nid = 'id'", "8: source[0].id names a field, and text files have none: remove it."),
        (MINIMAL + "format = 'text'\ntext = 'body'", "8: source[0].text names a field, and text files have none"),
        (
            START + "[[source]]\nlang_field = 'l'\nfiles = ['a.jsonl', 'b.md']",
            "5: source[0].lang_field names a field, and",
        ),
        # patterns
        (
            MINIMAL + "[pretokenize]\npattern = 'gpt2'\nregex = 'x'",
            "9: pretokenize.regex and pattern exclude each other",
        ),
        (
            MINIMAL + "[pretokenize]\nregex = '('",
            "8: pretokenize.regex cannot be used: the split pattern '(' is not a valid",
        ),
        # mix
        (
            MINIMAL + "[mix]\npreset = 'fiar'",
            '8: mix.preset = "fiar": expected "fair".',
        ),
        (
            MINIMAL + "[mix]\npreset = 'fair'\nalpha = 0.5",
            '9: mix.alpha is set, and mix.preset = "fair" sets it, too: remove one.',
        ),
        (
            MINIMAL + "[mix]\nstrategy = 'natural'\npreset = 'fair'",
            '9: mix.preset is for strategy = "temperature", and the strategy is "natural"',
        ),
        (
            MINIMAL + "[mix]\nstrategy = 'natural'\nalpha = 0.5",
            '9: mix.alpha is for strategy = "temperature", and the str',
        ),
        (
            MINIMAL + "[mix]\nstrategy = 'natural'\nunit = 'documents'",
            '9: mix.unit is for strategy = "temperature", and',
        ),
        (
            MINIMAL + "[mix]\nmax_epochs = 4",
            '8: mix.max_epochs is for strategy = "unimax", and the strategy is "temperat',
        ),
        (MINIMAL + "[mix]\nbudget = 4", '8: mix.budget is for strategy = "unimax"'),
        (MINIMAL + "[mix.weights]\nen = 1.5", '7: mix.weights is for strategy = "weights"'),
        (
            MINIMAL + '[mix]\nstrategy = "weights"\n[mix.weights]\nen = 1\nem = 2',
            "11: mix.weights.em weighs a language that is not there: expected one of en.",
        ),
        (MINIMAL + "[mix]\nstrategy = 'weights'\nweights.en = 0", "9: mix.weights.en = 0: expected a number above 0."),
        # special tokens
        (
            SPECIAL + '"<a>" = { id = 255 }',
            '8: special."<a>".id = 255: ids below 32767 belong to ordinary tokens (learn.vocab_size = 32768, 1 of'
            " them special tokens). Pin 32767 or above, or lower vocab_size.",
        ),
        (SPECIAL + f'"<a>" = {{ id = {2**31} }}', f'8: special."<a>".id = {2**31}: expected a whole number from 0'),
        (
            SPECIAL + '"<a>" = { id = 40000 }\n"<b>" = { id = 40000 }',
            '9: special."<b>".id = 40000: already the id of "<a>"; pin another.',
        ),
        (
            SPECIAL + '"<a>" = { id = 32765 }\n"<b>" = "plain"',
            '8: special."<a>".id = 32765: ids below 32766 belong to ordinary tokens (learn.vocab_size = 32768, 2 of '
            "them special tokens). Pin 32766 or above, or lower vocab_size.",
        ),
        (
            SPECIAL + '"a" = "plain"',
            "8: special.a is the name of a byte's token in vocabulary files: choose a text like",
        ),
        (SPECIAL + '"Ġ" = "plain"', '8: special."Ġ" is the name of a byte\'s token'),
        (
            MINIMAL + '[encode]\nappend = ["<|endofext|>"]',
            '8: encode.append names "<|endofext|>", which [special] does not declare. Add it there, or remove it here. '
            "Did you mean <|endoftext|>?",
        ),
        # an imported tokenizer
        *(
            (
                IMPORT + f"[{table}]",
                f"9: {table} cannot stand beside [tokenizer], which brings its own: remove one of the",
            )
            for table in ("normalize", "pretokenize", "count", "mix", "learn")
        ),
        (IMPORT + "pattern = 'cl100'", "9: tokenizer.pattern cannot be used: there is no pattern named 'cl100'"),
        (IMPORT + "pattern = '(x'", "9: tokenizer.pattern cannot be used: the split pattern"),
        (RANKS + '[special]\n"" = "plain"', '11: special."" is empty: a special token needs a text.'),
        (RANKS + '[special]\n"a" = "plain"', "11: special.a is the name of a byte's token in vocabulary files"),
        (
            RANKS + '[special]\n"<a>" = { id = 300 }\n"<b>" = { id = 300 }',
            '12: special."<b>".id = 300: already the id of "<a>"; pin another.',
        ),
        (
            RANKS + '[special]\n"<a>" = "plain"\n[encode]\nappend = ["<b>"]',
            '13: encode.append names "<b>", which [special] does not declare.',
        ),
        (RANKS + "[learn]", "10: learn cannot stand beside [tokenizer], which brings its own"),
    ],
)
def test_what_is_refused(text, message):
    assert refused(text).startswith(message)


def test_a_long_value_is_cut_in_messages():
    message = refused(MINIMAL + f"[learn]\nmodel = '{'x' * 500}'")
    assert "xxx...: expected one of bpe, byte, " in message
    assert len(message) < 300


@pytest.mark.parametrize("smaller", ["true", "false"])
def test_pins_inside_the_merges_are_found_before_there_are_any(smaller):
    text = (
        f'[learn]\nvocab_size = 400\nallow_smaller = {smaller}\n[special]\n"<a>" = {{ id = %d }}\n[encode]\nappend = []'
    )
    assert parse(MINIMAL + text % 399).special[0].id == 399
    assert '11: special."<a>".id = 398: ids below 399 belong to ordinary tokens' in refused(MINIMAL + text % 398)


def test_every_smallest_vocabulary():
    special = "[special]\n" + "".join(f'"<{i}>" = "plain"\n' for i in range(3))
    assert parse(MINIMAL + NO_END + special + "[learn]\nvocab_size = 259").vocab_size == 259
    assert "at least 259 (256 for bytes, 3 for special tokens)" in refused(
        MINIMAL + special + "[learn]\nvocab_size = 258"
    )


def test_languages_that_differ_in_case_only():
    twins = SOURCE + SOURCE.replace('"en"', '"sw"') + SOURCE.replace('"en"', '"EN"')
    as_written = START.replace("[build]", '[build]\nlang_normalize = "none"')
    assert '12: source[2].lang = "EN": differs from "en" in case only' in refused(as_written + twins)
    assert [source.lang for source in parse(START + twins).sources] == ["en", "sw", "EN"]


def test_weights_of_languages_that_only_the_records_know():
    source = '[[source]]\nlang_field = "l"\nfiles = "a.jsonl"\n'
    mix = parse(START + source + "[mix]\nstrategy = 'weights'\nweights = { sw = 2.5 }").mix
    assert mix.weights == {"sw": Decimal("2.5")}


def test_an_imported_tokenizer_appends_what_it_is_told():
    assert parse(IMPORT).encode.append == ("<|endoftext|>",)
    assert parse(IMPORT + '[encode]\nappend = ["</s>", "<x>"]').encode.append == ("</s>", "<x>")
    assert parse(IMPORT + "pattern = 'o200k'").tokenizer == TokenizerTable(from_="t.json", pattern="o200k")


def test_a_rank_file_has_the_special_tokens_that_the_build_file_declares():
    assert parse(RANKS).special == (END,)
    assert parse(RANKS).encode.append == ("<|endoftext|>",)
    config = parse(RANKS + '[special]\n"<e>" = { role = "document_end", id = 100257 }\n"<p>" = "padding"')
    assert [token.id for token in config.special] == [100257, None]
    assert config.encode.append == ("<e>",), "not set: the tokens of role document_end"
    assert parse(RANKS + "[special]").encode.append == ()


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    for start in ("", MINIMAL):
        with contextlib.suppress(ConfigError):
            parse_config(start + text, "b.toml")


# ---------------------------------------------------------------------------------------------------------- identities


def identities(text: str) -> tuple[Any, Any, Any]:
    config = parse(text)
    return config.count_identity(), config.learn_identity(), config.encode_identity()


BASE = identities(MINIMAL)


@pytest.mark.parametrize(
    "text",
    [
        MINIMAL.replace('"out"', '"s3://elsewhere"\nname = "x"\nmax_rejected = 1'),
        START + "seed = 5\n" + SOURCE,  # nothing is sampled
        START + SOURCE.replace("en", "sw") + SOURCE,
        MINIMAL.replace('"en.jsonl"', '["b.jsonl", "a.jsonl"]'),
        MINIMAL + "[count]\nmemory_bytes = 1048576",
        MINIMAL + "[mix]\nalpha = 0.700",
        MINIMAL + '[shards]\nformats = ["megatron", "arrow"]\nvalidation = 0',
        MINIMAL + '[special]\n"<|endoftext|>" = "document_end"\n[encode]\nappend = ["<|endoftext|>"]',
    ],
)
def test_what_changes_no_byte_is_in_no_identity(text):
    assert identities(text) == BASE


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("[count]\nmax_pretoken_bytes = 64", (1, 0, 0)),
        ("[count]\nsample = 0.5", (1, 0, 0)),
        ("[count]\nmask = ['email']", (1, 0, 0)),
        ("[count]\nmask = []", (0, 0, 0)),
        ("[count]\nsplits = 'all'", (0, 0, 0)),
        ("[count]\nsplits = 'all'\n[shards]\nvalidation = 0.5", (1, 0, 1)),
        ("[normalize]\nsteps = ['nfc']", (1, 1, 0)),
        ("[pretokenize]\npattern = 'gpt2'", (1, 1, 0)),
        ("[pretokenize]\nregex = 'x'", (1, 1, 0)),
        ("[mix]\nalpha = 0.5", (0, 1, 0)),
        ("[mix]\nunit = 'documents'", (0, 1, 0)),
        ("[mix]\nstrategy = 'natural'", (0, 1, 0)),
        ("[learn]\nvocab_size = 300", (0, 1, 0)),
        ("[learn]\nallow_smaller = true", (0, 1, 0)),
        ("[learn]\nmin_count = 3", (0, 1, 0)),
        ("[learn]\nmin_documents = 2", (0, 1, 0)),
        ("[learn]\nmin_documents = 1", (0, 0, 0)),
        ("[learn]\nmax_token_bytes = 16", (0, 1, 0)),
        ("[learn]\nmax_token_bytes = 0", (0, 0, 0)),
        ("[special]\n'<|endoftext|>' = 'plain'\n[encode]\nappend = ['<|endoftext|>']", (0, 1, 0)),
        ("[special]\n'<|endoftext|>' = { id = 40000, role = 'document_end' }", (0, 1, 0)),
        ("[encode]\nappend = []", (0, 0, 1)),
        ("[encode]\nspecial_text = 'special'", (0, 0, 1)),
        ("[shards]\nformats = ['arrow']", (0, 0, 1)),
        ("[shards]\ntarget_tokens = 5", (0, 0, 1)),
        ("[shards]\nby = 'lang'", (0, 0, 1)),
        ("[shards]\nvalidation = 0.5", (1, 1, 1)),
        ("[shards]\ncompression = 'none'", (0, 0, 1)),
    ],
)
def test_what_changes_bytes_is_in_the_identity_of_its_stage(text, changed):
    assert tuple(int(a != b) for a, b in zip(identities(MINIMAL + text), BASE, strict=True)) == changed


def test_the_seed_counts_where_it_chooses():
    def seeded(seed: int, rest: str) -> tuple[Any, Any, Any]:
        return identities(START + f"seed = {seed}\n" + SOURCE + rest)

    for rest, changed in (("[count]\nsample = 0.5", (1, 0, 0)), ("[shards]\nvalidation = 0.5", (1, 0, 1))):
        assert tuple(int(a != b) for a, b in zip(seeded(1, rest), seeded(2, rest), strict=True)) == changed


def test_only_what_a_strategy_heeds_is_in_its_identity():
    assert parse(MINIMAL + "[mix]\nstrategy = 'natural'").learn_identity().mix == NaturalMix("natural")
    unimax = parse(UNIMAX + "max_epochs = 4.0\nunit = 'pretokens'").learn_identity().mix
    assert unimax == UnimaxMix("unimax", "pretokens", max_epochs="4", budget=None)
    source = SOURCE.replace("en", "sw") + "[mix]\nstrategy = 'weights'\n[mix.weights]\n"
    one, other = (parse(MINIMAL + source + w).learn_identity() for w in ("en = 1.50\nsw = 2", "sw = 2.0\nen = 1.5"))
    assert one == other
    assert one.mix == WeightsMix("weights", {"en": "1.5", "sw": "2"})
    spelled, silent = (parse(MINIMAL + source + w).learn_identity() for w in ("en = 1.0\nsw = 2", "sw = 2"))
    assert spelled == silent, "a weight of 1 is no weight"


def test_the_order_of_special_tokens_counts_where_it_gives_ids():
    a, b = '"<a>" = "plain"\n', '"<b>" = "plain"\n'
    x, y = '"<x>" = { id = 40000 }\n', '"<y>" = { id = 40001 }\n'

    def learned(*lines: str) -> Any:
        return parse(MINIMAL + NO_END + "[special]\n" + "".join(lines)).learn_identity()

    assert learned(a, b, x, y) == learned(y, a, x, b)
    assert learned(a, b) != learned(b, a)


def test_an_imported_tokenizer_is_not_where_it_lies():
    moved = IMPORT.replace("t.json", "s3://key:secret@bucket/t.json")
    assert identities(moved) == identities(IMPORT)
    assert "bucket" not in repr(identities(moved))


@given(st.permutations(["count", "mix", "learn", "shards", "source", "plan"]))
def test_the_order_of_tables_is_free(order):
    tables = {
        "count": "[count]\nsample = 0.5\n",
        "mix": "[mix]\nalpha = 0.7\n",
        "learn": "[learn]\nvocab_size = 300\n",
        "shards": "[shards]\nby = 'lang'\n",
        "source": SOURCE,
        "plan": "[plan]\nrange_bytes = 5\n",
    }
    assert parse(START + "".join(tables[name] for name in order)) == parse(START + "".join(tables.values()))


# ------------------------------------------------------------------------------------------------- formats and schema


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("a.jsonl", ("jsonl", "none")),
        ("a/b.v2.NDJSON.GZ", ("jsonl", "gz")),
        ("c4.json.gz", ("jsonl", "gz")),
        ("a.jsonl.zstd", ("jsonl", "zst")),
        ("*.txt.zst", ("text", "zst")),
        ("README.md", ("text", "none")),
        ("part-0.parquet", ("parquet", "none")),
        ("x.arrow", ("arrow", "none")),
        ("x.feather", ("arrow", "none")),
        ("dump.zst", (None, "zst")),
        ("https://host/a.jsonl.zst?sig=x.parquet", ("jsonl", "zst")),
        ("s3://bucket/part-?.jsonl", ("jsonl", "none")),
        ("notes", None),
        ("a.csv", ("csv", "none")),
        ("a.TSV.bz2", ("tsv", "bz2")),
        ("a.txt.xz", ("text", "xz")),
        ("CC-MAIN-1.warc.wet.gz", ("warc", "gz")),
        ("CC-MAIN-1.warc.gz", ("warc", "gz")),
        ("a.xls", None),
        ("dir.jsonl/part-0", None),
    ],
)
def test_format_of(uri, expected):
    assert find_format(uri) == expected


def test_the_shipped_schema_is_current():
    assert (ROOT / "schemas" / "build.schema.json").read_text(encoding="utf-8") == write_json_schema(), (
        "run `make schema`"
    )


def test_the_schema_names_every_key():
    schema = make_json_schema()["properties"]
    assert set(schema) == {"version", *TABLES}
    for name, (_, table) in TABLES.items():
        found = schema[name]
        if name in SEVERAL:
            found = found["items"]
        elif name in ("special", "metadata"):
            found = found["additionalProperties"]["anyOf"][1]
        more = set(list_parameters()) if name == "filter" else set()
        assert set(found["properties"]) == set(list_settings(table)) | more
    assert schema["build"]["required"] == ["output"]
    assert schema["source"]["items"]["required"] == ["files"]
    assert schema["source"]["items"]["oneOf"] == [{"required": ["lang"]}, {"required": ["lang_field"]}]
    assert schema["mix"]["properties"]["alpha"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "default": 0.7,
        "description": "for temperature: shares p become p**alpha; 1 is natural, 0 makes languages equal",
    }
    json.dumps(schema, allow_nan=False)


def test_a_preset_is_what_it_stands_for():
    fair = "alpha = 0.55\ndensity = 2\ndensity_cap = 3"
    spelled_out = parse(MINIMAL + f"[mix]\n{fair}").learn_identity()
    assert parse(MINIMAL + "[mix]\npreset = 'fair'").learn_identity() == spelled_out
    assert parse(MINIMAL).learn_identity() != spelled_out


def test_without_density_the_mix_is_that_of_earlier_releases():
    config = parse(MINIMAL + "[mix]\nalpha = 0.3\ndensity = 0").learn_identity()
    assert isinstance(config, LearnedConfig)
    assert to_jsonable(config.mix) == {"strategy": "temperature", "unit": "bytes", "alpha": "0.3"}


NUMBERED = [f"<|reserved_special_token_{i}|>" for i in range(300)]


@pytest.mark.parametrize(
    ("settings", "size", "special"),
    [
        ("[special]\nreserved = 2", 300, ["<|endoftext|>", *NUMBERED[:2]]),
        ("[special]\nreserved = 0", 300, ["<|endoftext|>"]),
        ("[special]\ncode = false", 300, ["<|endoftext|>"]),
        ("[special]\ncode = true\nreserved = 1", 300, ["<|endoftext|>", *CODE_TOKENS, NUMBERED[0]]),
        (
            '[special]\ncode = true\n"<|x|>" = "document_end"\n"<|fim_pad|>" = "padding"',
            *(300, ["<|x|>", "<|fim_pad|>", *CODE_TOKENS[:-1]]),
        ),
        ('[special]\ncode = "document_end"', 300, ["code"]),
        (
            f'[special]\nreserved = 2\n"<|end|>" = "document_end"\n"{NUMBERED[1]}" = "plain"',
            *(300, ["<|end|>", NUMBERED[1], NUMBERED[0], NUMBERED[2]]),
        ),
        ("pad_to_multiple_of = 128", 384, ["<|endoftext|>", *NUMBERED[:84]]),
        ("pad_to_multiple_of = 100", 300, ["<|endoftext|>"]),
        ("pad_to_multiple_of = 64\n[special]\nreserved = 5", 320, ["<|endoftext|>", *NUMBERED[:25]]),
        ('model = "byte"\npad_to_multiple_of = 128', 384, ["<|endoftext|>", *NUMBERED[:127]]),
        ('model = "wordpiece"\n[special]\nreserved = 1', 300, [*BERT_ROLES, NUMBERED[0]]),
        ('[special]\nreserved = "document_end"', 300, ["reserved"]),
    ],
)
def test_special_tokens_without_use(settings, size, special):
    config = make_config(f"[learn]\nvocab_size = {257 if 'byte' in settings else 300}\n{settings}")
    assert config.vocab_size == size
    assert [token.text for token in config.special] == special
    assert {token.role for token in config.special if token.text in NUMBERED} <= {"plain"}
    assert len(config.encode.append) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[special]\nreserved = -1", "special.reserved = -1: expected a number of tokens, 0 to 100000"),
        ("[special]\nreserved = true", "special.reserved = true: expected a role"),
        ("[learn]\npad_to_multiple_of = 0", "pad_to_multiple_of = 0"),
        ("[learn]\nallow_smaller = true\npad_to_multiple_of = 8", "and allow_smaller exclude each other"),
        ("[learn]\nvocab_size = [300, 320]\npad_to_multiple_of = 16", "each must be a multiple, and 300 is none"),
        ('[learn]\nmodel = "character"\npad_to_multiple_of = 16', "learn.model is character: remove it"),
        ('[tokenizer]\nfrom = "x.json"\n[special]\nreserved = 2', "special.reserved cannot stand beside"),
    ],
)
def test_special_tokens_without_use_that_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(settings)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_it_is_short_for(name):
    config = make_config(f'[pretokenize]\npattern = "{name}"')
    ((kind, text),) = make_pretokenizer(config).spec.items()
    written = make_config(f"[pretokenize]\n{kind} = {json.dumps(text)}")
    assert make_pretokenizer(written).spec == {kind: text}
    assert config.learn_identity() == written.learn_identity()


def test_a_preset_of_steps_is_for_bpe():
    with pytest.raises(ConfigError, match=r'pretokenize.pattern = "digits-from-right": is for bpe, and learn.model is'):
        make_config('[pretokenize]\npattern = "digits-from-right"\n[learn]\nmodel = "unigram"')


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('model = "unigram"', "learn.end_of_word is for bpe, and learn.model is unigram: remove the setting"),
        ('extend = "x.json"', "learn.end_of_word and extend exclude each other"),
        ("[encode]\ndropout = 0.1", "learn.end_of_word and encode.dropout exclude each other"),
        (
            "vocab_size = [600, 700]\n[encode]\nvocab_size = [600, 700]",
            "is a list, and learn.end_of_word excludes that",
        ),
        ("vocab_size = 512", r"must be at least 513 \(512 for bytes"),
    ],
)
def test_where_ends_of_words_cannot_be(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(f'[learn]\nend_of_word = "</w>"\n{settings}')


def test_a_build_without_ends_of_words_is_what_it_was():
    assert "end_of_word" not in to_jsonable(make_config("").learn_identity())
    assert "end_of_word" not in repr(make_config("").learn)
