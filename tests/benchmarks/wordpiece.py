"""Benchmark WordPiece as BERT uses it, uncased: encoding, and learning 32k tokens, beside Hugging Face's tokenizers.

    python tests/benchmarks/wordpiece.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

The vocabulary to encode with is learned from the same text. Cold and steady are halves of it, as in encode.py. Learning
reads lines, as theirs does; its time for merging is the difference between learning all tokens and characters alone.
Ids must be equal. Vocabularies are equal but for what ties decide, which is a matter of chance in theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import texts
from measuring import Options, Result, Table, interleaved, measured, memory_before, peak_mb, program, timed

from tokcore import kernel
from tokcore.formats.tokenizers.huggingface import write_tokenizer_json
from tokcore.models import MODELS, LearnOptions
from tokcore.models.wordpiece.learned_wordpiece import BERT_ROLES
from tokcore.text.texts import Texts, make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, SpecialToken, TokenizerSpec, make_learned_spec

VOCAB_SIZE = 32_768
Ids = Callable[[Any], Iterable[Any]]  # of each document, from what an encoder returns
SPECIAL = [SpecialToken(text, id, role) for id, (text, role) in enumerate(BERT_ROLES.items())]


def _count(documents: Texts) -> Any:
    counter = kernel.Counter("bert", 0)
    counter.add(kernel.normalize_bert(documents, False))
    return counter.take()


def _learn(rows: Any, vocab_size: int) -> Any:
    options = LearnOptions(vocab_size=vocab_size, num_special=len(SPECIAL), min_count=0)
    return MODELS["wordpiece"].learn(lambda: (rows.keys, rows.counts), options)


def tokcore_encode(path: str, spec: str) -> Result:
    """Ours, from Arrow."""
    tokenizer = Tokenizer(TokenizerSpec.from_json_bytes(Path(spec).read_bytes(), spec))
    tokenizer.encode_batch(["one"])
    return encode_halves(
        path, lambda array: array, tokenizer.encode_batch, lambda ids: (i.values.to_numpy() for i in ids)
    )


def tokenizers_encode(path: str, spec: str) -> Result:
    """Theirs, from a list of str, by the faster of its two ways."""
    import tokenizers as peer

    tokenizer = TokenizerSpec.from_json_bytes(Path(spec).read_bytes(), spec)
    theirs = peer.Tokenizer.from_str(write_tokenizer_json(tokenizer).decode())
    theirs.encode_special_tokens = True
    theirs.encode_batch_fast(["one"])
    return encode_halves(
        path,
        lambda array: array.to_pylist(),
        lambda given: theirs.encode_batch_fast(given, add_special_tokens=False),
        lambda ids: (one.ids for one in ids),
    )


def encode_halves(path: str, prepare: Callable[[Any], Any], encode: Callable[[Any], Any], ids: Ids) -> Result:
    """Speed of each half of a text, in MB per CPU second, memory, and a digest of each document's ids.

    prepare: from Arrow to what the encoder takes. ids: of each document, from what it returns.
    """
    documents = texts.load(path)
    numbers = np.arange(len(documents))
    halves = [documents.take(numbers[first::2]) for first in (0, 1)]
    before = memory_before()
    out: Result = {"digests": []}
    found = []
    for name, half in zip(("cold", "steady"), halves, strict=True):
        given = prepare(half)
        with timed() as cost:
            found.append(encode(given))
        out[name] = texts.size_mb(half) / cost.cpu
    out["memory"] = peak_mb() - before
    for one in found:
        out["digests"] += [hashlib.sha256(np.asarray(row, "<i4").tobytes()).hexdigest()[:16] for row in ids(one)]
    return out


def compare_halves(results: Mapping[str, Result], peer: str) -> list[list[object]]:
    """A row for each library: its name, speeds, these as multiples of the peer's, memory, and whether ids are equal."""
    theirs = results[peer]
    rows: list[list[object]] = []
    for name, result in results.items():
        ratios = [result[kind] / theirs[kind] for kind in ("cold", "steady")]
        verdict = "equal" if result["digests"] == theirs["digests"] else "DIFFERENT"
        rows.append([name, result["cold"], result["steady"], *ratios, result["memory"], verdict])
    return rows


