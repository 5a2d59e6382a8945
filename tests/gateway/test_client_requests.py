"""What is read with the help of earlier requests is what is read without them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import structs

from gateway.world import ROUTES, GatewayWorld
from segue.conversation.blocks import Origin, Text, ToolCall
from segue.conversation.message import Message
from segue.dialects.caches.read_cache import ReadRequest
from segue.gateway.conversations.reader import RequestReader
from segue.gateway.conversations.turns import ClientTurn, PreparedRequest, read_turn
from segue.gateway.doors.paths import Doors
from segue.gateway.exchanges.model_field import renamed
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.replies import RememberedReply
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.requests.web import WebRequest

DOORS = Doors()
MARKS = {"anthropic-version": "2023-06-01"}


def as_named(name: str, wire: str) -> Origin:
    return Origin(wire, model=name)


def body(turns: int, *, model: str = "claude-opus-4-6", end: str = "") -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "word " * 4000}]
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "weather", "input": {"city": "Rome"}}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"{turn}"}, call]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": f"result {turn}{end}"}
        messages.append({"role": "user", "content": [result]})
    return {"model": model, "max_tokens": 100, "messages": messages}


def asked(fields: Any) -> WebRequest:
    return WebRequest(method="POST", path="/v1/messages", headers=MARKS, body=msgspec.json.encode(fields))


def test_the_next_request_of_a_conversation_is_read_like_a_first_one() -> None:
    door = DOORS.find("POST", "/v1/messages", MARKS)
    assert door is not None
    used = RequestReader(as_named)
    for turns in range(2, 7):
        request = asked(body(turns))
        read = used.read(door, request, "me")
        fresh = RequestReader(as_named).read(door, request, "me")
        assert read is not None
        assert fresh is not None
        assert read.conversation == fresh.conversation
        assert (read.tools, read.options) == (fresh.tools, fresh.options)
    assert read is not None
    assert read.known


@pytest.mark.parametrize("tools", ["before", "behind", "none"])
@pytest.mark.parametrize(
    ("first", "last", "inner"),
    [
        ("a", None, None),
        ("a", "b", None),
        ("a", "a", None),
        (None, "a", None),
        (None, None, None),
        ("a", None, "b"),
        ("ä", None, None),
    ],
)
def test_a_model_is_renamed_without_parsing_where_it_is_named_once(
    tools: str, first: str | None, last: str | None, inner: str | None
) -> None:
    door = DOORS.find("POST", "/v1/messages", MARKS)
    assert door is not None
    reader = RequestReader(as_named)
    properties = {"model": {"type": "string"}, "text": {"description": "word " * 2000}}
    schema = {"type": "object", "properties": properties}
    offered = b'"tools":' + msgspec.json.encode([{"name": "weather", "input_schema": schema}])
    for turns in range(4, 8):
        messages = body(turns)["messages"]
        if inner is not None:
            messages[-1]["content"][0]["content"] = [{"type": "text", "text": "x", "model": inner}]
        pieces = [b'"model": %b' % msgspec.json.encode(first)] if first is not None else []
        pieces += [offered] if tools == "before" else []
        pieces += [b'"messages":' + msgspec.json.encode(messages), b'"max_tokens":5']
        pieces += [offered] if tools == "behind" else []
        pieces += [b'"model":%b' % msgspec.json.encode(last)] if last is not None else []
        request = asked({})
        request = structs.replace(request, body=b"{" + b",".join(pieces) + b"}")
        read = reader.read(door, request, "me")
        assert read is not None
        new = renamed(request.body, "model", "other", read)
        assert msgspec.json.decode(new) == msgspec.json.decode(renamed(request.body, "model", "other"))
        once = first is not None and last is None and inner is None
        if once and (
            tools == "none" or (tools == "behind" and turns > 4)
        ):  # new tools have such a field, too
            assert new == request.body.replace(msgspec.json.encode(first), b'"other"', 1), (
                "nothing else changes"
            )


def test_a_model_that_stands_elsewhere_is_found_all_the_same() -> None:
    door = DOORS.find("POST", "/v1/messages", MARKS)
    assert door is not None
    fields = body(2)
    name = fields.pop("model")
    reordered = {
        "max_tokens": 100,
        "messages": fields["messages"],
        "model": name,
        "metadata": {"pad": "x" * 900},
    }
    read = RequestReader(lambda name, wire: Origin(wire, model=f"native {name}")).read(
        door, asked(reordered), "me"
    )
    assert read is not None
    reply = next(message for message in read.conversation.messages if message.speaker == "model")
    assert reply.origin is not None
    assert reply.origin.model == f"native {name}"


def test_what_cannot_be_read_is_left_to_the_careful_way() -> None:
    door = DOORS.find("POST", "/v1/messages", MARKS)
    assert door is not None
    reader = RequestReader(as_named)
    for data in (b"", b"[]", b"{", b'{"messages": 5}', b'{"messages": [{"role": "judge"}]}'):
        request = WebRequest(method="POST", path="/v1/messages", headers=MARKS, body=data)
        assert reader.read(door, request, "me") is None


def test_what_goes_to_a_provider_is_the_same_with_and_without_earlier_requests() -> None:
    async def main() -> None:
        one, other = GatewayWorld(model=ROUTES["chat"]), GatewayWorld(model=ROUTES["chat"])
        for turns in (2, 3, 4):
            assert (await one.ask("/v1/messages", body(turns), headers=MARKS)).status == 200
        assert (await other.ask("/v1/messages", body(4), headers=MARKS)).status == 200
        sent, alone = one.asked(ROUTES["chat"])[-1], other.asked(ROUTES["chat"])[-1]
        assert sent.body == alone.body

    asyncio.run(main())


def items(turns: int) -> dict[str, Any]:
    """The same on the Responses wire, as Codex sends it."""
    given: list[Any] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "word " * 4000}]},
    ]
    for turn in range(turns):
        said = {"type": "output_text", "text": f"{turn}"}
        given.append({"type": "message", "role": "assistant", "content": [said]})
        call = {"name": "weather", "arguments": '{"city":"Rome"}', "call_id": f"call_{turn:024}"}
        given.append({"type": "function_call", **call})
        output = {"call_id": call["call_id"], "output": f"result {turn}"}
        given.append({"type": "function_call_output", **output})
    return {"model": "m", "instructions": "Work.", "input": given, "stream": False}


async def turn_of(world: GatewayWorld, fields: Any) -> ClientTurn:
    door = DOORS.find("POST", "/v1/responses", {})
    assert door is not None
    data = msgspec.json.encode(fields)
    request = WebRequest(method="POST", path="/v1/responses", headers={}, body=data)
    return await world.gateway._reader.read_chat(door, request, "me")


def test_of_the_next_request_on_the_responses_wire_only_the_end_is_read() -> None:
    async def main() -> None:
        world = GatewayWorld(model=ROUTES["chat"])
        for turns in (40, 41, 42):
            read = (await turn_of(world, {**items(turns), "store": False})).read
        assert read is not None
        assert len(read.conversation.messages) - read.known <= 20
        assert read.known > 60

    asyncio.run(main())


@pytest.mark.parametrize("route", [ROUTES["chat"], ROUTES["responses"], ROUTES["anthropic"]])
@pytest.mark.parametrize("store", [None, False])
def test_what_a_provider_gets_of_items_is_the_same_with_and_without_earlier_requests(
    route: str, store: bool | None
) -> None:
    async def main() -> None:
        one, other = GatewayWorld(model=route), GatewayWorld(model=route)
        more = {} if store is None else {"store": store}
        for turns in (10, 11, 12):
            assert (await one.ask("/v1/responses", {**items(turns), **more})).status == 200
        assert (await other.ask("/v1/responses", {**items(12), **more})).status == 200
        assert one.asked(route)[-1].body == other.asked(route)[-1].body
        assert one.refusals() == other.refusals() == []

    asyncio.run(main())


def test_a_kept_reply_has_all_of_its_input_also_where_most_of_that_was_known() -> None:
    async def main() -> None:
        world = GatewayWorld(model=ROUTES["chat"])
        for turns in (20, 21, 22):
            reply = (await world.ask("/v1/responses", items(turns))).json()
        listed = await world.ask(f"/v1/responses/{reply['id']}/input_items?limit=100&order=asc", method="GET")
        assert [{**item, "id": ""} for item in listed.json()["data"]] == [
            {**item, "id": ""} for item in items(22)["input"]
        ]

    asyncio.run(main())


def test_an_item_that_stands_for_another_is_put_in_also_behind_a_known_beginning() -> None:
    async def main() -> None:
        world = GatewayWorld(model=ROUTES["chat"])
        first = (await world.ask("/v1/responses", {"model": "m", "input": "Hello."})).json()
        named = next(item["id"] for item in first["output"] if item["type"] == "message")
        for turns in (10, 11):
            assert (await world.ask("/v1/responses", items(turns))).status == 200
        fields = items(12)
        fields["input"] += [{"type": "item_reference", "id": named}, {"role": "user", "content": "And now?"}]
        assert (await world.ask("/v1/responses", fields)).status == 200
        said = first["output"][0]["content"][0]["text"]
        assert said in str(world.asked(ROUTES["chat"])[-1].body["messages"][-2])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("known", "new", "more"),
    [
        (
            {
                "type": "shell_call",
                "call_id": "s1",
                "action": {"commands": ["ls"]},
                "environment": {"type": "container_auto"},
            },
            {"type": "shell_call_output", "call_id": "s1", "output": []},
            {},
        ),
        (
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"role": "user", "content": "x"},
            {"store": True},
        ),
    ],
)
def test_items_that_mean_something_else_by_what_stands_elsewhere_are_read_together(
    known: Any, new: Any, more: dict[str, Any]
) -> None:
    async def main() -> None:
        one, other = GatewayWorld(model=ROUTES["chat"]), GatewayWorld(model=ROUTES["chat"])
        fields = {**items(10), "store": False}
        fields["input"].insert(4, known)
        await turn_of(one, fields)
        longer = {**fields, "input": [*fields["input"], *items(11)["input"][-3:], new], **more}
        turn, alone = await turn_of(one, longer), await turn_of(other, longer)
        assert turn.conversation == alone.conversation

    asyncio.run(main())


@pytest.mark.parametrize(
    ("added", "goes_on"),
    [
        ([], True),
        ([{"role": "user", "content": []}], False),
        ([{"role": "system", "content": "a note"}], True),
        ([{"role": "user", "content": "and now?"}], False),
        ([{"role": "system", "content": "a note"}, {"role": "user", "content": "and now?"}], False),
        ("and now?", True),
    ],
)
def test_whether_a_turn_goes_on_does_not_depend_on_how_its_request_was_read(
    added: list[Any] | str, goes_on: bool
) -> None:
    door = DOORS.find("POST", "/v1/messages", MARKS)
    assert door is not None
    fields = body(2)
    if isinstance(added, str):
        fields["messages"][-1]["content"].append({"type": "text", "text": added})
    else:
        fields["messages"] += added
    request = asked(fields)
    read = RequestReader(as_named).read(door, request, "me")
    assert read is not None
    call = ToolCall("c2", "weather", {"city": "Rome"}, native_id="toolu_1")
    reply = RememberedReply(Message("model", (Text("1"), call)), "openai/gpt-4.1", {"toolu_1": "c2"})

    async def bound(known: ReadRequest | None) -> str:
        memory = Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32))
        await memory.remember("me", b"", reply)
        turn = await read_turn(
            door,
            request,
            PreparedRequest(fields),
            caller="me",
            memory=memory,
            writer=Origin(door.dialect.name),
            read=known,
        )
        return turn.bound

    for known in (read, None):
        assert asyncio.run(bound(known)) == ("openai/gpt-4.1" if goes_on else "")
