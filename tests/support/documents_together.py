"""All that a build may do to documents, together: a corpus, its build file, and what a plain loop leaves of it.

Planted across files, formats, languages and work items: equal texts, also such as are equal only once the step and the
mask have run; paragraphs that come again; items of a test.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from support.builds import build_file, jsonl, texts, write
from support.three_formats import NAMES, write_thirds

import tokcore as tk
from tokcore_schemas.document import compute_document_key, is_selected

CODE = Path(__file__).parents[1] / "steps"  # what PYTHONPATH of all workers has to name
SHARE = "0.25"
SETTINGS = (
    '[plan]\nrange_bytes = 4000\n[learn]\nmodel = "byte"\n'
    f'[shards]\nformats = ["arrow"]\ntarget_tokens = 4000\nvalidation = {SHARE}\n'
)
DOING = """[metadata]
attributes = "scores/*.parquet"
quality = "float32"
url = "string"
score = {{ type = "float32", default = 0.25 }}
[[map]]
run = "tidy_step:tidy"
version = "1"
[mask]
presets = ["email"]
replacement = "<{{kind}}>"
[[filter]]
name = "good"
keep = "quality >= 0.2 and score < 0.9"
[[filter]]
name = "test"
ngram_overlap = {{ files = "evals/*.jsonl", n = 8, field = "text" }}
[dedup]
by = "{by}"
prefer = ["split:validation", "source_order", "-score"]
"""
N = 8
ITEMS = [" ".join(f"{word}{number}" for word in ("who", "found", "the", "fox", "in", "which", "old", "red", "barn"))
         for number in ("one", "two", "three")]  # fmt: skip


def make_documents() -> list[dict[str, object]]:
    """Each text comes about four times."""
    draw = random.Random(44)
    pool = [text.replace("\n", " ")[:90] for text in texts("en", 50)]
    documents = []
    for i in range(240):
        text = draw.choice(pool) if i % 5 else f"only once: {i}"
        paragraphs = [text, draw.choice(pool[:12])] if i % 3 == 0 else [text]
        if i % 7 == 2:
            paragraphs.append(f"write to someone{draw.randrange(9)}@example.org")
        if i % 11 == 3:
            paragraphs.append(f"and {draw.choice(ITEMS)} then")
        if i % 13 == 5:
            paragraphs[0] = paragraphs[0].replace("the", "teh")
        document = {
            "id": f"d{draw.randrange(1 << 40):010x}",
            "l": draw.choice(["en", "de", "ru"]),
            "text": ("DROP " if i % 17 == 4 else "") + "\n\n".join(paragraphs),
            "quality": draw.randrange(10) / 10,
            "url": f"https://example.org/{i}",
        }
        documents.append(document)
    return documents


DOCUMENTS = make_documents()
SCORES = {one["id"]: number % 16 / 16 for number, one in enumerate(DOCUMENTS) if number % 9}


def write_build(folder: Path, by: str, settings: str = SETTINGS, order: int = 0) -> Path:
    """The build file of the corpus. order: how rows of tables are ordered, and items are dealt to files."""
    write_thirds(folder, DOCUMENTS)
    names = [*SCORES][:: -1 if order else 1]
    (folder / "scores").mkdir()
    for number in range(2):
        own = names[number::2]
        table = {"id": own, "score": pa.array([SCORES[name] for name in own], pa.float32())}
        pq.write_table(pa.table(table), folder / "scores" / f"{number}.parquet")
    write(folder / "evals" / "items.jsonl", jsonl([{"text": item} for item in ITEMS]))
    sources = "".join(f'[[source]]\nlang_field = "l"\nid = "id"\nfiles = "{name}"\n' for name in NAMES)
    return build_file(folder, sources + DOING.format(by=by), settings)


def leave_by_hand(by: str) -> tuple[dict[str, str], Counter[str]]:
    """(id -> text of the documents that stay, reason -> documents that are dropped). by: "" if duplicates stay."""
    dropped: Counter[str] = Counter()
    grams = {tuple(item.split()[at : at + N]) for item in ITEMS for at in range(len(item.split()) - N + 1)}
    left = []
    for i, one in enumerate(DOCUMENTS):
        text, score = str(one["text"]).replace("teh", "the"), SCORES.get(one["id"], 0.25)
        if text.startswith("DROP "):
            dropped["tidy"] += 1
            continue
        text = re.sub(r"someone\d@example\.org", "<email>", text)
        words = re.findall(r"\w+", text.lower())
        if not (one["quality"] >= 0.2 and score < 0.9):
            dropped["good"] += 1
        elif any(tuple(words[at : at + N]) in grams for at in range(len(words))):
            dropped["test"] += 1
        else:
            key = compute_document_key(str(one["l"]), str(one["id"]), b"")
            is_validation = is_selected(key, 0, "validation", Decimal(SHARE))
            source = i % 3
            left.append(((not is_validation, source, -score, one["l"], key), source, str(one["id"]), text))
    left.sort()
    seen: set[object] = set()
    kept = {}
    for _, source, name, text in left:
        if by in ("", "text"):
            if by and text in seen:
                dropped["duplicate"] += 1
            else:
                kept[name] = text
            seen.add(text)
            continue
        pieces = re.findall(r".+?(?:\n\n|$)", text, re.DOTALL)
        new = []
        for piece in pieces:
            if (source, piece.strip()) not in seen:
                new.append(piece)
            seen.add((source, piece.strip()))
        if "".join(new).strip():
            kept[name] = "".join(new)
        else:
            dropped["duplicate"] += 1
    return kept, dropped


def list_texts(output: Path) -> dict[str | None, str]:
    """Id -> text of all documents of an output."""
    shards, tokenizer = tk.open_shards(output, split="all"), tk.Tokenizer.load(output)
    told = {shards.document(i).id: tokenizer.decode(shards[i]).decode() for i in range(len(shards))}
    return {name: text.removesuffix("<|endoftext|>") for name, text in told.items()}


def find_code() -> None:
    """Have this process find the step, as PYTHONPATH does for others."""
    if str(CODE) not in sys.path:
        sys.path.append(str(CODE))
