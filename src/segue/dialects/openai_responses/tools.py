"""Tools of the Responses wire, both ways: functions, custom tools, namespaces of them, and those the provider runs.

A tool in a namespace is a tool like any other, under both names joined; a custom tool is a function of one text. So every
wire can be offered them, and `kind`, `namespace` and `local_name` lead back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable
from segue.conversation.tools import CUSTOM_INPUT, ToolSpec, joined_name
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.requests.extra_fields import FieldKinds
from segue.dialects.requests.json_fields import listed, record, text

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = FieldKinds(NAME, hints=frozenset({"defer_loading", "allowed_callers"}))
_INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {CUSTOM_INPUT: {"type": "string"}},
    "required": [CUSTOM_INPUT],
    "additionalProperties": False,
}


def decode_tools(value: Any) -> Iterator[ToolSpec]:
    for index, given in enumerate(listed(value, "tools")):
        path = f"tools[{index}]"
        tool = record(given, path)
        kind = tool.get("type", "function")
        if kind == "namespace":
            yield from _decode_namespace(tool, path)
        elif kind == "function":
            yield _decode_function(tool, path)
        elif kind == "custom":
            yield _decode_custom(tool, path)
        else:
            yield _decode_server(tool)


ADDITIONAL = "additional_tools"
"""An item that introduces tools in the middle."""


def is_additional(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == ADDITIONAL


def decode_all_tools(value: Any, items: list[Any]) -> Iterator[ToolSpec]:
    """The tools of a request, and those that its items introduce: to every other wire they are tools like any other. Of two with
    one name the later one is meant."""
    specs = {spec.name: spec for spec in decode_tools(value)}
    for item in filter(is_additional, items):
        for spec in decode_tools(item.get("tools")):
            specs.pop(spec.name, None)
            specs[spec.name] = _introduced(spec)
    yield from specs.values()


def _introduced(spec: ToolSpec) -> ToolSpec:
    extra = spec.extra or Extra(NAME)
    around = extra.container or Extra(NAME)
    marked = structs.replace(around, absent=(*around.absent, ADDITIONAL))
    return structs.replace(spec, extra=structs.replace(extra, container=marked))


def is_introduced(spec: ToolSpec) -> bool:
    """Whether a tool came in an item, and goes back with it."""
    around = spec.extra.container if spec.extra is not None and spec.extra.dialect == NAME else None
    return around is not None and ADDITIONAL in around.absent


def _decode_namespace(tool: dict[str, Any], path: str) -> Iterator[ToolSpec]:
    namespace = text(tool.get("name"), f"{path}.name")
    around = _KINDS.kept(tool, {"type": "namespace", "name": namespace, "tools": tool.get("tools")})
    for index, given in enumerate(listed(tool.get("tools"), f"{path}.tools")):
        place = f"{path}.tools[{index}]"
        held = record(given, place)
        decode = _decode_custom if held.get("type") == "custom" else _decode_function
        spec = decode(held, place, around if index == 0 else None)
        joined = joined_name(namespace, spec.name) if namespace else spec.name
        local = spec.name if namespace else ""
        yield structs.replace(spec, name=joined, namespace=namespace, local_name=local)


def _decode_function(tool: dict[str, Any], path: str, around: Extra | None = None) -> ToolSpec:
    held = tool.get("function")
    nested = held if isinstance(held, dict) else tool  # as on the Chat wire: taken, though not sent back so
    schema, strict = nested.get("parameters"), nested.get("strict")
    spec = ToolSpec(
        text(nested.get("name"), f"{path}.name"),
        text(nested.get("description"), f"{path}.description"),
        record(schema, f"{path}.parameters") if schema is not None else None,
        strict if isinstance(strict, bool) else None,
    )
    extra = _KINDS.kept(nested, plain_function(spec, spec.name), around) if nested is tool else None
    return structs.replace(spec, extra=extra)


def plain_function(spec: ToolSpec, name: str) -> dict[str, Any]:
    """A function with what every tool has, and nothing else."""
    return {
        "type": "function",
        "name": name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": spec.strict,
    }


def _decode_custom(tool: dict[str, Any], path: str, around: Extra | None = None) -> ToolSpec:
    """A tool that takes a free text; to others it is a function of one text, and its grammar a part of the description."""
    grammar = tool.get("format")
    name = text(tool.get("name"), f"{path}.name")
    described = text(tool.get("description"), f"{path}.description")
    if isinstance(grammar, dict) and grammar.get("definition"):
        described = f"{described}\nThe input follows this grammar:\n{grammar['definition']}"
    written = {"type": "custom", "name": name, "description": described, "format": grammar}
    kept = _KINDS.kept(tool, written, around)
    # The grammar is in the description for all others, so only its form is this wire's own.
    form = {**kept.form, **({"format": grammar} if "format" in tool else {})}
    extra = structs.replace(kept, form=form)
    return ToolSpec(name, described, _INPUT_SCHEMA, kind="custom", extra=extra)


def _decode_server(tool: dict[str, Any]) -> ToolSpec:
    """A tool that the provider runs, or that has a protocol of its own: only this wire can offer it."""
    name = tool.get("name") or tool.get("server_label") or tool.get("type")
    return ToolSpec(
        str(name), str(tool.get("description") or ""), kind="server", extra=Extra(NAME, fields=tool)
    )


# The other way


def encode_custom(spec: ToolSpec, name: str, extra: Extra | None) -> dict[str, Any]:
    encoded: dict[str, Any] = {"type": "custom", "name": name}
    if spec.description:
        encoded["description"] = encodable(spec.description)
    return extra.written(encoded) if extra is not None else encoded


def in_namespaces(encoded: list[tuple[ToolSpec, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The tools as they are listed: those of one namespace inside it, at the place of the first."""
    listed_tools: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    for spec, tool in encoded:
        if not spec.namespace:
            listed_tools.append(tool)
            continue
        around = spec.extra.container if spec.extra is not None and spec.extra.dialect == NAME else None
        group = groups.get(spec.namespace)
        if group is None or around is not None:
            group = groups[spec.namespace] = []
            namespace: dict[str, Any] = {"type": "namespace", "name": spec.namespace, "tools": group}
            listed_tools.append(around.written(namespace) if around is not None else namespace)
        group.append(tool)
    return listed_tools
