"""The shelf: the outputs and tokenizers that the command line named, opened, each with a number."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipelines.inspect.audit import audit
from pipelines.stages.read_state import State, read_state
from tokcore.errors import ConfigError
from tokcore.explain import Explainer
from tokcore.shards import Shards, open_shards
from tokcore.token_search import TokenSearcher, can_search
from tokcore.tokenizer import Tokenizer

MOST = 4


class Volume:
    """A tokenizer and, of an output, its documents. Safe to share between threads."""

    def __init__(self, name: str, tokenizer: Tokenizer, output: str = "", at: int | None = None) -> None:
        """output: its URL; empty of a tokenizer alone. at: the commit that is looked at; None: the newest, by now."""
        self.name = name
        self.tokenizer = tokenizer
        self.output = output
        self._state: State | None = read_state(output, at) if output else None
        self.explainer = Explainer(tokenizer)

    @functools.cached_property
    def shards(self) -> Shards | None:
        """All documents, of both splits; None if there are none."""
        if self._state is None or not self._state.list_shards():
            return None
        return open_shards(self.output, split="all", at=self._at)

    def require_shards(self) -> Shards:
        """The documents. Raises ConfigError if there are none."""
        if self.shards is None:
            raise ConfigError(f"{self.name}: a tokenizer without documents")
        return self.shards

    @functools.cached_property
    def searcher(self) -> TokenSearcher | None:
        """Looks for texts in ids; None where ids tell too little of their text."""
        return TokenSearcher(self.tokenizer) if can_search(self.tokenizer) else None

    @functools.cached_property
    def counts(self) -> Mapping[int, tuple[int, int]]:
        """Id -> how often it is written, and in how many documents; empty without documents."""
        if self.shards is None or self._state is None:
            return {}
        table = self._state.read_token_counts()
        columns = (table[name].to_pylist() for name in ("id", "count", "documents"))
        return {id: (count, documents) for id, count, documents in zip(*columns, strict=True)}

    @functools.cached_property
    def languages(self) -> Mapping[str, int]:
        """Language -> its documents, most first; empty without documents."""
        if self.shards is None or self._state is None:
            return {}
        found: Counter[str] = Counter()
        for _, made in self._state.list_shards():
            found.update({lang: one.documents for lang, one in made.languages.items()})
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @functools.cached_property
    def audited(self) -> dict[str, Any]:
        """What `tokcore audit` finds, without sources. Raises ConfigError for a tokenizer alone."""
        if not self.output:
            raise ConfigError(f"{self.name}: only outputs are audited")
        return audit(self.output, self.tokenizer, at=self._at)

    @property
    def _at(self) -> int | None:
        """The commit, so that all that is shown is of the same one; None of an output that is not finished."""
        return self._state.number if self._state is not None and self._state.log is not None else None


Shelf = tuple[Volume, ...]
