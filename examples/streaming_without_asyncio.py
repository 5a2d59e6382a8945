"""The events of a turn in a program without an event loop. Run: python examples/streaming_without_asyncio.py"""

from __future__ import annotations

from segue import Chat, ScriptedProvider
from segue.events import Error, TextChunk
from segue.providers import says

provider = ScriptedProvider([[*says("Rain in Oslo, ")[:-1], *says("sun in Rome.")], says("Yes.")])

with Chat("scripted/any", providers={"scripted": provider}).blocking() as chat:
    for event in chat.stream("Where should I go, Oslo or Rome?"):
        match event:
            case TextChunk(text):
                print(text, end="", flush=True)
            case Error(error):  # a stream reports an error; it does not raise it
                print(error)
            case _:
                pass
    print()
    assert chat.answer is not None
    print(chat.answer.finish, chat.answer.model)

    for _ in chat.stream("Sure?", model="scripted/other", max_turns=1):  # for this turn only
        pass
    print(chat.answer.text, chat.answer.model, chat.chat.model)

# Prints:
# Rain in Oslo, sun in Rome.
# complete scripted/any
# Yes. scripted/other scripted/any
