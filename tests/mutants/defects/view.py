"""Defects in the view."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "host-not-checked",
        "view answers whatever name leads to it",
        "_Handler._admit",
        "if len(hosts) != 1 or hosts[0] not in self.server.hosts:",
        "if len(hosts) != 1:",
        in_tests("pipelines/test_view.py::test_who_may_not_ask_is_refused"),
    ),
    Defect(
        "origin-not-checked",
        "view answers pages of other sites",
        "_Handler._admit",
        "if any(origin.removeprefix",
        "if False and any(origin.removeprefix",
        in_tests("pipelines/test_view.py::test_who_may_not_ask_is_refused"),
    ),
    Defect(
        "twins-by-number-alone",
        "view compares documents with the same number, whatever their records are",
        "_find_twin",
        "and is_same_record(wanted, shards.document(place)):",
        "and shards.document(place).source:",
        in_tests("pipelines/test_view.py::test_twins_in_another_order_and_with_other_texts"),
    ),
)
