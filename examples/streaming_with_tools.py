"""A turn with two tool calls, shown while it happens. Run: python examples/streaming_with_tools.py"""

from __future__ import annotations

import asyncio

from segue import Chat, Context, ScriptedProvider, tool
from segue.events import Finish, TextChunk, ToolCallResult, ToolCallStart, ToolProgress
from segue.providers import calls, says

WEATHER = {"Oslo": "rain", "Rome": "sun"}


@tool(effect="read", timeout=10)
async def weather(city: str, *, context: Context) -> str:
    """The weather of a city.

    Args:
        city: In English.
    """
    context.progress("asking the satellite")
    return WEATHER[city]


provider = ScriptedProvider(
    [
        calls(("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})),
        says("Rain in Oslo, sun in Rome."),
    ],
)


async def main() -> None:
    async with Chat("scripted/any", tools=[weather], providers={"scripted": provider}) as chat:
        async for event in chat.stream("Where should I go, Oslo or Rome?"):
            match event:
                case TextChunk(text):
                    print(text)
                case ToolCallStart(call):
                    print(f"→ {call.name} {call.arguments}")
                case ToolProgress(call, message):
                    print(f"  {call.name}: {message}")
                case ToolCallResult(call, result):
                    print(f"← {call.name}: {result.output}")
                case Finish(reason):
                    print(f"({reason})")
                case _:
                    pass


asyncio.run(main())

# Prints:
# → weather {'city': 'Oslo'}
# → weather {'city': 'Rome'}
#   weather: asking the satellite
#   weather: asking the satellite
# ← weather: rain
# ← weather: sun
# Rain in Oslo, sun in Rome.
# (complete)
