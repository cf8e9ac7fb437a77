"""What releases until 2026-11-27 made of a file that is read otherwise now. Outputs that they made go on with that."""

from __future__ import annotations

import dataclasses

from tokcore.formats.tokenizers.huggingface import puts_tokens_around
from tokcore.models.sentencepiece.converted import rename_steps
from tokcore.tokenizer.tokenizer_spec import MASK, PLAIN, TokenizerSpec


def read_as_before(spec: TokenizerSpec) -> TokenizerSpec:
    """The tokenizer as earlier releases read it from the file that spec was read from.

    Added tokens that are not special were ordinary text unless special ones were allowed. Metaspace with the
    prepend_scheme first put U+2581 before every part of a text. No token had the role mask. (Of a published rank file
    they knew no special tokens.)
    """
    special = [
        dataclasses.replace(token, is_special=True, normalized=False, role=PLAIN if token.role == MASK else token.role)
        for token in spec.special
    ]
    model = rename_steps(spec.model, "metaspace-start", "metaspace-first")
    return leave_out_kept(dataclasses.replace(spec, special=tuple(special), model=model))


def leave_out_kept(spec: TokenizerSpec) -> TokenizerSpec:
    """The tokenizer without what earlier releases did not keep of a file: decoders, and what puts no tokens around."""
    around = spec.post_processor if puts_tokens_around(spec.post_processor) else ""
    return dataclasses.replace(spec, decoder="", post_processor=around)


def describe_earlier(before: TokenizerSpec, spec: TokenizerSpec) -> str:
    """What earlier releases, which read `before`, did otherwise with this tokenizer."""
    said = []
    if texts := [repr(token.text) for token in spec.special if not token.is_special]:
        said.append(f"text that spells {_list_some(texts)} stays text there")
    if rename_steps(spec.model, "metaspace-start", "metaspace-first") is not spec.model:
        said.append("Metaspace puts U+2581 before each part of a text there, not only before the first")
    if before.pattern != spec.pattern:
        said.append("its split pattern means there what it means in another engine")
    ids = {token.text: token.id for token in before.special}
    moved = [
        f"{token.text!r} {f'is {ids[token.text]}' if token.text in ids else 'is none'}, not {token.id}"
        for token in spec.special
        if ids.get(token.text) != token.id
    ]
    if moved:
        said.append(f"of its special tokens {_list_some(moved)}")
    return ", and ".join(said)


def _list_some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
