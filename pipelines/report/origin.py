"""Where a build came from: root, identities, inputs, versions, and the receipt of its mixture."""

from __future__ import annotations

from typing import Any

from pipelines.stages.commit import find_manifests, read_run_facts
from pipelines.stages.plan_corpus import read_plan
from pipelines.store.redaction import redact
from schemas.stage_manifests import BUILD, STAGES
from tokcore.jsonable import to_jsonable

_MOST_INPUTS = 1000


def tell_origin(output: str) -> dict[str, Any]:
    """Of the build and of each stage its identity and content id; inputs, versions, and how languages were mixed."""
    made = find_manifests(output, (*STAGES, BUILD))
    plan = read_plan(output, made["plan"])
    run = read_run_facts(output, BUILD)
    tokenizer = made["tokenizer"]
    return {
        "root": made[BUILD].root,
        "stages": {
            stage: {"identity": one.identity, "content": one.content_id(), "files": len(one.files)}
            for stage, one in made.items()
        },
        "inputs": {
            "files": len(plan.files),
            "stored_bytes": sum(file.size_bytes for file in plan.files),
            "first": [
                {"uri": redact(file.uri), "stored_bytes": file.size_bytes, "version": file.version}
                for file in plan.files[:_MOST_INPUTS]
            ],
        },
        "versions": {"python": run.python, "kernel": run.kernel, **dict(sorted(run.packages.items()))},
        "finished": run.finished,
        "name": run.name,
        "tokenizer_settings": to_jsonable(tokenizer.config),
        "shard_settings": to_jsonable(made["shards"].config),
        "mixture": to_jsonable(tokenizer.totals.mix),
    }
