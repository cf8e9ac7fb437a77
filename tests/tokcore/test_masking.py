"""Masked spans: native == reference, what each preset matches and what not, linear time; what is still counted."""

from __future__ import annotations

import random
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.count.counting import count_pretokens
from tokcore.errors import ConfigError
from tokcore.text.mask_presets import IBAN_LENGTHS, KEY_PREFIXES, MASK_PRESETS
from tokcore.text.masking import add_texts, check_mask
from tokcore.text.pretokenize import pretokenize
from tokcore.text.pretokenizer import Pretokenizer
from tokcore.text.texts import make_texts_from_strings

ALL = kernel.list_available()
NAMES = list(MASK_PRESETS)


def spans(text: str | bytes, *presets: str, name: str = ALL[0]) -> list[tuple[int, int, str]]:
    with kernel.force(name):
        found = kernel.find_masked(presets or NAMES, make_texts_from_strings([text]))
    assert found.firsts.tolist() == [0, len(found.starts)]
    numbers = found.presets.tolist()
    return [
        (start, end, NAMES[number])
        for start, end, number in zip(found.starts.tolist(), found.ends.tolist(), numbers, strict=True)
    ]


def parts(text: str, preset: str) -> list[str]:
    return [text.encode()[start:end].decode() for start, end, _ in spans(text, preset)]


def iban(country: str, rnd: random.Random) -> str:
    rest = "".join(rnd.choices("0123456789ABCXYZ", k=IBAN_LENGTHS[country] - 4))
    number = int("".join(str(int(c, 36)) for c in f"{rest}{country}00"))
    return f"{country}{98 - number % 97:02}{rest}"


FRAGMENTS = [
    *("@", "a", "b.co", "x@y.org", ".", "-", "_", "%", "+", " ", "/", "://", "user:pw@", ":", "é", "日", "\n", "\0"),
    *(
        "4111111111111111",
        "4111 1111 1111 1111",
        "5500-0000-0000-0004",
        "3782 822463 10005",
        "30569309025904",
        "4",
        "41",
    ),
    *("6304000000000000", "1111", " 111", "-1111", "DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "DE", "89"),
    *("+49 30 1234567", "(415) 555-2671", "415-555-2671", "+1", " (0)", "1.2.3.4", "255.", "256.1", "0.0.0.0", "01."),
    *(
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "-----BEGIN ",
        "PRIVATE KEY",
        " BLOCK",
        "-----",
    ),
    *("-----END ", "AKIA", "ABCDEFGHIJKLMNOP", "AIza", "sk-", "sk_live_", "ghp_", "xoxb-", "github_pat_", "eyJ"),
    *("abcdefghijklmnopqrstuvwxyz0123456789", "eyJhbGciOiJI", ".eyJzdWIiOiIx", ".SflKxwRJSMeKKF2Q"),
]


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=2), max_size=12).map("".join))
def test_native_equals_reference(text: str) -> None:
    expected = spans(text, name="reference")
    for name in ALL[:-1]:
        assert spans(text, name=name) == expected


@given(st.lists(st.sampled_from([b"\xff", b"\xc3", b"@", b"a.de", b"1", b"sk-", b"\0"]), max_size=9).map(b"".join))
def test_invalid_utf8_is_an_ordinary_neighbour(text: bytes) -> None:
    assert spans(text) == spans(text, name="reference")


def test_a_batch_is_its_texts_one_by_one() -> None:
    texts = ["a@b.de", "", "none", "x 10.0.0.1 y@z.org"]
    batch = make_texts_from_strings(["--", *texts])
    found = kernel.find_masked(["email", "ipv4"], batch._replace(offsets=batch.offsets[1:]))
    assert np.diff(found.firsts).tolist() == [1, 0, 0, 2]
    assert batch.data[found.starts[1] : found.ends[1]].tobytes() == b"10.0.0.1"


