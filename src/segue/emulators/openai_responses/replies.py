"""A responder's reply as a response: its output items, and the events that build them up (RESP-60 … RESP-65)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import Any

import msgspec

from segue.emulators.model import model_facts
from segue.emulators.model.model_reply import (
    Call,
    Reply,
    Say,
    Think,
    limited,
    piece_tokens,
    portions,
    thoughts_of,
)
from segue.emulators.openai_chat.replies import cached, obfuscates, padding
from segue.emulators.openai_responses import chain
from segue.emulators.openai_responses.checks import input_tokens
from segue.emulators.openai_responses.conversations import named_in
from segue.emulators.openai_responses.errors import event
from segue.emulators.openai_responses.items import items_in, type_of
from segue.emulators.rules import Context, rule

Item = dict[str, Any]
TRIGGER = "compaction_trigger"


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = limited(reply, request.get("max_output_tokens"))
    items = items_in(request)
    if asks_for_compaction(items):
        summary = compacted(items, context)
        return _response(request, context, status="completed", reply=Reply(), output=[summary])
    status = "incomplete" if reply.finish in ("length", "content_filter") else "completed"
    return _response(
        request, context, status=status, reply=reply, output=output_items(reply, request, context)
    )


def output_items(reply: Reply, request: Mapping[str, Any], context: Context) -> list[Item]:
    """Reasoning, messages and calls in the order they were thought, said and wished."""
    items: list[Item] = []
    for kind, group in groupby(reply.pieces, key=type):
        pieces = list(group)
        text = "".join(piece.text for piece in pieces if not isinstance(piece, Call))
        if kind is Think:
            items.append(_reasoning(text, request, context, len(items)))
        elif kind is Say:
            items.append(_message(text, reply, context, len(items)))
        for piece in pieces:
            if isinstance(piece, Call):
                items.append(_call(piece, context, len(items)))
    return items


def asks_for_compaction(items: Sequence[Mapping[str, Any]]) -> bool:
    return bool(items) and type_of(items[-1]) == TRIGGER


def compacted(items: Sequence[Mapping[str, Any]], context: Context) -> dict[str, Any]:
    """The one sealed item that stands for all of these (RESP-52)."""
    text = msgspec.json.encode([item for item in items if type_of(item) != TRIGGER]).decode()
    number = hashlib.sha256(context.reply_id.encode()).hexdigest()[:32]
    return {"id": f"cmp_{number}", "type": "compaction", "encrypted_content": chain.issue(text, context)}


def _item_id(prefix: str, context: Context, index: int) -> str:
    return prefix + hashlib.sha256(f"{context.reply_id}/{index}".encode()).hexdigest()[:32]


@rule("RESP-40", "H")
def _reasoning(text: str, request: Mapping[str, Any], context: Context, index: int) -> Item:
    wanted = request.get("reasoning")
    summarised = isinstance(wanted, Mapping) and wanted.get("summary") is not None
    return {
        "id": _item_id("rs_", context, index),
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}] if summarised else [],
        "encrypted_content": chain.issue(text, context),
    }


def _message(text: str, reply: Reply, context: Context, index: int) -> Item:
    part: Item = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    if reply.finish == "refusal":
        part = {"type": "refusal", "refusal": text}
    broken_off = reply.finish in ("length", "content_filter")
    return {
        "id": _item_id("msg_", context, index),
        "type": "message",
        "status": "incomplete" if broken_off else "completed",
        "role": "assistant",
        "content": [part],
    }


def _call(call: Call, context: Context, index: int) -> Item:
    return {
        "id": _item_id("fc_", context, index),
        "type": "function_call",
        "status": "completed",
        "arguments": msgspec.json.encode(call.arguments).decode(),
        "call_id": _item_id("call_", context, index)[:29],
        "name": call.name,
    }


@rule("RESP-62", "H")
def _response(
    request: Mapping[str, Any],
    context: Context,
    *,
    status: str,
    output: list[Item],
    reply: Reply | None = None,
) -> dict[str, Any]:
    """Usage appears only in the final form; there is no finish reason, one looks for calls in the output."""
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(reply.finish) if reply else None
    reasoning = request.get("reasoning") or {}
    return {
        "id": f"resp_{context.reply_id}",
        "object": "response",
        "created_at": context.now,
        "completed_at": context.now if status == "completed" else None,
        "status": status,
        "background": False,
        "conversation": {"id": name} if (name := named_in(request)) else None,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "max_tool_calls": request.get("max_tool_calls"),
        "metadata": request.get("metadata") or {},
        "model": context.model,
        "output": output,
        "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
        "presence_penalty": 0.0,
        "previous_response_id": request.get("previous_response_id"),
        "prompt_cache_key": request.get("prompt_cache_key"),
        "prompt_cache_retention": request.get("prompt_cache_retention"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": request.get("safety_identifier"),
        "service_tier": "default",
        "store": request.get("store") is not False,
        "temperature": 1 if request.get("temperature") is None else request["temperature"],
        "text": {"format": {"type": "text"}, "verbosity": "medium", **(request.get("text") or {})},
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": request.get("tools") or [],
        "top_logprobs": 0,
        "top_p": 1 if request.get("top_p") is None else request["top_p"],
        "truncation": request.get("truncation") or "disabled",
        "user": request.get("user"),
        "usage": usage(reply, request, context) if reply else None,
    }


@rule("RESP-65", "H")
def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Input is gross: cached tokens are inside."""
    given = input_tokens(request, context)
    produced = sum(piece_tokens(piece) for piece in reply.pieces)
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached(context, given), "cache_write_tokens": 0},
        "output_tokens": produced,
        "output_tokens_details": {"reasoning_tokens": model_facts.count_tokens(thoughts_of(reply))},
        "total_tokens": given + produced,
    }


