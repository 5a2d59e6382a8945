"""Everything that `/api/chat` refuses, in the order in which the server looks: JSON, model, abilities, prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.ollama import gojson, models
from segue.emulators.ollama.models import REGISTRY, full_name, known_store
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

LEVELS = ("high", "medium", "low", "max")
_LISTED = '"high", "medium", "low", "max", true, or false'
_INTEGERS = frozenset(
    [
        "num_ctx",
        "num_batch",
        "num_gpu",
        "main_gpu",
        "num_thread",
        "draft_num_predict",
        "num_keep",
        "seed",
        "num_predict",
        "top_k",
        "repeat_last_n",
    ]
)
_FLOATS = frozenset(
    ["top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty", "frequency_penalty"]
)


def complaints(body: object, context: Context) -> Complaints:
    """The rules that a native chat request breaks."""
    misread = list(wrong_envelope(body))
    yield from misread
    if misread or not isinstance(body, Mapping):
        return
    yield from logprobs(body)
    yield from ability_complaints(body, context)
    yield from option_types(body)
    if body.get("messages"):
        yield from format_of_reply(body)
        yield from too_long(body, context)
        yield from rendered(body, context)


def ability_complaints(body: Mapping[str, Any], context: Context) -> Complaints:
    """What depends on the model: that it is there, and that it can do what is asked."""
    yield from missing_model(body)
    yield from unknown_model(body, context)
    yield from cannot_chat(body, context)
    yield from cannot_call(body, context)
    yield from cannot_think(body, context)


def capabilities(context: Context) -> frozenset[str]:
    return frozenset(context.facts.get("capabilities", ("completion", "tools")))


def is_thinking(body: Mapping[str, Any], context: Context) -> bool:
    """OLL-08: models that can think do, unless the request forbids it; some cannot stop."""
    able = "thinking" in capabilities(context)
    return able and (body.get("think") is not False or bool(context.facts.get("levels")))


@rule("OLL-00")
def wrong_envelope(body: object) -> Complaints:
    """Types of the fields beside the messages; what is no object has no fields."""
    if body is None:
        yield Refusal("OLL-11", "missing request body")
    fields = {
        "model": gojson.STRING,
        "stream": gojson.BOOL,
        "truncate": gojson.BOOL,
        "top_logprobs": gojson.integer,
        "options": gojson.plain("object", "map[string]interface {}"),
    }
    yield from unreadable("OLL-00", body, fields)
    if isinstance(body, Mapping):
        yield from keep_alive(body)
        yield from think_value(body)
        yield from wrong_messages(body)
        yield from tool_schemas(body)


@rule("OLL-13")
def keep_alive(body: Mapping[str, Any]) -> Complaints:
    yield from unreadable("OLL-13", body, {"keep_alive": gojson.duration})


@rule("OLL-08")
def think_value(body: Mapping[str, Any]) -> Complaints:
    think = body.get("think")
    if think is None or isinstance(think, bool) or (isinstance(think, str) and think in LEVELS):
        return
    if isinstance(think, str):
        yield Refusal("OLL-08", f'invalid think value: "{think}" (must be {_LISTED})')
    else:
        yield Refusal("OLL-08", f"think must be a boolean or string ({_LISTED})")


@rule("OLL-11")
def logprobs(body: Mapping[str, Any]) -> Complaints:
    wanted = body.get("top_logprobs") or 0
    if not 0 <= wanted <= 20:
        yield Refusal("OLL-11", "top_logprobs must be between 0 and 20")


@rule("OLL-11")
def missing_model(body: Mapping[str, Any]) -> Complaints:
    if not body.get("model"):
        yield Refusal("OLL-11", "model is required")


@rule("OLL-11")
def unknown_model(body: Mapping[str, Any], context: Context) -> Complaints:
    store, name = known_store(context.memory), body.get("model")
    if name and store is not None and store.find(name) is None:
        yield Refusal("OLL-11", f"model '{name}' not found", status=404, type="not_found_error")


@rule("OLL-10")
def cannot_chat(body: Mapping[str, Any], context: Context) -> Complaints:
    if "completion" not in capabilities(context):
        yield Refusal("OLL-10", f'"{body.get("model")}" does not support chat')


@rule("OLL-07")
def cannot_call(body: Mapping[str, Any], context: Context) -> Complaints:
    able = capabilities(context)
    if body.get("tools") and "completion" in able and "tools" not in able:
        name = full_name(str(body.get("model")))
        yield Refusal("OLL-07", f"{REGISTRY}/{name} does not support tools")


@rule("OLL-08")
def cannot_think(body: Mapping[str, Any], context: Context) -> Complaints:
    if body.get("think") and "thinking" not in capabilities(context):
        yield Refusal("OLL-08", f'"{body.get("model")}" does not support thinking')


@rule("OLL-14")
def option_types(body: Mapping[str, Any]) -> Complaints:
    """Unknown options are only logged by the server; whole-number options take fractions and cut them."""
    for name, value in (body.get("options") or {}).items():
        wanted = _option_type(name)
        if wanted is not None and value is not None and gojson.kind(value) != wanted[0]:
            yield Refusal(
                "OLL-14", f'option "{name}" must be of type {wanted[1]}', status=500, type="api_error"
            )


def _option_type(name: str) -> tuple[str, str] | None:
    if name in _INTEGERS:
        return "number", "integer"
    if name in _FLOATS:
        return "number", "float32"
    return {"use_mmap": ("bool", "boolean"), "stop": ("array", "array")}.get(name)


@rule("OLL-18")
def format_of_reply(body: Mapping[str, Any]) -> Complaints:
    wanted = body.get("format")
    if wanted in (None, "", "json") or isinstance(wanted, dict):
        return
    shown = msgspec.json.encode(wanted).decode()
    yield Refusal(
        "OLL-18",
        f'invalid format: {shown}; expected "json" or a valid JSON Schema object',
        status=500,
        type="api_error",
    )


@rule("OLL-16")
def too_long(body: Mapping[str, Any], context: Context) -> Complaints:
    """Refused only if the request asks for it; everyone else is answered on a shortened prompt."""
    if body.get("truncate") is not False:
        return
    asked = models.prompt_tokens(models.read(body, context), body.get("tools"))
    limit = models.size(body, context)
    if asked > limit:
        yield Refusal(
            "OLL-16",
            f"request ({asked} tokens) exceeds the available context size ({limit} tokens), "
            "try increasing it",
        )


@rule("OLL-03")
def rendered(body: Mapping[str, Any], context: Context) -> Complaints:
    """A template of the server's own looks at what is left of the conversation, and may raise."""
    if context.facts.get("renderer") != "qwen":
        return
    left = models.kept(models.read(body, context), body.get("tools"), models.size(body, context))
    speakers = [str(message.get("role", "")).lower() for message in left]
    if "user" not in speakers:
        yield _template("no user query found in messages")
    for speaker, message in zip(speakers, left, strict=True):
        if message.get("images") and speaker in ("system", "assistant"):
            yield _template(f"{speaker} message cannot contain images")


