"""The wires of a paid world: where each has a provider, what its clients send, and the bytes of a scripted reply.

The bytes are written by hand after the providers' documentation, not by the encoders that are under test.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from segue.providers.models.prices import PriceRule

WORD: Final = "word "

Then: TypeAlias = Literal["end", "cut", "silence"]


class Scripted(Struct, frozen=True, kw_only=True):
    """How the provider answers one request."""

    status: int = 200
    counts: Mapping[str, Any] | None = None
    """As they stand in the reply; None: it does not count."""
    words: int = 40
    stop_at: int | None = None
    """After so many bytes of the body something else happens; None: it is sent whole."""
    then: Then = "end"
    error_at: int | None = None
    """An error as a frame of the stream, in place of the frame with this number."""
    pause: float = 0.0
    """Seconds between two frames."""
    text: str = ""
    """What it writes in place of words."""
    message: str = "No."
    """Of a refusal."""

    @property
    def said(self) -> str:
        return self.text or WORD * self.words

    @property
    def pieces(self) -> list[str]:
        return [piece + " " for piece in self.said.split(" ") if piece]


class PaidWire(Struct, frozen=True):
    """One wire, at a provider and at a door of the gateway."""

    route: str
    path: str
    """Of requests; {model} and {verb} are filled in."""
    verbs: tuple[str, str]
    """For whole replies and for streams."""
    body: Callable[[str], dict[str, Any]]
    """A request with this text."""
    counts: Callable[[int, int], dict[str, Any]]
    """The provider's own object for so many tokens read and written."""
    whole: Callable[[Scripted], dict[str, Any]]
    frames: Callable[[Scripted], list[bytes]]
    stream_type: bytes = b"text/event-stream"
    named_in_body: bool = True
    """Whether the body has the model, and whether to stream."""
    client: str = "tests"
    """What its clients call themselves: wires that share a path are told apart by it."""

    def asked(self, model: str, text: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
        """The path and the body of a client's request."""
        path = self.path.format(model=quote(model, safe=""), verb=self.verbs[stream])
        named = {"model": model, "stream": stream} if self.named_in_body else {}
        return path, {**named, **self.body(text)}

    def answered(self, script: Scripted, *, stream: bool) -> list[bytes]:
        return self.frames(script) if stream else [json.dumps(self.whole(script)).encode()]


def wire_at(path: str, model: str) -> str:
    """The wire of a request that a provider gets."""
    if "/converse" in path:
        return "converse"
    if "GenerateContent" in path or "generateContent" in path:
        return "gemini"
    for end, name in (("/messages", "anthropic"), ("/responses", "responses"), ("/api/chat", "ollama")):
        if path.endswith(end):
            return name
    return "mistral" if "mistral" in model else "kimi" if "kimi" in model else "chat"


def is_stream(path: str, body: Mapping[str, Any]) -> bool:
    return "stream" in path or bool(body.get("stream"))


def _sse(value: object, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(value).encode() + b"\n\n"


def _with_error(frames: list[bytes], script: Scripted, error: bytes, end: list[bytes]) -> list[bytes]:
    """`end`: what follows where all went well."""
    if script.error_at is None:
        return [*frames, *end]
    return [*frames[: script.error_at], error]


# Chat, and those that are like it


def _chat_body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _chat_counts(read: int, written: int) -> dict[str, Any]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _chat_whole(script: Scripted) -> dict[str, Any]:
    message = {"role": "assistant", "content": script.said}
    whole: dict[str, Any] = {
        "id": "one",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    return whole if script.counts is None else {**whole, "usage": script.counts}


def _chat_frames(script: Scripted) -> list[bytes]:
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": piece}, None) for piece in script.pieces]
    deltas.append(({}, "stop"))
    frames = [
        _sse({"id": "one", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
        for delta, end in deltas
    ]
    if script.counts is not None:
        frames.append(_sse({"id": "one", "model": "m", "choices": [], "usage": script.counts}))
    return _with_error(
        frames,
        script,
        _sse({"error": {"message": "Broken.", "type": "server_error"}}),
        [b"data: [DONE]\n\n"],
    )


def _counting_at_the_end_frames(script: Scripted) -> list[bytes]:
    """As Mistral and Kimi write it: the counts stand in the chunk that ends the reply."""
    deltas = [
        ({"role": "assistant", "content": ""}, None),
        *(({"content": one}, None) for one in script.pieces),
    ]
    frames = [
        _sse({"id": "one", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
        for delta, end in deltas
    ]
    last: dict[str, Any] = {
        "id": "one",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}],
    }
    frames.append(_sse(last if script.counts is None else {**last, "usage": script.counts}))
    error = _sse({"object": "error", "message": "Broken.", "type": "server_error", "code": "1000"})
    return _with_error(frames, script, error, [b"data: [DONE]\n\n"])


# Messages


def _messages_body(text: str) -> dict[str, Any]:
    return {**_chat_body(text), "max_tokens": 1000}


def _plain_counts(read: int, written: int) -> dict[str, Any]:
    return {"input_tokens": read, "output_tokens": written}


_MESSAGE: Final = {"id": "one", "type": "message", "role": "assistant", "model": "m"}
_ENDED: Final = {"stop_reason": "end_turn", "stop_sequence": None}


def _messages_whole(script: Scripted) -> dict[str, Any]:
    return {
        **_MESSAGE,
        **_ENDED,
        "content": [{"type": "text", "text": script.said}],
        "usage": script.counts or {},
    }


def _messages_frames(script: Scripted) -> list[bytes]:
    counts = script.counts or {}
    begun = {**counts, "output_tokens": 1} if counts else {}
    started: dict[str, Any] = {
        **_MESSAGE,
        "stop_reason": None,
        "stop_sequence": None,
        "content": [],
        "usage": begun,
    }
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in script.pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": _ENDED, "usage": counts},
    ]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Broken."}}
    return _with_error(
        [_sse(value, value["type"]) for value in values],
        script,
        _sse(error, "error"),
        [_sse({"type": "message_stop"}, "message_stop")],
    )


# Responses


def _responses_body(text: str) -> dict[str, Any]:
    part = {"type": "input_text", "text": text}
    return {"input": [{"type": "message", "role": "user", "content": [part]}], "store": False}


def _responses_counts(read: int, written: int) -> dict[str, Any]:
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


def _responses_whole(script: Scripted) -> dict[str, Any]:
    part = {"type": "output_text", "text": script.said, "annotations": []}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}
        ],
        "usage": script.counts,
    }


def _responses_frames(script: Scripted) -> list[bytes]:
    whole = _responses_whole(script)
    (item,) = whole["output"]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": []}
    values: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": empty},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in script.pieces),
        {"type": "response.output_text.done", **place, "text": script.said},
        {"type": "response.content_part.done", **place, "part": item["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    if script.error_at is not None:
        failed = {**begun, "status": "failed", "error": {"code": "server_error", "message": "Broken."}}
        values[script.error_at :] = [{"type": "response.failed", "response": failed}]
    else:
        values.append({"type": "response.completed", "response": whole})
    return [_sse({**value, "sequence_number": at}, value["type"]) for at, value in enumerate(values)]


# Gemini


def _gemini_body(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def _gemini_counts(read: int, written: int) -> dict[str, Any]:
    return {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}


def _gemini_chunk(text: str, end: str | None, counts: Mapping[str, Any] | None) -> dict[str, Any]:
    candidate = {"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}
    chunk: dict[str, Any] = {
        "candidates": [{**candidate, "finishReason": end} if end else candidate],
        "modelVersion": "m",
        "responseId": "one",
    }
    return chunk if counts is None else {**chunk, "usageMetadata": counts}


def _gemini_whole(script: Scripted) -> dict[str, Any]:
    return _gemini_chunk(script.said, "STOP", script.counts)


def _gemini_frames(script: Scripted) -> list[bytes]:
    """Each chunk has the counts so far."""
    counts = script.counts
    pieces = script.pieces
    frames = []
    for number, piece in enumerate(pieces, 1):
        far = counts and _gemini_counts(
            counts["promptTokenCount"], counts["candidatesTokenCount"] * number // len(pieces)
        )
        frames.append(_sse(_gemini_chunk(piece, "STOP" if number == len(pieces) else None, far)))
    error = {"error": {"code": 503, "message": "Broken.", "status": "UNAVAILABLE"}}
    return _with_error(frames, script, _sse(error), [])


# Ollama


def _ollama_counts(read: int, written: int) -> dict[str, Any]:
    return {"prompt_eval_count": read, "eval_count": written}


def _ollama_line(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}


def _ollama_whole(script: Scripted) -> dict[str, Any]:
    return {**_ollama_line(script.said), "done": True, "done_reason": "stop", **(script.counts or {})}


def _ollama_frames(script: Scripted) -> list[bytes]:
    last = {**_ollama_line(""), "done": True, "done_reason": "stop", **(script.counts or {})}
    lines = [json.dumps(line).encode() + b"\n" for line in map(_ollama_line, script.pieces)]
    return _with_error(lines, script, b'{"error":"Broken."}\n', [json.dumps(last).encode() + b"\n"])


# Converse


def _converse_body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"text": text}]}]}


