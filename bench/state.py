"""What a turn costs that holds only what is new, in a conversation of many messages: against a new conversation, and against all sent.

A whole gateway in this process, with a provider that answers without looking. The kinds of turns alternate, so that what else the machine
does meets all of them; the figures are medians of the CPU time of this process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from itertools import count
from statistics import median
from time import process_time_ns
from typing import Any, NamedTuple

import msgspec

from bench.gateway_requests import AgentSession
from bench.measure import keep_memory
from segue.config.schema import Config, GatewaySettings
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.server.process import spare_collections
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

MESSAGES = 400
ROUNDS = 15
OWN, OTHER = "anthropic/claude-sonnet-4-6", "openai/gpt-4.1"
OWN_RESPONSES, OWN_INTERACTIONS = "openai/gpt-5.5", "gemini/gemini-3.5-flash"
_BETA = "message-threads-2026-08-12"
_NUMBERS = count(1)
_TEXT = "It is done, and this is what I found in the files that you named. " * 4


async def _provider(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    number = next(_NUMBERS)
    body: dict[str, Any]
    if scope["path"].endswith("messages"):
        usage = {"input_tokens": 9, "output_tokens": 9}
        body = {
            "id": f"msg_01{number:022d}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
        }
        body |= {
            "content": [{"type": "text", "text": _TEXT}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
    elif scope["path"].endswith("interactions"):
        steps = [{"type": "model_output", "content": [{"type": "text", "text": _TEXT}]}]
        body = {"id": f"v1_{number:048d}", "status": "completed", "model": "gemini-3.5-flash", "steps": steps}
        body |= {"created": "2026-11-01T00:00:00Z", "updated": "2026-11-01T00:00:00Z"}
        body |= {"usage": {"total_input_tokens": 9, "total_output_tokens": 9, "total_tokens": 18}}
    elif scope["path"].endswith("responses"):
        item: dict[str, Any] = {
            "type": "message",
            "id": f"msg_{number:048d}",
            "status": "completed",
            "role": "assistant",
        }
        item |= {"content": [{"type": "output_text", "text": _TEXT, "annotations": []}]}
        body = {"id": f"resp_{number:048d}", "object": "response", "created_at": 1, "status": "completed"}
        body |= {"model": "gpt-5.5", "output": [item], "error": None, "incomplete_details": None}
        body |= {"usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}}
    else:
        message = {"role": "assistant", "content": _TEXT}
        body = {
            "id": f"chatcmpl-{number:029d}",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4.1",
        }
        body |= {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        body |= {"usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(body)})


class Conversation:
    """A client's side of one conversation: as a thread, or sent whole each time."""

    path = "/v1/messages"
    written = "content"
    """The field of a reply that holds what the model wrote."""

    def __init__(self, gateway: Gateway, model: str, *, thread: bool) -> None:
        self._transport = AsgiTransport(gateway)
        self._thread = thread
        self._model = model
        session = msgspec.json.decode(AgentSession(size=2, stream=False).body())
        self._settings = {name: session[name] for name in ("system", "tools")}
        self._question = session["messages"][0]["content"][0]["text"]
        self.kept: list[Any] = []
        self.last = ""
        self.name = ""
        """Of the object that it is, if it is one."""
        self._headers = {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": _BETA,
        }

    async def begin(self) -> None:
        """What comes before the first turn."""

    def body(self) -> bytes:
        new = {"role": "user", "content": f"{next(_NUMBERS)}: {self._question}"}
        self.kept.append(new)
        fields: dict[str, Any] = {"model": self._model, "max_tokens": 4000}
        if not self._thread:
            return msgspec.json.encode({**fields, **self._settings, "messages": self.kept})
        if not self.last:
            return msgspec.json.encode(
                {**fields, **self._settings, "messages": [new], "thread": {"type": "create"}}
            )
        thread = {"type": "continue", "previous_message_id": self.last}
        return msgspec.json.encode({**fields, "messages": [new], "thread": thread})

    async def turn(self) -> int:
        """The nanoseconds of one turn."""
        reply, taken = await self._ask(self.path, self.body())
        self.last = reply["id"]
        written = reply[self.written]
        self.kept += [{"role": "assistant", "content": written}] if self.written == "content" else written
        return taken

    async def _ask(self, path: str, body: bytes) -> tuple[Any, int]:
        request = WireRequest(method="POST", url=f"http://127.0.0.1{path}", headers=self._headers, body=body)
        start = process_time_ns()
        async with self._transport(request) as answer:
            data = await answer.read()
        taken = process_time_ns() - start
        if answer.status != 200:
            raise RuntimeError(f"The gateway answered {answer.status}: {data[:300]!r}")
        return msgspec.json.decode(data), taken


class Chain(Conversation):
    """The same on the wire of Responses: by the reply before, or sent whole each time without being stored."""

    path = "/v1/responses"
    written = "output"

    def body(self) -> bytes:
        new = {"role": "user", "content": f"{next(_NUMBERS)}: {self._question}"}
        self.kept.append(new)
        system = "".join(block["text"] for block in self._settings["system"])
        tools = [
            {
                "type": "function",
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["input_schema"],
                "strict": False,
            }
            for tool in self._settings["tools"]
        ]
        fields: dict[str, Any] = {"model": self._model, "instructions": system, "tools": tools}
        if not self._thread:
            return msgspec.json.encode({**fields, "input": self.kept, "store": False})
        return msgspec.json.encode({**fields, "input": [new], **self._before()})

    def _before(self) -> dict[str, str]:
        return {"previous_response_id": self.last} if self.last else {}


