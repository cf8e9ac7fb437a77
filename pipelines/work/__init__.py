"""What a worker does with one work item. No Beam: worker processes import only this.

item_reader: the documents of a work item, with its ledgers.
count_item, encode_item, decode_item: count it, tokenize it, compare its shards with its sources.
runs: the sorted runs that workers write, read back and merge.
"""
