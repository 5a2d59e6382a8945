"""Replies that are kept and continued by their ids, and conversations that are compacted, on the Responses wire."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.clients import SCHEMA, ResponsesAgent
from gateway.stateful_clients import ChainClient, InteractionClient, RefusedError, StatefulClient
from gateway.world import ROUTES, GatewayWorld, InteractionsWorld
from segue.config.schema import CallerSettings
from segue.dialects import DIALECTS
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.errors import JournalError
from segue.gateway.accounts.account import digest_of
from segue.routing.balancer import Balancer

TOOLS = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
PATH = "/v1/responses"


@pytest.mark.parametrize("route", [ROUTES["anthropic"], ROUTES["responses"], ROUTES["gemini"]])
@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_is_continued_by_the_id_of_its_last_reply(route: str, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()

        async def send(items: Any, previous: str | None = None) -> Any:
            body = {"model": route, "input": items, "tools": TOOLS, "stream": stream}
            if previous:
                body["previous_response_id"] = previous
            reply = await world.ask(PATH, body)
            assert reply.status == 200, reply.body
            if not stream:
                return reply.json()
            last = reply.body.split(b"data: ")[-1]

            return json.loads(last)["response"]

        first = await send("Please look at two cities.")
        calls = [item for item in first["output"] if item["type"] == "function_call"]
        outputs = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"} for call in calls
        ]
        second = await send(outputs, first["id"])
        assert second["output"][-1]["content"][0]["text"] == f"I know: {len(calls)} results."
        third = await send("And thanks.", second["id"])
        assert third["status"] == "completed"
        assert world.refusals() == []

        got = (await world.ask(f"{PATH}/{second['id']}", method="GET")).json()
        assert got["id"] == second["id"]
        assert got["model"] == route
        items = (await world.ask(f"{PATH}/{second['id']}/input_items?order=asc", method="GET")).json()
        assert items["data"][-1]["type"] == "function_call_output"
        assert (await world.ask(f"{PATH}/{second['id']}/cancel", {})).status == 400
        deleted = (await world.ask(f"{PATH}/{second['id']}", method="DELETE")).json()
        assert deleted["deleted"] is True
        assert (await world.ask(f"{PATH}/{second['id']}", method="GET")).status == 404

    asyncio.run(main())


def test_another_model_continues_a_stored_reply() -> None:
    async def main() -> None:
        world = GatewayWorld()
        first = (await world.ask(PATH, {"model": ROUTES["responses"], "input": "Hello."})).json()
        assert world.reports[-1].forwarded
        body = {"model": ROUTES["anthropic"], "input": "And now?", "previous_response_id": first["id"]}
        second = (await world.ask(PATH, body)).json()
        third = {"model": ROUTES["responses"], "input": "Back.", "previous_response_id": second["id"]}
        assert (await world.ask(PATH, third)).status == 200
        sent = world.emulator.log[-1].body
        assert "previous_response_id" not in sent
        assert len(sent["input"]) >= 5
        assert world.refusals() == []

    asyncio.run(main())


def test_tokens_are_counted_and_requests_explained_with_what_they_continue() -> None:
    async def main() -> None:
        world = GatewayWorld()
        first = await world.ask(PATH, {"model": ROUTES["anthropic"], "input": "word " * 2000})
        body = {"model": ROUTES["anthropic"], "input": "And?", "previous_response_id": first.json()["id"]}
        counted = await world.ask(f"{PATH}/input_tokens", body)
        assert counted.json()["input_tokens"] > 2000, counted.body
        explained = await world.ask("/segue/v1/explain?wire=openai_responses", body)
        assert explained.json()["routes"][0]["request"]["messages"][0]["content"].count("word") == 2000
        lost = {**body, "previous_response_id": "resp_of_somebody_else"}
        refused = await world.ask(f"{PATH}/input_tokens", lost)
        assert (refused.status, refused.json()["error"]["code"]) == (400, "previous_response_not_found")

    asyncio.run(main())


def test_a_reply_that_nobody_kept_is_not_found() -> None:
    async def main() -> None:
        world = GatewayWorld()
        kept = {"model": ROUTES["anthropic"], "input": "Hello.", "store": False}
        first = (await world.ask(PATH, kept)).json()
        body = {"model": ROUTES["anthropic"], "input": "And?", "previous_response_id": first["id"]}
        reply = await world.ask(PATH, body)
        assert reply.status == 400
        assert reply.json()["error"]["code"] == "previous_response_not_found"

    asyncio.run(main())


class Summariser:
    """Sums up when asked to, else repeats the beginning of what it was sent."""

    def reply(self, prompt: Prompt) -> Reply:
        if "Write a summary" in prompt.text:
            return Reply(pieces=(Say("The user is called Ann."),))
        return Reply(pieces=(Say("Fine."),))

    def reset(self) -> None:
        """Nothing is remembered."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_is_compacted_for_a_client_by_any_model(version: int, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=Summariser())
        agent = ResponsesAgent(world, ROUTES["anthropic"])
        await agent.turn("I am Ann.")
        if version == 1:
            body = {"model": agent.model, "input": agent.history, "instructions": "Be brief."}
            compacted = (await world.ask(f"{PATH}/compact", body)).json()
            assert compacted["object"] == "response.compaction"
            agent.history = compacted["output"]
        else:
            agent.history.append({"type": "compaction_trigger"})
            reply = await world.ask(PATH, {**agent.body(agent.model), "stream": stream})
            assert reply.status == 200, reply.body
            if stream:
                decoder = DIALECTS["openai_responses"].new_decoder()
                decoder.feed(reply.body)
                assert b"response.completed" in reply.body
                assert b"response.output_item.done" in reply.body
                import json

                output = json.loads(reply.body.split(b"data: ")[-1])["response"]["output"]
            else:
                output = reply.json()["output"]
            assert [item["type"] for item in output] == ["compaction"]
            agent.history = output
        assert "Ann" not in agent.history[-1]["encrypted_content"]
        world.restart()
        for route in (ROUTES["gemini"], ROUTES["responses"]):
            agent.model = route
            await agent.turn("Who am I?")
            assert "The user is called Ann." in str(world.emulator.log[-1].body)
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("version", [1, 2])
def test_the_model_that_a_conversation_was_switched_to_compacts_it(version: int) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=Summariser())
        agent = ResponsesAgent(world, ROUTES["responses"])
        await agent.turn("I am Ann.")
        await world.gateway.settle()
        conversation = world.reports[-1].conversation
        assert await world.store.switch(conversation, ROUTES["gemini"])
        if version == 1:
            body: Any = {"model": agent.model, "input": agent.history}
            reply = await world.ask(f"{PATH}/compact", body)
        else:
            agent.history.append({"type": "compaction_trigger"})
            reply = await agent.send()
        assert reply.status == 200, reply.body
        assert reply.json()["output"][-1]["type"] == "compaction"
        assert (world.reports[-1].route, world.emulator.log[-1].provider) == (ROUTES["gemini"], "gemini")

    asyncio.run(main())


