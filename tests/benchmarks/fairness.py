"""What a mix of languages costs and gives: text per token, and tokens for the same sentences in many languages.

    python tests/benchmarks/fairness.py --corpus FOLDER --parallel FOLDER [--sizes 32768 131072] [--only NAME ...]
        [--peers NAME ...] [--published FILE ...]

Learns from four of five pages of the corpus (chosen by a hash of the page's id, or of the text where there is none),
encodes the others and reports their bytes per token. All parts of a page, PAGE#0, PAGE#1 and so on, are on one side.
The pages held out are of the same sources as the others, in the same shares: text from elsewhere gives 4 to 6 % fewer
bytes per token. Also encodes the FLORES sentences, which are the same in each language: a language's premium is the
number of its tokens divided by the number of English ones. Even lines judge: weights that follow the premium are tuned
on the odd ones. p90 is the 90th percentile over the languages that have a
folder in the corpus, English with its 1 among them. Nothing here is timed.

Bits per byte of ten languages are those of docs/reference/prediction.md, learned from 1 MB of the pages to learn from.
They stand beside those of the first row, with margins of the difference: all rows of a table have the same size.

--peers adds what other libraries learn from the same pages. --published adds tokenizers as they are (tokenizer.json,
rank files of tiktoken, SentencePiece's .model), in a table of their own: their sizes differ.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from measuring import Table
from peers import bpe_trainer, untrained_tokenizer
from texts import documents

from tokcore import Tokenizer, count_pretokens
from tokcore.count.pretoken_tables import convert_rows_to_table, convert_table_to_rows, merge_rows, read_counts_of_table
from tokcore.evaluate.ngram import Predictability, Ratio, average, compare_predictability
from tokcore.learn.language_weights import DEFAULT, PRESETS, Mix, mix
from tokcore.learn.parallel_text import OddLines, parse_parallel_text, take_odd_lines
from tokcore.learn.parity import DEFAULT_TARGET, learn_by_premium
from tokcore.models import DEFAULT_MODEL, MODELS, LearnOptions
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.tokenizer.tokenizer_spec import make_learned_spec

HELD_OUT = 5  # one page in five is held out
MIN_COUNT = 2
PREDICTED = ("en", "de", "ru", "zh", "hi", "th", "tr", "sw", "my", "code-python")

# The corpus's code of a language -> its FLORES-200 file.
FLORES = dict(
    pair.split("=")
    for pair in [
        "am=amh_Ethi",
        "ar=arb_Arab",
        "bn=ben_Beng",
        "ca=cat_Latn",
        "ckb=ckb_Arab",
        "cs=ces_Latn",
        "da=dan_Latn",
        "de=deu_Latn",
        "dz=dzo_Tibt",
        "ee=ewe_Latn",
        "el=ell_Grek",
        "en=eng_Latn",
        "es=spa_Latn",
        "et=est_Latn",
        "eu=eus_Latn",
        "fa=pes_Arab",
        "fi=fin_Latn",
        "fr=fra_Latn",
        "gl=glg_Latn",
        "gu=guj_Gujr",
        "he=heb_Hebr",
        "hi=hin_Deva",
        "hr=hrv_Latn",
        "hu=hun_Latn",
        "hy=hye_Armn",
        "id=ind_Latn",
        "is=isl_Latn",
        "it=ita_Latn",
        "ja=jpn_Jpan",
        "kab=kab_Latn",
        "km=khm_Khmr",
        "kn=kan_Knda",
        "ko=kor_Hang",
        "lv=lvs_Latn",
        "mr=mar_Deva",
        "my=mya_Mymr",
        "nb=nob_Latn",
        "ne=npi_Deva",
        "nl=nld_Latn",
        "om=gaz_Latn",
        "pl=pol_Latn",
        "prs=prs_Arab",
        "ps=pbt_Arab",
        "pt=por_Latn",
        "qu=quy_Latn",
        "ru=rus_Cyrl",
        "sd=snd_Arab",
        "sk=slk_Latn",
        "sl=slv_Latn",
        "sr=srp_Cyrl",
        "sv=swe_Latn",
        "sw=swh_Latn",
        "ta=tam_Taml",
        "te=tel_Telu",
        "th=tha_Thai",
        "ti=tir_Ethi",
        "tr=tur_Latn",
        "ug=uig_Arab",
        "uk=ukr_Cyrl",
        "ur=urd_Arab",
        "vi=vie_Latn",
        "wo=wol_Latn",
        "zh=zho_Hans",
        "zh-Hant=zho_Hant",
        "zu=zul_Latn",
    ]
)


class Choice(NamedTuple):
    """A row of the tables: a split pattern, what mix() is given, a model, and the premium that weights follow."""

    pattern: str
    mix: Mapping[str, Any]
    model: str = DEFAULT_MODEL
    target_premium: Decimal | None = None


def _temperature(alpha: str, density: str, density_cap: str = "5") -> dict[str, str]:
    return {"strategy": "temperature", "alpha": alpha, "density": density, "density_cap": density_cap}


CHOICES = {
    "natural, o200k": Choice("o200k", {"strategy": "natural"}),
    "alpha 0.3, cl100k": Choice("cl100k", _temperature("0.3", "0")),
    "alpha 0.3, o200k": Choice("o200k", _temperature("0.3", "0")),
    "alpha 0.7, o200k": Choice("o200k", _temperature("0.7", "0")),
    "default, o200k": Choice("o200k", _temperature(*map(str, DEFAULT))),
    **{f"{name}, o200k": Choice("o200k", _temperature(*map(str, preset))) for name, preset in PRESETS.items()},
    "pathpiece": Choice("o200k", _temperature(*map(str, DEFAULT)), "pathpiece"),
    **{
        f"pathpiece, {name}": Choice("o200k", _temperature(*map(str, preset)), "pathpiece")
        for name, preset in PRESETS.items()
    },
    "pathpiece, 0.65, 1, 4": Choice("o200k", _temperature("0.65", "1", "4"), "pathpiece"),
    "pathpiece, 0.5, 2.5, 3": Choice("o200k", _temperature("0.5", "2.5", "3"), "pathpiece"),
    "parity": Choice("o200k", _temperature(*map(str, DEFAULT)), target_premium=DEFAULT_TARGET),
    "pathpiece, parity": Choice("o200k", _temperature(*map(str, DEFAULT)), "pathpiece", DEFAULT_TARGET),
    "parity 1.45": Choice("o200k", _temperature("0.6", "1.5", "4"), target_premium=Decimal("1.45")),
    "pathpiece, parity 1.45": Choice("o200k", _temperature("0.6", "1.5", "4"), "pathpiece", Decimal("1.45")),
}


class Counted(NamedTuple):
    """The documents to learn from, by language."""

    tables: dict[str, pa.Table]
    sizes_bytes: dict[str, int]
    pretokens: dict[str, int]


def deal_documents(corpus: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Language -> documents to learn from, and those held out."""
    kept: dict[str, list[str]] = {}
    held_out: dict[str, list[str]] = {}
    for lang, page, text in documents(corpus):
        digest = hashlib.sha256((page or text).encode()).digest()
        chosen = held_out if int.from_bytes(digest[:8], "big") % HELD_OUT == 0 else kept
        chosen.setdefault(lang, []).append(text)
    return kept, held_out


