"""Defects in the kinds of models."""

from mutants.defect import Defect, in_tests

DEFECTS = (
    Defect(
        "no-word-ends",
        "the last byte of a pre-token ends no word",
        "models/word_ends.py: _list_symbols",
        "+= np.uint32(256)",
        "+= np.uint32(0)",
        in_tests("tokcore/test_word_ends.py"),
    ),
    Defect(
        "suffix-spelled-within-words",
        "a token within words may be named as one that ends a word",
        "models/word_ends.py: _spell",
        "if not ends[right] and name.endswith(suffix):",
        "if False:",
        in_tests("tokcore/test_word_ends.py::test_text_that_spells_the_suffix_within_a_word"),
    ),
    Defect(
        "further-ids-among-special-ones",
        "further merges get ids after the ordinary tokens, where special ones are",
        "learn_further",
        "first = max([int(ids.max()), *options.pinned.values()]) + 1",
        "first = int(ids.max()) + 1",
        in_tests("pipelines/test_extended_tokenizers.py::test_all_ids_stay_and_further_ones_come_last"),
    ),
    Defect(
        "further-merges-by-id",
        "tokens that are there are ordered by id, not as they were made, when further merges tie",
        "learn_further",
        "ids, merges = order_by_making(model)",
        "ids, merges = order_by_making(model)\nids = np.sort(ids)[::-1].copy()",
        in_tests("pipelines/test_extended_tokenizers.py::test_learning_goes_on_where_it_stopped"),
    ),
    Defect(
        "pinned-id-taken-twice",
        "ordinary tokens take the ids of special ones",
        "find_free_ids",
        "return candidates[~np.isin(candidates, [*taken])][:num]",
        "return candidates[:num]",
        in_tests("tokcore/test_learned_wordpiece.py::test_ids_are_those_that_special_tokens_leave"),
    ),
    Defect(
        "one-character-too-many",
        "coverage takes one character more than it needs",
        "Character.learn",
        "if seen >= wanted:",
        "if seen > wanted:",
        in_tests("tokcore/test_word_models.py::test_characters_are_the_most_frequent_until_they_cover_the_share"),
    ),
    Defect(
        "words-in-any-order",
        "words of equal count are taken in the order of rows",
        "_rank_words",
        '[("count_sum", "descending"), ("word", "ascending")]',
        '[("count_sum", "descending")]',
        in_tests("tokcore/test_word_models.py::test_words_are_the_most_frequent"),
    ),
    Defect(
        "byt5-without-offset",
        "ByT5's bytes begin at id 0",
        "ByteModel.offset",
        "return _BYT5_OFFSET if self.layout else 0",
        "return 0",
        in_tests("tokcore/test_word_models.py"),
    ),
    Defect(
        "missing-bytes-are-frequent",
        "bytes that the text has not get the lowest score",
        "Unigram._learn_bytes",
        "scores.min() - UNKNOWN_PENALTY",
        "scores.min()",
        in_tests("tokcore/test_byte_unigram.py::test_pieces_are_byte_strings_of_pre_tokens"),
    ),
    Defect(
        "special-tokens-not-in-the-size",
        "a smaller size has as many merges as if it had no special tokens",
        "Bpe.shorten",
        "num = options.vocab_size - options.num_special - 256",
        "num = options.vocab_size - 256",
        in_tests("tokcore/test_model_sizes.py"),
    ),
    Defect(
        "prefix-within-text",
        "Metaspace puts a mark before what follows a special token",
        "find_model_within",
        'renamed = rename_steps(model, "metaspace-start", "metaspace")',
        "renamed = model",
        in_tests(
            "tokcore/formats/test_converted_json.py::test_the_first_space_is_before_the_first_character_of_the_text_alone"
        ),
    ),
)
