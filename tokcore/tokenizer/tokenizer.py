"""Tokenizer: text to token ids and back, as one TokenizerSpec says.

Leaves to others: what the spec holds (tokcore.tokenizer.tokenizer_spec), foreign files (tokcore.formats), the work
itself (tokcore.kernel).
"""

from __future__ import annotations

import functools
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.count.text_sources import read_batches
from tokcore.count.token_counts import find_of_one_document
from tokcore.errors import ConfigError, FormatError, IdentityError, LearnError
from tokcore.files.hub_files import fetch_first, push_files
from tokcore.formats.tokenizers import vocabulary_files
from tokcore.formats.tokenizers.exports import export_to, list_hub_files, write_files
from tokcore.formats.tokenizers.foreign import FOLDER_NAMES, read_tokenizer_file
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json
from tokcore.formats.tokenizers.tiktoken import read_rank_file, read_split_pattern
from tokcore.kernel import IdCounter, Ids, NormalizingEncoder, Seeds
from tokcore.look.progress_bar import Tell
from tokcore.models import DEFAULT_MODEL
from tokcore.models.bpe import LearnedModel
from tokcore.models.model import Encoder
from tokcore.models.sentencepiece.converted import require_unigram
from tokcore.text.normalize import Normalizer
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import Offsets, Texts, list_strings, make_texts_from_arrow, make_texts_from_strings
from tokcore.tokenizer.encoded_batch import Encoded, Padded, Side, cut, interleave, make_list_array, pad
from tokcore.tokenizer.model_inputs import ModelInputs, Rows, Sequences, make_shape, make_tensor
from tokcore.tokenizer.sampling import Randomness, derive_seeds, list_best
from tokcore.tokenizer.special_text import Cut
from tokcore.tokenizer.stream_decoder import StreamDecoder
from tokcore.tokenizer.text_spans import find_text_spans
from tokcore.tokenizer.text_template import TextTemplate
from tokcore.tokenizer.token_ids import list_integers, list_rows_of_ids, read_ids, read_rows
from tokcore.tokenizer.token_spans import TokenSpans, find_token_spans
from tokcore.tokenizer.tokenizer_spec import (
    FILE_NAME,
    SpecialToken,
    TokenizerSpec,
    make_learned_spec,
    parse_special_tokens,
)
from tokcore.tokenizer.vocabulary import Vocabulary

TokenIds: TypeAlias = Iterable[int] | npt.NDArray[Any] | pa.Array  # of one text
Batch: TypeAlias = Sequence[str | bytes] | pa.Array | pa.ChunkedArray  # of texts

_TEXT = (str, bytes, bytearray, memoryview)
# ORG/NAME; a few old ones are a name alone. What has the suffix of a file is meant as one.
_HUB_NAME = re.compile(r"[\w.-]*\w(?:/[\w.-]+)?")
_FILE_SUFFIXES = frozenset((".json", ".model", ".tiktoken", ".txt", ".toml"))
_ARROW = (pa.Array, pa.ChunkedArray)
_NOTHING: tuple[str, ...] = ()


def _check_text(text: object) -> None:
    if not isinstance(text, _TEXT):
        hint = ": encode_batch takes several" if isinstance(text, Iterable) else ""
        raise TypeError(f"text: expected str or bytes, found {type(text).__name__}{hint}")


