"""Tools on the wires that offer functions as Chat Completions does: one object inside another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.tools import ToolSpec
from segue.dialects.requests.extra_fields import FieldKinds
from segue.dialects.requests.json_fields import flag, listed, record, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HINTS = frozenset({"cache_control", "defer_loading"})


def read_tool(given: Any, path: str, dialect: str, *, typed: bool = False) -> ToolSpec:
    """A function; all else is the provider's own. `typed`: a tool must have its type (CHAT-00)."""
    tool = record(given, path)
    kind = tool.get("type", "function")
    if kind != "function":
        return ToolSpec(str(tool.get("name") or kind), kind="server", extra=Extra(dialect, fields=tool))
    if "function" not in tool and "name" in tool:
        return function_tool(tool, path)
    spec = function_tool(tool.get("function"), f"{path}.function")
    kinds = FieldKinds(dialect, hints=_HINTS)
    came = {"type": "function", **tool} if typed else tool
    around = kinds.found(came, {"type": "function", "function": tool["function"]})
    return structs.replace(spec, extra=kinds.kept(tool["function"], plain_function(spec, spec.name), around))


def function_tool(value: Any, path: str) -> ToolSpec:
    """A function that is offered as a tool."""
    function = record(value, path)
    schema = function.get("parameters")
    return ToolSpec(
        text(function.get("name"), f"{path}.name"),
        text(function.get("description"), f"{path}.description"),
        record(schema, f"{path}.parameters") if schema is not None else None,
        flag(function.get("strict"), f"{path}.strict"),
    )


def plain_function(spec: ToolSpec, name: str) -> dict[str, Any]:
    """A function with what every tool has, and nothing else."""
    return {
        "name": name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": spec.strict,
    }


def own_function(spec: ToolSpec, name: str, extra: Extra) -> dict[str, Any]:
    """A function as it came."""
    offered = {"type": "function", "function": extra.written(plain_function(spec, name))}
    return offered if extra.container is None else extra.container.written(offered)


def read_tools(body: Mapping[str, Any], dialect: str) -> Iterator[ToolSpec]:
    for index, tool in enumerate(listed(body.get("tools"), "tools")):
        yield read_tool(tool, f"tools[{index}]", dialect)
