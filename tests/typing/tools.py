"""Functions as tools: the decorator keeps their types, and everything that a chat takes as a tool is accepted."""

from __future__ import annotations

from typing import assert_type

from segue import Approval, Chat, Context, Tool, subagent_tool, tool
from segue.tools import McpServers, Output, as_tool, builtin_tools


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="read", timeout=10)
async def forecast(city: str, *, context: Context) -> dict[str, float]:
    """The forecast of a city."""
    context.progress(f"asking about {city}")
    return {"rain": 0.8}


def screenshot() -> Output:
    """What is on the screen."""
    return Output("a black screen")


assert_type(add(1, 2), int)
assert_type(as_tool(add), Tool)
assert_type(as_tool(add).name, str)
assert_type(builtin_tools("."), tuple[Tool, ...])
add("1", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
tool(effect="destroy")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def use_them() -> None:
    scout = subagent_tool("scout", "Finds things out.", "openai/small", tools=[add])
    async with McpServers.from_json({"mcpServers": {}}) as servers:
        chat = Chat(
            "openai/any",
            tools=[add, forecast, screenshot, scout, *builtin_tools("."), *await servers.tools()],
            approval=Approval(allow=["add"]),
        )
        async with chat:
            await chat.send("1 + 2?")
