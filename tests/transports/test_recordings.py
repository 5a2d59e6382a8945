from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from segue.emulators.app import App
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.errors import TransportError, UsageError
from segue.transports.asgi import AsgiTransport
from segue.transports.recordings import RecordingTransport, ReplayingTransport
from segue.transports.transport import Transport, WireRequest

KEY = "sk-0123456789abcdefghij"


def say(app: App, reply: Reply) -> None:
    assert isinstance(app.emulator.responder, ScriptedResponder)
    app.emulator.responder.add(reply)


def request(text: str = "Hi.") -> WireRequest:
    return WireRequest(
        url=f"http://loopback/openai/v1/chat/completions?key={KEY}",
        headers={"Authorization": f"Bearer {KEY}", "content-type": "application/json", "cookie": "secret"},
        body=msgspec.json.encode(
            {"model": "gpt-4.1", "stream": True, "messages": [{"role": "user", "content": text}]}
        ),
    )


async def told(transport: Transport, asked: WireRequest) -> tuple[int, list[bytes]]:
    async with transport(asked) as answer:
        return answer.status, [portion async for portion in answer.portions()]


def test_what_was_recorded_is_played_back_portion_by_portion_and_holds_no_key(
    segue_emulator: App, tmp_path: Path
) -> None:
    path = tmp_path / "exchanges.jsonl"

    async def main() -> None:
        recording = RecordingTransport(AsgiTransport(segue_emulator), path)
        say(segue_emulator, Reply(pieces=(Say(f"Your key is {KEY}, and ünïcode ✓."),)))
        first = await told(recording, request("one"))
        segue_emulator.emulator.faults.append(Fault(status=429))
        second = await told(recording, request("two"))
        replaying = ReplayingTransport(path)
        assert (await told(replaying, request("two")))[0] == second[0] == 429
        played = await told(replaying, request("one"))
        assert len(played[1]) == len(first[1])
        assert played[1][-1] == first[1][-1]

    asyncio.run(main())
    written = path.read_text()
    assert "secret" not in written
    assert KEY not in written
    assert len(written.splitlines()) == 2


def test_a_key_that_does_not_look_like_one_is_blotted_out_wherever_it_is_repeated(
    segue_emulator: App, tmp_path: Path
) -> None:
    path = tmp_path / "exchanges.jsonl"
    key, token = "nothing special about it", "opensesame/1"
    headers = {"api-key": key.replace(" ", "-"), "authorization": f"Basic {token}"}
    asked = structs.replace(
        request(), headers={**request().headers, **headers}, url=f"{request().url}&token={token}"
    )

    async def main() -> None:
        say(segue_emulator, Reply(pieces=(Say(f"{headers['api-key']} and {token}."),)))
        recorded = await told(RecordingTransport(AsgiTransport(segue_emulator), path), asked)
        played = await told(ReplayingTransport(path), asked)
        assert played[0] == recorded[0]

    asyncio.run(main())
    written = path.read_text()
    assert headers["api-key"] not in written
    assert "opensesame" not in written


def test_an_answer_that_broke_off_breaks_off_again(segue_emulator: App, tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"

    async def code_of(transport: Transport) -> str:
        with pytest.raises(TransportError) as caught:
            await told(transport, request())
        return caught.value.code

    async def main() -> None:
        segue_emulator.emulator.faults.append(Fault(kind="cut", at_byte=100))
        recording = RecordingTransport(AsgiTransport(segue_emulator), path)
        codes = [await code_of(recording)]
        codes += [await code_of(ReplayingTransport(path, in_real_time=slow)) for slow in (False, True)]
        assert codes == ["connection_broken"] * 3

    asyncio.run(main())


def test_each_exchange_is_played_once_and_a_changed_request_finds_none(
    segue_emulator: App, tmp_path: Path
) -> None:
    path = tmp_path / "exchanges.jsonl"

    async def main() -> None:
        await told(RecordingTransport(AsgiTransport(segue_emulator), path), request())
        replaying = ReplayingTransport(path)
        await told(replaying, request())
        for asked in (request(), request("something else")):
            with pytest.raises(TransportError) as caught:
                await told(replaying, asked)
            assert caught.value.code == "not_recorded"

    asyncio.run(main())


def test_bytes_that_are_no_text_survive(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"

    async def binary(scope: object, receive: object, send: object) -> None:
        assert callable(send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"\xff\x00\xfe"})

    async def main() -> None:
        transport = RecordingTransport(AsgiTransport(binary), path)
        assert await told(transport, request()) == (200, [b"\xff\x00\xfe"])
        assert await told(ReplayingTransport(path), request()) == (200, [b"\xff\x00\xfe"])

    asyncio.run(main())


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("not json")
    for name in ("x", "missing"):
        with pytest.raises(UsageError) as caught:
            ReplayingTransport(tmp_path / name)
        assert caught.value.code == "bad_recording"
