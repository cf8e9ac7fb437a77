"""Which release's semantics the identity of a manifest follows from: this one's, or an earlier one's. No Beam."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tokcore.errors import VersionError
from tokcore_pipelines.build.commit import MANIFEST
from tokcore_pipelines.work.semantics import EARLIER, SEMANTICS, has_these_layouts
from tokcore_schemas.manifest import AnyManifest, Input, compute_identity
from tokcore_schemas.stage_table import BUILD, STAGES

# Of this release, and of those that laid out their files like it.
KNOWN = (SEMANTICS, *filter(has_these_layouts, EARLIER))


def compute_identity_under(semantics: Mapping[str, Any], made: AnyManifest) -> str:
    """The identity that a release of these semantics gives to the stage."""
    inputs = {"files": Input(made.files[0].sha256, "")} if _pins_files(made) else made.inputs
    return compute_identity(made.stage, made.config, inputs, semantics, made.format_version)


def _pins_files(made: AnyManifest) -> bool:
    """Whether the table of files is an input that only the stage's identity knows."""
    return made.stage != BUILD and not STAGES[made.stage].made_from and bool(made.files)


def is_of_this_release(made: AnyManifest) -> bool:
    """Whether this release gives the stage the same identity. Another may have found other words and bytes."""
    return made.identity == compute_identity_under(SEMANTICS, made)


def find_semantics(manifests: Collection[AnyManifest]) -> Mapping[str, Any]:
    """The semantics that most identities follow from.

    Raises VersionError if they are those of a release that laid out its files in another way.
    """

    def count_others(semantics: Mapping[str, Any]) -> int:
        return sum(made.identity != compute_identity_under(semantics, made) for made in manifests)

    if any(not has_these_layouts(one) and not count_others(one) for one in EARLIER):
        raise VersionError(
            f"{MANIFEST}: an earlier release made this build, with files of another layout. "
            f"Verify it with that release, or build again into a new output."
        )
    return min(KNOWN, key=count_others)