@pytest.mark.parametrize(
    ("preset", "text", "expected"),
    [
        ("email", "Mail bob.smith+tag@mail.example.co.uk.", ["bob.smith+tag@mail.example.co.uk"]),
        ("email", "邮箱a@b.cn你好, <x_y@z-1.org>", ["a@b.cn", "x_y@z-1.org"]),
        ("email", "@home a@b @x.de a@b.c a@.de a@b..de", []),
        ("email", "a@b.de@c.fr", ["a@b.de"]),
        ("url_credentials", "git clone https://bob:s3cr3t@host/x", ["bob:s3cr3t@"]),
        ("url_credentials", "postgres://:pw@db ftp://bob@host http://a.b/c:d@e", [":pw@"]),
        (
            "card",
            "4111111111111111, 4111 1111 1111 1111; 3782-822463-10005",
            ["4111111111111111", "4111 1111 1111 1111", "3782-822463-10005"],
        ),
        ("card", "4111111111111112 x4111111111111111 0.4111111111111111 4111-1111 1111-1111 41111111111111111111", []),
        (
            "iban",
            "DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432.",
            ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
        ),
        (
            "iban",
            "DE88 3704 0044 0532 0130 00 XX82WEST12345698765432 DE893704 0044 0532 0130 00 DE8937040044053201300",
            [],
        ),
        ("ipv4", "at 192.168.0.1:80, (8.8.8.8)", ["192.168.0.1", "8.8.8.8"]),
        ("ipv4", "1.2.3 1.2.3.4.5 256.1.1.1 1.2.3.04 v1.2.3.4 1.2.3.4a", []),
        (
            "phone",
            "+49 (0)30 123456-78, (415) 555-2671 or 415.555.2671",
            ["+49 (0)30 123456-78", "(415) 555-2671", "415.555.2671"],
        ),
        ("phone", "+1234567 +0123456789 115-555-2671 415-555-26711 1-415-555-2671 2024 2025", []),
        (
            "api_key",
            "AKIAIOSFODNN7EXAMPLE sk-proj_aaaabbbbccccddddeeee",
            ["AKIAIOSFODNN7EXAMPLE", "sk-proj_aaaabbbbccccddddeeee"],
        ),
        ("api_key", "AKIAIOSFODNN7EXAMPL task-aaaabbbbccccddddeeee sk-short ghp_short xoxb-1", []),
        (
            "api_key",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
            ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4"],
        ),
        (
            "private_key",
            "a-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----b",
            ["-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"],
        ),
        ("private_key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nxyz", ["-----BEGIN PGP PRIVATE KEY BLOCK-----\nxyz"]),
        ("private_key", "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----", []),
    ],
)
@pytest.mark.parametrize("name", ALL)
def test_what_a_preset_is(name: str, preset: str, text: str, expected: list[str]) -> None:
    with kernel.force(name):
        found = kernel.find_masked([preset], make_texts_from_strings([text]))
    data = text.encode()
    assert [data[a:b].decode() for a, b in zip(found.starts, found.ends, strict=True)] == expected


def test_every_country_has_its_length_in_both_spellings() -> None:
    rnd = random.Random(1)
    for country in IBAN_LENGTHS:
        together = iban(country, rnd)
        spaced = " ".join(together[i : i + 4] for i in range(0, len(together), 4))
        wrong = f"{together[:2]}{(int(together[2:4]) + 1) % 100:02}{together[4:]}"
        text = f"{together}, {spaced}; {wrong} {together[:-1]} {together}0"
        assert parts(text, "iban") == [together, spaced]
        assert spans(text, "iban", name="reference") == spans(text, "iban")


def test_every_key_prefix_is_known_with_its_least_length() -> None:
    for prefix, (_, least) in KEY_PREFIXES.items():
        if prefix != "eyJ":
            long = prefix + "A" * least
            assert parts(f"k={long} {long[:-1]}", "api_key") == [long], prefix
            assert spans(f"k={long} {long[:-1]}", "api_key", name="reference") == [(2, 2 + len(long), "api_key")]


@pytest.mark.parametrize(
    "piece",
    [
        *(f for f in FRAGMENTS if f),
        "a@",
        "a.",
        "-----BEGIN PRIVATE KEY-----",
        "-----END A",
        "-eyJ-",
        "eyJaaaaaaaa.",
        "://a:",
        "AA11",
        "+1 ",
    ],
)
def test_time_is_linear(piece: str) -> None:
    """One megabyte of nothing but beginnings of matches; quadratic work would take minutes."""
    text = piece * (1_000_000 // len(piece.encode()) + 1)
    started = time.process_time()
    spans(text)
    assert time.process_time() - started < 1.5


TEXT = "Mail bob.smith@example.org, or ring +49 30 1234567. The rest is text; a 2nd x@y.de follows."


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("pattern", ["cl100k", r"\S+|\s+"])
def test_pretokens_that_touch_a_span_are_not_counted_and_all_others_are(name: str, pattern: str) -> None:
    """By definition, one pre-token after the other; texts without spans before, between and after."""
    texts = ["first", TEXT, "between", "", TEXT * 2, "last x@y.de"]
    counts: Counter[bytes] = Counter()
    documents: Counter[bytes] = Counter()
    masked_bytes = 0
    for text in texts:
        covered = {i for start, end, _ in spans(text, "email", "phone") for i in range(start, end)}
        seen = set()
        position = 0
        for pretoken in pretokenize(text.encode(), pattern):
            if covered.isdisjoint(range(position, position + len(pretoken))):
                counts[pretoken] += 1
                seen.add(pretoken)
            else:
                masked_bytes += len(pretoken)
            position += len(pretoken)
        documents.update(seen)
    with kernel.force(name):
        table = count_pretokens(texts, pattern, mask=["phone", "email"])
        counter = kernel.Counter("cl100k", 1024)
        masked = add_texts(counter, make_texts_from_strings(texts), Pretokenizer.of(pattern), ("email", "phone"))
    rows = {row["pretoken"]: (row["count"], row["documents"]) for row in table.to_pylist()}
    assert rows == {word: (counts[word], documents[word]) for word in counts}
    assert counter.num_rows == len(rows)
    assert masked.size_bytes == masked_bytes
    assert masked.matches == {"email": 7, "phone": 3}
    assert sum(len(word) * count for word, count in counts.items()) + masked_bytes == sum(map(len, texts))


def test_threads_change_nothing() -> None:
    texts = [TEXT, "plain"] * 20
    expected = count_pretokens(texts, mask=["email"])
    assert count_pretokens(texts, mask=["email"], threads=3).combine_chunks() == expected.combine_chunks()


def test_a_preset_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no preset .mail.*email"):
        count_pretokens(["a"], mask=["mail"])
    assert check_mask(["phone", "card", "phone"]) == ("card", "phone")
