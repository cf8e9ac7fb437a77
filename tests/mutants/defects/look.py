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
    Defect(
        "judged-on-searched-lines",
        "premiums of a search are judged on the lines that it searched",
        "_Search.measure",
        "for first in (0, 1)",
        "for first in (0, 0)",
        in_tests("pipelines/test_mix_search.py::test_premiums_are_searched_on_odd_lines_and_judged_on_even_ones"),
    ),
    Defect(
        "tables-weighed-alike-in-a-search",
        "a search measures tokenizers that were learned without its weights",
        "_Search.use_weights",
        "mix=make_weighted(self.config.mix, weights)",
        "mix=self.config.mix",
        in_tests("pipelines/test_mix_search.py::test_what_is_said_of_each_mix_is_what_a_build_with_it_gives"),
    ),
)
