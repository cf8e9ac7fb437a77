"""The kernel reads plain JSON lines and gives what orjson gives; orjson reads the lines that the kernel refuses."""

from __future__ import annotations

import functools
import itertools
import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import reading as read_settings

from tokcore import kernel
from tokcore_pipelines.reading.jsonl import read_json_lines

pytestmark = pytest.mark.skipif(kernel.list_available() == ("reference",), reason="no native kernel")


reading = functools.partial(read_settings, max_document_bytes=1 << 20, unit="")


WITH_ALL = {"id": "id", "lang": "", "lang_field": "lang"}
NESTED = {"text": "a.b", "id": "a.id", "lang": "", "lang_field": "meta.lang"}


def outcome(blocks, how):
    """Everything that reading gives, batches joined."""
    texts, ids, langs, ordinals, rejects = [], [], [], [], []
    bounds = []
    for batch in read_json_lines(iter(blocks), how):
        texts += [batch.texts.text(i) for i in range(batch.texts.num_texts)]
        ids += batch.ids if batch.ids is not None else [None] * batch.texts.num_texts
        langs += list(batch.langs)
        ordinals += batch.ordinals.tolist()
        rejects += batch.rejects
        bounds.append(batch.num_records)
    return texts, ids, langs, ordinals, rejects, bounds


def read_alike(data, how, cuts=()):
    """The outcome, which must be the same with the kernel and without."""
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    blocks = [data[a:b] for a, b in itertools.pairwise(bounds)]
    with kernel.force("reference"):
        expected = outcome([data], how)
    assert outcome(blocks, how) == expected
    return expected


def plain(line, **changes):
    """Whether the kernel accepts the line itself, without orjson."""
    how = reading(**changes)
    reader = kernel.JsonLines(how.text, how.id, how.lang_field, how.forbidden, how.max_document_bytes, 1 << 16)
    reader.know_lang("en")
    found = reader.read(line, 0, len(line), 1 << 30, 1 << 30)
    assert (found.texts.num_texts == 1) == (found.refused_end is None)
    assert found.position == (0 if found.refused_end is not None else len(line))
    return found.refused_end is None


PLAIN = [
    b'{"text":""}',
    b'{"text":"a"}\n',
    b' \t{ "text" :\t"a" , "x" : [ ] , "y" : { } }\r\n',
    b'{"x":[1,-2,0,3.5,1e5,-0.0E-12,true,false,null,"s",{"y":[[],{}]}],"text":"a"}',
    rb'{"text":"\"\\\/\b\f\n\r\t\u0000\u007f\u0080\u07ff\u0800\uFFFF\ud83d\ude00\uDBFF\uDFFF"}',
    '{"text":"é中😀\u2028 and ASCII","x":"\U0010ffff\ue000\ud7ff"}'.encode(),
    b'{"text":"0123456\\n","x":"01234567\\n","y":"012345678\\\\"}',
    b'{"x":"text","text":"a","Text":"b","tex":1,"textt":2}',
    b'{"text":"a","x":1,"x":2}',
    b'{"text":"a","n":123456789012345678901234567890}',
    b'{"text":"a","deep":' + b"[" * 64 + b"]" * 64 + b"}",
]
LEFT_TO_ORJSON = [
    rb'{"te\u0078t":"a"}',
    rb'{"x\n":1,"text":"a"}',
    b'{"text":"a","text":"b"}',
    b'{"text":"a","n":1e400}',
    b'{"text":"a","n":1e100}',
    b'{"text":"a","deep":' + b"[" * 65 + b"]" * 65 + b"}",
]
WRONG = [
    b"{",
    b"{}",
    b"{,}",
    b'{"text"}',
    b'{"text":}',
    b'{"text":"a",}',
    b'{"text":"a" "x":1}',
    b'{"text":"a"}}',
    b'{"text":"a"} {}',
    b'{"text":"a","x":[1,]}',
    b'{"text":"a","x":[1}',
    b'{"text":"a","x":{"y":1]}',
    b'{"text":"a","x":{"y"}}',
    b'{"text":"a","x":{1:2}}',
    b'{"text":"a","x":tru}',
    b'{"text":"a","x":truee}',
    b'{"text":"a","x":nul',
    b'{"text":"a","x":01}',
    b'{"text":"a","x":-}',
    b'{"text":"a","x":1.}',
    b'{"text":"a","x":.5}',
    b'{"text":"a","x":1e}',
    b'{"text":"a","x":+1}',
    b'{"text":"a","x":0x1}',
    b'{"text":"a","x":NaN}',
    b'{"text":"a","x":-Infinity}',
    b'{"text":"a',
    b'{"text":"a\\',
    b'{"text":"a\\"}',
    b'{"text":"a\\u12',
    b'{"text":"\\u12g4"}',
    b'{"text":"\\a"}',
    b'{"text":"\\ud800"}',
    b'{"text":"\\ud800\\n"}',
    b'{"text":"\\ud800\\ud800"}',
    b'{"text":"\\udc00\\ud800"}',
    b'{"text":"a","x":"\\udfff"}',
    b'{"text":"a\tb"}',
    b'{"text":"a","x":"\x00"}',
    b'{"text":"a"}\x0b',
    b'\xef\xbb\xbf{"text":"a"}',
    b'{"text":null}',
    b'{"text":["a"]}',
]
# Not UTF-8, each at the end of a run of 0 to 19 plain characters, and before one.
NOT_UTF8 = [
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc3",
    b"\xc3\xc3",
    b"\xe0\x9f\xbf",
    b"\xe4\xb8",
    b"\xe4\xb8a",
    b"\xe4a\xad",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xc3\\u00e9",
]


