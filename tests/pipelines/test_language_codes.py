"""Language codes get the case of BCP 47, one odd record ends no build, and a sample tells what the whole would."""

from __future__ import annotations

import json

import pytest
from support.builds import build_file, jsonl, run, texts, tokcore, write
from support.earlier import unpack_earlier
from support.removals import compact_here
from support.updates import update_here
from support.watchers import said, watching

import tokcore as package
from tokcore.errors import ConfigError, LearnError, StageError
from tokcore_pipelines.begin.check_estimates import check_estimates
from tokcore_pipelines.begin.estimate import estimate
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.build.settle_languages import settle_languages
from tokcore_pipelines.build.source_checks import FOR_CHECK, check_samples, sample_plan
from tokcore_pipelines.build.whole_checks import check_whole
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.reading.input_range import make_read_settings
from tokcore_schemas.config import load_config, parse_config
from tokcore_schemas.document import find_twins, normalize_lang
from tokcore_schemas.stage_table import PLAN, TOKENIZER, WHOLE

SMALL = "[learn]\nvocab_size = 280\n"
FIELD = '[[source]]\nlang_field = "lang"\nfiles = "in/*.jsonl"\nid = "id"\n'


def _write(folder, name, langs, text="", start=0):
    """A file of one document for each language code."""
    documents = [
        {"id": f"{name}-{i + start}", "lang": lang, "text": text if text is None or text else words}
        for i, (lang, words) in enumerate(zip(langs, texts("en", len(langs)), strict=True))
    ]
    return write(folder / "in" / f"{name}.jsonl", jsonl(documents))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("EN", "en"),
        ("zh-hant", "zh-Hant"),
        ("ZH_HANT_tw", "zh_Hant_TW"),
        ("eng_latn", "eng_Latn"),
        ("es-419", "es-419"),
        ("sl-ROZAJ-1994", "sl-rozaj-1994"),
        ("en-u-CA-gregory", "en-u-ca-gregory"),
        ("en-a-BBBB-x-CCCC", "en-a-bbbb-x-cccc"),
        ("Code-Go", "code-go"),  # no language has four letters
        ("code-python", "code-python"),
        ("X-Klingon", "x-klingon"),
        ("C++", "c++"),
        ("EN2", "en2"),
    ],
)
def test_codes_get_the_case_of_bcp_47(code, expected):
    assert normalize_lang(code) == expected
    assert {normalize_lang(one) for one in (code, code.upper(), code.lower(), code.title(), expected)} == {expected}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A build of records in en, EN and pt-br, one of them without text in a language of its own."""
    folder = tmp_path_factory.mktemp("codes")
    _write(folder, "a", ["en"] * 9 + ["EN", "PT-br", "pt-BR"])
    write(folder / "in" / "b.jsonl", jsonl([{"id": "b", "lang": "QQ", "text": ""}]))
    weights = '[mix]\nstrategy = "weights"\n[mix.weights]\nEN = 2\nqq = 3\n'
    run(build_file(folder, FIELD, SMALL + weights), folder / "out")
    return folder


def test_records_are_counted_under_one_code_and_the_ledger_says_so(corpus):
    made = find_manifest(str(corpus / "out"), WHOLE)
    assert {lang: one.documents for lang, one in made.languages.items()} == {"en": 10, "pt-BR": 2, "qq": 1}
    assert made.totals.records.respelled == {"en": 1, "pt-BR": 1, "qq": 1}
    files = [json.loads(line) for line in (corpus / "out/rejected/files.jsonl").read_text().splitlines()]
    assert [one["respelled"] for one in files] == [{"en": 1, "pt-BR": 1}, {"qq": 1}]
    shards = package.open_shards(corpus / "out", split="all")
    assert {shards.document(i).lang for i in range(len(shards))} == {"en", "pt-BR", "qq"}
    assert verify(str(corpus / "out"), decode=None, base=str(corpus)).problems == ()


def test_a_language_without_text_weighs_nothing(corpus):
    learned = find_manifest(str(corpus / "out"), TOKENIZER)
    weights = {lang: one.weight for lang, one in learned.languages.items()}
    assert sorted(weights) == ["en", "pt-BR"]
    assert weights["en"] == 2 * weights["pt-BR"]


def test_the_rule_is_content_only_where_it_changes_a_code(tmp_path):
    """Else outputs of earlier releases, whose manifests lack it, would have other roots."""
    _write(tmp_path, "a", ["en", "de"] * 4)
    path = build_file(tmp_path, FIELD, SMALL)
    as_written = build_file(tmp_path, FIELD, SMALL, name="none.toml", build='lang_normalize = "none"')
    one, other = run(path, tmp_path / "one"), run(as_written, tmp_path / "other")
    assert (one.root, one.totals.records.respelled) == (other.root, None)
    rules = [find_manifest(str(tmp_path / name), PLAN).config.settings[0] for name in ("one", "other")]
    assert [rule.lang_normalize for rule in rules] == ["bcp47", ""]
    assert one.identity != other.identity


def test_an_update_spells_codes_as_the_build_did(corpus, tmp_path):
    _write(tmp_path, "a", ["en"] * 9)
    path = build_file(tmp_path, FIELD, SMALL)
    run(path, tmp_path / "out")
    _write(tmp_path, "c", ["EN", "Fr"])
    assert update_here(path, tmp_path / "out").totals.documents == 11
    assert compact_here(tmp_path)
    shards = package.open_shards(tmp_path / "out", split="all")
    assert {shards.document(i).lang for i in range(len(shards))} == {"en", "fr"}


def test_no_commit_has_what_a_fresh_build_refuses(tmp_path):
    """An output that spells codes as they are is not given a twin, by an update or by a watcher."""
    _write(tmp_path, "a", ["en"] * 9)
    path = build_file(tmp_path, FIELD, SMALL, build='lang_normalize = "none"')
    run(path, tmp_path / "out")
    _write(tmp_path, "b", ["EN"])
    with pytest.raises(StageError, match="'EN' and 'en', which differ in case only"):
        update_here(path, tmp_path / "out")
    with watching(tmp_path) as service:
        service.go_round()
    assert "differ in case only" in said(service)
    assert read_log(str(tmp_path / "out")).newest == 0
    with pytest.raises(ConfigError, match="differ in case only"):
        run(path, tmp_path / "fresh")


def test_an_earlier_output_keeps_its_spelling_and_warns(tmp_path):
    earlier = unpack_earlier(tmp_path, "plain", is_readable=True)
    done = tokcore("update", earlier / "build.toml")
    assert "a new build would spell otherwise EN (en), pt-br (pt-BR). build.lang_normalize decides" in done.stderr
    done = tokcore("build", earlier / "build.toml")
    assert (done.returncode, "EN (en), pt-br (pt-BR)" in done.stderr) == (0, True)


def test_a_rule_that_is_set_and_differs_is_another_build(tmp_path):
    earlier = unpack_earlier(tmp_path, "plain", is_readable=True)
    path = earlier / "build.toml"
    path.write_text(path.read_text().replace("[build]", '[build]\nlang_normalize = "bcp47"'))
    with pytest.raises(ConfigError, match=r'build.lang_normalize was not set, now "bcp47" \(of in/mixed/c.jsonl'):
        run(path, earlier / "out")


def test_weights_of_one_language_twice_are_refused(tmp_path):
    weights = '[mix]\nstrategy = "weights"\n[mix.weights]\nEN = 2\nen = 3\n'
    with pytest.raises(ConfigError, match=r"mix\.weights\.en and EN are the same language"):
        load_config(str(build_file(tmp_path, FIELD, SMALL + weights)))


@pytest.mark.parametrize("files", [1, 2], ids=["within a work item", "over all"])
def test_a_build_with_very_many_languages_ends_early(tmp_path, files):
    """A sample of the beginnings does not show them. The limit is in no identity."""
    for number in range(files):
        codes = [f"x-{number}-{i}" for i in range(6 // files)]
        _write(tmp_path, f"a{number}", ["en"] * 400 + codes)
    path = build_file(tmp_path, FIELD, f"{SMALL}[plan]\nrange_bytes = 200_000\n", build="max_languages = 5")
    with pytest.raises(
        StageError, match=r"build.max_languages = 5: the documents have [67] languages or more, such as"
    ):
        run(path, tmp_path / "out")
    assert not (tmp_path / "out" / "counts").exists()
    path = build_file(tmp_path, FIELD, f"{SMALL}[plan]\nrange_bytes = 200_000\n", build="max_languages = 7")
    assert len(run(path, tmp_path / "out").languages) == 7


# --------------------------------------------------------------------------------------------------------------- check


def _find(folder, settings="", build="", sources=FIELD):
    """(whether it stops a build, what) of all findings of `tokcore check`."""
    config = load_config(str(build_file(folder, sources, SMALL + settings, build=build)))
    samples = sample_plan(config, plan_build(config), FOR_CHECK)
    return [(one.stops, one.text) for one in [*check_samples(config, samples), *check_whole(config, samples)]]


def test_a_sample_tells_of_languages_what_the_whole_would(tmp_path):
    _write(tmp_path, "a", ["en", "en", "EN"])
    write(tmp_path / "in" / "b.jsonl", jsonl([{"id": "b", "lang": "qq", "text": ""}]))
    assert _find(tmp_path) == [
        (False, "records spell language codes in other case, and are read as en"),
        (False, "qq: the sampled texts are empty, and nothing is learned from a language without text"),
    ]
    (twins,) = [text for stops, text in _find(tmp_path, build='lang_normalize = "none"') if stops]
    assert twins.startswith("the languages 'EN' and 'en' differ in case only")
    (many,) = [text for stops, text in _find(tmp_path, build="max_languages = 1") if stops]
    assert many.startswith("at most 1, and the sample alone has 2 languages: en, qq")


def _lack(folder, settings, learn=SMALL):
    """(whether it stops a build, what) of all that the estimates of `tokcore check` say is lacking."""
    config = load_config(str(build_file(folder, FIELD, learn + settings)))
    told = estimate(config, sample_plan(config, plan_build(config), FOR_CHECK), 1)
    return [(one.stops, one.where.rpartition(" ")[2], one.text) for one in check_estimates(config, told)]


def test_a_sample_of_all_tells_what_the_corpus_does_not_give(tmp_path):
    _write(tmp_path, "a", ["en", "de"], text="abab abab")
    unimax = '[mix]\nstrategy = "unimax"\nmax_epochs = 4\nunit = "{}"\nbudget = {}\n'
    assert _lack(tmp_path, unimax.format("documents", 8), "[learn]\nvocab_size = 259\n") == []
    refused = (
        True,
        "mix.budget",
        "9 documents cannot be filled: all languages 4 times over are 8. Lower it, or raise",
    )
    (found,) = _lack(tmp_path, unimax.format("documents", 9), "[learn]\nvocab_size = 259\n")
    assert found == (*refused[:2], f"{refused[2]} mix.max_epochs")
    with pytest.raises(LearnError, match=r"mix.budget = 9 cannot be filled: all languages 4 times over are 8"):
        run(build_file(tmp_path, FIELD, SMALL + unimax.format("documents", 9)), tmp_path / "out")
    natural = '[mix]\nstrategy = "natural"\n'
    assert _lack(tmp_path, natural) == [
        (
            True,
            "learn.vocab_size",
            "280 tokens are more than the corpus gives, 260. "
            "Lower it, accept fewer (allow_smaller = true), or add text",
        )
    ]
    with pytest.raises(LearnError, match="the counts give only 260 tokens"):
        run(build_file(tmp_path, FIELD, SMALL + natural), tmp_path / "out")
    assert _lack(tmp_path, f"allow_smaller = true\n{natural}") == []
    # Weights of languages could make pairs frequent enough, up to a bound.
    assert [(stops, "about 260" in text) for stops, _, text in _lack(tmp_path, "", "[learn]\nvocab_size = 270\n")] == [
        (False, True)
    ]
    assert [stops for stops, _, _ in _lack(tmp_path, "", "[learn]\nvocab_size = 999\n")] == [True]
    mixture = '[shuffle]\nseed = 1\n[mixture]\nstrategy = "unimax"\nmax_epochs = 2\ntokens = {}\n'
    small = "[learn]\nvocab_size = 259\n"
    assert _lack(tmp_path, mixture.format(40), small) == []
    assert _lack(tmp_path, mixture.format(41), small)[0][:2] == (True, "mixture.tokens")


@pytest.mark.parametrize("table", ["mix", "mixture"])
def test_a_sample_of_all_tells_that_a_weight_has_no_language(tmp_path, table):
    _write(tmp_path, "a", ["en", "de"])
    more = "[shuffle]\nseed = 1\n" if table == "mixture" else ""
    settings = f'{more}[{table}]\nstrategy = "weights"\n[{table}.weights]\nde = 2\nsw = 3\n'
    assert _find(tmp_path, settings) == [(True, "weighs sw, and the corpus has de, en")]


def test_a_sample_of_all_tells_that_too_much_is_rejected_or_nothing_is_there(tmp_path):
    _write(tmp_path, "a", ["en"] * 7 + ["no code"])
    many = "at most 0.001, and 1 of 8 records would be rejected, 12.50 %: raise it, or correct the data"
    assert (True, many) in _find(tmp_path)
    write(tmp_path / "in" / "a.jsonl", b"")
    said = "no record is a document, so {}: check its files, or remove the source"
    assert _find(tmp_path) == [(True, said.format("no record says its language"))]
    fixed = FIELD.replace('lang_field = "lang"', 'lang = "sw"')
    assert _find(tmp_path, sources=fixed) == [(True, said.format("the language 'sw' has none"))]


def test_twins_are_found_whatever_their_order():
    assert find_twins({"en", "EN", "de"}) == ("EN", "en")


def test_the_hash_of_settings_is_that_of_earlier_releases_unless_a_rule_is_set(tmp_path):
    """Outputs in stores are recognised by it without listing their inputs."""
    text = 'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "a.jsonl"\n'
    of_first_release = "5fcc5eedd24a70ae9fd994a82dae620b22951274da0e786c903566e983847999"
    assert parse_config(text, "/corpus/build.toml").hash_settings() == of_first_release
    others = ("follow_links = true\n", "[learn]\nmax_length = 8\n")
    told = [parse_config(text + one, "/corpus/build.toml").hash_settings() for one in others]
    assert len({of_first_release, *told}) == 3
    config = load_config(str(build_file(tmp_path, FIELD, SMALL)))
    as_before = make_read_settings(config.sources[0], "jsonl", "none", normalizes_langs=False)
    kept, new = settle_languages(config, lambda: [as_before]), settle_languages(config, list)
    assert [one.build.lang_normalize for one in (kept, new)] == ["none", "bcp47"]
    told = load_config(str(build_file(tmp_path, FIELD, SMALL, build='lang_normalize = "none"')))
    assert kept.hash_settings() == new.hash_settings() == config.hash_settings() != told.hash_settings()
