"""What the tokens of a new vocabulary are in an old one: what the first embeddings of a moved model are made from."""

from __future__ import annotations

from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.models.model import describe_kind
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import PLAIN, SpecialToken


class MappedToken(NamedTuple):
    """A token of the new vocabulary."""

    id: int
    token: bytes
    role: str | None  # of a special token
    old_ids: tuple[int, ...]  # that spell it; of a special token those of its like
    is_same: bool  # whether the old vocabulary has the same token


def map_vocabulary(old: Tokenizer, new: Tokenizer) -> list[MappedToken]:
    """Each token of the new vocabulary, by id. Mean initialisation averages the embeddings of old_ids.

    An ordinary token is encoded by the old tokenizer as one pre-token. A special one becomes the one of the same text,
    else the first of the same role, else what its text is encoded to.
    Raises ConfigError for a model whose tokens are no bytes of text, as SentencePiece's and WordPiece's.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> old = Tokenizer.from_merges([(b"a", b"b")], pattern="gpt2", special={"<|end|>": "document_end"})
    >>> new = Tokenizer.from_merges([(b"b", b"a"), (b"a", b"b")], pattern="gpt2", special={"</s>": "document_end"})
    >>> [(one.id, one.old_ids, one.is_same) for one in map_vocabulary(old, new)[256:]]
    [(256, (65, 64), False), (257, (256,), True), (258, (257,), False)]
    """
    for name, one in (("old", old), ("new", new)):
        if not one.spec.model.lossless:
            raise ConfigError(
                f"the {name} tokenizer is {describe_kind(one.spec.model.kind)}: its tokens are not the bytes of their "
                f"text, so none can be spelled with others. Both need a byte-level model"
            )
    model, shared = new.spec.model, new.spec.shared_ids
    encoded = old.encode_pretokens(make_texts_from_strings(model.tokens))
    bounds = encoded.offsets.tolist()
    own = dict(zip(old.spec.model.ids.tolist(), old.spec.model.tokens, strict=True))
    found = []
    for i, (id, token) in enumerate(zip(model.ids.tolist(), model.tokens, strict=True)):
        ids = tuple(encoded.ids[bounds[i] : bounds[i + 1]].tolist())
        found.append(MappedToken(id, token, None, ids, len(ids) == 1 and own.get(ids[0]) == token))
    found += [_map_special(old, token) for token in new.spec.special if token.id not in shared]
    return sorted(found)


def _map_special(old: Tokenizer, token: SpecialToken) -> MappedToken:
    assert token.id is not None, "a finished tokenizer has an id for each"
    text = token.text.encode()
    for one in old.spec.special:
        if one.text == token.text and one.id is not None:
            return MappedToken(token.id, text, token.role, (one.id,), True)
    for one in old.spec.special:
        if one.role == token.role != PLAIN and one.id is not None:
            return MappedToken(token.id, text, token.role, (one.id,), False)
    return MappedToken(token.id, text, token.role, tuple(old.encode(text).tolist()), False)