@pytest.mark.parametrize("line", PLAIN)
def test_plain_lines_stay_in_the_kernel(line):
    assert plain(line)
    texts, *_ = read_alike(line, reading())
    assert texts == [orjson.loads(line)["text"].encode()]


@pytest.mark.parametrize("line", LEFT_TO_ORJSON + WRONG)
def test_the_kernel_refuses_what_is_rare_or_wrong(line):
    assert not plain(line)
    read_alike(line + b"\n" + b'{"text":"after"}', reading())


@pytest.mark.parametrize("policy", ["reject", "replace", "bytes"])
def test_what_is_not_utf8(policy):
    for bad in NOT_UTF8:
        for before in range(20):
            for after in (b"", b"abcdefghi" * 4, "é".encode() * 18):
                content = b"x" * before + bad + after
                for line in (b'{"text":"' + content + b'"}', b'{"text":"a","o":["' + content + b'"]}'):
                    assert not plain(line)
                    read_alike(line, reading(invalid_utf8=policy))


def test_every_character_and_every_escape():
    codes = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    text = "".join(map(chr, codes))
    for line in (orjson.dumps({"text": text}), json.dumps({"text": text}).encode()):
        found = kernel.JsonLines("text", "", "", [], 1 << 30, 0).read(line, 0, len(line), 1 << 30, 1)
        assert found.texts.text(0) == text.encode()


def test_every_pair_of_bytes_after_any_alignment():
    """A string of two bytes and its surroundings: the kernel accepts exactly what orjson reads."""
    rows = [b'{"text":"%s%s"}' % (b"." * (i % 23), i.to_bytes(2, "big")) for i in range(1 << 16)]
    data = [row for row in rows if b"\n" not in row]
    with kernel.force("reference"):
        expected = outcome([b"\n".join(data)], reading())
    assert outcome([b"\n".join(data)], reading()) == expected
    accepted = [plain(row) for row in data]
    refused = {reject.record for reject in expected[4]}
    assert [i for i, ok in enumerate(accepted) if not ok] == sorted(refused)


