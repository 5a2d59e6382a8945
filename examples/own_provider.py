"""A provider of one's own, and the suite that every provider must pass. Run: python examples/own_provider.py"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from segue import Chat, Origin
from segue.providers import ChatRequest, Finished, ProviderAdapter, RequestSent, StreamEvent, TextDelta
from segue.testing import check_provider


class Echo(ProviderAdapter):
    """Answers with what it was asked, word by word."""

    name = "echo"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        yield RequestSent(origin=Origin("echo", self.name, "", request.model))
        for word in (request.conversation.messages[-1].text or "?").split():
            if request.abort is not None and request.abort.is_set():
                yield Finished("cancelled")
                return
            yield TextDelta(0, word + " ")
        yield Finished("stop")


with Chat("echo/any", providers={"echo": Echo()}).blocking() as chat:
    print(chat.send("Is anybody there?"))

report = asyncio.run(check_provider(Echo, model="any"))
print(report.passed or report)

# Prints:
# Is anybody there?
# True
