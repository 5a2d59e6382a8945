"""What the Responses wire takes in a request, place by place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.requests.shapes import UNFIT, Items, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.requests.value_shapes import (
    ANY,
    ARGUMENTS_TEXT,
    CONTENT,
    FLAG,
    ID,
    OBJECT,
    OUTPUT,
    SCHEMA,
    TEXT,
    WORDS,
    item_id,
    only,
    word,
)

if TYPE_CHECKING:
    from segue.dialects.requests.shapes import Shape

_STATUS = word("completed", "in_progress", "incomplete")
# An item's own id (RESP-21, RESP-22) may be left out (RESP-23).


def _text_part(kind: str) -> Shape:
    return ObjectShape({"type": only(kind), "text": WORDS}, {"text": ""})


def _as_part(kind: str) -> Any:
    return lambda value: {"type": kind, "text": value} if isinstance(value, str) else UNFIT


def _parts(kind: str, **others: Shape) -> Items:
    """Parts of which the texts are of one kind, whatever others call them (RESP-02)."""
    text = _text_part(kind)
    texts: dict[str, Shape] = dict.fromkeys(("text", "input_text", "output_text", "summary_text"), text)
    return Items(Tagged("type", {**texts, **others}, correct=_as_part(kind)))


_SHOWN: dict[str, Shape] = {
    "input_image": ObjectShape(
        {"image_url": WORDS, "file_id": WORDS, "detail": word("low", "high", "auto", "original")}
    ),
    "input_file": ObjectShape({"file_data": WORDS, "file_url": WORDS, "file_id": WORDS, "filename": WORDS}),
    "input_audio": ObjectShape(
        {"input_audio": ObjectShape({"data": WORDS, "format": WORDS}, {"data": UNFIT})},
        {"input_audio": UNFIT},
    ),
}
_REFUSAL = ObjectShape({"refusal": WORDS}, {"refusal": ""})
_ASKED_PARTS = TextOr(CONTENT, _parts("input_text", **_SHOWN))
PASSED = "internal_chat_message_metadata_passthrough"
"""Of Codex, on items of every type."""
_OF_A_CALL: dict[str, Shape] = dict.fromkeys(("type", "caller", "created_by", PASSED), ANY)
_MESSAGE: dict[str, Shape] = {
    PASSED: ANY,
    "created_by": ANY,
    "type": only("message"),
    "role": ANY,
    "id": item_id("msg"),
    "status": _STATUS,
    "phase": TEXT,
}
_SHOWING = ObjectShape({**_MESSAGE, "content": _ASKED_PARTS}, {"content": ""}, closed=True)
_REPLY = ObjectShape(
    {**_MESSAGE, "content": TextOr(CONTENT, _parts("output_text", refusal=_REFUSAL))},
    {"content": ""},
    closed=True,
)
_MESSAGES = Tagged(
    "role", {"user": _SHOWING, "system": _SHOWING, "developer": _SHOWING, "assistant": _REPLY}, OBJECT
)
_OUTPUT: dict[str, Shape] = {
    **_OF_A_CALL,
    "call_id": ID,
    "status": _STATUS,
    "output": TextOr(OUTPUT, _parts("input_text", **{k: v for k, v in _SHOWN.items() if k != "input_audio"})),
}
ITEM = Tagged(
    "type",
    {
        "message": _MESSAGES,
        "function_call": ObjectShape(
            {
                **_OF_A_CALL,
                "id": item_id("fc"),
                "call_id": ID,
                "name": WORDS,
                "arguments": ARGUMENTS_TEXT,
                "namespace": TEXT,
                "status": _STATUS,
            },
            {"call_id": "", "name": "", "arguments": ""},
            closed=True,
        ),
        "custom_tool_call": ObjectShape(
            {
                **_OF_A_CALL,
                "id": item_id("ctc"),
                "call_id": ID,
                "name": WORDS,
                "input": WORDS,
                "namespace": TEXT,
                "status": _STATUS,
            },
            {"call_id": "", "name": "", "input": ""},
            closed=True,
        ),
        "function_call_output": ObjectShape(
            {"id": item_id("fc"), **_OUTPUT}, {"call_id": "", "output": ""}, closed=True
        ),
        "custom_tool_call_output": ObjectShape(
            {"id": item_id(), **_OUTPUT}, {"call_id": "", "output": ""}, closed=True
        ),
        "reasoning": ObjectShape(
            {
                "type": ANY,
                PASSED: ANY,
                "created_by": ANY,
                "id": item_id("rs"),
                "content": ANY,
                "summary": Items(Tagged("type", {"summary_text": _text_part("summary_text")}, OBJECT)),
                "encrypted_content": WORDS,
                "status": ValueShape("known there", lambda _: False, is_form=True),  # RESP-42
            },
            {"summary": []},
            closed=True,
        ),
        "item_reference": ObjectShape({"id": TEXT}, {"id": UNFIT}),
        **dict.fromkeys(
            (
                *("file_search_call", "computer_call", "computer_call_output", "web_search_call"),
                *("tool_search_call", "tool_search_output", "additional_tools", "configuration_update"),
                *("compaction", "image_generation_call", "code_interpreter_call", "local_shell_call"),
                *("local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call"),
                *("apply_patch_call_output", "mcp_list_tools", "mcp_approval_request", "mcp_call"),
                *("mcp_approval_response", "compaction_trigger", "program", "program_output"),
            ),
            ObjectShape({"id": item_id()}),
        ),
    },
    missing="message",
)
_FUNCTION = ObjectShape(
    {"type": only("function"), "name": WORDS, "description": WORDS, "parameters": SCHEMA, "strict": FLAG},
    {"type": "function", "name": ""},
)
TOOLS = Items(
    Tagged(
        "type", {"function": _FUNCTION, "custom": ObjectShape({"name": WORDS})}, OBJECT, missing="function"
    )
)
_KNOWN = frozenset(
    {
        "model",
        "stream",
        "store",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "instructions",
    }
    | {"previous_response_id", "reasoning", "text", "include", "metadata", "stream_options", "conversation"}
    | {"tool_choice", "max_tool_calls", "top_logprobs", "truncation", "user", "service_tier", "background"}
    | {"prompt", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "safety_identifier"}
    | {"context_management", "moderation", "client_metadata"}
)
REQUEST = ObjectShape(
    {**dict.fromkeys(_KNOWN, ANY), "input": TextOr(WORDS, Items(ITEM)), "tools": TOOLS}, closed=True
)
