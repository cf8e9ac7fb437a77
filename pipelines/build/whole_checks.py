"""What a build would find only when all is read, looked for in a sample: languages, weights, and what is rejected.

A finding stops a build if no text that the sample lacks could change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from tokcore.learn.parallel_names import pair_languages
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.samples import Finding, SourceSample
from tokcore_pipelines.reading.records import make_printable
from tokcore_schemas.build_tables import MixTable, MixtureTable
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.document import find_twins
from tokcore_schemas.levels import LANG

_MOST_NAMED = 5


class _Languages(NamedTuple):
    """What the records of a sample say of languages."""

    documents: Counter[str]
    text_bytes: Counter[str]
    respelled: Counter[str]


def check_languages(config: BuildConfig, samples: Sequence[SourceSample]) -> list[Finding]:
    """What is wrong with the languages of sources together, or looks so; true of a part of the files, too."""
    together = _find_languages(samples)
    return [*_check_twins(config, together), *_check_number(config, together)]


def check_whole(
    config: BuildConfig, samples: Sequence[SourceSample], imported: TokenizerSpec | None = None
) -> list[Finding]:
    """What else a build of all files would find at its end. samples: of all files. imported: a tokenizer or None."""
    together = _find_languages(samples)
    is_whole = all(sample.is_whole for sample in samples)
    return [
        *(_check_empty(config, samples, together) if config.counts else []),
        *_check_weights(config, together, is_whole),
        *_check_parallel(config, together, is_whole),
        *(_check_rejected(config, samples) if is_whole else []),
        *(_check_unknown(config, samples, imported, is_whole) if imported is not None else []),
    ]


def _find_languages(samples: Sequence[SourceSample]) -> _Languages:
    documents, text_bytes, respelled = Counter[str](), Counter[str](), Counter[str]()
    for batch in (seen.batch for sample in samples for seen in sample.seen if seen.batch is not None):
        respelled.update(batch.respelled)
        for lang, where in batch.langs.by_label().items():
            documents[lang] += len(where)
            text_bytes[lang] += int(np.diff(batch.texts.offsets)[where].sum())
    return _Languages(documents, text_bytes, respelled)


def _check_twins(config: BuildConfig, found: _Languages) -> Iterator[Finding]:
    where = config.at("build", "lang_normalize")
    if (twins := find_twins(found.documents)) is not None:
        yield Finding(
            where,
            f"the languages {twins[0]!r} and {twins[1]!r} differ in case only, and languages name files: spell them "
            f'alike in the data, or build a new output with lang_normalize = "bcp47"',
            True,
        )
    if found.respelled:
        yield Finding(
            where,
            f"records spell language codes in other case, and are read as {_name(found.respelled)}",
            False,
        )


def _check_number(config: BuildConfig, found: _Languages) -> Iterator[Finding]:
    limit = config.build.max_languages
    if len(found.documents) > limit:
        yield Finding(
            config.at("build", "max_languages"),
            f"at most {limit:,}, and the sample alone has {len(found.documents):,} languages: "
            f"{_name(found.documents)}. Is lang_field a field of languages? If so, raise the limit",
            True,
        )


def _check_empty(config: BuildConfig, samples: Sequence[SourceSample], found: _Languages) -> Iterator[Finding]:
    """Sources whose language has no documents, and languages without text."""
    for sample in samples:
        where = config.at("source", sample.source, "files")
        lang = sample.settings.lang
        if not found.documents[lang] and all(one.is_whole for one in samples if one.settings.lang in (lang, "")):
            what = f"the language {lang!r} has none" if lang else "no record says its language"
            if lang or not found.documents:
                yield Finding(where, f"no record is a document, so {what}: check its files, or remove the source", True)
        silent = [one for one in _find_languages([sample]).documents if not found.text_bytes[one]]
        if silent and config.tokenizer is None:
            text = f"{_name(silent)}: the sampled texts are empty, and nothing is learned from a language without text"
            yield Finding(where, text, False)


def _check_weights(config: BuildConfig, found: _Languages, is_whole: bool) -> Iterator[Finding]:
    """Weights of languages that no record has."""
    mixes: list[tuple[str, Iterable[str], bool]] = []
    if config.tokenizer is None:
        mixes += _list_weighed("mix", config.mix)
    mixes += _list_weighed("mixture", config.mixture)
    for table, langs, is_needed in mixes:
        if missing := [lang for lang in langs if lang not in found.documents]:
            seen = "the corpus" if is_whole else "the sample"
            text = f"weighs {_name(missing)}, and {seen} has {_name(found.documents)}"
            yield Finding(config.at(table, "weights"), text, is_whole and is_needed)


def _list_weighed(name: str, table: MixTable | MixtureTable) -> list[tuple[str, Iterable[str], bool]]:
    """(table, languages that it names, whether they have to be there)."""
    told = table.levels.get(LANG)
    return [
        (name, table.weights if table.own_level == LANG else (), True),
        (name, [*told.weights, *told.shares] if told is not None else (), name == "mix"),
        (name, [lang for langs in table.groups.values() for lang in langs], False),
    ]


def _check_parallel(config: BuildConfig, found: _Languages, is_whole: bool) -> Iterator[Finding]:
    """Languages whose weights can follow no premium, as the parallel text has no sentences of theirs."""
    if config.parallel is None:
        return
    paired = pair_languages(found.documents, config.parallel.lines.keys())
    if len(paired) < 2:
        text = f"has text of {len(paired)} of the languages ({_name(found.documents)}), and two are needed"
        yield Finding(config.at("mix", "parallel"), text, is_whole)
    elif missing := [lang for lang in found.documents if lang not in paired]:
        text = f"has no text for {_name(missing)}: their weights follow no premium"
        yield Finding(config.at("mix", "parallel"), text, False)


def _check_rejected(config: BuildConfig, samples: Sequence[SourceSample]) -> Iterator[Finding]:
    """More rejected records than the build file allows, in a corpus that was looked at as a whole."""
    batches = [seen.batch for sample in samples for seen in sample.seen if seen.batch is not None]
    read, rejected = sum(one.num_records for one in batches), sum(len(one.rejects) for one in batches)
    limit = config.build.max_rejected
    if rejected > limit * read:
        share = (Decimal(100 * rejected) / Decimal(read)).quantize(Decimal("0.01"))
        text = (
            f"at most {limit}, and {rejected:,} of {read:,} records would be rejected, {share} %: raise it, or correct "
            f"the data"
        )
        yield Finding(config.at("build", "max_rejected"), text, True)


def _check_unknown(
    config: BuildConfig, samples: Sequence[SourceSample], imported: TokenizerSpec, is_whole: bool
) -> Iterator[Finding]:
    """More unknown tokens than the build file allows."""
    limit, unknown = config.encode.max_unknown, imported.model.unknown
    if limit >= 1 or unknown is None:
        return
    tokenizer = Tokenizer(imported)
    num_around = len(config.encode.prepend) + len(config.encode.append)
    tokens = found = 0
    for batch in (seen.batch for sample in samples for seen in sample.seen if seen.batch is not None):
        ids = tokenizer.encode_texts(batch.texts).ids
        tokens += len(ids) + num_around * batch.texts.num_texts
        found += int(np.count_nonzero(ids == unknown))
    if found > limit * tokens:
        what = "the corpus" if is_whole else "the sample"
        text = f"at most {limit}, and {found:,} of {tokens:,} tokens of {what} are unknown: use one that knows them"
        is_exact = is_whole and config.encode.special_text != "special" and not config.draws
        yield Finding(config.at("encode", "max_unknown"), text, is_exact)


def _name(langs: Iterable[str]) -> str:
    named = sorted(langs)
    shown = ", ".join(make_printable(lang.encode()) for lang in named[:_MOST_NAMED])
    return f"{shown} and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else shown or "none"
