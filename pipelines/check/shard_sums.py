"""What was found in all shards, added up, beside what their manifest says. No Beam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tokcore.count.token_counts import add_up
from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.build.commit import MANIFEST
from tokcore_pipelines.build.token_count_table import check_token_counts
from tokcore_pipelines.check.verify_shards import Found
from tokcore_schemas.stage_manifests import EncodedLanguage, ShardsManifest


class ShardSums:
    """Adds up what the shards of items hold, in any order."""

    def __init__(self) -> None:
        self.documents_of: Counter[str] = Counter()  # by source
        self._languages: dict[str, list[int]] = {}  # -> [documents, tokens, unknown]
        self._hashed = DocumentsDigest()
        self._written = add_up([])

    def add(self, found: Found) -> None:
        """Take the sums of one more item."""
        self.documents_of.update(found.documents_of)
        for lang, sums in found.languages.items():
            held = self._languages.setdefault(lang, [0, 0, 0])
            self._languages[lang] = [mine + its for mine, its in zip(held, sums, strict=True)]
        self._hashed.add_up(found.hashed.hexdigest(), found.hashed.num_documents)
        self._written = add_up([self._written, found.ids.take()])

    def compare(self, output: str, made: ShardsManifest) -> Iterator[str]:
        """Where the manifest, or the table of token counts, says something else."""
        if (digest := self._hashed.hexdigest()) != made.totals.documents_digest:
            yield f"shards/{MANIFEST}: the documents' digest is {digest}, not the documents_digest it names"
        yield from check_token_counts(output, made, self._written)
        for lang in sorted(self._languages.keys() | made.languages.keys()):
            said = made.languages.get(lang, EncodedLanguage(0, 0, 0, 0, "0"))
            documents, tokens, unknown = self._languages.get(lang, [0, 0, 0])
            if said.unknown is not None and said.unknown != unknown:
                yield f"shards/{MANIFEST}: {lang}: {said.unknown} unknown tokens, in the shards {unknown}"
            if (said.documents, said.tokens) != (documents, tokens):
                yield (
                    f"shards/{MANIFEST}: {lang}: {said.documents} documents of {said.tokens} tokens, "
                    f"in the shards {documents} of {tokens}"
                )
