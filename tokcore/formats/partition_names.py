"""Names of partitions' folders, such as `topic=code/quality=3`. In a module of its own: it loads no numpy and no Arrow.

Which document is in which: tokcore.shards.partitions.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from tokcore.errors import StageError

Place = TypeVar("Place", bound=PurePath)

LANG = "lang"  # the key that is no field: the language of a document

NULL = "__HIVE_DEFAULT_PARTITION__"  # in place of a value: Hive's name for none
_MOST_NAME_BYTES = 255  # of a folder, on most disks
_PLAIN = frozenset(f"{string.ascii_letters}{string.digits}_.-~".encode())


class Partitioning(NamedTuple):
    """How documents are dealt to partitions.

    keys: lang, or fields of metadata, in the order of folders. bins: field of numbers -> ascending bounds, as decimals.
    Bin 0 is below the first bound, bin i from bound i (included) to the next one (excluded), the last from the last on.
    Bounds are rounded to the type of the field, as its values are.
    """

    keys: tuple[str, ...]
    bins: Mapping[str, tuple[str, ...]]

    def only(self, keys: Sequence[str]) -> Partitioning:
        """By some of these keys, in their order."""
        return Partitioning(tuple(keys), {key: bounds for key, bounds in self.bins.items() if key in keys})

    def columns_of(self, told: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Of metadata columns those that partitions depend on."""
        return tuple((name, kind) for name, kind in told if name in self.keys)


def name_folder(key: str, value: Any) -> str:
    """The name of the folder of a key's value; None: of no value.

    Raises StageError for a value that makes no folder's name, since it is too long.

    >>> name_folder("topic", "a/b"), name_folder("old", True), name_folder("topic", None)
    ('topic=a%2Fb', 'old=true', 'topic=__HIVE_DEFAULT_PARTITION__')
    """
    spelled = NULL
    if value is not None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        spelled = _quote(text) if text != NULL else f"%5F{NULL[1:]}"
    name = f"{_quote(key)}={spelled}"
    if len(name) > _MOST_NAME_BYTES:
        raise StageError(
            f"partition_by: a document has {key} = {str(value)[:40]!r}..., whose folder's name would have {len(name)} "
            f"bytes, at most {_MOST_NAME_BYTES}: partition by a field of short values, or shorten them with [[map]]"
        )
    return name


def _quote(text: str) -> str:
    """The text as a part of a URL has it."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode())


def find_name_fault(name: str, keys: Sequence[str]) -> str:
    """What keeps a name from being the folders of these keys, in their order; "" if it is.

    >>> find_name_fault("topic=code/quality=3", ["topic", "quality"]), find_name_fault("code", ["topic"])
    ('', 'expected topic=VALUE')
    """
    expected = [_quote(key) for key in keys]
    found = [one.partition("=") for one in name.split("/")]
    if [key for key, _, _ in found] != expected or not all(between for _, between, _ in found):
        return f"expected {'/'.join(f'{key}=VALUE' for key in expected)}"
    return ""


def is_partition(name: str) -> bool:
    """Whether a folder's name is one of a partition's, which no language's is.

    >>> is_partition("topic=code"), is_partition("en")
    (True, False)
    """
    return "=" in name


def find_partition(folder: str | PurePath) -> str:
    """The partition that a folder of shards is of: its last names of that kind; "" if it has none.

    >>> find_partition("out/date=1/shards/arrow/topic=code/quality=3")
    'topic=code/quality=3'
    """
    names = PurePath(folder).parts
    start = len(names)
    while start and is_partition(names[start - 1]):
        start -= 1
    return "/".join(names[start:])


def list_keys(name: str) -> list[str]:
    """The keys of a partition's name, as folders spell them; none of a language.

    >>> list_keys("topic=code/quality=3"), list_keys("en")
    (['topic', 'quality'], [])
    """
    return [one.partition("=")[0] for one in name.split("/")] if is_partition(name) else []


def pick_keys(partition: str, keys: Sequence[str]) -> str:
    """The part of a partition's name that these keys make, in their order; "" if it lacks one.

    >>> pick_keys("lang=en/topic=code/quality=3", ["quality", "lang"]), pick_keys("lang=en", ["topic"])
    ('quality=3/lang=en', '')
    """
    folders = dict(zip(list_keys(partition), partition.split("/"), strict=False))
    return "/".join(folders[key] for key in keys) if all(key in folders for key in keys) else ""


def list_above(folder: Place, levels: int) -> list[Place]:
    """The folders above a folder or a file, nearest first: `levels` of them, those of its partition not counted.

    >>> [str(one) for one in list_above(PurePath("/out/shards/arrow/topic=code"), 2)]
    ['/out/shards/arrow', '/out/shards', '/out']
    """
    partition = find_partition(folder) or find_partition(folder.parent)
    return [*folder.parents[: levels + (partition.count("/") + 1 if partition else 0)]]
