"""The command line: every command, as a user types it."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.builds import ROOT, SETTINGS, build_file, find_file, jsonl, run, small_corpus, tokcore, tree, write
from tokenizers import Tokenizer as HuggingFaceTokenizer

import tokcore as api
from tokcore_pipelines import cli
from tokcore_pipelines.commands.print_document import print_described
from tokcore_schemas.config import load_config


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    small_corpus(folder)
    build_file(folder)
    return folder


def worked(stderr: str) -> list[str]:
    """The stages that say on stderr that they worked; on a busy machine there is more on it."""
    names = dict.fromkeys(line.split()[0] for line in stderr.splitlines())
    return [name for name in names if name in ("count", "learn", "encode")]


@pytest.fixture(scope="module")
def built(corpus: Path) -> Path:
    done = tokcore("build", corpus / "build.toml", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "102 records read = 102 documents + 0 rejected" in done.stdout
    assert "root" in done.stdout
    assert worked(done.stderr) == ["count", "learn", "encode"]
    return corpus / "out"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check NONE", 2),
        ("check HERE", 2),
        ("build BUILD surplus", 2),
        ("build BUILD --workers 0", 2),
        ("build BUILD --output HERE", 2),
        ("verify NONE", 2),
        ("verify BUILD", 2),
        ("verify EMPTY", 1),
        ("verify OUT --root 00", 1),
        ("verify OUT --root=", 2),
        ("verify OUT --decode some", 2),
        ("export OUT --to gpt2 -o BUILD", 2),
        ("export OUT --to gpt3 -o NONE", 2),
        ("export NONE --to gpt2 -o NONE", 2),
        ("export BUILD --to gpt2 -o NONE", 2),
        ("show NONE", 2),
        ("show HERE", 2),
        ("show BUILD", 2),
        ("tokenize x --tokenizer NONE", 2),
        ("tokenize x --tokenizer HERE", 2),
        ("tokenize x", 2),
        ("tokenize x --tokenizer OUT --tokenizer OUT --pattern gpt2", 2),
        ("tokenize x --tokenizer OUT" + 5 * " --tokenizer OUT", 2),
        ("decode-ids --tokenizer BUILD", 2),
    ],
)
def test_mistakes_get_one_message_and_their_exit_code(corpus, built, tmp_path, command, code):
    (tmp_path / "empty").mkdir()
    places = {
        "NONE": tmp_path / "none",
        "HERE": corpus,
        "BUILD": corpus / "build.toml",
        "EMPTY": tmp_path / "empty",
        "OUT": built,
    }
    words = [
        "/".join(str(places.get(part, part)) for part in word.split("/")) if "/" in word else places.get(word, word)
        for word in command.split()
    ]
    done = tokcore(*words, input="")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stdout == "") == (code == 2)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("sent", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_signals_end_workers_quietly_and_the_same_command_resumes(corpus, tmp_path, sent, code, word):
    command = [
        sys.executable,
        "-m",
        "tokcore_pipelines.cli",
        "build",
        str(corpus / "build.toml"),
        "--output",
        str(tmp_path),
    ]
    driver = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (workers := psutil.Process(driver.pid).children()):
        time.sleep(0.01)
    os.killpg(driver.pid, signal.Signals[sent])  # as a terminal and a scheduler do; the workers are still importing
    output, message = driver.communicate(timeout=60)
    assert (driver.returncode, output) == (code, "")
    assert message == f"error: {word}; run the same command again to go on from here\n"
    psutil.wait_procs(workers, timeout=10)
    assert not any(worker.is_running() for worker in workers)
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


DROPPING = """
import click, signal, sys, time, weakref
import tokcore_pipelines.cli as cli

class Held:
    pass

def drop():
    held = Held()
    reference = weakref.ref(held, lambda _: signal.raise_signal(signal.{sent}))
    del held
    time.sleep(60)

cli.load_command = lambda _: click.Command("build", callback=drop)
sys.argv = ["tokcore", "build"]
cli.main()
"""


@pytest.mark.parametrize(("sent", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_that_python_drops_comes_again(sent, code, word):
    """As it does if it comes while an import ends: what a callback raises is only printed."""
    command = [sys.executable, "-c", DROPPING.replace("{sent}", sent)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"error: {word}; run the same command again to go on from here\n"


def _printed(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_no_thread_waits_for_work_that_never_comes():
    """numpy's linear algebra library starts a thread per core, which keeps spinning, unless told not to."""
    threads = "import psutil; print(psutil.Process().num_threads())"
    alone = _printed(f"import numpy, pyarrow; {threads}", OPENBLAS_NUM_THREADS="1")
    unset = "import os; os.environ.pop('OPENBLAS_NUM_THREADS', None)"
    assert _printed(f"{unset}; import tokcore_pipelines.cli, pyarrow; {threads}") == alone


