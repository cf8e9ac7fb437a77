"""Defects in the report."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "markup-not-escaped",
        "text of a corpus becomes HTML",
        "join",
        "child if isinstance(child, Html) else html.escape(child)",
        "child",
        in_tests("browser/test_report_page.py::test_a_hostile_corpus_stays_text"),
    ),
    Defect(
        "copies-not-counted",
        "a text that is drawn twice counts once",
        "_Draw.add",
        "known._replace(copies=known.copies + 1)",
        "known",
        in_tests("pipelines/test_report_numbers.py::test_copies"),
    ),
    Defect(
        "margin-of-a-sample-with-replacement",
        "margins leave out the correction for finite populations",
        "Drawing.estimate",
        "weights**2 * (1 - 1 / weights) * texts",
        "weights**2 * texts",
        in_tests("pipelines/test_report_numbers.py::test_an_estimate_by_hand"),
    ),
    Defect(
        "marks-leave-their-letters",
        "probes take marks for letters of their own",
        "cut_letters",
        "letters[-1] += character",
        "letters.append(character)",
        in_tests("pipelines/test_report_numbers.py::test_words_are_misspelled_by_one_edit"),
    ),
    Defect(
        "equal-letters-change-places",
        "a misspelled word may be the word itself",
        "misspell",
        "elif edit == 1 or first == second:",
        "elif edit == 1:",
        in_tests("pipelines/test_report_numbers.py::test_words_are_misspelled_by_one_edit"),
    ),
    Defect(
        "receipt-without-the-mixture",
        "the report shows the shares before mixing as those after it",
        "_read_receipts",
        "round(one.mixed_tokens / mixed, DIGITS) if mixed",
        "round(one.tokens / tokens, DIGITS) if mixed",
        in_tests("pipelines/test_report_numbers.py::test_the_receipt_of_a_mixture"),
    ),
    Defect(
        "calculator-of-bytes",
        "the calculator of the page takes bytes per token for tokens per word",
        "_select_numbers",
        'row["tokens_per_word"]["value"]',
        'row["bytes_per_token"]["value"]',
        in_tests("browser/test_report_page.py::test_the_calculator_says_what_the_table_says"),
    ),
)
