"""Tools of the Gemini wire: functions in entries, beside those that Google runs; and its flavour of JSON Schema, read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.tools import ToolSpec
from segue.dialects.gemini.rules import NAME
from segue.dialects.gemini.wire import camel, field
from segue.dialects.own_fields import FieldKinds, own
from segue.dialects.request_fields import items, record, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENTRIES = FieldKinds(NAME, form=frozenset({"function_declarations"}))
_KINDS = FieldKinds(NAME, form=frozenset({"parameters", "parameters_json_schema", "behavior"}))


def _given_entries(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = body.get("tools") or []
    listed = [tools] if isinstance(tools, dict) else items(tools, "tools")
    return [record(tool, f"tools[{index}]") for index, tool in enumerate(listed)]


def decode_tools(body: Mapping[str, Any]) -> Iterator[ToolSpec]:
    for index, entry in enumerate(_given_entries(body)):
        declared = field(entry, "functionDeclarations")
        path = f"tools[{index}].functionDeclarations"
        if not declared:
            yield ToolSpec(next(iter(entry), ""), kind="server", extra=Extra(NAME, fields=entry))
            continue
        around = _ENTRIES.kept(entry, {"functionDeclarations": declared})
        for place, given in enumerate([declared] if isinstance(declared, dict) else items(declared, path)):
            tool = record(given, f"{path}[{place}]")
            yield _decode_tool(tool, f"{path}[{place}]", around if place == 0 else None)


def _decode_tool(tool: dict[str, Any], path: str, around: Extra | None) -> ToolSpec:
    schema = field(tool, "parametersJsonSchema")
    if schema is None and tool.get("parameters") is not None:
        schema = json_schema(record(tool["parameters"], f"{path}.parameters"))
    spec = ToolSpec(
        text(tool.get("name"), f"{path}.name"),
        text(tool.get("description"), f"{path}.description"),
        record(schema, f"{path}.parametersJsonSchema") if schema is not None else None,
    )
    return structs.replace(spec, extra=_KINDS.kept(tool, plain_declaration(spec, spec.name), around))


def plain_declaration(tool: ToolSpec, name: str) -> dict[str, Any]:
    """A function with what every tool has, and nothing else."""
    return {"name": name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def tool_entries(tools: list[tuple[ToolSpec, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Functions in the entries that they came in. Only the first entry is sure to be read: others all go into one."""
    entries: list[dict[str, Any]] = []
    declarations: list[dict[str, Any]] | None = None
    for tool, declaration in tools:
        extra = own(tool.extra, NAME)
        if tool.kind == "server" and extra is not None:
            entries.append(extra.fields)
            continue
        around = extra.container if extra is not None else None
        if declarations is None or around is not None:
            declarations = []
            entry = {"functionDeclarations": declarations}
            entries.append(entry if around is None else _filled(around.written(entry), declarations))
        declarations.append(declaration)
    return entries


def _filled(entry: dict[str, Any], declarations: list[dict[str, Any]]) -> dict[str, Any]:
    """The entry with the declarations under the name that it has for them."""
    return {
        name: declarations if camel(name) == "functionDeclarations" else held for name, held in entry.items()
    }


_TYPES = dict(enumerate(("string", "number", "integer", "boolean", "array", "object", "null"), start=1))
"""Types by the number that clients with generated code send."""


def json_schema(schema: Any, depth: int = 0) -> dict[str, Any]:
    """Gemini's own flavour in plain JSON Schema: types in lower case, and `nullable` as a type."""
    if not isinstance(schema, dict) or depth > 50:
        return {}
    written: dict[str, Any] = {}
    for key, value in schema.items():
        name = camel(key)
        if name == "type":
            written["type"] = _TYPES.get(value, value) if isinstance(value, int) else str(value).lower()
        elif name == "properties" and isinstance(value, dict):
            written["properties"] = {held: json_schema(inner, depth + 1) for held, inner in value.items()}
        elif name == "items":
            written["items"] = json_schema(value, depth + 1)
        elif name == "anyOf" and isinstance(value, list):
            written["anyOf"] = [json_schema(inner, depth + 1) for inner in value]
        elif name not in ("nullable", "propertyOrdering"):
            written[key if key.startswith("$") else name] = value
    if schema.get("nullable") is True and "type" in written:
        written["type"] = [written["type"], "null"]
    return written
