"""The Beam graphs. The only folder that imports Beam.

launch: runs the count, the encode and the pack stage. runner: opens a pipeline on the chosen runner.
spread_items: work items to all workers. count_graph, encode_graph, pack_graph: the transforms of a stage.
collect_graph: records of many work items into one object.
coders: how their elements are encoded.
bind: where servers listen that Beam starts.
boot_worker: the program tokcore-worker, which engines start. driver_options: what a driver tells it.
read_documents, transforms, write_shards: for pipelines of your own. checks: what they ask of their input.
jobs: those of an engine, found again and cancelled.
across: errors of workers, as the driver gets them. measure: Beam metrics.
"""