def test_utf8_at_any_place_of_a_block():
    """Four bytes, each the first or last of its kind, in longer texts: accepted exactly if Python decodes them."""
    edges = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF]
    edges += [0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    reader = kernel.JsonLines("text", "", "", [], 1 << 30, 0)
    num_accepted = 0
    for number, four in enumerate(itertools.product(edges, repeat=4)):
        text = b"." * (number % 37) + bytes(four) + "aé中".encode() * 6
        line = b'{"text":"%s"}' % text
        found = reader.read(line, 0, len(line), 1 << 30, 1)
        accepted = found.refused_end is None
        assert accepted == _is_utf8(text), text
        num_accepted += accepted
    assert num_accepted > 100


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        (b'{"text":"a","id":"k","lang":"en"}', True),
        (b'{"lang":"en","id":17,"text":"a"}', True),
        (b'{"lang":"en","id":-999999999999999999,"text":"a"}', True),
        (b'{"lang":"en","id":0,"text":"a"}', True),
        (b'{"lang":"en","id":-0,"text":"a"}', False),
        (b'{"lang":"en","id":00,"text":"a"}', False),
        (b'{"lang":"en","id":1e3,"text":"a"}', False),
        (b'{"lang":"en","id":1.0,"text":"a"}', False),
        (b'{"lang":"en","id":18446744073709551615,"text":"a"}', False),
        (b'{"lang":"en","id":18446744073709551616,"text":"a"}', False),
        (b'{"lang":"en","id":null,"text":"a"}', False),
        (b'{"lang":"en","text":"a"}', False),
        (b'{"id":"k","text":"a"}', False),
        (b'{"lang":"de","id":"k","text":"a"}', False),
        (b'{"lang":"..","id":"k","text":"a"}', False),
        (b'{"lang":7,"id":"k","text":"a"}', False),
        (b'{"lang":"en","id":"k","id":"l","text":"a"}', False),
        (b'{"lang":"en","lang":"en","id":"k","text":"a"}', False),
        ('{"lang":"en","id":"\\u00e9é\\ud83d\\ude00","text":"a"}'.encode(), True),
        (b'{"lang":"\\u0065n","id":"' + b"x" * 65536 + b'","text":"a"}', True),
        (b'{"lang":"en","id":"' + b"x" * 65537 + b'","text":"a"}', False),
        (b'{"lang":"en","id":"' + "é".encode() * 32769 + b'","text":"a"}', False),
    ],
)
def test_ids_and_languages(line, ok):
    assert plain(line, **WITH_ALL) == ok
    data = line + b'\n{"lang":"de","id":"k","text":"b"}\n' + line
    read_alike(data, reading(**WITH_ALL))


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        (b'{"a":{"b":"t","id":1},"meta":{"lang":"en"}}', True),
        (b'{"meta":{"x":{"lang":"de"},"lang":"en"},"a":{"x":{"b":1},"id":"k","b":"t"},"b":"no"}', True),
        (b'{"a":{"b":"t","id":1},"a":{},"meta":{"lang":"en"}}', False),
        (b'{"a":{},"a":{"b":"t","id":1},"meta":{"lang":"en"}}', False),
        (b'{"a":{"b":"t","id":1},"a.b":"exact","meta":{"lang":"en"}}', False),
        (b'{"a":{"b":"t","id":1,"a.b":"deeper"},"meta":{"lang":"en"}}', True),
        (b'{"a":{"b":"t","id":1},"meta":"en"}', False),
        (b'{"a":{"b":{"b":"t"},"id":1},"meta":{"lang":"en"}}', False),
        (b'{"a":[{"b":"t","id":1}],"meta":{"lang":"en"}}', False),
        (b'{"a":null,"meta":{"lang":"en"}}', False),
    ],
)
def test_nested_fields(line, ok):
    assert plain(line, **NESTED) == ok
    read_alike(line, reading(**NESTED))


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "a", "id": "a.b"},
        {"text": "a.b", "id": "a"},
        {"text": "a.b", "id": "a.b"},
        {"text": "a", "id": "a"},
        {"text": "a..b"},
        {"text": "."},
        {"text": "a."},
    ],
)
def test_odd_names(changes):
    lines = [
        b'{"a":{"b":"t"}}',
        b'{"a":"t"}',
        b'{"a":{"":{"b":"t"}}}',
        b'{"":{"":"t"}}',
        b'{"a":{"":"t"}}',
        b'{"a.b":"t","a":"s"}',
    ]
    read_alike(b"\n".join(lines), reading(**changes))


