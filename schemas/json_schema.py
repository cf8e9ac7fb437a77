"""The JSON Schema of the build file, with which editors complete and check it. `make schema` writes it again."""

from __future__ import annotations

import json
import typing
from decimal import Decimal
from typing import Any

from schemas.build_tables import TABLES, VERSION
from schemas.setting import MAX_INTEGER, Setting, settings_in


def json_schema() -> dict[str, Any]:
    """The schema: every table, key, type, limit and default that the classes of schemas.build_tables declare."""
    tables = {name: _table(cls) for name, (_, cls) in TABLES.items()}
    tables["source"]["oneOf"] = [{"required": ["lang"]}, {"required": ["lang_field"]}]
    tables["source"] = {"type": "array", "items": tables["source"], "minItems": 1}
    role = tables["special"]["properties"]["role"]
    tables["special"] = {"type": "object", "additionalProperties": {"anyOf": [role, tables["special"]]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tokcore build file",
        "type": "object",
        "properties": {"version": {"const": VERSION}, **tables},
        "required": ["version", "build", "source"],
        "additionalProperties": False,
    }


def schema_text() -> str:
    """The content of build.schema.json."""
    return json.dumps(json_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _table(cls: type) -> dict[str, Any]:
    settings = settings_in(cls)
    return {
        "type": "object",
        "properties": {name: _setting(setting) for name, setting in settings.items()},
        "required": [name for name, setting in settings.items() if setting.required],
        "additionalProperties": False,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    schema = {**_type(setting), "description": setting.text}
    if not setting.required and setting.default is not None:
        schema["default"] = _json(setting.default)
    return schema


def _type(setting: Setting) -> dict[str, Any]:
    kind, limits = setting.kind, setting.limits
    if typing.get_origin(kind) is tuple:
        many: dict[str, Any] = {"type": "array", "items": _string(setting)}
        many |= {"minItems": limits.least} if limits.least is not None else {}
        many |= {"uniqueItems": True} if limits.distinct else {}
        return {"anyOf": [_string(setting), many]} if limits.or_one else many
    if kind is bool:
        return {"type": "boolean"}
    if kind is int:
        return {"type": "integer", "maximum": MAX_INTEGER, **_limits(setting)}
    if kind is Decimal:
        return {"type": "number", **_limits(setting)}
    if kind is str or setting.options:
        return _string(setting)
    return {"type": "object", "additionalProperties": {"type": "number", **_limits(setting)}}


def _string(setting: Setting) -> dict[str, Any]:
    if setting.options:
        return {"enum": list(setting.options)}
    return {"type": "string"} if setting.limits.may_be_empty else {"type": "string", "minLength": 1}


def _limits(setting: Setting) -> dict[str, Any]:
    limits = setting.limits
    named = {
        "minimum": limits.least,
        "maximum": limits.most,
        "exclusiveMinimum": limits.above,
        "exclusiveMaximum": limits.below,
    }
    return {name: _json(value) for name, value in named.items() if value is not None}


def _json(value: Any) -> Any:
    """The value as JSON has it. Floats are good enough here: they only inform."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, dict) else value


if __name__ == "__main__":
    print(schema_text(), end="")
