"""What may stand in a Messages request: every key of every block, as data (ANT-04, ANT-29, ANT-51, ANT-65).

The first half is a small language for such data, with the API's words for a value that does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from segue.emulators.rules import Complaints, Refusal


class Anything(Struct, frozen=True):
    """Not looked at."""


class Flag(Struct, frozen=True):
    """True or false."""


class Number(Struct, frozen=True):
    """A number, whole when asked, within bounds when given."""

    whole: bool = False
    least: float | None = None
    most: float | None = None


class String(Struct, frozen=True):
    """A string, perhaps of a pattern or out of a list."""

    pattern: str = ""
    most: int | None = None
    choices: tuple[str, ...] = ()
    betas: Mapping[str, str] = field(default_factory=dict)
    """Choices that exist only for those who send this value in `anthropic-beta`."""
    rule: str = "ANT-04"


class Dictionary(Struct, frozen=True):
    """An object with any keys."""

    rule: str = "ANT-04"


class Items(Struct, frozen=True):
    """A list of values of one shape."""

    of: Shape


class TextOr(Struct, frozen=True):
    """A plain string, or the longer form."""

    other: Shape


class Record(Struct, frozen=True):
    """An object with known keys. A key that is not required may also be null."""

    fields: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    betas: Mapping[str, str] = field(default_factory=dict)
    """Keys that exist only for those who send this value in `anthropic-beta`."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rule ids of missing keys, where the rulebook has a rule of its own for them."""


class Tagged(Struct, frozen=True):
    """One of several records, distinguished by `type`. Its name becomes part of the path."""

    variants: Mapping[str, Shape]
    default: str | None = None
    unchecked: str = ""
    """A pattern of further tags whose content is not looked at."""
    betas: Mapping[str, str] = field(default_factory=dict)
    rule: str = "ANT-04"


Shape: TypeAlias = Anything | Flag | Number | String | Dictionary | Items | TextOr | Record | Tagged
Offers: TypeAlias = Callable[[str], bool]
"""Whether the client has switched on a beta."""


def _refuse(path: str, problem: str, rule: str = "ANT-04") -> Refusal:
    return Refusal(rule, f"{path}: {problem}")


def faults(shape: Shape, value: Any, path: str, offers: Offers) -> Complaints:
    """Every place where the value does not have the shape, in the order of the API's own validation."""
    match shape:
        case Record():
            yield from _record_faults(shape, value, path, offers)
        case Tagged():
            yield from _tagged_faults(shape, value, path, offers)
        case Items(of):
            if not isinstance(value, list):
                yield _refuse(path, "Input should be a valid list")
                return
            for index, item in enumerate(value):
                yield from faults(of, item, f"{path}.{index}", offers)
        case TextOr(other):
            if not isinstance(value, str):
                yield from faults(other, value, path, offers)
        case String():
            yield from _string_faults(shape, value, path, offers)
        case _:
            yield from _plain_faults(shape, value, path)


def _plain_faults(shape: Shape, value: Any, path: str) -> Complaints:
    match shape:
        case Number():
            yield from _number_faults(shape, value, path)
        case Flag() if not isinstance(value, bool):
            yield _refuse(path, "Input should be a valid boolean")
        case Dictionary(rule) if not isinstance(value, dict):
            yield _refuse(path, "Input should be a valid dictionary", rule)
        case _:
            return


def _string_faults(shape: String, value: Any, path: str, offers: Offers) -> Complaints:
    if shape.choices:
        choices = [choice for choice in shape.choices if offers(shape.betas.get(choice, ""))]
        if value not in choices:
            yield _refuse(path, f"Input should be {_alternatives(choices)}", shape.rule)
    elif not isinstance(value, str):
        yield _refuse(path, "Input should be a valid string", shape.rule)
    elif shape.most is not None and len(value) > shape.most:
        yield _refuse(path, f"String should have at most {shape.most} characters", shape.rule)
    elif shape.pattern and not re.fullmatch(shape.pattern.strip("^$"), value, re.ASCII):
        yield _refuse(path, f"String should match pattern '{shape.pattern}'", shape.rule)


def _number_faults(shape: Number, value: Any, path: str) -> Complaints:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield _refuse(path, f"Input should be a valid {'integer' if shape.whole else 'number'}")
    elif shape.whole and value % 1 != 0:
        yield _refuse(path, "Input should be a valid integer, got a number with a fractional part")
    elif shape.least is not None and value < shape.least:
        yield _refuse(path, f"Input should be greater than or equal to {shape.least:g}")
    elif shape.most is not None and value > shape.most:
        yield _refuse(path, f"Input should be less than or equal to {shape.most:g}")


