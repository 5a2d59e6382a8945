"""No field that stands for content is ever dropped: its provider gets it, or the client a refusal in the words of its wire."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import product
from typing import Any

import pytest

from gateway.clients import AGENTS, MessagesAgent
from gateway.referring_requests import HELD_HEADERS, REFERRING, SHORT, Referring
from gateway.upstream import body_in
from gateway.world import ROUTES, GatewayResponse, GatewayWorld
from segue.dialects.registry import DIALECTS
from segue.emulators.faults import Fault
from segue.providers.hosts.addresses import is_home


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
@pytest.mark.parametrize("target", ROUTES)
def test_what_stands_for_content_is_seen_by_a_provider_or_refused(case: Referring, target: str) -> None:
    # Every two of the three ways meet in each pair of case and target, all three in each case.
    odd = (REFERRING.index(case) + list(ROUTES).index(target)) % 2 == 1

    async def main() -> None:
        for stream, strict in product((False, True), repeat=2):
            await check(case, target, stream=stream, strict=strict, refused=stream ^ strict ^ odd)

    asyncio.run(main())


async def check(case: Referring, target: str, *, stream: bool, strict: bool, refused: bool) -> None:
    world, route = GatewayWorld(), ROUTES[target]
    provider = route.partition("/")[0]
    if refused:  # whatever is sent first: then the request is planned and sent once more
        world.emulator.faults.append(
            Fault(kind="status", status=400, message="Not for this account.", provider=provider)
        )
    headers = {**case.headers, **({"x-segue-strict": "true"} if strict else {})}
    body = case.body(route, stream=stream)
    reply = await world.ask(case.path(route, stream=stream), body, headers=headers)
    sent = [json.dumps(entry.body) for entry in world.emulator.log]
    assert all(case.sees in body for body in sent), (case.name, sent)
    if reply.status == 200:
        assert sent, "somebody answered, and nobody was asked"
        return
    assert_refused(case, reply, sent, home=is_home(provider, case.wire))


def assert_refused(case: Referring, reply: GatewayResponse, sent: list[str], *, home: bool) -> None:
    """In the words of the wire if nobody holds it; else the provider's own refusal."""
    error = DIALECTS[case.wire].decode_error(reply.status, {}, reply.body)
    assert error.message
    if sent:
        assert home, "it is sent to its own provider only"
        return
    assert reply.status in (case.status, 422), reply.body
    if reply.status == case.status:
        written = json.dumps(reply.json())
        assert all(part in written for part in case.says), written


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
def test_it_reaches_the_provider_that_may_hold_it(case: Referring) -> None:
    async def main() -> None:
        home = next(
            name
            for name in (ROUTES["responses"], *ROUTES.values())
            if is_home(name.partition("/")[0], case.wire)
            and (case.wire != "openai_chat" or name == ROUTES["chat"])
            and (case.wire != "openai_responses" or name == ROUTES["responses"])
        )
        for stream in (False, True):
            world = GatewayWorld()
            body = case.body(home, stream=stream)
            await world.ask(case.path(home, stream=stream), body, headers=case.headers)
            assert world.emulator.log, "its own provider was not asked"
            assert case.sees in json.dumps(world.emulator.log[0].body)

    asyncio.run(main())


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
@pytest.mark.parametrize("order", [1, -1])
def test_no_other_member_gets_the_rest_of_a_conversation(case: Referring, order: int) -> None:
    """Neither at first nor when the holder fails."""

    async def main() -> None:
        members = [ROUTES["kimi"], ROUTES["anthropic"], ROUTES["responses"], ROUTES["gemini"]][::order]
        for fails in (False, True):
            world = GatewayWorld(profiles={"team": {"members": members, "policy": "failover"}})
            if fails:
                world.emulator.faults += [Fault(kind="status", status=529, message="Full.")] * 2
            body = case.body("team", stream=False)
            reply = await world.ask(case.path("team", stream=False), body, headers=case.headers)
            sent = [json.dumps(entry.body) for entry in world.emulator.log]
            assert all(case.sees in body for body in sent), (case.name, sent)
            if case.wire not in ("openai_chat", "mistral"):  # whose own provider is a member
                assert sent, reply.body

    asyncio.run(main())


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
def test_an_explanation_says_that_it_is_refused(case: Referring) -> None:
    async def main() -> None:
        world = GatewayWorld()
        route = ROUTES["ollama"]
        query = f"/segue/v1/explain?wire={case.wire}&to={route}&model={route}"
        reply = await world.ask(query, case.body(route, stream=False), headers=case.headers)
        (explained,) = reply.json()["routes"]
        assert explained["error"]["message"]

    asyncio.run(main())


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
def test_a_provider_of_two_wires_is_asked_on_that_of_the_client(case: Referring) -> None:
    """Whichever of them its model is asked on otherwise."""
    if case.wire not in ("openai_chat", "openai_responses"):
        return

    async def main() -> None:
        world = GatewayWorld()
        other = ROUTES["chat" if case.wire == "openai_responses" else "responses"]
        await world.ask(case.path(other, stream=False), case.body(other, stream=False), headers=case.headers)
        (entry,) = world.emulator.log
        assert entry.path == case.path(other, stream=False)
        assert case.sees in json.dumps(entry.body)

    asyncio.run(main())


