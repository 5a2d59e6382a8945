"""Streamed replies of every wire put together as its SDKs do, into the form of a whole reply."""

from __future__ import annotations

import json
from typing import Any

from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped]


def whole_of(wire: str, data: bytes) -> Any:
    """The reply that a client holds after a stream. Fails if the stream holds an error or has no end."""
    if wire == "converse":
        return _converse(data)
    chunks = _lines(data) if wire == "ollama" else _events(data)
    assert chunks, data
    assert not any("error" in chunk and chunk["error"] for chunk in chunks if "response" not in chunk), data
    match wire:
        case "openai_responses":
            assert chunks[-1]["type"] in ("response.completed", "response.incomplete"), data
            return chunks[-1]["response"]
        case "anthropic":
            return _message(chunks)
        case "gemini":
            return _candidate(chunks)
        case "ollama":
            return _ollama(chunks)
        case _:
            assert data.rstrip().endswith(b"[DONE]"), data
            return _completion(chunks)


def _converse(data: bytes) -> Any:
    """As boto3 reads it."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    content: list[Any] = []
    kinds: list[str] = []
    for message in buffer:
        assert message.headers[":message-type"] == "event", (message.headers, message.payload)
        kind, event = message.headers[":event-type"], json.loads(message.payload)
        kinds.append(kind)
        if kind == "contentBlockStart":
            content.append({"toolUse": {**event["start"]["toolUse"], "input": ""}})
        elif kind == "contentBlockDelta":
            _add_delta(content, event["contentBlockIndex"], event["delta"])
    assert kinds[0] == "messageStart", kinds
    assert kinds[-2:] == ["messageStop", "metadata"], kinds
    for block in content:
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    whole = [_with_citations(block) if "citations" in block else block for block in content]
    return {"output": {"message": {"role": "assistant", "content": whole}}}


def _with_citations(block: Any) -> Any:
    return {"citationsContent": {"content": [{"text": block["text"]}], "citations": block["citations"]}}


def _add_delta(content: list[Any], index: int, delta: Any) -> None:
    if index == len(content):
        content.append(
            {"text": ""}
            if "text" in delta or "citation" in delta
            else {"reasoningContent": {"reasoningText": {"text": ""}}}
        )
    block = content[index]
    if "text" in delta:
        block["text"] += delta["text"]
    elif "citation" in delta:
        block.setdefault("citations", []).append(delta["citation"])
    elif "toolUse" in delta:
        block["toolUse"]["input"] += delta["toolUse"]["input"]
    elif "signature" in delta["reasoningContent"]:
        block["reasoningContent"]["reasoningText"]["signature"] = delta["reasoningContent"]["signature"]
    elif "text" in delta["reasoningContent"]:
        block["reasoningContent"]["reasoningText"]["text"] += delta["reasoningContent"]["text"]
    else:
        content[index] = {
            "reasoningContent": {"redactedContent": delta["reasoningContent"]["redactedContent"]}
        }


def _events(data: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]


def _lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines() if line]


def _message(events: list[Any]) -> Any:
    assert events[-1]["type"] == "message_stop", events
    message = events[0]["message"]
    arguments: dict[int, str] = {}
    for event in events:
        index = event.get("index", -1)
        match event["type"]:
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][index], event["delta"]
                match delta["type"]:
                    case "input_json_delta":
                        arguments[index] = arguments.get(index, "") + delta["partial_json"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case kind:
                        name = {"text_delta": "text", "thinking_delta": "thinking"}[kind]
                        block[name] += delta[name]
            case "message_delta":
                message |= event["delta"]
    for index, text in arguments.items():
        message["content"][index]["input"] = json.loads(text or "{}")
    return message


def _candidate(chunks: list[Any]) -> Any:
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.get("candidates", ())
        for part in candidate.get("content", {}).get("parts", ())
    ]
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def _ollama(chunks: list[Any]) -> Any:
    assert chunks[-1]["done"], chunks
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for chunk in chunks:
        piece = chunk["message"]
        for name in ("content", "thinking"):
            if piece.get(name):
                message[name] = message.get(name, "") + piece[name]
        if piece.get("tool_calls"):
            message.setdefault("tool_calls", []).extend(piece["tool_calls"])
    return {**chunks[-1], "message": message}


def _completion(chunks: list[Any]) -> Any:
    message: dict[str, Any] = {"role": "assistant"}
    calls: dict[int, Any] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    for call in value:
                        _add_call(calls, call)
                elif isinstance(value, list):
                    message.setdefault(name, []).extend(value)
                elif isinstance(value, str) and name != "role":
                    message[name] = message.get(name, "") + value
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"choices": [{"message": message}]}


def _add_call(calls: dict[int, Any], call: Any) -> None:
    held = calls.setdefault(
        call.get("index", len(calls)),
        {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
    )
    held["id"] = call.get("id") or held["id"]
    for name in ("name", "arguments"):
        held["function"][name] += call["function"].get(name) or ""
