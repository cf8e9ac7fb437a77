"""Encode a corpus with tokcore, tiktoken and Hugging Face's tokenizers, and report every document whose ids differ.

    python tests/conformance/run.py CORPUS... [--tokenizer PATH] [--limit-mb N]

CORPUS: files, or folders of files: .txt, .jsonl (field "text"), both also as .zst or .gz, and .parquet (column "text").
Without --tokenizer, these are compared: the published vocabularies of tests/data/vocab; tekken.json, if
`mistral-common` is installed; and, learned from the first documents, WordPiece, cased and not; tokenizer.json of
Unigram and BPE that sentencepiece learned, without the documents that spell a special token; SentencePiece's models as
tokcore learns them, beside sentencepiece; and Unigram in byte form. With --tokenizer, PATH is a tokcore.json or a
build's output, and the other engines read its exported files; tiktoken takes part if it can.
Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib.util
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import sentencepiece
import tiktoken
import tokenizers
import zstandard

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.sentencepiece_models import METASPACE, SPECIAL, make_tokenizer_json
from support.vocabularies import PUBLISHED, published_encoding, published_tokenizer

from tokcore.count.counting import count_pretokens
from tokcore.count.pretoken_tables import read_counts_of_table
from tokcore.errors import FormatError
from tokcore.formats.tokenizers.huggingface import read_tokenizer_json, write_tokenizer_json
from tokcore.formats.tokenizers.sentencepiece import write_sentencepiece_model
from tokcore.formats.tokenizers.tiktoken import write_rank_file
from tokcore.models import MODELS, LearnOptions
from tokcore.models.sentencepiece.learned_pieces import PIECE_ROLES
from tokcore.models.sentencepiece.piece_options import PieceOptions
from tokcore.models.sentencepiece.scored_pieces import is_piece_model
from tokcore.models.wordpiece.learned_wordpiece import BERT_ROLES
from tokcore.text.normalize import Normalizer, name_space_step
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore.tokenizer.tokenizer_spec import SpecialToken, make_learned_spec

BATCH_BYTES = 4 << 20
LEARNED_BYTES = 8e6

Encode = Callable[[list[str]], list[list[int]]]


def documents(paths: list[Path], limit_bytes: int) -> Iterator[tuple[str, str]]:
    """(where it is from, text) of each document, until there are limit_bytes of text."""
    seen = 0
    for path in paths:
        for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
            for where, text in _documents_of(file):
                yield where, text
                seen += len(text.encode())
                if seen >= limit_bytes:
                    return


def _documents_of(file: Path) -> Iterator[tuple[str, str]]:
    suffixes = file.suffixes
    stream: io.BufferedIOBase = file.open("rb")
    if suffixes[-1:] == [".zst"]:
        stream = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        suffixes.pop()
    elif suffixes[-1:] == [".gz"]:
        stream = gzip.GzipFile(fileobj=stream)
        suffixes.pop()
    if suffixes[-1:] == [".txt"]:
        yield str(file), stream.read().decode()
    elif suffixes[-1:] == [".jsonl"]:
        for number, line in enumerate(io.BufferedReader(stream), 1):
            if line.strip():
                yield f"{file}:{number}", orjson.loads(line)["text"]
    elif suffixes[-1:] == [".parquet"]:
        for number, text in enumerate(pq.read_table(file, columns=["text"])["text"].to_pylist(), 1):
            yield f"{file}:{number}", text
    else:
        print(f"{file}: skipped, neither text, JSON lines nor parquet", file=sys.stderr)


def engines(tokenizer: Tokenizer, encoding: tiktoken.Encoding | None) -> dict[str, Encode]:
    """The engines, ours first. encoding: tiktoken's, if it has one."""
    if is_piece_model(tokenizer.spec.model):
        processor = sentencepiece.SentencePieceProcessor(model_proto=write_sentencepiece_model(tokenizer.spec))
        return {"tokcore": lambda texts: tokenizer.encode_batch(texts).to_pylist(), "sentencepiece": processor.encode}
    theirs = tokenizers.Tokenizer.from_str(write_tokenizer_json(tokenizer.spec).decode())
    theirs.encode_special_tokens = True  # means: as ordinary text
    found: dict[str, Encode] = {
        "tokcore": lambda texts: tokenizer.encode_batch(texts).to_pylist(),
        "huggingface": lambda texts: [one.ids for one in theirs.encode_batch_fast(texts, add_special_tokens=False)],
    }
    if encoding is not None:
        found["tiktoken"] = lambda texts: [encoding.encode_ordinary(text) for text in texts]
    return found


def learned_wordpiece(step: str, texts: list[str]) -> Tokenizer:
    """WordPiece of up to 60,000 tokens, learned from these texts with BERT's pattern and one of its normalizers."""
    table = count_pretokens(list(map(Normalizer([step]).apply_str, texts)), "bert")
    special = [SpecialToken(text, id, role) for id, (text, role) in enumerate(BERT_ROLES.items())]
    options = LearnOptions(vocab_size=60_000, num_special=len(special))
    model = MODELS["wordpiece"].learn(lambda: read_counts_of_table(table), options)
    return Tokenizer(make_learned_spec(model, {"name": "bert"}, [step], special))


def learned_pieces(model: str, texts: list[str]) -> Tokenizer:
    """A model of SentencePiece's that our learner learned from these texts, with its defaults."""
    steps = ["nmt_nfkc", name_space_step(True, True)]
    table = count_pretokens(list(map(Normalizer(steps).apply_str, texts)), "metaspace")
    return learn_with_roles(model, table, {"name": "metaspace"}, PieceOptions(reserved=tuple(PIECE_ROLES)))


