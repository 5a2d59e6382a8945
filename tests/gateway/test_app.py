"""The gateway as an application: doors, names, errors, limits, forwarded bytes, broken streams."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from typing import Any

import msgspec
import pytest

from gateway.clients import AGENTS, ChatAgent, MessagesAgent
from gateway.world import ADDRESSES, ROUTES, GatewayWorld
from segue.config.schema import CallerSettings, GatewayLimits
from segue.dialects import DIALECTS
from segue.emulators.faults import Fault
from segue.emulators.model import model_facts
from segue.emulators.model.model_reply import Call, Reply, Say
from segue.gateway.app import Gateway
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello."}]}


def chat(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, **HELLO, **fields}


# Names


def test_a_name_that_clients_insist_on_leads_to_a_profile_and_comes_back_in_the_reply() -> None:
    async def main() -> None:
        team = {"team": {"members": [ROUTES["gemini"]]}}
        world = GatewayWorld(profiles=team, models={"claude-*": "team", "claude-3-*": ROUTES["chat"]})
        agent = MessagesAgent(world, "claude-opus-9")
        await agent.turn("Hello.")
        assert agent.replies[-1].headers["x-segue-route"] == ROUTES["gemini"]
        assert agent.replies[-1].json()["model"] == "claude-opus-9"
        older = await world.ask(CHAT, chat("claude-3-haiku"))
        assert older.headers["x-segue-route"] == ROUTES["chat"]

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_an_unknown_model_is_not_found_in_the_envelope_of_the_wire(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, "nobody")
        agent.add_user("Hello.")
        reply = await agent.send()
        assert reply.status == 404
        error = DIALECTS[wire].decode_error(reply.status, reply.headers, reply.body)
        assert 'no model "nobody"' in error.message

    asyncio.run(main())


def test_the_default_model_answers_for_names_that_lead_nowhere() -> None:
    async def main() -> None:
        world = GatewayWorld(model="fast")
        reply = await world.ask(CHAT, chat("nobody"))
        assert reply.headers["x-segue-route"] == ROUTES["chat"]
        assert reply.json()["model"] == "nobody"

    asyncio.run(main())


# Forwarding


def test_a_request_of_the_providers_own_wire_goes_through_byte_for_byte_but_for_the_models_name() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {
            "model": ROUTES["anthropic"],
            "max_tokens": 100,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
            "metadata": {"user_id": "somebody"},
        }
        headers = {**MessagesAgent.headers, "anthropic-beta": "context-1m-2025-08-07"}
        reply = await world.ask("/v1/messages?beta=true", body, headers=headers)
        assert reply.status == 200
        assert world.reports[-1].forwarded
        assert world.emulator.log[-1].body == {**body, "model": "claude-sonnet-4-6"}
        assert reply.json()["model"] == ROUTES["anthropic"]
        assert "x-segue-repairs" not in reply.headers

    asyncio.run(main())


def test_a_forwarded_stream_has_the_asked_name_and_nothing_else_changed() -> None:
    async def main() -> None:
        world = GatewayWorld()
        request = {"max_tokens": 100, "stream": True, **HELLO}
        reply = await world.ask("/v1/messages", {"model": ROUTES["anthropic"], **request})
        assert world.reports[-1].forwarded
        world.emulator.reset()
        direct = await world.ask(
            "/anthropic/v1/messages",
            {"model": "claude-sonnet-4-6", **request},
            headers={"x-api-key": "sk-emulated", "anthropic-version": "2023-06-01"},
            app=world.app,
        )
        assert reply.body.count(ROUTES["anthropic"].encode()) == 1
        renamed = reply.body.replace(ROUTES["anthropic"].encode(), b"claude-sonnet-4-6")
        assert (
            renamed.split(b"event: content_block_start")[1]
            == direct.body.split(b"event: content_block_start")[1]
        )

    asyncio.run(main())


def test_a_history_that_the_provider_would_refuse_is_repaired_on_the_way() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = MessagesAgent(world, ROUTES["anthropic"])
        call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}
        agent.history = [
            {"role": "user", "content": "Look at Rome."},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": "Never mind. Hello."},
        ]
        assert (await agent.at_home()).status == 400
        world.emulator.log.clear()
        reply = await agent.send()
        assert reply.status == 200
        assert "call_closed=1" in reply.headers["x-segue-repairs"]
        assert not world.reports[-1].forwarded
        assert world.refusals() == []

    asyncio.run(main())


# Streams


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("route", [ROUTES["anthropic"], ROUTES["chat"]])
def test_a_stream_that_breaks_off_ends_with_an_error_of_the_clients_wire(wire: str, route: str) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=Talker())
        agent = AGENTS[wire](world, route)
        agent.add_user("Hello.")
        world.emulator.faults.append(Fault(kind="cut", at_byte=1500))
        body = {**agent.body(route), "stream": True}
        reply = await world.ask(agent.path(route), body, headers=agent.headers)
        decoder = DIALECTS[wire].new_decoder()
        events = decoder.feed(reply.body) + decoder.close()
        assert reply.status == 200
        assert any(type(event).__name__ == "TextDelta" for event in events)
        assert type(events[-1]).__name__ == "Failed"
        assert b"rror" in reply.body
        # and the conversation continues
        agent.history.append({"role": "assistant", "content": "The beginning"})
        assert await agent.turn("Go on.")

    asyncio.run(main())


class Talker:
    """A model that talks for long."""

    def reply(self, prompt: Any) -> Reply:
        return Reply(pieces=(Say("Once upon a time. " * 60),))

    def reset(self) -> None:
        """Nothing is remembered."""


def test_a_fault_before_the_first_content_is_never_seen_and_after_it_nobody_else_answers() -> None:
    async def main() -> None:
        team = {"team": {"members": [ROUTES["anthropic"], ROUTES["chat"]]}}
        world = GatewayWorld(responder=Talker(), profiles=team)
        # message_start has arrived, and no content
        world.emulator.faults.append(Fault(kind="cut", at_byte=300, provider="anthropic"))
        reply = await world.ask(CHAT, chat("team", stream=True))
        assert reply.headers["x-segue-route"] == ROUTES["chat"]
        assert b"rror" not in reply.body
        assert len(world.asked(ROUTES["chat"])) == 1

    asyncio.run(main())


def test_a_client_that_goes_away_closes_the_providers_stream() -> None:
    class Slow(Talker):
        def reply(self, prompt: Any) -> Reply:
            return Reply(pieces=(Say("Once upon a time. " * 60),), delay=0.02)

    async def main() -> None:
        world = GatewayWorld(responder=Slow())
        request = WireRequest(
            url=f"http://127.0.0.1{CHAT}", body=msgspec.json.encode(chat(ROUTES["anthropic"], stream=True))
        )
        async with AsgiTransport(world.gateway)(request) as answer:
            async for portion in answer.portions():
                if b"Once" in portion:
                    break
        for _ in range(100):
            if world.emulator.hung_up:
                break
            await asyncio.sleep(0.01)
        assert world.emulator.hung_up == 1
        assert world.reports[-1].client_gone

    asyncio.run(main())


# Errors and limits


@pytest.mark.parametrize("wire", AGENTS)
def test_a_refusal_of_the_provider_reaches_the_client_with_status_and_wait(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["kimi"])
        agent.add_user("Hello.")
        world.emulator.faults += [Fault(kind="status", status=429, retry_after=99.0)] * 3
        reply = await agent.send()
        assert reply.status == 429
        assert reply.headers["retry-after"] == "99"
        error = DIALECTS[wire].decode_error(reply.status, reply.headers, reply.body)
        assert error.remedy == "wait"

    asyncio.run(main())


def test_a_key_that_the_provider_refuses_is_not_the_clients_fault() -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.keys = frozenset({"another"})
        reply = await world.ask("/v1/messages", {"max_tokens": 9, **chat(ROUTES["kimi"])})
        assert reply.status == 500
        assert "the gateway's key" in reply.json()["error"]["message"]

    asyncio.run(main())


def test_a_caller_without_a_known_key_is_refused_and_each_has_a_memory_of_its_own() -> None:
    async def main() -> None:
        digest = hashlib.sha256(b"secret").hexdigest()
        world = GatewayWorld(callers={"ann": CallerSettings(key_sha256=digest)})
        nobody = await world.ask("/v1/messages", {"max_tokens": 9, **chat(ROUTES["chat"])})
        assert nobody.status == 401
        assert nobody.headers["x-should-retry"] == "false"
        assert nobody.json()["error"]["type"] == "authentication_error"
        for headers in ({"x-api-key": "secret"}, {"authorization": "Bearer secret"}):
            known = await world.ask(
                "/v1/messages", {"max_tokens": 9, **chat(ROUTES["chat"])}, headers=headers
            )
            assert known.status == 200
            assert world.reports[-1].caller == "ann"
        gemini = await world.ask(
            "/v1beta/models/fast:generateContent?key=secret",
            {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]},
        )
        assert gemini.status == 200

    asyncio.run(main())


def test_what_is_too_large_or_too_much_is_refused_clearly() -> None:
    async def main() -> None:
        world = GatewayWorld(limits=GatewayLimits(body_bytes=1000, header_bytes=500, concurrent=1))
        large = await world.ask("/v1/messages", {"max_tokens": 9, "x": "y" * 2000, **chat("fast")})
        assert large.status == 413
        assert large.json()["error"]["type"] == "request_too_large"
        headers = await world.ask(CHAT, chat("fast"), headers={"x-much": "y" * 600})
        assert headers.status == 413
        world.gateway.running = 1
        busy = await world.ask(CHAT, chat("fast"))
        assert busy.status == 503
        assert busy.headers["retry-after"] == "1"
        world.gateway.running = 0
        world.gateway.draining = True
        assert (await world.ask("/readyz", method="GET")).status == 503
        assert (await world.ask("/healthz", method="GET")).status == 200

    asyncio.run(main())


def test_a_body_that_never_arrives_is_given_up() -> None:
    async def main() -> None:
        world = GatewayWorld(limits=GatewayLimits(body_timeout=0.01))
        sent: list[Any] = []

        async def receive() -> Any:
            await asyncio.sleep(5)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": [], "query_string": b""}
        await world.gateway(scope, receive, send)
        assert sent[0]["status"] == 408

    asyncio.run(main())


def test_paths_that_nobody_has_and_websockets_are_refused_in_the_form_of_the_wire() -> None:
    async def main() -> None:
        world = GatewayWorld()
        unknown = await world.ask(
            "/v1/organizations", method="GET", headers={"anthropic-version": "2023-06-01"}
        )
        assert unknown.status == 404
        assert unknown.json()["type"] == "error"
        upgrade = await world.ask("/v1/responses", method="GET", headers={"upgrade": "websocket"})
        assert upgrade.status == 426
        wrong_method = await world.ask("/v1/messages", method="GET")
        assert (wrong_method.status, wrong_method.json()["type"]) == (404, "error")

    asyncio.run(main())


def test_a_base_url_that_ends_with_a_slash_leads_to_the_same_doors() -> None:
    async def main() -> None:
        world = GatewayWorld()
        for path in (f"/{CHAT}", f"{CHAT}/", f"//openai{CHAT}"):
            assert (await world.ask(path, chat("fast"))).status == 200, path
        assert (await world.ask("//v1/models/fast", method="GET")).status == 200

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_a_compressed_body_is_refused_by_name(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, "fast")
        agent.add_user("Hello.")
        body = gzip.compress(json.dumps(agent.body("fast")).encode())
        headers = {**agent.headers, "content-encoding": "gzip"}
        refused = await world.ask(agent.path("fast"), body, headers=headers)
        assert refused.status == 415
        assert '"gzip"' in DIALECTS[wire].decode_error(415, {}, refused.body).message
        plain = {**agent.headers, "content-encoding": "identity"}
        assert (await world.ask(agent.path("fast"), agent.body("fast"), headers=plain)).status == 200

    asyncio.run(main())


def test_a_body_that_is_no_request_is_refused_with_its_place() -> None:
    async def main() -> None:
        world = GatewayWorld()
        broken = await world.ask(CHAT, b"{")
        assert broken.status == 400
        assert "JSON" in broken.json()["error"]["message"]
        wrong = await world.ask(CHAT, {"model": "fast", "messages": [{"role": "nobody", "content": "x"}]})
        assert wrong.status == 400
        assert wrong.json()["error"]["param"] == "messages[0].role"

    asyncio.run(main())


# Honesty


def test_a_strict_client_is_refused_what_would_be_lost() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = MessagesAgent(world, ROUTES["anthropic"])
        await agent.turn("Please look at two cities.")
        agent.model = ROUTES["chat"]
        agent.add_user("And now?")
        refused = await agent.send({"x-segue-strict": "true"})
        assert refused.status == 422
        assert "reasoning_dropped" in refused.json()["error"]["message"]
        assert len(world.asked(ROUTES["chat"])) == 0
        sent = await agent.send()
        assert sent.status == 200
        assert "reasoning_dropped" in sent.headers["x-segue-losses"]

    asyncio.run(main())


def test_explain_shows_what_a_target_would_get_without_sending_it() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = MessagesAgent(world, ROUTES["anthropic"])
        await agent.turn("Please look at two cities.")
        agent.add_user("And now?")
        before = len(world.emulator.log)
        answer = (await world.ask(f"/segue/v1/explain?to={ROUTES['chat']}", agent.body("fast"))).json()
        assert len(world.emulator.log) == before
        (route,) = answer["routes"]
        assert answer["wire"] == "anthropic"
        assert route["wire"] == "openai_chat"
        assert route["request"]["messages"][0] == {"role": "user", "content": "Please look at two cities."}
        assert {"reasoning_dropped"} <= {loss["kind"] for loss in route["losses"]}
        same = (await world.ask("/segue/v1/explain", agent.body(ROUTES["anthropic"]))).json()
        assert same["routes"][0]["forwarded"]

    asyncio.run(main())


def test_tokens_are_counted_by_the_provider_or_not_at_all() -> None:
    async def main() -> None:
        world = GatewayWorld()
        path = "/v1/messages/count_tokens"
        counted = await world.ask(path, chat(ROUTES["anthropic"]))
        assert counted.json()["input_tokens"] > 0
        assert counted.headers["x-segue-count"] == "provider"
        assert (await world.ask(path, chat(ROUTES["mistral"]))).status == 404
        estimated = await world.ask(path, chat(ROUTES["mistral"]), headers={"x-segue-estimate": "true"})
        assert estimated.json()["input_tokens"] > 0
        assert estimated.headers["x-segue-count"] == "estimate"
        contents = [{"role": "user", "parts": [{"text": "Hello."}]}]
        for body in ({"contents": contents}, {"generateContentRequest": {"contents": contents}}):
            gemini = await world.ask(f"/v1beta/models/{ROUTES['gemini']}:countTokens", body)
            assert gemini.json()["totalTokens"] > 0

    asyncio.run(main())


def test_models_are_listed_in_the_form_of_the_callers_wire() -> None:
    async def main() -> None:
        world = GatewayWorld(models={"claude-*": "fast", "gpt-5": "fast"}, provider_models=False)
        get: dict[str, Any] = {"method": "GET"}
        chat_list = (await world.ask("/v1/models", **get)).json()
        assert [model["id"] for model in chat_list["data"]] == ["gpt-5", "fast"]
        claude = (await world.ask("/v1/models", headers={"anthropic-version": "2023-06-01"}, **get)).json()
        assert claude["data"][0]["type"] == "model"
        gemini = (await world.ask("/v1beta/models", **get)).json()
        assert gemini["models"][0]["name"] == "models/gpt-5"
        tags = (await world.ask("/api/tags", **get)).json()
        assert [model["name"] for model in tags["models"]] == ["gpt-5", "fast"]
        shown = (await world.ask("/api/show", {"model": "fast"})).json()
        assert "tools" in shown["capabilities"]
        one = (await world.ask("/v1/models/fast", **get)).json()
        assert one["id"] == "fast"
        assert (await world.ask("/", method="HEAD")).status == 200
        assert "version" in (await world.ask("/api/version", **get)).json()

    asyncio.run(main())


def test_embeddings_come_from_any_provider_on_any_wire() -> None:
    async def main() -> None:
        world = GatewayWorld(models={"vectors": "openai/text-embedding-3-small"})
        openai = (await world.ask("/v1/embeddings", {"model": "vectors", "input": ["a", "b"]})).json()
        assert len(openai["data"]) == 2
        assert openai["model"] == "vectors"
        gemini = await world.ask(
            "/v1beta/models/vectors:embedContent", {"content": {"parts": [{"text": "a"}]}}
        )
        assert gemini.json()["embedding"]["values"] == openai["data"][0]["embedding"]
        batch = {"requests": [{"model": "models/vectors", "content": {"parts": [{"text": "a"}]}}]}
        many = await world.ask("/v1beta/models/vectors:batchEmbedContents", batch)
        assert len(many.json()["embeddings"]) == 1
        ollama = await world.ask("/api/embed", {"model": "vectors", "input": "a"})
        assert ollama.json()["embeddings"][0] == openai["data"][0]["embedding"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("model", "is_estimate"),
    [("openai/text-embedding-3-small", False), ("gemini/gemini-embedding-001", True)],
)
def test_tokens_of_embedded_texts_are_those_of_the_provider_or_marked_as_an_estimate(
    model: str, is_estimate: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld(models={"vectors": model})
        reply = await world.ask("/v1/embeddings", {"model": "vectors", "input": ["four", "Ünïcödé words"]})
        assert reply.status == 200, reply.body
        assert (reply.headers.get("x-segue-usage") == "estimate") == is_estimate
        shown = reply.json()["usage"]["prompt_tokens"]
        assert shown > 0
        if not is_estimate:
            texts = world.emulator.log[-1].body["input"]
            assert shown == sum(map(model_facts.count_tokens, texts))

    asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_of_ollama_that_loads_a_model_asks_it_nothing(stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        for path, body, said in (
            ("/api/generate", {}, {"response": ""}),
            ("/api/generate", {"prompt": "", "keep_alive": 0}, {"response": ""}),
            ("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
        ):
            reply = await world.ask(path, {"model": "fast", "stream": stream, **body})
            reason = "unload" if "keep_alive" in body else "load"
            assert reply.status == 200, reply.body
            assert said.items() <= reply.json().items()
            assert (reply.json()["done"], reply.json()["done_reason"]) == (True, reason)
            assert (await world.ask(path, {"model": "nobody", **body})).status == 404
        assert list(world.emulator.log) == []

    asyncio.run(main())


def test_a_single_prompt_of_ollama_is_answered() -> None:
    async def main() -> None:
        world = GatewayWorld()
        whole = await world.ask("/api/generate", {"model": "fast", "prompt": "Hello.", "stream": False})
        assert whole.json()["response"] == "I know: 0 results."
        lines = (await world.ask("/api/generate", {"model": "fast", "prompt": "Hello."})).body.splitlines()
        texts = [msgspec.json.decode(line)["response"] for line in lines]
        assert "".join(texts) == "I know: 0 results."

    asyncio.run(main())


def test_gemini_streams_events_or_an_array() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
        for route in (ROUTES["gemini"], ROUTES["chat"]):
            path = f"/v1beta/models/{route}:streamGenerateContent"
            events = await world.ask(f"{path}?alt=sse", body)
            assert events.body.startswith(b"data: {")
            assert b"[DONE]" not in events.body
            assert events.headers["content-type"] == "text/event-stream"
            reply = await world.ask(path, body)
            assert reply.headers["content-type"] == "application/json; charset=UTF-8"
            array = reply.json()
            texts = [
                part["text"] for chunk in array for part in chunk["candidates"][0]["content"].get("parts", ())
            ]
            assert "".join(texts) == "I know: 0 results."

    asyncio.run(main())


@pytest.mark.parametrize("route", ["gemini", "chat"])
def test_a_json_array_that_takes_too_long_is_one_to_its_end(route: str) -> None:
    class Slow(Talker):
        def reply(self, prompt: Any) -> Reply:
            return Reply(pieces=(Say("Once upon a time. " * 60),), delay=0.05)

    async def main() -> None:
        world = GatewayWorld(responder=Slow(), limits=GatewayLimits(reply_timeout=0.5))
        body = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
        reply = await world.ask(f"/v1beta/models/{ROUTES[route]}:streamGenerateContent", body)
        *chunks, last = reply.json()
        assert chunks
        assert all("candidates" in chunk for chunk in chunks)
        assert "took longer than 0.5 s" in last["error"]["message"]

    asyncio.run(main())


def test_a_header_that_is_sent_twice_is_a_list() -> None:
    async def main() -> None:
        world = GatewayWorld()
        seen: list[WireRequest] = []
        emulated = AsgiTransport(world.app)

        def watched(request: WireRequest) -> Any:
            seen.append(request)
            return emulated(request)

        configs = {
            "anthropic": ProviderConfig(base_url=ADDRESSES["anthropic"], api_key=Secret("sk-emulated"))
        }
        providers = default_registry(configs, environ={}, transport=watched, keyring=False)
        gateway = Gateway(world.config, providers, world.gateway.memory)
        body = msgspec.json.encode({"model": ROUTES["anthropic"], "max_tokens": 50, **HELLO})
        messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.sleep(10)

        async def send(message: Any) -> None:
            """Only the request is looked at."""

        betas = [(b"anthropic-beta", name) for name in (b"context-1m-2025-08-07", b"effort-2025-11-24")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/messages",
            "headers": betas,
            "query_string": b"",
        }
        await gateway(scope, receive, send)
        assert seen[0].headers["anthropic-beta"] == "context-1m-2025-08-07, effort-2025-11-24"

    asyncio.run(main())


def test_the_providers_own_ids_never_repeat_in_a_clients_history() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = ChatAgent(world, ROUTES["kimi"])
        for _ in range(3):
            await agent.turn("Please look at two cities.")
        ids = [call["id"] for message in agent.history for call in message.get("tool_calls", ())]
        assert len(ids) == len(set(ids)) == 6
        names = [reply.json()["id"] for reply in agent.replies]
        assert len(set(names)) == len(names)
        assert all(names)

    asyncio.run(main())


# Ids and logs


def test_a_request_keeps_the_id_that_it_came_with() -> None:
    async def main() -> None:
        world = GatewayWorld()
        given = await world.ask(CHAT, chat("fast"), headers={"x-request-id": "given-1"})
        assert given.headers["x-request-id"] == "given-1"
        assert world.reports[-1].request_id == "given-1"
        odd = await world.ask(CHAT, chat("fast"), headers={"x-request-id": "a b\tc"})
        assert odd.headers["x-request-id"] == world.reports[-1].request_id != "a b\tc"

    asyncio.run(main())


def test_a_fault_of_ours_is_logged_by_its_place_and_never_with_content(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        monkeypatch.setattr(world.gateway, "_door", lambda head: dict[str, str]()["content of a user"])
        assert (await world.ask(CHAT, chat("fast"))).status == 500

    asyncio.run(main())
    assert "failed with KeyError" in caplog.text
    assert "KeyError: " not in caplog.text


def test_two_conversations_that_begin_with_the_same_words_are_two() -> None:
    async def main() -> None:
        world = GatewayWorld()
        one, two = ChatAgent(world, "fast"), ChatAgent(world, "fast")
        for agent in (one, two):
            await agent.turn("Hello.")
            await agent.turn("And now look.")
        ids = [[reply.headers["x-segue-conversation"] for reply in agent.replies] for agent in (one, two)]
        # The same words, the same model: until the replies differ, the second is taken for the first.
        assert len(set(ids[0])) == 1
        assert ids[0][0] != ids[1][0]

    asyncio.run(main())


def test_thoughts_of_another_model_are_shown_in_a_capsule_if_the_operator_wants_it() -> None:
    async def main() -> None:
        world = GatewayWorld(reasoning="show")
        agent = MessagesAgent(world, ROUTES["kimi"])
        await agent.turn("Please look at two cities.")
        thoughts = [
            block
            for message in agent.history
            if message["role"] == "assistant"
            for block in message["content"]
            if block["type"] == "thinking"
        ]
        assert thoughts[0]["thinking"].startswith("Let me see")
        assert thoughts[0]["signature"].startswith("segue.1.")
        agent.model = ROUTES["anthropic"]
        await agent.turn("And now?")
        assert b"segue.1." not in msgspec.json.encode(world.emulator.log[-1].body)
        assert world.refusals() == []

    asyncio.run(main())


class Patcher:
    """A model that calls a tool which takes free text."""

    def reply(self, prompt: Any) -> Reply:
        if prompt.results:
            return Reply(pieces=(Say("Done."),))
        return Reply(
            pieces=(Call("apply_patch", {"input": "*** Begin Patch"}), Call("files__read", {"path": "a"}))
        )

    def reset(self) -> None:
        """Nothing is remembered."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", [ROUTES["anthropic"], ROUTES["gemini"], ROUTES["chat"]])
