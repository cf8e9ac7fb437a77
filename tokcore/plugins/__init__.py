"""What other distributions add: formats of shards, models, readers of input files, steps of [[map]], by entry points.

plugin_table: start here; a table of ours that also finds rows of others.
reader: what a reader must offer, and the table of readers.
map_step: the same of steps of [[map]]. map_code: which code one is. map_outcome: what one makes of a batch.
"""
