"""What the manifest of the shards has to say of what these hold: the encode stage's own sums, over what was read."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from tokcore.errors import LedgerError
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.encode_corpus import sum_up_shards
from tokcore_pipelines.build.identities import find_semantics
from tokcore_pipelines.build.rejects import LEDGER, read_file_ledgers
from tokcore_pipelines.build.shard_files import SumOfShards, name_shards, recount_shard_files
from tokcore_pipelines.build.stage import Made
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS
from tokcore_pipelines.work.language_totals import sum_up_encoded
from tokcore_pipelines.work.result_keys import hash_shards_settings, make_shards_key, make_shuffled_key
from tokcore_schemas.refs import HashedDocuments, LanguageCounts, ShardRef, StoredFile
from tokcore_schemas.shard_entries import Afresh, iterate_named_shards
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import CorpusAbout, EncodedLanguage, LedgerTotals, ShardsManifest, ShardsTotals
from tokcore_schemas.stage_table import COUNTS, PLAN, REJECTED, SHARDS

_NOTHING = EncodedLanguage(0, 0, 0, 0, "0")


@dataclasses.dataclass(frozen=True, slots=True)
class HeldShards:
    """What the shards hold, as they were read, or as their manifest says."""

    shards: Collection[ShardRef]  # in the order of what wrote them
    languages: Mapping[str, LanguageCounts]  # documents, tokens, unknown ones
    hashed: HashedDocuments
    token_counts: str  # content of the table of token counts

    @classmethod
    def said_by(cls, made: ShardsManifest) -> HeldShards:
        """As the manifest says."""
        languages = {
            lang: LanguageCounts(one.documents, 0, num_tokens=one.tokens, num_unknown=one.unknown or 0)
            for lang, one in made.languages.items()
        }
        hashed = HashedDocuments(made.totals.records.documents, made.totals.documents_digest)
        return cls(
            Afresh(lambda: iterate_named_shards(made)), languages, hashed, made.file(TOKEN_COUNTS).content_sha256
        )


def recount_shards(stored: Stored, held: HeldShards) -> Made[ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]:
    """What the manifest has to say of these shards. Texts and pre-tokens, which no shard holds, are as it says.

    Raises LedgerError if what was read, counted and encoded does not add up.
    """
    made = stored.get(SHARDS)
    said = {lang: made.languages.get(lang, _NOTHING) for lang in sorted(held.languages)}
    counts = {
        lang: dataclasses.replace(held.languages[lang], text_bytes=one.text_bytes, num_pretokens=one.pretokens)
        for lang, one in said.items()
    }
    if stored.find(PLAN) is None:  # a folder that WriteShards made
        shards = Afresh(lambda: name_shards(made, held.shards, lambda facts: facts.result_key))
        sums = SumOfShards.of(shards)
        records = dataclasses.replace(made.totals.records, documents=sum(one.num_documents for one in counts.values()))
        read = LedgerTotals(records, made.totals.files, sum(one.text_bytes for one in counts.values()))
    else:
        shards, files = Afresh(lambda: name_planned(stored, held)), read_file_ledgers(stored.url)
        sums = SumOfShards.of(shards)
        ledger.check_languages(files, counts)
        _check_as_counted(stored, sums, files, counts)
        read = ledger.sum_up_ledgers(files)
    ledger.check_documents(read.records.documents, sums.documents, sums.tokens, counts, held.hashed.documents)
    fingerprint, vocab_size = stored.tokenizer
    totals = sum_up_shards(read, {}, sums.shards, sums.tokens, held.hashed.digest, fingerprint)
    entry = made.file(TOKEN_COUNTS)
    table = StoredFile(entry.path, "", entry.size_bytes, entry.sha256, held.token_counts)
    return Made(
        recount_shard_files(made, shards, sums, vocab_size, [table]),
        dataclasses.replace(totals, special_text=made.totals.special_text),
        {lang: sum_up_encoded(one, said[lang].unknown is not None) for lang, one in counts.items()},
    )


def name_planned(stored: Stored, held: HeldShards) -> Iterator[ShardRef]:
    """The shards with the names and result keys of their work items, or of their parts of a shuffle.

    Raises LedgerError for a shard that no such build has.
    """
    made, plan = stored.get(SHARDS), stored.plan
    config = made.config
    settings = hash_shards_settings(config, made.totals.fingerprint, find_semantics([made]))
    if config.shuffle is not None:
        num_items = choose_num_parts(sum(shard.facts.tokens for shard in held.shards), config.target_tokens)
        of_all = make_shuffled_key(settings, plan)
    else:
        num_items, of_all = len(plan.items), ""

    @functools.lru_cache(1)  # the shards of a work item stand together
    def make_key(number: int) -> str:
        return of_all or make_shards_key(settings, plan.assignment(plan.items[number]))

    has_validation = config.validation != "0" or any(one.validation for one in plan.settings)
    splits = {"train", "validation"} if has_validation else {"train"}

    def find_key(one: ShardFacts) -> str:
        if (
            not 0 <= one.item < num_items
            or one.split not in splits
            or ((config.by == "lang", config.partitioning is not None) != (bool(one.lang), bool(one.partition)))
        ):
            raise LedgerError(
                f"{one.shard}: of work item {one.item} of {num_items}, split {one.split!r}, folder {one.folder!r}"
            )
        return make_key(one.item)

    return name_shards(made, held.shards, find_key)


def _check_as_counted(
    stored: Stored, held: SumOfShards, files: list[ledger.FileLedger], languages: dict[str, LanguageCounts]
) -> None:
    """Raises LedgerError unless counting had read the same of each language, and of each split if it knows these."""
    if (counts := stored.find(COUNTS)) is None:
        return
    sha256 = stored.get(REJECTED).file(LEDGER).sha256
    ledger.check_read_alike(counts.languages, sha256, languages, ledger.write_files_table(files))
    if "split" not in counts.config.apart_by or counts.config.sample != "1":
        return
    counted = Counter[str]()
    for origin in (origin for language in counts.languages.values() for origin in language.origins):
        counted[origin.split] += origin.counted_documents
    if counted != held.documents_of:
        raise LedgerError(f"documents by split: {dict(counted)} were counted, {dict(held.documents_of)} encoded")
