"""Tools as each provider's request offers them: a name, a description and a JSON schema, in four shapes.

Decides the shape and the dialect of schema that goes with it. What tools there are and what they do is their owner's affair.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from infold.formats.items import Item
from infold.formats.wire import GEMINI, format_named


class Spec(Protocol):
    """A tool to be offered; `parameters` is a JSON schema of an object, without references."""

    @property
    def name(self) -> str:
        """What a call names."""
        ...

    @property
    def description(self) -> str:
        """What the model is told of it."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """The schema of its arguments."""
        ...


def tool_items(format_name: str, specs: Iterable[Spec]) -> list[Item]:
    """The `tools` of a request in that format; empty for no tools. Raises `UnknownFormat` for a name that is none."""
    items = [tool_item(format_name, spec) for spec in specs]
    return [{"functionDeclarations": items}] if items and format_named(format_name) is GEMINI else items


def tool_item(format_name: str, spec: Spec) -> Item:
    """One tool: an entry of a request's `tools`, or of Gemini's `functionDeclarations`.

    Made anew at each call, so that a caller may change it. Raises `UnknownFormat` for a name that is none.
    """
    return _SHAPES[format_named(format_name).name](spec)


def _chat(spec: Spec) -> Item:
    return {"type": "function", "function": {**_named(spec), "parameters": _copied(spec.parameters)}}


def _responses(spec: Spec) -> Item:
    """Strict where the schema allows it: left out, the provider would try to make it so by itself."""
    strict = _is_closed(spec.parameters)
    return {"type": "function", **_named(spec), "parameters": _copied(spec.parameters), "strict": strict}


def _anthropic(spec: Spec) -> Item:
    return {**_named(spec), "input_schema": _copied(spec.parameters)}


def _gemini(spec: Spec) -> Item:
    return {**_named(spec), "parameters": _in_dialect(spec.parameters)}


_SHAPES: dict[str, Callable[[Spec], Item]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "gemini": _gemini,
}


def _named(spec: Spec) -> Item:
    return {"name": spec.name, "description": spec.description}


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list | tuple) else value


# Strict schemas: every object closed, every property required, and only words that strictness knows.

_STRICT = frozenset({"type", "description", "properties", "required", "additionalProperties", "items", "enum", "anyOf"})


def _is_closed(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _STRICT:
        return False
    properties = schema.get("properties") or {}
    is_object = "properties" in schema or schema.get("type") == "object"
    if is_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != {*properties}
    ):
        return False
    inner = [*properties.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return all(map(_is_closed, inner))


# Gemini's dialect: a subset of OpenAPI's schemas, without `additionalProperties`, in which nothing is a type.

_DIALECT = frozenset(
    {
        *("type", "description", "properties", "required", "items", "enum", "anyOf", "nullable", "default"),
        *("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "propertyOrdering"),
    }
)


def _in_dialect(schema: Mapping[str, Any]) -> Item:
    kept = {key: _copied(value) for key, value in schema.items() if key in _DIALECT}
    if "properties" in kept:
        kept["properties"] = {name: _in_dialect(inner) for name, inner in schema["properties"].items()}
    if isinstance(kept.get("items"), dict):
        kept["items"] = _in_dialect(schema["items"])
    kinds = schema.get("type")
    if isinstance(kinds, list | tuple):
        kept = {key: value for key, value in kept.items() if key != "type"} | _one_of(
            [{"type": kind} for kind in kinds]
        )
    if "anyOf" in kept:
        kept |= _one_of(kept.pop("anyOf"))
    return kept | ({"enum": [schema["const"]]} if isinstance(schema.get("const"), str) else {})


def _one_of(schemas: Iterable[Mapping[str, Any]]) -> Item:
    """A choice; nothing among it makes what is left nullable, and a choice of one is that one."""
    given = [*schemas]
    real = [_in_dialect(schema) for schema in given if schema.get("type") != "null"]
    nullable: Item = {"nullable": True} if len(real) < len(given) else {}
    return {**(real[0] if len(real) == 1 else {"anyOf": real}), **nullable}
