"""Measure every model that a build can learn, on one text: which model when.

    python tests/benchmarks/models.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3] [--vocab-size 32768]
        [--readme tokcore/README.md]

Each is counted and learned from one half of the documents, with the defaults of a build file, and encodes the other
half. --readme replaces the table between the marks `<!-- models -->` and `<!-- /models -->` of a file.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import texts
from measuring import Options, Result, Table, interleaved, machine, measured, parsed_options, timed

from tokcore import kernel
from tokcore.models import MODELS, LearnOptions
from tokcore.text.normalize import Normalizer
from tokcore.text.texts import Texts, make_texts_from_arrow
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec
from tokcore_schemas.config import BuildConfig, make_pretokenizer, parse_config

VOCAB_SIZE = 32_768
WHEN = {
    "bpe": "anything; the default of decoder models",
    "byte": "models of bytes, such as ByT5; no vocabulary to choose",
    "wordpiece": "encoders like BERT",
    "wordpiece-pmi": "comparisons with the WordPiece of textbooks",
    "unigram": "models like T5 and XLM-R; drawing cuts",
    "sentencepiece-bpe": "models like Llama 2 and Mistral",
    "character": "small alphabets; baselines",
    "word": "baselines; vocabularies of labels",
    "codepoint": "models of characters, such as CANINE",
    "pathpiece": "fewest tokens, where no merges are asked for",
}


def measure(path: str, model: str, vocab_size: int) -> Result:
    """One model: learned from the even documents of a text, and tried on the odd ones."""
    documents = texts.load(path)
    numbers = np.arange(len(documents))
    seen, unseen = (make_texts_from_arrow(documents.take(pa.array(numbers[first::2]))) for first in (0, 1))
    config = _make_config(model, vocab_size)
    tokenizer, seconds = _learn(config, seen)
    tokenizer.encode_texts(seen)  # so that caches are as in a long run
    with timed() as encoding:
        encoded = tokenizer.encode_texts(unseen)
    return {
        "tokens_per_byte": len(encoded.ids) / unseen.size_bytes,
        "unknown": float(np.mean(encoded.ids == tokenizer.spec.model.unknown)),
        "vocab": len(tokenizer.spec.model.tokens),
        "learn": seconds,
        "speed": unseen.size_bytes / 1e6 / encoding.cpu,
        "lossless": tokenizer.lossless,
    }


def _make_config(model: str, vocab_size: int) -> BuildConfig:
    size = f"vocab_size = {vocab_size}\n" if model not in ("byte", "codepoint", "character") else ""
    learn = f'[learn]\nmodel = "{model}"\nallow_smaller = true\n{size}'
    return parse_config(
        f'version = 1\n[build]\noutput = "-"\n[[source]]\nlang = "x"\nfiles = "x"\n{learn}', "models.toml"
    )


def _learn(config: BuildConfig, seen: Texts) -> tuple[Tokenizer, float]:
    """The tokenizer, and the CPU seconds of learning, without counting."""
    model = MODELS[config.learn.model]
    pattern = make_pretokenizer(config)
    counter = kernel.Counter(pattern.native_name or "", 1024)
    counter.add(Normalizer(config.counting_steps).apply(seen))
    rows = counter.take()
    options = LearnOptions(
        vocab_size=config.vocab_size,
        num_special=len(config.special),
        pieces=config.piece_options,
        pinned={token.text: token.id for token in config.special if token.id is not None},
    )
    with timed() as learning:
        learned = model.learn(lambda: (rows.keys, rows.counts), options)
    steps = config.normalize.steps
    if model.marks_spaces and config.piece_options.has_charsmap:
        steps = steps[:-1]
    special = [SpecialToken(token.text, token.id, token.role) for token in config.special]
    return Tokenizer(make_learned_spec(learned, pattern.spec, steps, special)), learning.cpu


def tables(options: Options, vocab_size: int = VOCAB_SIZE) -> list[Table]:
    """A row for each model, of the multilingual text."""
    path = texts.prepare(options.corpus, options.work, options.limit_mb)["multilingual"]
    jobs = {
        name: lambda name=name: measured(measure, path=path, model=name, vocab_size=vocab_size)  # type: ignore[misc]
        for name in MODELS
    }
    results = interleaved(options.rounds, jobs)
    bpe = results["bpe"]
    rows: list[list[object]] = []
    for name, result in results.items():
        if "error" in result:
            rows.append([f"`{name}`", WHEN[name], result["error"]])
            continue
        rows.append(
            [
                f"`{name}`",
                WHEN[name],
                f"{result['vocab']:,}",
                f"{result['tokens_per_byte']:.3f}",
                f"{result['unknown'] * 100:.2f} %",
                "yes" if result["lossless"] else "no",
                f"{result['learn']:.1f}",
                f"{result['speed'] / bpe['speed']:.2f}",
            ]
        )
    size = texts.size_mb(texts.load(path))
    return [
        Table(
            f"Which model when, at {vocab_size:,} tokens",
            ["model", "for", "tokens", "tokens per byte", "unknown", "lossless", "learning, s", "encoding, x bpe"],
            rows,
            f"Learned from one half of {size:.0f} MB of multilingual text, tried on the other; one thread, CPU time.",
        )
    ]


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vocab-size", type=int, default=VOCAB_SIZE)
    parser.add_argument("--readme", type=Path)


def main() -> None:
    """Measure, print, write."""
    with parsed_options(__doc__, _more) as (options, arguments):
        (table,) = tables(options, arguments.vocab_size)
    print(machine() + "\n\n" + table.markdown())
    if arguments.readme is not None:
        section = f"<!-- models -->\n{table.markdown().split(chr(10), 2)[2]}<!-- /models -->"
        old = arguments.readme.read_text()
        arguments.readme.write_text(re.sub(r"(?s)<!-- models -->.*<!-- /models -->", lambda _: section, old))


if __name__ == "__main__":
    main()
