"""Learning as a piece of work of an engine's worker: count tables in, tokenizers and how they came to be out. No Beam.

The driver of an engine needs no kernel for it, and need not have the memory that learning takes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.local.cores import count_cores
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.counted_parts import Pins, read_pinned_parts
from tokcore_pipelines.work.learn_memory import find_row_bytes
from tokcore_pipelines.work.learn_model import Learned, learn_tokenizers
from tokcore_pipelines.work.mix_by_level import Levels
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.stage_manifests import MixedLanguage

LEARNED_KEY = "learned"  # of the record
_WORKER_BYTES = 400_000_000  # of memory, beside what learning takes


@dataclasses.dataclass(frozen=True, slots=True)
class LearnJob:
    """What the worker needs to know."""

    attempts: Attempts
    config: BuildConfig
    sizes: tuple[int, ...]  # as learn.vocab_size has them
    counted: Pins  # the count tables


@dataclasses.dataclass(frozen=True, slots=True)
class LearnedFiles:
    """The record of a finished piece of learning."""

    specs: dict[str, StoredFile]  # by the vocab_size that was asked for; each a tokcore.json
    mix: dict[str, Any]
    languages: dict[str, MixedLanguage]
    levels: Levels | None = None


def estimate_memory(config: BuildConfig, num_rows: int, pretoken_bytes: int) -> int:
    """Bytes of memory that learning takes, about. num_rows, pretoken_bytes: of all count tables."""
    return _WORKER_BYTES + find_row_bytes(config, num_rows, pretoken_bytes) * num_rows


def learn_on_worker(job: LearnJob, key: str = LEARNED_KEY) -> LearnedFiles:
    """Learn with all cores that this process may use; record it as key. Raises LearnError as learn_tokenizers does."""
    if (done := job.attempts.result(key, LearnedFiles)) is not None:
        return done
    counted = read_pinned_parts(job.counted)
    reach("learn.begin")
    learned = learn_tokenizers(job.config, job.sizes, counted, count_cores())
    reach("learn.learned")
    specs = {str(size): _keep(job.attempts, spec) for size, spec in learned.specs.items()}
    return job.attempts.record(key, LearnedFiles(specs, learned.mix, learned.languages, learned.levels))


def read_learned(attempts: Attempts, files: LearnedFiles) -> Learned:
    """What a worker learned. Raises FormatError for a file that is not what it wrote."""
    specs = {}
    for size, file in files.specs.items():
        url = attempts.url(file.attempt)
        specs[int(size)] = TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, file.sha256)
    return Learned(specs, files.mix, files.languages, files.levels)


def _keep(attempts: Attempts, spec: TokenizerSpec) -> StoredFile:
    with attempts.new_file("tokcore.json") as new:
        new.file.write(spec.to_json_bytes())
    return new.stored("")
