"""What Chat Completions takes in a request, place by place."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from segue.dialects.openai_chat.rules import SERVERS
from segue.dialects.openai_chat.wire import THOUGHTS
from segue.dialects.shapes import UNFIT, Items, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.value_shapes import (
    ANY,
    ARGUMENTS_TEXT,
    CONTENT,
    FLAG,
    ID,
    LIST,
    NEVER,
    OBJECT,
    OUTPUT,
    SCHEMA,
    TEXT,
    WORDS,
    only,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.dialects.openai_chat.rules import Variant
    from segue.dialects.shapes import Shape


_SOME_TEXT = ValueShape("some text", lambda value: isinstance(value, str) and bool(value), is_read=True)


def _address(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else UNFIT


def _text_part(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else UNFIT


def _part(variant: Variant) -> Shape:
    # CHAT-53: the kinds of text that other wires have are read, but not known here.
    # KIM-10: where blank texts are refused, so are parts without text.
    said, absent = (WORDS, "") if variant.rules.blank_text else (_SOME_TEXT, UNFIT)
    text = ObjectShape({"type": only("text"), "text": said}, {"text": absent})
    kinds: Mapping[str, Shape] = {
        "text": text,
        "input_text": text,
        "output_text": text,
        "refusal": ObjectShape({"refusal": WORDS}, {"refusal": ""}),
        "image_url": ObjectShape(
            {"image_url": ObjectShape({"url": WORDS, "detail": TEXT}, {"url": UNFIT}, correct=_address)},
            {"image_url": UNFIT},
        ),
        "input_audio": ObjectShape(
            {"input_audio": ObjectShape({"data": WORDS, "format": WORDS}, {"data": UNFIT})},
            {"input_audio": UNFIT},
        ),
        "file": ObjectShape(
            {
                "file": ObjectShape(
                    {"file_id": WORDS, "file_data": WORDS, "filename": WORDS},
                    closed=variant.fields is not None,
                    some_of=frozenset({"file_id", "file_data"}),
                )
            },
            {"file": UNFIT},
        ),
    }
    other = ObjectShape({"type": only("text"), "text": WORDS}, {"type": "text", "text": ""})
    return Tagged("type", {**kinds, "untyped": other}, missing="untyped", correct=_text_part)


def _call(variant: Variant) -> Shape:
    function = ObjectShape({"name": WORDS, "arguments": ARGUMENTS_TEXT}, {"name": "", "arguments": ""})
    strict = {"type": "function"} if variant.fields is not None else {}  # CHAT-24
    custom = ObjectShape({"name": WORDS, "input": WORDS}, {"name": "", "input": ""})
    return Tagged(
        "type",
        {"custom": ObjectShape({"id": ID, "type": TEXT, "custom": custom}, {"id": "", "custom": UNFIT})},
        ObjectShape(
            {"id": ID, "type": only("function"), "function": function, "extra_content": OBJECT},
            {"id": "", "function": UNFIT, **strict},
        ),
    )


@cache
def message_shape(name: str) -> Shape:
    """One message, of whichever role."""
    variant = SERVERS[name]
    content = TextOr(CONTENT, Items(_part(variant), some=True))  # CHAT-03
    called: Mapping[str, Shape] = {
        "tool_calls": Items(_call(variant), some=True),  # CHAT-17
        "function_call": ObjectShape({"name": WORDS, "arguments": ARGUMENTS_TEXT}),
    }
    thoughts: Mapping[str, Shape] = {} if variant.thoughts else dict.fromkeys(THOUGHTS, NEVER)
    operator = ObjectShape(
        {
            "role": ANY if variant.developer else only("system"),
            "content": content,
            "name": WORDS,
            **called,
            **thoughts,
        },
        {"content": ""},
    )
    result = ObjectShape(
        {"content": TextOr(OUTPUT, content.other), "tool_call_id": ID, "name": WORDS, **called, **thoughts},
        {"content": "", "tool_call_id": ""},
    )
    return Tagged(
        "role",
        {
            "system": operator,
            "developer": operator,
            "user": ObjectShape({"content": content, "name": WORDS, **called, **thoughts}, {"content": ""}),
            "assistant": ObjectShape(
                {
                    "content": content,
                    **called,
                    "refusal": WORDS,
                    "audio": OBJECT,
                    "name": WORDS,
                    "reasoning_content": WORDS,
                    "reasoning": TEXT,
                    "reasoning_details": LIST,
                    "extra_content": OBJECT,
                }
            ),
            "tool": result,
            "function": ObjectShape({"content": content, "name": WORDS, **called, **thoughts}),
        },
        ObjectShape({}),
    )


@cache
def tools_shape(name: str) -> Shape:
    variant = SERVERS[name]
    function = ObjectShape(
        {"name": WORDS, "description": WORDS, "parameters": SCHEMA, "strict": FLAG}, {"name": ""}
    )
    known: Mapping[str, Shape] = {"type": word("function") if variant.fields is not None else TEXT}
    return Items(
        Tagged(
            "type",
            {
                "custom": ObjectShape({"custom": OBJECT}),
                "function": ObjectShape({"function": function}, {"function": UNFIT}),
            },
            ObjectShape({**known, "function": function}, {"type": "function"}),
        )
    )


@cache
def request_shape(name: str) -> ObjectShape:
    """A whole request."""
    variant = SERVERS[name]
    known: dict[str, Shape] = dict.fromkeys(_ASKED | (variant.fields or frozenset()), ANY)
    return ObjectShape(
        {**known, "messages": Items(message_shape(name)), "tools": tools_shape(name)},
        closed=variant.fields is not None,
    )


_ASKED = frozenset(
    {"model", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop"}
    | {"tool_choice", "functions", "function_call", "parallel_tool_calls", "reasoning_effort"}
)