def test_a_summary_counts_as_an_answer_of_the_member_that_wrote_it() -> None:
    async def main() -> None:
        world = GatewayWorld(profiles={"team": {"members": [ROUTES["anthropic"], ROUTES["gemini"]]}})
        body = {"model": "team", "input": "Hello."}
        router = world.gateway.names.router("team")
        assert isinstance(router, Balancer)
        for _ in range(3):
            world.emulator.faults += [
                Fault(kind="status", status=503, retry_after=None, provider="anthropic"),
                Fault(kind="status", status=503, retry_after=None, provider="gemini"),
            ]
            assert (await world.ask(PATH, body)).status == 503
        assert router.statistics()[0].breaker == "open"
        later = router.now() + 31
        router.now = lambda: later
        assert (await world.ask(f"{PATH}/compact", body)).status == 200, "it is the probe"
        assert router.statistics()[0].breaker == "closed"
        reply = await world.ask(PATH, body)
        assert reply.headers["x-segue-route"] == ROUTES["anthropic"]

    asyncio.run(main())


def test_a_summary_is_asked_for_again_after_a_failure_that_passes() -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.faults.append(Fault(kind="status", status=529, provider="anthropic"))
        reply = await world.ask(f"{PATH}/compact", {"model": ROUTES["anthropic"], "input": "Hello."})
        assert reply.status == 200, reply.body

    asyncio.run(main())


