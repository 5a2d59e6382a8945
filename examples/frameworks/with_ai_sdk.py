"""A server for pages of the AI SDK (`useChat`): each chat is a session, and a page may choose another model for each turn.

Run: python -m pip install . starlette httpx2; python with_ai_sdk.py (in your own program: uvicorn with_ai_sdk:site)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from segue import Chat, MemoryStore, tool
from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder
from segue.integrations.ai_sdk import UI_STREAM_HEADERS, read_ui_request, ui_message_stream
from segue.testing import emulated_providers

# Emulated APIs answer here. With keys in your environment, leave `providers` out: the real ones do.
replies = [Reply(pieces=(Call("weather", {"city": "Oslo"}),)), Reply(pieces=(Say("It rains in Oslo."),))]
providers = emulated_providers(Emulator(strict=True, responder=ScriptedResponder(replies)))
store = MemoryStore()


@tool(effect="read")
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


async def chat(request: Request) -> StreamingResponse:
    body = await request.json()
    asked = read_ui_request(body)

    async def answer() -> AsyncIterator[bytes]:
        model = body.get("model", "anthropic/claude-sonnet-4-6")
        async with Chat(model, session=asked.id, store=store, tools=[weather], providers=providers) as chat:
            async for portion in ui_message_stream(chat.stream(*asked.content)):
                yield portion

    return StreamingResponse(answer(), headers=UI_STREAM_HEADERS)


site = Starlette(routes=[Route("/api/chat", chat, methods=["POST"])])


async def main() -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": "Weather in Oslo?"}]}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=site), base_url="http://site") as page:
        answer = await page.post("/api/chat", json={"id": "1", "messages": [message]})
    print(*[line[:69] for line in answer.text.splitlines() if "delta" in line or "-output" in line], sep="\n")


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# data: {"type":"tool-output-available","toolCallId":"c0","dynamic":tru
# data: {"type":"text-delta","id":"1","delta":"It rains in "}
# data: {"type":"text-delta","id":"1","delta":"Oslo."}
