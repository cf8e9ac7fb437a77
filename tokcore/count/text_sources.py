"""The texts that people hold in memory, as batches: strings, Arrow, pandas, polars, a datasets.Dataset or its rows.

None of these libraries is imported: tables are asked for Arrow's C stream, and a Dataset for Arrow tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tokcore.errors import ConfigError
from tokcore.text.texts import Texts, make_texts_from_arrow, make_texts_from_strings

BATCH_BYTES = 4 << 20  # of a batch; of strings, as many characters
_MOST_TEXTS = 1 << 16
_NO_LANG = "und"  # BCP 47: not determined


class TextBatch(NamedTuple):
    """Neighbouring texts.

    >>> batch = TextBatch(0, ["low", "bas", "lower"], ["en", "fr", "en"])
    >>> [(lang, texts.text(0), texts.num_texts) for lang, texts in batch.by_lang()]
    [('en', b'low', 2), ('fr', b'bas', 1)]
    """

    first: int  # the number of its first text
    texts: Sequence[str | bytes] | pa.Array
    langs: Sequence[str] | pa.Array | None  # of each text; None: they are not told apart

    def by_lang(self) -> Iterator[tuple[str, Texts]]:
        """The texts of each language. Raises UnicodeEncodeError for a str with a lone surrogate."""
        texts = make_texts_from_arrow(self.texts) if isinstance(self.texts, pa.Array) else None
        if self.langs is None:
            yield _NO_LANG, make_texts_from_strings(self.texts) if texts is None else texts
            return
        langs = self.langs if isinstance(self.langs, pa.Array) else pa.array(self.langs, pa.string())
        encoded = langs if pa.types.is_dictionary(langs.type) else langs.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for code, lang in enumerate(encoded.dictionary.to_pylist()):
            where = np.flatnonzero(codes == code)
            if not len(where):
                continue
            yield (
                lang,
                make_texts_from_strings([self.texts[i] for i in where.tolist()])
                if texts is None
                else texts.take(where),
            )


def read_batches(texts: Any, langs: str | Iterable[str] | None, column: str) -> Iterator[TextBatch]:
    """All texts, in order.

    texts: an iterable of str or bytes; or a table: of pandas, polars or pyarrow, a datasets.Dataset, or an iterable of
    rows that are mappings. column: of the texts, in a table. langs: the name of a column in a table, or a code for each
    text. Raises ConfigError for a column that is not there and for langs of another number, TypeError or ValueError for
    what is no text, with its number.
    """
    if isinstance(texts, str | bytes | bytearray):
        raise TypeError("texts: expected several texts, found a single one: put it in a list")
    if isinstance(texts, Mapping):
        raise TypeError(
            f"texts: expected texts or a table, found a mapping of {', '.join(map(str, texts))}: choose one"
        )
    batches = _find_arrow_batches(texts, [column, langs] if isinstance(langs, str) else [column])
    if batches is not None:
        yield from _read_table(batches, langs, column)
    elif isinstance(texts, pa.Array | pa.ChunkedArray) or hasattr(texts, "__arrow_c_stream__"):
        is_ours = isinstance(texts, pa.Array | pa.ChunkedArray)
        yield from _read_array(texts if is_ours else pa.chunked_array(texts), langs)
    else:
        yield from _read_items(texts, langs, column)


def count_texts(texts: Any) -> int | None:
    """How many texts there are; None if only reading them tells."""
    try:
        return len(texts)
    except TypeError:
        return None


def _find_arrow_batches(texts: Any, columns: Sequence[str]) -> Iterable[pa.RecordBatch] | None:
    """The rows of a table with at least these columns, as far as it has them; None if texts are no table of Arrow's."""
    library = type(texts).__module__.partition(".")[0]
    if library == "datasets" and hasattr(texts, "with_format") and hasattr(texts, "num_rows"):
        kept = texts.select_columns([name for name in columns if name in texts.column_names] or texts.column_names)
        return chain.from_iterable(table.to_batches() for table in kept.with_format("arrow").iter(batch_size=1000))
    if not isinstance(texts, pa.RecordBatch | pa.RecordBatchReader) and not hasattr(texts, "columns"):
        return None
    if library in ("pandas", "polars"):  # only what is asked for is converted
        texts = texts[[name for name in columns if name in texts.columns] or list(texts.columns)]
    if isinstance(texts, pa.RecordBatch):
        return [texts]
    return pa.RecordBatchReader.from_stream(texts) if hasattr(texts, "__arrow_c_stream__") else None


