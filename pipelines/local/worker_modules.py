"""What worker processes import at once, while the driver imports what hands them work. Imports nothing itself."""

WORKER_MODULES = (
    "tokcore_pipelines.work.count_item",
    "tokcore_pipelines.work.encode_item",
    "tokcore_pipelines.work.gather_part",
    "tokcore_pipelines.work.mix_part",
    "tokcore_pipelines.work.pack_group",
)
