"""Forged outputs: what an editor, a broken writer or a broken disk leaves, with as many hashes corrected as they would.

A `Forger` works on a copy of a build's output and puts it back as it was.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.token_batches import shard_bytes

from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.arrow_shards import ArrowShard
from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import Documents, get_documents_path
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore.shards.format_table import SHARD_FORMATS, list_paths
from tokcore.shards.token_batch import ShardContent, TokenBatch, compute_document_digests, join_batches
from tokcore_pipelines.build.dataset_card import CARD, write_dataset_card
from tokcore_pipelines.build.identities import compute_identity_under
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_schemas.stage_table import parse_manifest

STAGES = ("plan", "rejected", "counts", "tokenizer", "shards")


class Forger:
    """Edits files of an output; hash_again() makes manifests fit; restore() undoes everything."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.files = sorted(p for p in output.rglob("*") if p.is_file() and p.name != "run.json")
        self.sound = {path: path.read_bytes() for path in self.files}
        self.manifests = {stage: json.loads(self.sound[self.path_of(stage)]) for stage in ("", *STAGES)}
        self._sound_manifests = copy.deepcopy(self.manifests)
        self._touched: set[Path] = set()

    def path_of(self, stage: str) -> Path:
        return self.output / stage / "manifest.json"

    def write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._touched.add(path)

    def remove(self, path: Path) -> None:
        path.unlink()
        self._touched.add(path)

    def restore(self) -> None:
        for path in self._touched:
            if path in self.sound:
                path.write_bytes(self.sound[path])
            else:
                path.unlink(missing_ok=True)
        self._touched.clear()
        self.manifests = copy.deepcopy(self._sound_manifests)

    @property
    def is_sound(self) -> bool:
        """Whether all files are as they were, because hashing again happened to undo a fault."""
        return all(path.exists() and self.sound.get(path) == path.read_bytes() for path in self._touched)

    # ------------------------------------------------------------------------------------------------------ hash again

    def hash_again(self, depth: int) -> None:
        """Make the manifests fit the files.

        depth: 1 stored hashes in the stage's manifest; 2 also identities and hashes of manifests; 3 also contents, the
        figures of each shard, and the root; 4 also what is summed up over documents.
        """
        for stage in (*STAGES, ""):
            for entry in self.manifests[stage]["files"]:
                path = self.output / stage / entry["path"]
                if path in self._touched and path.exists():
                    data = path.read_bytes()
                    entry["sha256"], entry["size_bytes"] = hashlib.sha256(data).hexdigest(), len(data)
                    if (
                        depth >= 3
                        and not path.name.endswith((".parquet", ".arrow", ".documents", ".bin", ".idx"))
                        and stage != "plan"
                    ):
                        entry["content_sha256"] = entry["sha256"]
        if depth >= 3:
            self._describe_shards()
        if depth >= 4:
            self._sum_up()
        self.write_manifests(chain=depth >= 2, contents=depth >= 3)

    def write_manifests(self, chain: bool, contents: bool) -> None:
        """Write the manifests that changed. chain: correct hashes of manifests; contents: also contents and root."""
        if contents:
            shards, build = self.manifests["shards"], self.manifests[""]
            build["totals"] = {**shards["totals"], "vocab_size": self.manifests["tokenizer"]["totals"]["vocab_size"]}
            for lang, totals in shards["languages"].items():
                build["languages"].setdefault(lang, {}).update(totals)
        for stage in (*STAGES, ""):
            manifest = self.manifests[stage]
            for name, made_from in manifest["inputs"].items() if chain or contents else ():
                data = self.path_of(name).read_bytes()
                if chain:
                    made_from["sha256"] = hashlib.sha256(data).hexdigest()
                if contents:
                    made_from["content_sha256"] = parse_manifest(data, name).content_id()
            if contents and not stage:
                self._write_card()
            if chain:
                without_root = write_canonical_json({**manifest, "root": ""})
                manifest["identity"] = compute_identity_under(SEMANTICS, parse_manifest(without_root, stage))
            if contents and not stage:
                manifest["root"] = ""
                manifest["root"] = parse_manifest(write_canonical_json(manifest), "").content_id()
            if manifest != self._sound_manifests[stage]:
                self.write(self.path_of(stage), write_canonical_json(manifest))

    def _write_card(self) -> None:
        """Write the README.md that follows from the manifests, and its entry."""
        made = [parse_manifest(self.path_of(stage).read_bytes(), stage) for stage in ("shards", "tokenizer")]
        card, (entry,) = write_dataset_card(*made), self.manifests[""]["files"]
        entry["sha256"] = entry["content_sha256"] = hashlib.sha256(card).hexdigest()
        entry["size_bytes"] = len(card)
        self.write(self.output / CARD, card)

    def _describe_shards(self) -> None:
        for entry in self.manifests["shards"]["files"]:
            if "shard" not in entry["about"]:
                continue
            about = entry["about"]
            named = f"{about['shard']}-{about['result_key']}"
            stem = f"{about['lang']}/{named}" if about["lang"] else named
            arrow = f"arrow/{stem}.arrow"
            # The documents file describes the shard of the first format.
            of_megatron = entry["path"].startswith("megatron") or not (self.output / "shards" / arrow).exists()
            batch = self.read_megatron(stem) if of_megatron else self.read_arrow(arrow)
            content = ShardContent()
            content.update(batch, compute_document_digests(batch.langs, batch.tokens, batch.offsets))
            entry["content_sha256"] = content.hexdigest()
            entry["about"].update(
                documents=content.num_documents, tokens=content.num_tokens, max_token_id=content.max_token_id
            )

    def _sum_up(self) -> None:
        shards = self.manifests["shards"]
        batches = [self.read_arrow(e["path"]) for e in shards["files"] if e["path"].startswith("arrow")]
        everything = join_batches(batches)
        digest = DocumentsDigest()
        digest.add(compute_document_digests(everything.langs, everything.tokens, everything.offsets))
        shards["totals"]["documents_digest"] = digest.hexdigest()
        shards["totals"]["tokens"] = everything.num_tokens

    # ---------------------------------------------------------------------------------------------------------- shards

    def shard_names(self) -> list[str]:
        """Paths of the Arrow files below shards/arrow, without suffix."""
        return [
            e["path"].removeprefix("arrow/").removesuffix(".arrow")
            for e in self.manifests["shards"]["files"]
            if e["path"].startswith("arrow") and e["about"]["documents"]
        ]

    def read_arrow(self, path: str) -> TokenBatch:
        return join_batches(list(ArrowShard(str(self.output / "shards" / path)).batches()))

    def read_megatron(self, stem: str) -> TokenBatch:
        """As much as can be read, even if the three files contradict each other."""
        folder = self.output / "shards"
        names = join_batches([names for names, _ in Documents(str(folder / get_documents_path(stem))).batches()])
        bin_path, idx_path = (folder / path for path in list_paths(SHARD_FORMATS["megatron"], stem))
        tokens = np.frombuffer(bin_path.read_bytes(), "<i4")
        num = len(names.langs)
        lengths = np.frombuffer(idx_path.read_bytes(), "<i4", num, 34)
        offsets = np.zeros(num + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return names._replace(tokens=tokens, offsets=offsets)

    def write_shard(self, stem: str, batch: TokenBatch, formats: list[str], fingerprint: str = "") -> None:
        """Write the shard again in some of the build's formats, without any checks."""
        fingerprint = fingerprint or self.manifests["shards"]["totals"]["fingerprint"]
        vocab_size = self.manifests["tokenizer"]["totals"]["vocab_size"]
        for name in formats:
            one = SHARD_FORMATS[name]
            paths = {
                **dict(zip(one.suffixes, list_paths(one, stem), strict=True)),
                DOCUMENTS: get_documents_path(stem),
            }
            for suffix, data in shard_bytes(name, [batch], fingerprint=fingerprint, vocab_size=vocab_size).items():
                path = paths[suffix]
                self.write(self.output / "shards" / path, data)


def written(open_writer: Callable[[Any], Any], batch: TokenBatch) -> bytes:
    """The bytes of a shard file."""
    file = pa.BufferOutputStream()
    writer = open_writer(file)
    writer.write(batch)
    writer.close()
    return bytes(file.getvalue().to_pybytes())


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The data with one bit flipped."""
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def changed_leaf(value: Any, chance: random.Random) -> str:
    """Change one leaf of a JSON value in place; says which."""
    path = ""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = chance.choice(keys)
        path += f"/{key}"
        inner = value[key]
        if isinstance(inner, dict | list) and inner:
            value = inner
            continue
        if chance.random() < 0.15:
            del value[key]
            return f"{path} removed"
        value[key] = _other(inner, chance)
        return f"{path}: {inner!r:.40} became {value[key]!r:.40}"


def _other(leaf: Any, chance: random.Random) -> Any:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + chance.choice([-1, 1, 1 << 20])
    if isinstance(leaf, str):
        return chance.choice([leaf + "x", leaf[1:] + "0" if leaf else "y"]) if leaf[1:] + "0" != leaf else leaf + "x"
    return "z" if leaf is None else [1] if isinstance(leaf, list) else {"more": 1}


def damage(output: Path, patterns: Sequence[str]) -> list[str]:
    """Flip a bit in the first file of each pattern; their paths below the output."""
    chosen = [min(output.glob(pattern)) for pattern in patterns]
    for path in chosen:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    return [str(path.relative_to(output)) for path in chosen]


def require_each_once(problems: Iterable[str], damaged: Iterable[str]) -> None:
    """Check that verification named each damaged file once, and nothing else."""
    assert sorted(problems) == sorted(f"{path}: its bytes are not the ones that were committed" for path in damaged)
