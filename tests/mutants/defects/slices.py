"""Defects in slices."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "lost-slices-are-waited-for",
        "a slice that gives no sign of life is not taken for lost",
        "Presence.is_lost",
        "return _has_ended(seen) or seen.silent_s >= self.lease_s",
        "return _has_ended(seen)",
        in_tests("pipelines/test_slices.py::test_no_clock_of_another_host_is_read"),
    ),
    Defect(
        "claims-without-generations",
        "a claim of a lost slice is never taken over",
        "Claims.take",
        "generation = self._last.get(key, 0) + 1",
        "generation = 1",
        in_tests("pipelines/test_slices.py::test_each_claim_has_one_holder"),
    ),
    Defect(
        "turns-without-claims",
        "every slice learns and commits",
        "Session.take_turn",
        "if claims.take(TURN):",
        "if holder is None or claims.take(TURN):",
        in_tests("pipelines/test_slices.py::test_a_turn_is_taken_over"),
    ),
    Defect(
        "one-slice-does-all",
        "every slice takes all work items for its share",
        "Step.list_tasks",
        "owner = rank % of + 1 if self.is_dealt else 0",
        "owner = rank * 0 + 1 if self.is_dealt else 0",
        in_tests("pipelines/test_slices.py::test_all_passes_are_shared"),
    ),
    Defect(
        "own-claims-forgotten",
        "a slice that is started again does not go on with what it had claimed",
        "Claims.find_holder",
        'self._holders[key, last] = parse_canonical(data, url)["slice"]',
        'self._holders[key, last] = parse_canonical(data, url)["slice"] % self._share.of + 1',
        in_tests("pipelines/test_slices.py::test_each_claim_has_one_holder"),
    ),
)