@pytest.mark.parametrize("at", [0, 40, -1])
def test_it_is_found_in_a_history_that_was_read_before(at: int) -> None:
    """Of a long history only the end is read again."""

    async def main() -> None:
        world, route = GatewayWorld(), ROUTES["chat"]
        long = "A sentence that makes the history long enough to be kept. " * 20
        turns: list[dict[str, Any]] = [
            message
            for number in range(30)
            for message in (
                {"role": "user", "content": f"{number} {long}"},
                {"role": "assistant", "content": f"Yes, {number}."},
            )
        ]
        file = {"type": "document", "source": {"type": "file", "file_id": "file_held"}}
        turns[at] = {**turns[at], "content": [file, {"type": "text", "text": "?"}]} if at >= 0 else turns[at]
        for last in ("One.", "Two.", "Three."):
            content: Any = [{"type": "text", "text": last}, *([file] if at < 0 and last == "Three." else [])]
            turns.append({"role": "user", "content": content})
            body = {"model": route, "max_tokens": 100, "messages": turns}
            reply = await world.ask("/v1/messages", body, headers=HEADERS)
            refers = at >= 0 or last == "Three."
            assert reply.status == (400 if refers else 200), reply.body
            turns.append({"role": "assistant", "content": "I know: 0 results."})

    asyncio.run(main())


# Threads


def thread(kind: object, *messages: object, model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 400, "messages": list(messages), "thread": kind, **fields}


def after(reply: GatewayResponse) -> dict[str, str]:
    return {"type": "continue", "previous_message_id": reply.json()["id"]}


HEADERS = {**MessagesAgent.headers, **HELD_HEADERS}
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}


def test_a_thread_at_its_own_provider_is_continued_there() -> None:
    async def main() -> None:
        world, model = GatewayWorld(), ROUTES["anthropic"]
        first = await world.ask(
            "/v1/messages",
            thread(
                {"type": "create"}, {"role": "user", "content": "Please look."}, model=model, tools=[WEATHER]
            ),
            headers=HEADERS,
        )
        calls = [block["id"] for block in first.json()["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": one, "content": "rain"} for one in calls]
        body = thread(after(first), {"role": "user", "content": results}, model=model)
        second = await world.ask("/v1/messages", body, headers=HEADERS)
        assert second.json()["content"][-1]["text"] == "I know: 2 results."
        assert world.refusals() == []

    asyncio.run(main())


def test_details_of_the_providers_own_refusal_reach_the_client() -> None:
    """Of a thread that was created there, and not here."""

    async def main() -> None:
        world, model = GatewayWorld(), ROUTES["anthropic"]
        body = thread({"type": "create"}, SHORT, model=model.partition("/")[2])
        headers = {**HEADERS, "x-api-key": "sk-emulated"}
        first = await world.ask("/anthropic/v1/messages", body, headers=headers, app=world.app)
        for _ in range(2):
            again = await world.ask("/v1/messages", thread(after(first), SHORT, model=model), headers=HEADERS)
        assert again.status == 400
        assert again.json()["error"]["details"] == {"error_code": "thread_already_continued"}
        assert len(world.refusals()) == 1, "a refused continuation is not planned and sent again"

    asyncio.run(main())


