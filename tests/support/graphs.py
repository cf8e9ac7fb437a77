"""All of our Beam graphs: those that a build runs, and those of the transforms for users' own pipelines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from support.builds import ON_BEAM, SETTINGS, build_file, run, small_corpus, texts
from support.vocabularies import spec_of_merges

import tokcore
from tokcore.tokenizer.tokenizer_spec import SpecialToken
from tokcore_pipelines import ChunkDocuments, CountPretokens, EncodeDocuments, ReadDocuments, WriteShards
from tokcore_pipelines.build.item_steps import count_steps, encode_steps, gather_steps, scatter_steps
from tokcore_pipelines.build.make_tokenizer import learn_steps
from tokcore_pipelines.run.beam import make_graph
from tokcore_pipelines.run.engines.stream_graph import FollowSources
from tokcore_pipelines.run.engines.task_graph import RunTasks
from tokcore_pipelines.run.task import Step
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.watch.stream_steps import StreamSteps
from tokcore_pipelines.work.count_item import CountJob
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.gather_part import DealtRuns
from tokcore_pipelines.work.learn_on_worker import LearnJob
from tokcore_pipelines.work.make_jobs import make_count_job, make_encode_job
from tokcore_schemas import Document
from tokcore_schemas.config import load_config
from tokcore_schemas.plan import Plan
from tokcore_schemas.stage_manifests import CountsConfig, ShardsConfig

MIXED_AND_PACKED = "[shuffle]\nseed = 7\n[mixture]\nstrategy = 'natural'\n[pack]\nlength = 64\n"
DOCUMENTS = [Document(lang, f"{lang}-{i}", text) for lang in ("en", "ru") for i, text in enumerate(texts(lang, 20))]


def learned() -> tokcore.Tokenizer:
    merges = tokcore.learn_bpe(tokcore.count_pretokens([d.text for d in DOCUMENTS]), vocab_size=300)
    return tokcore.Tokenizer(spec_of_merges(merges, {"name": "cl100k"}, (), [SpecialToken("<|end|>", None)]))


def make_jobs(attempts: Attempts) -> tuple[CountJob, EncodeJob]:
    """What the workers of both stages are told, with settings of no importance."""
    counts = CountsConfig(1024, "1", (), {"name": "gpt2"})
    shards = ShardsConfig(("arrow",), 1 << 20, "plan", "0", "zstd", (), "ordinary")
    spec = learned().spec
    return (
        make_count_job(counts, attempts, "/base", 1, 1 << 20),
        make_encode_job(shards, attempts, "/base", "/tokcore.json", "0" * 64, spec),
    )


def make_tasks(stage: str, attempts: Attempts, plan: Plan, parts: list[str]) -> RunTasks:
    """The graph of the first step of a stage over the files of these names. gather: the second pass of a shuffle."""
    count_job, encode_job = make_jobs(attempts)
    steps: dict[str, Callable[[], Generator[Step, bool, Any]]] = {
        "count": lambda: count_steps(plan, count_job),
        "encode": lambda: encode_steps(plan, encode_job),
        "scatter": lambda: scatter_steps(plan, encode_job),
        "gather": lambda: gather_steps(plan, encode_job, DealtRuns(), 1 << 20),
    }
    return make_graph(next(steps[stage]()), attempts, parts)


def every_graph(folder: Path) -> list[beam.Pipeline]:
    """The pipelines of two builds, which are run, and one that is not: public transforms, counts in a store, learning,
    a stream.

    The first build has a pipeline to count, to learn and to encode. The second one is shuffled, mixed and packed: one
    more for the shuffle and the rows, two for the mixture.
    """
    found: list[beam.Pipeline] = []
    run_pipeline = beam.Pipeline.run

    def kept(pipeline: beam.Pipeline, *arguments: object, **options: object) -> object:
        found.append(pipeline)
        return run_pipeline(pipeline, *arguments, **options)

    small_corpus(folder)
    with mock.patch.object(beam.Pipeline, "run", kept):
        run(build_file(folder), folder / "graphs", runner=ON_BEAM)
        run(build_file(folder, settings=f"{SETTINGS}{MIXED_AND_PACKED}"), folder / "shuffled", runner=ON_BEAM)
    own = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"]))
    _ = own | "Documents" >> beam.Create(DOCUMENTS, reshuffle=False) | "Count" >> CountPretokens(str(folder))
    _ = own | "More" >> beam.Create(DOCUMENTS, reshuffle=False) | "Encode" >> EncodeDocuments(learned())
    _ = (
        own
        | "Whole" >> beam.Create(DOCUMENTS, reshuffle=False)
        | "Chunk" >> ChunkDocuments(learned(), tokens=8, overlap=0)
    )
    read = own | "Read" >> ReadDocuments("en.jsonl.zst", str(folder), lang="en")
    _ = read.documents | "Write" >> WriteShards(str(folder / "written"), learned())
    attempts = Attempts("s3://bucket/out", "counts", "0" * 64)
    _ = own | "CountInAStore" >> make_tasks("count", attempts, Plan((), (), (), ()), ["part"])
    job = LearnJob(attempts, load_config(str(build_file(folder))), (300,), ((str(folder), "0" * 64),))
    _ = own | "Learn" >> make_graph(next(learn_steps(job)), attempts, ["part"])
    steps = StreamSteps(load_config(str(build_file(folder))), str(folder / "graphs"))
    _ = own | "FollowSources" >> FollowSources(steps, 1, 2, 3)
    return [*found, own]


def list_creates(graph: beam.Pipeline) -> list[beam.Create]:
    """The transforms of a graph that carry values in it."""
    found: list[beam.Create] = []

    class Creates(PipelineVisitor):  # type: ignore[misc]
        def enter_composite_transform(self, node: Any) -> None:
            if isinstance(node.transform, beam.Create):
                found.append(node.transform)

    graph.visit(Creates())
    return found
