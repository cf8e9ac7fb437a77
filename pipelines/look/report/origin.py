"""Where a build came from: root, identities, inputs, versions, and the receipt of its mixture."""

from __future__ import annotations

from typing import Any

from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build.commit import find_manifests, read_run_facts
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.store.pinned_inputs import read_pinned_files
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.stage_table import BUILD, PLAN, STAGES, WHOLE

_MOST_INPUTS = 1000


def tell_origin(output: Output) -> dict[str, Any]:
    """Of the build and of each stage its identity and content id; inputs, versions, and how languages were mixed.

    Root and inputs are those of the commit.
    """
    made = find_manifests(output.url, (*STAGES.values(), WHOLE))
    pinned = (file for part in output.parts for file in read_pinned_files(part.url)) if PLAN.name in made else ()
    files = sorted(pinned, key=lambda file: file.uri)
    run = read_run_facts(output.url, BUILD)
    build = output.add_up_build()
    tokenizer = made.get("tokenizer")  # none of shards that WriteShards made
    return {
        "root": build.root,
        "commit": output.number,
        "stages": {
            stage: {"identity": one.identity, "content": one.content_id(), "files": len(one.files)}
            for stage, one in made.items()
        },
        "inputs": {
            "files": len(files),
            "stored_bytes": sum(file.size_bytes for file in files),
            "first": [
                {"uri": redact(file.uri), "stored_bytes": file.size_bytes, "version": file.version}
                for file in files[:_MOST_INPUTS]
            ],
        },
        "versions": {"python": run.python, "kernel": run.kernel, **dict(sorted(run.packages.items()))},
        "finished": run.finished,
        "name": run.name,
        "tokenizer_settings": to_jsonable(tokenizer.config if tokenizer is not None else build.config.tokenizer),
        "shard_settings": to_jsonable(made["shards"].config),
        "mixture": to_jsonable(tokenizer.totals.mix) if tokenizer is not None else {},
        "mix_levels": to_jsonable(tokenizer.totals.levels or {}) if tokenizer is not None else {},
    }
