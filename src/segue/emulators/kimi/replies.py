"""A responder's reply as Moonshot writes it: ids that count on, reasoning first, usage in an unusual place (KIM-19);
its error body, and the trace id of every answer."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from segue.emulators.http import ErrorWords, retry_after, sse
from segue.emulators.kimi import checks
from segue.emulators.kimi.checks import is_thinking, prompt_tokens
from segue.emulators.model import model_facts
from segue.emulators.model.model_reply import (
    Reply,
    calls_of,
    limited,
    piece_tokens,
    portions,
    text_of,
    thoughts_of,
)
from segue.emulators.openai_chat.replies import DONE, call_deltas, called, frame, most_tokens, wants_usage
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.faults import Fault


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    return {"error": {"message": refusal.message, "type": refusal.type}}


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    return {"x-trace-id": context.reply_id, **retry_after(refusal)}


@rule("KIM-21")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    match fault.status:
        case 429:
            wait = 1 if fault.retry_after is None else fault.retry_after
            text = f"Your account request reached max request: 200, please try again after {wait:g} seconds"
            return Refusal("KIM-21", text, type="rate_limit_reached_error")
        case 401:
            return Refusal("KIM-21", "Invalid Authentication", type="invalid_authentication_error")
        case 503 | 529:
            text = "The engine is currently overloaded, please try again later"
            return Refusal("KIM-21", text, type="engine_overloaded_error")
        case status if status >= 500:
            return Refusal("KIM-21", "Internal server error", type="server_error")
        case _:
            return Refusal("KIM-21", "Invalid request")


@rule("KIM-00")
def wrong_key(_: str) -> Refusal:
    return Refusal("KIM-00", "Invalid Authentication", status=401, type="invalid_authentication_error")


def not_json(*_: object) -> Refusal:
    return Refusal("KIM-00", "Invalid request: request body is not valid JSON")


ERRORS = ErrorWords(
    provider="kimi",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
)


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = limited(reply, most_tokens(request))
    calls = _calls(reply, request)
    message: dict[str, Any] = {"role": "assistant", "content": text_of(reply)}
    if thoughts := _thoughts(reply, request, context):
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return {
        **frame(context, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply, request, context),
    }


@rule("KIM-19")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    """Usage sits in the last choice; who asks for it also gets it once more in a chunk of its own."""
    reply = limited(reply, most_tokens(request))
    counted = usage(reply, request, context)
    yield _chunk(context, [_choice({"role": "assistant", "content": ""})])
    for delta in _deltas(reply, request, context):
        yield _chunk(context, [_choice(delta)])
    yield _chunk(context, [{**_choice({}, finish_reason(reply)), "usage": counted}])
    if wants_usage(request):
        yield _chunk(context, [], counted)
    yield DONE


def _deltas(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    for portion in portions(_thoughts(reply, request, context), reply.chunk_size):
        yield {"reasoning_content": portion}
    for portion in portions(text_of(reply), reply.chunk_size):
        yield {"content": portion}
    yield from call_deltas(_calls(reply, request), reply.chunk_size)


def _thoughts(reply: Reply, request: Mapping[str, Any], context: Context) -> str:
    return thoughts_of(reply) if is_thinking(request, context) else ""


def _calls(reply: Reply, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    fresh = new_numbers(request)
    return [called(call, f"{call.name}:{next(fresh)}") for call in calls_of(reply)]


@rule("KIM-02")
def new_numbers(request: Mapping[str, Any]) -> Iterator[int]:
    """Ids are ``name:n`` without the native prefix; n counts every call of the conversation from 0."""
    used = [call["id"] for message in request["messages"] for call in checks.calls_of(message)]
    taken = {identifier.rpartition(":")[2] for identifier in used}
    return (number for number in count(len(used)) if str(number) not in taken)


@rule("KIM-20")
def finish_reason(reply: Reply) -> str:
    if reply.finish in ("length", "content_filter"):
        return reply.finish
    return "tool_calls" if calls_of(reply) and reply.finish == "auto" else "stop"


def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    prompt = prompt_tokens(request)
    completion = sum(piece_tokens(piece) for piece in reply.pieces)
    counted: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cached_tokens": context.cached_of(prompt),
    }
    if thoughts := _thoughts(reply, request, context):
        counted["completion_tokens_details"] = {"reasoning_tokens": model_facts.count_tokens(thoughts)}
    return counted


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _chunk(context: Context, choices: list[dict[str, Any]], counted: dict[str, Any] | None = None) -> bytes:
    chunk: dict[str, Any] = {**frame(context, "chat.completion.chunk"), "choices": choices}
    if counted is not None:
        chunk["usage"] = counted
    return sse(chunk)
