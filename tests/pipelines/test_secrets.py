"""Secrets in URLs, options and environment are never printed or written. Canaries are put there, then looked for."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

import fsspec
import pytest
from apache_beam.transforms.display import DisplayData
from click.testing import CliRunner
from fakes.sitecustomize import CANARIES, ENVIRONMENT, FakeS3
from fsspec.registry import _registry
from support.builds import ROOT, build_file, jsonl, texts, tokcore, write
from support.graphs import every_graph

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.cli import commands
from tokcore_pipelines.store import retries, storage, urls
from tokcore_pipelines.store.redaction import redact

FAKES = ROOT / "tests" / "fakes"


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A corpus in the bucket, and processes that know the canaries. The bucket is a folder, here and in them."""
    monkeypatch.setitem(_registry, "s3", FakeS3)
    write(tmp_path / "s3" / "bucket" / "en.jsonl.zst", jsonl([{"text": text} for text in texts("en", 20)]))
    for name, value in {**ENVIRONMENT, "FAKE_S3": str(tmp_path / "s3")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKES), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


def source(uri: str = "s3://bucket/*.zst") -> str:
    return f'[[source]]\nlang = "en"\nfiles = "{uri}"\n'


def assert_no_canary(text: str) -> None:
    assert not [canary for canary in CANARIES if canary in text], text
    assert "CANARY" not in text, text


def assert_none_in(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"CANARY" in path.read_bytes()]


def test_a_build_that_succeeds(corpus):
    path = build_file(corpus, source(), "[learn]\nvocab_size = 300\n")
    done = tokcore("build", path, "--workers", "1")
    assert done.returncode == 0, done.stderr
    more = CliRunner().invoke(commands, ["check", str(path), "--json"], env={"FAKE_FAIL": "nothing"})
    assert_no_canary(more.output)
    assert_no_canary(done.stdout + done.stderr)
    assert_none_in(corpus / "out")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("ls", "PermissionError"),
        ("info", "ValueError"),
        ("open", "PermissionError"),
        ("open", "ValueError"),
        ("write", "PermissionError"),
        ("write", "ValueError"),
    ],
)
def test_a_store_that_fails(corpus, operation, kind, monkeypatch):
    """Listing and looking fail in this process, reading in a worker, writing in either."""
    monkeypatch.setenv("FAKE_FAIL", operation)
    monkeypatch.setenv("FAKE_KIND", kind)
    output = ["--output", "s3://bucket/out"] if operation == "write" else []
    done = tokcore("build", build_file(corpus, source(), "[learn]\nvocab_size = 300\n"), "--workers", "1", *output)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "s3://bucket" in done.stderr
    assert "cannot" in done.stderr
    assert "Traceback" not in done.stderr
    assert_no_canary(done.stderr)
    assert_none_in(corpus)


@pytest.mark.parametrize(
    "url",
    [
        "s3://me:CANARY-in-url@bucket/*.zst",
        "s3://CANARY-in-url@bucket/*.zst",
        "s3://bucket/*.zst?X-Sig=CANARY-in-query",
        "https://me:CANARY-in-url@host/a.zst",
        "simplecache::s3://me:CANARY-in-url@bucket/a.zst",
        "file://me:CANARY-in-url@host/a.zst",
    ],
)
def test_urls_that_hold_secrets(corpus, url):
    whole = 'version = 1\n[build]\noutput = "%s"\n' + source("%s")
    command = CliRunner()
    for name, text in {
        "source": whole % ("out", url),
        "output": whole % (url, "s3://bucket/*.zst"),
        "tokenizer": whole % ("out", "s3://bucket/*.zst") + f'[tokenizer]\nfrom = "{url}"\n',
        "no-toml": whole % ("out", url) + f'files = "{url}"\n',
    }.items():
        (corpus / f"{name}.toml").write_text(text)
        done = command.invoke(commands, ["build", str(corpus / f"{name}.toml")])
        assert (done.exit_code, done.stdout) == (2, ""), (name, done.stderr)
        assert_no_canary(done.stderr)
    done = command.invoke(commands, ["verify", url])
    assert done.exit_code == 2
    assert_no_canary(done.output)
    assert not (corpus / "out").exists()


