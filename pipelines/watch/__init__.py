"""`tokcore watch`: an output that follows its sources, in small commits, until it is told to stop.

service.py is the loop, over history/update_output.py. look_at_sources.py looks, for it and for streams;
reach_of_looks.py decides how much a look lists, and known_files.py keeps what was listed before; notifications.py
listens to queues (queues.py), whose messages queue_messages.py reads. waiting_files.py decides which files make the
next batch; marker_files.py looks for their markers, blamed_files.py says whose fault a failure is, and quarantine.py
keeps files that fail again and again. drift.py measures whether the tokenizer still fits what lands, and drift_watch.py
reports it. watcher_turns.py lets one of several watchers commit. begin_output.py begins an output without documents.
meters.py has the numbers for Prometheus, pages.py serves them, and read_status.py reads what watchers say of
themselves. signals.py turns signals into wishes. With --streaming, stream.py drives the job of an engine, whose workers
do what stream_steps.py says; stream_notes.py is what it leaves beside the output.
"""