def _record_faults(shape: Record, value: Any, path: str, offers: Offers) -> Complaints:
    if not isinstance(value, dict):
        # Recorded from the real API for a message that is a bare string.
        problem = "Input does not match the expected shape." if path else "Input should be a valid dictionary"
        yield _refuse(path or "body", problem)
        return
    prefix = f"{path}." if path else ""
    for key in shape.required:
        if key not in value:
            yield _refuse(f"{prefix}{key}", "Field required", shape.rules.get(key, "ANT-04"))
    for key, item in value.items():
        known = shape.fields.get(key)
        if known is None or not offers(shape.betas.get(key, "")):
            yield _refuse(f"{prefix}{key}", "Extra inputs are not permitted")
        elif item is not None or key in shape.required:
            yield from faults(known, item, f"{prefix}{key}", offers)


def _tagged_faults(shape: Tagged, value: Any, path: str, offers: Offers) -> Complaints:
    if not isinstance(value, dict):
        yield _refuse(path, "Input should be a valid dictionary or object to extract fields from")
        return
    tag = value.get("type") if value.get("type") is not None else shape.default
    if tag is None:
        yield _refuse(path, "Unable to extract tag using discriminator 'type'")
        return
    offered = {name for name in shape.variants if offers(shape.betas.get(name, ""))}
    if isinstance(tag, str) and tag in offered:
        yield from faults(shape.variants[tag], value, f"{path}.{tag}", offers)
    elif not (isinstance(tag, str) and shape.unchecked and re.fullmatch(shape.unchecked, tag)):
        expected = ", ".join(f"'{name}'" for name in sorted(offered))
        problem = f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
        yield _refuse(path, problem, shape.rule)


