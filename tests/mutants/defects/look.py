"""Defects in what shows an output."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "cuts-not-lined-up",
        "a row of cuts side by side ends before the token that ends there",
        "line_up_cuts",
        "bisect_right(one, place)",
        "bisect_right(one, place - 1)",
        in_tests("pipelines/test_cli.py::test_tokenize_side_by_side"),
    ),
    Defect(
        "each-range-a-source",
        "each range of a file that was cut counts as a source of its own",
        "find_top_sources",
        "if not ranges_left[r.file] and (whole :=",
        "if (whole :=",
        in_tests("pipelines/test_token_counts.py::test_table_and_top_sources_are_what_the_shards_hold"),
    ),
    Defect(
        "last-of-equal-sources",
        "of files that have an id equally often, the last one is named",
        "_Tops.add",
        "(counts == count_before) & (file < file_before)",
        "(counts == count_before) & (file > file_before)",
        in_tests("pipelines/test_token_counts.py::test_table_and_top_sources_are_what_the_shards_hold"),
    ),
    Defect(
        "commits-compared-with-the-newest",
        "diff reads the counts of the newest commit, whichever is asked for",
        "_diff_counts",
        "open_counts(side.url, lang, at=side.number)",
        "open_counts(side.url, lang)",
        in_tests("pipelines/test_commands_at.py::test_an_update_brings_inputs_documents_and_counts"),
    ),
    Defect(
        "sides-swapped",
        "diff says of A what is true of B",
        "diff",
        "a, b = _open_side(one), _open_side(other)",
        "b, a = _open_side(one), _open_side(other)",
        in_tests("pipelines/test_diff.py::test_other_settings"),
    ),
)
