"""Levels of [mix] and [mixture] in a build file: what is refused with which words, and what stays as it was."""

from __future__ import annotations

import re

import pytest

from tokcore.errors import ConfigError
from tokcore_schemas.config import BuildConfig, parse_config

START = 'version = 1\n[build]\noutput = "out"\n'
SOURCE = '[[source]]\nlang = "en"\nfiles = "en.jsonl"\n'
MINIMAL = START + SOURCE


def parse(text: str) -> BuildConfig:
    return parse_config(text, "/corpus/b.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MINIMAL + '[mix]\nover = ["lang", "sorce"]',
            '8: mix.over = ["lang", "sorce"]: sorce is none of languages, sources, lang, source, group, family, '
            "script. "
            "Did you mean source?",
        ),
        (MINIMAL + '[mix]\nover = ["lang", "lang"]', '8: mix.over = ["lang", "lang"]: "lang" is there twice;'),
        (MINIMAL + '[mix]\nover = ["lang", "languages"]', "lang is there twice; remove one of them."),
        (MINIMAL + '[mix]\nover = ["lang", "group"]', "group holds languages: put it before lang."),
        (
            MINIMAL + '[mix]\nover = ["lang", "source"]',
            '4: source[0].name is missing, and mix.over = ["lang", "source"]',
        ),
        (
            MINIMAL + '[mix]\nover = "topic"',
            "topic is none of languages, sources, lang, source, group, family, script.",
        ),
        (
            MINIMAL + '[mix]\nover = ["group", "lang"]',
            "mix.groups is missing: add a table [mix.groups] with lines like",
        ),
        (MINIMAL + '[mix.groups]\na = ["en"]', "7: mix.groups are for the level group, which mix.over lacks:"),
        (
            MINIMAL + '[mix]\nover = ["group", "lang"]\n[mix.groups]\na = ["em"]',
            "10: mix.groups.a has em, a language that is not there: expected some of en.",
        ),
        (
            MINIMAL + '[mix]\nover = ["group", "lang"]\n[mix.groups]\na = ["en"]\nb = ["EN"]',
            "11: mix.groups.b has en, which is in a, too: remove one of the two.",
        ),
        (MINIMAL + '[mix]\nover = ["group", "lang"]\n[mix.groups]\na = "en"', '= "en": expected a list of strings'),
        (
            MINIMAL + '[mix]\nover = ["group", "lang"]\n[mix.groups]\nother = ["en"]',
            "mix.groups.other is the name of the group of all other languages: choose another.",
        ),
        (
            MINIMAL + '[mix]\nover = ["family", "lang"]\nlevels.family.shares = { germanik = 0.2 }',
            "mix.levels.family.shares.germanik weighs a family that is not there",
        ),
        (
            MINIMAL + '[mix]\nover = ["script", "lang"]\nlevels.script = { shares = { Latn = 0.7, Cyrl = 0.4 } }',
            "mix.levels.script.shares add up to 1.1: expected at most 1.",
        ),
        (
            MINIMAL + '[mix]\nover = ["script", "lang"]\nlevels.scripts.alpha = 1',
            "mix.levels.scripts is none of script, lang, which mix.over names: add it there. Did you mean script?",
        ),
        (
            MINIMAL + '[mix]\nover = ["script", "lang"]\nlevels.script = { alpha = 1, weights = { Latn = 2 } }',
            "mix.levels.script.weights and alpha exclude each other: remove one of them.",
        ),
        (MINIMAL + '[mix]\nover = ["script", "lang"]\nlevels.script = {}', "mix.levels.script is empty: add alpha"),
        (MINIMAL + '[mix]\nover = ["script", "lang"]\nlevels = 3', "mix.levels = 3: expected a table of tables."),
        (
            MINIMAL + '[mix]\nover = ["script", "lang"]\nalpha = 0.5\nlevels.lang.alpha = 1',
            "mix.levels.lang.alpha and mix.alpha both say how lang is mixed: remove one of them.",
        ),
        (
            START + SOURCE + 'name = "web"\n[mix]\nover = "sources"\npreset = "fair"',
            "mix.preset is for languages, and mix.over lacks lang: remove preset.",
        ),
        (
            START + SOURCE + 'name = "web"\n[mix]\nover = "sources"\nstrategy = "weights"\nweights.wep = 2',
            "mix.weights.wep weighs a source that is not there: expected one of web. Did you mean web?",
        ),
        (
            START + SOURCE + '[shuffle]\nseed = 1\n[mixture]\nstrategy = "natural"\nover = ["lang", "topic"]',
            'mixture.over = ["lang", "topic"]: topic is none of languages, sources, lang, source, group, family,',
        ),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(text)


def test_tables_that_name_one_level_are_what_they_were():
    """Levels came later: hashes of settings and identities of builds that do without them stay."""
    shuffled = MINIMAL + "[shuffle]\nseed = 1\n[mixture]\nstrategy = 'natural'\n"
    for rest in ("over = 'languages'", "over = 'lang'", "over = ['lang']", "over = ['languages']"):
        for text, key in ((MINIMAL + "[mix]\n", "mix"), (shuffled, "mixture")):
            mine, theirs = parse(text + rest), parse(text)
            assert mine.hash_settings() == theirs.hash_settings(), (key, rest)
            assert mine.stage_configs() == theirs.stage_configs()
    assert repr(parse(MINIMAL).mix) == (
        "MixTable(strategy='temperature', alpha=Decimal('0.7'), density=Decimal('0.8'), density_cap=Decimal('5'), "
        "preset=None, unit='bytes', max_epochs=None, budget=None, weights={})"
    )
    assert repr(parse(MINIMAL).mixture) == (
        "MixtureTable(strategy=None, over='languages', alpha=Decimal('0.7'), weights={}, tokens=None, "
        "max_epochs=None, formats=())"
    )
    by = (
        MINIMAL
        + "[metadata]\nfamily = 'string'\n[shards]\npartition_by = ['lang', 'family']\n"
        + ("[shuffle]\nseed = 1\n[mixture]\nstrategy = 'natural'\nover = ")
    )
    for over in ("lang", "family", "lang/family"):  # keys of partitions, as ever
        config = parse(by + f"'{over}'").mixture_identity()
        assert (config.over, config.levels, config.partition_keys) == (over, None, tuple(over.split("/")))
    with pytest.raises(ConfigError, match="family is a level and a key of partitions: rename the field"):
        parse(by + "['lang', 'family']")
