"""An interaction on the wire: whole, or as events (INT-05, INT-09); and errors, as a code in words and a message (INT-10)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.gemini import errors as google
from segue.emulators.gemini import thoughts
from segue.emulators.gemini_interactions.checks import texts_of
from segue.emulators.http import ErrorWords, retry_after, sse
from segue.emulators.model.model_reply import (
    Call,
    Offer,
    Prompt,
    Reply,
    Say,
    Think,
    limited,
    piece_tokens,
    portions,
)
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Context, Refusal, rule
from segue.emulators.signatures import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from segue.emulators.faults import Fault


CODES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    405: "unimplemented",
    409: "aborted",
    429: "resource_exhausted",
    500: "internal",
    503: "unavailable",
    504: "deadline_exceeded",
}


@rule("INT-10")
def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:
    del context
    code = refusal.code or CODES.get(refusal.status, "unknown")
    return {"error": {"code": code.lower(), "message": refusal.message}}


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    del context
    return {"server": "scaffolding on HTTPServer2", **retry_after(refusal)}


def fault(fault: Fault, context: Context) -> Refusal:
    """Google's words for an error status that has nothing to do with the request's shape."""
    found = google.fault(fault, context)
    return Refusal("INT-10", found.message, type=found.type)


@rule("INT-09")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """An error after the stream has begun is one more event, the last."""
    return sse({"event_type": "error", **envelope(refusal, context)}, "error")


def wrong_key(key: str) -> Refusal:
    if not key:
        return Refusal("INT-10", google.NO_KEY, status=403)
    return Refusal("INT-10", google.WRONG_KEY)


def not_json(_: bytes, problem: str) -> Refusal:
    return Refusal("INT-10", f"Invalid JSON payload received. {problem}")


ERRORS = ErrorWords(
    provider="gemini",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
    stream_error=stream_error,
)


def config_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    held = body.get("generation_config")
    return held if isinstance(held, dict) else {}


def segments(body: Mapping[str, Any], steps: Sequence[Any]) -> list[object]:
    """System, tools, steps: each change keeps what stands before it in the cache."""
    head = [body[name] for name in ("system_instruction", "tools") if body.get(name)]
    return [*head, *(_plain(step) for step in steps)]


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: digest(item) if key == "data" else _plain(item)
        for key, item in value.items()
        if key != "signature"
    }


def prompt(body: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], context: Context) -> Prompt:
    text, results = _last_words(steps)
    choice = config_of(body).get("tool_choice", "auto")
    allowed = choice.get("allowed_tools", {}) if isinstance(choice, dict) else {}
    mode = allowed.get("mode", "auto") if allowed else choice
    names = allowed.get("tools")
    offers = [
        Offer(tool["name"], tool.get("parameters") or {})
        for tool in body.get("tools") or ()
        if tool["type"] == "function" and (not names or tool["name"] in names)
    ]
    return Prompt(
        provider="gemini",
        model=context.model,
        text=text,
        results=results,
        tools=() if mode == "none" else tuple(offers),
        must_call=mode == "any",
        schema=_schema(body.get("response_format")),
        thinking=bool(context.facts.get("thinks")),
    )


def _schema(form: Any) -> Mapping[str, Any] | None:
    form = form[0] if isinstance(form, list) and form else form
    schema = form.get("schema") if isinstance(form, dict) else None
    return schema if isinstance(schema, dict) else None


def _last_words(steps: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[str, ...]]:
    """The user's last text, and the results that came after it."""
    results: list[str] = []
    for step in reversed(steps):
        if step["type"] == "function_result":
            results.insert(0, _result_text(step))
        elif step["type"] == "user_input" and (said := "\n".join(texts_of(step))):
            return said, tuple(results)
    return "", tuple(results)


def _result_text(step: Mapping[str, Any]) -> str:
    result = step.get("result")
    if isinstance(result, list):
        return "\n".join(texts_of(step, "result"))
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


@rule("INT-05")
def whole(
    reply: Reply, body: Mapping[str, Any], steps: Sequence[Any], context: Context, interaction_id: str
) -> dict[str, Any]:
    """The final state of an interaction."""
    reply = limited(reply, config_of(body).get("max_output_tokens"))
    made = [] if reply.finish == "content_filter" else _steps(reply, body, context)
    interaction = {
        **head(body, context, interaction_id, _status(reply, made)),
        "steps": made,
        "usage": _usage(reply, segments(body, steps), context),
    }
    if reply.finish in ("refusal", "content_filter"):
        interaction["errors"] = [{"code": "safety", "message": "The reply was blocked."}]
    return interaction