class Object(Chain):
    """The same as an object that every turn adds to."""

    async def begin(self) -> None:
        self.name = (await self._ask("/v1/conversations", b"{}"))[0]["id"]

    def _before(self) -> dict[str, str]:
        return {"conversation": self.name}


class Interactions(Conversation):
    """The same on the wire of Interactions: by the reply before, or sent whole each time without being stored."""

    path = "/v1/interactions"
    written = "steps"

    def body(self) -> bytes:
        question = {"type": "text", "text": f"{next(_NUMBERS)}: {self._question}"}
        self.kept.append({"type": "user_input", "content": [question]})
        tools = [
            {
                "type": "function",
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["input_schema"],
            }
            for tool in self._settings["tools"]
        ]
        system = "".join(block["text"] for block in self._settings["system"])
        fields: dict[str, Any] = {"model": self._model, "system_instruction": system, "tools": tools}
        if not self._thread:
            return msgspec.json.encode({**fields, "input": self.kept, "store": False})
        before = {"previous_interaction_id": self.last} if self.last else {}
        return msgspec.json.encode({**fields, "input": self.kept[-1:], **before})


def _gateway(state: str) -> Gateway:
    providers = default_registry(
        {
            name: ProviderConfig(base_url=f"http://upstream/{name}", api_key=Secret("none"), dialect=dialect)
            for name, dialect in (("anthropic", ""), ("openai", ""), ("gemini", "gemini_interactions"))
        },
        environ={},
        transport=AsgiTransport(_provider),
        keyring=False,
    )
    config = Config(gateway=GatewaySettings(provider_state=state))  # type: ignore[arg-type]
    return Gateway(config, providers, Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32)))


class Wire(NamedTuple):
    """Conversations of one kind, and what the cost of their turns is compared with."""

    name: str
    kind: type[Conversation]
    own: str
    """A model of its own wire, whose provider holds the conversation too."""
    whole: type[Conversation]
    """What sends everything each time."""


_WIRES = (
    Wire("Messages", Conversation, OWN, Conversation),
    Wire("Responses", Chain, OWN_RESPONSES, Chain),
    Wire("conversation objects", Object, OWN_RESPONSES, Chain),
    Wire("Interactions", Interactions, OWN_INTERACTIONS, Interactions),
)
_NEW, _DELTA_OUT, _WHOLE_OUT, _SENT_WHOLE = (
    "new conversation",
    "delta in, delta out",
    "delta in, whole out",
    "whole in, whole out",
)
_OWN_WHOLE_OUT, _OWN_SENT_WHOLE = "own wire: delta in, whole out", "own wire: whole in, whole out"


async def _measure() -> Mapping[tuple[str, str], float]:
    gateway, whole_out = _gateway("use"), _gateway("never")
    kinds: dict[tuple[str, str], Conversation] = {}
    for wire in _WIRES:
        other = OTHER if wire.own == OWN else OWN
        kinds |= {
            (wire.name, _DELTA_OUT): wire.kind(gateway, wire.own, thread=True),
            (wire.name, _WHOLE_OUT): wire.kind(gateway, other, thread=True),
            (wire.name, _SENT_WHOLE): wire.whole(gateway, other, thread=False),
        }
        if wire.own == OWN:
            kinds[wire.name, _OWN_WHOLE_OUT] = wire.kind(whole_out, OWN, thread=True)
            kinds[wire.name, _OWN_SENT_WHOLE] = wire.whole(whole_out, OWN, thread=False)
    for conversation in kinds.values():
        await conversation.begin()
        for _ in range(MESSAGES // 2):
            await conversation.turn()
    taken: dict[tuple[str, str], list[int]] = {(wire.name, _NEW): [] for wire in _WIRES}
    taken |= {name: [] for name in kinds}
    for number in range(ROUNDS + 3):
        turns = dict(kinds)
        for wire in _WIRES:
            turns[wire.name, _NEW] = begun = wire.kind(gateway, wire.own, thread=True)
            await begun.begin()
        for name, conversation in turns.items():
            time = await conversation.turn()
            if number >= 3:
                taken[name].append(time)
    return {name: median(times) / 1e6 for name, times in taken.items()}


def run() -> None:
    spare_collections()
    keep_memory()
    taken = asyncio.run(_measure())
    write = sys.stdout.write
    write(f"A turn at {MESSAGES} messages of a conversation, milliseconds of CPU\n")
    for (of_wire, kind), time in taken.items():
        write(f"  {f'{of_wire}: {kind}':52} {time:8.2f}\n")
    for wire in _WIRES:
        for kind, other, goal in (
            (_DELTA_OUT, _NEW, 1.3),
            (_WHOLE_OUT, _SENT_WHOLE, 1.0),
            (_OWN_WHOLE_OUT, _OWN_SENT_WHOLE, 1.0),
        ):
            if (wire.name, kind) in taken:
                ratio = taken[wire.name, kind] / taken[wire.name, other]
                write(f"  {f'{wire.name}: {kind} / {other}':70} {ratio:5.2f} (goal: at most {goal})\n")
