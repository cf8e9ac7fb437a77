"""The JSON Schema of the build file, with which editors complete and check it. `make schema` writes it again."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tokcore_schemas.build_tables import (
    ATTRIBUTES,
    CODE,
    CODE_TOKENS,
    MAX_RESERVED,
    RESERVED,
    TABLES,
    VERSION,
    AttributesTable,
    list_parameters,
)
from tokcore_schemas.setting import MAX_INTEGER, Setting, find_inner_table, list_settings

RESERVED_TEXT = "that many more special tokens, <|reserved_special_token_0|> and so on, which no text becomes"
CODE_TEXT = f"true adds {', '.join(CODE_TOKENS)}, where they are not declared"


def make_json_schema() -> dict[str, Any]:
    """The schema: every table, key, type, limit and default that the classes of tokcore_schemas.build_tables
    declare.
    """
    tables = {name: _describe_table(cls) for name, (_, cls) in TABLES.items()}
    tables["source"]["oneOf"] = [{"required": ["lang"]}, {"required": ["lang_field"]}]
    tables["source"] = {"type": "array", "items": tables["source"], "minItems": 1}
    tables["filter"]["properties"] |= {name: _describe_setting(one) for name, one in list_parameters().items()}
    tables["filter"]["oneOf"] = [{"required": [name]} for name in ("keep", "rule", "ngram_overlap")]
    tables |= {name: {"type": "array", "items": tables[name]} for name in ("map", "filter")}
    either_type = {"anyOf": [tables["metadata"]["properties"]["type"], tables["metadata"]]}
    attributes = _describe_table(AttributesTable)
    either_attributes = {"anyOf": [*either_type["anyOf"], attributes["properties"]["files"], attributes]}
    tables["metadata"] = {
        "type": "object",
        "properties": {ATTRIBUTES: either_attributes},
        "additionalProperties": either_type,
    }
    role = tables["special"]["properties"]["role"]
    reserved = {"type": "integer", "minimum": 0, "maximum": MAX_RESERVED, "description": RESERVED_TEXT}
    either = {"anyOf": [role, tables["special"]]}
    for_code = {"type": "boolean", "description": CODE_TEXT}
    own = {name: {"anyOf": [about, *either["anyOf"]]} for name, about in {RESERVED: reserved, CODE: for_code}.items()}
    tables["special"] = {"type": "object", "properties": own, "additionalProperties": either}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tokcore build file",
        "type": "object",
        "properties": {"version": {"const": VERSION}, **tables},
        "required": ["version", "build", "source"],
        "additionalProperties": False,
    }


def write_json_schema() -> str:
    """The content of build.schema.json."""
    return json.dumps(make_json_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _describe_table(cls: type) -> dict[str, Any]:
    settings = list_settings(cls)
    return {
        "type": "object",
        "properties": {name: _describe_setting(setting) for name, setting in settings.items()},
        "required": [name for name, setting in settings.items() if setting.required],
        "additionalProperties": False,
    }


def _describe_setting(setting: Setting) -> dict[str, Any]:
    schema = {**_describe_type(setting), "description": setting.text}
    if not setting.required and setting.default is not None:
        schema["default"] = _to_json(setting.default)
    return schema


def _describe_type(setting: Setting) -> dict[str, Any]:
    kind, limits = setting.kind, setting.limits
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _describe_table(kind)
    if typing.get_origin(kind) is tuple:
        one = _describe_string(setting) if typing.get_args(kind)[0] is not int else _describe_item(setting)
        many: dict[str, Any] = {"type": "array", "items": one}
        many |= {"minItems": limits.least} if limits.least is not None else {}
        many |= {"uniqueItems": True} if limits.distinct else {}
        return {"anyOf": [one, many]} if limits.or_one else many
    if kind is bool:
        return {"type": "boolean"}
    if kind is object:
        return {"type": ["string", "number", "boolean"]}
    if kind is int:
        return {"type": "integer", "maximum": MAX_INTEGER, **_describe_limits(setting)}
    if kind is Decimal:
        return {"type": "number", **_describe_limits(setting)}
    if kind is str or setting.options:
        return _describe_string(setting)
    if kind == Mapping[str, tuple[Decimal, ...]]:
        return {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}
    if kind == Mapping[str, tuple[str, ...]]:
        return {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}, "minItems": 1}}
    if (inside := find_inner_table(kind)) is not None:
        return {"type": "object", "additionalProperties": _describe_table(inside)}
    if kind == Mapping[str, str]:
        return {"type": "object", "additionalProperties": _describe_string(setting)}
    if limits.keys and kind == Mapping[str, Decimal]:
        numbers = {name: {"type": "number", **_describe_limits(setting)} for name in limits.keys}
        return {"type": "object", "properties": numbers, "additionalProperties": False}
    if limits.keys:
        named = {name: {"type": ["string", "boolean"]} for name in limits.keys}
        return {"type": "object", "properties": named, "additionalProperties": False}
    return {"type": "object", "additionalProperties": {"type": "number", **_describe_limits(setting)}}


def _describe_item(setting: Setting) -> dict[str, Any]:
    """A number of a list, of which limits.least limits the length."""
    limits = {name: value for name, value in _describe_limits(setting).items() if name != "minimum"}
    return {"type": "integer", "maximum": MAX_INTEGER, **limits}


def _describe_string(setting: Setting) -> dict[str, Any]:
    if setting.options:
        return {"enum": list(setting.options)}
    return {"type": "string"} if setting.limits.may_be_empty else {"type": "string", "minLength": 1}


def _describe_limits(setting: Setting) -> dict[str, Any]:
    limits = setting.limits
    named = {
        "minimum": limits.least,
        "maximum": limits.most,
        "exclusiveMinimum": limits.above,
        "exclusiveMaximum": limits.below,
    }
    return {name: _to_json(value) for name, value in named.items() if value is not None}


def _to_json(value: Any) -> Any:
    """The value as JSON has it. Floats are good enough here: they only inform."""
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, dict) else value


if __name__ == "__main__":
    print(write_json_schema(), end="")
