"""Our graphs as Dataflow's own runner translates them, without a service: a dry run."""

from __future__ import annotations

import re
from typing import Any, cast

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_runner_api_pb2
from support.graphs import make_tasks

from tokcore_pipelines.local.dataflow import make_dataflow_options
from tokcore_pipelines.run.engines.stream_graph import FollowSources
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.watch.stream_steps import StreamSteps
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.config import parse_config
from tokcore_schemas.plan import Plan

_WATCHED = 'version = 1\n[build]\noutput = "out"\n[[source]]\nlang = "en"\nfiles = "gs://tokcore-tests/*.jsonl"\n'
_LINE = re.compile(r"\.py:\d+")  # of Beam's own, which names a lambda by its place
ENGINE = EngineTable(
    name="dataflow",
    project="tokcore-tests",
    region="us-central1",
    staging="gs://tokcore-tests/staging",
    image="us-central1-docker.pkg.dev/tokcore-tests/tokcore/tokcore:0.1.0",
)


class _Large:
    """Stands for a plan of so many work items, none of which is looked at."""

    size_bytes = 1 << 40

    def __init__(self, num_items: int) -> None:
        self.items = range(num_items)


def translate(stage: str, parts: list[str], num_items: int) -> Any:
    """The job of a stage over these plan files, as it would be submitted: proto is the request, proto_pipeline the
    graph.
    """
    attempts = Attempts("gs://tokcore-tests/out", "counts" if stage == "count" else "shards", "0" * 64)
    options = [*make_dataflow_options(ENGINE), "--dry_run=True", "--no_auth", "--job_name=tokcore"]
    pipeline = beam.Pipeline(runner="DataflowRunner", options=PipelineOptions(options))
    if stage == "watch":
        pipeline.options.view_as(StandardOptions).streaming = True
        steps = StreamSteps(parse_config(_WATCHED, "gs://tokcore-tests/build.toml"), "gs://tokcore-tests/out")
        _ = pipeline | "FollowSources" >> FollowSources(steps, 10, 5, 30)
    else:
        plan = Plan((), (), (), ()) if stage == "gather" else cast("Plan", _Large(num_items))
        _ = pipeline | "RunTasks" >> make_tasks(stage, attempts, plan, parts)
    return pipeline.run().job


def describe(graph: beam_runner_api_pb2.Pipeline) -> dict[str, Any]:
    """What must not change by chance: names of steps, URNs of coders, environments."""
    environments = []
    for one in graph.components.environments.values():
        image = beam_runner_api_pb2.DockerPayload.FromString(one.payload).container_image
        environments.append({"urn": one.urn, "image": image, "dependencies": len(one.dependencies)})
    return {
        "steps": sorted(
            _LINE.sub(".py", one.unique_name) for one in graph.components.transforms.values() if one.unique_name
        ),
        "coders": sorted({one.spec.urn for one in graph.components.coders.values()}),
        "environments": environments,
    }
