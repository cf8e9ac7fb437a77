"""Benchmark learning SentencePiece models of 32k pieces, beside sentencepiece, and try what was learned on other text.

    python tests/benchmarks/learn_pieces.py [--corpus FOLDER] [--limit-mb 8] [--rounds 3]

Both learn from the lines of every second document, with the same options. sentencepiece then encodes the lines of the
other documents with each Unigram model. The scores of the pieces, added up, are its likelihood, in bits per byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import texts
from measuring import Options, Result, Table, interleaved, measured, memory_before, peak_mb, program, timed

from tokcore import kernel
from tokcore.formats.tokenizers.sentencepiece import write_sentencepiece_model
from tokcore.models import MODELS, LearnOptions
from tokcore.models.sentencepiece.learned_pieces import PIECE_ROLES
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.text.normalize import Normalizer, name_space_step
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec

VOCAB_SIZE = 32_000
MODELS_OF_BOTH = {"unigram": "unigram", "sentencepiece-bpe": "bpe"}
SPECIAL = [SpecialToken(text, id, role) for id, (text, role) in enumerate(PIECE_ROLES.items())]


def read_lines(path: str, first: int) -> list[str]:
    """The lines of every second document."""
    return [line for text in texts.load(path).to_pylist()[first::2] for line in text.split("\n") if line.strip()]


def tokcore_learn(path: str, model: str, out: str) -> Result:
    """Ours: normalized, counted and learned one after the other."""
    given = make_texts_from_strings(read_lines(path, 0))
    pieces = PieceOptions(reserved=tuple(PIECE_ROLES))
    pinned = {token.text: token.id or 0 for token in SPECIAL}
    options = LearnOptions(vocab_size=VOCAB_SIZE, num_special=len(SPECIAL), pinned=pinned, pieces=pieces)
    before = memory_before()
    with timed() as count:
        counter = kernel.Counter("metaspace", 0)
        counter.add(Normalizer(["nmt_nfkc", name_space_step(True, True)]).apply(given))
        rows = counter.take()
    with timed() as learn:
        learned = MODELS[model].learn(lambda: (rows.keys, rows.counts), options)
    memory = peak_mb() - before
    Path(out).write_bytes(write_sentencepiece_model(make_learned_spec(learned, {"name": "metaspace"}, (), SPECIAL)))
    return {"count": count.cpu, "learn": learn.cpu, "memory": memory}


def sentencepiece_learn(path: str, model: str, out: str) -> Result:
    """Theirs, from the same lines."""
    given = read_lines(path, 0)
    before = memory_before()
    with timed() as learn, Path(out).open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(given),
            model_writer=file,
            model_type=MODELS_OF_BOTH[model],
            vocab_size=VOCAB_SIZE,
            hard_vocab_limit=False,
            byte_fallback=True,
            max_sentence_length=1 << 30,
            num_threads=1,
            minloglevel=2,
        )
    return {"learn": learn.cpu, "memory": peak_mb() - before}


def measure_likelihood(lines: Sequence[str], path: Path) -> tuple[float, float]:
    """Bits and tokens per byte when a model encodes lines."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    size = model.get_piece_size()
    scores = [model.get_score(id) for id in range(size)]
    # SentencePiece charges for an unknown character once, not for each of its bytes.
    unknown = min(score for id, score in enumerate(scores) if not (model.is_byte(id) or model.is_control(id))) - 10
    begins = [model.is_byte(id) and int(model.id_to_piece(id)[1:-1], 16) & 0xC0 != 0x80 for id in range(size)]
    worth = [(unknown if begins[id] else 0.0) if model.is_byte(id) else scores[id] for id in range(size)]
    num_bytes = num_tokens = 0
    total = 0.0
    for line in lines:
        ids = model.encode(line)
        num_bytes += len(line.encode())
        num_tokens += len(ids)
        total += math.fsum(worth[id] for id in ids)
    return -total / math.log(2) / num_bytes, num_tokens / num_bytes


def tables(options: Options) -> list[Table]:
    """Learning, and what was learned."""
    learned: list[list[object]] = []
    tried: list[list[object]] = []
    for text, path in texts.prepare(options.corpus, options.work, options.limit_mb).items():
        if text == "code":
            continue
        for model in MODELS_OF_BOTH:
            files = {name: options.work / f"{text}-{model}-{name}.model" for name in ("tokcore", "sentencepiece")}
            learned += _learn_rows(text, path, model, files, options.rounds)
            if model == "unigram":
                tried += _try_rows(text, path, files)
    return [
        Table(
            f"Learn {VOCAB_SIZE:,} pieces",
            ["", "", "", "count, s", "learn, s", "tokcore is faster by", "memory, MB", "x tokcore"],
            learned,
            "CPU seconds, one thread; sentencepiece counts as it learns.",
        ),
        Table(
            "Unigram models on text that neither learned from",
            ["", "", "bits per byte", "x sentencepiece", "tokens per byte", "x sentencepiece"],
            tried,
        ),
    ]


def _learn_rows(text: str, path: Path, model: str, files: Mapping[str, Path], rounds: int) -> list[list[object]]:
    jobs = {
        "tokcore": lambda: measured(tokcore_learn, path=path, model=model, out=str(files["tokcore"])),
        "sentencepiece": lambda: measured(sentencepiece_learn, path=path, model=model, out=str(files["sentencepiece"])),
    }
    results = interleaved(rounds, jobs)

    def add_up(result: Mapping[str, Any]) -> float:
        return float(result.get("count", 0) + result["learn"])

    ours = results["tokcore"]
    return [
        [
            *(text, model, name, result.get("count"), result["learn"], add_up(result) / add_up(ours)),
            *(result["memory"], result["memory"] / ours["memory"]),
        ]
        for name, result in results.items()
    ]


def _try_rows(text: str, path: Path, files: Mapping[str, Path]) -> list[list[object]]:
    lines = read_lines(str(path), 1)
    found = {name: measure_likelihood(lines, file) for name, file in files.items()}
    theirs = found["sentencepiece"]
    return [
        [text, name, f"{bits:.4f}", f"{bits / theirs[0]:.4f}", f"{tokens:.4f}", f"{tokens / theirs[1]:.4f}"]
        for name, (bits, tokens) in found.items()
    ]


if __name__ == "__main__":
    program(__doc__, tables)
