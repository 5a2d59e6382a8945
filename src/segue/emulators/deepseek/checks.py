"""Everything that DeepSeek refuses in a chat request: what its parser cannot read, then pairs, reasoning and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from segue.emulators.openai_chat.checks import prompt_tokens
from segue.emulators.rules import Complaints, Context, Refusal, rule

Message: TypeAlias = Mapping[str, Any]
_ROLES = ("system", "user", "assistant", "tool")


def complaints(body: object, context: Context) -> Complaints:
    """The rules that a chat request breaks. What the parser cannot read is not looked at any further."""
    unreadable = list(_unreadable(body))
    yield from unreadable
    if unreadable or not isinstance(body, Mapping):
        return
    messages: Sequence[Message] = body["messages"]
    yield from pairing(messages)
    yield from missing_reasoning(body, messages, context)
    yield from too_long(body, context)


def is_thinking(body: Message, context: Context) -> bool:
    """V4 models think unless the request forbids it; the old alias for chatting only if the request asks for it."""
    asked = body.get("thinking")
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind in ("enabled", "disabled"):
        return bool(kind == "enabled")
    default: str = context.facts.get("thinking", "default")
    return default == "default"


def _unreadable(body: object) -> Complaints:
    yield from unreadable_body(body)
    if not isinstance(body, Mapping):
        return
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        yield from unreadable_message(message, index, body)
    tools = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield from unreadable_tool(tool, index, body)


def _failure(rule_id: str, what: str, body: object) -> Refusal:
    """The parser says where it stopped; we say where the body ends."""
    column = len(msgspec.json.encode(body))
    return Refusal(
        rule_id, f"Failed to deserialize the JSON body into the target type: {what} at line 1 column {column}"
    )


@rule("DSK-00")
def unreadable_body(body: object) -> Complaints:
    if not isinstance(body, Mapping):
        yield _failure("DSK-00", f"invalid type: {_kind(body)}, expected struct ChatCompletionRequest", body)
        return
    for name, kind, expected in (("messages", list, "a sequence"), ("model", str, "a string")):
        if name not in body:
            yield _failure("DSK-00", f"missing field `{name}`", body)
        elif not isinstance(body[name], kind):
            yield _failure("DSK-00", f"{name}: invalid type: {_kind(body[name])}, expected {expected}", body)
    for name, shape, expected in (("tools", list, "a sequence"), ("thinking", dict, "struct Thinking")):
        if body.get(name) is not None and not isinstance(body[name], shape):
            yield _failure("DSK-00", f"{name}: invalid type: {_kind(body[name])}, expected {expected}", body)
    if body.get("messages") == []:
        yield Refusal("DSK-00", "Empty input messages")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean `{str(value).lower()}`"
        case str():
            return f'string "{value}"'
        case int():
            return f"integer `{value}`"
        case float():
            return f"floating point `{value}`"
        case list():
            return "sequence"
        case _:
            return "map"


@rule("DSK-04")
def unreadable_message(message: object, index: int, body: Message) -> Complaints:
    place = f"messages[{index}]"
    if not isinstance(message, Mapping):
        yield _failure("DSK-04", f"{place}: invalid type: {_kind(message)}, expected a map", body)
        return
    role = message.get("role")
    if role not in _ROLES:
        expected = ", ".join(f"`{name}`" for name in _ROLES)
        yield _failure("DSK-04", f"{place}.role: unknown variant `{role}`, expected one of {expected}", body)
        return
    yield from unreadable_content(message, place, body)
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        yield _failure("DSK-04", f"{place}: invalid type: {_kind(calls)}, expected a sequence", body)
        return
    for number, call in enumerate(calls or ()):
        yield from _unreadable_call(call, f"{place}.tool_calls[{number}]", body)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield _failure("DSK-04", f"{place}: missing field `tool_call_id`", body)


@rule("DSK-04")
def unreadable_content(message: Message, place: str, body: Message) -> Complaints:
    content = message.get("content")
    if isinstance(content, list):
        yield from _unreadable_parts(content, place, body)
    elif content is None and message["role"] != "assistant":
        yield _failure("DSK-04", f"{place}: missing field `content`", body)
    elif content is not None and not isinstance(content, str):
        what = f"{place}: data did not match any variant of untagged enum ChatCompletionRequestContent"
        # Recorded with this status, as plain text.
        yield msgspec.structs.replace(_failure("DSK-04", what, body), status=422, plain=True)


def _unreadable_parts(parts: list[Any], place: str, body: Message) -> Complaints:
    """Text in parts is read (a real client sends it); nothing else is."""
    for part in parts:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind is None:
            yield _failure("DSK-04", f"{place}: missing field `type`", body)
        elif kind != "text":
            yield _failure("DSK-04", f"{place}: unknown variant `{kind}`, expected `text`", body)
        elif not isinstance(part.get("text"), str):
            yield _failure("DSK-04", f"{place}: missing field `text`", body)


def _unreadable_call(call: object, place: str, body: Message) -> Complaints:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str):
        yield _failure("DSK-04", f"{place}: missing field `id`", body)
    elif not isinstance(function, Mapping):
        yield _failure("DSK-04", f"{place}: missing field `function`", body)
    else:
        for name in ("name", "arguments"):
            if not isinstance(function.get(name), str):
                wrong = _kind(function.get(name))
                yield _failure(
                    "DSK-04", f"{place}.function.{name}: invalid type: {wrong}, expected a string", body
                )


@rule("DSK-04")
def unreadable_tool(tool: object, index: int, body: Message) -> Complaints:
    place = f"tools[{index}]"
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    if kind is None:
        yield _failure("DSK-04", f"{place}: missing field `type`", body)
    elif kind != "function":
        yield _failure("DSK-04", f"{place}.type: unknown variant `{kind}`, expected `function`", body)
    elif isinstance(tool, Mapping):
        function = tool.get("function")
        if not isinstance(function, Mapping):
            yield _failure("DSK-04", f"{place}: missing field `function`", body)
        elif not isinstance(function.get("name"), str):
            yield _failure("DSK-04", f"{place}.function: missing field `name`", body)
        elif not isinstance(function.get("parameters") or {}, Mapping):
            wrong = _kind(function["parameters"])
            yield _failure(
                "DSK-04", f"{place}.function.parameters: invalid type: {wrong}, expected a map", body
            )


def pairing(messages: Sequence[Message]) -> Complaints:
    """Results stand right behind the message with their calls."""
    open_ids: set[str] = set()
    in_batch = False
    for message in messages:
        if message["role"] == "tool":
            yield from stray_result(in_batch=in_batch)
            open_ids.discard(message["tool_call_id"])
            continue
        yield from unanswered_calls(open_ids)
        open_ids = {call["id"] for call in message.get("tool_calls") or ()}
        in_batch = bool(open_ids)
    yield from unanswered_calls(open_ids)


@rule("DSK-03")
def unanswered_calls(open_ids: set[str]) -> Complaints:
    if open_ids:
        yield Refusal(
            "DSK-03",
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. (insufficient tool messages following tool_calls message)",
        )


@rule("DSK-03")
def stray_result(*, in_batch: bool) -> Complaints:
    if not in_batch:
        yield Refusal(
            "DSK-03", "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
        )


@rule("DSK-01")
def missing_reasoning(body: Message, messages: Sequence[Message], context: Context) -> Complaints:
    """Once tools are in play every assistant message brings its reasoning back; an empty string will do."""
    assistant = [message for message in messages if message["role"] == "assistant"]
    in_play = body.get("tools") or any(message.get("tool_calls") for message in assistant)
    if not in_play or not is_thinking(body, context):
        return
    if any(not isinstance(message.get("reasoning_content"), str) for message in assistant):
        yield Refusal(
            "DSK-01", "The `reasoning_content` in the thinking mode must be passed back to the API."
        )


@rule("REC-DSK-01")
def too_long(body: Message, context: Context) -> Complaints:
    """Not in the rulebook, but recorded."""
    limit = context.facts.get("context")
    wanted = body.get("max_tokens")
    completion = wanted if isinstance(wanted, int) else 0
    message_tokens = sum(prompt_tokens(body))
    if isinstance(limit, int) and message_tokens + completion > limit:
        yield Refusal(
            "REC-DSK-01",
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{message_tokens + completion} tokens ({message_tokens} in the messages, {completion} in the completion). "
            "Please reduce the length of the messages or completion.",
        )