@rule("RESP-60", "H")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    """`event:` repeats the type; sequence numbers rise by one; exactly one terminal event."""
    number = count()
    opening = _response(request, context, status="in_progress", output=[])
    yield event("response.created", next(number), response=opening)
    yield event("response.in_progress", next(number), response=opening)
    final = whole(reply, request, context)
    for index, item in enumerate(final["output"]):
        for kind, fields in _item_events(item, index, reply.chunk_size):
            if "delta" in fields and obfuscates(request):
                fields["obfuscation"] = padding(fields["delta"])
            yield event(kind, next(number), **fields)
    yield event(f"response.{final['status']}", next(number), response=final)


def _item_events(item: Item, index: int, size: int) -> Iterator[tuple[str, Item]]:
    place = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "reasoning":
            # The seal in `added` is not yet the whole one: only `done` may be kept (RESP-40).
            started = {**item, "summary": [], "encrypted_content": item["encrypted_content"][:24]}
            inner = _summary_events(item, place, size)
        case "message":
            started = {**item, "status": "in_progress", "content": []}
            inner = _text_events(item, place, size)
        case "compaction":
            started, inner = item, iter(())
        case _:
            started = {**item, "status": "in_progress", "arguments": ""}
            inner = _call_events(item, place, size)
    yield "response.output_item.added", {"output_index": index, "item": started}
    yield from inner
    yield "response.output_item.done", {"output_index": index, "item": item}


def _summary_events(item: Item, place: Item, size: int) -> Iterator[tuple[str, Item]]:
    for number, part in enumerate(item["summary"]):
        where = {**place, "summary_index": number}
        empty = {"type": "summary_text", "text": ""}
        yield "response.reasoning_summary_part.added", {**where, "part": empty}
        for delta in portions(part["text"], size) or [""]:
            yield "response.reasoning_summary_text.delta", {**where, "delta": delta}
        yield "response.reasoning_summary_text.done", {**where, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**where, "part": part}


def _text_events(item: Item, place: Item, size: int) -> Iterator[tuple[str, Item]]:
    for number, part in enumerate(item["content"]):
        where = {**place, "content_index": number}
        key, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
        more: Item = {} if kind == "refusal" else {"logprobs": []}
        yield "response.content_part.added", {**where, "part": {**part, key: ""}}
        for delta in portions(part[key], size) or [""]:
            yield f"response.{kind}.delta", {**where, "delta": delta, **more}
        yield f"response.{kind}.done", {**where, key: part[key], **more}
        yield "response.content_part.done", {**where, "part": part}


@rule("RESP-61", "H")
def _call_events(item: Item, place: Item, size: int) -> Iterator[tuple[str, Item]]:
    for delta in portions(item["arguments"], size):
        yield "response.function_call_arguments.delta", {**place, "delta": delta}
    yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}
