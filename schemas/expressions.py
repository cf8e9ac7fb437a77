"""The expressions of `keep = "..."`: comparisons of fields with values, joined by and, or, not.

    quality >= 0.7 and license in ['cc0', 'mit'] and not (`page type` == 'spam' or url contains '/tag/')

Operators: == != < <= > >=, in [...], not in [...], contains (of texts), is null, is not null. Values: numbers, 'text'
or "text" (a quote of it written twice), true, false. A field of any other name than letters, digits, _ and dots stands
in backticks; a dot leads into an object, as in paths. A field alone is true or false.

The type of a field follows from what it is compared with, and is the same everywhere in an expression. As in SQL, a
comparison with a field that a record lacks is neither true nor false, nor is what follows from it; `is null` asks for
that. Numbers are compared exactly, texts by their code points.

Nothing is evaluated as code: an expression becomes functions that compare.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tokcore_schemas.plan import FieldKind

Row = Sequence[Any]  # a value for each field of Expression.fields
_Test = Callable[[Row], bool | None]

_MOST_DEPTH = 100

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>-?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
  | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
  | (?P<quoted>`[^`]+`)
  | (?P<bare>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)
  | (?P<sign>==|!=|<=|>=|=|<|>|\(|\)|\[|\]|,)
  )""",
    re.VERBOSE,
)
_WORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false", "contains"})
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
}