def test_the_providers_own_compaction_stays_its_own() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = ResponsesAgent(world, ROUTES["responses"])
        await agent.turn("I am Ann.")
        agent.history.append({"type": "compaction_trigger"})
        reply = await agent.send()
        assert [item["type"] for item in reply.json()["output"]] == ["compaction"]
        assert world.reports[-1].forwarded
        agent.history = reply.json()["output"]
        await agent.turn("Who am I?")
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", [ROUTES["anthropic"], ROUTES["responses"]])
def test_a_store_that_fails_costs_the_record_and_not_the_reply(
    route: str, stream: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise JournalError("The disk is full.")

    async def main() -> None:
        world = GatewayWorld()
        monkeypatch.setattr(world.store, "write", fail)
        reply = await world.ask(PATH, {"model": route, "input": "Hello.", "stream": stream})
        assert reply.status == 200, reply.body
        whole = json.loads(reply.body.split(b"data: ")[-1])["response"] if stream else reply.json()
        assert whole["status"] == "completed"
        assert "A reply was not kept for its client: The disk is full." in caplog.text
        missing = await world.ask(f"{PATH}/{whole['id']}", method="GET")
        assert missing.status == 404

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("second", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize("first", ["responses", "anthropic"])
def test_items_of_stored_replies_may_be_referred_to(first: str, second: str, stream: bool) -> None:
    """Clients that leave the history with their server send the ids of its items instead."""

    async def main() -> None:
        world = GatewayWorld()
        asked = {"role": "user", "content": "Hello there."}
        body = {"model": ROUTES[first], "input": [asked], "reasoning": {"effort": "low"}}
        reply = (await world.ask(PATH, body)).json()
        said = reply["output"][-1]["content"][0]["text"]
        named = [{"type": "item_reference", "id": item["id"]} for item in reply["output"]]
        world.restart()
        more = {"role": "user", "content": "And now?"}
        again = {**body, "model": ROUTES[second], "stream": stream, "input": [asked, *named, more]}
        answered = await world.ask(PATH, again)
        assert answered.status == 200, answered.body
        assert world.refusals() == []
        sent = world.emulator.log[-1].body or {}
        # A provider that has the items itself gets the references as they came.
        forwarded = first == second == "responses"
        assert world.reports[-1].forwarded is forwarded
        assert (sent.get("input") == again["input"]) if forwarded else (said in str(sent))

    asyncio.run(main())


@pytest.mark.parametrize("route", [ROUTES["responses"], ROUTES["anthropic"], ROUTES["gemini"]])
@pytest.mark.parametrize("text", ["Hello.", "Please look."])
def test_a_reply_that_was_streamed_is_fetched_as_it_was_streamed(route: str, text: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": route, "input": text, "tools": TOOLS, "stream": True, "reasoning": {"effort": "low"}}
        streamed = await world.ask(PATH, body)
        reply = json.loads(streamed.body.split(b"data: ")[-1])["response"]
        assert (await world.ask(f"{PATH}/{reply['id']}", method="GET")).json() == reply
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        named = [
            {"type": "item_reference", "id": item["id"]} for item in reply["output"] if item not in calls
        ]
        results = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"} for call in calls
        ]
        asked = {"role": "user", "content": text}
        for after in (ROUTES["anthropic"], ROUTES["responses"]):
            again = {**body, "model": after, "input": [asked, *named, *calls, *results, asked]}
            assert (await world.ask(PATH, again)).status == 200
            assert world.refusals() == []

    asyncio.run(main())


def test_items_that_nobody_has_are_refused_by_name_and_those_of_others_are_not_found() -> None:
    async def main() -> None:
        world = GatewayWorld(
            callers={name: CallerSettings(key_sha256=digest_of(f"key-of-{name}")) for name in ("ann", "bob")}
        )
        ann, bob = ({"authorization": f"Bearer key-of-{name}"} for name in ("ann", "bob"))
        asked = {"role": "user", "content": "Hello there."}
        body = {"model": ROUTES["anthropic"], "input": [asked]}
        reply = (await world.ask(PATH, body, headers=ann)).json()
        named = {"type": "item_reference", "id": reply["output"][-1]["id"]}
        again = {**body, "input": [asked, named, asked]}
        assert (await world.ask(PATH, again, headers=ann)).status == 200
        sent = len(world.emulator.log)
        refused = await world.ask(PATH, again, headers=bob)
        assert (refused.status, refused.json()["error"]["param"]) == (404, "input")
        assert refused.json()["error"]["code"] is None
        assert named["id"] in refused.json()["error"]["message"]
        assert len(world.emulator.log) == sent
        # The provider itself may know it.
        elsewhere = {**again, "model": ROUTES["responses"]}
        unknown = await world.ask(PATH, elsewhere, headers=bob)
        assert unknown.status == 404
        assert [entry.rule for entry in world.refusals()] == ["RESP-45"]
        deleted = await world.ask(f"{PATH}/{reply['id']}", method="DELETE", headers=ann)
        assert deleted.status == 200
        assert (await world.ask(PATH, again, headers=ann)).status == 404

    asyncio.run(main())


@pytest.mark.parametrize("wire", [ChainClient, InteractionClient])
def test_a_link_that_another_gateway_deleted_ends_a_conversation_at_once(wire: type[StatefulClient]) -> None:
    """Also where the conversation was continued a moment ago, and all of it is at hand."""

    async def main() -> None:
        world = InteractionsWorld()
        client = wire(world)
        await client.send([client.said("One.")], ROUTES["anthropic"])
        first = client.fork()
        for text in ("Two.", "Three."):
            await client.send([client.said(text)], ROUTES["anthropic"])
        here = world.gateway
        world.restart()
        assert await first.delete() == 200
        world.gateway = here
        asked = len(world.emulator.log)
        with pytest.raises(RefusedError) as refused:
            await client.send([client.said("Four.")], ROUTES["anthropic"])
        assert refused.value.status in client.lost
        assert len(world.emulator.log) == asked

    asyncio.run(main())


@pytest.mark.parametrize("route", [ROUTES["responses"], ROUTES["anthropic"]])
def test_an_input_of_no_kind_is_refused_and_not_left_out(route: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        first = await world.ask(PATH, {"model": route, "input": "Hello."})
        body = {"model": route, "input": {"role": "user"}, "previous_response_id": first.json()["id"]}
        for streamed in (False, True):
            refused = await world.ask(PATH, {**body, "stream": streamed})
            assert (refused.status, refused.json()["error"]["param"]) == (400, "input")
        assert len(world.emulator.log) == 1

    asyncio.run(main())
