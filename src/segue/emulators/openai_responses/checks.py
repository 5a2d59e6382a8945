"""Everything that Responses refuses, in its order: shape and ids, stored state, pairing, capability, context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from segue.emulators.model import model_facts
from segue.emulators.openai_chat import errors
from segue.emulators.openai_chat.tools import answer_schema_complaints
from segue.emulators.openai_responses.chain import chain_complaints, stored_chain
from segue.emulators.openai_responses.items import item_complaints
from segue.emulators.openai_responses.tools import tool_complaints
from segue.emulators.rules import Complaints, Context, Refusal, rule

TYPES: errors.Types = {
    "stream": (bool, "a boolean"),
    "store": (bool, "a boolean"),
    "parallel_tool_calls": (bool, "a boolean"),
    "max_output_tokens": (int, "an integer"),
    "temperature": ((int, float), "a decimal"),
    "top_p": ((int, float), "a decimal"),
    "instructions": ((str, list), "a string"),
    "previous_response_id": (str, "a string"),
    "conversation": ((str, dict), "one of a string or an object"),
    "prompt": (dict, "an object"),
    "reasoning": (dict, "an object"),
    "text": (dict, "an object"),
    "include": (list, "an array of strings"),
    "metadata": (dict, "an object"),
    "stream_options": (dict, "an object"),
}
RANGES = {"temperature": (0, 2), "top_p": (0, 1)}
KNOWN = frozenset(
    [
        *TYPES,
        "model",
        "input",
        "conversation",
        "tools",
        "tool_choice",
        "max_tool_calls",
        "top_logprobs",
        "truncation",
        "user",
        "service_tier",
        "background",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
        "safety_identifier",
        "context_management",
        "moderation",
        "client_metadata",
    ]
)
OUTPUT_MINIMUM = 16


def complaints(body: object, context: Context) -> Complaints:
    if not isinstance(body, Mapping):
        yield errors.not_an_object("RESP-00", body)
        return
    yield from wrong_parameters(body)
    yield from out_of_range(body)
    yield from wrong_stream_options(body)
    yield from unknown_parameters(body)
    yield from no_input(body)
    given = body.get("input")
    items = given if isinstance(given, list) else []
    for index, item in enumerate(items):
        yield from item_complaints(item, index)
    yield from trigger_not_last(items)
    yield from tool_complaints(body)
    yield from bad_answer_schema(body)
    yield from unknown_model(body, context)
    yield from two_chains(body)
    yield from chain_complaints(body, [item for item in items if isinstance(item, Mapping)], context)
    yield from errors.unstreamed(body, context)
    yield from refused_parameters(body, context)
    yield from context_too_long(body, context)


@rule("RESP-00", "H")
def wrong_parameters(body: Mapping[str, Any]) -> Complaints:
    if body.get("model") is None:
        # A stored prompt may name the model itself.
        if not isinstance(body.get("prompt"), dict):
            yield errors.missing("RESP-00", "model")
    elif not isinstance(body["model"], str):
        yield errors.wrong_type("RESP-00", "model", "a string", body["model"])
    yield from errors.wrong_types("RESP-00", body, TYPES)
    for name in ("conversation", "prompt"):
        if isinstance(named := body.get(name), Mapping):
            if named.get("id") is None:
                yield errors.missing("RESP-00", f"{name}.id")
            elif not isinstance(named["id"], str):
                yield errors.wrong_type("RESP-00", f"{name}.id", "a string", named["id"])


@rule("RESP-31", "H")
def bad_answer_schema(body: Mapping[str, Any]) -> Complaints:
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, Mapping) else None
    for refusal in answer_schema_complaints(wanted, "text.format.schema"):
        yield structs.replace(refusal, rule="RESP-31")


@rule("RESP-05", "H")
def out_of_range(body: Mapping[str, Any]) -> Complaints:
    yield from errors.out_of_range("RESP-05", body, RANGES)
    wanted = body.get("max_output_tokens")
    if isinstance(wanted, int) and wanted < OUTPUT_MINIMUM:
        yield errors.below_minimum("RESP-05", "max_output_tokens", OUTPUT_MINIMUM, wanted)


@rule("RESP-65", "H")
def wrong_stream_options(body: Mapping[str, Any]) -> Complaints:
    """Usage always comes; Chat's include_usage is unknown here."""
    options = body.get("stream_options")
    for name in options if isinstance(options, Mapping) else ():
        if name != "include_obfuscation":
            yield errors.unknown("RESP-65", f"stream_options.{name}")