def _read_table(
    batches: Iterable[pa.RecordBatch], langs: str | Iterable[str] | None, column: str
) -> Iterator[TextBatch]:
    given = None if langs is None or isinstance(langs, str) else iter(langs)
    first = 0
    for batch in batches:
        texts = _get_column(batch, column, "text")
        _require_texts(texts, first, "texts")
        if isinstance(langs, str):
            of_texts = _get_column(batch, langs, "langs")
            _require_texts(of_texts, first, "langs")
        else:
            of_texts = None if given is None else _take_langs(given, len(texts))
        for start, end in _cut(texts):
            own = None if of_texts is None else of_texts[start:end]
            yield TextBatch(first + start, texts[start:end], own)
        first += len(texts)
    _require_end(given)


def _read_array(array: pa.Array | pa.ChunkedArray, langs: str | Iterable[str] | None) -> Iterator[TextBatch]:
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    _refuse_name(langs)
    yield from _read_table((pa.record_batch([chunk], ["texts"]) for chunk in chunks), langs, "texts")


def _read_items(texts: Iterable[Any], langs: str | Iterable[str] | None, column: str) -> Iterator[TextBatch]:
    """Of strings, or of rows that are mappings."""
    items = iter(texts)
    try:
        head = next(items)
    except StopIteration:
        return
    items = chain([head], items)
    given = None if langs is None or isinstance(langs, str) else iter(langs)
    pairs: Iterable[tuple[Any, str | None]]
    if isinstance(head, Mapping):
        pairs = _read_rows(items, column, langs if isinstance(langs, str) else None)
    else:
        _refuse_name(langs)
        pairs = zip(items, repeat(None), strict=False)
    first = size = 0
    held: list[str | bytes] = []
    codes: list[str | None] = []
    for text, code in pairs:
        if not isinstance(text, str | bytes):
            raise TypeError(f"texts[{first + len(held)}]: expected str or bytes, found {type(text).__name__}")
        held.append(text)
        codes.append(code)
        size += len(text)
        if size >= BATCH_BYTES or len(held) >= _MOST_TEXTS:
            yield TextBatch(first, held, _choose_langs(codes, given, langs))
            first, size, held, codes = first + len(held), 0, [], []
    if held:
        yield TextBatch(first, held, _choose_langs(codes, given, langs))
    _require_end(given)


def _read_rows(rows: Iterable[Any], column: str, langs: str | None) -> Iterator[tuple[Any, str | None]]:
    for number, row in enumerate(rows):
        for name, setting in ((column, "text"), (langs, "langs")):
            if name is not None and name not in row:
                raise _make_column_error(setting, name, list(row), f", row {number}")
        code = None if langs is None else row[langs]
        if langs is not None and not isinstance(code, str):
            raise TypeError(f"langs[{number}]: expected str, found {type(code).__name__}")
        yield row[column], code


def _choose_langs(
    codes: list[Any], given: Iterator[str] | None, langs: str | Iterable[str] | None
) -> Sequence[str] | None:
    if given is not None:
        return _take_langs(given, len(codes))
    return None if langs is None else codes


def _take_langs(given: Iterator[str], num: int) -> list[str]:
    taken = [code for _, code in zip(range(num), given, strict=False)]
    if len(taken) < num:
        raise ConfigError("langs: there are fewer of them than texts. Give one code for each text")
    for code in taken:
        if not isinstance(code, str):
            raise TypeError(f"langs: expected a code for each text, as str, found {code!r:.80}")
    return taken


def _require_end(given: Iterator[str] | None) -> None:
    if given is not None and next(given, None) is not None:
        raise ConfigError("langs: there are more of them than texts. Give one code for each text")


def _refuse_name(langs: str | Iterable[str] | None) -> None:
    if isinstance(langs, str):
        raise ConfigError(
            f"langs = {langs!r}: texts are no table that could have such a column. Give a code for each text, or, if "
            f"all are of one language, leave it out"
        )


def _get_column(batch: pa.RecordBatch, name: str, setting: str) -> pa.Array:
    if name not in batch.schema.names:
        raise _make_column_error(setting, name, batch.schema.names, "")
    return batch.column(name)


def _make_column_error(setting: str, name: str, there: Sequence[str], where: str) -> ConfigError:
    return ConfigError(
        f"{setting} = {name!r}: the table has no such column{where}; it has {', '.join(map(repr, there)) or 'none'}. "
        f"Name one of these: {setting}=..."
    )


def _require_texts(array: pa.Array, first: int, what: str) -> None:
    if array.null_count:
        number = first + array.is_null().index(True).as_py()
        raise ValueError(f"{what}[{number}] is null: drop such rows, or fill them")
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    tests = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view]
    if what == "texts":
        tests += [pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view]
    if not any(test(kind) for test in tests):
        raise TypeError(f"{what}: expected a column of text, found {kind}")


def _cut(texts: pa.Array) -> Iterator[tuple[int, int]]:
    """Bounds of slices with about BATCH_BYTES each."""
    num = min(_MOST_TEXTS, max(1, len(texts) * BATCH_BYTES // max(1, texts.nbytes)))
    for start in range(0, len(texts), num):
        yield start, min(start + num, len(texts))