class Tokenizer(Vocabulary):
    """Encodes and decodes. Immutable, safe to share between threads; equal, hashed and pickled by content.

    Tokenizers of one fingerprint share their tables and caches within a process. len() is the number of tokens.

    >>> import tokcore
    >>> tokenizer = tokcore.Tokenizer.load("out/first")
    >>> tokenizer.encode("lower").tolist()
    [257, 259]
    >>> tokenizer.decode([257, 259])
    b'lower'
    """

    __slots__ = ()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Tokenizer:
        """The tokenizer in a tokcore.json, in its folder or a build's output folder, or in a file of another library.

        That is a tokenizer.json, tekken.json, SentencePiece's .model, BERT's vocab.txt (uncased), a published rank file
        of tiktoken, or a folder with one of them or ByT5's tokenizer_config.json. Content decides, names do not. Other
        rank files need from_tiktoken, vocab.json with merges.txt from_gpt2.
        Raises FormatError if there is none, it is damaged, or it is not taken exactly; VersionError if another release
        must read it; FileNotFoundError if nothing is at that path, which no name of the Hugging Face Hub is.

        >>> tokcore.Tokenizer.load("out/first/tokenizer/tokcore.json") == tokenizer
        True
        """
        file = Path(path)
        if file.is_dir():
            places = [file / FILE_NAME, file / "tokenizer" / FILE_NAME, *(file / name for name in FOLDER_NAMES)]
            found = [place for place in places if place.is_file()]
            if not found:
                raise FormatError(
                    f"{file}: no {FILE_NAME} in it nor in its folder tokenizer, and no {', '.join(FOLDER_NAMES[:-1])} "
                    f"or {FOLDER_NAMES[-1]}. Is the build finished?"
                )
            file = found[0]
        name = str(path).removeprefix("hf://")
        if not file.exists() and _HUB_NAME.fullmatch(name) and file.suffix not in _FILE_SUFFIXES:
            raise FileNotFoundError(
                f"{path}: there is no such file or folder. If it is a name on the Hugging Face Hub, download it first "
                f"(hf download {name} tokenizer.json --local-dir FOLDER) and load the folder, or use from_pretrained"
            )
        if "://" in str(path):
            raise FileNotFoundError(f"{path}: a tokenizer is loaded from a path, not from a URL: copy it first")
        return cls(read_tokenizer_file(file.read_bytes(), str(file)))

    @classmethod
    def from_pretrained(
        cls, name: str | PathLike[str], *, revision: str | None = None, token: str | None = None
    ) -> Tokenizer:
        """The tokenizer of a model on the Hugging Face Hub, by "org/name"; or, as load, that at a path.

        Read through the Hub's cache, so that it is found offline once it was read. revision: a branch, tag or commit.
        Raises ConfigError, which says what to do, if huggingface_hub is missing or the Hub gives no such repository;
        FormatError if the repository holds no tokenizer, or as load does.

        >>> tokcore.Tokenizer.from_pretrained("out/first") == tokenizer
        True
        """
        if Path(name).exists() or not _HUB_NAME.fullmatch(str(name)) or Path(name).suffix in _FILE_SUFFIXES:
            return cls.load(name)
        file = fetch_first(str(name), (FILE_NAME, *FOLDER_NAMES), revision, token)
        if file is None:
            raise FormatError(f"{name}: this repository has no {FILE_NAME}, {', '.join(FOLDER_NAMES)}")
        return cls(read_tokenizer_file(Path(file).read_bytes(), f"{name}/{Path(file).name}"))

    def push_to_hub(
        self,
        name: str,
        texts: Any = None,
        *,
        text: str = "text",
        allow_one_document: bool = False,
        private: bool | None = None,
        token: str | None = None,
        message: str = "Upload a tokenizer",
    ) -> str:
        """Write the tokenizer into the repository "org/name" of the Hugging Face Hub; the URL of the commit.

        texts: what it was learned from, as train takes them (text: their column). They are encoded, and where more
        than half of a token's occurrences are in one of them, that document would be told by the vocabulary: refused
        with a LearnError that names these tokens, unless allow_one_document is set; then no texts are needed. Of an
        output of a build, Output.push_to_hub knows the documents. Raises ConfigError as from_pretrained does.

        >>> tokenizer.push_to_hub("org/name")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        tokcore.errors.ConfigError: push_to_hub: texts are missing: ...
        """
        if not allow_one_document:
            self.check_documents(texts, text=text)
        return push_files(name, list_hub_files(self.spec), message, private, token)

    def check_documents(self, texts: Any, *, text: str = "text") -> None:
        """Raise LearnError if push_to_hub would refuse the tokenizer for these texts, ConfigError without texts.

        >>> tokenizer.check_documents(["low lower", "lower low"])
        """
        if texts is None:
            raise ConfigError(
                "push_to_hub: texts are missing: with them it is seen whether the vocabulary tells a document. "
                "Give what it was learned from, or set allow_one_document=True"
            )
        require_none_of_one_document(self, self._find_of_one_document(texts, text))

    def _find_of_one_document(self, texts: Any, column: str) -> list[int]:
        counter = IdCounter()
        for batch in read_batches(texts, None, column):
            for _, some in batch.by_lang():
                encoded = self.encode_texts(some)
                counter.add(encoded.ids, encoded.offsets)
        added = self.added.values()
        return [id for id in find_of_one_document(counter.take()).tolist() if id not in added]

    @classmethod
    def from_tiktoken(
        cls, path: str | PathLike[str], *, pattern: str, special_tokens: Mapping[str, int] | None = None
    ) -> Tokenizer:
        """The tokenizer of a tiktoken rank file. pattern: a pattern's name, or its text as tiktoken has it (pat_str).

        Raises ConfigError, naming the part, for a regular expression that other engines cannot be told.

        >>> same = tokcore.Tokenizer.from_tiktoken(
        ...     "out/first/tokenizer/tokenizer.tiktoken", pattern="cl100k", special_tokens={"<|endoftext|>": 261}
        ... )
        >>> same.encode("lower").tolist()
        [257, 259]
        """
        tokens = [SpecialToken(text, id) for text, id in (special_tokens or {}).items()]
        return cls(read_rank_file(Path(path).read_bytes(), str(path), read_split_pattern(pattern).spec, tokens))

    @classmethod
    def from_gpt2(cls, folder: str | PathLike[str], *, pattern: str = "gpt2") -> Tokenizer:
        """The tokenizer of a folder's vocab.json and merges.txt, a byte-level BPE.

        pattern: a pattern's name or a regular expression; the files hold none. A token is special if it is no single
        byte and no merge makes it. Raises FormatError, naming the entry or line, for other files.

        >>> same = tokcore.Tokenizer.from_gpt2("out/first/tokenizer", pattern="cl100k")
        >>> same.encode("lower").tolist()
        [257, 259]
        """
        vocabulary, merges = (Path(folder, name).read_bytes() for name in vocabulary_files.NAMES)
        spec = Pretokenizer.of(pattern).spec
        return cls(vocabulary_files.read_vocabulary_files(vocabulary, merges, str(folder), spec))

    @classmethod
    def from_huggingface(cls, path: str | PathLike[str]) -> Tokenizer:
        """The tokenizer of a tokenizer.json (or of the folder that it is in), a byte-level BPE or a WordPiece.

        >>> same = tokcore.Tokenizer.from_huggingface("out/first/tokenizer/tokenizer.json")
        >>> same.encode("lower").tolist()
        [257, 259]
        """
        file = Path(path)
        if file.is_dir():
            file /= "tokenizer.json"
        return cls(read_tokenizer_json(file.read_bytes(), str(file)))

    @classmethod
    def from_merges(
        cls,
        merges: Iterable[Sequence[Any]],
        *,
        pattern: str,
        special: Mapping[str, str] | Iterable[str | SpecialToken] = (),
        normalizer: Sequence[str] = (),
    ) -> Tokenizer:
        """The tokenizer of merges as learn_bpe returns them, or of (left, right) as bytes; first merged first.

        pattern: the name or regular expression that the pre-tokens were counted with. special: texts and their roles,
        or a list of texts and SpecialTokens; they get the ids after the merges' in this order, unless one pins its id.
        normalizer: names of steps, applied to every text first.
        Raises ConfigError for an unknown pattern, role or step, FormatError for a merge of what is no token yet.

        >>> table = tokcore.count_pretokens(["low lower lowest"], pattern="gpt2")
        >>> merges = tokcore.learn_bpe(table, 258)
        >>> small = tokcore.Tokenizer.from_merges(merges, pattern="gpt2", special={"<|end|>": "document_end"})
        >>> small.encode("slow").tolist(), small.eos_id
        ([82, 257], 258)
        """
        if isinstance(normalizer, str):
            raise ConfigError(f"normalizer = {normalizer!r}: expected a list of steps")
        Normalizer(normalizer)
        split = Pretokenizer.of(pattern).spec
        return cls(
            make_learned_spec(LearnedModel.from_merges(merges), split, normalizer, parse_special_tokens(special))
        )

    @classmethod
    def train(
        cls,
        texts: Any,
        *,
        vocab_size: int | None = None,
        model: str = DEFAULT_MODEL,
        langs: str | Iterable[str] | None = None,
        text: str = "text",
        progress: Tell | bool | None = None,
        **settings: Any,
    ) -> Tokenizer:
        """The tokenizer learned from texts: what a build over the same documents learns, by the same defaults.

        texts: an iterable of str or bytes, read once; or a table whose column text holds them: of pandas, polars or
        pyarrow, a datasets.Dataset, or an iterable of rows. vocab_size: special tokens included. langs: the column of
        the languages, or a code for each text: small languages weigh more, as [mix] says. progress: a function that
        hears of it, or True for a bar. settings: of tokcore.learn.train_tokenizer.TrainSettings, as special, pattern,
        normalizer, min_count, mix, threads and memory_bytes.
        Raises ConfigError for a wrong setting, LearnError if the texts do not give the vocabulary, TypeError or
        ValueError, with its number, for what is no text.

        >>> small = tokcore.Tokenizer.train(["low lower lowest", "lower low"], vocab_size=259)
        >>> small.encode("slow").tolist(), small.specials, small.vocab_size
        ([82, 257], {'<|endoftext|>': 258}, 259)
        """
        # Learning loads what encoding needs not.
        from tokcore.learn.train_tokenizer import parse_settings, train_tokenizer

        chosen = parse_settings({"vocab_size": vocab_size, "model": model, **settings})

        def count_tokens(spec: TokenizerSpec, lines: Sequence[bytes]) -> int:
            return len(cls(spec).encode_strings(lines).ids)

        return cls(train_tokenizer(texts, langs, text, chosen, progress, count_tokens))

    def __call__(
        self,
        text: str | Sequence[str],
        text_pair: str | Sequence[str] | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        return_tensors: str | None = None,
        return_attention_mask: bool = True,
        return_token_type_ids: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        split_special_tokens: bool = False,
        threads: int = 1,
    ) -> ModelInputs:
        """What a model is given, as a call of a tokenizer of transformers has it: input_ids, attention_mask and more.

        The arguments are those of transformers. Special tokens that a text spells become their ids unless
        split_special_tokens is set, and those that a tokenizer.json puts around texts are put there: encode does
        neither. return_tensors: "np" or "pt"; None: lists. Padding is the token of role padding, or else document_end.
        Raises ConfigError for other values, and if return_offsets_mapping is set for texts that are normalized or not
        kept whole: tokcore.transformers.TokcoreTokenizer has these spans, too.

        >>> tokenizer(["low lower", "low"], padding=True).attention_mask
        [[1, 1, 1], [1, 0, 0]]
        >>> tokenizer("low lower", return_offsets_mapping=True)
        {'input_ids': [257, 258, 259], 'attention_mask': [1, 1, 1], 'offset_mapping': [(0, 3), (3, 7), (7, 9)]}
        """
        first = [text] if isinstance(text, str) else list_strings(text)
        second = [text_pair] if isinstance(text_pair, str) else None if text_pair is None else list_strings(text_pair)
        if second is not None and len(second) != len(first):
            raise ConfigError(f"text_pair has {len(second)} texts, and text has {len(first)}")
        pad_id = self.eos_id if self.pad_id is None else self.pad_id
        lengths = (max_length, self.spec.max_length)
        shape = make_shape(padding, truncation, *lengths, pad_id, pad_to_multiple_of, padding_side, truncation_side)
        template = TextTemplate.parse(self.spec.post_processor)
        if not add_special_tokens:
            template = template.without_added()
        how = (template, not split_special_tokens, return_offsets_mapping, threads)
        found = [self.encode_sequences(texts, *how) for texts in (first, second) if texts is not None]
        sequences = [one for one in found if one is not None]
        if len(sequences) < len(found):
            raise ConfigError(
                "return_offsets_mapping: this tokenizer does not keep these texts as they are, so its tokens have no "
                "places there: use tokcore.transformers.TokcoreTokenizer, which asks tokenizers for them"
            )
        rows = Rows.of(sequences[0], None if second is None else sequences[1], template, shape)
        wanted = {
            "input_ids": True,
            "token_type_ids": return_token_type_ids,
            "attention_mask": return_attention_mask,
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
        }
        columns = rows.columns([name for name, is_wanted in wanted.items() if is_wanted])
        if return_tensors is not None:
            return ModelInputs({name: make_tensor(rows.stack(one), return_tensors) for name, one in columns.items()})
        lists = {name: rows.list(column) for name, column in columns.items()}
        return ModelInputs({name: one[0] for name, one in lists.items()} if isinstance(text, str) else lists)

    def encode_sequences(
        self, strings: Sequence[Any], template: TextTemplate, with_special: bool, with_spans: bool, threads: int = 1
    ) -> Sequences | None:
        """The ids of texts, with special tokens that they spell, and their spans; None if there are no such spans.

        >>> from tokcore.tokenizer.text_template import TextTemplate
        >>> tokenizer.encode_sequences(["low lower"], TextTemplate(), True, True).spans.tolist()
        [[0, 3], [3, 7], [7, 9]]
        """
        spells = with_special and self._shared.added.may_spell_special(strings)
        if not (spells or with_spans):
            encoded = self.encode_strings(strings, threads)
            return Sequences(encoded.ids, encoded.offsets, None)
        texts = make_texts_from_strings(strings)
        encoded = self.encode_texts_with_special(texts, threads) if spells else self.encode_texts(texts, threads)
        if not with_spans:
            return Sequences(encoded.ids, encoded.offsets, None)
        spans = find_text_spans(self._shared, texts, encoded, template)
        return None if spans is None else Sequences(encoded.ids, encoded.offsets, spans)

    def save(self, path: str | PathLike[str], *, replace: bool = False) -> Path:
        """Write tokcore.json, which load reads: into that folder, or to that file if path ends with .json.

        Returns the file. Raises FileExistsError if it is there with other content, unless replace is set.

        >>> tokenizer.save("mine").name
        'tokcore.json'
        >>> tokcore.Tokenizer.load("mine") == tokenizer
        True
        """
        (file,) = write_files(Path(path), [(FILE_NAME, self.spec.to_json_bytes())], ".json", replace)
        return file

    def export(self, to: str, path: str | PathLike[str], *, replace: bool = False) -> list[Path]:
        """Write the files of another format.

        to: huggingface, tiktoken, gpt2, bert, byt5, sentencepiece, tekken, gguf or token_bytes.

        Returns their paths.

        path: a folder. For huggingface a path that ends with .json, and for tiktoken any that is no folder yet, is the
        one file. Raises ConfigError for an unknown format, FormatError if it cannot hold this tokenizer,
        FileExistsError as save does.

        >>> [path.name for path in tokenizer.export("gpt2", "mine")]
        ['vocab.json', 'merges.txt']
        >>> [path.name for path in tokenizer.export("huggingface", "mine/fast.json")]
        ['fast.json']
        """
        return export_to(self.spec, to, Path(path), replace)

    def encode(
        self,
        text: str | bytes,
        allow_special: Iterable[str] | bool = _NOTHING,
        *,
        dropout: float | None = None,
        sampling: float | None = None,
        seed: int = 0,
    ) -> Ids:
        """The ids of a text, int32; nothing is appended.

        allow_special: special tokens that become their id where the text spells them (the leftmost, the longest of
        several); True or "all" for all; the others are ordinary text. What a tokenizer.json adds as not special is
        always found.
        dropout (a probability), sampling (theta): ids are drawn, as tokcore.tokenizer.sampling.Randomness says, and
        follow from seed alone. They raise ConfigError for a model that has no such thing, and if both are given. Raises
        UnicodeEncodeError for a str with a lone surrogate.

        >>> tokenizer.encode("low lower").tolist()
        [257, 258, 259]
        >>> tokenizer.encode("low<|endoftext|>", allow_special="all").tolist()
        [257, 261]
        """
        if type(text) is not str:
            _check_text(text)
        if dropout is None and sampling is None:
            shared = self._shared
            if allow_special is _NOTHING and shared.takes_strings:
                return shared.encoder.encode_text(text)
            return self._encode_one(text, self._allowed(allow_special))
        texts, seeds = make_texts_from_strings([text]), np.array([operator.index(seed) % 2**64], np.uint64)
        return self._draw(texts, Randomness(dropout, sampling), seeds, self._allowed(allow_special)).ids

    def draw_texts(self, texts: Texts, randomness: Randomness, seeds: Seeds, *, with_special: bool = False) -> Encoded:
        """The ids of each text, drawn. seeds: uint64, one of each text; equal seeds and texts give equal ids.

        with_special: special tokens that a text spells become their ids. Raises ConfigError for another model.

        >>> from tokcore.tokenizer.sampling import Randomness
        >>> texts = make_texts_from_strings(["low lower", "low lower"])
        >>> drawn = tokenizer.draw_texts(texts, Randomness(dropout=0.5), np.array([1, 2], np.uint64))
        >>> [tokenizer.decode(drawn.ids[a:b]) for a, b in zip(drawn.offsets, drawn.offsets[1:])]
        [b'low lower', b'low lower']
        """
        return self._draw(texts, randomness, seeds, self._shared.added.special_ids if with_special else {})

    def _draw(self, texts: Texts, randomness: Randomness, seeds: Seeds, allowed: Mapping[str, int]) -> Encoded:
        randomness.check(self.spec.model)
        shared = self._shared
        cut = shared.added.cut(texts, allowed)
        seeds = seeds[cut.of]
        for numbers in (cut.outer, cut.inner):
            seeds = derive_seeds(seeds, numbers.tolist()) if numbers.any() else seeds
        if randomness.sampling is not None:
            sampled = shared.sampled_encoder(randomness.sampling)
            encoded = self._encode_by_place(
                cut, lambda encoder, texts, where: sampled.encode(encoder.normalize(texts), seeds[where])
            )
            return cut.join(encoded)
        if (last := randomness.last_passed) < 0:
            return cut.join(self._encode_cut(cut, 1))
        texts, ends, firsts = shared.pretokenizer.cut(cut.texts)
        ids, offsets = shared.dropout_encoder.encode(texts, ends, firsts, seeds, last)
        return cut.join(Encoded(ids, offsets, np.diff(firsts)))

    def nbest(self, text: str | bytes, num: int) -> list[tuple[Ids, float]]:
        """The best ways to cut a text by a Unigram, the best first: (ids, sum of scores); fewer if there are no more.

        Sums are float64, so that of near ties another may come first than in encode. Raises ConfigError for another
        model, and for num below 1.

        >>> import json
        >>> from pathlib import Path
        >>> pieces = [["<unk>", 0.0], ["new", -1.5], ["er", -1.5], ["newer", -3.5], ["n", -4.0], ["ewer", -4.0]]
        >>> file = {"model": {"type": "Unigram", "unk_id": 0, "vocab": pieces}}
        >>> _ = Path("tokenizer.json").write_text(json.dumps(file | {"added_tokens": [
        ...     {"id": 0, "content": "<unk>", "special": True}]}))
        >>> [(ids.tolist(), total) for ids, total in Tokenizer.load("tokenizer.json").nbest("newer", 2)]
        [([1, 2], -3.0), ([3], -3.5)]
        """
        if num < 1:
            raise ConfigError(f"num = {num}: expected at least 1")
        require_unigram(self.spec.model, "nbest")
        texts = self._shared.normalizer.apply(make_texts_from_strings([text]))
        normalized = cast(NormalizingEncoder, self._shared.encoder).normalize(texts).text(0)
        return [(np.array(ids, np.int32), total) for ids, total in list_best(self.spec.model, normalized, num)]

    def count_tokens(self, text: str | bytes, allow_special: Iterable[str] | bool = _NOTHING) -> int:
        """How many ids encode gives.

        >>> tokenizer.count_tokens("low lower")
        3
        """
        if type(text) is not str:
            _check_text(text)
        if allow_special is _NOTHING and self._shared.takes_strings:
            return self._shared.encoder.count_text(text)
        return len(self.encode(text, allow_special))

    @overload
    def encode_batch(
        self,
        texts: Batch,
        threads: int = 1,
        *,
        allow_special: Iterable[str] | bool = (),
        max_tokens: int | None = None,
        padding: Literal[False] | None = None,
        pad_id: None = None,
    ) -> pa.ListArray: ...
    @overload
    def encode_batch(
        self,
        texts: Batch,
        threads: int = 1,
        *,
        allow_special: Iterable[str] | bool = (),
        max_tokens: int | None = None,
        padding: Side | Literal[True],
        pad_id: int | None = None,
    ) -> Padded: ...
    def encode_batch(
        self,
        texts: Batch,
        threads: int = 1,
        *,
        allow_special: Iterable[str] | bool = _NOTHING,
        max_tokens: int | None = None,
        padding: Side | bool | None = None,
        pad_id: int | None = None,
    ) -> pa.ListArray | Padded:
        """The ids of each text, as a pyarrow list<int32> array, or as rows of equal width if padding is set.

        texts: a list of str or bytes, or an Arrow string, binary or dictionary array without nulls.
        allow_special: as for encode. max_tokens: keep only that many ids of each text, the first ones.
        padding: "right" or True, or "left", with pad_id or, if it is None, the token of role padding.
        Raises TypeError or ValueError for a value that is not text, with its position, and ValueError if there are
        2**31 ids or more, which one list array cannot hold.

        >>> tokenizer.encode_batch(["low", "lower low"]).to_pylist()
        [[257], [257, 259, 258]]
        >>> tokenizer.encode_batch(["low", "lower low"], max_tokens=2, padding="left", pad_id=0).ids.tolist()
        [[0, 257], [257, 259]]
        """
        if isinstance(padding, bool):
            padding = "right" if padding else None
        if padding is None and pad_id is not None:
            raise ValueError(f"pad_id = {pad_id}: has no effect without padding. Set padding to 'left' or 'right'.")
        if padding is not None and pad_id is None and (pad_id := self.pad_id) is None:
            raise IdentityError("this tokenizer has no special token of role padding: name one with pad_id")
        allowed = self._allowed(allow_special)
        if isinstance(texts, _ARROW):
            encoded = self._encode_special(make_texts_from_arrow(texts), threads, allowed)
        else:
            encoded = self._encode_list(list_strings(texts), threads, allowed)
        ids, offsets = encoded.ids, encoded.offsets
        if max_tokens is not None:
            ids, offsets = cut(ids, offsets, max_tokens)
        return make_list_array(ids, offsets) if padding is None else pad(ids, offsets, padding, cast(int, pad_id))

    def encode_strings(self, texts: Sequence[str | bytes], threads: int = 1) -> Encoded:
        """encode_texts of a list of str and bytes, which are read in place if nothing has to be done to them first.

        >>> tokenizer.encode_strings(["low", b"lower"]).ids.tolist()
        [257, 257, 259]
        """
        normalized = self._normalize_plain(texts)
        if normalized is None:
            return self.encode_texts(make_texts_from_strings(texts), threads)
        return Encoded(*self._shared.encoder.encode_strings(normalized, threads))

    def encode_texts(self, texts: Texts, threads: int = 1) -> Encoded:
        """The ids of each text; special-token text is ordinary. The same for any number of threads.

        >>> encoded = tokenizer.encode_texts(make_texts_from_strings(["low", "lower low"]))
        >>> encoded.ids.tolist(), encoded.offsets.tolist(), encoded.pretokens.tolist()
        ([257, 257, 259, 258], [0, 1, 4], [1, 2])
        """
        return self._encode_special(texts, threads, {})

    def _encode_normalized(self, texts: Texts, threads: int) -> Encoded:
        """The ids of texts without added tokens."""
        shared = self._shared
        if shared.pretokenizer.native_name is None:
            return Encoded(*shared.encoder.encode_pieces(*shared.pretokenizer.cut(texts), threads))
        return Encoded(*shared.encoder.encode(texts, threads))

    def encode_pretokens(self, pretokens: Texts, threads: int = 1) -> Encoded:
        """The ids of each pre-token, merged as it is: neither normalized nor split.

        >>> tokenizer.encode_pretokens(make_texts_from_strings(["low low"])).ids.tolist()
        [257, 258]
        """
        ends, firsts = pretokens.offsets[1:], np.arange(pretokens.num_texts + 1)
        return Encoded(*self._shared.encoder.encode_pieces(pretokens, ends, firsts, threads))

    def encode_texts_with_special(self, texts: Texts, threads: int = 1) -> Encoded:
        """The ids of each text, where every spelled special token becomes its id (and is not a pre-token).

        >>> tokenizer.encode_texts_with_special(make_texts_from_strings(["low<|endoftext|>"])).ids.tolist()
        [257, 261]
        """
        return self._encode_special(texts, threads, self._shared.added.special_ids)

    def spelled_special(self, texts: Texts) -> Counter[str]:
        """How often all texts together spell each special token. Added tokens that are not special do not count.

        Of overlapping ones the leftmost counts, then the longest.

        >>> tokenizer.spelled_special(make_texts_from_strings(["low<|endoftext|>", "<|endoftext|>"]))
        Counter({'<|endoftext|>': 2})
        """
        added = self._shared.added
        text_of_id = {id: text for text, id in added.special_ids.items()}
        return Counter(text_of_id[id] for id in added.list_spelled(texts) if id in text_of_id)

    @overload
    def decode(self, ids: TokenIds, errors: None = None) -> bytes: ...
    @overload
    def decode(self, ids: TokenIds, errors: str) -> str: ...
    def decode(self, ids: TokenIds, errors: str | None = None) -> bytes | str:
        """The bytes of the text that has these ids, or a str if errors is set; a special token gives its text.

        ids: a list, or a numpy or Arrow array. errors: as for bytes.decode: "strict", "replace" and so on.
        Raises IdentityError for an unused id and TypeError for a value that is not an integer, both with the position.

        >>> tokenizer.decode([257, 258, 261])
        b'low low<|endoftext|>'
        >>> tokenizer.decode([257, 258], errors="replace")
        'low low'
        """
        decoder = self._shared.decoder
        text: bytes | str | None = decoder.decode(ids if type(ids) is list else read_ids(ids), True, errors)
        if text is None:  # a list with other integers than int
            text = decoder.decode(list_integers(ids), True, errors)
        assert text is not None
        return text

    @overload
    def decode_batch(self, batch: Iterable[TokenIds] | pa.Array, errors: None = None) -> list[bytes]: ...
    @overload
    def decode_batch(self, batch: Iterable[TokenIds] | pa.Array, errors: str) -> list[str]: ...
    def decode_batch(self, batch: Iterable[TokenIds] | pa.Array, errors: str | None = None) -> list[bytes] | list[str]:
        """decode of each row: of a list of lists or arrays, a numpy array, or what encode_batch returns.

        Raises what decode raises, and says for which row.

        >>> tokenizer.decode_batch(tokenizer.encode_batch(["low", "lower"]))
        [b'low', b'lower']
        >>> tokenizer.decode_batch([[257], [258]], errors="strict")
        ['low', ' low']
        """
        if (rows := read_rows(batch)) is not None:
            return self._shared.decoder.list_rows(*rows, errors)
        if type(batch) is list and (found := self._shared.decoder.list_lists(batch, errors)) is not None:
            return found
        texts: list[Any] = []
        for i, ids in enumerate(list_rows_of_ids(batch)):
            try:
                texts.append(self.decode(ids, errors) if errors is not None else self.decode(ids))
            except (IdentityError, TypeError) as error:
                raise type(error)(f"batch[{i}]: {error}") from error
        return texts

    def decode_to_arrow(
        self, batch: Iterable[TokenIds] | pa.Array, errors: str | None = None
    ) -> pa.LargeBinaryArray | pa.LargeStringArray:
        """decode_batch as an Arrow array: large_binary, or large_string if errors is set.

        Raises what decode_batch raises.

        >>> tokenizer.decode_to_arrow(tokenizer.encode_batch(["low", "lower"]), errors="strict").to_pylist()
        ['low', 'lower']
        """
        if (rows := read_rows(batch)) is None:
            listed = self.decode_batch(batch) if errors is None else self.decode_batch(batch, errors)
            return pa.array(listed, pa.large_binary() if errors is None else pa.large_string())
        data, offsets = self._shared.decoder.decode_rows(*rows)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        found = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
        if errors is None:
            return found
        try:
            return found.cast(pa.large_string())
        except pa.ArrowInvalid:  # not UTF-8
            return pa.array([text.decode(errors=errors) for text in found.to_pylist()], pa.large_string())

    def decode_texts(self, ids: Ids, offsets: Offsets) -> Texts:
        """What encode_texts takes: the bytes of each row, of ids[offsets[i]:offsets[i + 1]]. Raises as decode_batch.

        >>> tokenizer.decode_texts(np.array([257, 257, 259], np.int32), np.array([0, 1, 3])).offsets.tolist()
        [0, 3, 8]
        """
        return self._shared.decoder.decode_rows(ids, offsets)

    def stream_decoder(self, errors: str = "replace") -> StreamDecoder:
        """A decoder that takes ids as they come and gives out whole characters.

        >>> stream = tokenizer.stream_decoder()
        >>> stream.feed(257) + stream.feed([258, 259]) + stream.finish()
        'low lower'
        """

        decoder = self._shared.decoder

        def decode(ids: Any, is_start: bool) -> bytes:
            if is_start:
                return b"".join(decoder.spell_all(list_integers(ids), True))
            text: bytes | None = decoder.decode(ids, False)
            return decoder.decode(list_integers(ids), False) if text is None else text

        return StreamDecoder(decode, errors)

    def offsets(self, ids: TokenIds) -> TokenSpans:
        """Start and end of each token in decode(ids), in bytes and in characters.

        That is the encoded text, if the tokenizer has no normalizer; otherwise its normalized form.
        Raises IdentityError and TypeError as decode does.

        >>> ids = tokenizer.encode("low ß")
        >>> tokenizer.offsets(ids).characters.tolist()
        [[0, 3], [3, 4], [4, 5], [4, 5]]
        >>> tokenizer.offsets(ids).bytes.tolist()
        [[0, 3], [3, 4], [4, 5], [5, 6]]
        """
        known = list_integers(ids)
        return find_token_spans(self._shared.decoder.spell_all(known, True))

    @property
    def lossless(self) -> bool:
        """Whether decode gives back the normalized form of every text.

        >>> tokenizer.lossless
        True
        """
        return self.spec.model.lossless

    def normalized(self, text: bytes, with_special: bool = False) -> bytes:
        """The normalized form of a text: what decode gives back if the tokenizer is lossless.

        with_special: spelled special tokens were encoded as such, so they stay as they are.

        >>> tokenizer.normalized(b"low")  # this tokenizer has no normalizer
        b'low'
        """
        spell = self._shared.decoder.spell
        return b"".join(
            self._shared.change(part) if id is None else spell(id)
            for id, part in self.cut_added(text, with_special=with_special)
        )

    def normalized_texts(self, texts: Texts, with_special: bool = False) -> Texts:
        """normalized of each text.

        >>> tokenizer.normalized_texts(tokenizer.decode_texts(np.array([257, 259]), np.array([0, 1, 2]))).text(1)
        b'er'
        """
        shared = self._shared
        if shared.pretokenizer.keeps_text and not (with_special or shared.added.has_always):
            return shared.normalizer.apply(texts)
        found = [self.normalized(texts.text(i), with_special) for i in range(texts.num_texts)]
        return make_texts_from_strings(found)

    def cut_added(self, text: str | bytes, *, with_special: bool = False) -> list[tuple[int | None, bytes]]:
        """The parts of a text: (id, b"") of an added token that it spells, (None, normalized text) between them.

        with_special: special ones, too; otherwise those that text always becomes.

        >>> tokenizer.cut_added("low<|endoftext|>", with_special=True)
        [(None, b'low'), (261, b'')]
        """
        added = self._shared.added
        cut = added.cut(make_texts_from_strings([text]), added.special_ids if with_special else {})
        return [(None, cut.texts.text(i)) if id < 0 else (id, b"") for i, id in enumerate(cut.ids.tolist())]

    def _allowed(self, allow_special: Iterable[str] | bool) -> dict[str, int]:
        """The special tokens that text may spell: text -> id."""
        if allow_special is False or allow_special is _NOTHING:
            return {}
        if allow_special is True or allow_special == "all":
            return self._shared.added.special_ids
        if isinstance(allow_special, str) or not isinstance(allow_special, Iterable):
            raise TypeError(f"allow_special is a list of special tokens, 'all' or a bool, found {allow_special!r}")
        return {text: self.special_id(text) for text in sorted(set(allow_special))}

    def _encode_one(self, text: str | bytes, allowed: Mapping[str, int]) -> Ids:
        shared = self._shared
        if not allowed and (normalized := self._normalize_plain([text])) is not None:
            return shared.encoder.encode_text(normalized[0])
        if shared.takes_strings and shared.encoder_within is None:
            parts = shared.added.cut_text(text.encode() if isinstance(text, str) else bytes(text), allowed)
            if parts is not None:
                return _join_parts(shared.encoder, parts)
        return self._encode_list([text], 1, allowed).ids

    def _normalize_plain(self, texts: Sequence[str | bytes]) -> Sequence[str | bytes] | None:
        """The texts, normalized, if the encoder takes them as they are then; None if they may spell an added token."""
        shared = self._shared
        if not shared.takes_most or shared.added.may_be_spelled(texts):
            return None
        if shared.takes_strings or not shared.normalizer.steps:
            return texts
        normalized = shared.normalizer.apply_to_strings(texts)
        return None if normalized is not texts and shared.added.may_be_spelled(normalized) else normalized

    def _encode_list(self, texts: Sequence[str | bytes], threads: int, allowed: Mapping[str, int]) -> Encoded:
        if allowed:
            return self._encode_special(make_texts_from_strings(texts), threads, allowed)
        return self.encode_strings(texts, threads)

    def _encode_special(self, texts: Texts, threads: int, allowed: Mapping[str, int]) -> Encoded:
        added = self._shared.added
        if not (allowed or added.has_always):
            return self._encode_normalized(self._shared.normalizer.apply(texts), threads)
        cut = added.cut(texts, allowed)
        return cut.join(self._encode_cut(cut, threads))

    def _encode_cut(self, cut: Cut, threads: int) -> Encoded:
        if self._shared.encoder_within is None:
            return self._encode_normalized(cut.texts, threads)
        return self._encode_by_place(cut, lambda encoder, texts, where: encoder.encode(texts, threads))

    def _encode_by_place(
        self, cut: Cut, encode: Callable[[NormalizingEncoder, Texts, Offsets], tuple[Ids, Offsets, Offsets]]
    ) -> Encoded:
        """The ids of parts, by the encoder for those that begin a text and the one for the others.

        encode: takes an encoder, the parts that are for it, and their places.
        """
        first = cast(NormalizingEncoder, self._shared.encoder)
        within = self._shared.encoder_within
        begins = cut.begins
        if within is None or begins.all():
            return Encoded(*encode(first, cut.texts, np.arange(len(begins))))
        places = [np.flatnonzero(begins), np.flatnonzero(~begins)]
        encoded = [
            Encoded(*encode(encoder, cut.texts.take(where), where))
            for encoder, where in zip((first, within), places, strict=True)
        ]
        return interleave(encoded, places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size}, fingerprint={self.fingerprint[:12]}...)"

    def __reduce__(self) -> tuple[Callable[[bytes], Tokenizer], tuple[bytes]]:
        return _unpickle, (self.spec.to_json_bytes(),)


def require_none_of_one_document(tokenizer: Tokenizer, ids: Sequence[int]) -> None:
    """Raise LearnError, naming some of them, if there are tokens of one document."""
    if not ids:
        return
    names = ", ".join(repr(tokenizer.token_bytes(id).decode(errors="replace")) for id in ids[:5])
    raise LearnError(
        f"push_to_hub: {len(ids)} tokens come from one document each, by more than half of their occurrences: {names}"
        f"{', ...' if len(ids) > 5 else ''}. Whoever has the vocabulary can read them. Learn it again with "
        f"min_documents, or without that document; or, if that is meant, set allow_one_document=True"
    )


def _join_parts(encoder: Encoder, parts: Sequence[bytes | int]) -> Ids:
    """The ids of a text that is cut around special tokens, whose ids are among the parts."""
    if len(parts) == 1:
        return encoder.encode_text(cast(bytes, parts[0]))
    ids = [np.array([part], np.int32) if isinstance(part, int) else encoder.encode_text(part) for part in parts]
    return np.concatenate(ids)


@functools.lru_cache(maxsize=4)
def _unpickle(spec: bytes) -> Tokenizer:
    return Tokenizer(TokenizerSpec.from_json_bytes(spec, "a pickled tokenizer"))
