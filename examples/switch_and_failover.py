"""One conversation, three APIs: a switch by hand, then a router that goes on with the next provider when one fails.

The APIs are emulated on this machine. Run: python examples/switch_and_failover.py
"""

from __future__ import annotations

import asyncio

from segue import Chat, ProviderRegistry, default_registry, tool
from segue.emulators import Call, Emulator, Fault, Reply, Say, ScriptedResponder, Served, Think, serve
from segue.events import Retrying, Switch, TextChunk
from segue.routing import Profile, RetrySettings, build_router, facts_from


@tool(effect="read")
def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "rain"}.get(city, "sun")


async def switch(registry: ProviderRegistry) -> None:
    async with Chat("anthropic/claude-opus-5-5", tools=[weather], providers=registry) as chat:
        print("anthropic:", await chat.send("Rain in Oslo?"))
        switched = await chat.switch("mistral/mistral-large-latest")
        print("hidden from the new model:", [loss.kind for loss in switched.losses] if switched else [])
        print("mistral:", await chat.send("And in Rome?"))


async def fail_over(registry: ProviderRegistry, api: Served) -> None:
    members = ("openai/gpt-4.1", "gemini/gemini-2.5-flash")
    team = Profile(name="team", policy="failover", members=members, retry=RetrySettings(attempts=1))
    api.emulator.faults.append(Fault(kind="status", status=503))
    async with Chat(build_router(team, facts_from(registry)), providers=registry) as chat:
        async for event in chat.stream("Is anybody there?"):
            match event:
                case Retrying(model):
                    print("again:", model)
                case Switch(previous, model):
                    print(f"{previous} failed, {model} answers")
                case TextChunk(text):
                    print(text, end="")
                case _:
                    pass
        print()


replies = [
    Reply(pieces=(Think("Look it up."), Call("weather", {"city": "Oslo"}))),
    Reply(pieces=(Say("Yes."),)),
    Reply(pieces=(Say("No."),)),
    Reply(pieces=(Say("Here I am."),)),
]
with serve(emulator=Emulator(responder=ScriptedResponder(replies))) as api:
    environment = {
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": api.url("anthropic"),
        "GOOGLE_API_KEY": "any",
        "GOOGLE_GEMINI_BASE_URL": api.url("gemini") + "/v1beta",
        "MISTRAL_API_KEY": "any",
        "MISTRAL_BASE_URL": api.url("mistral") + "/v1",
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": api.url("openai") + "/v1",
    }
    registry = default_registry(environ=environment, keyring=False)
    asyncio.run(switch(registry))
    asyncio.run(fail_over(registry, api))

# Prints:
# anthropic: Yes.
# hidden from the new model: ['reasoning_dropped']
# mistral: No.
# openai/gpt-4.1 failed, gemini/gemini-2.5-flash answers
# Here I am.
