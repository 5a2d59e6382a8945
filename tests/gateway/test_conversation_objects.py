"""Conversations that are kept as objects: every turn adds to them, whichever model answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from time import time
from typing import Any

import pytest
from msgspec import Raw, structs

from gateway.model_view import read_by_model
from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import CallerSettings
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.gateway.accounts.account import digest_of
from segue.gateway.accounts.register import ANYONE
from segue.gateway.stored_objects.conversation_objects import ConversationObjects
from segue.gateway.stored_objects.reply_archive import ReplyArchive

PATH, OBJECTS = "/v1/responses", "/v1/conversations"
TARGETS = list(ROUTES)
A, B = ROUTES["responses"], ROUTES["anthropic"]


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


async def made(world: GatewayWorld, *texts: str, **fields: Any) -> Any:
    reply = await world.ask(OBJECTS, {"items": [message(text) for text in texts], **fields})
    assert reply.status == 200, reply.body
    return reply.json()["id"]


async def listed(world: GatewayWorld, name: str, query: str = "?order=asc&limit=100") -> Any:
    reply = await world.ask(f"{OBJECTS}/{name}/items{query}", method="GET")
    assert reply.status == 200, reply.body
    return reply.json()


def texts_in(items: list[Any]) -> list[str]:
    return [part["text"] for item in items if item["type"] == "message" for part in item["content"]]


async def turn(world: GatewayWorld, name: str, text: str, route: str, *, stream: bool = False) -> Any:
    body = {"model": route, "input": text, "conversation": name, "stream": stream}
    reply = await world.ask(PATH, body)
    assert reply.status == 200, reply.body
    if not stream:
        return reply.json()
    frames = [
        json.loads(part) for part in reply.body.decode().split("data: ")[1:] for part in [part.split("\n")[0]]
    ]
    shown = [frame["response"] for frame in frames if "response" in frame]
    assert all(response["conversation"] == {"id": name} for response in shown)
    return shown[-1]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_conversation_goes_from_a_to_b(target: str, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "My name is Ada.", "Remember it.")
        first = await turn(world, name, "Hello.", A, stream=stream)
        assert first["conversation"] == {"id": name}
        added = await world.ask(f"{OBJECTS}/{name}/items", {"items": [message("Something new.")]})
        assert texts_in(added.json()["data"]) == ["Something new."]
        world.restart()
        await turn(world, name, "What is my name?", ROUTES[target], stream=stream)
        sent = json.dumps(world.emulator.log[-1].body)
        expected = ["My name is Ada.", "Remember it.", "Hello.", "Something new.", "What is my name?"]
        places = [sent.index(text) for text in expected]
        assert places == sorted(places)
        items = texts_in((await listed(world, name))["data"])
        assert [text for text in items if not text.startswith("I know")] == expected
        assert world.refusals() == []

    asyncio.run(main())


def test_a_failed_turn_adds_nothing_and_leaves_no_lock() -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "One.")
        world.emulator.faults.append(Fault(kind="status", status=400, message="No."))
        world.emulator.faults.append(Fault(kind="status", status=400, message="No."))
        body = {"model": B, "input": "Fails.", "conversation": {"id": name}}
        assert (await world.ask(PATH, body)).status == 400
        world.emulator.faults.clear()
        assert texts_in((await listed(world, name))["data"]) == ["One."]
        await turn(world, name, "Works.", B)

    asyncio.run(main())


def test_of_two_turns_at_once_one_is_refused() -> None:
    class Slow:
        def reply(self, prompt: Prompt) -> Reply:
            return Reply(pieces=(Say("Slowly. " * 20),), delay=0.02)

        def reset(self) -> None:
            """Nothing is remembered."""

    async def main() -> None:
        for stream in (False, True):
            world = GatewayWorld(responder=Slow())
            name = await made(world)
            bodies = [
                {"model": B, "input": f"Turn {number}.", "conversation": name, "stream": stream}
                for number in range(2)
            ]
            replies = await asyncio.gather(*(world.ask(PATH, body) for body in bodies))
            assert sorted(reply.status for reply in replies) == [200, 400]
            (refused,) = [reply for reply in replies if reply.status == 400]
            error = refused.json()["error"]
            assert error["code"] == "conversation_locked"
            assert error["param"] == "conversation"
            assert len(world.emulator.log) == 1, "nobody is asked for the other"
            await turn(world, name, "And on.", B)

    asyncio.run(main())


def test_objects_are_made_shown_changed_and_deleted() -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, *(f"Item {number}." for number in range(20)), metadata={"topic": "a"})
        shown = (await world.ask(f"{OBJECTS}/{name}", method="GET")).json()
        assert shown.keys() == {"id", "object", "created_at", "metadata"}
        assert shown["metadata"] == {"topic": "a"}
        changed = (await world.ask(f"{OBJECTS}/{name}", {"metadata": {"topic": "b"}})).json()
        assert changed["metadata"] == {"topic": "b"}
        page = await listed(world, name, "?limit=3")
        assert texts_in(page["data"]) == ["Item 19.", "Item 18.", "Item 17."], "the newest first"
        assert page["has_more"] is True
        assert page["first_id"] == page["data"][0]["id"]
        following = await listed(world, name, f"?limit=3&after={page['last_id']}")
        assert texts_in(following["data"]) == ["Item 16.", "Item 15.", "Item 14."]
        one = page["data"][1]
        got = await world.ask(f"{OBJECTS}/{name}/items/{one['id']}", method="GET")
        assert got.json() == one
        gone = await world.ask(f"{OBJECTS}/{name}/items/{one['id']}", method="DELETE")
        assert gone.json()["object"] == "conversation"
        assert (await world.ask(f"{OBJECTS}/{name}/items/{one['id']}", method="GET")).status == 404
        await turn(world, name, "And now?", B)
        sent = json.dumps(world.emulator.log[-1].body)
        assert "Item 17." in sent
        assert "Item 18." not in sent
        rest = texts_in((await listed(world, name, "?limit=100"))["data"])
        assert "Item 18." not in rest
        assert "Item 19." in rest
        deleted = (await world.ask(f"{OBJECTS}/{name}", method="DELETE")).json()
        assert deleted == {"id": name, "object": "conversation.deleted", "deleted": True}
        assert (await world.ask(f"{OBJECTS}/{name}", method="GET")).status == 404

    asyncio.run(main())


@pytest.mark.parametrize(("first", "later"), [(A, B), (B, B), (A, A), (B, A)])
def test_what_was_deleted_is_gone_for_whatever_continues_a_later_reply(first: str, later: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "One.", "Secret.", "Two.")
        before = await turn(world, name, "Three.", first)
        secret = next(item for item in (await listed(world, name))["data"] if "Secret." in json.dumps(item))
        await world.ask(f"{OBJECTS}/{name}/items/{secret['id']}", method="DELETE")
        reply = await turn(world, name, "Four.", first)
        sent = json.dumps((await world.ask(f"{PATH}/{reply['id']}/input_items", method="GET")).json())
        assert "One." in sent
        assert "Secret." not in sent
        for told, parent in ((False, reply), (True, before)):
            body = {"model": later, "input": [message("Five.")], "previous_response_id": parent["id"]}
            assert (await world.ask(PATH, body)).status == 200
            read, _ = read_by_model(world.emulator, world.emulator.log[-1])
            assert ("Secret." in json.dumps(read)) is told, "an earlier reply was made with it"
            assert "Two." in json.dumps(read)

    asyncio.run(main())


def test_a_deleted_thought_does_not_come_back_with_the_rest_of_its_reply() -> None:
    """Its provider refuses the rest as it came (RESP-44), and memory has the whole reply."""

    async def main() -> None:
        world = GatewayWorld()
        name = await made(world)
        body = {"model": A, "conversation": name, "reasoning": {"effort": "medium"}}
        body["include"] = ["reasoning.encrypted_content"]
        assert (await world.ask(PATH, {**body, "input": "One."})).status == 200
        assert (await world.ask(PATH, {**body, "input": "Two."})).status == 200
        thoughts = [item["id"] for item in (await listed(world, name))["data"] if item["type"] == "reasoning"]
        assert len(thoughts) == 2
        await world.ask(f"{OBJECTS}/{name}/items/{thoughts[0]}", method="DELETE")
        assert (await world.ask(PATH, {**body, "input": "Three."})).status == 200
        assert world.refusals() == []
        sent = world.emulator.log[-1].body["input"]
        assert [item["type"] for item in sent] == [
            "message",
            "message",
            "message",
            "reasoning",
            *["message"] * 2,
        ]

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_that_is_deleted_during_a_turn_does_not_come_back(stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "One.")
        running = asyncio.ensure_future(turn(world, name, "Two.", B, stream=stream))
        while not world.emulator.log:
            await asyncio.sleep(0)
        assert (await world.ask(f"{OBJECTS}/{name}", method="DELETE")).status == 200
        reply = await running
        assert (await world.ask(f"{OBJECTS}/{name}", method="GET")).status == 404
        assert (await world.ask(f"{OBJECTS}/{name}", method="DELETE")).status == 404
        assert (await world.ask(f"{PATH}/{reply['id']}", method="GET")).status == 200, "it has its own id"

    asyncio.run(main())


def test_a_deleted_conversation_leaves_nothing_in_the_store() -> None:
    async def count(world: GatewayWorld) -> int:
        number: int = await world.store._file.read(
            lambda connection: connection.execute("SELECT count(*) FROM records").fetchone()[0]
        )
        return number

    async def main() -> None:
        world = GatewayWorld()
        await world.ask(PATH, {"model": B, "input": "Hello."})
        before = await count(world)
        name = await made(world, metadata={"topic": "a"})
        assert await count(world) > before
        assert (await world.ask(f"{OBJECTS}/{name}", method="DELETE")).status == 200
        assert await count(world) == before

    asyncio.run(main())


def test_a_conversation_of_which_a_reply_was_deleted_can_be_deleted() -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "One.")
        reply = await turn(world, name, "Two.", B)
        assert (await world.ask(f"{PATH}/{reply['id']}", method="DELETE")).status == 200
        body = {"model": B, "input": "x", "conversation": name}
        assert (await world.ask(PATH, body)).status == 404, (
            "nobody gets an answer to a shortened conversation"
        )
        assert (await world.ask(f"{OBJECTS}/{name}", method="DELETE")).status == 200

    asyncio.run(main())


def test_items_that_came_with_one_id_are_listed_each_with_its_own() -> None:
    async def main() -> None:
        world = GatewayWorld()
        items = [{**message(text), "id": "msg_1"} for text in ("One.", "Two.", "Three.")]
        name = (await world.ask(OBJECTS, {"items": items})).json()["id"]
        found, after = list[Any](), ""
        while len(found) < 4:
            page = await listed(world, name, f"?order=asc&limit=1{after}")
            found += page["data"]
            after = f"&after={page['last_id']}"
            if not page["has_more"]:
                break
        assert texts_in(found) == ["One.", "Two.", "Three."]
        await world.ask(f"{OBJECTS}/{name}/items/{found[1]['id']}", method="DELETE")
        assert texts_in((await listed(world, name))["data"]) == ["One.", "Three."]

    asyncio.run(main())


def test_what_is_wrong_with_a_request_is_said() -> None:
    async def main() -> None:
        world = GatewayWorld()
        many = {"items": [message("x")] * 21}
        for body, param in (
            (many, "items"),
            ({"items": "x"}, "items"),
            ({"metadata": 1}, "metadata"),
            ({"items": [message("x"), {"role": "user", "content": 5}]}, "items[1].content"),
            ({"inputs": "Hello.", "model": A}, "inputs"),  # of Mistral's conversations
        ):
            reply = await world.ask(OBJECTS, body)
            assert reply.status == 400
            assert reply.json()["error"]["param"] == param
        lost = {"items": [{"type": "item_reference", "id": "msg_unknown"}]}
        assert (await world.ask(OBJECTS, lost)).status == 404
        name = await made(world)
        body = {"model": B, "input": "x", "conversation": name, "previous_response_id": "resp_1"}
        assert (await world.ask(PATH, body)).status == 400
        body = {"model": B, "input": "x", "conversation": "conv_unknown"}
        unknown = await world.ask(PATH, body)
        assert unknown.status == 404
        assert unknown.json()["error"]["message"].startswith("Conversation with id 'conv_unknown' not found.")
        assert not world.emulator.log

    asyncio.run(main())


def test_a_conversation_is_its_callers_own() -> None:
    async def main() -> None:
        callers = {name: CallerSettings(key_sha256=digest_of(f"key-{name}")) for name in ("ann", "bob")}
        world = GatewayWorld(callers=callers)
        ann, bob = ({"authorization": f"Bearer key-{name}"} for name in ("ann", "bob"))
        name = (await world.ask(OBJECTS, {}, headers=ann)).json()["id"]
        assert (await world.ask(f"{OBJECTS}/{name}", method="GET", headers=bob)).status == 404
        body = {"model": B, "input": "x", "conversation": name}
        assert (await world.ask(PATH, body, headers=bob)).status == 404
        assert (await world.ask(PATH, body, headers=ann)).status == 200

    asyncio.run(main())


def test_a_conversation_is_counted_and_compacted_whole() -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "A long beginning. " * 50)
        items = [message("A long beginning. " * 50), message("And now?")]
        counts = []
        for fields in ({"conversation": name, "input": [message("And now?")]}, {"input": items}):
            reply = await world.ask(f"{PATH}/input_tokens", {"model": B, **fields})
            counts.append(reply.json()["input_tokens"])
        assert counts[0] == counts[1] > 100
        reply = await world.ask(f"{PATH}/compact", {"model": B, "conversation": name})
        assert reply.status == 200, reply.body
        assert "A long beginning." in json.dumps(world.emulator.log[-1].body)

    asyncio.run(main())


def test_a_turn_in_the_background_is_added_when_it_is_complete() -> None:
    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "One.")
        body = {"model": B, "input": "Two.", "conversation": name, "background": True}
        queued = (await world.ask(PATH, body)).json()
        for _ in range(100):
            reply = (await world.ask(f"{PATH}/{queued['id']}", method="GET")).json()
            if reply["status"] == "completed":
                break
            await asyncio.sleep(0.02)
        await turn(world, name, "Three.", A)
        texts = texts_in((await listed(world, name))["data"])
        assert [text for text in texts if not text.startswith("I know")] == ["One.", "Two.", "Three."]

    asyncio.run(main())


@pytest.mark.parametrize("target", [A, B])
def test_a_turn_reads_one_node_and_whatever_changes_its_conversation_elsewhere(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages before it stay joined in each process, and each may have another state of them."""

    async def read_in_turn(world: GatewayWorld, name: str, text: str) -> tuple[str, int]:
        read, asked = world.store.read, list[bytes]()

        async def counted(keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
            asked.extend(keys)
            return await read(keys)

        with monkeypatch.context() as patched:
            patched.setattr(world.store, "read", counted)
            await turn(world, name, text, target)
        shown, _ = read_by_model(world.emulator, world.emulator.log[-1])
        return json.dumps(shown), len(asked)

    async def main() -> None:
        world = GatewayWorld(provider_state="never")
        name = await made(world, "First.", "Secret.")
        for number in range(40):
            await turn(world, name, f"Turn {number}.", target)
        first = world.gateway
        world.restart()
        second = world.gateway
        shown, whole = await read_in_turn(world, name, "Turn 40.")
        assert whole > 40
        shown, few = await read_in_turn(world, name, "Turn 41.")
        assert few < whole - 35
        assert all(f"Turn {number}." in shown for number in range(42))

        world.gateway = first  # it has joined them up to turn 39
        await world.ask(f"{OBJECTS}/{name}/items", {"items": [message("Added.")]})
        items = (await listed(world, name))["data"]
        secret = next(item for item in items if "Secret." in json.dumps(item))
        await world.ask(f"{OBJECTS}/{name}/items/{secret['id']}", method="DELETE")
        for gateway in (second, first, second):
            world.gateway = gateway
            shown, _ = await read_in_turn(world, name, "And now?")
            assert "Secret." not in shown
            assert all(text in shown for text in ("First.", "Turn 0.", "Turn 41.", "Added."))
        reply = await turn(world, name, "One more.", target)
        for gateway in (first, second):
            world.gateway = gateway
            body = {"model": target, "input": "On its own.", "previous_response_id": reply["id"]}
            assert (await world.ask(PATH, body)).status == 200
            shown, _ = read_by_model(world.emulator, world.emulator.log[-1])
            assert "Secret." not in json.dumps(shown)
            assert "First." in json.dumps(shown)

        await turn(world, name, "Behind it.", target)
        world.gateway = first
        assert (await world.ask(f"{PATH}/{reply['id']}", method="DELETE")).status == 200
        world.gateway = second
        body = {"model": target, "input": "x", "conversation": name}
        assert (await world.ask(PATH, body)).status == 404, "a shortened conversation is never answered"

    asyncio.run(main())


def test_a_turn_that_is_not_kept_yet_keeps_others_out() -> None:
    """Between the end of a reply in the background and its record nobody gets an answer to a conversation without it."""

    async def main() -> None:
        world = GatewayWorld()
        name = await made(world, "One.")
        body = {"model": B, "input": "Two.", "conversation": name, "background": True}
        queued = (await world.ask(PATH, body)).json()["id"]
        for _ in range(100):
            if (await world.ask(f"{PATH}/{queued}", method="GET")).json()["status"] == "completed":
                break
            await asyncio.sleep(0.02)
        await turn(world, name, "Three.", B)
        archive = ReplyArchive(world.gateway.memory)
        complete = await archive.find(ANYONE.name, queued)
        assert complete is not None
        other = await made(world)
        running = {**json.loads(bytes(complete.reply)), "status": "in_progress", "output": []}
        made_now = structs.replace(complete, reply=Raw(json.dumps(running).encode()), beat=time())
        await archive.put(ANYONE.name, "resp_running", made_now)
        objects = ConversationObjects(world.gateway.memory, archive, 60.0)
        held = await objects.find(ANYONE.name, other)
        assert held is not None
        await (await objects.lease(ANYONE.name, held)).advance("resp_running")
        refused = await world.ask(PATH, {"model": B, "input": "Four.", "conversation": other})
        assert refused.status == 400
        assert refused.json()["error"]["code"] == "conversation_locked"
        await archive.put(
            ANYONE.name, "resp_running", structs.replace(made_now, reply=complete.reply, beat=0.0)
        )
        await turn(world, other, "Four.", B)
        shown, _ = read_by_model(world.emulator, world.emulator.log[-1])
        assert "Two." in json.dumps(shown)

    asyncio.run(main())
