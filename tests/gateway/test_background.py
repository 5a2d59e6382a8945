"""Replies in the background: fetched, followed from any event on, cancelled, and continued; also by another gateway."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.world import ROUTES, AgentModel, GatewayWorld
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.gateway.stored_objects import background_replies as background
from segue.gateway.stored_objects.reply_archive import LOST_SECONDS

PATH = "/v1/responses"


class SlowModel(AgentModel):
    """Takes its time."""

    def reply(self, prompt: Prompt) -> Reply:
        return Reply(pieces=(Say("one two three four five six seven"),), delay=0.2)


async def begin(world: GatewayWorld, **fields: Any) -> dict[str, Any]:
    body = {"model": ROUTES["anthropic"], "input": "Hello.", "background": True, **fields}
    reply = await world.ask(PATH, body)
    assert reply.status == 200, reply.body
    queued: dict[str, Any] = reply.json()
    return queued


async def fetched(world: GatewayWorld, reply_id: str) -> dict[str, Any]:
    reply: dict[str, Any] = (await world.ask(f"{PATH}/{reply_id}", method="GET")).json()
    return reply


async def completed(world: GatewayWorld, reply_id: str) -> dict[str, Any]:
    for _ in range(200):
        reply = await fetched(world, reply_id)
        if reply["status"] not in ("queued", "in_progress"):
            return reply
        await asyncio.sleep(0.02)
    raise AssertionError("the reply does not end")


def events_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]


def test_a_reply_is_asked_for_now_and_fetched_later_and_continued() -> None:
    async def main() -> None:
        world = GatewayWorld()
        queued = await begin(world)
        assert (queued["status"], queued["background"], queued["output"]) == ("queued", True, [])
        reply = await completed(world, queued["id"])
        assert reply["id"] == queued["id"]
        assert reply["status"] == "completed"
        assert reply["output"][-1]["content"][0]["text"] == "I know: 0 results."
        assert reply["usage"]["total_tokens"] > 0
        await world.gateway.settle()
        made = next(report for report in world.reports if report.operation == "background")
        assert made.usage.total_tokens
        world.restart()
        assert (await fetched(world, queued["id"]))["status"] == "completed"
        body = {"model": ROUTES["responses"], "input": "And now?", "previous_response_id": queued["id"]}
        assert (await world.ask(PATH, body)).status == 200
        assert "I know: 0 results." in str(world.emulator.log[-1].body)
        asked = {"role": "user", "content": "And now?"}
        named = [{"type": "item_reference", "id": item["id"]} for item in reply["output"]]
        body = {"model": ROUTES["anthropic"], "input": [asked, *named, asked]}
        assert (await world.ask(PATH, body)).status == 200
        assert "I know: 0 results." in str(world.emulator.log[-1].body)
        assert world.refusals() == []

    asyncio.run(main())


def test_a_stream_is_resumed_behind_the_event_that_a_client_saw_last() -> None:
    async def main() -> None:
        world = GatewayWorld()
        whole = await world.ask(
            PATH, {"model": ROUTES["gemini"], "input": "Hi.", "background": True, "stream": True}
        )
        events = events_of(whole.body)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        kinds = [event["type"] for event in events]
        assert kinds[:2] == ["response.created", "response.queued"]
        assert kinds.count("response.created") == 1
        assert kinds[-1] == "response.completed"
        reply_id = events[0]["response"]["id"]
        assert {event["response"]["id"] for event in events if "response" in event} == {reply_id}
        rest = await world.ask(f"{PATH}/{reply_id}?stream=true&starting_after=3", method="GET")
        assert events_of(rest.body) == events[4:]
        # Another gateway has the record and not the events.
        world.restart()
        other = await world.ask(f"{PATH}/{reply_id}?stream=true&starting_after=3", method="GET")
        assert [event["type"] for event in events_of(other.body)] == ["response.completed"]

    asyncio.run(main())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_reply_is_cancelled_at_the_provider_too(elsewhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "BEAT_SECONDS", 0.05)

    async def main() -> None:
        world = GatewayWorld(responder=SlowModel())
        queued = await begin(world)
        await asyncio.sleep(0.3)
        maker = world.gateway
        if elsewhere:
            world.restart()
        cancelled = (await world.ask(f"{PATH}/{queued['id']}/cancel", {})).json()
        assert (cancelled["id"], cancelled["status"]) == (queued["id"], "cancelled")
        assert (await fetched(world, queued["id"]))["status"] == "cancelled"
        again = await world.ask(f"{PATH}/{queued['id']}/cancel", {})
        assert again.json()["status"] == "cancelled"
        deleted = await world.ask(f"{PATH}/{queued['id']}", method="DELETE")
        assert deleted.json()["deleted"] is True
        await maker.close()

    asyncio.run(main())


def test_what_fails_or_is_lost_is_seen_as_failed() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SlowModel())
        unknown = await begin(world, model="anthropic/nobody-knows-it")
        failed = await completed(world, unknown["id"])
        assert failed["status"] == "failed"
        assert failed["error"]["message"]
        queued = await begin(world)
        lost = world.gateway
        world.restart()
        found = await world.gateway._archive.find("local", queued["id"])
        assert found is not None
        found.beat -= LOST_SECONDS + 1
        await world.gateway._archive.put("local", queued["id"], found)
        assert (await fetched(world, queued["id"]))["status"] == "failed"
        await lost.close()  # it only seemed so: what it makes would outlive the loop

    asyncio.run(main())


def test_a_reply_that_nobody_keeps_cannot_be_made_in_the_background() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["chat"], "input": "Hello.", "background": True, "store": False}
        assert (await world.ask(PATH, body)).status == 400

    asyncio.run(main())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_reply_that_was_deleted_is_gone_at_the_gateway_that_made_it(elsewhere: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        queued = await begin(world)
        await completed(world, queued["id"])
        maker = world.gateway
        await maker.settle()
        if elsewhere:
            world.restart()
        path = f"{PATH}/{queued['id']}"
        assert (await world.ask(path, method="DELETE")).status == 200
        world.gateway = maker
        for asked, method in (
            (path, "GET"),
            (f"{path}?stream=true", "GET"),
            (f"{path}/input_items", "GET"),
            (f"{path}/cancel", "POST"),
            (path, "DELETE"),
        ):
            reply = await world.ask(asked, {} if method == "POST" else None, method=method)
            assert reply.status == 404, (asked, reply.body)

    asyncio.run(main())
