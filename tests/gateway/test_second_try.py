"""A request that the provider refuses is tried once more without what only another account or model knows, and reports it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.clients import AGENTS, MessagesAgent
from gateway.world import ROUTES, GatewayResponse, GatewayWorld
from segue.dialects import DIALECTS
from segue.emulators.faults import Fault

REFUSED = Fault(kind="status", status=400, message="Not for this account.", provider="anthropic")
SIGNED = {"type": "thinking", "thinking": "Elsewhere.", "signature": "c2lnbmVkIGVsc2V3aGVyZQ=="}
BODY: dict[str, Any] = {
    "model": ROUTES["anthropic"],
    "max_tokens": 4000,
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "context_management": {"edits": []},
    "messages": [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [SIGNED, {"type": "text", "text": "Hello!"}]},
        {"role": "user", "content": "And now?"},
    ],
}
HEADERS = {**MessagesAgent.headers, "anthropic-beta": "context-management-2025-06-27"}


async def send(world: GatewayWorld, **headers: str) -> GatewayResponse:
    world.emulator.faults.append(REFUSED)
    return await world.ask("/v1/messages", BODY, headers={**HEADERS, **headers})


def test_what_the_second_try_is_without_is_reported() -> None:
    async def main() -> None:
        world = GatewayWorld()
        reply = await send(world)
        assert reply.status == 200, reply.body
        repairs = dict(one.split("=") for one in reply.headers["x-segue-repairs"].split(", "))
        assert int(repairs["option_not_sent"]) >= 2  # the beta and the field
        assert reply.headers["x-segue-losses"] == "reasoning_dropped=1"
        sent = world.asked(ROUTES["anthropic"])[-1].body
        assert "context_management" not in sent
        assert b"Elsewhere" not in msgspec.json.encode(sent)
        assert world.reports[-1].losses == {"reasoning_dropped": 1}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("claude-opus-4-7", {"type": "enabled", "budget_tokens": 2000}, {"type": "adaptive"}),
        ("claude-haiku-5-5", {"type": "enabled", "budget_tokens": 2000}, {"type": "adaptive"}),
        ("claude-opus-5-5", {"type": "disabled"}, None),
        ("claude-haiku-4-5", {"type": "adaptive"}, None),
        ("claude-opus-4-6", {"type": "enabled", "budget_tokens": 2000}, "as it came"),
        ("claude-opus-4-7", {"type": "adaptive", "display": "summarized"}, "as it came"),
    ],
)
def test_a_model_that_is_known_to_refuse_a_way_of_thinking_is_asked_once(
    model: str, asked: dict[str, Any], sent: Any
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": f"anthropic/{model}", "max_tokens": 4000, "thinking": asked}
        body["messages"] = [{"role": "user", "content": "Hello."}]
        reply = await world.ask("/v1/messages", body, headers=MessagesAgent.headers)
        assert reply.status == 200, reply.body
        assert [one.body.get("thinking") for one in world.asked(f"anthropic/{model}")] == [
            asked if sent == "as it came" else sent
        ]
        changed = "thinking_changed=1" in reply.headers.get("x-segue-repairs", "")
        assert changed == (sent != "as it came")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (Fault(kind="status", status=400, message="Still not.", provider="anthropic"), 400),
        (Fault(kind="status", status=529, message="Full.", provider="anthropic"), 200),
        (Fault(kind="status", status=401, message="No.", provider="anthropic"), 500),
    ],
)
def test_a_second_try_that_fails_for_another_reason_is_no_refusal(second: Fault, status: int) -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.faults += [REFUSED, second]
        reply = await world.ask("/v1/messages", BODY, headers=HEADERS)
        assert reply.status == status, reply.body
        if status == 400:
            assert b"Not for this account." in reply.body, (
                "the client gets what is wrong with its own request"
            )

    asyncio.run(main())


def test_a_strict_client_is_refused_a_second_try_with_less() -> None:
    async def main() -> None:
        world = GatewayWorld()
        reply = await send(world, **{"x-segue-strict": "true"})
        assert reply.status == 422
        message = reply.json()["error"]["message"]
        assert "reasoning_dropped=1" in message
        assert "Not for this account." in message
        assert len(world.asked(ROUTES["anthropic"])) == 1

    asyncio.run(main())


def test_an_empty_reply_in_a_history_is_dropped_before_the_provider_sees_it() -> None:
    async def main() -> None:
        world = GatewayWorld()
        history = [BODY["messages"][0], {"role": "assistant", "content": []}, BODY["messages"][2]]
        body = {"model": ROUTES["anthropic"], "max_tokens": 4000, "messages": history}
        reply = await world.ask("/v1/messages", body, headers=MessagesAgent.headers)
        assert reply.status == 200, reply.body
        assert world.refusals() == []
        assert reply.headers["x-segue-repairs"] == "blank_text=1"

    asyncio.run(main())


def test_a_refusal_by_another_wire_is_not_sent_twice() -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.faults.append(Fault(kind="status", status=400, provider="openai"))
        reply = await world.ask("/v1/messages", {**BODY, "model": ROUTES["chat"]}, headers=HEADERS)
        assert reply.status == 400
        assert len(world.asked(ROUTES["chat"])) == 1

    asyncio.run(main())


def test_fields_of_the_clients_own_wire_are_reported_where_another_answers() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["anthropic"], "messages": BODY["messages"][:1], "logit_bias": {"50256": -100}}
        reply = await world.ask("/v1/chat/completions", body)
        assert "option_not_sent=1" in reply.headers["x-segue-repairs"]

    asyncio.run(main())


# What cannot be read


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("depth", [300, 900, 5000])
def test_json_of_any_depth_is_served_or_refused_in_the_clients_envelope(wire: str, depth: int) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["kimi" if wire != "openai_chat" else "anthropic"])
        agent.add_user("Look.")
        body = msgspec.json.encode(agent.body(agent.model))
        deep = body.replace(b'"object"', b'"object","default":' + b"[" * depth + b"]" * depth, 1)
        reply = await world.ask(agent.path(agent.model), deep, headers=agent.headers)
        assert reply.status in (200, 400), reply.body
        if reply.status == 400:
            assert "nests deeper" in DIALECTS[wire].decode_error(400, {}, reply.body).message
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_a_lone_surrogate_is_served(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["kimi" if wire != "openai_chat" else "anthropic"])
        agent.add_user("Look at MARK.")
        body = msgspec.json.encode(agent.body(agent.model)).replace(b"MARK", rb"\ud83d", 1)
        reply = await world.ask(agent.path(agent.model), body, headers=agent.headers)
        assert reply.status == 200, reply.body
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("think", "effort"), [(True, "medium"), (False, "none"), ("high", "high"), (None, None)]
)
def test_a_client_of_ollama_that_asks_for_thoughts_gets_them_from_any_model(
    think: object, effort: str | None
) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello."}], "think": think}
    assert DIALECTS["ollama"].decode_request(body).options.effort == effort


@pytest.mark.parametrize("store", [False, True, None])
@pytest.mark.parametrize("stream", [False, True])
def test_a_thought_that_the_provider_does_not_keep_is_left_out(store: bool | None, stream: bool) -> None:
    """Of chats that were stored for another account, or not at all, only the id of a thought is left."""

    async def main() -> None:
        world = GatewayWorld()
        thought = {"type": "reasoning", "id": "rs_06a2c7446adc9ae1", "summary": []}
        answer = {"type": "output_text", "text": "Hello!", "annotations": []}
        body: dict[str, Any] = {
            "model": ROUTES["responses"],
            "stream": stream,
            "input": [
                {"role": "user", "content": "Hello."},
                thought,
                {"type": "message", "id": "msg_06a2c7446adc9ae1", "role": "assistant", "content": [answer]},
                {"role": "user", "content": "And now?"},
            ],
        }
        reply = await world.ask("/v1/responses", body if store is None else {**body, "store": store})
        assert reply.status == 200, reply.body
        # Where nothing is stored, nobody needs to ask.
        assert [entry.rule for entry in world.refusals()] == ([] if store is False else ["RESP-45"])
        assert reply.headers["x-segue-losses"] == "reasoning_dropped=1"
        assert b"rs_06a2c7446adc9ae1" not in msgspec.json.encode(world.emulator.log[-1].body)

    asyncio.run(main())


def test_an_unknown_model_is_not_asked_for_twice() -> None:
    async def main() -> None:
        world = GatewayWorld()
        fault = Fault(kind="status", status=404, message="No such model.", provider="openai")
        world.emulator.faults.append(fault)
        reply = await world.ask("/v1/responses", {"model": ROUTES["responses"], "input": "Hello."})
        assert reply.status == 404
        assert len(world.emulator.log) == 1

    asyncio.run(main())


@pytest.mark.parametrize("role", ["function", "tool"])
def test_an_old_role_of_results_is_today_s_in_the_second_try(role: str) -> None:
    call = {
        "functionCall": {"name": "look", "args": {}},
        "thoughtSignature": "skip_thought_signature_validator",
    }
    result = {"functionResponse": {"name": "look", "response": {"result": "rain"}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "Look."}]},
            {"role": "model", "parts": [call]},
            {"role": role, "parts": [result]},
        ]
    }

    async def main() -> None:
        world = GatewayWorld()
        reply = await world.ask(f"/v1beta/models/{ROUTES['gemini']}:generateContent", body)
        assert reply.status == 200, reply.body
        tried = [[content["role"] for content in entry.body["contents"]] for entry in world.emulator.log]
        assert tried == [["user", "model", role], ["user", "model", "user"]]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "field", "most"),
    [("/v1/chat/completions", "stop", 4), (f"/v1beta/models/{ROUTES['gemini']}:generateContent", "", 5)],
)
def test_a_client_may_name_more_stop_sequences_than_its_provider_takes(
    path: str, field: str, most: int
) -> None:
    """Editors do, for completions: they have one for each keyword of a language."""
    stop = [f"end {number}" for number in range(14)]
    body = (
        {"model": ROUTES["chat"], "messages": [{"role": "user", "content": "Hi"}], "stop": stop}
        if field
        else {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "generationConfig": {"stopSequences": stop},
        }
    )

    async def main() -> None:
        world = GatewayWorld()
        reply = await world.ask(path, body)
        assert reply.status == 200, reply.body
        assert reply.headers["x-segue-repairs"] == "option_not_sent=1"
        sent = world.emulator.log[-1].body
        assert (sent[field] if field else sent["generationConfig"]["stopSequences"]) == stop[:most]

    asyncio.run(main())
