"""Builds whose weights follow the premium: workers, slices, kills, `verify`, updates, what is refused, what is told."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.builds import (
    ON_BEAM,
    REVERSED_SOURCES,
    SETTINGS,
    build_file,
    cut_corpus,
    jsonl,
    make_config,
    run,
    small_corpus,
    texts,
    tokcore,
    tree,
    write,
)
from support.slices import SliceProcesses
from support.updates import update_here

import tokcore as api
from tokcore.errors import ConfigError, LearnError
from tokcore.learn.parity import ROUNDS
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.local.memory import Available
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.look.report.compose import Wishes, make_report
from tokcore_pipelines.look.report.page import write_page
from tokcore_pipelines.work import learn_model
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.config import load_config
from tokcore_schemas.stage_table import TOKENIZER

PARITY = '[mix]\nstrategy = "parity"\nparallel = "parallel"\ntarget_premium = 1.2\nalpha = 1\ndensity = 0'
MODELS = {name: f"{SETTINGS}{PARITY}".replace("[learn]", f'[learn]\nmodel = "{name}"') for name in ("bpe", "pathpiece")}
WORDINESS = {"en": 2, "hi": 3, "ru": 3, "zh": 4}
LANGS = (*WORDINESS,)


def make_corpus(folder: Path) -> None:
    small_corpus(folder)
    for lang in LANGS:
        # Languages say the same in more and fewer words.
        lines = [text.replace("\n", " ") * WORDINESS[lang] for text in texts(lang, 20, seed=5)]
        write(folder / "parallel" / f"{lang}.txt", "\n".join(lines).encode())
    write(folder / "parallel" / "xx.txt", b"x\n" * 20)  # of no language that is learned from


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parity")
    make_corpus(folder)
    run(build_file(folder, settings=MODELS[request.param]), folder / "out")
    return folder


def settings_of(folder: Path) -> str:
    return (folder / "build.toml").read_text().partition("[plan]")[2]


def read_root(output: Path) -> str:
    return json.loads((output / "manifest.json").read_bytes())["root"]


def read_mix(output: Path) -> dict:
    return find_manifest(str(output), TOKENIZER).totals.mix


def is_sound(output: Path) -> bool:
    return verify(str(output), decode=None, options=RunOptions(here=True)).problems == ()


def test_the_manifest_holds_what_the_tokenizer_takes_for_the_odd_lines(folder):
    mix, tokenizer = read_mix(folder / "out"), api.Tokenizer.load(folder / "out")
    odd = {lang: (folder / "parallel" / f"{lang}.txt").read_text().split("\n")[::2] for lang in LANGS}
    tokens = {lang: sum(len(tokenizer.encode(line)) for line in lines) for lang, lines in odd.items()}
    assert mix["parallel_tokens"] == tokens
    most = 1.2 * tokens["en"]
    assert {*str(mix["above_target"]).split()} == {lang for lang in LANGS if tokens[lang] > most}
    assert (mix["reference"], mix["parallel_lines"], mix["alpha"]) == ("en", 10, "1")
    # It is better than what it began with, by its objective.
    first = mix["parallel_tokens_at_first"]
    excess = [sum(max(0, of[lang] / of["en"] / 1.2 - 1) for lang in LANGS) for of in (tokens, first)]
    assert excess[0] < excess[1]
    natural = folder / "natural.toml"
    natural.write_text((folder / "build.toml").read_text().partition("[mix]")[0] + '[mix]\nstrategy = "natural"\n')
    run(natural, folder / "natural")
    begun = api.Tokenizer.load(folder / "natural")
    assert first == {lang: sum(len(begun.encode(line)) for line in lines) for lang, lines in odd.items()}
    assert is_sound(folder / "out")


def test_workers_order_and_the_cut_of_files_change_nothing(folder, tmp_path):
    settings = "[plan]" + settings_of(folder)
    reversed_file = build_file(folder, REVERSED_SOURCES, settings, name="reversed.toml")
    assert run(reversed_file, tmp_path / "b", workers=2).root == read_root(folder / "out")
    assert run(folder / "build.toml", tmp_path / "beam", runner=ON_BEAM).root == read_root(folder / "out")
    shutil.copytree(folder / "parallel", tmp_path / "parallel")
    run(build_file(tmp_path, cut_corpus(tmp_path), settings), tmp_path / "c")
    assert find_manifest(str(tmp_path / "c"), TOKENIZER).totals == find_manifest(str(folder / "out"), TOKENIZER).totals


def test_slices_give_the_same_bytes(folder, tmp_path):
    with SliceProcesses(folder / "build.toml", tmp_path / "out", 2) as slices:
        hosts = [slices.start(number) for number in (1, 2)]
        assert [host.wait()[0] for host in hosts] == [0, 0]
    assert read_root(tmp_path / "out") == read_root(folder / "out")


@pytest.mark.parametrize("point", ["learn.round:3", "learn.learned:1"])
def test_a_killed_build_goes_on_to_the_same_bytes(folder, tmp_path, point):
    env = {**os.environ, "TOKCORE_CRASH": point}
    killed = tokcore("build", folder / "build.toml", "--output", tmp_path / "out", env=env)
    assert killed.returncode not in (0, 1), killed.stderr
    assert run(folder / "build.toml", tmp_path / "out").root == read_root(folder / "out")
    assert tree(tmp_path / "out" / "tokenizer") == tree(folder / "out" / "tokenizer")


def test_rows_that_do_not_fit_in_memory_give_the_same(tmp_path, monkeypatch):
    make_corpus(tmp_path)
    path = build_file(tmp_path, settings=MODELS["bpe"])
    from_memory = run(path, tmp_path / "memory")
    monkeypatch.setattr("tokcore_pipelines.work.learn_memory.find_available", lambda: Available(500, "a limit"))
    monkeypatch.setattr(learn_model, "READ_BYTES", 0)
    monkeypatch.setattr(learn_model, "LEAST_BYTES", 1)
    monkeypatch.setattr(learn_model, "find_read_bytes", lambda rows: 0)
    spilled: list[int] = []
    spill = learn_model.spill
    monkeypatch.setattr(learn_model, "spill", lambda *rows: spilled.append(1) or spill(*rows))
    assert run(path, tmp_path / "disk").root == from_memory.root
    assert len(spilled) == read_mix(tmp_path / "disk")["rounds"] > 1


def test_it_is_said_who_pays_more(folder, tmp_path):
    done = tokcore("build", folder / "build.toml", "--output", tmp_path / "out")
    rounds = [line for line in done.stderr.splitlines() if f" of up to {ROUNDS}: premiums up to " in line]
    assert len(rounds) == read_mix(folder / "out")["rounds"] > 1
    mix = read_mix(folder / "out")
    above = ", ".join(
        f"{lang} {mix['parallel_tokens'][lang] / mix['parallel_tokens']['en']:.3f}"
        for lang in str(mix["above_target"]).split()
    )
    (said,) = [line for line in done.stdout.splitlines() if "weights followed the premium" in line]
    assert said.endswith(f"above 1.2: {above or 'none'}")


def test_an_update_keeps_the_tokenizer_and_its_weights(folder, tmp_path):
    make_corpus(tmp_path)
    path = build_file(tmp_path, settings="[plan]" + settings_of(folder))
    run(path, tmp_path / "out")
    before = tree(tmp_path / "out" / "tokenizer")
    write(tmp_path / "ru.jsonl", jsonl([{"id": f"new-{i}", "text": text} for i, text in enumerate(texts("ru", 9, 7))]))
    assert update_here(path, tmp_path / "out").number == 1
    assert tree(tmp_path / "out" / "tokenizer") == before
    assert is_sound(tmp_path / "out")


def test_it_is_learned_from_an_output_again(folder, tmp_path):
    shutil.copytree(folder / "out", tmp_path / "out")
    done = tokcore("learn", tmp_path / "out")
    assert done.returncode != 0
    assert "mix.parallel: the tokenizer's weights followed parallel text" in " ".join(done.stderr.split())
    done = tokcore("learn", tmp_path / "out", "--set", f"mix.parallel={folder / 'parallel'}", "--json")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    assert told["fingerprint"] == api.Tokenizer.load(folder / "out").fingerprint


def test_a_smaller_size_has_other_weights(folder, tmp_path):
    done = tokcore("convert", folder / "out", "--vocab-size", "300", "-o", tmp_path / "smaller")
    assert done.returncode != 0
    assert 'weights of languages followed the premium (mix.strategy = "parity")' in " ".join(done.stderr.split())
    settings = ("[plan]" + settings_of(folder)).replace("vocab_size = 400", "vocab_size = 330")
    path = build_file(folder, settings=settings, name="small.toml")
    build = Build(load_config(str(path)), RunOptions(here=True), str(tmp_path / "from"), reuse=str(folder / "out"))
    assert build.run().root == run(path, tmp_path / "alone").root


def test_other_parallel_text_is_another_tokenizer(folder, tmp_path):
    path = build_file(folder, settings="[plan]" + settings_of(folder), name="other.toml")
    same = load_config(str(path))
    write(tmp_path / "parallel" / "en.txt", b"a\nb\nc")
    write(tmp_path / "parallel" / "ru.txt", b"a\nb\nc")
    other = load_config(str(path), [f"mix.parallel={tmp_path / 'parallel'}"])
    (told,) = describe_changed_settings(same.learn_identity(), other.learn_identity())
    assert told.startswith('mix.parallel was "odd lines ')
    assert same.hash_settings() != other.hash_settings()
    assert make_config("").hash_settings() == make_config("[mix]\ntarget_premium = 1.5").hash_settings()


def test_one_call_in_python_gives_the_same_tokenizer(folder):
    config = load_config(str(folder / "build.toml"))
    numbers = {"en": 30, "hi": 12, "ru": 30, "zh": 30}
    given = {lang: (folder / "parallel" / f"{lang}.txt").read_text().split("\n") for lang in LANGS}
    for threads, parallel in ((1, folder / "parallel"), (3, given)):
        mix = {"strategy": "parity", "parallel": parallel, "target_premium": 1.2, "alpha": 1, "density": 0}
        trained = api.Tokenizer.train(
            [text for lang, num in numbers.items() for text in texts(lang, num)],
            langs=[lang for lang, num in numbers.items() for _ in range(num)],
            vocab_size=400,
            model=config.learn.model,
            mix=mix,
            threads=threads,
        )
        assert trained.fingerprint == api.Tokenizer.load(folder / "out").fingerprint
    with pytest.raises(ConfigError, match=r"mix\.parallel is missing"):
        api.Tokenizer.train(["a"], mix={"strategy": "parity"})
    with pytest.raises(ConfigError, match=r"mix\.strategy = \"parity\": its weights cannot follow what word learns"):
        api.Tokenizer.train(["a"], model="word", mix={"strategy": "parity", "parallel": given})


def test_the_report_judges_by_the_even_lines(folder):
    wishes = Wishes(parallel=str(folder / "parallel"), reference="en")
    told = make_report(read_output(str(folder / "out")), wishes, StageProgress(-1))
    premiums, tokenizer = told["tokenizer"]["premiums"], api.Tokenizer.load(folder / "out")
    even = {lang: (folder / "parallel" / f"{lang}.txt").read_text().split("\n")[1::2] for lang in LANGS}
    tokens = {lang: sum(len(tokenizer.encode(line)) for line in lines) for lang, lines in even.items()}
    shown = premiums["tokenizers"]["this build"]["tokens"]
    assert (premiums["even_lines"], premiums["lines"]) == (True, 10)
    assert {lang: shown[lang] for lang in LANGS} == tokens
    page = write_page(told).decode()
    assert "These are the even lines: weights of languages were tuned on the odd ones." in page
    above = read_mix(folder / "out")["above_target"]
    assert "Weights were tuned on these 10 odd lines of parallel text, for premiums of at most 1.2" in page
    assert f"Above it: {above or 'none'}." in page
    # Text that nothing was tuned on is taken whole.
    (folder / "parallel" / "yy.txt").write_text("y\n" * 20)
    other = make_report(read_output(str(folder / "out")), wishes, StageProgress(-1))["tokenizer"]["premiums"]
    (folder / "parallel" / "yy.txt").unlink()
    assert ("even_lines" in other, other["lines"]) == (False, 20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('[mix]\nstrategy = "parity"', "mix.parallel is missing: parity needs the same sentences in several languages"),
        ('[mix]\nparallel = "x"', 'mix.parallel is for strategy = "parity", and the strategy is "temperature"'),
        ("[mix]\ntarget_premium = 2", 'mix.target_premium is for strategy = "parity"'),
        (f'{PARITY}\nover = ["script", "lang"]', "mix.over mixes by more than languages, and strategy"),
        (f"{PARITY}\n[learn]\nvocab_size = [300, 400]", "learn.vocab_size is a list, and with mix.strategy"),
        (f'{PARITY}\n[learn]\nmodel = "unigram"', 'parity": is for bpe and pathpiece, and learn.model is unigram'),
        ("[mix]\nstrategy = 'parity'\nparallel = 'x'\ntarget_premium = 0.9", "mix.target_premium = 0.9: expected"),
    ],
)
def test_wrong_settings_name_the_key(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(settings)


def test_files_are_named_as_flores_has_them(folder, tmp_path):
    make_corpus(tmp_path)
    for lang, name in (("en", "eng_Latn"), ("zh", "zho_Hans"), ("ru", "rus_Cyrl")):
        (tmp_path / "parallel" / f"{lang}.txt").rename(tmp_path / "parallel" / f"{name}.txt")
    run(build_file(tmp_path, settings="[plan]" + settings_of(folder)), tmp_path / "out")
    mix, own = read_mix(tmp_path / "out"), read_mix(folder / "out")
    assert mix["parallel_sha256"] != own["parallel_sha256"]
    assert {**mix, "parallel_sha256": ""} == {**own, "parallel_sha256": ""}


def test_languages_without_text_are_named_before_anything_is_counted(tmp_path):
    make_corpus(tmp_path)
    path = build_file(tmp_path, settings=MODELS["bpe"])
    assert "their weights follow no premium" not in tokcore("check", path).stdout
    (tmp_path / "parallel" / "hi.txt").unlink()
    done = tokcore("check", path)
    assert done.returncode == 0
    assert "has no text for hi: their weights follow no premium" in " ".join((done.stdout + done.stderr).split())
    for lang in ("ru", "zh"):
        (tmp_path / "parallel" / f"{lang}.txt").unlink()
    done = tokcore("check", path)
    assert done.returncode != 0
    assert "has text of 1 of the languages (en, hi, ru, zh), and two are" in " ".join(
        (done.stdout + done.stderr).split()
    )


def test_a_folder_that_is_not_there_is_named(tmp_path):
    path = build_file(tmp_path, settings=MODELS["bpe"])
    with pytest.raises(ConfigError, match=r"mix.parallel = .*parallel: cannot be read: No such file"):
        load_config(str(path))


def test_a_corpus_without_parallel_text_is_refused(tmp_path):
    make_corpus(tmp_path)
    for lang in LANGS[1:]:
        (tmp_path / "parallel" / f"{lang}.txt").unlink()
    with pytest.raises(LearnError, match=r"has text of 1 of the languages .* it has en, xx, and the corpus en, hi, ru"):
        run(build_file(tmp_path, settings=MODELS["bpe"]), tmp_path / "out")
