"""A tool that is a chat of its own, with its own model, tools and budget. Run: python examples/subagent.py"""

from __future__ import annotations

import asyncio

from segue import Budget, Chat, MemoryStore, ScriptedProvider, subagent_tool
from segue.providers import calls, says


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


scout = subagent_tool(
    "scout",
    "Finds things out.",
    "small/any",
    tools=[weather],
    system="Answer in one sentence.",
    budget=Budget(max_turns=5),
)
providers = {
    "large": ScriptedProvider(
        [calls(("scout", {"task": "What is the weather in Bern?"})), says("Take an umbrella to Bern.")]
    ),
    "small": ScriptedProvider([calls(("weather", {"city": "Bern"})), says("It rains in Bern.")]),
}


async def main() -> None:
    store = MemoryStore()
    async with Chat("large/any", tools=[scout], providers=providers, store=store, session="trip") as chat:
        print(await chat.send("What should I pack for Bern?"))
        for interaction in chat.ledger.values():
            print(interaction.call.name, "→", interaction.result and interaction.result.output)
    for info in await store.find(parent="trip"):
        print("a session of its own:", info.first_words)


asyncio.run(main())

# Prints:
# Take an umbrella to Bern.
# scout → It rains in Bern.
# a session of its own: What is the weather in Bern?
