"""Clients of every wire that holds conversations. Each sends only what is new, and knows what it would send had it kept all itself.

They have one interface, so that a law can be asked of all of them: `send` new items, `fork` a conversation, and `whole`, the body of a
request that holds everything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from gateway.client_streams import whole_of
from gateway.clients import SCHEMA, GeminiAgent, MessagesAgent
from gateway.world import GatewayResponse, GatewayWorld

Items: TypeAlias = list[Any]
SYSTEM = "You are Bob."
ABOUT = "The weather of a city."
TWINS: Mapping[str, str] = {
    "anthropic/claude-sonnet-4-6": "anthropic/claude-opus-4-6",
    "openai/gpt-5.5": "openai/gpt-5.4",
    "gemini/gemini-3.5-flash": "gemini/gemini-3.1-pro-preview",
}
"""Of a home, another model of the same provider."""


class Answer(Struct, frozen=True):
    """What a client makes of a reply."""

    id: str
    text: str
    calls: tuple[tuple[str, str], ...]
    """Id and name of each."""
    items: Items
    """What it adds to the conversation of a client that keeps all itself."""
    usage: Mapping[str, Any]
    route: str = ""
    conversation: str = ""


class RefusedError(Exception):
    """What a client got instead of a reply."""

    def __init__(self, status: int, error: Any) -> None:
        super().__init__(status, error)
        self.status = status
        self.error = error


class StatefulClient:
    """One conversation that a server holds."""

    wire: ClassVar[str]
    home: ClassVar[str]
    """The route of the provider whose wire it is."""
    lost: ClassVar[Mapping[int, str]]
    """The refusals of what is not held: status, and words of the error."""
    headers: ClassVar[Mapping[str, str]] = {}
    switches_by_name: ClassVar[bool] = True

    def __init__(self, world: GatewayWorld, *, tools: bool = True) -> None:
        self.world = world
        self.tools = tools
        self.system = SYSTEM
        self.about = ABOUT
        """What its tool is said to be for."""
        self.last = ""
        """The id of the last reply."""
        self.kept: Items = []
        """All items up to and including it."""
        self.answer: Answer | None = None
        self.own_headers: Mapping[str, str] = {}

    def change(self, kind: str, number: int) -> None:
        """Its system prompt, or its tool, from the next request on."""
        if kind == "system":
            self.system = f"You are Bob, and it is {number} o'clock."
        else:
            self.about = f"The weather of {number} cities."

    def fork(self) -> StatefulClient:
        """Another client that goes on from here."""
        twin = copy(self)
        twin.kept = [*self.kept]
        return twin

    async def begin(self) -> None:
        """Before the first turn."""

    async def send(self, new: Items, model: str, *, stream: bool = False) -> Answer:
        reply = await self.ask(self.path(model, stream=stream), self.part(new, model, stream=stream))
        if reply.status != 200:
            raise RefusedError(reply.status, reply.json()["error"])
        whole = self.joined(reply.body) if stream else reply.json()
        self.answer = self.read(whole, reply.headers)
        self.kept = [*self.kept, *new, *self.answer.items]
        self.last = self.answer.id
        return self.answer

    async def ask(self, path: str, body: Any, method: str = "POST") -> GatewayResponse:
        headers = {**self.headers, **self.own_headers}
        return await self.world.ask(path, body, method=method, headers=headers)

    def path(self, model: str, *, stream: bool = False) -> str:
        raise NotImplementedError

    def part(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        """What it sends."""
        raise NotImplementedError

    def whole(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        """What it would send otherwise."""
        raise NotImplementedError

    def joined(self, data: bytes) -> Any:
        return whole_of(self.wire, data)

    def read(self, reply: Any, headers: Mapping[str, str]) -> Answer:
        raise NotImplementedError

    def said(self, text: str, role: str = "user") -> Any:
        """An item of the user, or one of the model that the client wrote itself."""
        return {"role": role, "content": text}

    def results(self, output: str = "rain") -> Items:
        """Those of the calls of the last reply."""
        raise NotImplementedError

    def replay(self, new: Items) -> Items:
        """Begin anew with everything, as clients do after a refusal."""
        self.last, kept, self.kept = "", self.kept, []
        return [*kept, *new]

    async def change_items(self, kind: str, chance: int) -> None:
        """Add an item to what the server holds, or delete one, on wires that have a way to do so."""

    async def delete(self) -> int:
        """Delete the last reply, or what it belongs to; the status."""
        raise NotImplementedError


def _facts(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        "route": headers.get("x-segue-route", ""),
        "conversation": headers.get("x-segue-conversation", ""),
    }


class ThreadClient(StatefulClient):
    """Threads of Messages."""

    wire, home = "anthropic", "anthropic/claude-sonnet-4-6"
    lost: ClassVar[Mapping[int, str]] = {404: "thread_not_found"}
    headers: ClassVar[Mapping[str, str]] = {
        **MessagesAgent.headers,
        "anthropic-beta": "message-threads-2026-08-12",
    }

    def __init__(self, world: GatewayWorld, *, tools: bool = True) -> None:
        super().__init__(world, tools=tools)
        self._changed = False

    def path(self, model: str, *, stream: bool = False) -> str:
        del model, stream
        return "/v1/messages"

    def part(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        body = {**self._settings(model, stream=stream), "messages": new}
        if not self.last:
            return {**body, **self._fixed(), "thread": {"type": "create"}}
        changed = self._fixed() if self._changed else {}
        return {**body, **changed, "thread": {"type": "continue", "previous_message_id": self.last}}

    async def send(self, new: Items, model: str, *, stream: bool = False) -> Answer:
        answer = await super().send(new, model, stream=stream)
        self._changed = False
        return answer

    def change(self, kind: str, number: int) -> None:
        """A request has only what is not as it was in the last one."""
        super().change(kind, number)
        self._changed = True

    def whole(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        return {**self._settings(model, stream=stream), **self._fixed(), "messages": [*self.kept, *new]}

    def _fixed(self) -> dict[str, Any]:
        tool = {"name": "weather", "description": self.about, "input_schema": SCHEMA}
        return {"system": self.system, **({"tools": [tool]} if self.tools else {})}

    def _settings(self, model: str, *, stream: bool) -> dict[str, Any]:
        thinking = {"type": "enabled", "budget_tokens": 1024}
        return {
            "model": model,
            "max_tokens": 4000,
            "thinking": thinking,
            **({"stream": True} if stream else {}),
        }

    def read(self, reply: Any, headers: Mapping[str, str]) -> Answer:
        blocks = reply["content"]
        calls = [(one["id"], one["name"]) for one in blocks if one["type"] == "tool_use"]
        text = "".join(one["text"] for one in blocks if one["type"] == "text")
        items = [{"role": "assistant", "content": blocks}] if blocks else []
        return Answer(reply["id"], text, tuple(calls), items, reply["usage"], **_facts(headers))

    def results(self, output: str = "rain") -> Items:
        calls = self.answer.calls if self.answer is not None else ()
        content = [{"type": "tool_result", "tool_use_id": one, "content": output} for one, _ in calls]
        return [{"role": "user", "content": content}]


class ChainClient(StatefulClient):
    """Stored responses, each named by the next one."""

    wire, home = "openai_responses", "openai/gpt-5.5"
    lost: ClassVar[Mapping[int, str]] = {400: "previous_response_not_found"}

    def path(self, model: str, *, stream: bool = False) -> str:
        del model, stream
        return "/v1/responses"

    def part(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        parent = {"previous_response_id": self.last} if self.last else {}
        return {**self._settings(model, stream=stream), "input": new, **parent}

    def whole(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        return {**self._settings(model, stream=stream), "input": [*self.kept, *new]}

    def _settings(self, model: str, *, stream: bool) -> dict[str, Any]:
        tool = {
            "type": "function",
            "name": "weather",
            "description": self.about,
            "parameters": SCHEMA,
            "strict": False,
        }
        return {
            "model": model,
            "instructions": self.system,
            "reasoning": {"effort": "medium"},
            "include": ["reasoning.encrypted_content"],
            **({"tools": [tool]} if self.tools else {}),
            **({"stream": True} if stream else {}),
        }

    def read(self, reply: Any, headers: Mapping[str, str]) -> Answer:
        output = reply["output"]
        calls = [(one["call_id"], one["name"]) for one in output if one["type"] == "function_call"]
        parts = [part for one in output if one["type"] == "message" for part in one["content"]]
        text = "".join(part["text"] for part in parts)
        return Answer(reply["id"], text, tuple(calls), output, reply["usage"], **_facts(headers))

    def results(self, output: str = "rain") -> Items:
        calls = self.answer.calls if self.answer is not None else ()
        return [{"type": "function_call_output", "call_id": one, "output": output} for one, _ in calls]

    async def delete(self) -> int:
        return (await self.ask(f"/v1/responses/{self.last}", None, "DELETE")).status


class ObjectClient(ChainClient):
    """A conversation that is an object, which every turn adds to. Its forks are copies."""

    lost: ClassVar[Mapping[int, str]] = {404: "not found"}

    def __init__(self, world: GatewayWorld, *, tools: bool = True) -> None:
        super().__init__(world, tools=tools)
        self.name = ""

    async def begin(self) -> None:
        self.name = (await self.ask("/v1/conversations", {})).json()["id"]
        for at in range(0, len(self.kept), 20):
            items = {"items": self.kept[at : at + 20]}
            copied = await self.ask(f"/v1/conversations/{self.name}/items", items)
            assert copied.status == 200, copied.body

    def fork(self) -> StatefulClient:
        twin = super().fork()
        assert isinstance(twin, ObjectClient)
        twin.name = ""
        return twin

    async def send(self, new: Items, model: str, *, stream: bool = False) -> Answer:
        if not self.name:
            await self.begin()
        return await super().send(new, model, stream=stream)

    def part(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        return {**self._settings(model, stream=stream), "input": new, "conversation": self.name}

    def replay(self, new: Items) -> Items:
        self.name = ""
        return new

    async def change_items(self, kind: str, chance: int) -> None:
        path = f"/v1/conversations/{self.name}/items"
        if kind == "add":
            new = self.said(f"Added {chance}.")
            if self.name and (await self.ask(path, {"items": [new]})).status == 200:
                self.kept = [*self.kept, new]
            return
        # What is left of a reply without one of its items is another matter: a client of its provider gets refusals then.
        own = [at for at, item in enumerate(self.kept) if item.get("role") == "user"]
        page = await self.ask(f"{path}?order=asc&limit=100", None, "GET")
        if page.status == 200 and own:
            at = own[chance % len(own)]
            items = page.json()["data"]
            assert len(items) == len(self.kept)
            assert (await self.ask(f"{path}/{items[at]['id']}", None, "DELETE")).status == 200
            self.kept = [*self.kept[:at], *self.kept[at + 1 :]]

    async def delete(self) -> int:
        return (await self.ask(f"/v1/conversations/{self.name}", None, "DELETE")).status


class InteractionClient(StatefulClient):
    """Interactions of Gemini, each named by the next one."""

    wire, home = "gemini_interactions", "gemini/gemini-3.5-flash"
    lost: ClassVar[Mapping[int, str]] = {404: "not_found"}

    def path(self, model: str, *, stream: bool = False) -> str:
        del model, stream
        return "/v1/interactions"

    def part(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        parent = {"previous_interaction_id": self.last} if self.last else {}
        return {**self._settings(model, stream=stream), "input": new, **parent}

    def whole(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        return {**self._settings(model, stream=stream), "input": [*self.kept, *new]}

    def _settings(self, model: str, *, stream: bool) -> dict[str, Any]:
        tool = {"type": "function", "name": "weather", "description": self.about, "parameters": SCHEMA}
        return {
            "model": model,
            "system_instruction": self.system,
            "generation_config": {"thinking_level": "high", "thinking_summaries": "auto"},
            **({"tools": [tool]} if self.tools else {}),
            **({"stream": True} if stream else {}),
        }

    def joined(self, data: bytes) -> Any:
        return interaction_in(data)

    def read(self, reply: Any, headers: Mapping[str, str]) -> Answer:
        steps = reply["steps"]
        calls = [(one["id"], one["name"]) for one in steps if one["type"] == "function_call"]
        parts = [part for one in steps if one["type"] == "model_output" for part in one["content"]]
        text = "".join(part.get("text", "") for part in parts)
        return Answer(reply["id"], text, tuple(calls), steps, reply["usage"], **_facts(headers))

    def said(self, text: str, role: str = "user") -> Any:
        kind = "user_input" if role == "user" else "model_output"
        return {"type": kind, "content": [{"type": "text", "text": text}]}

    def results(self, output: str = "rain") -> Items:
        calls = self.answer.calls if self.answer is not None else ()
        return [
            {"type": "function_result", "call_id": one, "name": name, "result": output} for one, name in calls
        ]

    async def delete(self) -> int:
        return (await self.ask(f"/v1/interactions/{self.last}", None, "DELETE")).status


def interaction_in(data: bytes) -> Any:
    """The interaction of a stream, as the SDK puts its steps together."""
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    assert events[-1]["event_type"] == "interaction.completed", events[-1]
    steps: dict[int, dict[str, Any]] = {}
    written: dict[int, str] = {}
    for event in events:
        at = event.get("index", -1)
        if event["event_type"] == "step.start":
            steps[at] = {**event["step"]}
        elif event["event_type"] == "step.delta":
            match event["delta"]:
                case {"type": "text", "text": text}:
                    steps[at].setdefault("content", [{"type": "text", "text": ""}])[-1]["text"] += text
                case {"type": "thought_summary", "content": content}:
                    steps[at].setdefault("summary", []).append(content)
                case {"type": "thought_signature", "signature": signature}:
                    steps[at]["signature"] = signature
                case {"type": "arguments_delta", "arguments": text}:
                    written[at] = written.get(at, "") + text
    for at, text in written.items():
        steps[at]["arguments"] = json.loads(text)
    return {**events[-1]["interaction"], "steps": [steps[at] for at in sorted(steps)]}


class CacheClient(StatefulClient):
    """Requests to generateContent that build on cached contents; they hold all messages behind those."""

    wire, home = "gemini", "gemini/gemini-3.5-flash"
    lost: ClassVar[Mapping[int, str]] = {400: "achedContent", 403: "CachedContent not found"}
    headers: ClassVar[Mapping[str, str]] = GeminiAgent.headers
    DOCUMENT: ClassVar[str] = "The ship sails at noon."

    def __init__(self, world: GatewayWorld, *, tools: bool = True, made_for: str = home) -> None:
        super().__init__(world, tools=tools)
        self.name = ""
        self.made_for = made_for
        self.thinks = True

    def change(self, kind: str, number: int) -> None:
        """What is cached stays as it is."""

    async def begin(self) -> None:
        cached = {"model": f"models/{self.made_for}", **self._cached(), "ttl": "600s"}
        made = await self.ask("/v1beta/cachedContents", cached)
        assert made.status == 200, made.body
        self.name = made.json()["name"]

    def _cached(self) -> dict[str, Any]:
        declared = {"name": "weather", "description": ABOUT, "parameters": SCHEMA}
        return {
            "contents": [self.said(self.DOCUMENT)],
            "systemInstruction": {"parts": [{"text": self.system}]},
            **({"tools": [{"functionDeclarations": [declared]}]} if self.tools else {}),
        }

    def path(self, model: str, *, stream: bool = False) -> str:
        return f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")

    def part(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        del model, stream
        return {**self._settings(), "contents": [*self.kept, *new], "cachedContent": self.name}

    def whole(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        del model, stream
        cached = self._cached()
        return {**self._settings(), **cached, "contents": [*cached["contents"], *self.kept, *new]}

    def _settings(self) -> dict[str, Any]:
        thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "high"}}
        return {"generationConfig": thinking} if self.thinks else {}

    def read(self, reply: Any, headers: Mapping[str, str]) -> Answer:
        content = reply["candidates"][0]["content"]
        parts = content["parts"]
        calls = [
            (part["functionCall"].get("id", ""), part["functionCall"]["name"])
            for part in parts
            if "functionCall" in part
        ]
        text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
        usage = reply.get("usageMetadata", {})
        return Answer(reply.get("responseId", ""), text, tuple(calls), [content], usage, **_facts(headers))

    def said(self, text: str, role: str = "user") -> Any:
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}

    def results(self, output: str = "rain") -> Items:
        calls = self.answer.calls if self.answer is not None else ()
        parts = [
            {
                "functionResponse": {
                    "name": name,
                    "response": {"output": output},
                    **({"id": one} if one else {}),
                }
            }
            for one, name in calls
        ]
        return [{"role": "user", "parts": parts}]

    async def delete(self) -> int:
        return (await self.ask(f"/v1beta/{self.name}", None, "DELETE")).status


class SocketClient(ChainClient):
    """Responses over a WebSocket, of which nothing is stored: the connection holds them."""

    def __init__(self, world: GatewayWorld, *, tools: bool = True) -> None:
        super().__init__(world, tools=tools)
        self.socket: OpenSocket | None = None

    async def send(self, new: Items, model: str, *, stream: bool = False) -> Answer:
        """`stream` has no meaning on a socket."""
        del stream
        if self.socket is None or self.socket.gateway is not self.world.gateway:
            self.socket = OpenSocket(self.world.gateway)
        before = len(self.world.reports)
        final = await self.socket.ask({"type": "response.create", **self.part(new, model), "store": False})
        if final["type"] == "error":
            raise RefusedError(final["status"], final["error"])
        while len(self.world.reports) == before:  # it is written behind the last event
            await asyncio.sleep(0)
        report = self.world.reports[-1]
        headers = {"x-segue-route": report.route, "x-segue-conversation": report.conversation}
        self.answer = self.read(final["response"], headers)
        self.kept = [*self.kept, *new, *self.answer.items]
        self.last = self.answer.id
        return self.answer

    def whole(self, new: Items, model: str, *, stream: bool = False) -> dict[str, Any]:
        return {**super().whole(new, model, stream=stream), "store": False}

    async def delete(self) -> int:
        """Nothing is stored, and a connection that is closed holds nothing."""
        if self.socket is not None:
            await self.socket.close()
        self.socket = None
        return 200


class OpenSocket:
    """A WebSocket to a gateway in this process."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self._in: asyncio.Queue[Any] = asyncio.Queue()
        self._out: asyncio.Queue[Any] = asyncio.Queue()
        scope = {
            "type": "websocket",
            "path": "/v1/responses",
            "raw_path": b"/v1/responses",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer any")],
        }
        self._in.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(gateway(scope, self._in.get, self._out.put))

    async def ask(self, message: dict[str, Any]) -> Any:
        """The event that ends the reply."""
        self._in.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})
        while True:
            async with asyncio.timeout(60):
                sent = await self._out.get()
            if sent["type"] == "websocket.close":
                raise ConnectionError(sent)
            if sent["type"] != "websocket.send":
                continue
            event = json.loads(sent["text"])
            if event["type"] in ("response.completed", "response.incomplete", "response.failed", "error"):
                return event

    async def close(self) -> None:
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self._task


CLIENTS: Mapping[str, type[StatefulClient]] = {
    "thread": ThreadClient,
    "previous_response_id": ChainClient,
    "conversation": ObjectClient,
    "interaction": InteractionClient,
    "socket": SocketClient,
    "cached_content": CacheClient,
}
