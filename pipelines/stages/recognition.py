"""A finished build is known by its build file: its inputs are not listed again where that costs requests to a store.

What is compared: every setting of the build file, patterns included, with what run.json of the output says; and the
manifests with the settings, as for every build. What the patterns match by now is not looked at: `tokcore check` is.
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
    """The manifest of a finished build of this build file, whose inputs need not be looked at; None if they do.

    They do where a disk holds some of them, which costs no requests. Raises StageError if a file of it is gone.
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
