"""A responder's reply as `/api/chat` writes it: lines of JSON, calls in one piece, durations in nanoseconds (OLL-20 … 24)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.model.model_reply import (
    Offer,
    Prompt,
    Reply,
    calls_of,
    limited,
    piece_tokens,
    portions,
    text_of,
    thoughts_of,
)
from segue.emulators.ollama import models
from segue.emulators.ollama.checks import is_thinking
from segue.emulators.ollama.models import timestamp
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_PER_PROMPT_TOKEN, _PER_TOKEN, _LOADING = 480_000, 17_000_000, 21_000_000
"""Nanoseconds: made up but steady, so that rates come out the same in every run."""


def prompt_of(body: Mapping[str, Any], context: Context) -> Prompt:
    text = ""
    results: list[str] = []
    for message in models.messages_of(body):
        role, content = str(message.get("role", "")).lower(), str(message.get("content") or "")
        if role == "user":
            text, results = content, []
        elif role == "tool":
            results.append(content)
    return Prompt(
        provider="ollama",
        model=context.model,
        text=text,
        results=tuple(results),
        tools=tuple(_offers(body)),
        schema=_schema(body.get("format")),
        thinking=is_thinking(body, context),
    )


def _schema(wanted: object) -> Mapping[str, Any] | None:
    if wanted == "json":
        return {"type": "object"}
    return wanted if isinstance(wanted, Mapping) else None


def _offers(body: Mapping[str, Any]) -> Iterator[Offer]:
    for tool in body.get("tools") or ():
        function = (tool or {}).get("function") or {}
        if function.get("name"):
            yield Offer(function["name"], function.get("parameters") or {})


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = shortened(reply, request)
    message: dict[str, Any] = {"role": "assistant", "content": text_of(reply)}
    if is_thinking(request, context) and thoughts_of(reply):
        message["thinking"] = thoughts_of(reply)
    if calls_of(reply):
        message["tool_calls"] = calls(reply, context)
    return {**_line(context, message), **closing(reply, request, context)}


@rule("OLL-20")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    reply = shortened(reply, request)
    for message in messages_of(reply, request, context):
        yield _encoded({**_line(context, message), "done": False})
    last = _line(context, {"role": "assistant", "content": ""})
    yield _encoded({**last, **closing(reply, request, context)})


@rule("OLL-21")
def messages_of(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    """Thoughts, then text, then each call whole in a line of its own."""
    start = {"role": "assistant", "content": ""}
    for portion in portions(thoughts_of(reply), reply.chunk_size) if is_thinking(request, context) else ():
        yield {**start, "thinking": portion}
    for portion in portions(text_of(reply), reply.chunk_size):
        yield {**start, "content": portion}
    for call in calls(reply, context):
        yield {**start, "tool_calls": [call]}


def shortened(reply: Reply, request: Mapping[str, Any]) -> Reply:
    most = (request.get("options") or {}).get("num_predict")
    # Zero and less mean "as long as it takes".
    return limited(reply, int(most) if isinstance(most, int | float) and most > 0 else None)


def calls(reply: Reply, context: Context) -> list[dict[str, Any]]:
    return [
        {
            "id": call_id(context, index),
            "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
        }
        for index, call in enumerate(calls_of(reply))
    ]


@rule("OLL-05")
def call_id(context: Context, index: int) -> str:
    code = hashlib.sha256(f"{context.reply_id}/{index}".encode()).digest()
    return "call_" + "".join(_LETTERS[byte % len(_LETTERS)] for byte in code[:8])


@rule("OLL-22")
def closing(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Calls end with `stop` like everything else that was not cut off."""
    prompt, answer = usage(reply, request, context)
    return {
        "done": True,
        "done_reason": "length" if reply.finish == "length" else "stop",
        "total_duration": _LOADING + prompt * _PER_PROMPT_TOKEN + answer * _PER_TOKEN,
        "load_duration": _LOADING,
        "prompt_eval_count": prompt,
        "prompt_eval_duration": prompt * _PER_PROMPT_TOKEN,
        "eval_count": answer,
        "eval_duration": answer * _PER_TOKEN,
    }


@rule("OLL-16")
def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> tuple[int, int]:
    """Prompt tokens that fitted into the window, and tokens of the answer."""
    limit = models.size(request, context)
    prompt = models.evaluated(models.read(request, context), request.get("tools"), limit)
    return prompt, sum(piece_tokens(piece) for piece in reply.pieces)


@rule("OLL-12")
def loaded(context: Context, *, unload: bool) -> dict[str, Any]:
    """No messages: the model is only put into memory, or taken out of it."""
    reason = "unload" if unload else "load"
    line = _line(context, {"role": "assistant", "content": ""})
    return {**line, "done": True, "done_reason": reason}


def _line(context: Context, message: dict[str, Any]) -> dict[str, Any]:
    return {"model": context.model, "created_at": timestamp(context.now), "message": message}


def _encoded(line: dict[str, Any]) -> bytes:
    return msgspec.json.encode(line) + b"\n"
