"""The first answer, with and without an event loop. Run: python examples/first_answer.py"""

from __future__ import annotations

import asyncio

from segue import Chat, ScriptedProvider
from segue.providers import says

# A model that answers from a script: no key, no network. Without `providers=`, a name such as
# "anthropic/claude-sonnet-4-6" goes to the real API, with the key from ANTHROPIC_API_KEY.
provider = ScriptedProvider([says("Oslo."), says("About 700,000."), says("Rome.")])


async def ask() -> None:
    async with Chat("scripted/any", system="Be brief.", providers={"scripted": provider}) as chat:
        print(await chat.send("What is the capital of Norway?"))
        answer = await chat.send("How many people live there?")
        print(answer.text, f"({answer.finish}, {len(chat.conversation.messages)} messages so far)")


def ask_without_event_loop() -> None:
    with Chat("scripted/any", providers={"scripted": provider}).blocking() as chat:
        print(chat.send("And of Italy?"))


asyncio.run(ask())
ask_without_event_loop()

# Prints:
# Oslo.
# About 700,000. (complete, 4 messages so far)
# Rome.
