"""What worker processes import at once, while the driver imports what hands them work. Imports nothing itself."""

WORKER_MODULES = (
    "pipelines.work.count_item",
    "pipelines.work.encode_item",
    "pipelines.work.gather_part",
    "pipelines.work.mix_part",
    "pipelines.work.pack_group",
)
