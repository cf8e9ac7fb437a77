"""An inclusion proof: that an output of a root holds a file, in a form that a few lines of any language check."""

from __future__ import annotations

import dataclasses
import hashlib

from tokcore.errors import ChecksumError, ConfigError
from tokcore_pipelines.build.commit import MANIFEST, get_path_below
from tokcore_pipelines.build.dataset_card import CARD
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.whole_files import check_file
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import OWN, Part, hash_parts
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.merkle import follow, hash_leaf, prove
from tokcore_schemas.stage_manifests import BuildManifest
from tokcore_schemas.stage_table import BUILD, STAGES, WHOLE

_MOST_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """What `tokcore verify --prove` prints: docs/reference/files.md says how to check it."""

    file: str  # below the output
    sha256: str  # of the file as stored; the root does not cover it
    leaf: str  # canonical JSON: what the root says of the file
    path: tuple[tuple[str, str], ...]  # from the leaf up: where the other hash stands, left or right; and the hash
    root: str


def prove_file(output: Output, file: str) -> Proof:
    """The proof that the root of a commit covers a file. file: its path below the output.

    Raises ConfigError if no manifest names it, ChecksumError if the file or a manifest is not as it was committed,
    FormatError for an output of format_version 1, whose root proves no single file.
    """
    parts = output.named
    if file == CARD and output.log.commits:
        raise ConfigError(
            f"{redact(output.url)}: {file} is that of the newest commit, and no root covers it: it follows from the "
            f"manifests of its parts, which `tokcore verify` checks"
        )
    number = next((i for i, part in enumerate(parts) if file.startswith(f"{part.path}/")), None)
    if number is None:
        number = next((i for i, part in enumerate(parts) if part.path == OWN), None)
    of_part = _prove_in_part(output.parts[number], parts[number], file) if number is not None else None
    if number is None or of_part is None:
        raise ConfigError(
            f"{redact(output.url)}: no manifest of commit {output.number} names {file!r}.{_suggest(output, file)} "
            f"Give its path below the output: `tokcore show` lists files"
        )
    part = parts[number]
    if of_part.root != part.root:
        raise ChecksumError(f"{redact(output.url)}: {part.path}/{MANIFEST}: not the one that the log names")
    steps = prove([bytes.fromhex(one.root) for one in parts], number)
    return dataclasses.replace(
        of_part,
        file=file,
        path=(*of_part.path, *((side, other.hex()) for side, other in steps)),
        root=hash_parts(parts),
    )


def _suggest(output: Output, file: str) -> str:
    """A sentence with files of parts that have this path below their part; empty if there is none."""
    others = [(one.path, stored) for one, stored in zip(output.named, output.parts, strict=True) if one.path != OWN]
    found = [f"{path}/{file}" for path, stored in others if _find_naming(stored, file) is not None]
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    return f" It names {', '.join(found[:_MOST_NAMED])}{more}." if found else ""


def _split(file: str) -> tuple[str, str]:
    """(stage, path below its folder) of a file of a part."""
    folder, _, rest = file.partition("/")
    return (folder, rest) if folder in STAGES else (BUILD, file)


def _find_naming(stored: Stored, file: str) -> tuple[BuildManifest, AnyManifest] | None:
    """(manifest of a part, that of the stage that names a file); None if none does. file: its path below the part."""
    stage, path = _split(file)
    build = stored.require(WHOLE)
    if stage != BUILD and stage not in build.inputs:  # as of a tokenizer that was learned from a commit
        return None
    made = build if stage == BUILD else stored.require(STAGES[stage])
    return (build, made) if any(entry.path == path for entry in made.files) else None


def _prove_in_part(stored: Stored, part: Part, file: str) -> Proof | None:
    """As prove_file, for the root of a part; None if no manifest of it names the file. file: below the output."""
    output, file = stored.url, file.removeprefix(f"{part.path}/")
    if (found := _find_naming(stored, file)) is None:
        return None
    build, made = found
    stage, path = _split(file)
    entry = made.file(path)
    steps = made.prove_entry(path)
    if stage != BUILD:
        data = made.to_bytes()
        if build.inputs[stage].sha256 != hashlib.sha256(data).hexdigest():
            raise ChecksumError(f"{redact(output)}: {stage}/{MANIFEST}: not the manifest that the build committed")
        steps += build.prove_input(stage)
    if problems := [one for file in entry.list_files() for one in check_file(output, stage, file)]:
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