def _converse_counts(read: int, written: int) -> dict[str, Any]:
    return {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}


def _converse_whole(script: Scripted) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"text": script.said}]}
    whole: dict[str, Any] = {
        "output": {"message": message},
        "stopReason": "end_turn",
        "metrics": {"latencyMs": 1},
    }
    return whole if script.counts is None else {**whole, "usage": script.counts}


def _aws_frame(kind: str, name: str, payload: Mapping[str, Any]) -> bytes:
    given = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + len(value).to_bytes(2) + value.encode()
        for key, value in given.items()
    )
    body = json.dumps(payload).encode()
    prelude = (len(headers) + len(body) + 16).to_bytes(4) + len(headers).to_bytes(4)
    frame = prelude + crc32(prelude).to_bytes(4) + headers + body
    return frame + crc32(frame).to_bytes(4)


def _converse_frames(script: Scripted) -> list[bytes]:
    """The counts come behind the end, in a frame of their own."""
    values: list[tuple[str, dict[str, Any]]] = [
        ("messageStart", {"role": "assistant"}),
        *(("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": one}}) for one in script.pieces),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
    ]
    if script.counts is not None:
        values.append(("metadata", {"usage": script.counts, "metrics": {"latencyMs": 1}}))
    frames = [_aws_frame("event", name, value) for name, value in values]
    error = _aws_frame("exception", "internalServerException", {"message": "Broken."})
    return _with_error(frames, script, error, [])


