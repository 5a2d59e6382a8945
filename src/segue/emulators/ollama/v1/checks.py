"""Everything that `/v1/chat/completions` refuses before it hands the request to the native chat (OLL-30 … OLL-37).

The translated request is then judged by the native rules, so `complaints` ends with those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from segue.emulators.ollama import checks, gojson
from segue.emulators.ollama.checks import TOOLS
from segue.emulators.rules import Complaints, Context, Refusal, rule

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "ultra", "max", "none")
_IMAGE = re.compile(r"data:image/(jpeg|jpg|png|webp);base64,")


def complaints(body: object, context: Context) -> Complaints:
    misread = list(unreadable(body))
    yield from misread
    if misread or not isinstance(body, Mapping):
        return
    wrong = [*no_messages(body), *wrong_messages(body), *wrong_effort(body)]
    yield from wrong
    if not wrong:
        native = translated(body)
        yield from checks.ability_complaints(native, context)
        yield from checks.rendered(native, context)


@rule("OLL-35")
def unreadable(body: object) -> Complaints:
    """Types of the fields that are read; all others are silently ignored, tool_choice among them."""
    if body is None:
        yield Refusal("OLL-11", "missing request body")
    function = gojson.struct({"name": gojson.STRING, "arguments": gojson.STRING}, "openai.ToolCallFunction")
    call = gojson.struct({"id": gojson.STRING, "function": function}, "openai.ToolCall")
    message = gojson.struct(
        {
            "role": gojson.STRING,
            "reasoning": gojson.STRING,
            "name": gojson.STRING,
            "tool_call_id": gojson.STRING,
            "tool_calls": gojson.listing(call, "[]openai.ToolCall"),
        },
        "openai.Message",
    )
    fields = {
        "model": gojson.STRING,
        "messages": gojson.listing(message, "[]openai.Message"),
        "stream": gojson.BOOL,
        "stream_options": gojson.plain("object", "openai.StreamOptions"),
        "max_tokens": gojson.integer,
        "seed": gojson.integer,
        "temperature": gojson.FLOAT,
        "top_p": gojson.FLOAT,
        "frequency_penalty": gojson.FLOAT,
        "presence_penalty": gojson.FLOAT,
        "response_format": gojson.plain("object", "openai.ResponseFormat"),
        "tools": TOOLS,
        "reasoning": gojson.struct({"effort": gojson.STRING}, "openai.Reasoning"),
        "reasoning_effort": gojson.STRING,
    }
    for sentence in gojson.decode(body, "ChatCompletionRequest", "openai.ChatCompletionRequest", fields):
        yield Refusal("OLL-35", sentence)


@rule("OLL-35")
def no_messages(body: Mapping[str, Any]) -> Complaints:
    if not body.get("messages"):
        yield Refusal("OLL-35", "[] is too short - 'messages'")


def wrong_messages(body: Mapping[str, Any]) -> Complaints:
    for message in body.get("messages") or ():
        content = (message or {}).get("content")
        if isinstance(content, list):
            for part in content:
                yield from wrong_part(part)
        elif not isinstance(content, str):
            yield from wrong_content(message or {})
        yield from wrong_arguments(message or {})


@rule("OLL-31")
def wrong_content(message: Mapping[str, Any]) -> Complaints:
    """No content at all is fine as long as there is a field for calls."""
    content = message.get("content")
    if content is None and message.get("tool_calls") is not None:
        return
    names = {"number": "float64", "bool": "bool", "object": "map[string]interface {}"}
    shown = "<nil>" if content is None else names[gojson.kind(content)]
    yield Refusal("OLL-31", f"invalid message content type: {shown}")


@rule("OLL-32")
def wrong_part(part: object) -> Complaints:
    match part:
        case {"type": "text", "text": str()}:
            return
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            yield from wrong_image(url)
        case {"type": "input_audio", "input_audio": {"data": str()}}:
            return
        case _:
            yield Refusal("OLL-32", "invalid message format")


@rule("OLL-33")
def wrong_image(url: str) -> Complaints:
    if url.startswith(("http://", "https://")):
        yield Refusal(
            "OLL-33", "image URLs are not currently supported, please use base64 encoded data instead"
        )
        return
    match = _IMAGE.match(url)
    if match is None or next(gojson.base64(url[match.end() :], ""), None) is not None:
        yield Refusal("OLL-33", "invalid image input")


@rule("OLL-30")
def wrong_arguments(message: Mapping[str, Any]) -> Complaints:
    for call in message.get("tool_calls") or ():
        if _parsed(((call or {}).get("function") or {}).get("arguments")) is None:
            yield Refusal("OLL-30", "invalid tool call arguments")


def _parsed(arguments: object) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(str(arguments or ""), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


@rule("OLL-35")
def wrong_effort(body: Mapping[str, Any]) -> Complaints:
    effort = effort_of(body)
    if effort and effort not in EFFORTS:
        listed = ", ".join(f'"{name}"' for name in EFFORTS[:-1])
        yield Refusal("OLL-35", f'invalid reasoning value: "{effort}" (must be {listed}, or "{EFFORTS[-1]}")')


def effort_of(body: Mapping[str, Any]) -> str | None:
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    return effort or body.get("reasoning_effort")


def translated(body: Mapping[str, Any]) -> dict[str, Any]:
    """The native request that this one becomes."""
    effort = effort_of(body)
    native: dict[str, Any] = {
        "model": body.get("model"),
        "messages": [one for message in body["messages"] for one in _messages(message or {}, body)],
        "tools": body.get("tools"),
        "stream": body.get("stream"),
        "options": {"num_predict": body.get("max_tokens")},
    }
    if effort:
        native["think"] = False if effort == "none" else effort
    return native


def _messages(message: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """OLL-32: every part becomes a message of its own, which loses the name and id of a result."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, list):
        for part in content:
            image = {"images": ["…"]} if part.get("type") == "image_url" else {}
            yield {"role": role, "content": part.get("text", ""), **image}
        return
    native: dict[str, Any] = {"role": role, "content": content or ""}
    if message.get("reasoning"):
        native["thinking"] = message["reasoning"]
    if message.get("tool_calls"):
        native["tool_calls"] = [
            {
                "id": call.get("id", ""),
                "function": {
                    "name": call["function"].get("name"),
                    "arguments": _parsed(call["function"]["arguments"]),
                },
            }
            for call in message["tool_calls"]
        ]
    if role == "tool":
        native["tool_call_id"] = message.get("tool_call_id")
        native["tool_name"] = tool_name(message, body)
    yield native


@rule("OLL-34")
def tool_name(message: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """The name given, or that of the last call with the same id."""
    if message.get("name"):
        return str(message["name"])
    calls = [call for one in body["messages"] for call in (one or {}).get("tool_calls") or ()]
    names = [call["function"].get("name") for call in calls if call.get("id") == message.get("tool_call_id")]
    return str(names[-1]) if names else ""