class _Token(NamedTuple):
    kind: Literal["number", "text", "field", "bare", "sign", "end"]
    value: Any
    at: int  # of its first character


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression.

    fields: field -> its type, in the order of their names.

    >>> one = parse_expression("quality >= 0.7 and license in ['cc0', 'mit']")
    >>> one.fields
    {'license': 'string', 'quality': 'number'}
    >>> one.test(("mit", 0.9)), one.test(("mit", 0.1)), one.test((None, 0.9))
    (True, False, None)
    """

    fields: Mapping[str, FieldKind]
    test: _Test  # from the values of the fields to true, false or neither


def parse_expression(text: str) -> Expression:
    """The expression with this text. Raises ValueError, which says what is wrong and where."""
    return _Parser(text).parse()


class _Operand(NamedTuple):
    """A value or a field."""

    value: Any
    field: str = ""
    kind: FieldKind | Literal[""] = ""  # of a value
    at: int = 0


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._at = 0
        self._depth = 0
        self._kinds: dict[str, FieldKind] = {}
        self._named: set[str] = set()
        self._place: dict[str, int] = {}  # of a field among the values

    def parse(self) -> Expression:
        test = self._either()
        if self._next.kind != "end":
            raise self._error("expected and, or, or the end")
        fields: dict[str, FieldKind] = {name: self._kinds.get(name, "any") for name in sorted(self._named)}
        if not fields:
            raise ValueError("it names no field, so all documents would fare alike")
        self._place.update((name, place) for place, name in enumerate(fields))
        return Expression(fields, test)

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while self._text[at:].strip():
            found = _TOKEN.match(self._text, at)
            if found is None:
                start = len(self._text) - len(self._text[at:].lstrip())
                raise ValueError(f"at {self._text[start : start + 20]!r}: expected a field, a value or an operator")
            kind, value = str(found.lastgroup), found[str(found.lastgroup)]
            at, start = found.end(), found.start(str(found.lastgroup))
            if kind == "number":
                plain = value.replace("_", "")
                tokens.append(_Token("number", int(plain) if re.fullmatch("-?[0-9]+", plain) else float(plain), start))
            elif kind == "text":
                tokens.append(_Token("text", value[1:-1].replace(value[0] * 2, value[0]), start))
            elif kind == "quoted" or (kind == "bare" and value not in _WORDS):
                tokens.append(_Token("field", value.strip("`"), start))
            else:
                tokens.append(_Token("bare" if kind == "bare" else "sign", value, start))
        return [*tokens, _Token("end", "the end", len(self._text))]

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *values: str) -> str:
        """The next token, if it is one of these words or signs; else ""."""
        if self._next.kind in ("bare", "sign") and self._next.value in values:
            self._at += 1
            return str(self._tokens[self._at - 1].value)
        return ""

    def _require(self, value: str) -> None:
        if not self._take(value):
            raise self._error(f"expected {value}")

    def _error(self, expected: str, at: int | None = None) -> ValueError:
        start = self._next.at if at is None else at
        found = repr(self._text[start : start + 20]) if start < len(self._text) else "the end"
        hint = ", and = is written ==" if self._text[start : start + 1] == "=" else ""
        return ValueError(f"at {found}: {expected}{hint}")

    def _either(self) -> _Test:
        tests = [self._both()]
        while self._take("or"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else _make_any(tests)

    def _both(self) -> _Test:
        tests = [self._one()]
        while self._take("and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else _make_all(tests)

    def _one(self) -> _Test:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise self._error("nested too deeply")
        try:
            if self._take("not"):
                return _make_not(self._one())
            if self._take("("):
                test = self._either()
                self._require(")")
                return test
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Test:
        left = self._operand()
        if self._take("is"):
            wanted = bool(self._take("not"))
            self._require("null")
            return self._is_there(left, wanted)
        is_not = bool(self._take("not"))
        if is_not or self._next.value == "in":
            self._require("in")
            return self._member(left, is_not)
        sign = self._take(*_COMPARE)
        if not sign:
            if not left.field:
                raise self._error("expected a comparison")
            self._settle(left, "boolean")
            return self._getter(left)
        right = self._operand()
        if not left.field and not right.field:
            raise self._error("compares two values, and no field", left.at)
        kind = left.kind or right.kind or self._kind_of(left) or self._kind_of(right)
        if sign == "contains":
            kind = "string"
        elif not kind:
            raise self._error(f"nothing says what type {left.field} and {right.field} are", left.at)
        if kind == "boolean" and sign not in ("==", "!="):
            raise self._error(f"{sign} does not compare true and false", left.at)
        for one in (left, right):
            self._settle(one, kind)
        return _make_comparison(_COMPARE[sign], self._getter(left), self._getter(right))

    def _member(self, left: _Operand, is_not: bool) -> _Test:
        self._require("[")
        values = [self._operand()]
        while self._take(","):
            values.append(self._operand())
        self._require("]")
        if not left.field or any(one.field for one in values):
            raise self._error("in is written FIELD in [VALUE, ...]", left.at)
        for one in values:
            self._settle(one, values[0].kind or "string")
        self._settle(left, values[0].kind or "string")
        get, among = self._getter(left), frozenset(one.value for one in values)
        return lambda row: None if (value := get(row)) is None else (value in among) != is_not

    def _is_there(self, left: _Operand, wanted: bool) -> _Test:
        if not left.field:
            raise self._error("is null asks for a field", left.at)
        get = self._getter(left)
        return lambda row: (get(row) is not None) == wanted

    def _operand(self) -> _Operand:
        token = self._next
        kinds: Mapping[str, FieldKind] = {"number": "number", "text": "string"}
        if token.kind in kinds:
            self._at += 1
            return _Operand(token.value, kind=kinds[token.kind], at=token.at)
        if word := self._take("true", "false"):
            return _Operand(word == "true", kind="boolean", at=token.at)
        if token.kind != "field":
            raise self._error("expected a field or a value")
        self._at += 1
        self._named.add(token.value)
        return _Operand(None, token.value, at=token.at)

    def _kind_of(self, one: _Operand) -> FieldKind | Literal[""]:
        return self._kinds.get(one.field, "") if one.field else one.kind

    def _settle(self, one: _Operand, kind: FieldKind) -> None:
        """Raise ValueError if the operand is of another type; if it is not known yet, it is from here on."""
        known = self._kind_of(one)
        if known and known != kind:
            what = f"{one.field}, which is a {known} elsewhere," if one.field else f"a {known}"
            raise self._error(f"{what} is compared as a {kind}", one.at)
        if one.field:
            self._kinds[one.field] = kind

    def _getter(self, one: _Operand) -> Callable[[Row], Any]:
        if not one.field:
            return lambda _: one.value
        places, field = self._place, one.field
        return lambda row: row[places[field]]


def _make_comparison(compare: Callable[[Any, Any], bool], left: _Test, right: _Test) -> _Test:
    def test(row: Row) -> bool | None:
        one, other = left(row), right(row)
        return None if one is None or other is None else compare(one, other)

    return test


def _make_any(tests: Sequence[_Test]) -> _Test:
    def test(row: Row) -> bool | None:
        found: bool | None = False
        for one in tests:
            if told := one(row):
                return True
            found = None if told is None else found
        return found

    return test


def _make_all(tests: Sequence[_Test]) -> _Test:
    def test(row: Row) -> bool | None:
        found: bool | None = True
        for one in tests:
            told = one(row)
            if told is False:
                return False
            found = None if told is None else found
        return found

    return test


def _make_not(test: _Test) -> _Test:
    return lambda row: None if (told := test(row)) is None else not told
