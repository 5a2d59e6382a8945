"""Everything that Converse refuses in a request, in the order in which it looks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators import signatures
from segue.emulators.converse.request import CONVERSE, COUNT
from segue.emulators.model import model_facts
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.rules import Context


_PREFIX = "ErUB"


def sign(text: str, context: Context) -> str:
    claims = {
        "platform": "bedrock",
        "model": context.model,
        "text": signatures.digest(text),
        "reply": context.reply_id,
    }
    return signatures.seal(context.secret, claims, _PREFIX)


def is_ours(thought: Mapping[str, Any], context: Context) -> bool:
    born = signatures.unseal(context.secret, thought["signature"], _PREFIX)
    return (
        born is not None
        and born.get("platform") == "bedrock"
        and born.get("model") == context.model
        and born.get("text") == signatures.digest(thought["text"])
    )


VALIDATION = "ValidationException"
MOST_POINTS = 4
_MODEL = "The model returned the following errors: "
_PROFILE = (
    "Invocation of model ID {model} with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an "
    "inference profile that contains this model."
)


def complaints(body: object, context: Context) -> Complaints:
    """The rules that a request breaks. What does not fit the service model is not read any further."""
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name not in ("model", "modelId")}
    yield from unknown_model(context)
    fits = True
    for refusal in misshapen(body):
        fits = False
        yield refusal
    if not fits or not isinstance(body, dict):
        return
    messages: list[dict[str, Any]] = body.get("messages") or []
    yield from no_messages(messages)
    yield from alternation(messages)
    yield from empty_content(messages)
    yield from blank_texts(messages)
    yield from pairing(messages)
    yield from roles(messages)
    yield from missing_tools(body, messages)
    yield from empty_errors(messages)
    yield from tool_choice(body, context)
    yield from cache_points(body, messages, context)
    yield from thoughts(messages, context)
    yield from thinking(body, messages, context)
    yield from model_fields(body, context)
    yield from prefill(messages, context)
    yield from instructions(messages, context)
    yield from too_long(body, context)


def count_complaints(body: object, context: Context) -> Complaints:
    faults = list(COUNT(body, ""))
    yield from faults
    inner = body["input"].get("converse") if not faults and isinstance(body, dict) else None
    if inner is not None:
        yield from complaints(inner, context)


def _refusal(rule_id: str, message: str, status: int = 400, kind: str = VALIDATION) -> Refusal:
    return Refusal(rule_id, message, status=status, type=kind)


@rule("BDR-00")
@rule("BDR-12")
@rule("BDR-16")
def misshapen(body: object) -> Complaints:
    yield from CONVERSE(body, "")


@rule("AWS-05")
def unknown_model(context: Context) -> Complaints:
    model = context.model
    if not context.facts:
        yield _refusal("AWS-05", "The provided model identifier is invalid.")
    elif context.facts.get("profile") and model.startswith(tuple(context.facts["bare"])):
        yield _refusal("AWS-05", _PROFILE.format(model=model))


@rule("BDR-01")
def no_messages(messages: list[dict[str, Any]]) -> Complaints:
    if not messages or messages[0]["role"] == "assistant":
        yield _refusal(
            "BDR-01",
            "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
        )


@rule("BDR-01")
def alternation(messages: list[dict[str, Any]]) -> Complaints:
    roles_in_turn = [message["role"] for message in messages if message["role"] != "system"]
    if any(one == other for one, other in pairwise(roles_in_turn)):
        yield _refusal(
            "BDR-01",
            "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between "
            "user and assistant roles and try again.",
        )


@rule("BDR-06")
def empty_content(messages: list[dict[str, Any]]) -> Complaints:
    for index, message in enumerate(messages):
        if not any("cachePoint" not in block for block in message["content"]):
            yield _refusal(
                "BDR-06",
                f"The content field in the Message object at messages.{index} is empty. Add a ContentBlock object to the "
                "content field and try again.",
            )


@rule("BDR-06")
def blank_texts(messages: list[dict[str, Any]]) -> Complaints:
    for index, at, block in _blocks(messages):
        if "text" in block and not block["text"].strip():
            yield _refusal(
                "BDR-06",
                f"The text field in the ContentBlock object at messages.{index}.content.{at} is blank. Add text to the text "
                "field, and try again.",
            )
    last: dict[str, Any] = messages[-1] if messages else {"role": "", "content": []}
    if last["role"] == "assistant" and last["content"] and "text" in last["content"][-1]:
        said = last["content"][-1]["text"]
        if said.strip() and said != said.rstrip():
            yield _refusal(
                "BDR-06", f"{_MODEL}messages: final assistant content cannot end with trailing whitespace"
            )


def _blocks(messages: list[dict[str, Any]]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for index, message in enumerate(messages):
        for at, block in enumerate(message["content"]):
            yield index, at, block


def _ids(message: Mapping[str, Any], kind: str) -> list[str]:
    held = [block[kind] for block in message["content"] if kind in block]
    return [block["toolUseId"] for block in held if block.get("type") != "server_tool_use"]


@rule("BDR-02")
@rule("BDR-03")
def pairing(messages: list[dict[str, Any]]) -> Complaints:
    turns = [(index, message) for index, message in enumerate(messages) if message["role"] != "system"]
    for (_, before), (index, message) in pairwise([(-1, {"role": "", "content": []}), *turns]):
        called = _ids(before, "toolUse") if before["role"] == "assistant" else []
        answered = _ids(message, "toolResult") if message["role"] == "user" else []
        missing = [call for call in called if call not in answered]
        if missing:
            yield _refusal(
                "BDR-02",
                f"Expected toolResult blocks at messages.{index}.content for the following Ids: {', '.join(missing)}",
            )
        elif len(answered) > len(called) or len(set(answered)) < len(answered):
            yield _refusal(
                "BDR-03",
                f"The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks of "
                "previous turn.",
            )
        if len(set(called)) < len(called):
            yield _refusal(
                "BDR-07",
                f"The value at messages.{index - 1}.content toolUseId is a duplicate; each toolUseId must be unique in a "
                "message.",
            )
    if turns and _ids(turns[-1][1], "toolUse"):
        missing = _ids(turns[-1][1], "toolUse")
        place = f"messages.{turns[-1][0] + 1}.content"
        yield _refusal(
            "BDR-02", f"Expected toolResult blocks at {place} for the following Ids: {', '.join(missing)}"
        )


@rule("BDR-08")
def roles(messages: list[dict[str, Any]]) -> Complaints:
    for index, at, block in _blocks(messages):
        role = messages[index]["role"]
        kind = next(iter(block))
        user_only = (
            kind in ("toolResult", "image", "document", "video", "audio") and "type" not in block[kind]
        )
        model_only = kind in ("toolUse", "reasoningContent")
        if (role == "assistant" and user_only) or (role == "user" and model_only):
            other = "User" if role == "user" else "Assistant"
            yield _refusal(
                "BDR-08",
                f"{other} messages cannot contain {kind} blocks: messages.{index}.content.{at}.",
            )


@rule("BDR-04")
def missing_tools(body: Mapping[str, Any], messages: list[dict[str, Any]]) -> Complaints:
    used = any("toolUse" in block or "toolResult" in block for _, _, block in _blocks(messages))
    if used and "toolConfig" not in body:
        yield _refusal(
            "BDR-04", "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        )


@rule("BDR-05")
def empty_errors(messages: list[dict[str, Any]]) -> Complaints:
    for index, at, block in _blocks(messages):
        result = block.get("toolResult", {})
        if result.get("status") == "error" and not result["content"]:
            yield _refusal(
                "BDR-05",
                f"The content field at messages.{index}.content.{at}.toolResult cannot be empty when status value is error.",
            )


@rule("BDR-08")
def tool_choice(body: Mapping[str, Any], context: Context) -> Complaints:
    config = body.get("toolConfig") or {}
    choice = config.get("toolChoice") or {}
    names = [tool["toolSpec"]["name"] for tool in config.get("tools", ()) if "toolSpec" in tool]
    if len(set(names)) < len(names):
        yield _refusal("BDR-08", f"{_MODEL}tools: Tool names must be unique.")
    for index, tool in enumerate(config.get("tools", ())):
        schema = tool.get("toolSpec", {}).get("inputSchema", {}).get("json")
        if "toolSpec" in tool and (not isinstance(schema, dict) or schema.get("type") != "object"):
            yield _refusal(
                "BDR-08",
                f"The value at toolConfig.tools.{index}.toolSpec.inputSchema.json.type must be one of the following: object.",
            )
    wanted = choice.get("tool", {}).get("name")
    if wanted is not None and wanted not in names:
        yield _refusal("BDR-08", f"{_MODEL}Tool '{wanted}' not found in provided tools")
    allowed = context.facts.get("choices", ("auto", "any", "tool"))
    if any(way not in allowed for way in choice):
        yield _refusal(
            "BDR-08",
            f"This model doesn't support the toolConfig.toolChoice.{next(iter(choice))} field. Remove "
            f"toolConfig.toolChoice.{next(iter(choice))} and try again.",
        )
    if _thinks(body) == "enabled" and ("any" in choice or "tool" in choice):
        yield _refusal("BDR-08", f"{_MODEL}Thinking may not be enabled when tool_choice forces tool use.")


@rule("BDR-13")
def cache_points(body: Mapping[str, Any], messages: list[dict[str, Any]], context: Context) -> Complaints:
    places = context.facts.get("caches", ())
    tools = (body.get("toolConfig") or {}).get("tools", [])
    count = 0
    for name, entries in (
        ("toolConfig/tools", tools),
        ("system", body.get("system") or []),
        *((f"messages/{index}/content", message["content"]) for index, message in enumerate(messages)),
    ):
        before: Mapping[str, Any] = {}
        for at, entry in enumerate(entries):
            if "cachePoint" in entry:
                count += 1
                yield from _misplaced(name, at, before, places)
            before = entry
    if count > MOST_POINTS:
        yield _refusal(
            "BDR-13",
            f"{_MODEL}A maximum of {MOST_POINTS} blocks with cache_control may be provided. Found {count}.",
        )


def _misplaced(name: str, at: int, before: Mapping[str, Any], places: tuple[str, ...]) -> Complaints:
    place = {"toolConfig/tools": "tools", "system": "system"}.get(name, "messages")
    if place not in places:
        if places:
            message = f"#/{name}/{at}: extraneous key [cachePoint] is not permitted"
            yield _refusal(
                "BDR-13", f"Malformed input request: {message}, please reformat your input and try again."
            )
        else:
            yield _refusal(
                "BDR-13", "You invoked an unsupported model or your request did not allow prompt caching."
            )
    elif "reasoningContent" in before:
        yield _refusal(
            "BDR-13",
            "Cache point cannot be inserted after reasoning block. Please remove the invalid cache point and try again.",
        )
    elif not before or "cachePoint" in before:
        yield _refusal("BDR-13", f"#/{name}/{at}: a cachePoint must follow the content that it covers")


@rule("AWS-10")
@rule("BDR-14")
def thoughts(messages: list[dict[str, Any]], context: Context) -> Complaints:
    """Only Claude's thoughts come back signed; other models refuse an empty signature, and any thought at all if they have none."""
    for index, at, block in _blocks(messages):
        thought = block.get("reasoningContent", {}).get("reasoningText")
        place = f"messages.{index}.content.{at}"
        if "reasoningContent" in block and not context.facts.get("thinking"):
            yield _refusal(
                "BDR-14",
                "This model doesn't support the reasoningContent field. Remove reasoningContent and try again.",
            )
        elif thought is None:
            continue
        elif context.facts.get("signs"):
            if "signature" not in thought:
                yield _refusal("BDR-14", f"{_MODEL}{place}.thinking.signature: Field required")
            elif not is_ours(thought, context):
                yield _refusal("AWS-10", f"{_MODEL}{place}: Invalid `signature` in `thinking` block")
        elif thought.get("signature") == "":
            yield _refusal("BDR-14", f"The signature field at {place}.reasoningContent is empty.")
    for index, message in enumerate(messages):
        if (
            message["role"] == "assistant"
            and message["content"]
            and "reasoningContent" in message["content"][-1]
        ):
            yield _refusal(
                "BDR-14",
                f"{_MODEL}messages.{index}: The final block in an assistant message cannot be `thinking`.",
            )


