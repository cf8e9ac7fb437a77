"""Beam transforms for pipelines of your own: `import tokcore_pipelines` gives them.

transforms: CountPretokens, EncodeDocuments. chunk_documents: ChunkDocuments. read_documents: ReadDocuments.
write_shards: WriteShards.
checks: what they ask of their input.
"""