def test_limits_and_forbidden_texts():
    lines = [b'{"text":"%s"}' % (b"x" * size) for size in (9, 10, 11)]
    lines += [b'{"text":"a<|end|>b"}', b'{"text":"a<|end|"}', rb'{"text":"<|\u0065nd|>"}']
    how = reading(max_document_bytes=10, forbidden=("<|end|>", "é"))
    texts, *_, rejects, _ = read_alike(b"\n".join(lines), how)
    assert texts == [b"x" * 9, b"x" * 10, b"a<|end|"]
    assert [reject.reason for reject in rejects] == ["document_too_large", "special_text", "special_text"]
    assert [plain(line, forbidden=how.forbidden) for line in lines] == [True, True, True, False, True, False]


def test_calls_stop_where_a_batch_is_full():
    data = b"".join(b'{"text":"%d"}\n\n' % i for i in range(10))
    reader = kernel.JsonLines("text", "", "", [], 100, 0)
    first = reader.read(data, 0, len(data), 100, 3)
    assert [first.texts.text(i) for i in range(first.texts.num_texts)] == [b"0", b"1", b"2"]
    second = reader.read(data, first.position, len(data), 4, 100)
    assert [second.texts.text(i) for i in range(second.texts.num_texts)] == [b"3", b"4", b"5", b"6"]
    assert second.ids.offsets.tolist() == [0] * 5
    assert not len(second.langs)
    with pytest.raises(ValueError, match="not a range of them"):
        reader.read(data, 5, len(data) + 1, 1, 1)
    with pytest.raises(ValueError, match="not a range of them"):
        reader.read(data, 6, 5, 1, 1)


TEXT = st.text(st.characters(blacklist_categories=["Cs"])) | st.text(st.sampled_from('\n"\\/é中😀\0\u2028a'))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT | VALUE,
        "id": TEXT | st.integers(-3, 3) | VALUE,
        "lang": st.sampled_from(["en", "de", "zh-Hant", "../x"]) | VALUE,
        "meta": st.dictionaries(st.sampled_from(["lang", "x"]), st.just("en") | VALUE),
        "a": st.dictionaries(st.sampled_from(["b", "id", "a.b"]), TEXT | VALUE),
        "a.b": VALUE,
        "other": VALUE,
    },
)


@st.composite
def json_line(draw):
    record = draw(RECORD)
    line = json.dumps(
        record,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([None, (",", ":"), (" ,\t", " : ")])),
        allow_nan=True,
    )
    line = line.encode(errors="surrogatepass")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):  # damage
        at = draw(st.integers(0, len(line)))
        insert = draw(
            st.sampled_from([b"", b'"', b"\\", b"{", b"}", b",", b"\xff", b"\xc3", b"\\u", b"0", b" ", b"\r"])
        )
        line = line[:at] + insert + line[at + draw(st.integers(0, 2)) :]
    return line.replace(b"\n", b" ")


@given(
    st.lists(json_line() | st.sampled_from([b"", b" \t", b"\r", *PLAIN, *WRONG]), max_size=6),
    st.lists(st.integers(0, 1 << 16), max_size=3),
    st.sampled_from([{}, WITH_ALL, NESTED]),
    st.sampled_from(["reject", "replace", "bytes"]),
    st.sampled_from([8, 1 << 20]),
)
@examples(400)
def test_any_lines_are_read_as_without_the_kernel(lines, cuts, fields, policy, limit):
    data = b"\n".join(line.replace(b"\n", b"") for line in lines)
    read_alike(data, reading(**fields, invalid_utf8=policy, max_document_bytes=limit), cuts)


@given(st.binary(max_size=40))
@examples(300)
def test_any_bytes_are_read_as_without_the_kernel(content):
    read_alike(b'{"text":"' + content + b'"}', reading(invalid_utf8="bytes"))
    read_alike(b'{"text":' + content + b"}", reading())


def test_batches_end_where_they_did(monkeypatch):
    from tokcore_pipelines.reading import records

    monkeypatch.setattr(records, "BATCH_BYTES", 40)
    monkeypatch.setattr(records, "BATCH_RECORDS", 7)
    chance = np.random.default_rng(1)
    lines = [b'{"text":"%s"}' % (b"x" * size) for size in chance.integers(0, 30, 200).tolist()]
    for i in range(0, 200, 9):
        lines[i] = LEFT_TO_ORJSON[i % len(LEFT_TO_ORJSON)] if i % 2 else b'{"text":1}'
    assert len(read_alike(b"\n".join(lines), reading())[-1]) > 50
