"""The stages of a build: a row for each, in the order of work. What is done in a stage: tokcore_pipelines.build.table.

A stage is known by its row. Everything that goes through stages goes through STAGES, so a new one is a row here, a row
there and its own file; a test finds code that lists stages, or asks for one by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Container, Iterable
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from tokcore.errors import ChecksumError, FormatError
from tokcore.files.canonical_json import MANIFEST_FORMAT, MANIFEST_VERSIONS, parse_canonical
from tokcore.files.jsonable import Place, from_jsonable, require_version, to_jsonable
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.packed_entries import PackedEntries, pack_entries
from tokcore_schemas.stage_manifests import (
    BuildManifest,
    CountsManifest,
    DedupManifest,
    MixtureManifest,
    PackedManifest,
    PlanManifest,
    RejectedManifest,
    ShardsManifest,
    StageConfigs,
    TokenizerManifest,
    TokenizersManifest,
)

Made = TypeVar("Made", bound=AnyManifest)

PACKED_BYTES = 4 << 20  # of JSON; shorter manifests are read whole


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Stage(Generic[Made]):
    """One stage, as every process knows it."""

    name: str  # of its folder in an output, and in its manifest
    manifest: type[Made]
    command: str  # that makes it, and what --replace calls it
    # The stages it is made from: of each group the first that the build has, of a group without any, none.
    made_from: tuple[tuple[str, ...], ...] = ()
    within: tuple[str, ...] = ()  # it is committed by the work of another stage: the first of these that the build has
    expires: bool = False  # its files go when the commit that they are of does
    is_taken_over: bool = False  # a build whose inputs were replaced takes over work items from it
    is_plain: bool = False  # its files are stored as they are, uncompressed
    asked_by: str = ""  # the setting without which a build does not have it
    example: str = ""  # a value of that setting, as a build file has it
    why_gone: str = ""  # what has changed where a build has it no more, if that is not one setting
    does: str = ""  # what its command does, for the help; "": no command makes it alone
    page: str = ""  # of the repository, on that
    done: str = ""  # what has been done then
    is_derived: bool = False  # made out of finished stages alone; its files are shards
    nouns: Literal["documents", "rows"] = "documents"  # what its shards hold, if it writes any
    beside: Literal["", "provenance", "pieces"] = ""  # the file that each of these always has beside it

    def is_in(self, configs: StageConfigs) -> bool:
        """Whether a build of these settings has this stage."""
        return getattr(configs, self.name, configs) is not None

    def find_inputs(self, there: Container[str]) -> set[str]:
        """The stages it is made from, in a build that has the stages `there`.

        >>> sorted(PACKED.find_inputs({"shards", "tokenizer"})), sorted(PACKED.find_inputs(STAGES))
        (['shards', 'tokenizer'], ['mixed', 'tokenizer'])
        """
        firsts = (next((name for name in group if name in there), None) for group in self.made_from)
        return {name for name in firsts if name is not None}


PLAN = Stage("plan", PlanManifest, "plan", expires=True, is_taken_over=True)
DEDUP = Stage(
    name="dedup",
    manifest=DedupManifest,
    command="dedup",
    made_from=(("plan",),),
    expires=True,
    is_plain=True,
    asked_by="dedup.by",
    example='"text"',
)
REJECTED = Stage(
    name="rejected",
    manifest=RejectedManifest,
    command="count",
    made_from=(("plan",), ("dedup",)),
    within=("counts", "shards"),
    expires=True,
    is_taken_over=True,
    is_plain=True,
)
COUNTS = Stage(
    name="counts",
    manifest=CountsManifest,
    command="count",
    made_from=(("plan",), ("dedup",)),
    expires=True,
    is_taken_over=True,
    why_gone="tokenizer.from was not set, now the tokenizer is imported and nothing is counted",
    does="Plan, then count pre-tokens for each language.",
    page="docs/reference/counting.md",
    done="counted",
)
TOKENIZERS = Stage(
    name="tokenizers",
    manifest=TokenizersManifest,
    command="learn",
    made_from=(("counts",),),
    is_plain=True,
    why_gone="learn.vocab_size was a list, and now there is one size or an imported tokenizer",
)
TOKENIZER = Stage(
    name="tokenizer",
    manifest=TokenizerManifest,
    command="learn",
    made_from=(("counts",),),
    is_taken_over=True,
    is_plain=True,
    does="Learn the tokenizer from the count tables.\n\nOf an output with commits, learns from the tables of one: a "
    "further tokenizer, in tokenizers/FINGERPRINT. The output's own stays. An output, named in place of a build "
    "file, has settings of its own: those with which its tokenizer was learned.",
    page="docs/how-to/change-the-tokenizer.md",
    done="learned",
)
SHARDS = Stage(
    name="shards",
    manifest=ShardsManifest,
    command="encode",
    made_from=(("plan",), ("dedup",), ("tokenizer",)),
    expires=True,
    is_taken_over=True,
    does="Tokenize the corpus into shards.\n\nWith -o, tokenizes the documents of a commit into a new output, with any "
    "tokenizer of the output.",
    page="docs/reference/encoding.md",
    done="encoded",
)
MIXED = Stage(
    name="mixed",
    manifest=MixtureManifest,
    command="mix",
    expires=True,
    made_from=(("shards",), ("tokenizer",)),
    asked_by="mixture.strategy",
    example='"temperature"',
    does="Write the training documents of the shards in other proportions, as [mixture] says.",
    page="docs/reference/files.md",
    done="mixed",
    beside="provenance",
    is_derived=True,
)
PACKED = Stage(
    name="packed",
    manifest=PackedManifest,
    command="pack",
    expires=True,
    made_from=(("mixed", "shards"), ("tokenizer",)),
    asked_by="pack.length",
    example="4096",
    does="Pack the documents of the mixture, or of the shards, into rows of one length, as [pack] says.",
    page="docs/reference/files.md",
    done="packed",
    nouns="rows",
    beside="pieces",
    is_derived=True,
)

STAGES: dict[str, Stage[Any]] = {
    one.name: one for one in (PLAN, DEDUP, REJECTED, COUNTS, TOKENIZERS, TOKENIZER, SHARDS, MIXED, PACKED)
}

BUILD = "build"
WHOLE = Stage(BUILD, BuildManifest, BUILD)  # no stage, but it has a manifest, in the output itself


def get_stage(name: str) -> Stage[Any]:
    """The row of a stage, or of the build as a whole, that is known to be there."""
    return WHOLE if name == BUILD else STAGES[name]


def list_commands() -> list[str]:
    """What --replace takes, in the order of work.

    >>> list_commands()
    ['plan', 'dedup', 'count', 'learn', 'encode', 'mix', 'pack']
    """
    return [*dict.fromkeys(stage.command for stage in STAGES.values())]


def find_command(name: str, is_imported: bool) -> str:
    """What to replace to have a stage, or the build, made again. is_imported: whether the tokenizer is.

    >>> find_command("counts", False), find_command("rejected", True), find_command("build", False)
    ('count', 'encode', 'pack')
    """
    if name == BUILD:
        return list_commands()[-1]
    stage = STAGES[name]
    return STAGES[_get_maker(stage, is_imported)].command


def lists_anew(replaced: str) -> bool:
    """Whether replacing what this command makes has the inputs listed anew."""
    return replaced == PLAN.command


def counts_anew(replaced: str) -> bool:
    """Whether replacing what this command makes has the documents counted anew."""
    return replaced in (PLAN.command, DEDUP.command, COUNTS.command)


def list_following(command: str, is_imported: bool) -> list[str]:
    """What a command makes, and all that follows from it, the last first; the build's manifest before all of them.

    >>> list_following("encode", is_imported=True)
    ['build', 'packed', 'mixed', 'shards', 'rejected']
    >>> list_following("pack", is_imported=True)
    ['build', 'packed']
    """
    found: set[str] = set()
    for stage in STAGES.values():
        made_from = {name for group in stage.made_from for name in group}
        if not stage.within and (stage.command == command or found & made_from):
            found.add(stage.name)
    found |= {stage.name for stage in STAGES.values() if _get_maker(stage, is_imported) in found}
    return [BUILD, *(name for name in reversed(STAGES) if name in found)]


def _get_maker(stage: Stage[Any], is_imported: bool) -> str:
    """The stage whose work commits this one: itself, for most. Where the tokenizer is imported, nothing is counted."""
    return stage.within[is_imported] if stage.within else stage.name


_SHA256 = re.compile("[0-9a-f]{64}")


def parse_manifest(data: bytes, name: str, stage: Stage[Made] | None = None, packed_bytes: int = PACKED_BYTES) -> Made:
    """The manifest in these bytes, of this stage; of the one that it names if none is given. name: the file's.

    packed_bytes: from this size on, its files are packed. Raises FormatError, naming the field, unless it is what
    tokcore writes for this stage; VersionError for a newer format, ChecksumError for a false root.
    """
    if stage is not None and len(data) >= packed_bytes:
        return parse_long_manifest(lambda: [data], name, stage)
    return _parse(data, name, stage)


def parse_long_manifest(read: Callable[[], Iterable[bytes]], name: str, stage: Stage[Made]) -> Made:
    """As parse_manifest, of bytes in parts: no more than one is held. read: gives them all, from the beginning."""
    with contextlib.suppress(FormatError, ValueError):  # read whole, it says what is wrong
        rest, files = pack_entries(read(), get_args(stage.manifest)[3], name)
        return _parse(rest, name, stage, files)
    return _parse(b"".join(read()), name, stage)


def _parse(data: bytes, name: str, stage: Stage[Made] | None, files: PackedEntries | None = None) -> Made:
    """files: those of the manifest, if they are not in data."""
    value = parse_canonical(data, name)
    require_version(value, name, MANIFEST_FORMAT, *MANIFEST_VERSIONS)
    found = value.get("stage")
    if type(found) is not str or found not in ([stage.name] if stage else [*STAGES, BUILD]):
        raise Place(name, "stage").error(repr(stage.name) if stage else f"one of {', '.join([*STAGES, BUILD])}", found)
    manifest: Made = from_jsonable((stage or get_stage(found)).manifest, value, name)
    for made_from, one in manifest.inputs.items():
        if not _SHA256.fullmatch(one.content_sha256):
            raise Place(name, f"inputs.{made_from}.content_sha256").error("a sha256", one.content_sha256)
    if to_jsonable(manifest) != value:
        raise FormatError(f"{name}: not a manifest as tokcore writes it: a field is missing, or says nothing")
    if files is not None:
        manifest = dataclasses.replace(manifest, files=cast(Any, files))
    if manifest.root and manifest.root != manifest.content_id():
        raise ChecksumError(f"{name}: its root is {manifest.root}, its content gives {manifest.content_id()}")
    return manifest