def learned_bytes(texts: list[str]) -> Tokenizer:
    """Unigram in byte form, learned from these texts."""
    options = PieceOptions(reserved=tuple(PIECE_ROLES), has_charsmap=False, as_bytes=True)
    return learn_with_roles("unigram", count_pretokens(texts, "o200k"), {"name": "o200k"}, options)


def learn_with_roles(model: str, table: pa.Table, pattern: dict[str, str], pieces: PieceOptions) -> Tokenizer:
    """A tokenizer of up to 32,000 tokens, with the special tokens of SentencePiece's models."""
    special = [SpecialToken(text, id, role) for id, (text, role) in enumerate(PIECE_ROLES.items())]
    pinned = {token.text: token.id or 0 for token in special}
    options = LearnOptions(vocab_size=32_000, num_special=len(special), pinned=pinned, pieces=pieces)
    learned = MODELS[model].learn(lambda: read_counts_of_table(table), options)
    return Tokenizer(make_learned_spec(learned, pattern, (), special))


def converted(kind: str, texts: list[str]) -> Tokenizer:
    """A model that sentencepiece learned from these texts, as transformers makes a tokenizer.json of it."""
    out = io.BytesIO()
    lines = (line for text in texts[::4] for line in text.split("\n") if line)
    options = {"vocab_size": 16_000, "character_coverage": 0.999, "byte_fallback": kind == "bpe", "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=out, model_type=kind, **options)
    words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}
    steps = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    parts = (["Precompiled"], words) if kind == "unigram" else (steps, None)
    return Tokenizer(read_tokenizer_json(json.dumps(make_tokenizer_json(kind, out.getvalue(), *parts)).encode(), kind))


def published_tekken() -> dict[str, Tokenizer]:
    """The tekken.json files of `mistral-common`, if it is installed."""
    found = importlib.util.find_spec("mistral_common")
    files = sorted((Path(found.origin).parent / "data").glob("tekken*.json")) if found and found.origin else []
    return {file.name: Tokenizer.load(file) for file in files}


def exported_encoding(tokenizer: Tokenizer) -> tiktoken.Encoding | None:
    """tiktoken's tokenizer, made from our exported rank file; None if there is no such file."""
    try:
        lines = [line.split() for line in write_rank_file(tokenizer.spec).splitlines()]
    except FormatError:
        return None
    return tiktoken.Encoding(
        "exported",
        pat_str=tokenizer.pattern_text,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens=tokenizer.specials,
    )


def compare(name: str, engines: dict[str, Encode], corpus: Iterator[tuple[str, str]]) -> int:
    """Print what differs, and how fast each was; return the number of documents that differ."""
    seconds = dict.fromkeys(engines, 0.0)
    num_documents = num_bytes = num_ids = num_different = 0

    def run(batch: list[tuple[str, str]]) -> None:
        nonlocal num_documents, num_bytes, num_ids, num_different
        texts = [text for _, text in batch]
        results = {}
        for engine, encode in engines.items():
            start = time.process_time()
            results[engine] = encode(texts)
            seconds[engine] += time.process_time() - start
        ours = results.pop("tokcore")
        for i, (where, text) in enumerate(batch):
            num_ids += len(ours[i])
            num_bytes += len(text.encode())
            different = [engine for engine, ids in results.items() if ids[i] != ours[i]]
            num_different += bool(different)
            for engine in different:
                _report(where, engine, ours[i], results[engine][i])
        num_documents += len(batch)

    batch: list[tuple[str, str]] = []
    size = 0
    for where, text in corpus:
        batch.append((where, text))
        size += len(text.encode())
        if size >= BATCH_BYTES:
            run(batch)
            batch, size = [], 0
    run(batch)
    speeds = ", ".join(f"{engine} {num_bytes / 1e6 / max(s, 1e-9):.1f} MB/s" for engine, s in seconds.items())
    print(
        f"{name}: {num_documents} documents, {num_bytes / 1e6:.1f} MB, {num_ids} ids, {num_different} documents differ "
        f"(CPU time, Python lists included: {speeds})"
    )
    return num_different


def _report(where: str, engine: str, ours: list[int], theirs: list[int]) -> None:
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    print(f"{where}: id {at} differs: tokcore {ours[at : at + 8]}, {engine} {theirs[at : at + 8]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="tokcore.json, or a build's output")
    parser.add_argument("--limit-mb", type=float, default=float("inf"), help="stop after this many MB of text")
    arguments = parser.parse_args()
    if arguments.tokenizer is not None:
        tokenizer = Tokenizer.load(arguments.tokenizer)
        chosen = {str(arguments.tokenizer): (tokenizer, exported_encoding(tokenizer))}
    else:
        chosen = {name: (published_tokenizer(name), published_encoding(name)) for name in PUBLISHED}
        limit = min(arguments.limit_mb * 1e6, LEARNED_BYTES)
        first = [text for _, text in documents(arguments.corpus, limit)]
        chosen |= {f"wordpiece, {step}": (learned_wordpiece(step, first), None) for step in ("bert", "bert-cased")}
        chosen |= {name: (tokenizer, exported_encoding(tokenizer)) for name, tokenizer in published_tekken().items()}
        chosen |= {f"converted {kind}": (converted(kind, first), None) for kind in ("unigram", "bpe")}
        chosen |= {f"learned {kind}": (learned_pieces(kind, first), None) for kind in ("unigram", "sentencepiece-bpe")}
        chosen["learned unigram, o200k"] = (learned_bytes(first), None)
    different = 0
    for name, (tokenizer, encoding) in chosen.items():
        corpus = documents(arguments.corpus, arguments.limit_mb * 1e6)
        if name.startswith(("converted", "learned unigram, o200k")):
            corpus = ((where, text) for where, text in corpus if not any(token in text for token in SPECIAL))
        different += compare(name, engines(tokenizer, encoding), corpus)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