def count_languages(texts: Mapping[str, list[str]], pattern: str) -> Counted:
    """The count table and the sizes of each language."""
    tables = {lang: count_pretokens(texts[lang], pattern=pattern) for lang in sorted(texts)}
    return Counted(
        {lang: table.combine_chunks() for lang, table in tables.items()},
        {lang: sum(len(text.encode()) for text in texts[lang]) for lang in tables},
        {lang: int(np.sum(table["count"].to_numpy())) for lang, table in tables.items()},
    )


def learn_tokenizer(counted: Counted, choice: Choice, vocab_size: int, odd: OddLines) -> Tokenizer:
    """The tokenizer that a build of these documents would learn, without special tokens."""
    mixed = mix(counted.sizes_bytes, counted.sizes_bytes, pretokens=counted.pretokens, **choice.mix)
    learn = functools.partial(_learn_weighed, counted, choice, vocab_size)
    if choice.target_premium is None:
        return learn(mixed)
    return learn_by_premium(mixed, counted.sizes_bytes, odd, choice.target_premium, learn, _count_tokens)[1]


def _count_tokens(tokenizer: Tokenizer, lines: Sequence[bytes]) -> int:
    return len(tokenizer.encode_strings(lines).ids)


def _learn_weighed(counted: Counted, choice: Choice, vocab_size: int, mixed: Mix) -> Tokenizer:
    order = sorted(counted.tables)
    rows = merge_rows(
        [[convert_table_to_rows(counted.tables[lang])] for lang in order], [mixed.weights[lang] for lang in order]
    )
    texts, counts = read_counts_of_table(convert_rows_to_table(rows))
    options = LearnOptions(vocab_size=vocab_size, min_count=mixed.scaled_min_count(MIN_COUNT), threads=2)
    model = MODELS[choice.model].learn(lambda: (texts, counts), options)
    return Tokenizer(make_learned_spec(model, Pretokenizer.named(choice.pattern).spec, (), ()))


