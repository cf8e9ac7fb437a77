"""The models that a tokenizer can have, by their name in `[learn] model`. Everything else asks this table.

To add one: write its file (tokcore.models.model says what it must do), its test, and its line here.

bpe: start here; bpe_merges: its merges as the kernel takes them; learned_bpe: how it is learned; extended_bpe: goes on
from another vocabulary. smaller_bpe: the first ones alone.
symbol_bpe: BPE of other symbols than the 256 bytes. word_ends: such as know where a word ends, learned.
byte, codepoint, word: bytes, code points and words as they are. byte_tokens: what models over bytes share.
defaults: what most models answer. token_decoders: ids to text. sentencepiece/, unigram/, wordpiece/: models with
folders of their own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tokcore.files.jsonable import Place
from tokcore.models.bpe import BpeModel
from tokcore.models.byte import Byte
from tokcore.models.codepoint import Codepoint
from tokcore.models.learned_bpe import Bpe
from tokcore.models.model import Ids, LearnOptions, Model, ModelType
from tokcore.models.sentencepiece.converted import PieceBpeModel, WordUnigramModel
from tokcore.models.sentencepiece.learned_pieces import SentencepieceBpe, Unigram
from tokcore.models.symbol_bpe import SymbolBpeModel
from tokcore.models.unigram.pathpiece import Pathpiece
from tokcore.models.word import Character, Word
from tokcore.models.wordpiece.learned_wordpiece import Wordpiece
from tokcore.plugins.plugin_table import PluginTable

_OWN: Mapping[str, ModelType] = {
    "bpe": Bpe(),
    "byte": Byte(),
    "wordpiece": Wordpiece("words and their parts, by frequent pairs, as BERT's", by_score=False),
    "wordpiece-pmi": Wordpiece("the same by count(ab) / (count(a) count(b))", by_score=True),
    "unigram": Unigram(),
    "sentencepiece-bpe": SentencepieceBpe(),
    "character": Character(),
    "word": Word(),
    "codepoint": Codepoint(),
    "pathpiece": Pathpiece(),
}
# Those of other distributions are found by name, too.
MODELS: PluginTable[ModelType] = PluginTable("tokcore.models", ModelType, _OWN)  # type: ignore[type-abstract]
DEFAULT_MODEL = next(iter(MODELS))

# Kind in tokcore.json -> what reads such a model.
KINDS: Mapping[str, Callable[[Any, Place], Model]] = {
    kind: read for model_type in MODELS.values() for kind, read in model_type.kinds.items()
} | {cls.kind: cls.from_json for cls in (PieceBpeModel, WordUnigramModel, SymbolBpeModel)}


def find_kind(kind: str) -> Callable[[Any, Place], Model] | None:
    """What reads a model of this kind from tokcore.json; None if nothing does."""
    if kind in KINDS:
        return KINDS[kind]
    return next((MODELS[name].kinds[kind] for name in MODELS.list_others() if kind in MODELS[name].kinds), None)


def find_version_of(kind: str) -> str:
    """Distribution and version of what has models of this kind; empty if that is tokcore."""
    others = () if kind in KINDS else MODELS.list_others()
    return next((MODELS.find_version(name) for name in others if kind in MODELS[name].kinds), "")


def find_own_form(model: BpeModel) -> Model:
    """The model that we learn with the same tokens, ids and behaviour as one from a foreign file, or else that one."""
    forms = (model_type.own_form(model) for model_type in MODELS.values())
    return next((own for own in forms if own is not None), model)


__all__ = [
    "DEFAULT_MODEL",
    "KINDS",
    "MODELS",
    "Ids",
    "LearnOptions",
    "Model",
    "ModelType",
    "find_kind",
    "find_own_form",
    "find_version_of",
]
