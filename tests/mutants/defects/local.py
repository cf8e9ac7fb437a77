"""Defects in the processes of one machine."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "retries-of-workers-lost",
        "what workers try again is not counted",
        "Pool._hear",
        "count_retry(value)  # this process counts for all",
        "pass",
        in_tests("stores/test_trouble.py::test_a_busy_store_costs_the_requests_that_it_refused"),
    ),
    Defect(
        "work-in-the-driver",
        "an engine is told to hand the work back to threads of the driver",
        "make_engine_options",
        'options += ["--environment_type=PROCESS", f"--environment_config={json.dumps({\'command\': command})}"]',
        'options += ["--environment_type=LOOPBACK" if command else ""]',
        in_tests("pipelines/test_jobs.py::test_what_is_measured_on_an_engine"),
    ),
    Defect(
        "work-in-the-driver-on-flink",
        "Flink is told to hand the work back to threads of the driver",
        "make_engine_options",
        'options += ["--environment_type=PROCESS", f"--environment_config={json.dumps({\'command\': command})}"]',
        'options += ["--environment_type=LOOPBACK" if command else ""]',
        in_tests("engines/test_flink.py::test_the_demo"),
    ),
    Defect(
        "staged-main-session",
        "Beam stages the driver's main module, which workers of Dataflow would have to fetch",
        "make_dataflow_options",
        ', "--no_save_main_session"]',
        "]",
        in_tests("pipelines/test_dataflow.py::test_graphs_as_dataflows_runner_translates_them"),
    ),
    Defect(
        "learning-where-it-does-not-fit",
        "the machine that learns is chosen by its whole memory",
        "_usable",
        "return max(0, int(size_bytes * _SHARE) - _RESERVED)",
        "return size_bytes",
        in_tests("pipelines/test_dataflow.py::test_the_machine_that_learns_has_the_memory"),
    ),
    Defect(
        "lifeline-not-watched",
        "workers do not notice that their driver is gone",
        "__main__",
        "threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()",
        "",
        in_tests("pipelines/test_pool.py::test_workers_end_with_their_driver"),
    ),
    Defect(
        "dead-worker-not-named",
        "the message does not say which worker died of what",
        "Pool._bury",
        "self._obituary = worker.obituary()",
        "self._obituary = 'a worker died'",
        in_tests("pipelines/test_pool.py::test_a_killed_worker_is_named_and_nothing_hangs"),
    ),
    Defect(
        "control-characters-said",
        "what is said reaches the terminal as it is",
        "say",
        "shown = [_escape_colored(line) if colored else escape(line) for line in lines]",
        "shown = list(lines)",
        in_tests("test_said.py::test_the_door"),
    ),
    Defect(
        "threads-waited-for",
        "a thread that does not begin is waited for without a limit",
        "_Started.wait",
        "if not super().wait(START_SECONDS if timeout is None else timeout):",
        "if not super().wait(timeout):",
        in_tests("pipelines/test_small_memory.py::test_a_thread_that_does_not_begin_is_no_wait_for_ever"),
    ),
)
