"""Rows for training, out of token shards.

loader: batches of rows: start here. row_order: its shuffle and mixtures. row_streams: the shards that it reads.
removed_documents: what a later commit took away of them.
document_shares: how often documents come. packing: which documents share a row. packed_rows: rows with their ids.
weights_file: weights that stand in a file.
"""
