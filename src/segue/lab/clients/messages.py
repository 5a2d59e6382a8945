"""A client of Anthropic's Messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from segue.lab.clients.client import (
    PDF,
    PNG,
    TOOLS,
    Called,
    ClientAnswer,
    CountingClient,
    Given,
    NextRequest,
    TokenCounts,
    UserWords,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "_json"),
}


class MessagesClient(CountingClient):
    """Joins what follows in one role, as the wire asks for."""

    wire = "messages"

    def path(self, _: NextRequest, /) -> str:
        return "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}

    def body(self, request: NextRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "max_tokens": 8000, "messages": self.history}
        if request.stream:
            body["stream"] = True
        if request.tools:
            body["tools"] = [
                {"name": name, "description": name, "input_schema": TOOLS[name]} for name in request.tools
            ]
        if request.thinking:
            body["thinking"] = {"type": "enabled", "budget_tokens": 4000}
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        return body

    def say(self, said: UserWords) -> None:
        content: list[dict[str, Any]] = [{"type": "text", "text": said.text}]
        if said.image:
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            content.append({"type": "image", "source": source})
        if said.document:
            source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
            content.append({"type": "document", "source": source})
        if said.cached:
            content[-1]["cache_control"] = {"type": "ephemeral"}
        self._add(content)

    def give(self, results: Sequence[Given]) -> None:
        self._add(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": given.call.id,
                    "content": given.text,
                    **({"is_error": True} if given.failed else {}),
                }
                for given in results
            ]
        )

    def _add(self, content: list[dict[str, Any]]) -> None:
        if self.history and self.history[-1]["role"] == "user":
            self.history[-1]["content"].extend(content)
        else:
            self.history.append({"role": "user", "content": content})

    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        return _answer(body["content"], body.get("stop_reason") or "", body.get("usage"))

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer:
        blocks: list[dict[str, Any]] = []
        usage: dict[str, Any] = {}
        finish, ended = "", False
        for event in events:
            match event.get("type"):
                case "error":
                    text = "".join(block.get("text", "") for block in blocks)
                    return ClientAnswer(text=text, error=self.error_of(event) or "an error")
                case "message_start":
                    usage |= event["message"].get("usage") or {}
                case "content_block_start":
                    blocks.append(dict(event["content_block"]))
                case "content_block_delta":
                    source, target = _DELTAS.get(event["delta"]["type"], ("", ""))
                    if target:
                        block = blocks[event["index"]]
                        block[target] = (block.get(target) or "") + event["delta"][source]
                case "message_delta":
                    finish = event["delta"].get("stop_reason") or finish
                    usage |= {name: count for name, count in (event.get("usage") or {}).items() if count}
                case "message_stop":
                    ended = True
        for block in blocks:
            if "_json" in block:
                block["input"] = json.loads(block.pop("_json") or "{}")
        return _answer(blocks, finish if ended else "", usage)

    def count_path(self, _: NextRequest, /) -> str:
        return "/v1/messages/count_tokens"

    def count_body(self, request: NextRequest, /) -> dict[str, Any]:
        body = self.body(request)
        return {name: body[name] for name in ("model", "messages", "tools", "thinking") if name in body}

    def read_count(self, body: Mapping[str, Any]) -> int:
        return int(body["input_tokens"])

    def error_of(self, body: Mapping[str, Any]) -> str:
        error = body.get("error")
        if body.get("type") != "error" or not isinstance(error, dict) or not error.get("type"):
            return ""
        return str(error.get("message") or "")


def _answer(blocks: list[dict[str, Any]], finish: str, usage: Any) -> ClientAnswer:
    counted = None
    if usage and "input_tokens" in usage:
        cached = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        counted = TokenCounts(
            usage["input_tokens"] + cached + written, usage.get("output_tokens") or 0, cached
        )
    return ClientAnswer(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        thoughts="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        calls=tuple(
            Called(block["id"], block["name"], json.dumps(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        usage=counted,
        finish=finish,
        native={"role": "assistant", "content": blocks} if blocks else None,
    )