def test_a_model_of_another_wire_calls_custom_and_namespaced_tools(route: str, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=Patcher())
        path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        read = {"type": "function", "name": "read", "parameters": path}
        body: dict[str, Any] = {
            "model": route,
            "store": False,
            "stream": stream,
            "input": [{"type": "message", "role": "user", "content": "Patch it."}],
            "tools": [
                {"type": "custom", "name": "apply_patch", "description": "Patches files."},
                {"type": "namespace", "name": "files", "description": "Files.", "tools": [read]},
            ],
        }
        reply = await world.ask("/v1/responses", body)
        assert reply.status == 200, reply.body
        text = reply.body.split(b"data: ")[-1]
        output = msgspec.json.decode(text)["response"]["output"] if stream else reply.json()["output"]
        custom, namespaced = [item for item in output if item["type"] != "message"]
        assert (custom["type"], custom["name"], custom["input"]) == (
            "custom_tool_call",
            "apply_patch",
            "*** Begin Patch",
        )
        assert (namespaced["type"], namespaced["name"], namespaced["namespace"]) == (
            "function_call",
            "read",
            "files",
        )
        body["input"] += [
            *output,
            {"type": "custom_tool_call_output", "call_id": custom["call_id"], "output": "ok"},
            {"type": "function_call_output", "call_id": namespaced["call_id"], "output": "text"},
        ]
        again = await world.ask("/v1/responses", body)
        assert again.status == 200, again.body
        assert again.headers["x-segue-route"] == route
        assert world.refusals() == []

    asyncio.run(main())
