"""The names by which our packages were imported until they got names that nobody else has: graphs of jobs hold them.

A driver of an earlier release that is as good as this one may have submitted the graph, and engines keep it: Flink in a
savepoint, Dataflow in a job that it starts again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tokcore.earlier_names import alias, find_renamed_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

_EARLIER = {"pipelines": "tokcore_pipelines", "schemas": "tokcore_schemas"}
# Below pipelines: the earlier name -> the name now, of modules and of rooms. What checks, reports, views and slices do
# has no part in a graph.
_MOVED = {
    "graph.across": "run.engines.across",
    "graph.beam_warnings": "run.engines.beam_warnings",
    "graph.bind": "run.engines.bind",
    "graph.boot_plugin": "run.engines.boot_plugin",
    "graph.boot_worker": "run.engines.boot_worker",
    "graph.checks": "transforms.checks",
    "graph.coders": "run.engines.coders",
    "graph.dataflow_engine": "run.engines.dataflow_engine",
    "graph.dataflow_jobs": "run.engines.dataflow_jobs",
    "graph.dataflow_stream": "run.engines.dataflow_stream",
    "graph.driver_options": "run.engines.driver_options",
    "graph.earlier_names": "run.engines.earlier_names",
    "graph.engine_jobs": "run.engines.engine_jobs",
    "graph.flink_jobs": "run.engines.flink_jobs",
    "graph.jobs": "run.engines.jobs",
    "graph.measure": "run.engines.measure",
    "graph.merge_graph": "run.engines.merge_graph",
    "graph.read_documents": "transforms.read_documents",
    "graph.recorded": "run.engines.recorded",
    "graph.runner": "run.engines.runner",
    "graph.serve_engine": "run.engines.serve_engine",
    "graph.shorten_failure": "run.engines.shorten_failure",
    "graph.spread_items": "run.engines.spread_items",
    "graph.stage_on_beam": "run.engines.stage_on_beam",
    "graph.stream_graph": "run.engines.stream_graph",
    "graph.stream_job": "run.engines.stream_job",
    "graph.task_graph": "run.engines.task_graph",
    "graph.transforms": "transforms.transforms",
    "graph.watch_job": "run.engines.watch_job",
    "graph.write_shards": "transforms.write_shards",
    "stages.build": "build.build",
    "stages.commit": "build.commit",
    "stages.compact_output": "history.compact_output",
    "stages.count_corpus": "build.count_corpus",
    "stages.dataset_card": "build.dataset_card",
    "stages.encode_commit": "history.encode_commit",
    "stages.encode_corpus": "build.encode_corpus",
    "stages.expire_commits": "history.expire_commits",
    "stages.find_quoted": "history.find_quoted",
    "stages.find_removed": "history.find_removed",
    "stages.finish": "build.finish",
    "stages.guess_fields": "build.guess_fields",
    "stages.held_files": "history.input_files_held",
    "stages.inherit": "build.inherited_items",
    "stages.item_steps": "build.item_steps",
    "stages.kept_parts": "build.cached_parts",
    "stages.learn_beside": "history.learn_beside",
    "stages.learn_settings": "build.learn_settings",
    "stages.ledger": "build.ledger",
    "stages.make_commit": "history.make_commit",
    "stages.make_tokenizer": "build.make_tokenizer",
    "stages.mix_corpus": "build.mix_corpus",
    "stages.named_documents": "history.named_documents",
    "stages.named_files": "build.missing_files",
    "stages.output": "build.output",
    "stages.pack_corpus": "build.pack_corpus",
    "stages.plan_corpus": "build.plan_corpus",
    "stages.read_log": "build.read_log",
    "stages.recognition": "build.finished_build",
    "stages.reject_causes": "build.reject_causes",
    "stages.rejects": "build.rejects",
    "stages.remove_documents": "history.remove_documents",
    "stages.replacing": "build.replace_stages",
    "stages.restore_documents": "history.restore_documents",
    "stages.restored_files": "history.restored_files",
    "stages.reuse": "build.reuse_output",
    "stages.samples": "build.samples",
    "stages.settle_languages": "build.settle_languages",
    "stages.small_parts": "history.small_parts",
    "stages.source_checks": "build.source_checks",
    "stages.stage": "build.stage",
    "stages.standing": "build.existing_output",
    "stages.stored": "build.stored",
    "stages.stored_config": "build.stored_config",
    "stages.suggest_fixes": "build.suggest_fixes",
    "stages.table": "build.table",
    "stages.tell_workers": "build.inherited_records",
    "stages.token_count_table": "build.token_count_table",
    "stages.tokenizer_files": "build.tokenizer_files",
    "stages.tokenizers_beside": "build.tokenizers_beside",
    "stages.update_output": "history.update_output",
    "stages.whole_checks": "build.whole_checks",
    "store.at_once": "store.parallel_requests",
    "store.main_files": "store.stored_shards",
    "store.pinned_files": "store.pinned_inputs",
    "watch.begin": "watch.begin_output",
    "watch.blame": "watch.blamed_files",
    "watch.hints": "watch.queue_messages",
    "watch.looks": "watch.reach_of_looks",
    "watch.marked": "watch.marker_files",
    "watch.turn": "watch.watcher_turns",
    "work.added_up": "work.summed_totals",
    "work.leaving": "work.left_out_documents",
    "work.thin_shards": "work.shards_without_removed",
}
_ROOMS = {
    "graph": "run.engines",
    "stages": "build",
}

_NAME = "tokcore_pipelines"


class _MovedModules:
    """Finds modules and rooms of pipelines by the names that they had. None of these is anybody's name now."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None = None, _target: Any = None) -> ModuleSpec | None:
        package, _, inner = name.partition(".")
        if package == _NAME and (now := _MOVED.get(inner) or _ROOMS.get(inner)):
            return alias(name, f"{_NAME}.{now}")
        return None


def read_earlier_names() -> None:
    """Let this process, a worker, find what such a graph names."""
    for earlier, name in _EARLIER.items():
        find_renamed_package(earlier, name)
    # First: below a room by its earlier name, Python would find a second copy of each module.
    sys.meta_path.insert(0, _MovedModules)
