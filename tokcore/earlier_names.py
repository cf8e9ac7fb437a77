"""The names that modules had until they got rooms: imports of them still find the modules.

Programs of users hold such names, and so do graphs of jobs: Beam stores a step by its module and its name. Nobody's own
module is hidden: a name is looked up here only after it was found nowhere else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Below tokcore: the earlier name -> the name now.
_MOVED = {
    "arrow_files": "files.arrow_files",
    "bert": "text.bert_characters",
    "bert_data": "text.bert_characters_data",
    "byte_alphabet": "text.byte_alphabet",
    "canonical": "files.canonical_json",
    "code_points": "text.code_points",
    "commits": "shards.commits",
    "conversion": "shards.conversion",
    "count_tables": "count.count_tables",
    "counting": "count.counting",
    "curve": "look.vocabulary_curve",
    "documents_digest": "shards.documents_digest",
    "encoded": "tokenizer.encoded_batch",
    "explain": "look.explain",
    "followed_shards": "shards.followed_shards",
    "format_table": "shards.format_table",
    "formats.bert": "formats.tokenizers.bert",
    "formats.beside": "formats.files_beside_shards",
    "formats.byt5": "formats.tokenizers.byt5",
    "formats.byte_unigram_json": "formats.tokenizers.byte_unigram_json",
    "formats.converted_json": "formats.tokenizers.converted_json",
    "formats.converted_pieces": "formats.tokenizers.converted_pieces",
    "formats.earlier": "formats.tokenizers.as_earlier_releases",
    "formats.exports": "formats.tokenizers.exports",
    "formats.foreign": "formats.tokenizers.foreign",
    "formats.gpt2": "formats.tokenizers.gpt2",
    "formats.huggingface": "formats.tokenizers.huggingface",
    "formats.json_floats": "formats.tokenizers.json_floats",
    "formats.sentencepiece": "formats.tokenizers.sentencepiece",
    "formats.tekken": "formats.tokenizers.tekken",
    "formats.tiktoken": "formats.tokenizers.tiktoken",
    "formats.token_bytes": "formats.tokenizers.token_bytes",
    "formats.transformers": "formats.tokenizers.transformers",
    "formats.vocabulary_files": "formats.tokenizers.vocabulary_files",
    "formats.word_level_json": "formats.tokenizers.word_level_json",
    "formats.wordpiece_json": "formats.tokenizers.wordpiece_json",
    "formats.youtokentome": "formats.tokenizers.youtokentome",
    "jsonable": "files.jsonable",
    "key_filter": "count.key_filter",
    "labels": "shards.labels",
    "loader": "train.loader",
    "many_runs": "count.sum_of_runs",
    "mask_presets": "text.mask_presets",
    "masking": "text.masking",
    "merges": "learn.merges",
    "mixing": "learn.language_weights",
    "mixture": "train.document_shares",
    "models.byte_unigram": "models.unigram.byte_unigram",
    "models.converted": "models.sentencepiece.converted",
    "models.learned_pieces": "models.sentencepiece.learned_pieces",
    "models.learned_wordpiece": "models.wordpiece.learned_wordpiece",
    "models.piece_options": "models.sentencepiece.piece_options",
    "models.sentencepiece_text": "models.sentencepiece.piece_text",
    "normalize": "text.normalize",
    "odd_tokens": "look.odd_tokens",
    "packed_rows": "train.packed_rows",
    "packing": "train.packing",
    "patterns": "text.patterns",
    "pretoken_rows": "count.pretoken_rows",
    "pretoken_tables": "count.pretoken_tables",
    "pretokenizer": "text.pretokenizer",
    "ranged_files": "files.ranged_files",
    "reference_converted": "reference.reference_converted",
    "reference_pieces": "reference.reference_pieces",
    "reference_sampling": "reference.reference_sampling",
    "reference_sentencepiece": "reference.reference_sentencepiece",
    "regex_spelling": "text.regex_spelling",
    "regex_split": "text.regex_split",
    "regex_tree": "text.regex_tree",
    "row_order": "train.row_order",
    "row_streams": "train.row_streams",
    "sampling": "tokenizer.sampling",
    "scripts": "text.scripts",
    "sentencepiece_data": "text.sentencepiece_data",
    "sentencepiece_tables": "text.sentencepiece_tables",
    "shard_checks": "shards.shard_checks",
    "shared_tables": "tokenizer.shared_tables",
    "signed_rows": "count.signed_rows",
    "special_text": "tokenizer.special_text",
    "stream_decoder": "tokenizer.stream_decoder",
    "texts": "text.texts",
    "token_batch": "shards.token_batch",
    "token_counts": "count.token_counts",
    "token_ids": "tokenizer.token_ids",
    "token_search": "look.token_search",
    "token_spans": "tokenizer.token_spans",
    "tokenizer_spec": "tokenizer.tokenizer_spec",
    "unicode": "text.unicode",
    "unicode_data": "text.unicode_data",
    "url_files": "files.url_files",
    "vocabulary": "tokenizer.vocabulary",
}


class _Loader:
    """Gives the module that has another name now, as it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import of the earlier name has replaced


def alias(earlier: str, name: str) -> ModuleSpec:
    """How the import of an earlier name finds the module that has another name now."""
    from importlib.machinery import ModuleSpec

    return ModuleSpec(earlier, _Loader(name))  # type: ignore[arg-type]


class _MovedModules:
    """Finds modules of tokcore by the names that they had."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None = None, _target: Any = None) -> ModuleSpec | None:
        package, _, inner = name.partition(".")
        return alias(name, f"tokcore.{_MOVED[inner]}") if package == "tokcore" and inner in _MOVED else None


class _RenamedPackage:
    """Finds a package, and all that is in it, by the name that it had."""

    def __init__(self, earlier: str, name: str) -> None:
        self._earlier = earlier
        self._name = name

    def find_spec(self, name: str, path: Sequence[str] | None = None, _target: Any = None) -> ModuleSpec | None:
        if name == self._earlier:
            # What is in it is asked for here first: the folder of the package would give a second copy of each module.
            sys.meta_path.insert(0, self)
            return alias(name, self._name)
        ours = getattr(sys.modules.get(self._earlier), "__name__", "") == self._name
        if path is None or not ours or not name.startswith(f"{self._earlier}."):
            return None
        return alias(name, self._name + name.removeprefix(self._earlier))


def find_moved_modules() -> None:
    """Let imports of modules of tokcore find them by earlier names, too."""
    if _MovedModules not in sys.meta_path:
        sys.meta_path.append(_MovedModules)


def find_renamed_package(earlier: str, name: str) -> None:
    """Let imports of a package find it by the earlier name, too, where nothing else has that name."""
    sys.meta_path.append(_RenamedPackage(earlier, name))
