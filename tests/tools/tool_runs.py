"""Runs one tool the way a scheduler would, for tests of tools alone."""

from __future__ import annotations

import asyncio
from typing import Any

from segue.conversation.blocks import ToolCall
from segue.tools.definition import Context, Output, Tool
from segue.tools.execution import output_of


def a_context(
    name: str = "t", arguments: Any = None, told: list[str] | None = None, session: str = "s"
) -> Context:
    said: list[str] = [] if told is None else told
    return Context(
        call=ToolCall("c/1", name, arguments), abort=asyncio.Event(), progress=said.append, session=session
    )


async def perform(tool: Tool, arguments: dict[str, Any], told: list[str] | None = None) -> Output:
    value = await tool.run(arguments, a_context(tool.name, arguments, told))
    await asyncio.sleep(0)
    return output_of(value)


def run_tool(tool: Tool, arguments: dict[str, Any], told: list[str] | None = None) -> Output:
    return asyncio.run(perform(tool, arguments, told))
