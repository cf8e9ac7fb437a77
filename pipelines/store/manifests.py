"""Manifests of stages as workers read them: those that were there when the stage that is made from them began."""

from __future__ import annotations

from tokcore.errors import StageError
from tokcore.files.canonical_json import hash_sha256
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.stage_table import Made, Stage, parse_manifest


def read_manifest(output: str, stage: Stage[Made], sha256: str = "", meanwhile: str = "") -> Made:
    """The manifest of a finished stage. Raises StageError if it is gone, FormatError if it is damaged.

    sha256: of its file; "": any. Raises StageError if it is another one; meanwhile: what was done, for the message.
    """
    url = urls.join(output, stage.name, "manifest.json")
    data = storage.read_bytes(url)
    if sha256 and hash_sha256(data) != sha256:
        raise StageError(f"{redact(url)}: was replaced while {meanwhile}. Run the command again.")
    return parse_manifest(data, url, stage)