def _thinks(body: Mapping[str, Any]) -> str:
    config = (body.get("additionalModelRequestFields") or {}).get("thinking")
    mode = config.get("type") if isinstance(config, dict) else None
    return mode if isinstance(mode, str) else ""


@rule("BDR-15")
def thinking(body: Mapping[str, Any], messages: list[dict[str, Any]], context: Context) -> Complaints:
    if not context.facts.get("signs") or _thinks(body) != "enabled":
        return
    if not messages or messages[-1]["role"] == "assistant":
        return  # it begins a reply
    index = len(messages) - 1
    opening = None
    while index >= 0:
        message = messages[index]
        if message["role"] == "assistant":
            opening = index
        elif message["role"] == "user" and not _ids(message, "toolResult"):
            break
        index -= 1
    if opening is not None and "reasoningContent" not in messages[opening]["content"][0]:
        yield _refusal(
            "BDR-15",
            f"{_MODEL}messages.{opening}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. "
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the "
            "lastmost set of `tool_use` and `tool_result` blocks).",
        )


@rule("BDR-12")
def model_fields(body: Mapping[str, Any], context: Context) -> Complaints:
    """What a family of models takes beside the fields of Converse."""
    fields, config = body.get("additionalModelRequestFields") or {}, body.get("inferenceConfig") or {}
    known = context.facts.get("fields", fields)
    for name in fields if isinstance(fields, dict) else ():
        if name not in known:
            yield _refusal("BDR-12", f"{_MODEL}{name}: Extra inputs are not permitted")
    mode = _thinks(body)
    modes = context.facts.get("thinking", ())
    if mode and mode not in modes:
        yield _refusal("BDR-12", f'{_MODEL}"thinking.type.{mode}" is not supported for this model.')
    budget = fields.get("thinking", {}).get("budget_tokens") if mode == "enabled" else None
    limit = config.get("maxTokens")
    if mode == "enabled" and not isinstance(budget, int):
        yield _refusal("BDR-12", f"{_MODEL}thinking.enabled.budget_tokens: Field required")
    elif isinstance(budget, int) and budget < 1024:
        yield _refusal(
            "BDR-12", f"{_MODEL}thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        )
    elif isinstance(budget, int) and limit is not None and budget >= limit:
        yield _refusal("BDR-12", f"{_MODEL}`max_tokens` must be greater than `thinking.budget_tokens`.")
    if mode in ("enabled", "adaptive") and config.get("temperature", 1) != 1:
        yield _refusal("BDR-12", f"{_MODEL}`temperature` may only be set to 1 when thinking is enabled.")
    if limit is not None and limit > context.facts.get("max_output", limit):
        most = context.facts["max_output"]
        yield _refusal(
            "BDR-12",
            f"The maximum tokens you requested exceeds the model limit of {most}. Try again with a maximum tokens value "
            f"that is lower than {most}.",
        )
    yield from _output(body, context)


def _output(body: Mapping[str, Any], context: Context) -> Complaints:
    output = body.get("outputConfig") or {}
    effort = output.get("effort")
    if effort is not None and effort not in context.facts.get("efforts", ()):
        yield _refusal("BDR-12", f"{_MODEL}output_config.effort: Input should be a known level")
    shape = output.get("textFormat")
    if shape is None:
        return
    if not context.facts.get("schemas"):
        yield _refusal("BDR-12", "This model doesn't support the outputConfig.textFormat field.")
    try:
        msgspec.json.decode(shape["structure"]["jsonSchema"]["schema"])
    except (msgspec.DecodeError, KeyError):
        yield _refusal("BDR-12", "The JSON schema in outputConfig.textFormat cannot be parsed.")


@rule("BDR-06")
def prefill(messages: list[dict[str, Any]], context: Context) -> Complaints:
    last = [message["role"] for message in messages if message["role"] != "system"][-1:]
    if last == ["assistant"] and context.facts.get("prefill") is False:
        yield _refusal(
            "BDR-06",
            f"{_MODEL}This model does not support assistant message prefill. The conversation must end with a user message.",
        )


@rule("BDR-11")
def instructions(messages: list[dict[str, Any]], context: Context) -> Complaints:
    if any(message["role"] == "system" for message in messages) and not context.facts.get("instructions"):
        yield _refusal("BDR-11", "This model doesn't support the system role in messages.")


@rule("BDR-19")
def too_long(body: Mapping[str, Any], context: Context) -> Complaints:
    limit = context.facts.get("context")
    if limit is not None and model_facts.count_value_tokens(body.get("messages")) > limit:
        yield _refusal("BDR-19", "Input is too long for requested model.")
