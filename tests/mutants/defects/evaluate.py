"""Defects in what `tokcore evaluate` measures, and in which texts it measures."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "residues-by-what-is-written",
        "a token is a residue by how often it is written, not by how often it is merged on",
        "count_made",
        "times[place[part]] += times[place[token]]",
        "pass",
        in_tests("tokcore/test_evaluation.py::test_merge_residues"),
    ),
    Defect(
        "divergence-of-shared-ids-alone",
        "ids that one language alone has do not part two languages",
        "compare",
        "alone = 2.0 - float(both.sum())",
        "alone = 0.0",
        in_tests("tokcore/test_evaluation.py::test_overlap_of_languages"),
    ),
    Defect(
        "digits-from-the-wrong-end",
        "numbers that are cut from the right count as cut from the left",
        "_WAYS",
        '"digits_left": lambda size: {*range(3, size, 3)}',
        '"digits_left": lambda size: {size - place for place in range(3, size, 3)}',
        in_tests("tokcore/test_evaluation.py::test_numbers_in_threes_are_told_apart"),
    ),
    Defect(
        "words-without-their-blank",
        "words are encoded as at the begin of a text",
        "measure_retention",
        'f" {word}"',
        "word",
        in_tests("tokcore/test_evaluation.py::test_words_that_are_one_token"),
    ),
    Defect(
        "underscore-cut-before-it-alone",
        "a token that begins after an underscore does not part an identifier",
        "Places.count",
        "(starts.count_between(joint, next_part + 1) > 0).sum()",
        "(starts.count_between(joint, joint + 1) > 0).sum()",
        in_tests("tokcore/test_evaluation.py::test_places_by_hand"),
    ),
    Defect(
        "starts-of-normalized-texts",
        "where tokens of a normalized text begin is told as if they spelled it",
        "find_token_starts",
        "if len(ids) and tokenizer.decode(ids) == text:",
        "if len(ids):",
        in_tests("tokcore/test_evaluation.py::test_starts_of_tokens_that_change_the_text"),
    ),
    Defect(
        "learned-from-the-training-split-only",
        "an output that learned from both splits is said to have learned from one",
        "find_learned_share",
        'else ("train", "validation")',
        'else ("train",)',
        in_tests("pipelines/test_evaluate.py::test_the_validation_split_is_judged_on"),
    ),
    Defect(
        "drawn-in-the-order-of-reading",
        "the texts that are drawn are the first that were read",
        "TextDraw._drop",
        "sorted(kept)[: self._most]",
        "[*kept][: self._most]",
        in_tests("pipelines/test_evaluate.py::test_texts_are_drawn_by_hash"),
    ),
    Defect(
        "keys-without-ids",
        "documents of one length are taken for those that a tokenizer learned from",
        "find_learned_share",
        "if found in wanted:",
        "if True:",
        in_tests("pipelines/test_evaluate.py::test_a_text_is_looked_for_as_a_whole"),
    ),
)