def test_a_conversation_at_its_own_provider_is_continued_there_and_nowhere_else() -> None:
    """Also by the id of a reply whose beginning only that provider knows."""

    async def main() -> None:
        world, model = GatewayWorld(), ROUTES["responses"]
        headers = {"authorization": "Bearer sk-emulated"}
        made = await world.ask("/openai/v1/conversations", {}, headers=headers, app=world.app)
        body = {"model": model, "input": "Hello.", "conversation": made.json()["id"]}
        first = await world.ask("/v1/responses", body)
        assert first.json()["conversation"]["id"] == made.json()["id"]
        later = {"input": "And now?", "previous_response_id": first.json()["id"]}
        elsewhere = await world.ask("/v1/responses", {**later, "model": ROUTES["anthropic"]})
        assert elsewhere.json()["error"]["code"] == "previous_response_not_found"
        there = await world.ask("/v1/responses", {**later, "model": model})
        assert there.status == 200, there.body
        assert world.emulator.log[-1].body["previous_response_id"] == first.json()["id"]

    asyncio.run(main())


def test_cached_content_is_built_upon_at_its_own_provider() -> None:
    async def main() -> None:
        world = GatewayWorld()
        content = {
            "model": "models/gemini-3.5-flash",
            "contents": [{"role": "user", "parts": [{"text": "A."}]}],
        }
        keys = {"x-goog-api-key": "sk-emulated"}
        made = await world.ask("/gemini/v1beta/cachedContents", content, headers=keys, app=world.app)
        case = next(case for case in REFERRING if case.name == "cachedContent")
        body = {**case.fields, "cachedContent": made.json()["name"]}
        path = case.path(ROUTES["gemini"], stream=False)
        assert (await world.ask(path, body, headers=case.headers)).status == 200
        lost = await world.ask(path, case.fields, headers=case.headers)
        assert lost.status == 403, "clients then send everything"

    asyncio.run(main())


def test_the_customer_who_pays_is_named_to_the_provider() -> None:
    """Also where the request is planned: after another model answered a part of the conversation."""

    async def main() -> None:
        world, case = GatewayWorld(), next(case for case in REFERRING if case.name == "customer who pays")
        messages: list[Any] = [{"role": "user", "content": "Hello."}]
        elsewhere = {"model": ROUTES["gemini"], "max_tokens": 400, "messages": messages}
        first = await world.ask("/v1/messages", elsewhere, headers=case.headers)
        messages += [{"role": "assistant", "content": first.json()["content"]}, SHORT]
        body = {**case.body(ROUTES["anthropic"], stream=False), "messages": messages}
        billed = await world.ask("/v1/messages", body, headers=case.headers)
        assert billed.status == 200, billed.body
        nobody = {name: value for name, value in case.headers.items() if "user-profile" not in name}
        refused = await world.ask("/v1/messages", body, headers=nobody)
        assert refused.status == 400
        assert refused.json()["error"]["details"] == {"error_code": "user_profile_required"}
        for entry in list(world.emulator.log)[1:]:
            assert entry.body["billing_policy"] == case.fields["billing_policy"]

    asyncio.run(main())


# Values of no kind that they may have


@pytest.mark.parametrize("target", ["anthropic", "chat", "gemini", "kimi"])
@pytest.mark.parametrize(
    ("wire", "fields"),
    [
        ("openai_responses", {"previous_response_id": 5}),
        ("openai_responses", {"previous_response_id": ""}),
        ("openai_responses", {"conversation": 5}),
        ("openai_responses", {"conversation": []}),
        ("openai_responses", {"conversation": {"id": ""}}),
        ("openai_responses", {"prompt": {}}),
        ("anthropic", {"thread": 5}),
        ("anthropic", {"thread": {}}),
        ("anthropic", {"thread": "continue"}),
        ("gemini", {"cachedContent": 5}),
        ("mistral", {"agent_id": ""}),
    ],
)
def test_what_names_nothing_that_can_be_held_is_no_reason_to_leave_it_out(
    wire: str, fields: dict[str, Any], target: str
) -> None:
    async def main() -> None:
        case = next(case for case in REFERRING if case.wire == wire and case.fields.keys() & fields.keys())
        if is_home(ROUTES[target].partition("/")[0], wire):
            return  # it says itself what is wrong
        for strict in ({}, {"x-segue-strict": "true"}):
            world = GatewayWorld()
            body = {**case.body(ROUTES[target], stream=False), **fields}
            path = case.path(ROUTES[target], stream=False)
            reply = await world.ask(path, body, headers={**case.headers, **strict})
            assert reply.status == case.status, reply.body
            assert not world.emulator.log

    asyncio.run(main())