def test_threads_still_at_work_do_not_crash_the_end():
    """When a stage has failed, Beam's other threads go on; here two write Arrow files while the command ends."""
    code = """
import io, sys, threading, time
import numpy as np, pyarrow as pa
from tokcore_pipelines import cli

batch = pa.record_batch({"a": np.random.default_rng(1).integers(0, 1000, 1 << 18)})
options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 19))

def write():
    while True:
        with pa.ipc.new_file(io.BytesIO(), batch.schema, options=options) as writer:
            writer.write_batch(batch)

for _ in range(2):
    threading.Thread(target=write, daemon=True).start()
time.sleep(0.1)
sys.argv = ["tokcore", "--help"]
cli.main()
"""
    assert "verify" in _printed(code)


def test_check_does_no_work(corpus, tmp_path):
    done = tokcore("check", corpus / "build.toml", "--output", tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert "4 files" in done.stdout
    assert not (tmp_path / "none").exists()
    report = json.loads(tokcore("check", corpus / "build.toml", "--json").stdout)
    assert report["files"] == 4
    assert {(read["lang"], read["format"]) for read in report["inputs"]} >= {("en", "jsonl.zst"), ("hi", "text")}
    assert sum(read["stored_bytes"] for read in report["inputs"]) == report["stored_bytes"]
    assert all(fingerprint in done.stdout for fingerprint in report["fingerprints"].values())
    assert report["settings"]["tokenizer"]["vocab_size"] == 400


def test_fingerprints_of_stages_follow_from_what_they_are_made_from(corpus):
    """A filter is no setting of counts or shards, but changes what is in them."""
    text = (corpus / "build.toml").read_text()
    write(corpus / "filtered.toml", (text + '[[filter]]\nrule = "c4_quality"\n').encode())
    write(corpus / "larger.toml", text.replace("vocab_size = 400", "vocab_size = 401").encode())
    first, filtered, larger = (
        json.loads(tokcore("check", corpus / f"{name}.toml", "--json").stdout)["fingerprints"]
        for name in ("build", "filtered", "larger")
    )
    assert {*first} == {"plan", "counts", "tokenizer", "shards"}
    assert all(first[stage] != filtered[stage] for stage in first)
    assert {stage for stage in first if first[stage] != larger[stage]} == {"tokenizer", "shards"}


def test_a_build_file_need_not_say_where_the_output_goes(corpus, built, tmp_path):
    text = (corpus / "build.toml").read_text()
    assert "[build]\n" in text
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("output = ")]
    path = write(corpus / "anywhere.toml", "".join(lines).encode())
    refused = tokcore("check", path)
    assert (refused.returncode, "build.output is missing" in refused.stderr) == (2, True)
    done = tokcore("check", path, "--output", built)
    assert "holds       this build, finished" in done.stdout
    # What the file says comes after what the command says, and is what is taken without it.
    assert load_config(str(corpus / "build.toml"), output="other").build.output != "other"


def test_check_says_what_the_output_holds(corpus, built, tmp_path):
    """Nothing, this build, a part of it, or another one, on which check ends as the build would."""
    other = build_file(corpus, settings=SETTINGS.replace("400", "390"), name="check.toml")
    part = shutil.copytree(built, tmp_path / "part", ignore=shutil.ignore_patterns("shards", "tokenizer"))
    (part / "manifest.json").unlink()
    for path, output, code, expected in (
        (corpus / "build.toml", tmp_path / "none", 0, "holds       nothing"),
        (corpus / "build.toml", built, 0, "holds       this build, finished"),
        (corpus / "build.toml", part, 0, "holds       this build, unfinished: plan, rejected, counts"),
        (other, part, 2, "plan: plan.range_bytes was 4000, now 3900"),
        (other, corpus, 2, "lies in the output"),
    ):
        done = tokcore("check", path, "--output", output)
        assert done.returncode == code, done.stderr
        assert expected in done.stdout + done.stderr


