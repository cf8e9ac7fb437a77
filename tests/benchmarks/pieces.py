"""Benchmark encoding with SentencePiece models of 32k pieces, beside sentencepiece: BPE as Llama 2 has it, Unigram, and
Unigram whose pieces cross spaces.

    python tests/benchmarks/pieces.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

sentencepiece learns the models from lines of the same text. Cold and steady are halves of it, as in encode.py. Ids must
be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sentencepiece
import texts
from measuring import Options, Result, Table, interleaved, measured, program
from wordpiece import compare_halves, encode_halves

from tokcore.tokenizer.tokenizer import Tokenizer

VOCAB_SIZE = 32_000
MAX_LINES = 60_000
MODELS: Mapping[str, Mapping[str, Any]] = {
    "BPE": {
        "model_type": "bpe",
        "byte_fallback": True,
        "split_digits": True,
        "remove_extra_whitespaces": False,
        "normalization_rule_name": "identity",
        "allow_whitespace_only_pieces": True,
    },
    "Unigram": {"model_type": "unigram"},
    "Unigram across spaces": {"model_type": "unigram", "split_by_whitespace": False},
}


def learn(path: str, model: Path, options: Mapping[str, Any]) -> None:
    """Write the model that sentencepiece learns from a text."""
    lines = (line for text in texts.load(path).to_pylist() for line in text.split("\n") if line)
    with model.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=file,
            vocab_size=VOCAB_SIZE,
            hard_vocab_limit=False,
            input_sentence_size=MAX_LINES,
            minloglevel=2,
            num_threads=1,
            **options,
        )


def tokcore_encode(path: str, model: str) -> Result:
    """Ours, from Arrow."""
    tokenizer = Tokenizer.load(model)
    tokenizer.encode_batch(["one"])
    return encode_halves(
        path, lambda array: array, tokenizer.encode_batch, lambda ids: (i.values.to_numpy() for i in ids)
    )


def sentencepiece_encode(path: str, model: str) -> Result:
    """Theirs, from a list of str."""
    theirs = sentencepiece.SentencePieceProcessor(model_file=model)
    theirs.encode("one")
    return encode_halves(
        path, lambda array: array.to_pylist(), lambda given: theirs.encode(given, num_threads=1), lambda ids: ids
    )


def tables(options: Options) -> list[Table]:
    """A row for each text, model and library."""
    rows: list[list[object]] = []
    for text, path in texts.prepare(options.corpus, options.work, options.limit_mb).items():
        if text == "code":
            continue
        for name, how in MODELS.items():
            model = options.work / f"{text}-{name.replace(' ', '-')}.model"
            learn(path, model, how)
            rows += _measure(text, name, path, str(model), options.rounds)
    return [
        Table(
            "Encode SentencePiece models of 32k pieces",
            ["", "", "", "cold", "steady", "cold, x sentencepiece", "steady, x sentencepiece", "memory, MB", "ids"],
            rows,
            f"MB per CPU second, one thread; up to {options.limit_mb:g} MB of each text.",
        )
    ]


def _measure(text: str, name: str, path: str, model: str, rounds: int) -> list[list[object]]:
    jobs = {
        "tokcore": lambda: measured(tokcore_encode, path=path, model=model),
        "sentencepiece": lambda: measured(sentencepiece_encode, path=path, model=model),
    }
    return [[text, name, *row] for row in compare_halves(interleaved(rounds, jobs), "sentencepiece")]


if __name__ == "__main__":
    program(__doc__, tables)
