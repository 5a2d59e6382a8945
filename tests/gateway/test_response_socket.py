"""Responses over a WebSocket, served by the gateway's own server: raw frames, and the official SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import CallerSettings, GatewaySettings
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.gateway.accounts.account import digest_of
from segue.gateway.requests.byte_budget import ByteBudget
from segue.gateway.server import response_socket
from segue.gateway.server.process import http_server
from segue.gateway.server.response_socket import ResponseSocket

TOOL = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@asynccontextmanager
async def served(world: GatewayWorld) -> AsyncIterator[str]:
    server = http_server(world.gateway, GatewaySettings())
    server.config.host, server.config.port = "127.0.0.1", 0
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done()
        await asyncio.sleep(0.01)
    try:
        yield f"ws://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def ask(socket: ClientConnection, **fields: Any) -> list[dict[str, Any]]:
    """Send a message, and take the events up to the one that ends its reply."""
    await socket.send(json.dumps({"type": "response.create", **fields}))
    return await events(socket)


async def events(socket: ClientConnection) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    ends = ("response.completed", "response.failed", "response.incomplete", "error", "response.steer.failed")
    while not found or found[-1]["type"] not in ends:
        async with asyncio.timeout(20):
            found.append(json.loads(await socket.recv()))
    return found


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def run(test: Any) -> None:
    asyncio.run(test)


@pytest.mark.parametrize(
    "route", [ROUTES[name] for name in ("chat", "responses", "anthropic", "gemini", "mistral")]
)
def test_a_client_that_stores_nothing_sends_only_what_is_new(route: str) -> None:
    """As Codex does: it announces its tools, sends the prompt, and then one result for each call."""

    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            shared: dict[str, Any] = {"model": route, "store": False, "tools": [TOOL]}
            warm = await ask(
                socket, **shared, generate=False, input=[{**user("Be brief."), "role": "developer"}]
            )
            assert [event["type"] for event in warm] == ["response.created", "response.completed"]
            assert warm[-1]["response"]["output"] == []
            assert not world.emulator.log, "nobody was asked"
            parent = warm[-1]["response"]["id"]
            told = await ask(socket, **shared, previous_response_id=parent, input=[user("Please look.")])
            assert [event["sequence_number"] for event in told] == list(range(len(told)))
            calls = [item for item in told[-1]["response"]["output"] if item["type"] == "function_call"]
            assert calls
            results = [
                {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
                for call in calls
            ]
            parent = told[-1]["response"]["id"]
            last = await ask(socket, **shared, previous_response_id=parent, input=results)
            text = last[-1]["response"]["output"][-1]["content"][0]["text"]
            assert text == f"I know: {len(calls)} results."
        assert world.refusals() == []
        shown = json.dumps(world.asked(route)[-1].body)
        assert "Be brief." in shown
        assert "Please look." in shown

    run(test())


def test_a_switch_between_two_turns_brings_everything_to_the_new_model() -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            first = await ask(socket, model=ROUTES["anthropic"], store=False, input="My name is Ada.")
            parent = first[-1]["response"]["id"]
            second = await ask(
                socket, model=ROUTES["gemini"], store=False, previous_response_id=parent, input="Who am I?"
            )
            assert second[-1]["type"] == "response.completed"
            third = await ask(
                socket,
                model=ROUTES["anthropic"],
                store=False,
                previous_response_id=second[-1]["response"]["id"],
                input="Again?",
            )
            assert third[-1]["type"] == "response.completed"
        assert world.refusals() == []
        assert "My name is Ada." in json.dumps(world.asked(ROUTES["gemini"])[-1].body)
        assert len(world.asked(ROUTES["anthropic"])[-1].body["messages"]) == 5

    run(test())


def test_what_is_stored_is_continued_over_http_and_back() -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            first = await ask(socket, model=ROUTES["anthropic"], input="My name is Ada.")
            http = {
                "model": ROUTES["chat"],
                "previous_response_id": first[-1]["response"]["id"],
                "input": "Who?",
            }
            posted = (await world.ask("/v1/responses", http)).json()
            last = await ask(
                socket,
                model=ROUTES["gemini"],
                store=False,
                previous_response_id=posted["id"],
                input="And now?",
            )
            assert last[-1]["type"] == "response.completed"
            after = await ask(
                socket,
                model=ROUTES["mistral"],
                store=False,
                previous_response_id=last[-1]["response"]["id"],
                input="Still?",
            )
            assert after[-1]["type"] == "response.completed"
        seen = json.dumps(world.asked(ROUTES["mistral"])[-1].body)
        assert all(text in seen for text in ("My name is Ada.", "Who?", "And now?", "Still?"))
        assert world.refusals() == []

    run(test())


def test_an_unknown_parent_is_an_error_and_the_connection_stays() -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            shared = {"model": ROUTES["anthropic"], "store": False}
            (refused,) = await ask(socket, **shared, previous_response_id="resp_unknown", input="x")
            assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
            assert (await ask(socket, **shared, input="x"))[-1]["type"] == "response.completed"
        async with served(world) as url:
            async with connect(f"{url}/v1/responses") as socket:
                told = await ask(socket, **shared, input="x")
            async with connect(
                f"{url}/v1/responses"
            ) as socket:  # what was not stored ends with its connection
                parent = told[-1]["response"]["id"]
                (gone,) = await ask(socket, **shared, previous_response_id=parent, input="y")
                assert gone["error"]["code"] == "previous_response_not_found"

    run(test())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        (b"\x00\x01", "invalid_json"),
        ('{"type": "response.update"}', "invalid_event"),
        ('{"type": "response.create", "stream_id": "a b"}', "invalid_stream_id"),
        ('{"type": "response.create", "stream_id": 1}', "invalid_stream_id"),
        ('{"type": "response.create", "model": 1, "input": "x"}', None),
        ('{"type": "response.create", "input": {"role": "user"}}', "invalid_type"),
        ('{"type": "response.create", "previous_response_id": ["r"], "input": "x"}', "invalid_type"),
        ('{"type": "response.create", "generate": false, "previous_response_id": 7}', "invalid_type"),
        ("[" * 100_000, "invalid_json"),
        ('{"type": "error", "status": 200, "error": {"code": "mine"}}', "invalid_event"),
        (
            json.dumps(
                {
                    "type": "response.create",
                    "model": ROUTES["anthropic"],
                    "previous_response_id": "",
                    "input": "x",
                }
            ),
            "previous_response_not_found",
        ),
        ('{"type": "response.create", "store": false, "include": [["x"]], "input": "x"}', "invalid_type"),
        ('{"type": "response.create", "include": "x", "input": "x"}', "invalid_type"),
        ('{"type": "response.create", "generate": false, "conversation": "conv_1"}', "unsupported_parameter"),
        ('{"type": "response.create", "generate": false, "prompt": {"id": "p"}}', "unsupported_parameter"),
    ],
)
def test_what_cannot_be_understood_is_refused_and_the_connection_stays(
    sent: str | bytes, code: str | None
) -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            await socket.send(sent)
            (refused,) = await events(socket)
            assert refused["type"] == "error"
            assert 400 <= refused["status"] < 500
            assert code is None or refused["error"]["code"] == code
            told = await ask(socket, model=ROUTES["chat"], input="x")
            assert told[-1]["type"] == "response.completed"

    run(test())


def test_a_reply_that_is_steered_reports_that_it_cannot_be() -> None:
    async def test() -> None:
        async with served(GatewayWorld()) as url, connect(f"{url}/v1/responses") as socket:
            await socket.send(
                json.dumps({"type": "response.steer", "previous_response_id": "resp_1", "input": "no"})
            )
            (failed,) = await events(socket)
            assert failed["error"]["code"] == "steering_not_supported"
            assert failed["input"] == "no"

    run(test())


def test_lanes_run_beside_each_other_and_name_themselves() -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            for lane in ("a", "b", "a"):
                fields = {"model": ROUTES["chat"], "input": lane, "store": False, "stream_id": lane}
                await socket.send(json.dumps({"type": "response.create", **fields}))
            ended: list[str] = []
            open_in: dict[str, str] = {}
            while len(ended) < 3:
                event = json.loads(await socket.recv())
                lane = event["stream_id"]
                if event["type"] == "response.created":
                    assert lane not in open_in, "two replies of one lane at once"
                    open_in[lane] = event["response"]["id"]
                if event["type"] == "response.completed":
                    assert open_in.pop(lane) == event["response"]["id"]
                    ended.append(lane)
            assert sorted(ended) == ["a", "a", "b"]

    run(test())


def test_more_lanes_than_a_connection_may_have_are_refused() -> None:
    async def test() -> None:
        async with served(GatewayWorld()) as url, connect(f"{url}/v1/responses") as socket:
            for number in range(response_socket.MOST_LANES + 1):
                await socket.send(json.dumps({"type": "response.update", "stream_id": f"lane{number}"}))
            codes = [json.loads(await socket.recv()) for _ in range(response_socket.MOST_LANES + 1)]
            (refused,) = [event for event in codes if event["error"]["code"] == "too_many_streams"]
            assert "stream_id" not in refused

    run(test())


def test_a_client_that_leaves_ends_the_request_of_its_provider() -> None:
    async def test() -> None:
        slow = Reply(pieces=(Say("word " * 200),), chunk_size=5, delay=0.05)
        world = GatewayWorld(responder=ScriptedResponder([slow]))
        async with served(world) as url:
            async with connect(f"{url}/v1/responses") as socket:
                asked = {"type": "response.create", "model": ROUTES["anthropic"], "input": "x"}
                await socket.send(json.dumps(asked))
                await socket.recv()
            async with asyncio.timeout(5):
                while not world.reports:
                    await asyncio.sleep(0.02)
        assert world.reports[-1].client_gone

    run(test())


def test_trouble_of_ours_closes_the_socket_so_that_the_client_begins_anew() -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url, connect(f"{url}/v1/responses") as socket:
            world.gateway.draining = True
            await socket.send(json.dumps({"type": "response.create", "model": ROUTES["chat"], "input": "x"}))
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011

    run(test())


def test_a_defect_of_ours_leaves_nobody_waiting() -> None:
    async def broken(*_: Any) -> None:
        raise ValueError("a defect")

    async def test() -> None:
        sent: asyncio.Queue[Any] = asyncio.Queue()
        given: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"path": "/v1/responses", "headers": []}
        socket = ResponseSocket(broken, scope, ByteBudget(1 << 20), "")
        task = asyncio.create_task(socket.converse(given.get, sent.put))
        asked = {"type": "response.create", "model": "m", "input": "x"}
        given.put_nowait({"type": "websocket.receive", "text": json.dumps(asked)})
        async with asyncio.timeout(5):
            assert (await sent.get())["type"] == "websocket.accept"
            assert (await sent.get())["code"] == 1011, "the client connects anew, and sends everything"
        given.put_nowait({"type": "websocket.disconnect"})
        await task

    run(test())


def test_a_connection_ends_when_its_time_is_over() -> None:
    async def test() -> None:
        world, sent = GatewayWorld(), []

        async def receive() -> Any:
            await asyncio.sleep(60)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/v1/responses", "headers": []}
        socket = ResponseSocket(world.gateway, scope, world.gateway._budget, "", lifetime=0.01)
        await socket.converse(receive, send)
        assert json.loads(sent[1]["text"])["error"]["code"] == "websocket_connection_limit_reached"
        assert (sent[2]["type"], sent[2]["code"]) == ("websocket.close", 1011)

    run(test())


def test_what_a_connection_keeps_is_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(response_socket, "MOST_KEPT", 2)
        world = GatewayWorld()
        async with served(world) as url:
            async with connect(f"{url}/v1/responses") as socket:
                shared = {"model": ROUTES["chat"], "store": False}
                names = [(await ask(socket, **shared, input=f"{n}"))[-1]["response"]["id"] for n in range(3)]
                assert world.gateway._budget.held > 0
                (gone,) = await ask(socket, **shared, previous_response_id=names[0], input="x")
                assert gone["error"]["code"] == "previous_response_not_found"
            async with asyncio.timeout(5):
                while world.gateway._budget.held:
                    await asyncio.sleep(0.02)

    run(test())


def test_the_handshake_asks_for_a_key_and_keeps_web_pages_out() -> None:
    async def test() -> None:
        world = GatewayWorld(callers={"alice": CallerSettings(key_sha256=digest_of("sk-alice"))})
        async with served(world) as url:
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{url}/v1/responses").__aenter__()
            assert refused.value.response.status_code == 401
            key = {"Authorization": "Bearer sk-alice"}
            async with connect(f"{url}/v1/responses", additional_headers=key) as socket:
                assert (await ask(socket, model=ROUTES["chat"], input="x"))[-1][
                    "type"
                ] == "response.completed"
            with pytest.raises(InvalidStatus) as elsewhere:
                await connect(f"{url}/v1/messages", additional_headers=key).__aenter__()
            assert elsewhere.value.response.status_code == 426
        assert world.reports[-1].caller == "alice"
        async with served(GatewayWorld()) as url:
            with pytest.raises(InvalidStatus) as page:
                await connect(f"{url}/v1/responses", origin="https://evil.example").__aenter__()  # type: ignore[arg-type]
            assert page.value.response.status_code == 403

    run(test())


def test_the_sdk_of_openai_converses_over_a_socket() -> None:
    async def test() -> None:
        world = GatewayWorld()
        async with served(world) as url:
            client = openai.AsyncOpenAI(api_key="any", base_url=url.replace("ws:", "http:") + "/v1")
            async with client.responses.connect() as connection:
                texts = []
                parent: dict[str, Any] = {}
                for route in (ROUTES["anthropic"], ROUTES["gemini"]):
                    await connection.response.create(model=route, input="Hello", store=False, **parent)
                    async for event in connection:
                        if event.type == "response.completed":
                            texts.append(event.response.output_text)
                            parent = {"previous_response_id": event.response.id}
                            break
                assert texts == ["I know: 0 results."] * 2
        assert world.refusals() == []

    run(test())