def _template(message: str) -> Refusal:
    return Refusal("OLL-03", message, status=500, type="api_error")


def unreadable(rule_id: str, body: object, fields: Mapping[str, gojson.Check]) -> Complaints:
    for sentence in gojson.decode(body, "ChatRequest", "api.ChatRequest", fields):
        yield Refusal(rule_id, sentence)


def _message(**fields: gojson.Check) -> Mapping[str, gojson.Check]:
    return {"messages": gojson.listing(gojson.struct(fields, "api.Message"), "[]api.Message")}


def _call(*, function: Mapping[str, gojson.Check], **fields: gojson.Check) -> gojson.Check:
    inner = gojson.struct(function, "api.ToolCallFunction")
    return gojson.listing(gojson.struct({**fields, "function": inner}, "api.ToolCall"), "[]api.ToolCall")


def wrong_messages(body: Mapping[str, Any]) -> Complaints:
    skeleton = list(unreadable("OLL-00", body, _message(tool_calls=_call(function={}))))
    yield from skeleton
    if not skeleton:
        yield from wrong_content(body)
        yield from wrong_arguments(body)
        yield from wrong_fields(body)


@rule("OLL-01")
def wrong_content(body: Mapping[str, Any]) -> Complaints:
    yield from unreadable("OLL-01", body, _message(content=gojson.STRING))


def _arguments(value: object, path: str) -> Iterator[str]:  # noqa: ARG001 — a Check
    if value is not None and not isinstance(value, dict):
        yield "Value looks like object, but can't find closing '}' symbol"


@rule("OLL-02")
def wrong_arguments(body: Mapping[str, Any]) -> Complaints:
    """Arguments are an object; the JSON text that other APIs want is refused."""
    yield from unreadable("OLL-02", body, _message(tool_calls=_call(function={"arguments": _arguments})))


@rule("OLL-04")
def wrong_fields(body: Mapping[str, Any]) -> Complaints:
    """Images are raw base64. `name` is no field of a message; like all unknown fields it is ignored."""
    function = {"name": gojson.STRING, "index": gojson.integer}
    fields = _message(
        role=gojson.STRING,
        thinking=gojson.STRING,
        images=gojson.listing(gojson.base64, "[]api.ImageData"),
        tool_calls=_call(function=function, id=gojson.STRING),
        tool_name=gojson.STRING,
        tool_call_id=gojson.STRING,
    )
    yield from unreadable("OLL-04", body, fields)


def _properties(value: object, path: str) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield gojson.mismatch(value, path, "map[string]api.ToolProperty")
        return
    for schema in value.values():
        yield from _PROPERTY(schema, path)


def _type_names(value: object, path: str) -> Iterator[str]:  # noqa: ARG001 — a Check
    listed = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(name, str) for name in listed):
        yield f"invalid property type: {msgspec.json.encode(value).decode()}"


_NAMES = gojson.listing(gojson.STRING, "[]string")
_PROPERTY = gojson.struct(
    {
        "type": _type_names,
        "description": gojson.STRING,
        "enum": gojson.plain("array", "[]interface {}"),
        "required": _NAMES,
        "anyOf": gojson.plain("array", "[]api.ToolProperty"),
    },
    "api.ToolProperty",
)
_PARAMETERS = gojson.struct(
    {"type": gojson.STRING, "properties": _properties, "required": _NAMES}, "api.ToolFunctionParameters"
)
_FUNCTION = gojson.struct(
    {"name": gojson.STRING, "description": gojson.STRING, "parameters": _PARAMETERS}, "api.ToolFunction"
)
TOOLS = gojson.listing(gojson.struct({"type": gojson.STRING, "function": _FUNCTION}, "api.Tool"), "api.Tools")


@rule("OLL-17")
def tool_schemas(body: Mapping[str, Any]) -> Complaints:
    """Only a few keywords are read, but those must have the right type; names are free."""
    yield from unreadable("OLL-17", body, {"tools": TOOLS})
