"""The local runner's processes, and what a terminal shows of them.

pool: the parent's side. worker, lifeline: the child's side. run_options: how many of them, on which runner.
progress: rate and time left, on stderr.
"""