def test_unexpected_errors(corpus):
    """A defect of ours shows its traceback, but not what its message quotes."""
    code = (
        "import sys, os\nfrom tokcore_pipelines import cli\nfrom tokcore_pipelines.commands import check\n"
        "def broken(*_): raise RuntimeError(os.environ['AWS_SECRET_ACCESS_KEY'] + ' https://me:CANARY-in-url@host')\n"
        "check.make_check_report = broken\nsys.argv = ['tokcore', 'check', sys.argv[1]]\ncli.main()\n"
    )
    done = tokcore_code(code, build_file(corpus, source()))
    assert "Traceback" in done.stderr
    assert "RuntimeError: *** https://***@host" in done.stderr
    assert_no_canary(done.stdout + done.stderr)


def tokcore_code(code: str, *arguments: object):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("kind", ["PermissionError", "ValueError", "RuntimeError", "OSError"])
def test_chains_of_exceptions(corpus, kind, monkeypatch):
    """A program that catches our errors logs the whole chain."""
    monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: FakeS3())
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setenv("FAKE_KIND", kind)
    monkeypatch.setitem(fsspec.config.conf, "s3", {"secret": "CANARY-in-fsspec-setting"})
    for operation, use in (
        ("ls", lambda: storage.list_files("s3://bucket/*")),
        ("info", lambda: storage.stat("s3://bucket/en.jsonl.zst")),
        ("open", lambda: storage.read_bytes("s3://bucket/en.jsonl.zst")),
    ):
        monkeypatch.setenv("FAKE_FAIL", operation)
        with pytest.raises(StageError, match="s3://bucket") as error:
            use()
        assert_no_canary("".join(traceback.format_exception(error.value)))
        link: BaseException | None = error.value
        while link is not None:
            assert_no_canary(f"{link} {link!r}")
            link = link.__cause__ or link.__context__


def test_pipelines_carry_no_secret(corpus, tmp_path):
    for pipeline in every_graph(tmp_path):
        assert b"CANARY" not in pipeline.to_runner_api().SerializeToString()
        assert b"CANARY" not in pipeline.options.to_runner_api().SerializeToString()
        assert "CANARY" not in str(DisplayData.create_from(pipeline.options).items)


def test_names_that_are_no_secrets(monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json")
    monkeypatch.setenv("TOKEN_FILE", "/home/me/token")
    monkeypatch.setenv("MONKEY", "not a secret")
    monkeypatch.setenv("HF_TOKEN", "short")
    monkeypatch.setenv("PWD", "/home/me/corpus")  # every shell sets these two
    monkeypatch.setenv("OLDPWD", "/home/me/before")
    text = "/home/me/key.json, /home/me/token, not a secret, short, /home/me/corpus/out, /home/me/before/out"
    assert redact(text) == text


def test_azure_containers_are_no_users():
    url = "abfs://container@account.dfs.core.windows.net/a"
    assert urls.check_url(url) == url
    with pytest.raises(ConfigError, match="credentials"):
        urls.check_url(url.replace("container@", "container:CANARY@"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/a.txt#token=CANARY&page=2", "https://host/a.txt#token=***&page=2"),
        ("https://host/a;jsessionid=CANARY.node1/b.txt", "https://host/a;jsessionid=***/b.txt"),
        ("https://host/a;JSESSIONID=CANARY?X=CANARY", "https://host/a;JSESSIONID=***?***"),
        ("https://host/a#id_token=CANARY, gone", "https://host/a#id_token=*** gone"),
        ("https://host/a;v=2/b#line=7", "https://host/a;v=2/b#line=7"),
    ],
)
def test_secrets_in_fragments_and_paths(url, shown):
    assert redact(url) == shown
