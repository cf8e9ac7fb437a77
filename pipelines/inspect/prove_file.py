"""An inclusion proof: that an output of a root holds a file, in a form that a few lines of any language check."""

from __future__ import annotations

import dataclasses
import hashlib

from pipelines.inspect.verify import check_file
from pipelines.stages.commit import MANIFEST, get_path_below, require_manifest
from pipelines.stages.dataset_card import CARD
from pipelines.stages.read_log import locate_part, read_log
from pipelines.store.redaction import redact
from schemas.commit_log import OWN, hash_parts
from schemas.merkle import follow, hash_leaf, prove
from schemas.stage_manifests import BUILD, STAGES
from tokcore.errors import ChecksumError, ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """What `tokcore verify --prove` prints: schemas/README.md says how to check it."""

    file: str  # below the output
    sha256: str  # of the file as stored; the root does not cover it
    leaf: str  # canonical JSON: what the root says of the file
    path: tuple[tuple[str, str], ...]  # from the leaf up: where the other hash stands, left or right; and the hash
    root: str


def prove_file(output: str, file: str, at: int | None = None) -> Proof:
    """The proof that the root of a commit covers a file. file: its path below the output. at: None: the newest.

    Raises ConfigError if no manifest names it, ChecksumError if the file or a manifest is not as it was committed,
    FormatError for an output of format_version 1, whose root proves no single file.
    """
    log = read_log(output, at)
    parts = log.parts(at)
    if file == CARD and log.commits:
        raise ConfigError(
            f"{redact(output)}: {file} is that of the newest commit, and no root covers it: it follows from the "
            f"manifests of its parts, which `tokcore verify` checks"
        )
    number = next((i for i, part in enumerate(parts) if file.startswith(f"{part.path}/")), None)
    if number is None:
        number = next((i for i, part in enumerate(parts) if part.path == OWN), None)
    if number is None:
        raise ConfigError(f"{redact(output)}: {file!r} is in no part of the commit; `tokcore log` shows its parts")
    part = parts[number]
    of_part = _prove_in_part(locate_part(output, part), file.removeprefix(f"{part.path}/"))
    if of_part.root != part.root:
        raise ChecksumError(f"{redact(output)}: {part.path}/{MANIFEST}: not the one that the log names")
    steps = prove([bytes.fromhex(one.root) for one in parts], number)
    return dataclasses.replace(
        of_part,
        file=file,
        path=(*of_part.path, *((side, other.hex()) for side, other in steps)),
        root=hash_parts(parts),
    )


def _prove_in_part(output: str, file: str) -> Proof:
    build = require_manifest(output, BUILD, "build")
    folder, _, rest = file.partition("/")
    stage, path = (folder, rest) if folder in STAGES else (BUILD, file)
    made = build if stage == BUILD else require_manifest(output, stage, "build")
    if all(entry.path != path for entry in made.files):
        raise ConfigError(
            f"{redact(output)}: no manifest names {file!r}. Give its path below the output: `tokcore show` lists files"
        )
    entry = made.file(path)
    steps = made.prove_entry(path)
    if stage != BUILD:
        data = made.to_bytes()
        if build.inputs[stage].sha256 != hashlib.sha256(data).hexdigest():
            raise ChecksumError(f"{redact(output)}: {stage}/{MANIFEST}: not the manifest that the build committed")
        steps += build.prove_input(stage)
    if problems := check_file(output, stage, entry):
        raise ChecksumError(f"{redact(output)}: {problems[0]}")
    leaf = made.write_leaf(entry)
    if follow(hash_leaf(leaf), steps).hex() != build.root:
        raise ChecksumError(f"{redact(output)}: {MANIFEST}: names another content of {stage} than its manifest has")
    return Proof(
        file=get_path_below(stage, path),
        sha256=entry.sha256,
        leaf=leaf.decode(),
        path=tuple((side, other.hex()) for side, other in steps),
        root=build.root,
    )
