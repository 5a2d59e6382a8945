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
from typing import Any

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
OWN_RESPONSES = "openai/gpt-5.5"
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
        self._headers = {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": _BETA,
        }

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
        body = self.body()
        request = WireRequest(
            method="POST", url=f"http://127.0.0.1{self.path}", headers=self._headers, body=body
        )
        start = process_time_ns()
        async with self._transport(request) as answer:
            data = await answer.read()
        taken = process_time_ns() - start
        reply = msgspec.json.decode(data)
        if answer.status != 200:
            raise RuntimeError(f"The gateway answered {answer.status}: {data[:300]!r}")
        self.last = reply["id"]
        written = reply[self.written]
        self.kept += written if self.written == "output" else [{"role": "assistant", "content": written}]
        return taken


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
        before = {"previous_response_id": self.last} if self.last else {}
        return msgspec.json.encode({**fields, "input": [new], **before})


def _gateway(state: str) -> Gateway:
    providers = default_registry(
        {
            name: ProviderConfig(base_url=f"http://upstream/{name}", api_key=Secret("none"))
            for name in ("anthropic", "openai")
        },
        environ={},
        transport=AsgiTransport(_provider),
        keyring=False,
    )
    config = Config(gateway=GatewaySettings(provider_state=state))  # type: ignore[arg-type]
    return Gateway(config, providers, Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32)))


async def _measure() -> Mapping[str, float]:
    gateway, whole_out = _gateway("use"), _gateway("never")
    kinds = {
        "delta in, delta out": Conversation(gateway, OWN, thread=True),
        "delta in, whole out": Conversation(gateway, OTHER, thread=True),
        "whole in, whole out": Conversation(gateway, OTHER, thread=False),
        "own wire: delta in, whole out": Conversation(whole_out, OWN, thread=True),
        "own wire: whole in, whole out": Conversation(whole_out, OWN, thread=False),
        "Responses: delta in, delta out": Chain(gateway, OWN_RESPONSES, thread=True),
        "Responses: delta in, whole out": Chain(gateway, OWN, thread=True),
        "Responses: whole in, whole out": Chain(gateway, OWN, thread=False),
    }
    for conversation in kinds.values():
        for _ in range(MESSAGES // 2):
            await conversation.turn()
    new = "new conversation", "Responses: new conversation"
    taken: dict[str, list[int]] = {name: [] for name in (*new, *kinds)}
    for number in range(ROUNDS + 3):
        begun = Conversation(gateway, OWN, thread=True), Chain(gateway, OWN_RESPONSES, thread=True)
        times = {name: await conversation.turn() for name, conversation in zip(new, begun, strict=True)}
        for name, conversation in kinds.items():
            times[name] = await conversation.turn()
        if number >= 3:
            for name, time in times.items():
                taken[name].append(time)
    return {name: median(times) / 1e6 for name, times in taken.items()}


def run() -> None:
    spare_collections()
    keep_memory()
    taken = asyncio.run(_measure())
    write = sys.stdout.write
    write(f"A turn at {MESSAGES} messages of a conversation, milliseconds of CPU\n")
    for name, time in taken.items():
        write(f"  {name:32} {time:8.2f}\n")
    ratios = (
        (
            "delta in, delta out / new conversation",
            taken["delta in, delta out"] / taken["new conversation"],
            1.3,
        ),
        (
            "delta in, whole out / sent whole",
            taken["delta in, whole out"] / taken["whole in, whole out"],
            1.0,
        ),
        (
            "the same on its own wire",
            taken["own wire: delta in, whole out"] / taken["own wire: whole in, whole out"],
            1.0,
        ),
        (
            "Responses: delta out / new conversation",
            taken["Responses: delta in, delta out"] / taken["Responses: new conversation"],
            1.3,
        ),
        (
            "Responses: whole out / sent whole",
            taken["Responses: delta in, whole out"] / taken["Responses: whole in, whole out"],
            1.0,
        ),
    )
    for name, ratio, goal in ratios:
        write(f"  {name:40} {ratio:5.2f} (goal: at most {goal})\n")