def tokcore_learn(path: str) -> Result:
    """Ours: counted and learned one after the other."""
    given = make_texts_from_strings(texts.load(path).to_pylist())
    before = memory_before()
    with timed() as count:
        rows = _count(given)
    with timed() as merge:
        model = _learn(rows, VOCAB_SIZE)
    return {"count": count.cpu, "merge": merge.cpu, "memory": peak_mb() - before, "tokens": sorted(model.names)}


def tokenizers_learn(path: str) -> Result:
    """Theirs, from a list of str."""
    import tokenizers as peer

    given = texts.load(path).to_pylist()

    def train(size: int) -> Any:
        tokenizer = peer.Tokenizer(peer.models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = peer.normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = peer.pre_tokenizers.BertPreTokenizer()
        trainer = peer.trainers.WordPieceTrainer(
            vocab_size=size, limit_alphabet=10**6, special_tokens=[*BERT_ROLES], show_progress=False
        )
        tokenizer.train_from_iterator(given, trainer)
        return tokenizer

    before = memory_before()
    with timed() as count:
        train(1)  # characters are not limited
    with timed() as both:
        found = train(VOCAB_SIZE)
    tokens = sorted(found.get_vocab().keys() - BERT_ROLES.keys())
    return {"count": count.cpu, "merge": both.cpu - count.cpu, "memory": peak_mb() - before, "tokens": tokens}


def tables(options: Options) -> list[Table]:
    """Encoding and learning of each text."""
    encoded: list[list[object]] = []
    learned: list[list[object]] = []
    for text, path in texts.prepare(options.corpus, options.work, options.limit_mb).items():
        if text == "code":
            continue
        model = _learn(_count(make_texts_from_strings(texts.load(path).to_pylist())), VOCAB_SIZE)
        spec = options.work / f"{text}-{FILE_NAME}"
        spec.write_bytes(make_learned_spec(model, {"name": "bert"}, ["bert"], SPECIAL).to_json_bytes())
        encoded += _encode_rows(text, path, str(spec), options.rounds)
        learned += _learn_rows(text, path, options.rounds)
    return [
        Table(
            "Encode WordPiece, BERT uncased",
            ["", "", "cold", "steady", "cold, x tokenizers", "steady, x tokenizers", "memory, MB", "ids"],
            encoded,
            "MB per CPU second, one thread.",
        ),
        Table(
            f"Learn {VOCAB_SIZE:,} tokens, WordPiece",
            [
                "",
                "",
                "count, s",
                "merge, s",
                "merging, tokcore is faster by",
                "both, tokcore is faster by",
                "memory, MB",
                "tokens that differ",
            ],
            learned,
            "CPU seconds, one thread. Between equal counts, which pair theirs takes is a matter of chance.",
        ),
    ]


def _encode_rows(text: str, path: str, spec: str, rounds: int) -> list[list[object]]:
    jobs = {
        "tokcore": lambda: measured(tokcore_encode, path=path, spec=spec),
        "tokenizers": lambda: measured(tokenizers_encode, path=path, spec=spec),
    }
    return [[text, *row] for row in compare_halves(interleaved(rounds, jobs), "tokenizers")]


def _learn_rows(text: str, path: str, rounds: int) -> list[list[object]]:
    jobs = {
        "tokcore": lambda: measured(tokcore_learn, path=path),
        "tokenizers": lambda: measured(tokenizers_learn, path=path),
    }
    results = interleaved(rounds, jobs)
    ours = results["tokcore"]
    rows: list[list[object]] = []
    for name, result in results.items():
        total, our_total = result["count"] + result["merge"], ours["count"] + ours["merge"]
        differ = len({*result["tokens"]} - {*ours["tokens"]})
        ratios = [result["merge"] / ours["merge"], total / our_total]
        rows.append([text, name, result["count"], result["merge"], *ratios, result["memory"], differ])
    return rows


if __name__ == "__main__":
    program(__doc__, tables)
