"""The worker processes of one machine, and what a build prints on a terminal.

pool: the parent's side. worker, lifeline: the child's side. worker_modules: what it imports at once.
free_memory: gives unused memory back to the system. spare_pandas: Arrow does not import pandas.
run_options: the number of workers, and the runner. cores, memory: how many this process may use, and how much of it.
control_groups: where the system sets such limits.
engines, dataflow: what [engine] says, as Beam's options.
extras: what builds need beyond the library. threads: those that cannot start, and too little memory.
say: the one door of what is printed.
progress: rate and time left, on stderr. open_files: how many a process may open.
terminal: text and tables that fit a terminal.
"""
