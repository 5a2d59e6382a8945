"""What may stand in a Messages request: every key of every block, as data (ANT-04, ANT-29, ANT-51, ANT-65)."""

from __future__ import annotations

from segue.emulators.anthropic.schema import (
    Anything,
    Dictionary,
    Flag,
    Items,
    Number,
    Record,
    Shape,
    String,
    Tagged,
    TextOr,
)

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