def _learn_with_tokenizers(texts: Mapping[str, list[str]], vocab_size: int, folder: Path) -> Tokenizer:
    learned = untrained_tokenizer("o200k")
    learned.train_from_iterator((text for lang in sorted(texts) for text in texts[lang]), bpe_trainer(vocab_size))
    learned.save(str(folder / "tokenizer.json"))
    return Tokenizer.load(folder)


def _learn_with_sentencepiece(texts: Mapping[str, list[str]], vocab_size: int, folder: Path) -> Tokenizer:
    """From words and their counts, which are those of the lines and take less time."""
    import sentencepiece

    sizes = {lang: sum(len(text.encode()) for text in texts[lang]) for lang in texts}
    weights = mix(sizes, sizes, alpha="0.3").weights

    def count_words() -> Iterator[str]:
        for lang in sorted(texts):
            words = Counter(word for text in texts[lang] for word in text.split())
            yield from (f"{word}\t{count * weights[lang]}" for word, count in words.items())

    with (folder / "tokenizer.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=count_words(),
            input_format="tsv",
            model_writer=file,
            model_type="bpe",
            vocab_size=vocab_size,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 30,
            num_threads=2,
            minloglevel=2,
        )
    return Tokenizer.load(folder)


# Tokenizers of other libraries: each function takes texts by language, a number of tokens, and a folder for its files.
PEERS: dict[str, Callable[[Mapping[str, list[str]], int, Path], Tokenizer]] = {
    "tokenizers BPE, natural, o200k": _learn_with_tokenizers,
    "SentencePiece BPE, alpha 0.3": _learn_with_sentencepiece,
}


def learn_with_peer(name: str, texts: Mapping[str, list[str]], vocab_size: int) -> Tokenizer:
    """The tokenizer that another library learns."""
    with tempfile.TemporaryDirectory() as folder:
        return PEERS[name](texts, vocab_size, Path(folder))


def bytes_per_token(tokenizer: Tokenizer, texts: Mapping[str, list[str]]) -> float:
    """Bytes of all texts divided by their tokens."""
    num_tokens = sum(len(tokenizer.encode_batch(texts[lang]).values) for lang in texts)
    return sum(len(text.encode()) for lang in texts for text in texts[lang]) / num_tokens


def read_sentences(parallel: Path) -> dict[str, list[bytes]]:
    """Language -> its FLORES sentences."""
    files = {f"{lang}.txt.zst": parallel / f"{name}.txt.zst" for lang, name in FLORES.items()}
    return parse_parallel_text(files, lambda name: files[name].read_bytes(), str(parallel))


def premiums(tokenizer: Tokenizer, sentences: Mapping[str, list[bytes]]) -> dict[str, float]:
    """Language -> its tokens for the even lines, divided by those for the English ones: 1 for English itself."""
    num_tokens = {lang: _count_tokens(tokenizer, lines[1::2]) for lang, lines in sentences.items()}
    return {lang: num / num_tokens["en"] for lang, num in num_tokens.items()}


def predict(
    tokenizers: Mapping[str, Tokenizer], learned: Mapping[str, list[str]], predicted: Mapping[str, list[str]]
) -> dict[str, dict[str, Predictability]]:
    """Name -> language -> what its tokens are predicted with."""
    sides = [{lang: [text.encode() for text in side[lang]] for lang in PREDICTED} for side in (learned, predicted)]
    return compare_predictability(tokenizers, *sides, threads=2)


def tabulate_prediction(title: str, told: Mapping[str, Mapping[str, Predictability]]) -> Table:
    """Bits per byte of each row, and beside the first one."""
    base = next(iter(told.values()))
    rows = []
    for name, one in told.items():
        row = [name]
        for kind in Predictability._fields:
            own, other = ({lang: getattr(of[lang], kind) for lang in of} for of in (one, base))
            mean = average([own[lang].bits_per_byte for lang in own])
            row.append(f"{mean.value:.3f} ± {mean.margin:.3f}")
            more = {lang: own[lang].minus(other[lang]) for lang in own}
            levels = {lang: other[lang].bits_per_byte.value for lang in own}
            row.append(_show_share(average([*more.values()]), float(np.mean([*levels.values()]))))
            worst = max(more, key=lambda lang: more[lang].value / levels[lang])
            row.append(f"{_show_share(more[worst], levels[worst])} {worst}")
        rows.append([*row, f"{np.mean([of.equal_data.mean_context_bytes for of in one.values()]):.1f}"])
    first = next(iter(told))
    kinds = [name.replace("_", " ") for name in Predictability._fields]
    head = ["", *(text for kind in kinds for text in (f"{kind}: bits per byte", "more", "highest")), "context, bytes"]
    note = (
        f"Mean of {len(base)} languages ({', '.join(base)}); more: than {first}, with 95 % margins of the difference. "
        "Vocabularies of other sizes are not comparable."
    )
    return Table(title, head, rows, note)


