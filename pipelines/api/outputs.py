"""What a build made, and what became of it since: the files of an output, read when they are asked for."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from tokcore.count.count_tables import open_counts
from tokcore.errors import ConfigError
from tokcore.shards.opened_shards import Shards, open_shards
from tokcore.tokenizer.tokenizer import require_none_of_one_document
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.output import read_output
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.look.audit import audit
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_schemas.stage_table import BUILD, STAGES, WHOLE

if TYPE_CHECKING:
    import pyarrow as pa

    from tokcore.tokenizer.tokenizer import Tokenizer
    from tokcore_schemas.commit_log import Commit
    from tokcore_schemas.manifest import AnyManifest
    from tokcore_schemas.stage_manifests import BuildTotals


@dataclasses.dataclass(frozen=True)
class Output:
    """An output, by its path or URL. Each call reads its files again, and so sees updates.

    >>> output = Output("out/first")
    >>> output.totals.tokens, output.tokenizer.vocab_size, len(output.open_shards())
    (11, 262, 2)
    >>> output.counts("en").num_rows, output.manifest("tokenizer").totals.merges
    (5, 5)
    >>> output.log(), output.root == output.manifest("build").root
    ((), True)
    """

    url: str

    def open_shards(self, split: str = "train", at: int | None = None) -> Shards:
        """The documents as ids: tokcore.open_shards of this output."""
        return open_shards(self._place, split, at=at)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that encoded the documents. Raises FormatError if there is none, or its file is damaged."""
        return load_tokenizer(self.url)

    def push_to_hub(
        self, name: str, *, allow_one_document: bool = False, private: bool | None = None, token: str | None = None
    ) -> str:
        """Write the tokenizer into the repository "org/name" of the Hugging Face Hub; the URL of the commit.

        Raises LearnError while `tokcore audit` finds tokens that come from one document, unless allow_one_document is
        set; ConfigError if huggingface_hub is missing, or the Hub refuses.
        """
        tokenizer = self.tokenizer
        if not allow_one_document:
            found = audit(read_output(self.url), tokenizer)
            if "mostly_one_document" not in found:
                raise ConfigError(
                    f"push_to_hub: {found['missing']['written']}. Set allow_one_document=True if it may be"
                )
            require_none_of_one_document(tokenizer, [row["id"] for row in found["mostly_one_document"]])
        return tokenizer.push_to_hub(name, allow_one_document=True, private=private, token=token)

    def counts(self, lang: str, at: int | None = None) -> pa.Table:
        """The counts of one language's pre-tokens: tokcore.open_counts of this output."""
        return open_counts(self._place, lang, at)

    def manifest(self, stage: str) -> AnyManifest:
        """The manifest of a stage of the build: plan, counts, tokenizer, shards, mixed, packed; or build.

        Raises ConfigError if there is no such stage, or it is not made.
        """
        known = {**STAGES, BUILD: WHOLE}
        if stage not in known:
            raise ConfigError(f"stage = {stage!r}: expected one of {', '.join(known)}")
        return require_manifest(self.url, known[stage])

    def log(self) -> tuple[Commit, ...]:
        """The commits after the build, whose number is 0. Raises ConfigError if the build is not finished."""
        return read_log(self.url).commits

    @property
    def totals(self) -> BuildTotals:
        """What the newest commit adds up to: documents, bytes, tokens. Raises ConfigError if it is not finished."""
        return read_output(self.url).add_up_build().totals

    @property
    def root(self) -> str:
        """The hash of all that the newest commit holds. Raises ConfigError if the build is not finished."""
        return read_output(self.url).add_up_build().root

    @property
    def _place(self) -> str:
        return os.fspath(urls.get_local_path(self.url)) if urls.is_local(self.url) else self.url

    def __fspath__(self) -> str:
        """So that what takes the path of an output takes this, too."""
        return self._place
