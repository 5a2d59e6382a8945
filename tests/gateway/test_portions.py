"""What arrives together leaves together, and what was planned once is sent as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gateway.world import ROUTES, GatewayWorld, providers_at
from segue.conversation.blocks import Text
from segue.conversation.events import Finished
from segue.conversation.message import Conversation, Message
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.providers.adapter import ChatRequest, RequestSent, StreamEvent


def _chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    chunk = {"id": "one", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


PORTIONS = (
    _chunk({"role": "assistant", "content": "Once"}),
    b"".join(_chunk({"content": f" word{number}"}) for number in range(40)),
    _chunk({"content": " more"}) + _chunk({}, "stop") + b"data: [DONE]\n\n",
)


class Upstream:
    """Sends a reply of the Chat wire in three portions."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for portion in PORTIONS:
            await send({"type": "http.response.body", "body": portion, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


REQUEST = ChatRequest(
    model="gpt-4.1", conversation=Conversation((Message("user", (Text("Tell me something."),)),))
)


def test_frames_of_one_upstream_read_are_written_together() -> None:
    written: list[bytes] = []

    async def main() -> None:
        world = GatewayWorld(model=ROUTES["chat"])
        memory = Memory(world.store, InstallationKey(b"k" * 32))
        gateway = Gateway(world.config, providers_at(Upstream()), memory)  # type: ignore[arg-type]
        body = {"model": "any", "max_tokens": 9, "stream": True}
        body["messages"] = [{"role": "user", "content": "Tell me something."}]
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:
                await asyncio.Event().wait()
            asked = True
            return {"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}

        async def send(message: Any) -> None:
            written.append(message.get("body", b""))

        scope = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": []}
        await gateway(scope, receive, send)
        await gateway.close()

    asyncio.run(main())
    together = [data for data in written if b"word0" in data and b"word39" in data]
    assert len(together) == 1
    assert len([data for data in written if data]) <= len(PORTIONS) + 1


def test_events_come_in_the_portions_in_which_they_arrived_and_the_end_comes_alone() -> None:
    async def main() -> None:
        provider = providers_at(Upstream()).get("openai")  # type: ignore[arg-type]
        assert provider is not None
        assert provider.capabilities.push is not None
        portions: list[list[StreamEvent]] = []
        await provider.capabilities.push(REQUEST, portions.append)
        assert isinstance(portions[0][0], RequestSent)
        assert max(len(events) for events in portions) == 40
        assert [type(event) for event in portions[-1]] == [Finished]
        flat = [event async for event in provider.chat_stream(REQUEST)]
        assert flat[1:] == [event for events in portions for event in events][1:]

    asyncio.run(main())


def test_a_previewed_request_is_sent_without_planning_it_again() -> None:
    async def main() -> None:
        provider = providers_at(Upstream()).get("openai")  # type: ignore[arg-type]
        assert provider is not None
        assert provider.capabilities.preview is not None
        previewed = provider.capabilities.preview(REQUEST)
        sent = [event async for event in provider.chat_stream(REQUEST)]
        again = [event async for event in provider.chat_stream(REQUEST)]
        assert isinstance(sent[0], RequestSent)
        assert isinstance(again[0], RequestSent)
        assert sent[0].body is previewed.body
        assert again[0].body is not previewed.body
        assert again[0] == previewed

    asyncio.run(main())
