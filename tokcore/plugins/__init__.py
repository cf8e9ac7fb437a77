"""What other distributions add: formats of shards, models, readers of input files, each by an entry point.

plugin_table: start here; a table of ours that also finds rows of others.
reader: what a reader must offer, and the table of readers.
"""
