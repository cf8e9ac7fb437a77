"""SentencePiece's models as tokenizers can have them: what a tokenizer.json is written from.

tokenizers computes otherwise: scores are added up as float64 (SentencePiece: float32, from the start of a text on), and
merges are listed pairs (SentencePiece: any pair whose text is a piece). So ids differ where cuts nearly tie, and where
a text holds what tokenizers cannot be told: 0.2 to 1 % of documents, and 2 to 3 % where line breaks stay.
"""

from __future__ import annotations

import numpy as np

from tokcore.errors import FormatError
from tokcore.kernel import Ids
from tokcore.models.model import Model
from tokcore.models.sentencepiece.converted import ConvertedModel, PieceBpeModel, WordUnigramModel
from tokcore.models.sentencepiece.piece_text import BYTE, SPACE, UNUSED, USER_DEFINED
from tokcore.models.sentencepiece.scored_pieces import PieceModel, is_piece_model, require_pieces
from tokcore.text.text_steps import TextStep
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec

_NOTE = (
    "tokenizers adds scores up in another way than SentencePiece: 0.2 to 1 % of documents get other ids from it. "
    "Imported again, the file is another tokenizer, with another fingerprint"
)
_NOTE_ON_LINES = (
    "tokenizers computes otherwise than SentencePiece, and this model keeps line breaks, which their Strip would take "
    "away: texts that begin or end with spaces, and those where cuts nearly tie, get other ids, 2 to 3 % of documents. "
    "Imported again, the file is another tokenizer, with another fingerprint"
)


def describe_difference(spec: TokenizerSpec) -> str:
    """What a reader of the file must know of its ids; empty for a model that is not SentencePiece's."""
    if not is_piece_model(spec.model):
        return ""
    model = require_pieces(spec.model, "this form of tokenizer.json")
    return _NOTE_ON_LINES if model.text_rules.remove_extra_whitespaces and _keeps_lines(model) else _NOTE


def convert_pieces(model: Model) -> ConvertedModel:
    """The model that tokenizers makes of a tokenizer.json. Raises FormatError for what such a file cannot hold."""
    pieces = require_pieces(model, "this form of tokenizer.json")
    for kind, what in ((USER_DEFINED, "defined by the user"), (UNUSED, "marked as unused")):
        if len(places := np.flatnonzero(pieces.types == kind)):
            raise FormatError(
                f"the piece {pieces.names[places[0]]!r:.80} is {what}: tokenizer.json has no such pieces. Export it as "
                f"sentencepiece"
            )
    spells_bytes = bool((pieces.types == BYTE).any())
    # Where U+2581 begins pieces alone, there is a cut before each.
    splits = all(SPACE not in name[1:] for name in pieces.names)
    steps = _list_steps(pieces)
    common = (pieces.tokens, pieces.ids, spells_bytes, pieces.unknown, pieces.unknown_surface, steps, splits)
    if pieces.is_unigram:
        return WordUnigramModel(*common, pieces.scores.astype(np.float64))
    return PieceBpeModel(*common, _list_merges(pieces))


def _list_steps(model: PieceModel) -> tuple[TextStep, ...]:
    """What is done to a text first."""
    rules = model.text_rules
    if not rules.escape_whitespaces or rules.whitespace_is_suffix:
        raise FormatError(
            "spaces stay as they are, or stand after words: tokenizer.json holds only U+2581 before words"
        )
    steps = [TextStep("charsmap", "", rules.charsmap)] if rules.charsmap else []
    if rules.remove_extra_whitespaces:
        # Their Strip removes line breaks, too: it is only right where these have become spaces by then.
        if not _keeps_lines(model):
            steps += [TextStep("strip-left", "", b""), TextStep("strip-right", "", b"")]
        steps.append(TextStep("replace-spans", "", b" "))
    if rules.add_dummy_prefix:
        steps.append(TextStep("prepend", "", b" "))
    return (*steps, TextStep("metaspace", "", b""))


def _keeps_lines(model: PieceModel) -> bool:
    return b"\n" in bytes(model.piece_encoder(0).normalize(make_texts_from_strings(["a\nb"])).text(0))


def _list_merges(model: PieceModel) -> Ids:
    """The pairs of pieces that make a piece, the highest score first, then by their ids."""
    id_of = {
        name: id
        for name, id, kind in zip(model.names, model.ids.tolist(), model.types.tolist(), strict=True)
        if kind != BYTE
    }
    merges = []
    for name, score in zip(model.names, model.scores.tolist(), strict=True):
        if name not in id_of:
            continue
        cuts = ((id_of.get(name[:i]), id_of.get(name[i:])) for i in range(1, len(name)))
        merges += [(-score, left, right) for left, right in cuts if left is not None and right is not None]
    return np.array([pair for _, *pair in sorted(merges)], np.int32).reshape(-1, 2)
