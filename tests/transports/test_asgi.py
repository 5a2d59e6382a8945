from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from segue.emulators.app import App
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.errors import TransportError
from segue.transports.asgi import AHEAD, AsgiTransport
from segue.transports.transport import Timeouts, WireRequest

CHAT = msgspec.json.encode(
    {"model": "gpt-4.1", "stream": True, "messages": [{"role": "user", "content": "Hi."}]}
)


def say(app: App, reply: Reply) -> None:
    assert isinstance(app.emulator.responder, ScriptedResponder)
    app.emulator.responder.add(reply)


def chat(**fields: Any) -> WireRequest:
    return WireRequest(
        url="http://loopback/openai/v1/chat/completions?a=1",
        headers={"authorization": "Bearer any", "content-type": "application/json"},
        body=CHAT,
        **fields,
    )


def test_an_application_in_this_process_answers_as_a_server_would(segue_emulator: App) -> None:
    say(segue_emulator, Reply(pieces=(Say("Hello there, all of you."),)))

    async def main() -> list[bytes]:
        async with AsgiTransport(segue_emulator)(chat()) as answer:
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            return [portion async for portion in answer.portions()]

    portions = asyncio.run(main())
    assert len(portions) > 3
    assert portions[-1].endswith(b"data: [DONE]\n\n")
    assert segue_emulator.emulator.log[-1].verdict == "accepted"


def test_leaving_before_the_end_is_a_hang_up(segue_emulator: App) -> None:
    say(segue_emulator, Reply(pieces=(Say("word " * 500),), delay=0.01))

    async def main() -> None:
        async with AsgiTransport(segue_emulator)(chat()) as answer:
            await anext(answer.portions())

    asyncio.run(main())
    assert segue_emulator.emulator.hung_up == 1


def test_an_application_is_not_far_ahead_of_its_reader() -> None:
    sent = 0

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent += 1

    async def main() -> None:
        async with AsgiTransport(endless)(chat()) as answer:
            await anext(answer.portions())
            await asyncio.sleep(0.05)
            assert sent <= AHEAD + 2

    asyncio.run(main())


@pytest.mark.parametrize("started", [False, True])
def test_an_application_that_raises_breaks_the_connection(started: bool) -> None:
    async def failing(scope: Any, receive: Any, send: Any) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        raise LookupError("secret")

    async def main() -> None:
        async with AsgiTransport(failing)(chat()) as answer:
            await answer.read()

    with pytest.raises(TransportError) as caught:
        asyncio.run(main())
    assert caught.value.code == "connection_broken"
    assert "secret" not in str(caught.value)


def test_an_application_that_says_nothing_times_out() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == CHAT
        assert (await receive())["type"] == "http.disconnect"

    async def main() -> None:
        async with AsgiTransport(silent)(chat(timeouts=Timeouts(first_byte=0.05))):
            pass

    with pytest.raises(TransportError) as caught:
        asyncio.run(main())
    assert caught.value.code == "first_byte_timeout"


def test_an_application_has_longer_for_a_whole_reply() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"all"})

    async def main() -> bytes:
        limits = Timeouts(first_byte=0.02, whole_reply=5)
        async with AsgiTransport(slow)(chat(timeouts=limits, whole=True)) as answer:
            return await answer.read()

    assert asyncio.run(main()) == b"all"
