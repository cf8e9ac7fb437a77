"""The learn stage: from count tables to a tokenizer, or an existing one taken over."""

from __future__ import annotations

import numpy as np

from pipelines.stages.commit import find_manifest, require_manifest
from pipelines.stages.learn_model import Learned, learn_tokenizer
from pipelines.stages.stage import BuildRun, Made, StageKey, run_stage, write_file
from pipelines.stages.tokenizer_files import make_artifact_files
from pipelines.store.attempts import Attempts
from pipelines.store.crashpoints import reach
from schemas.stage_manifests import (
    ImportedConfig,
    LearnedConfig,
    MixedLanguage,
    Nothing,
    TokenizerManifest,
    TokenizerTotals,
)
from tokcore.tokenizer_spec import TokenizerSpec


def make_tokenizer(run: BuildRun, imported: TokenizerSpec | None) -> TokenizerManifest:
    """Learn the tokenizer from the output's count tables; imported: take this one instead.

    Raises ConfigError if there are no count tables yet, LearnError if they cannot give the vocabulary.
    """
    key = make_tokenizer_key(run, imported)
    counts = find_manifest(run.output, "counts")

    def make(attempts: Attempts) -> Made[TokenizerTotals, MixedLanguage, Nothing]:
        merges_done = np.zeros(1, np.int64)
        num_merges = 0 if imported is not None else max(0, run.config.vocab_size - len(run.config.special) - 256)
        with run.progress.stage("learn", num_merges, "merges", watch=lambda: int(merges_done[0])):
            reach("learn.begin")
            if imported is None:
                assert counts is not None  # the key is made from it
                learned = learn_tokenizer(
                    run.config, run.output, counts, run.options.num_workers, run.progress, merges_done
                )
            else:
                learned = Learned(imported, {}, {})
            reach("learn.learned")
        return _write(learned, attempts)

    return run_stage(run, key, make)


def make_tokenizer_key(run: BuildRun, imported: TokenizerSpec | None) -> StageKey[LearnedConfig | ImportedConfig]:
    """What the tokenizer is made from. Raises ConfigError if it is to be learned, and there are no count tables yet."""
    config = run.config.learn_identity()
    if imported is None:
        return StageKey("tokenizer", config, {"counts": require_manifest(run.output, "counts", "count").as_input()})
    assert isinstance(config, ImportedConfig)
    return StageKey("tokenizer", ImportedConfig.of(imported), {})


def _write(learned: Learned, attempts: Attempts) -> Made[TokenizerTotals, MixedLanguage, Nothing]:
    spec = learned.spec
    files = [write_file(attempts, path, data) for path, data in make_artifact_files(spec)]
    return Made(
        [(file, Nothing()) for file in sorted(files, key=lambda file: file.path)],
        TokenizerTotals(spec.fingerprint, spec.vocab_size, learned.mix, **spec.model.facts()),
        learned.languages,
    )