def _alternatives(choices: Sequence[str]) -> str:
    quoted = [f"'{choice}'" for choice in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


ID_PATTERN = "^[a-zA-Z0-9_-]+$"
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
FILES_BETA = "files-api"
# Result blocks of the provider's own tools, and other blocks that only ever come back as they were sent.
ECHOED_BLOCKS = r"[a-z_]+_tool_result|compaction|fallback|mcp_tool_use|container_upload"

CACHE_CONTROL = Tagged(
    {"ephemeral": Record({"type": Anything(), "ttl": String(choices=("5m", "1h"))}, required=("type",))}
)


def _block(required: tuple[str, ...] = (), **fields: Shape) -> Record:
    return Record({"type": Anything(), **fields}, required=required)


_CACHED: dict[str, Shape] = {"cache_control": CACHE_CONTROL}
_FILE = _block(("file_id",), file_id=String())

IMAGE_SOURCE = Tagged(
    {
        "base64": _block(
            ("data", "media_type"), data=String(), media_type=String(choices=IMAGE_TYPES, rule="ANT-65")
        ),
        "file": _FILE,
        "url": _block(("url",), url=String()),
    },
    betas={"file": FILES_BETA},
)
DOCUMENT_SOURCE = Tagged(
    {
        "base64": _block(
            ("data", "media_type"),
            data=String(),
            media_type=String(choices=("application/pdf",), rule="ANT-65"),
        ),
        "content": _block(("content",), content=Anything()),
        "file": _FILE,
        "text": _block(("data", "media_type"), data=String(), media_type=String(choices=("text/plain",))),
        "url": _block(("url",), url=String()),
    },
    betas={"file": FILES_BETA},
)
TEXT = _block(("text",), text=String(), citations=Anything(), **_CACHED)
IMAGE = _block(("source",), source=IMAGE_SOURCE, **_CACHED)
DOCUMENT = _block(
    ("source",), source=DOCUMENT_SOURCE, title=String(), context=String(), citations=Anything(), **_CACHED
)
SEARCH_RESULT = _block(
    ("source", "title", "content"),
    source=String(),
    title=String(),
    content=Items(TEXT),
    citations=Anything(),
    **_CACHED,
)
TOOL_REFERENCE = _block(("tool_name",), tool_name=String(most=64, rule="ANT-40"), **_CACHED)
RESULT_CONTENT = Tagged(
    {
        "text": TEXT,
        "image": IMAGE,
        "document": DOCUMENT,
        "search_result": SEARCH_RESULT,
        "tool_reference": TOOL_REFERENCE,
        "browser_state": Dictionary(),
    },
    rule="ANT-29",
)
TOOL_RESULT = _block(
    ("tool_use_id",),
    tool_use_id=String(pattern=ID_PATTERN, rule="ANT-25"),
    content=TextOr(Items(RESULT_CONTENT)),
    is_error=Flag(),
    toolset_name=String(),
    **_CACHED,
)
TOOL_USE = _block(
    ("id", "name", "input"),
    id=String(pattern=ID_PATTERN, rule="ANT-25"),
    name=String(),
    input=Dictionary(rule="ANT-26"),
    caller=Dictionary(),
    toolset_name=String(),
    **_CACHED,
)
THINKING = Record(
    {"type": Anything(), "thinking": String(), "signature": String()},
    required=("thinking", "signature"),
    rules={"signature": "ANT-55", "thinking": "ANT-51"},
)
CONTENT = Tagged(
    {
        "text": TEXT,
        "image": IMAGE,
        "document": DOCUMENT,
        "search_result": SEARCH_RESULT,
        "thinking": THINKING,
        "redacted_thinking": Record(
            {"type": Anything(), "data": String()}, required=("data",), rules={"data": "ANT-51"}
        ),
        "tool_use": TOOL_USE,
        "tool_result": TOOL_RESULT,
        "server_tool_use": _block(
            ("id", "name", "input"),
            id=String(),
            name=String(),
            input=Dictionary(),
            caller=Dictionary(),
            **_CACHED,
        ),
        "tool_addition": Dictionary(),
        "tool_removal": Dictionary(),
    },
    unchecked=ECHOED_BLOCKS,
)
MESSAGE = Record(
    {
        "role": String(choices=("user", "assistant", "system"), rule="ANT-10"),
        "content": TextOr(Items(CONTENT)),
        "output_config": Dictionary(),
    },
    required=("role", "content"),
)
CUSTOM_TOOL = Record(
    {
        "type": Anything(),
        "name": String(pattern="^[a-zA-Z0-9_-]{1,128}$", rule="ANT-40"),
        "description": String(),
        "input_schema": Dictionary(rule="ANT-41"),
        "cache_control": CACHE_CONTROL,
        "strict": Flag(),
        "defer_loading": Flag(),
        "allowed_callers": Anything(),
        "input_examples": Anything(),
        "eager_input_streaming": Flag(),
    },
    required=("name", "input_schema"),
    rules={"input_schema": "ANT-41"},
)
TOOL = Tagged({"custom": CUSTOM_TOOL}, default="custom", unchecked=r"[a-z0-9_]+_20\d{6}|mcp_toolset")
_PARALLEL: dict[str, Shape] = {"disable_parallel_tool_use": Flag()}
TOOL_CHOICE = Tagged(
    {
        "any": _block((), **_PARALLEL),
        "auto": _block((), **_PARALLEL),
        "none": _block(),
        "tool": _block(("name",), name=String(), **_PARALLEL),
    }
)
_SHOWN: dict[str, Shape] = {
    "display": String(
        choices=("summarized", "omitted", "updates"), betas={"updates": "thinking-display-updates"}
    ),
    "block_binding": Dictionary(),
}
THINKING_CONFIG = Tagged(
    {
        "adaptive": _block((), **_SHOWN),
        "between_tools": _block((), **_SHOWN),
        "disabled": _block(),
        "enabled": _block(("budget_tokens",), budget_tokens=Number(whole=True, least=1024), **_SHOWN),
    }
)
_BILLING_POLICY = Tagged({"billing_policy": _block((), bill_to=String(choices=("self", "user_profile")))})
_ASKED: dict[str, Shape] = {
    "model": String(),
    "messages": Items(MESSAGE),
    "system": TextOr(Items(TEXT)),
    "tools": Items(TOOL),
    "tool_choice": TOOL_CHOICE,
    "thinking": THINKING_CONFIG,
    "output_config": Dictionary(),
    "output_format": Dictionary(),
    "mcp_servers": Items(Dictionary()),
    "context_management": Dictionary(),
    "cache_control": CACHE_CONTROL,
    "billing_policy": _BILLING_POLICY,
}
_BETAS = {"context_management": "context-management", "billing_policy": "user-profiles-billing"}
_THREAD = Tagged(
    {"create": _block(), "continue": _block(("previous_message_id",), previous_message_id=String())}
)

COUNT_REQUEST = Record(_ASKED, required=("messages", "model"), betas=_BETAS)
REQUEST = Record(
    {
        **_ASKED,
        "max_tokens": Number(whole=True, least=0),
        "metadata": Dictionary(),
        "stop_sequences": Items(String()),
        "stream": Flag(),
        "temperature": Number(least=0, most=1),
        "top_p": Number(least=0, most=1),
        "top_k": Number(whole=True, least=0),
        "service_tier": String(),
        "container": Anything(),
        "inference_geo": String(),
        "speed": String(),
        "diagnostics": Dictionary(),
        "thread": _THREAD,
        "compaction": Dictionary(),
        "fallbacks": Anything(),
        "fallback_credit_token": Anything(),
        "user_profile_id": String(),
    },
    required=("max_tokens", "messages", "model"),
    betas={
        **_BETAS,
        "thread": "message-threads",
        "compaction": "compact",
        "fallbacks": "server-side-fallback",
        "fallback_credit_token": "fallback-credit",
        "user_profile_id": "user-profiles",
    },
    rules={"max_tokens": "ANT-05"},
)