def test_stages_one_by_one_give_the_build(corpus, built, tmp_path):
    for command in ("count", "learn", "encode"):
        done = tokcore(command, corpus / "build.toml", "--output", tmp_path / "out")
        assert done.returncode == 0, done.stderr
    again = tokcore("build", corpus / "build.toml", "--output", tmp_path / "out", "--json")
    assert again.stderr.startswith("goes on with plan, rejected, counts, tokenizer, shards, made on 2")
    assert worked(again.stderr) == []  # nothing was left to do
    assert json.loads(again.stdout)["root"] == json.loads((built / "manifest.json").read_bytes())["root"]


def test_a_stage_without_the_one_before(corpus, tmp_path):
    done = tokcore("learn", corpus / "build.toml", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "tokcore count" in done.stderr


def test_show(built):
    shard = find_file(built, "shards/arrow/train-00000-00000.arrow")
    assert "documents: " in tokcore("show", shard).stdout
    document = json.loads(tokcore("show", f"{shard}:1", "--json").stdout)
    assert document["tokens"] == api.open_shards(shard)[1].tolist()
    assert document["id"] == "en-1"
    far = tokcore("show", f"{shard}:99999")
    assert far.returncode == 2
    assert "numbered from 0" in far.stderr


@pytest.mark.parametrize("text", ["Hello  world\n", "и в не\t的 एक", "", "<|endoftext|>"])
def test_pipes(built, text):
    ids = tokcore("tokenize", "-", "--ids", "--tokenizer", built, input=text)
    assert (ids.returncode, ids.stderr) == (0, "")
    assert [int(word) for word in ids.stdout.split()] == api.Tokenizer.load(built).encode(text).tolist()
    assert tokcore("decode-ids", "--tokenizer", built / "tokenizer", input=ids.stdout).stdout == text


def test_earlier_names_of_tokenize(built):
    ids = tokcore("encode-text", "--tokenizer", built, input="the sky")
    assert ids.stdout == tokcore("tokenize", "the sky", "--ids", "--tokenizer", built).stdout
    assert ids.stderr.startswith("note: encode-text is called tokenize - --ids now")
    told = tokcore("explain", "the sky", "--tokenizer", built, "--json")
    (summed,) = json.loads(tokcore("tokenize", "the sky", "--tokenizer", built, "--json").stdout)
    assert json.loads(told.stdout) == summed["tokens"]
    assert told.stderr.startswith("note: explain is called tokenize now")
    listed = tokcore("--help").stdout
    assert "\n  tokenize " in listed
    assert "\n  explain " not in listed


def test_tokenize_side_by_side(built, tmp_path):
    """The first column is that of the corpus' tokenizer; a tokenizer of bytes beside it has a token for each byte."""
    special = {"<|endoftext|>": "document_end"}
    table = api.count_pretokens(["x"], pattern="gpt2")
    api.Tokenizer.from_merges(api.learn_bpe(table, 256), pattern="gpt2", special=special).save(tmp_path / "bytes.json")
    (tmp_path / "text.txt").write_bytes("the \u200bsky".encode())
    names = (*("--tokenizer", built), *("--tokenizer", tmp_path / "bytes.json"))
    done = tokcore("tokenize", tmp_path / "text.txt", *names)
    assert (done.returncode, done.stderr) == (0, "")
    counts = [len(api.Tokenizer.load(one).encode("the \u200bsky")) for one in (built, tmp_path / "bytes.json")]
    heads, table = done.stdout.split("\n\n")
    assert [line.split(": ")[1].split(",")[0] for line in heads.split("\n")] == [f"{n} tokens" for n in counts]
    left, right = zip(*((line[:39].strip(), line[41:].strip()) for line in table.rstrip().split("\n")), strict=True)
    assert right[0] == "bytes.json"
    assert "|".join(cell for cell in right[1:] if cell).replace("||", "|") == r"t|h|e|␣|\xe2|\x80|\x8b|s|k|y"
    assert "".join(left[1:]).replace("|", "").replace("␣", " ").startswith("the ")
    told = json.loads(tokcore("tokenize", tmp_path / "text.txt", *names, "--json").stdout)
    assert [one["num_tokens"] for one in told] == counts
    lines = tokcore("tokenize", "<|endoftext|>", *names, "--special", "--ids").stdout.split()
    assert lines == [str(api.Tokenizer.load(one).eos_id) for one in (built, tmp_path / "bytes.json")]


def test_tokenize_one(built):
    (told,) = json.loads(tokcore("tokenize", "a sky for the\u200b day", "--tokenizer", built, "--json").stdout)
    assert told["num_tokens"] == len(told["tokens"])
    assert told["bytes_per_token"] == 20 / len(told["tokens"])
    told = told["tokens"]
    tokenizer = api.Tokenizer.load(built)
    assert [one["id"] for one in told] == tokenizer.encode("a sky for the\u200b day").tolist()
    assert b"".join(bytes.fromhex(one["bytes"]) for one in told) == "a sky for the\u200b day".encode()
    merges = [merge for one in told for merge in one["merges"]]
    assert merges
    for merge in merges:
        (left, _), (right, _) = merge["left"], merge["right"]
        joined = tokenizer.token_bytes(left) + tokenizer.token_bytes(right)
        assert tokenizer.token_bytes(merge["makes"]) == joined
    lines = tokcore("tokenize", "-", "--tokenizer", built, input="a sky for the\u200b day").stdout
    assert f": {len(told)} tokens, " in lines
    assert "\\u200b" in lines or "\\xe2" in lines
    assert "\u200b" not in lines
    assert lines.count("merge ") == len(merges)


def test_ids_that_are_none(built):
    assert "'x7' is not a token id" in tokcore("decode-ids", "--tokenizer", built, input="1 x7").stderr
    for ids in ("99999", "-1", "9" * 30, "²"):
        assert tokcore("decode-ids", "--tokenizer", built, input=ids).returncode == 2


def test_export(built, tmp_path):
    notes = {}
    for target, name in (("huggingface", "t.json"), ("tiktoken", "t.tiktoken"), ("gpt2", "gpt2")):
        done = tokcore("export", built, "--to", target, "-o", tmp_path / name)
        assert (done.returncode, done.stdout) == (0, "")
        notes[target] = done.stderr
    assert notes["huggingface"] == ""
    assert (
        "note: a rank file holds no split pattern and no special tokens: read it with the pattern o200k"
        in (notes["tiktoken"])
    )
    assert "'<|endoftext|>' = 399" in notes["tiktoken"]
    assert "note: vocab.json and merges.txt hold no split pattern" in notes["gpt2"]
    text = "и в не на я the of and 的一是 2024\n\n के में"
    ours = api.Tokenizer.load(built).encode(text).tolist()
    assert HuggingFaceTokenizer.from_file(str(tmp_path / "t.json")).encode(text).ids == ours
    again = api.Tokenizer.from_tiktoken(tmp_path / "t.tiktoken", pattern="o200k")
    assert again.encode(text).tolist() == ours
    assert sorted(path.name for path in (tmp_path / "gpt2").iterdir()) == ["merges.txt", "vocab.json"]
    assert (tmp_path / "t.json").read_bytes() == (built / "tokenizer" / "tokenizer.json").read_bytes()


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ("[lern]\nvocab_size = 1\n", 2, "Did you mean learn?"),
        ("[learn]\nvocab_size = 100\n", 2, "must be at least 257"),
        ("[learn]\nvocab_size = 30000\n", 3, "allow_smaller"),
    ],
)
def test_exit_codes(corpus, settings, code, message, tmp_path):
    path = build_file(corpus, settings=settings, name="wrong.toml")
    done = tokcore("build", path, "--output", tmp_path / "out")
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_usage(corpus):
    assert tokcore("build").returncode == 2
    assert tokcore("build", "nothing.toml").returncode == 2
    assert "at least 1" in tokcore("build", corpus / "build.toml", "--workers", "0", "--output", corpus / "w").stderr
    assert tokcore("--help").returncode == 0
    assert tokcore("--version").returncode == 0


