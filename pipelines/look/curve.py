"""`tokcore curve`: bytes per token of every language at every size of the vocabulary, from one learned BPE.

The texts are the counted pre-tokens. So a pre-token that counting cut (count.max_pretoken_bytes) counts as its parts,
and what was masked does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError
from tokcore.look.vocabulary_curve import count_tokens_by_size
from tokcore.models.bpe import require_learned
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.build.output import Output
from tokcore_schemas.stage_table import COUNTS


def compute_curve(output: Output, tokenizer: Tokenizer, sizes: Sequence[int] = ()) -> dict[str, Any]:
    """{"sizes": [...], "languages": {lang: {"bytes": B, "tokens": [T at each size]}}}, in values that JSON knows.

    sizes: 256 + merges, special tokens not among them, in any order; none: the powers of two from 512 on, and the
    tokenizer's own. Equal to what tokenizers learned for these sizes give.
    Raises ConfigError for a tokenizer that was not learned by BPE, and for a size that it does not have.
    """
    model = require_learned(tokenizer.spec.model, f"{output.url}: a curve")
    most = 256 + len(model.merges)
    if wrong := [size for size in sizes if not 256 <= size <= most]:
        raise ConfigError(f"--sizes {wrong[0]}: this tokenizer has merges for 256 to {most}")
    powers = [2**power for power in range(9, 32) if 2**power < most]
    chosen = sorted(set(sizes)) or [*powers, most]
    languages = {
        lang: {"bytes": num_bytes, "tokens": count_tokens_by_size(model.merges, num_by_id, chosen)}
        for lang, num_bytes, num_by_id in count_table_ids(output, tokenizer)
    }
    return {"sizes": chosen, "languages": languages}


def count_table_ids(output: Output, tokenizer: Tokenizer) -> Iterator[tuple[str, int, npt.NDArray[np.uint64]]]:
    """Of each language that was counted: its name, bytes of text, how often each id occurs (uint64 [vocab_size]).

    Raises ConfigError if the output has no count tables.
    """
    counted = output.find_counted()
    if counted is None:
        output.require_all(COUNTS, COUNTS.command)
        return
    for lang in dict.fromkeys(lang for lang, _ in counted.tables):
        num_by_id = np.zeros(tokenizer.vocab_size, np.uint64)
        num_bytes = 0
        for rows in counted.read_rows(lang):
            encoded = tokenizer.encode_pretokens(rows.keys)
            np.add.at(num_by_id, encoded.ids, np.repeat(rows.counts, np.diff(encoded.offsets)))
            lengths = np.diff(rows.keys.offsets).tolist()
            num_bytes += sum(size * count for size, count in zip(lengths, rows.counts.tolist(), strict=True))
        yield lang, num_bytes, num_by_id
