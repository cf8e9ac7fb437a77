"""The worker processes of the local runner, and their progress on the terminal.

pool: the parent's side. worker, lifeline: the child's side. run_options: the number of workers, and the runner.
progress: rate and time left, on stderr.
"""