# Counts and compaction


@pytest.mark.parametrize("name", ["conversation", "prompt", "previous_response_id", "compaction item"])
@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/responses/compact"])
def test_a_part_of_a_conversation_is_neither_counted_nor_compacted(name: str, path: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        case = next(case for case in REFERRING if case.name == name)
        for route in (ROUTES["anthropic"], ROUTES["kimi"]):
            body = {"model": route, **case.fields}
            reply = await world.ask(path, body, headers={"x-segue-estimate": "true"})
            assert reply.status == case.status, reply.body
        assert not world.emulator.log

    asyncio.run(main())


def test_a_thread_is_not_counted() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = thread({"type": "continue", "previous_message_id": "msg_1"}, SHORT, model=ROUTES["anthropic"])
        del body["max_tokens"]
        reply = await world.ask("/v1/messages/count_tokens", body, headers=HEADERS)
        assert reply.json()["error"]["details"] == {"error_code": "thread_not_found"}
        counted = {"generateContentRequest": {"contents": [], "cachedContent": "cachedContents/held"}}
        path = f"/v1beta/models/{ROUTES['anthropic']}:countTokens"
        reply = await world.ask(path, counted, headers=AGENTS["gemini"].headers)
        assert reply.json()["error"]["status"] == "INVALID_ARGUMENT"
        assert not world.emulator.log

    asyncio.run(main())


# Strict clients


def test_a_strict_client_is_refused_a_lost_option() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["anthropic"], "messages": [SHORT], "logit_bias": {"50256": -100}}
        reply = await world.ask("/v1/chat/completions", body, headers={"x-segue-strict": "true"})
        assert reply.status == 422
        assert "option_not_sent=1" in reply.json()["error"]["message"]
        assert not world.emulator.log

    asyncio.run(main())


def test_a_strict_client_loses_nothing_by_what_the_gateway_does_itself() -> None:
    async def main() -> None:
        world = GatewayWorld()
        headers = {"x-segue-strict": "true"}
        kept = {"model": ROUTES["anthropic"], "input": "Hello.", "store": True, "prompt_cache_key": "k"}
        first = await world.ask("/v1/responses", kept, headers=headers)
        assert first.status == 200, first.body
        again = {**kept, "previous_response_id": first.json()["id"]}
        assert (await world.ask("/v1/responses", again, headers=headers)).status == 200

    asyncio.run(main())


def test_a_holder_that_fails_is_not_said_to_hold_nothing() -> None:
    """A client would give its conversation up. Only clients of threads send the whole, which another member can answer."""

    async def main() -> None:
        for name, status in (("conversation", 503), ("thread", 404)):
            case = next(case for case in REFERRING if case.name == name)
            members = [ROUTES["kimi"], ROUTES["anthropic"], ROUTES["responses"]]
            world = GatewayWorld(profiles={"team": {"members": members, "policy": "failover"}})
            holder = "anthropic" if name == "thread" else "openai"
            fault = Fault(kind="status", status=503, message="Full.", provider=holder)
            world.emulator.faults += [fault] * 3
            body = case.body("team", stream=False)
            reply = await world.ask(case.path("team", stream=False), body, headers=case.headers)
            assert reply.status == status, reply.body

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("route", ROUTES.values())
def test_a_strict_client_that_asks_for_nothing_special_is_served(wire: str, route: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, route)
        agent.add_user("Hello.")
        fields = ("model", "messages", "input", "contents", "max_tokens", "tools", "store")
        body = {name: value for name, value in agent.body(route).items() if name in fields}
        headers = {**agent.headers, "x-segue-strict": "true"}
        reply = await world.ask(agent.path(route), body, headers=headers)
        assert reply.status == 200, reply.body

    asyncio.run(main())


@pytest.mark.parametrize("target", ROUTES)
def test_a_spoken_reply_whose_words_come_along_is_content(target: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        spoken = {"id": "audio_held", "transcript": "It rains in Rome."}
        messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "audio": spoken}, SHORT]
        reply = await world.ask("/v1/chat/completions", {"model": ROUTES[target], "messages": messages})
        assert reply.status == 200, reply.body
        assert "It rains in Rome." in json.dumps(world.emulator.log[-1].body)
        assert "held by the provider" not in json.dumps(world.emulator.log[-1].body)

    asyncio.run(main())