def test_what_to_write_instead(corpus, built, tmp_path, monkeypatch):
    """A runner's options before --, a build file instead of its output, and variables that the shell did not expand."""
    done = tokcore("build", corpus / "build.toml", "--runner=FlinkRunner")
    assert done.returncode == 2
    assert "come after --: tokcore build BUILD.toml -- --runner=..." in " ".join(done.stderr.split())
    done = tokcore("mix-search", built, "--target", "en=5")
    assert (done.returncode, "is a folder: name the build file" in done.stderr) == (2, True)
    for command in (["verify"], ["show"], ["audit"], ["gc"], ["diff", built], ["export", "--to=gpt2", "-o=x"]):
        done = tokcore(*command, corpus / "build.toml")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"build.toml: is a build file; name its output instead: {built}\n" in done.stderr
    monkeypatch.setenv("PLACE", str(tmp_path))
    assert tokcore("check", corpus / "build.toml", "--output=$PLACE/$NO_SUCH").returncode == 2
    done = tokcore("check", corpus / "build.toml", "--output=$PLACE/new", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["output"] == f"{tmp_path}/new"
    assert not list(tmp_path.iterdir())


def test_counts_serve_another_tokenizer(corpus, built, tmp_path):
    """As the README says: the counts of one build, copied, are found by the next."""
    for stage in ("plan", "rejected", "counts"):
        shutil.copytree(built / stage, tmp_path / "out" / stage)
    path = build_file(corpus, settings=SETTINGS.replace("vocab_size = 400", "vocab_size = 500"), name="second.toml")
    done = tokcore("build", path, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert worked(done.stderr) == ["learn", "encode"]


def test_a_worker_that_dies_is_named_and_the_same_command_resumes(corpus, built, tmp_path):
    command = [
        sys.executable,
        "-m",
        "tokcore_pipelines.cli",
        "build",
        str(corpus / "build.toml"),
        "--output",
        str(tmp_path / "o"),
    ]
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (workers := psutil.Process(driver.pid).children()):
        time.sleep(0.01)
    workers[0].kill()
    _, message = driver.communicate(timeout=60)
    assert driver.returncode == 3
    assert f"process {workers[0].pid}) was killed by SIGKILL" in message
    assert "run the same command again" in message
    assert "Traceback" not in message
    psutil.wait_procs(workers, timeout=10)
    assert not any(worker.is_running() for worker in workers)
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    assert tree(tmp_path / "o") == tree(built)


def test_what_is_quoted_does_not_act_on_a_terminal(tmp_path, capsys):
    print_described({"id": "a\x1b[31m\x07b\nc", "ordinal": 7})
    assert capsys.readouterr().out == "id: a\\x1b[31m\\x07b\\nc\nordinal: 7\n"
    done = tokcore("show", tmp_path / "no\x1b[31msuch")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert r"no\x1b[31msuch" in done.stderr


def test_the_command_line_loads_no_command_that_is_not_asked_for():
    code = "import sys, tokcore_pipelines.cli\nsys.exit(bool({'numpy', 'fsspec'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"]])