def _show_share(more: Ratio, of: float) -> str:
    return f"{100 * more.value / of:+.2f} ± {100 * (more.margin or 0) / of:.2f} %"


HEAD = ["", "bytes per token", "of English", "of code", "premium, p90", "premium, highest"]


def judge(
    name: str, tokenizer: Tokenizer, held_out: Mapping[str, list[str]], sentences: Mapping[str, list[bytes]]
) -> list[object]:
    """A row below HEAD."""
    by_lang = premiums(tokenizer, sentences)
    english = bytes_per_token(tokenizer, {"en": held_out["en"]})
    p90 = float(np.quantile(list(by_lang.values()), 0.9))
    worst = max(by_lang, key=lambda lang: by_lang[lang])
    overall = bytes_per_token(tokenizer, held_out)
    code = bytes_per_token(tokenizer, {lang: of for lang, of in held_out.items() if lang.startswith("code-")})
    figures = (f"{value:.3f}" for value in (overall, english, code, p90))
    return [name, *figures, f"{by_lang[worst]:.2f} {worst}"]


def tabulate_published(
    files: Sequence[Path],
    kept: Mapping[str, list[str]],
    held_out: Mapping[str, list[str]],
    sentences: Mapping[str, list[bytes]],
) -> Table:
    """Tokenizers as they are, each with its size, and with bits per byte of its own."""
    rows = []
    for file in files:
        tokenizer = Tokenizer.load(file)
        told = predict({file.stem: tokenizer}, kept, held_out)[file.stem]
        bits = average([one.equal_data.bits_per_byte for one in told.values()])
        row = judge(file.stem, tokenizer, held_out, sentences)
        rows.append([row[0], f"{tokenizer.vocab_size:,}", *row[1:], f"{bits.value:.3f} ± {bits.margin:.3f}"])
    note = "Sizes differ, so bits per byte are not to be compared with each other, nor with those of other tables."
    return Table("Published tokenizers", ["", "size", *HEAD[1:], "bits per byte, equal data"], rows, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of documents")
    parser.add_argument("--parallel", type=Path, required=True, help="folder that holds flores/LANG_Script.txt.zst")
    parser.add_argument("--sizes", type=int, nargs="*", default=[32_768, 131_072], help="vocabulary sizes")
    parser.add_argument("--only", nargs="*", choices=sorted(CHOICES), default=list(CHOICES), help="rows")
    parser.add_argument("--peers", nargs="*", choices=sorted(PEERS), default=[], help="rows of other libraries")
    parser.add_argument("--published", nargs="*", type=Path, default=[], help="tokenizers' files")
    arguments = parser.parse_args()
    kept, held_out = deal_documents(arguments.corpus)
    sentences = read_sentences(arguments.parallel / "flores")
    if arguments.published:
        print(tabulate_published(arguments.published, kept, held_out, sentences).markdown(), flush=True)
    patterns = {CHOICES[name].pattern: None for name in arguments.only} if arguments.sizes else {}
    tables = {pattern: count_languages(kept, pattern) for pattern in patterns}
    odd = take_odd_lines(sentences)
    num_held_out = sum(map(len, held_out.values()))
    for vocab_size in arguments.sizes:
        tokenizers = {}
        for name in arguments.only:
            choice = CHOICES[name]
            tokenizers[name] = learn_tokenizer(tables[choice.pattern], choice, vocab_size, odd)
        for name in arguments.peers:
            tokenizers[name] = learn_with_peer(name, kept, vocab_size)
        rows = [judge(name, tokenizer, held_out, sentences) for name, tokenizer in tokenizers.items()]
        note = (
            f"{num_held_out} documents of the pages held out, in {len(held_out)} languages, of the same sources and in "
            "the same shares as those to learn from: text from elsewhere gives 4 to 6 % fewer bytes per token. "
            f"Premiums of {len(FLORES)} languages, with English, on even lines. Parity was tuned on the odd lines."
        )
        print(Table(f"{vocab_size:,} tokens", HEAD, rows, note).markdown(), flush=True)
        told = predict(tokenizers, kept, held_out)
        print(tabulate_prediction(f"{vocab_size:,} tokens: bits per byte", told).markdown(), flush=True)


if __name__ == "__main__":
    main()