def head(body: Mapping[str, Any], context: Context, interaction_id: str, status: str) -> dict[str, Any]:
    moment = datetime.fromtimestamp(context.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    who = {"agent": body["agent"]} if body.get("agent") else {"model": context.model}
    found = {"id": interaction_id, "object": "interaction", "status": status, **who}
    if body.get("previous_interaction_id"):
        found["previous_interaction_id"] = body["previous_interaction_id"]
    return {**found, "created": moment, "updated": moment}


def _status(reply: Reply, made: Sequence[Mapping[str, Any]]) -> str:
    if reply.finish in ("length", "refusal", "content_filter"):
        return "incomplete"
    return "requires_action" if any(step["type"] == "function_call" for step in made) else "completed"


@rule("INT-04")
def _steps(reply: Reply, body: Mapping[str, Any], context: Context) -> list[dict[str, Any]]:
    """The signature of the first call, or of the answer, stands in a thought before it."""
    told = config_of(body).get("thinking_summaries") == "auto"
    thinks = bool(context.facts.get("thinks"))
    made: list[dict[str, Any]] = []
    for index, piece in enumerate(reply.pieces):
        match piece:
            case Say(text):
                made.append({"type": "model_output", "content": [{"type": "text", "text": text}]})
            case Think(text) if thinks and told:
                made.append({"type": "thought", "summary": [{"type": "text", "text": text}]})
            case Call(name, arguments):
                call_id = digest([context.reply_id, index])[:8]
                made.append(
                    {"type": "function_call", "id": call_id, "name": name, "arguments": dict(arguments)}
                )
            case _:
                pass
    if thinks:
        _sign(made, context)
    return made


def _sign(made: list[dict[str, Any]], context: Context) -> None:
    place = next((index for index, step in enumerate(made) if step["type"] == "function_call"), None)
    part: dict[str, Any] = {}
    if place is not None:
        part = {"function_call": {"name": made[place]["name"], "args": made[place]["arguments"]}}
    elif context.facts.get("generation") == 3:
        place = next((index for index, step in enumerate(made) if step["type"] == "model_output"), None)
    if place is None:
        return
    signature = thoughts.sign(part, context)
    if place and made[place - 1]["type"] == "thought":
        made[place - 1]["signature"] = signature
    else:
        made.insert(place, {"type": "thought", "signature": signature})


def _usage(reply: Reply, prompt_segments: list[object], context: Context) -> dict[str, Any]:
    read = size(prompt_segments)
    thought = sum(piece_tokens(piece) for piece in reply.pieces if isinstance(piece, Think))
    written = sum(piece_tokens(piece) for piece in reply.pieces if not isinstance(piece, Think))
    cached = context.cached_of(read)
    return {
        "total_input_tokens": read,
        "total_output_tokens": written,
        "total_thought_tokens": thought,
        "total_cached_tokens": cached if cached >= 1024 else 0,
        "total_tool_use_tokens": 0,
        "total_tokens": read + written + thought,
        "input_tokens_by_modality": [{"modality": "text", "tokens": read}],
    }


@rule("INT-09")
def events(final: Mapping[str, Any], chunk_size: int) -> Iterator[bytes]:
    """The events of an interaction, each with an id by which a client can come back."""
    state = {key: value for key, value in final.items() if key not in ("steps", "usage", "errors")}
    running = {**state, "status": "in_progress"}
    listed: list[dict[str, Any]] = [
        {"event_type": "interaction.created", "interaction": running},
        {
            "event_type": "interaction.status_update",
            "interaction_id": final["id"],
            "status": "in_progress",
        },
    ]
    for index, step in enumerate(final["steps"]):
        listed.append({"event_type": "step.start", "index": index, "step": _begun(step)})
        listed += [
            {"event_type": "step.delta", "index": index, "delta": delta}
            for delta in _deltas(step, chunk_size)
        ]
        listed.append({"event_type": "step.stop", "index": index})
    ended = {**state, "usage": final["usage"]}
    if "errors" in final:
        ended["errors"] = final["errors"]
    listed.append({"event_type": "interaction.completed", "interaction": ended})
    for number, event in enumerate(listed):
        yield sse({**event, "event_id": event_id(final["id"], number)}, event["event_type"])
    yield b"event: done\ndata: [DONE]\n\n"


def event_id(interaction_id: str, number: int) -> str:
    return f"{interaction_id}.{number}"


def _begun(step: Mapping[str, Any]) -> dict[str, Any]:
    if step["type"] == "function_call":
        return {**step, "arguments": {}}
    return {"type": step["type"]}


def _deltas(step: Mapping[str, Any], chunk_size: int) -> Iterator[dict[str, Any]]:
    match step["type"]:
        case "model_output":
            for text in texts_of(step):
                for portion in portions(text, chunk_size):
                    yield {"type": "text", "text": portion}
        case "thought":
            for text in texts_of(step, "summary"):
                for portion in portions(text, chunk_size):
                    yield {"type": "thought_summary", "content": {"type": "text", "text": portion}}
            if step.get("signature"):
                yield {"type": "thought_signature", "signature": step["signature"]}
        case "function_call":
            for portion in portions(msgspec.json.encode(step["arguments"]).decode(), chunk_size):
                yield {"type": "arguments_delta", "arguments": portion}