@pytest.mark.parametrize("case", REFERRING, ids=lambda case: f"{case.wire}-{case.name}")
def test_a_refusal_says_what_to_do(case: Referring) -> None:
    async def main() -> None:
        route = ROUTES["anthropic" if case.wire != "anthropic" else "chat"]
        reply = await GatewayWorld().ask(
            case.path(route, stream=False), case.body(route, stream=False), headers=case.headers
        )
        error = DIALECTS[case.wire].decode_error(reply.status, {}, reply.body)
        assert re.search(r"(Send|Offer|Remove) .*\.$", error.message), error.message
        if re.search("file|tool|item|image|spoken", case.name) and case.name != "item_reference":
            assert "go back to a model of" in error.message
            place = re.search(r"(messages|input|contents|tools)[.\[]\d", error.message)
            assert place is not None, error.message

    asyncio.run(main())


class Speaking:
    """OpenAI speaks, whole or streamed; all others are the emulators."""

    def __init__(self, others: Any) -> None:
        self._others = others
        self.heard: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not scope["path"].startswith("/openai"):
            await self._others(scope, receive, send)
            return
        asked = json.loads(await body_in(receive))
        self.heard.append(asked["messages"])
        spoken = {"id": "audio_held", "transcript": "It rains in Rome.", "data": "UklGRg==", "expires_at": 9}
        reply: dict[str, Any] = {"id": "chatcmpl-1", "created": 1, "model": "gpt-4.1"}
        kind, body = "application/json", b""
        if asked.get("stream"):
            kind = "text/event-stream"
            pieces = [{"role": "assistant"}, *({"audio": {name: held}} for name, held in spoken.items()), {}]
            for piece in pieces:
                choice = {"index": 0, "delta": piece, "finish_reason": None if piece else "stop"}
                chunk = {**reply, "object": "chat.completion.chunk", "choices": [choice]}
                body += b"data: " + json.dumps(chunk).encode() + b"\n\n"
            body += b"data: [DONE]\n\n"
        else:
            said = {"role": "assistant", "content": None, "audio": spoken}
            choice = {"index": 0, "message": said, "finish_reason": "stop"}
            body = json.dumps({**reply, "object": "chat.completion", "choices": [choice]}).encode()
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("target", [target for target in ROUTES if target not in ("chat", "responses")])
@pytest.mark.parametrize("stream", [False, True])
def test_the_words_of_a_spoken_reply_that_passed_through_are_known(target: str, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        openai = Speaking(world.app)
        world.app = openai  # type: ignore[assignment]
        world.restart()
        hello = {"role": "user", "content": "Hello."}
        asked = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
        body = {"model": ROUTES["chat"], "messages": [hello], "stream": stream, **asked}
        first = await world.ask("/v1/chat/completions", body)
        assert first.status == 200, first.body
        messages = [hello, {"role": "assistant", "audio": {"id": "audio_held"}}, SHORT]
        await world.ask("/v1/chat/completions", {**body, "messages": messages})
        assert openai.heard[-1] == messages
        second = await world.ask("/v1/chat/completions", {"model": ROUTES[target], "messages": messages})
        assert second.status == 200, second.body
        seen = json.dumps(world.emulator.log[-1].body)
        assert seen.count("It rains in Rome.") == 1
        assert "audio_held" not in seen
        # Again, when its beginning is known; and its own provider gets the id back.
        longer = [*messages, {"role": "assistant", "content": "I see."}, SHORT]
        third = await world.ask("/v1/chat/completions", {"model": ROUTES[target], "messages": longer})
        assert third.status == 200, third.body
        fourth = await world.ask("/v1/chat/completions", {"model": ROUTES["chat"], "messages": longer})
        assert fourth.status == 200, fourth.body
        spoken = openai.heard[-1][1]
        assert spoken["audio"] == {"id": "audio_held"}
        assert spoken.get("content") in (None, "It rains in Rome.")
        assert [*openai.heard[-1][:1], *openai.heard[-1][2:]] == [*longer[:1], *longer[2:]]

    asyncio.run(main())
