"""What tokens a tokenizer has: ids, names and roles. tokcore.tokenizer.tokenizer adds encoding and decoding."""

from __future__ import annotations

from tokcore.errors import IdentityError
from tokcore.formats.tokenizers import gpt2
from tokcore.tokenizer.shared_tables import get_shared_tables
from tokcore.tokenizer.token_ids import list_integers
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec


class Vocabulary:
    """The tokens of a tokenizer, and which of them have a role.

    A token's name is its text in tokenizer.json and vocab.json: one printable character for each byte, or the text of a
    special token.

    >>> from tokcore.tokenizer.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.load("out/first")
    >>> len(tokenizer), tokenizer.id_to_token(258), tokenizer.eos_id
    (262, 'Ġlow', 261)
    """

    __slots__ = ("_shared", "spec")

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec
        self._shared = get_shared_tables(spec)

    @property
    def fingerprint(self) -> str:
        """sha256 of everything that decides ids, lowercase hex.

        >>> len(tokenizer.fingerprint)
        64
        """
        return self.spec.fingerprint

    @property
    def vocab_size(self) -> int:
        """The highest id + 1, which is the size of an embedding table; ids below it may be unused.

        >>> tokenizer.vocab_size  # 256 bytes, 5 merges, <|endoftext|>
        262
        """
        return self.spec.vocab_size

    def __len__(self) -> int:
        return len(self.spec.model.tokens) + len(self._shared.added.ids) - len(self.spec.shared_ids)

    @property
    def vocab(self) -> dict[str, int]:
        """All tokens, special ones too: name -> id, in the order of ids. A new dict each time.

        >>> list(tokenizer.vocab.items())[-4:]
        [('Ġlow', 258), ('er', 259), ('es', 260), ('<|endoftext|>', 261)]
        """
        return dict(gpt2.make_vocabulary(self.spec))

    def token_to_id(self, token: str | bytes) -> int | None:
        """The id of a token, by its name or by its bytes; None if there is none.

        >>> tokenizer.token_to_id("Ġlow"), tokenizer.token_to_id(b" low"), tokenizer.token_to_id(" low")
        (258, 258, None)
        """
        if isinstance(token, str):
            if token in self._shared.added.ids:
                return self._shared.added.ids[token]
            return self._shared.id_of_name.get(token)
        if not isinstance(token, bytes):
            raise TypeError(f"token: expected str or bytes, found {type(token).__name__}")
        return self._shared.id_of_bytes.get(token)

    def id_to_token(self, id: int) -> str | None:
        """The name of a token; None for an unused id. token_bytes gives its bytes.

        >>> tokenizer.id_to_token(258), tokenizer.id_to_token(262)
        ('Ġlow', None)
        """
        (id,) = list_integers([id])
        return self._shared.name_of_id.get(id)

    def token_bytes(self, id: int) -> bytes:
        """The bytes that a token stands for; a special token's text. Raises IdentityError for an unused id.

        >>> tokenizer.token_bytes(258)
        b' low'
        """
        return self._shared.decoder.spell(*list_integers([id]))

    @property
    def specials(self) -> dict[str, int]:
        """Special tokens: text -> id, in the order of ids.

        >>> tokenizer.specials
        {'<|endoftext|>': 261}
        """
        return dict(self._shared.added.special_ids)

    @property
    def added(self) -> dict[str, int]:
        """All added tokens: special ones, and those of a tokenizer.json that text always becomes; text -> id.

        >>> tokenizer.added
        {'<|endoftext|>': 261}
        """
        return dict(self._shared.added.ids)

    def special_id(self, text: str) -> int:
        """The id of a special token. Raises IdentityError if there is none of that text.

        >>> tokenizer.special_id("<|endoftext|>")
        261
        """
        if text not in self._shared.added.special_ids:
            known = ", ".join(map(repr, self._shared.added.special_ids)) or "none"
            raise IdentityError(f"{text!r} is not a special token of this tokenizer: it has {known}")
        return self._shared.added.special_ids[text]

    @property
    def eos_id(self) -> int | None:
        """The id of the special token of role document_end, the lowest of several; None if there is none.

        >>> tokenizer.eos_id
        261
        """
        return self._id_of_role("document_end")

    @property
    def bos_id(self) -> int | None:
        """The id of the special token of role document_begin, the lowest of several; None if there is none.

        >>> tokenizer.bos_id is None
        True
        """
        return self._id_of_role("document_begin")

    @property
    def pad_id(self) -> int | None:
        """The id of the special token of role padding, the lowest of several; None if there is none.

        >>> tokenizer.pad_id is None
        True
        """
        return self._id_of_role("padding")

    @property
    def unk_id(self) -> int | None:
        """The id of the special token that stands for text without tokens; None if all text has some.

        >>> tokenizer.unk_id is None
        True
        """
        return self.spec.model.unknown

    @property
    def pattern_text(self) -> str:
        """The split pattern, as a regular expression.

        >>> import tokcore
        >>> tokcore.pretokenize("low lower", pattern=tokenizer.pattern_text)
        ['low', ' lower']
        """
        return self._shared.pretokenizer.published_text

    def _id_of_role(self, role: str) -> int | None:
        return next((token.id for token in self.spec.special if token.role == role), None)
