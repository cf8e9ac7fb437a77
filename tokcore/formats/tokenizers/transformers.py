"""What transformers keeps beside tokenizer.json: which special token is for what, and the chat template.

tokenizer_config.json is read by AutoTokenizer and by converters such as gguf's, special_tokens_map.json by older
releases of both. Neither changes ids: nothing is put around a text unless its user says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

# Role -> what transformers calls the token. Of several tokens of a role it is the first, by id.
_NAMES = {"document_begin": "bos_token", "document_end": "eos_token", "padding": "pad_token", "unknown": "unk_token"}
_MORE_NAMES = {"mask": "mask_token", "separator": "sep_token", "classifier": "cls_token"}
# Of models that learn from masked tokens: what stands for another where no token has its role.
_STANDS_FOR = {"cls_token": "bos_token", "sep_token": "eos_token"}


def write_tokenizer_config(
    spec: TokenizerSpec, *, as_before: bool = False, more: Mapping[str, Any] = MappingProxyType({})
) -> bytes:
    """tokenizer_config.json: the class, the special tokens, the chat template if there is one.

    as_before: as releases until 2026-11-27 wrote it, which named a pad_token only where a token has the role padding.
    more: what the file says beyond that, or instead.
    """
    content: dict[str, Any] = {
        "add_bos_token": False,
        "add_eos_token": False,
        "added_tokens_decoder": {
            str(token.id): {
                "content": token.text,
                "lstrip": token.lstrip,
                "normalized": token.normalized,
                "rstrip": token.rstrip,
                "single_word": token.single_word,
                "special": token.is_special,
            }
            for token in spec.special
        },
        "clean_up_tokenization_spaces": False,  # decoding gives the text as it is
        **_list_special(spec, as_before),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    if spec.chat_template:
        content["chat_template"] = spec.chat_template
    if spec.max_length is not None:
        content["model_max_length"] = spec.max_length
    return _to_json({**content, **more})


def write_special_tokens_map(spec: TokenizerSpec, *, as_before: bool = False) -> bytes:
    """special_tokens_map.json: name -> special token, and the others as a list. as_before: see above."""
    return _to_json(_list_special(spec, as_before))


def _list_special(spec: TokenizerSpec, as_before: bool) -> dict[str, Any]:
    names = _NAMES if as_before else _NAMES | _MORE_NAMES
    named = {name: texts[0] for role, name in names.items() if (texts := spec.texts_of(role))}
    if "mask_token" in named:
        for name, other in _STANDS_FOR.items():
            named |= {name: named[other]} if name not in named and other in named else {}
    if "eos_token" in named and not as_before:
        named.setdefault("pad_token", named["eos_token"])  # without one, trainers that pad stop
    others = [token.text for token in spec.special if token.is_special and token.text not in named.values()]
    return named | ({"additional_special_tokens": others} if others else {})


def _to_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n"
