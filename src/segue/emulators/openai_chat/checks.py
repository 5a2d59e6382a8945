"""Everything that Chat Completions refuses, in its order: shape, model, tools, pairing, capability, context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segue.emulators.model import model_facts
from segue.emulators.openai_chat import errors
from segue.emulators.openai_chat.messages import message_complaints, pairing_complaints
from segue.emulators.openai_chat.profile import OPENAI, RANGES, TYPES, Profile
from segue.emulators.openai_chat.tools import answer_schema_complaints, tool_complaints
from segue.emulators.rules import Complaints, Context, Refusal, rule

STOPS_MAX = 4


def complaints(body: object, context: Context, profile: Profile = OPENAI) -> Complaints:
    if not isinstance(body, Mapping):
        yield errors.not_an_object("CHAT-00", body)
        return
    yield from wrong_parameters(body)
    yield from out_of_range(body)
    yield from unknown_parameters(body, profile)
    yield from no_messages(body)
    messages = body.get("messages")
    messages = messages if isinstance(messages, list) else []
    for index, message in enumerate(messages):
        yield from message_complaints(message, index, profile)
    yield from stream_options_without_stream(body)
    if profile.model_checks:
        yield from too_many_stops(body)
    yield from unknown_model(body, context, profile)
    yield from tool_complaints(body)
    yield from pairing_complaints(messages)
    if profile.model_checks:
        yield from capability_complaints(body, messages, context)
        yield from context_too_long(body, context)


@rule("CHAT-00", "H")
def wrong_parameters(body: Mapping[str, Any]) -> Complaints:
    """The envelope: `model` and the scalars beside the messages have the types of the specification."""
    if body.get("model") is None:
        yield Refusal("CHAT-00", "you must provide a model parameter")
    elif not isinstance(body["model"], str):
        yield errors.wrong_type("CHAT-00", "model", "a string", body["model"])
    yield from errors.wrong_types("CHAT-00", body, TYPES)


@rule("CHAT-00", "H")
def out_of_range(body: Mapping[str, Any]) -> Complaints:
    yield from errors.out_of_range("CHAT-00", body, RANGES)


@rule("CHAT-42", "H")
def too_many_stops(body: Mapping[str, Any]) -> Complaints:
    """https://github.com/continuedev/continue/issues/1572 has the words."""
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > STOPS_MAX:
        yield errors.long_array("CHAT-42", "stop", STOPS_MAX, len(stop))


@rule("CHAT-00", "M")
def unknown_parameters(body: Mapping[str, Any], profile: Profile) -> Complaints:
    if profile.known_parameters is None:
        return
    for name in body:
        if name not in profile.known_parameters:
            yield errors.unknown("CHAT-00", name, "M")


@rule("CHAT-02", "H")
def no_messages(body: Mapping[str, Any]) -> Complaints:
    messages = body.get("messages")
    if messages is None:
        yield errors.missing("CHAT-02", "messages")
    elif not isinstance(messages, list):
        yield errors.wrong_type("CHAT-02", "messages", "an array of objects", messages)
    elif not messages:
        yield errors.empty_array("CHAT-02", "messages")


@rule("CHAT-63", "H")
def stream_options_without_stream(body: Mapping[str, Any]) -> Complaints:
    if body.get("stream_options") is not None and body.get("stream") is not True:
        yield Refusal(
            "CHAT-63",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )


@rule("RESP-51", "H")
def unknown_model(body: Mapping[str, Any], context: Context, profile: Profile) -> Complaints:
    if profile.model_checks and not context.facts and isinstance(body.get("model"), str):
        yield errors.no_such_model(body["model"])


def capability_complaints(body: Mapping[str, Any], messages: list[Any], context: Context) -> Complaints:
    yield from system_message_refused(messages, context)
    yield from errors.unstreamed(body, context)
    yield from tools_need_effort_none(body, context)
    yield from refused_sampling(body, context)
    yield from refused_effort(body, context)
    yield from refused_response_format(body, context)
    wanted = body.get("response_format")
    if isinstance(wanted, Mapping):
        yield from answer_schema_complaints(wanted.get("json_schema"), "response_format")
    yield from refused_web_search(body, context)
    yield from too_much_output(body, context)


@rule("CHAT-06", "M")
def system_message_refused(messages: list[Any], context: Context) -> Complaints:
    if context.facts.get("system_role", True):
        return
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role in ("system", "developer"):
            yield Refusal(
                "CHAT-06",
                f"Unsupported value: 'messages[{index}].role' does not support '{role}' with this model.",
                code="unsupported_value",
                param=f"messages[{index}].role",
                confidence="M",
            )


