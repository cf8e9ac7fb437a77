"""A finished build is known by its build file: its inputs are not listed again where that costs requests to a store.

It is known if its run.json has the hash of the same settings, patterns included, and if its manifests agree with the
settings, as in every build. What the patterns match by now is not looked at; `tokcore check` does that.
"""

from __future__ import annotations

from typing import cast

from pipelines.stages.commit import read_run_facts
from pipelines.stages.named_files import require_files
from pipelines.stages.standing import look
from pipelines.store import storage, urls
from pipelines.store.attempts import FOLDER
from schemas.config import BuildConfig
from schemas.stage_manifests import BUILD, BuildManifest
from tokcore.tokenizer_spec import TokenizerSpec


def find_finished(output: str, config: BuildConfig, imported: TokenizerSpec | None) -> BuildManifest | None:
    """The manifest of the finished build of this build file; None if there is none, or if its inputs must be listed.

    Inputs on disks are always listed, for that costs no requests. Raises StageError if a file of the build is gone.
    """
    patterns = [urls.resolve(config.base, pattern) for source in config.sources for pattern in source.files]
    if any(urls.is_local(pattern) for pattern in patterns):
        return None
    if read_run_facts(output, BUILD).settings != config.hash_settings():
        return None
    if storage.list_tree(urls.join(output, FOLDER)):
        return None  # it was killed before it had removed its working files, or another build is at work
    there = look(output, config, imported, None)
    finished = there.found.get(BUILD)
    if finished is None or there.differences:
        return None
    for made in there.found.values():
        require_files(output, made)
    return cast(BuildManifest, finished)
