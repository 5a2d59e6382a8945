"""A client of message threads: it sends what is new, and knows what it would send if it kept everything itself."""

from __future__ import annotations

import json
from typing import Any

from gateway.clients import MessagesAgent
from gateway.world import GatewayResponse, GatewayWorld

BETAS = {"anthropic-beta": "message-threads-2026-08-12"}
HEADERS = {**MessagesAgent.headers, **BETAS}
PATH = "/v1/messages"
WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
SETTINGS: dict[str, Any] = {"system": "You are Bob.", "tools": [WEATHER]}


def message_in(reply: GatewayResponse, *, stream: bool) -> dict[str, Any]:
    """The message of a reply, as an SDK puts it together."""
    if not stream:
        return reply.json()  # type: ignore[no-any-return]
    message: dict[str, Any] = {}
    for line in reply.body.decode().splitlines():
        event = json.loads(line[6:]) if line.startswith("data: ") else {}
        match event.get("type"):
            case "message_start":
                message = {**event["message"], "content": []}
            case "content_block_start":
                message["content"].append({**event["content_block"], "json": ""})
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                for name in ("text", "thinking"):
                    block[name] = block[name] + delta[name] if name in delta else block.get(name)
                block["json"] += delta.get("partial_json", "")
                block["signature"] = delta.get("signature", block.get("signature"))
            case "message_delta":
                message |= event["delta"]
            case "error":
                raise AssertionError(event)
    for block in message["content"]:
        written = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(written or "{}")
        for name in [name for name, value in block.items() if value is None]:
            del block[name]
    return message


class ThreadClient:
    """One thread."""

    def __init__(self, world: GatewayWorld, *, settings: dict[str, Any] | None = None) -> None:
        self.world = world
        self.settings = SETTINGS if settings is None else settings
        self.last = ""
        """The id of the last reply."""
        self.kept: list[dict[str, Any]] = []
        """All messages up to and including it."""

    def fork(self) -> ThreadClient:
        """Another client that goes on from here."""
        twin = ThreadClient(self.world, settings=self.settings)
        twin.last, twin.kept = self.last, [*self.kept]
        return twin

    def body(self, new: list[dict[str, Any]], model: str, **fields: Any) -> dict[str, Any]:
        """What it sends."""
        body = {"model": model, "max_tokens": 4000, **fields}
        if not self.last:
            return {**body, **self.settings, "messages": new, "thread": {"type": "create"}}
        return {
            **body,
            "messages": new,
            "thread": {"type": "continue", "previous_message_id": self.last},
        }

    def whole(self, new: list[dict[str, Any]], model: str, **fields: Any) -> dict[str, Any]:
        """What it would send otherwise."""
        body = {"model": model, "max_tokens": 4000, **fields}
        return {**body, **self.settings, "messages": [*self.kept, *new]}

    async def send(
        self, new: list[dict[str, Any]], model: str, *, stream: bool = False, **fields: Any
    ) -> Any:
        body = self.body(new, model, **fields, **({"stream": True} if stream else {}))
        reply = await self.world.ask(PATH, body, headers=HEADERS)
        assert reply.status == 200, reply.body
        message = message_in(reply, stream=stream)
        self.kept = [*self.kept, *new, {"role": "assistant", "content": message["content"]}]
        self.last = message["id"]
        return message


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def results(message: dict[str, Any], output: str = "rain") -> dict[str, Any]:
    calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call, "content": output} for call in calls],
    }


def text_of(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")
