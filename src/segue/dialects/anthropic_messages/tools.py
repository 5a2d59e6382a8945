"""Tools of the Messages wire as they are read: the client's, and those the provider runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.extra import Extra
from segue.conversation.tools import ToolSpec
from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.own_fields import FieldKinds
from segue.dialects.request_fields import listed, record, text

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = ANTHROPIC.target.dialect
_KINDS = FieldKinds(
    NAME,
    hints=frozenset({"cache_control", "defer_loading", "eager_input_streaming", "allowed_callers"}),
    form=frozenset({"type"}),
)


def read_tools(value: Any) -> Iterator[ToolSpec]:
    for index, given in enumerate(listed(value, "tools")):
        path = f"tools[{index}]"
        tool = record(given, path)
        if tool.get("type") not in (None, "custom"):
            name = tool.get("name") or tool.get("mcp_server_name") or tool["type"]
            yield ToolSpec(str(name), kind="server", extra=Extra(NAME, fields=tool))
            continue
        schema, strict = tool.get("input_schema"), tool.get("strict")
        name = text(tool.get("name"), f"{path}.name")
        described = text(tool.get("description"), f"{path}.description")
        parameters = record(schema, f"{path}.input_schema") if schema is not None else None
        strictness = strict if isinstance(strict, bool) else None
        extra = _KINDS.kept(tool, plain_tool(name, described, parameters, strict=strictness))
        yield ToolSpec(name, described, parameters, strictness, extra=extra)


def plain_tool(
    name: str, description: str, parameters: dict[str, Any] | None, *, strict: bool | None
) -> dict[str, Any]:
    """A tool with what every tool has, and nothing else."""
    return {"name": name, "description": description, "input_schema": parameters, "strict": strict}