_SAME: Final = ("", "")
WIRES: Final = {
    "chat": PaidWire(
        "openai/gpt-4.1",
        "/v1/chat/completions",
        _SAME,
        _chat_body,
        _chat_counts,
        _chat_whole,
        _chat_frames,
    ),
    "anthropic": PaidWire(
        "anthropic/claude-sonnet-4-6",
        "/v1/messages",
        _SAME,
        _messages_body,
        _plain_counts,
        _messages_whole,
        _messages_frames,
    ),
    "responses": PaidWire(
        "openai/gpt-5.5",
        "/v1/responses",
        _SAME,
        _responses_body,
        _responses_counts,
        _responses_whole,
        _responses_frames,
    ),
    "gemini": PaidWire(
        "gemini/gemini-2.5-flash",
        "/v1beta/models/{model}:{verb}",
        ("generateContent", "streamGenerateContent?alt=sse"),
        _gemini_body,
        _gemini_counts,
        _gemini_whole,
        _gemini_frames,
        named_in_body=False,
    ),
    "mistral": PaidWire(
        "mistral/mistral-large-latest",
        "/v1/chat/completions",
        _SAME,
        _chat_body,
        _chat_counts,
        _chat_whole,
        _counting_at_the_end_frames,
        client="mistral-client-python/2",
    ),
    "kimi": PaidWire(
        "kimi/kimi-k2.6",
        "/v1/chat/completions",
        _SAME,
        _chat_body,
        _chat_counts,
        _chat_whole,
        _counting_at_the_end_frames,
    ),
    "ollama": PaidWire(
        "ollama/qwen3",
        "/api/chat",
        _SAME,
        _chat_body,
        _ollama_counts,
        _ollama_whole,
        _ollama_frames,
        b"application/x-ndjson",
    ),
    "converse": PaidWire(
        "bedrock/amazon.nova-lite-v1:0",
        "/model/{model}/{verb}",
        ("converse", "converse-stream"),
        _converse_body,
        _converse_counts,
        _converse_whole,
        _converse_frames,
        b"application/vnd.amazon.eventstream",
        named_in_body=False,
    ),
}
"""By the name of the wire, which is also the name of a model of the gateway that is there."""
ADDRESSES: Final = {
    "openai": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
    "mistral": "/v1",
    "kimi": "/v1",
    "ollama": "",
    "bedrock": "",
}
"""A provider → its base path."""
PRICES: Final[Mapping[str, float | PriceRule]] = {"ollama/*": PriceRule(input=1.0, output=4.0)}
"""Of providers that are free: a law about money needs some."""


def vectors(script: Scripted) -> list[bytes]:
    whole: dict[str, Any] = {
        "object": "list",
        "model": "m",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    }
    return [json.dumps(whole if script.counts is None else {**whole, "usage": script.counts}).encode()]
