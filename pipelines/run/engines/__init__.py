"""The Beam graphs. Only this folder and transforms/ import Beam.

task_graph: the graph of a step, one shape for all stages. spread_items: pieces of work to all workers. merge_graph:
runs of counts, added up. coders: how elements are encoded.
runner: opens a pipeline for a stage_on_beam, on the chosen runner. beam_warnings: what Beam warns of.
bind: where servers listen that Beam starts.
boot_worker: the program tokcore-worker, which engines start. boot_plugin: where Beam's boot starts workers.
serve_engine: what such a worker does then. earlier_names: what graphs of earlier releases name.
driver_options: what a driver tells them.
engine_jobs, dataflow_engine: a stage as a job of an engine. jobs, flink_jobs, dataflow_jobs: found again and
cancelled. watch_job: until it ends.
stream_graph: the stream of `tokcore watch --streaming`. stream_job: the job that runs it, and its checkpoints;
dataflow_stream: on Dataflow.
recorded: how far it is. shorten_failure: why it failed, in one line.
across: errors of workers, as the driver gets them. measure: Beam metrics.
"""
