"""The models that a tokenizer can have, by their name in `[learn] model`. Everything else asks this table.

To add one: write its file (tokcore.models.model says what it must do), its test, and its line here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tokcore.jsonable import Place
from tokcore.models.bpe import Bpe
from tokcore.models.byte import Byte
from tokcore.models.model import Ids, LearnOptions, Model, ModelType

MODELS: Mapping[str, ModelType] = {
    "bpe": Bpe(),
    "byte": Byte(),
}
DEFAULT_MODEL = next(iter(MODELS))

# Kind in tokcore.json -> what reads such a model.
KINDS: Mapping[str, Callable[[Any, Place], Model]] = {
    kind: read for model_type in MODELS.values() for kind, read in model_type.kinds.items()
}

__all__ = ["DEFAULT_MODEL", "KINDS", "MODELS", "Ids", "LearnOptions", "Model", "ModelType"]
