"""Tools of Converse: `toolConfig.tools`, with cache points among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.tools import ToolSpec
from segue.dialects.converse.rules import NAME
from segue.dialects.converse.wire import CACHE_POINT
from segue.dialects.own_fields import FieldKinds
from segue.dialects.request_fields import listed, record, text

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS = FieldKinds(NAME)
STAND_IN: Final[dict[str, Any]] = {
    "toolSpec": {
        "name": "no_tool",
        "description": "Stands for tools that were used before and are not offered now. Do not call it.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
"""BDR-04: a history with calls needs at least one tool."""


def tools_in(body: Mapping[str, Any]) -> Any:
    config = body.get("toolConfig")
    return config.get("tools") if isinstance(config, dict) else None


def read_tools(value: Any) -> list[ToolSpec]:
    tools: list[ToolSpec] = []
    for index, given in enumerate(listed(value, "toolConfig.tools")):
        path = f"toolConfig.tools[{index}]"
        tool = record(given, path)
        if tool == STAND_IN:
            continue
        if CACHE_POINT in tool:
            if tools:
                tools[-1] = _with_point(tools[-1], tool[CACHE_POINT])
        elif "toolSpec" in tool:
            tools.append(_read_tool(record(tool["toolSpec"], f"{path}.toolSpec"), f"{path}.toolSpec"))
        else:
            held = next(iter(tool.values()), None)
            name = held.get("name") if isinstance(held, dict) else None
            named = str(name or next(iter(tool), "tool"))
            tools.append(ToolSpec(named, kind="server", extra=Extra(NAME, fields=tool)))
    return tools


def _with_point(tool: ToolSpec, point: Any) -> ToolSpec:
    extra = tool.extra if tool.extra is not None else Extra(NAME)
    return structs.replace(tool, extra=structs.replace(extra, hints={CACHE_POINT: point}))


def _read_tool(spec: dict[str, Any], path: str) -> ToolSpec:
    name = text(spec.get("name"), f"{path}.name")
    described = text(spec.get("description"), f"{path}.description")
    given = spec.get("inputSchema")
    schema = given.get("json") if isinstance(given, dict) else None
    parameters = record(schema, f"{path}.inputSchema.json") if schema is not None else None
    strict = spec.get("strict")
    strictness = strict if isinstance(strict, bool) else None
    extra = _KINDS.kept(spec, plain_tool(name, described, parameters, strict=strictness))
    return ToolSpec(name, described, parameters, strictness, extra=extra)


def plain_tool(
    name: str, description: str, parameters: dict[str, Any] | None, *, strict: bool | None
) -> dict[str, Any]:
    """A tool with what every tool has, and nothing else."""
    return {"name": name, "description": description, "inputSchema": {"json": parameters}, "strict": strict}
