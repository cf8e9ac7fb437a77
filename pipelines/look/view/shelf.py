"""The shelf: the outputs and tokenizers that the command line named, opened, each with a number."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tokcore.errors import ConfigError
from tokcore.look.explain import Explainer
from tokcore.look.token_search import TokenSearcher, can_search
from tokcore.shards.opened_shards import Shards, open_shards
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.output import Output
from tokcore_pipelines.look.audit import audit
from tokcore_schemas.stage_table import SHARDS

MOST = 4


class Volume:
    """A tokenizer and, of an output, its documents. Safe to share between threads."""

    def __init__(self, name: str, tokenizer: Tokenizer, output: Output | None = None) -> None:
        """output: None of a tokenizer alone."""
        self.name = name
        self.tokenizer = tokenizer
        self.output = output
        self.explainer = Explainer(tokenizer)

    @functools.cached_property
    def shards(self) -> Shards | None:
        """All documents, of both splits; None if there are none."""
        if self.output is None or not self.output.find_all(SHARDS):
            return None
        return open_shards(self.output.url, split="all", at=self.output.at)

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
        if self.shards is None or self.output is None:
            return {}
        table = self.output.read_token_counts()
        columns = (table[name].to_pylist() for name in ("id", "count", "documents"))
        return {id: (count, documents) for id, count, documents in zip(*columns, strict=True)}

    @functools.cached_property
    def languages(self) -> Mapping[str, int]:
        """Language -> its documents, most first; empty without documents."""
        if self.shards is None or self.output is None:
            return {}
        found: Counter[str] = Counter()
        for _, made in self.output.find_all(SHARDS):
            found.update({lang: one.documents for lang, one in made.languages.items()})
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @functools.cached_property
    def audited(self) -> dict[str, Any]:
        """What `tokcore audit` finds, without sources. Raises ConfigError for a tokenizer alone."""
        if self.output is None:
            raise ConfigError(f"{self.name}: only outputs are audited")
        return audit(self.output, self.tokenizer)


Shelf = tuple[Volume, ...]
