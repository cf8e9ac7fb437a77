"""The expressions of `keep`: SQLite, whose expressions are spelled nearly alike, is the oracle."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore_schemas.expressions import parse_expression

FIELDS = {"n": "number", "m": "number", "s": "string", "t": "string", "b": "boolean"}
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 2.0, 1e300])
TEXTS = st.text("ab'\"é", max_size=3)


def spell(value, quote):
    if isinstance(value, str):
        return quote + value.replace(quote, quote * 2) + quote
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


@st.composite
def comparisons(draw):
    """(as build files have it, as SQL has it)."""
    name = draw(st.sampled_from([*FIELDS]))
    kind = FIELDS[name]
    if draw(st.integers(0, 5)) == 0:
        wanted = draw(st.sampled_from(["is null", "is not null"]))
        return f"{name} {wanted}", f"{name} {wanted}"
    if kind == "boolean":
        if draw(st.booleans()):
            return name, name
        other = draw(st.booleans())
        sign = draw(st.sampled_from(["==", "!="]))
        return f"{name} {sign} {spell(other, chr(39))}", f"{name} {sign} {int(other)}"
    values = NUMBERS if kind == "number" else TEXTS
    quote = draw(st.sampled_from("'\""))
    if draw(st.integers(0, 3)) == 0:
        among = draw(st.lists(values, min_size=1, max_size=3))
        sign = draw(st.sampled_from(["in", "not in"]))
        own, sql = (", ".join(spell(one, mark) for one in among) for mark in (quote, "'"))
        return f"{name} {sign} [{own}]", f"{name} {sign} ({sql})"
    if kind == "string" and draw(st.booleans()):
        value = draw(TEXTS.filter(bool))
        return f"{name} contains {spell(value, quote)}", f"instr({name}, {spell(value, chr(39))}) > 0"
    sign = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
    if draw(st.booleans()):
        value = draw(values)
        own, sql = (f"{name} {sign} {spell(value, mark)}" for mark in (quote, "'"))
        return own, sql
    other = {"n": "m", "m": "n", "s": "t", "t": "s"}[name]
    # Of two fields alone nothing would tell the type.
    hint = "0 == n" if kind == "number" else "'' == s"
    return f"({hint} or {name} {sign} {other})", f"({hint} or {name} {sign} {other})"


def join(children):
    two = st.tuples(children, st.sampled_from([" and ", " or "]), children)
    return two.map(lambda one: tuple(f"({a}{one[1]}{b})" for a, b in zip(one[0], one[2], strict=True))) | children.map(
        lambda one: tuple(f"not ({spelled})" for spelled in one)
    )


ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | NUMBERS,
        "m": st.none() | NUMBERS,
        "s": st.none() | TEXTS,
        "t": st.none() | TEXTS,
        "b": st.none() | st.booleans(),
    }
)


@pytest.fixture(scope="module")
def database():
    with sqlite3.connect(":memory:") as made:
        made.execute("create table rows (n, m, s text, t text, b)")
        yield made


@given(st.recursive(comparisons(), join, max_leaves=6), st.lists(ROWS, min_size=1, max_size=6))
def test_expressions_are_as_in_sql(database, spelled, rows):
    own, sql = spelled
    expression = parse_expression(own)
    assert {name: kind for name, kind in expression.fields.items() if kind != "any"}.items() <= FIELDS.items()
    database.execute("delete from rows")
    database.executemany("insert into rows values (:n, :m, :s, :t, :b)", rows)
    expected = [None if one is None else bool(one) for (one,) in database.execute(f"select ({sql}) from rows")]
    assert [expression.test([row[name] for name in expression.fields]) for row in rows] == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at the end: expected a field or a value"),
        ("a = 3", "and = is written =="),
        ("a == 3 and a == 'x'", "a, which is a number elsewhere, is compared as a string"),
        ("a and a > 2", "a, which is a boolean elsewhere, is compared as a number"),
        ("a == b", "nothing says what type a and b are"),
        ("1 < 2", "compares two values"),
        ("a in [1, 'x']", "a string is compared as a number"),
        ("a in [b]", "FIELD in"),
        ("a in [1, 2", "at the end: expected ]"),
        ("(a", "at the end: expected )"),
        ("a b", "expected and, or, or the end"),
        ("true < a", "does not compare true and false"),
        ("3 is null", "asks for a field"),
        ("__import__('os')", "expected and, or, or the end"),
        ("a > 1; b", "expected a field, a value or an operator"),
        ("not " * 200 + "a", "nested too deeply"),
        ("'open", "expected a field, a value or an operator"),
    ],
)
def test_a_wrong_expression_says_where(text, said):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it says is compared
        parse_expression(text)
    assert said in str(refused.value)


def test_names_in_backticks_and_paths():
    expression = parse_expression("`page type` != 'x' and data.score >= .5 and `in` is null")
    assert expression.fields == {"data.score": "number", "in": "any", "page type": "string"}
    assert expression.test([0.5, None, "y"]) is True
    assert expression.test([0.5, True, "y"]) is False