@rule("CHAT-40", "H")
def tools_need_effort_none(body: Mapping[str, Any], context: Context) -> Complaints:
    """Older reports end `Please use /v1/responses instead.`"""
    tools = body.get("tools")
    functions = [t for t in tools if isinstance(t, Mapping)] if isinstance(tools, list) else []
    if not context.facts.get("chat_tools_need_effort_none") or not functions:
        return
    if _effort(body, context) != "none" or "none" not in context.facts.get("efforts", ()):
        yield Refusal(
            "CHAT-40",
            f"Function tools with reasoning_effort are not supported for {context.model} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            param="reasoning_effort",
        )


def _effort(body: Mapping[str, Any], context: Context) -> object:
    return body.get("reasoning_effort") or context.facts.get("default_effort")


@rule("CHAT-41", "H")
def refused_sampling(body: Mapping[str, Any], context: Context) -> Complaints:
    if not context.facts.get("reasoning"):
        return
    if body.get("max_tokens") is not None:
        yield errors.unsupported_parameter("CHAT-41", "max_tokens", "Use 'max_completion_tokens' instead.")
    temperature = body.get("temperature")
    if isinstance(temperature, (int, float)) and temperature != 1 and _effort(body, context) != "none":
        yield Refusal(
            "CHAT-41",
            f"Unsupported value: 'temperature' does not support {temperature} with this model. "
            "Only the default (1) value is supported.",
            code="unsupported_value",
            param="temperature",
        )
    if body.get("stop") is not None:
        yield errors.unsupported_parameter("CHAT-41", "stop")


@rule("CHAT-41", "H")
def refused_effort(body: Mapping[str, Any], context: Context) -> Complaints:
    effort, levels = body.get("reasoning_effort"), context.facts.get("efforts")
    if isinstance(effort, str) and levels and effort not in levels:
        yield errors.unsupported_effort("CHAT-41", "reasoning_effort", effort, context.model, levels)


@rule("REC-01", "H")
def refused_response_format(body: Mapping[str, Any], context: Context) -> Complaints:
    wanted = body.get("response_format")
    schema = isinstance(wanted, Mapping) and wanted.get("type") == "json_schema"
    if schema and not context.facts.get("json_schema", True):
        yield Refusal(
            "REC-01",
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. "
            "Learn more about supported models at the Structured Outputs guide: "
            "https://platform.openai.com/docs/guides/structured-outputs",
        )


@rule("REC-02", "H")
def refused_web_search(body: Mapping[str, Any], context: Context) -> Complaints:
    if body.get("web_search_options") is not None and context.facts and not context.facts.get("web_search"):
        yield Refusal(
            "REC-02", "Web search options not supported with this model.", param="web_search_options"
        )


@rule("CHAT-71", "M")
def too_much_output(body: Mapping[str, Any], context: Context) -> Complaints:
    most = context.facts.get("max_output")
    for name in ("max_tokens", "max_completion_tokens"):
        wanted = body.get(name)
        if isinstance(most, int) and isinstance(wanted, int) and wanted > most:
            yield Refusal(
                "CHAT-71",
                f"{name} is too large: {wanted}. This model supports at most {most} completion tokens, "
                f"whereas you provided {wanted}.",
                code="invalid_value",
                param=name,
                confidence="M",
            )


@rule("CHAT-70", "H")
def context_too_long(body: Mapping[str, Any], context: Context) -> Complaints:
    most = context.facts.get("context")
    if not isinstance(most, int):
        return
    message_tokens, offered = prompt_tokens(body)
    if message_tokens + offered <= most:
        return
    split = f" ({message_tokens} in the messages, {offered} in the functions)" if offered else ""
    remedy = "messages or functions" if offered else "messages"
    yield Refusal(
        "CHAT-70",
        f"This model's maximum context length is {most} tokens. However, your messages resulted in "
        f"{message_tokens + offered} tokens{split}. Please reduce the length of the {remedy}.",
        code="context_length_exceeded",
        param="messages",
    )


def prompt_tokens(body: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens in the messages and in the tools. Pictures, sound and files are not text and count nothing."""
    messages, tools = body.get("messages"), body.get("tools")
    message_tokens = (
        sum(_message_tokens(message) for message in messages) if isinstance(messages, list) else 0
    )
    return message_tokens, model_facts.count_value_tokens(tools) if isinstance(tools, list) and tools else 0


def _message_tokens(message: object) -> int:
    if not isinstance(message, Mapping):
        return 0
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    calls = message.get("tool_calls")
    # Three tokens frame every message, as in OpenAI's own recipe for counting.
    return (
        3
        + sum(model_facts.count_tokens(text) for text in texts if isinstance(text, str))
        + (model_facts.count_value_tokens(calls) if isinstance(calls, list) else 0)
    )