@rule("RESP-00", "M")
def unknown_parameters(body: Mapping[str, Any]) -> Complaints:
    for name in body:
        if name not in KNOWN:
            yield errors.unknown("RESP-00", name, "M")


@rule("RESP-04", "M")
def no_input(body: Mapping[str, Any]) -> Complaints:
    given = body.get("input")
    if given is None or given == []:
        if not any(body.get(key) for key in ("previous_response_id", "conversation", "prompt")):
            yield errors.missing("RESP-04", "input", "M")
    elif not isinstance(given, (str, list)):
        yield errors.wrong_type("RESP-00", "input", "one of a string or array of objects", given)


@rule("RESP-52", "M")
def trigger_not_last(items: list[Any]) -> Complaints:
    """The sentence is ours: no report of OpenAI's was found."""
    for index, item in enumerate(items[:-1]):
        if isinstance(item, Mapping) and item.get("type") == "compaction_trigger":
            yield Refusal(
                "RESP-52",
                f"Invalid 'input[{index}]': a 'compaction_trigger' item must be the last item.",
                param=f"input[{index}]",
                code="invalid_value",
                confidence="M",
            )


@rule("RESP-51", "H")
def unknown_model(body: Mapping[str, Any], context: Context) -> Complaints:
    model = body.get("model")
    if isinstance(model, str) and not context.facts:
        yield Refusal(
            "RESP-51", f"The requested model '{model}' does not exist.", param="model", code="model_not_found"
        )


@rule("RESP-50", "M")
def two_chains(body: Mapping[str, Any]) -> Complaints:
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        yield Refusal(
            "RESP-50",
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. "
            "Ensure you are only providing one of these parameters.",
            code="mutually_exclusive_parameters",
            confidence="M",
        )


@rule("RESP-48", "M")
def refused_parameters(body: Mapping[str, Any], context: Context) -> Complaints:
    reasoning = body.get("reasoning")
    if isinstance(reasoning, Mapping) and context.facts and not context.facts.get("reasoning"):
        for key in ("effort", "summary"):
            if reasoning.get(key) is not None:
                yield errors.unsupported_parameter("RESP-48", f"reasoning.{key}", confidence="M")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    levels = context.facts.get("efforts")
    if isinstance(effort, str) and levels and effort not in levels:
        yield errors.unsupported_effort("RESP-48", "reasoning.effort", effort, context.model, levels)


@rule("RESP-66", "H")
def context_too_long(body: Mapping[str, Any], context: Context) -> Complaints:
    most = context.facts.get("context")
    if not isinstance(most, int) or body.get("truncation") == "auto":
        return
    if input_tokens(body, context) > most:
        yield Refusal(
            "RESP-66",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
            param="input",
        )


def input_tokens(body: Mapping[str, Any], context: Context) -> int:
    """Text, calls and tools, with the stored chain. Pictures and files are not text and count nothing."""
    given = body.get("input")
    items = given if isinstance(given, list) else []
    message_tokens = sum(_item_tokens(item) for item in [*stored_chain(body, context.memory), *items])
    for extra in (given, body.get("instructions")):
        message_tokens += model_facts.count_tokens(extra) + 3 if isinstance(extra, str) else 0
    tools = body.get("tools")
    return message_tokens + (
        model_facts.count_value_tokens(tools) if isinstance(tools, list) and tools else 0
    )


def _item_tokens(item: object) -> int:
    if not isinstance(item, Mapping):
        return 0
    total = 3
    for key in ("content", "output", "arguments", "name", "input"):
        value = item.get(key)
        parts = value if isinstance(value, list) else [{"text": value}]
        texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
        total += sum(model_facts.count_tokens(text) for text in texts if isinstance(text, str))
    return total
