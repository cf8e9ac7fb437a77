"""What another distribution may add to tokcore: a format, a model, a reader and a step of [[map]]."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokcore.errors import FormatError
from tokcore.files.jsonable import from_jsonable
from tokcore.formats.flat_ids import FlatIds, read_start, store_ids
from tokcore.formats.shard_format import ShardFormat, ShardWithDocuments
from tokcore.models.bpe import MergesModel
from tokcore.models.defaults import FixedVocabulary, SplittingEncoder
from tokcore.models.model import JoinedTokens, ModelType, find_unlike_themselves
from tokcore.plugins.map_step import MapStep
from tokcore.plugins.reader import Reader
from tokcore.text.byte_alphabet import to_printable_tokens

MAGIC = b"toy 32b\n"


class ToyWriter:
    def __init__(self, file, dtype, vocab_size):
        self._file, self._dtype, self._vocab_size = file, dtype, vocab_size
        file.write(MAGIC)

    def write(self, batch):
        self._file.write(store_ids(batch, self._dtype, self._vocab_size))

    def close(self):
        """Nothing waits."""


class ToyFormat(ShardFormat):
    """Ids after eight bytes that name the format."""

    name = "toy"
    suffixes = (".toy",)
    dtypes = ("int32",)
    has_bounds = False
    usage = "Eight bytes, then ids of four bytes each."
    writer = ToyWriter

    def main_file(self, path):
        place = path if path.endswith(".toy") else path + ".toy"
        return place if Path(place).is_file() else None

    def open_reader(self, path, documents):
        if documents is None:
            raise FormatError(f"{path}: its documents file is not there")
        if not Path(path).is_file() or read_start(path, len(MAGIC)) != MAGIC:
            raise FormatError(f"{path}: is no shard of this format")
        return ShardWithDocuments(FlatIds(path, "int32", documents.lengths, len(MAGIC), documents.path), documents)


@dataclasses.dataclass(frozen=True, slots=True)
class BackwardJson:
    kind: str


@dataclasses.dataclass(frozen=True, eq=False)
class BackwardModel(FixedVocabulary):
    """A token for each byte; the byte 255 is the id 0."""

    kind = "backward"
    layout: str = ""

    @functools.cached_property
    def tokens(self):
        return tuple(bytes([255 - id]) for id in range(256))

    @functools.cached_property
    def ids(self):
        return np.arange(256, dtype=np.int32)

    @functools.cached_property
    def names(self):
        return tuple(to_printable_tokens(self.tokens))

    summary = "256 bytes, backward"

    def encoder(self, pattern, cache_bytes):
        return BackwardEncoder(pattern)

    def decoder(self, special):
        return JoinedTokens(self.tokens, self.ids, special)

    def unreachable(self, encode):
        return find_unlike_themselves(self, encode)

    def as_bpe(self):
        return MergesModel(self.tokens, self.ids, np.zeros((0, 2), np.int32), ignore_merges=False)

    @classmethod
    def from_json(cls, value, place):
        from_jsonable(BackwardJson, value, place)
        return cls()


class BackwardEncoder(SplittingEncoder):
    def encode_pieces(self, texts, ends, firsts, threads=1):
        start, end = texts.offsets[0], texts.offsets[-1]
        return 255 - texts.data[start:end].astype(np.int32), texts.offsets - start, np.diff(firsts)


class Backward(ModelType):
    text = "a token for each byte, the last one first"
    uses = ("vocab_size",)
    default_size = "256 and the special tokens"
    models = (BackwardModel,)

    def default_vocab_size(self, num_special):
        return 256 + num_special

    def wrong_option(self, options):
        exact = 256 + options.num_special
        return None if options.vocab_size == exact else ("vocab_size", f"must be {exact}.")

    def learn(self, rows, options):
        return BackwardModel()


class Pairs(Reader):
    """Lines of an id, a tabulator and a text; the last line is a full stop."""

    suffixes = (".pairs",)

    def read(self, file):
        for number, line in enumerate(file):
            if line == b".\n":
                if file.read(1):
                    raise FormatError(f"line {number + 1}: ends the file, and more follows")
                return
            name, tabulator, text = line.removesuffix(b"\n").partition(b"\t")
            if not tabulator:
                raise FormatError(f"line {number + 1}: has no tabulator")
            yield {"id": name, "text": text}
        raise FormatError("no line with a full stop ends the file")


class Shout(MapStep):
    """Texts in capital letters; those that ask something are rejected."""

    def run(self, batch):
        asks = pc.ends_with(batch["text"], "?")
        reject = pc.if_else(asks, pa.scalar("question"), pa.scalar(None, pa.string()))
        at = batch.schema.get_field_index("text")
        return batch.set_column(at, "text", pc.utf8_upper(batch["text"])).append_column("reject", reject)