def test_help_loads_nothing_that_works(arguments):
    code = (
        "import sys\nfrom tokcore_pipelines import cli\n"
        f"try:\n    cli.run({arguments})\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "heavy = {'numpy', 'pyarrow', 'fsspec', 'tokcore.kernel', 'tokcore_schemas.config'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_word_that_is_close_to_a_command(capsys):
    for word, said in (
        ("biuld", "No such command 'biuld'. Did you mean 'build'?"),
        ("nothing-like-it", "No such command 'nothing-like-it'."),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.run([word])
        assert ended.value.code == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"Error: {said}"


def test_watch_offers_no_slices(capsys):
    for command, offers in (("watch", False), ("build", True)):
        with pytest.raises(SystemExit):
            cli.run([command, "--help"])
        said = capsys.readouterr().out
        assert ("--slice" in said, "--lease" in said, "--no-wait" in said) == (offers,) * 3
    with pytest.raises(SystemExit):
        cli.run(["watch", "build.toml", "--slice", "1/2"])
    assert capsys.readouterr().err.splitlines()[-1].startswith("Error: No such option '--slice'.")


def test_commits_of_one_output_are_compared_without_naming_it_twice(built, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.run(["diff", str(built), "--at", "0", "--with", "0"])
    assert (ended.value.code or 0, capsys.readouterr().out) == (0, "no difference\n")
    with pytest.raises(SystemExit) as ended:
        cli.run(["diff", str(built)])
    assert ended.value.code == 2
    assert "name a second output, or two commits" in capsys.readouterr().err


def test_text_on_a_stream_of_ascii(tmp_path, monkeypatch):
    """`PYTHONIOENCODING=ascii tokcore show SHARD:0`, of Amharic."""
    text = "ሰላም ለዓለም"
    write(tmp_path / "am.jsonl", jsonl([{"text": text}] * 3))
    sources = '[[source]]\nlang = "am"\nfiles = "am.jsonl"\n'
    path = build_file(tmp_path, sources, "[learn]\nvocab_size = 260\nallow_smaller = true\n")
    run(path, tmp_path / "out")
    (shard,) = (tmp_path / "out" / "shards" / "arrow").iterdir()
    for arguments in ([f"{shard}:0"], [f"{shard}:0", "--json"]):
        out = io.TextIOWrapper(io.BytesIO(), "ascii")
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit) as ended:
            cli.run(["show", *arguments])
        assert not ended.value.code
        out.seek(0)
        said = out.read()
        if len(arguments) > 1:
            assert json.loads(said)["text"].startswith(text)
        else:
            assert r"\u1230\u120b" in said.replace(" ", "").replace("|", "")
