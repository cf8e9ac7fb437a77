"""The presets of masking, by name: what each matches, as a regular expression and a check of its digits.

Presets match ASCII bytes only; any other byte is an ordinary neighbour. Matches of one preset do not overlap: the
leftmost wins, and the search goes on after it, even if its check digits are wrong. kernel/text/mask_finder.cpp finds
the same spans in one pass and linear time. This file is for reading, and for the oracle (tokcore.reference.reference).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple


class MaskPreset(NamedTuple):
    """One kind of span."""

    text: str  # description for people
    expression: str
    valid: Callable[[bytes], bool] | None = None  # whether a match is valid; None: all are

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """The compiled expression for bytes; only the oracle uses it."""
        return re.compile(self.expression.encode(), re.DOTALL)


# Prefix -> the characters of the rest, and the least number of them.
KEY_PREFIXES: Mapping[str, tuple[str, int]] = {
    "AKIA": ("[A-Z0-9]", 16),  # Amazon Web Services, permanent and temporary
    "ASIA": ("[A-Z0-9]", 16),
    "AIza": ("[A-Za-z0-9_-]", 30),  # Google
    "ghp_": ("[A-Za-z0-9]", 30),  # GitHub
    "gho_": ("[A-Za-z0-9]", 30),
    "ghu_": ("[A-Za-z0-9]", 30),
    "ghs_": ("[A-Za-z0-9]", 30),
    "ghr_": ("[A-Za-z0-9]", 30),
    "github_pat_": ("[A-Za-z0-9_]", 22),
    "glpat-": ("[A-Za-z0-9_-]", 20),  # GitLab
    "xoxa-": ("[A-Za-z0-9-]", 10),  # Slack
    "xoxb-": ("[A-Za-z0-9-]", 10),
    "xoxe-": ("[A-Za-z0-9-]", 10),
    "xoxo-": ("[A-Za-z0-9-]", 10),
    "xoxp-": ("[A-Za-z0-9-]", 10),
    "xoxr-": ("[A-Za-z0-9-]", 10),
    "xoxs-": ("[A-Za-z0-9-]", 10),
    "sk-": ("[A-Za-z0-9_-]", 20),  # OpenAI, Anthropic and others
    "sk_live_": ("[A-Za-z0-9]", 16),  # Stripe
    "sk_test_": ("[A-Za-z0-9]", 16),
    "rk_live_": ("[A-Za-z0-9]", 16),
    "rk_test_": ("[A-Za-z0-9]", 16),
    "hf_": ("[A-Za-z0-9]", 30),  # Hugging Face
    "npm_": ("[A-Za-z0-9]", 36),
    "eyJ": (r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]", 8),  # JSON web tokens: three parts
}

# Country -> characters of an IBAN (SWIFT's registry, release 99).
IBAN_LENGTHS: Mapping[str, int] = {
    country: int(length)
    for length, countries in {
        "15": "NO",
        "16": "BE",
        "18": "DK FI FK FO GL NL SD",
        "19": "MK SI",
        "20": "AT BA EE KZ LT LU MN XK",
        "21": "CH HN HR LI LV",
        "22": "BG BH CR DE GB GE IE ME RS VA",
        "23": "AE GI IL IQ OM SO TL",
        "24": "AD CZ ES MD PK RO SA SE SK TN VG",
        "25": "LY PT ST",
        "26": "IS TR",
        "27": "BI DJ FR GR IT MC MR SM",
        "28": "AL AZ BY CY DO GT HU LB NI PL SV",
        "29": "BR EG PS QA UA",
        "30": "JO KW MU YE",
        "31": "MT SC",
        "32": "LC",
        "33": "RU",
    }.items()
    for country in countries.split()
}


def check_luhn(match: bytes) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1); separators do not count.

    >>> check_luhn(b"4111 1111 1111 1111"), check_luhn(b"4111 1111 1111 1112")
    (True, False)
    """
    total = 0
    for place, digit in enumerate(reversed([byte - 48 for byte in match if 48 <= byte <= 57])):
        doubled = digit * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def check_mod_97(match: bytes) -> bool:
    """Whether the check digits of an IBAN are right (ISO 13616).

    >>> check_mod_97(b"DE89 3704 0044 0532 0130 00")
    True
    """
    compact = match.replace(b" ", b"").decode()
    return int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def _make_iban_pattern(country: str, length: int) -> str:
    full, rest = divmod(length - 4, 4)
    spaced = " [A-Z0-9]{4}" * full + (f" [A-Z0-9]{{{rest}}}" if rest else "")
    return f"{country}[0-9]{{2}}(?:[A-Z0-9]{{{length - 4}}}|{spaced})"


_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_USER = r"""[^\x00-\x20"#'/<>?@\\`\x7f]"""

# In the order of the kernel's numbers.
MASK_PRESETS: Mapping[str, MaskPreset] = {
    "api_key": MaskPreset(
        "keys of cloud services and JSON web tokens, by their prefix",
        (
            "(?<![A-Za-z0-9_-])(?:"
            + "|".join(f"{prefix}{rest}{{{least},}}" for prefix, (rest, least) in KEY_PREFIXES.items())
            + ")"
        ),
    ),
    "card": MaskPreset(
        "payment cards: 13 to 19 digits from 2 to 6, together or in the usual groups, with the right check digit",
        (
            "(?<![0-9A-Za-z.])(?:[2-6][0-9]{12,18}"
            "|[2-6][0-9]{3}([ -])[0-9]{4}\\1[0-9]{4}\\1[0-9]{4}(?:\\1[0-9]{3})?"
            "|3[0-9]{3}([ -])[0-9]{6}\\2[0-9]{4,5})(?![0-9A-Za-z])"
        ),
        check_luhn,
    ),
    "email": MaskPreset("e-mail addresses", "[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\\.)+[A-Za-z]{2,}"),
    "iban": MaskPreset(
        "bank accounts: the length of the country, together or in fours, with the right check digits",
        (
            "(?<![0-9A-Za-z])(?:"
            + "|".join(_make_iban_pattern(country, length) for country, length in sorted(IBAN_LENGTHS.items()))
            + ")(?![0-9A-Za-z])"
        ),
        check_mod_97,
    ),
    "ipv4": MaskPreset(
        "addresses of four numbers up to 255",
        rf"(?<![0-9A-Za-z.])(?:{_OCTET}\.){{3}}{_OCTET}(?![0-9A-Za-z]|\.[0-9])",
    ),
    "phone": MaskPreset(
        "telephone numbers: international with +, or North American in groups",
        (
            r"(?<![0-9A-Za-z+])\+[1-9](?:[ ().-]{0,2}[0-9]){7,14}(?![0-9])"
            r"|(?<![0-9A-Za-z.-])(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[-. ])[2-9][0-9]{2}[-. ][0-9]{4}(?![0-9A-Za-z])"
        ),
    ),
    "private_key": MaskPreset(
        "PEM and PGP blocks of private keys, to their end or, without one, to that of the text",
        "-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*-----|\\Z)",
    ),
    "url_credentials": MaskPreset("user:password@ in URLs", f"(?<=://){_USER}*:{_USER}*@"),
}
