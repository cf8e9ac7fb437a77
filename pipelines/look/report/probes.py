"""Probes: how tokenizers cut numbers, data formats and emoji.

All inputs are fixed or drawn by hash, so a tokenizer always gets the same ones.
"""

from __future__ import annotations

import json
from typing import Any

from tokcore.evaluate.digit_cuts import NUMBERS_OF_A_LENGTH, draw_number
from tokcore.evaluate.spread import DIGITS
from tokcore.tokenizer.tokenizer import Tokenizer

_EMOJI = {
    "grinning face": "😀",
    "thumbs up, medium skin": "👍🏽",
    "red heart": "❤️",
    "keycap 1": "1️⃣",
    "flag of Kenya": "🇰🇪",
    "rainbow flag": "🏳️‍🌈",
    "family of four": "👨‍👩‍👧‍👦",
    "woman astronaut, dark skin": "👩🏿‍🚀",
    "shaking face (Unicode 15)": "🫨",
}
_RECORD = {
    "name": "Amina Odhiambo",
    "age": 34,
    "languages": ["sw", "luo", "en"],
    "address": {"street": "12 Market Lane", "city": "Kisumu", "zip": "40100"},
    "active": True,
    "balance": -1250.75,
}
_FORMATS = {
    "JSON, compact": json.dumps(_RECORD, separators=(",", ":")),
    "JSON, 2 spaces": json.dumps(_RECORD, indent=2),
    "JSON, 4 spaces": json.dumps(_RECORD, indent=4),
    "YAML": (
        "name: Amina Odhiambo\nage: 34\nlanguages:\n  - sw\n  - luo\n  - en\naddress:\n  street: 12 Market Lane\n"
        "  city: Kisumu\n  zip: '40100'\nactive: true\nbalance: -1250.75\n"
    ),
}


def probe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Tokens of each probe."""
    count = tokenizer.count_tokens
    return {
        "numbers": [
            round(
                sum(count(draw_number(digits, which)) for which in range(NUMBERS_OF_A_LENGTH)) / NUMBERS_OF_A_LENGTH,
                DIGITS,
            )
            for digits in range(1, 21)
        ],
        "formats": {name: count(text) for name, text in _FORMATS.items()},
        "emoji": {name: count(text) for name, text in _EMOJI.items()},
    }


def list_emoji() -> dict[str, str]:
    """Name -> the emoji that is probed."""
    return dict(_EMOJI)


def list_formats() -> dict[str, str]:
    """Name -> the record in that format."""
    return dict(_FORMATS)
