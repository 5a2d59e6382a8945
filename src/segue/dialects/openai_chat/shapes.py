"""What Chat Completions takes in a request, place by place."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct

from segue.dialects.openai_chat.rules import variant_of
from segue.dialects.openai_chat.wire import THOUGHTS, spoken_words
from segue.dialects.requests.messages import join_texts
from segue.dialects.requests.shapes import UNFIT, Items, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.requests.value_shapes import (
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
    from segue.dialects.requests.shapes import Fitting, Shape


_SOME_TEXT = ValueShape("some text", lambda value: isinstance(value, str) and bool(value), is_read=True)


def _address(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else UNFIT


def _text_part(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else UNFIT


@final
class _RefusalAsText(Struct, frozen=True):
    """A part that OpenAI alone knows (KIM-11, DSK-04): elsewhere the words of a refusal are text."""

    text: ObjectShape
    wanted: str = "text"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        words = value.get("refusal")
        if isinstance(words, str) and words:
            fitting.note_correction(path, self.wanted)
        return self.text.fit({"type": "text", "text": words}, path, fitting)


@final
class _WithContent(Struct, frozen=True):
    """A reply of the model where one without content is refused (KIM-10): what it says beside its content is its content."""

    message: ObjectShape
    wanted: str = "an object"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        fitted = self.message.fit(value, path, fitting)
        if fitted.get("tool_calls") or fitted.get("function_call") or _says_something(fitted.get("content")):
            return fitted
        words = _words_beside(fitted)
        if not words.strip():
            return fitted
        fitting.note_correction(f"{path}.content", "some text")
        kept = {name: held for name, held in fitted.items() if name not in ("refusal", "audio")}
        return {**kept, "content": words}


def _says_something(content: Any) -> bool:
    if isinstance(content, list):
        return any(_says_something(part) for part in content)
    words = content.get("text") if isinstance(content, dict) else content
    is_image = isinstance(content, dict) and words is None
    return is_image or (bool(words.strip()) if isinstance(words, str) else words is not None)


def _words_beside(message: Mapping[str, Any]) -> str:
    refusal, audio = message.get("refusal"), message.get("audio")
    words = [refusal] if isinstance(refusal, str) else []
    if isinstance(audio, dict) and audio.get("id"):
        words.append(spoken_words(audio))
    return join_texts(words)


def _part(variant: Variant) -> Shape:
    # CHAT-53: the kinds of text that other wires have are read, but not known here.
    # KIM-10: where blank texts are refused, so are parts without text.
    said, absent = (WORDS, "") if variant.rules.blank_text else (_SOME_TEXT, UNFIT)
    text = ObjectShape({"type": only("text"), "text": said}, {"text": absent})
    kinds: Mapping[str, Shape] = {
        "text": text,
        "input_text": text,
        "output_text": text,
        "refusal": ObjectShape({"refusal": WORDS}, {"refusal": ""})
        if variant.fields is not None
        else _RefusalAsText(text),
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
    other = ObjectShape({"type": only("text"), "text": said}, {"type": "text", "text": absent})
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
    variant = variant_of(name)
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
    reply = ObjectShape(
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
    )
    return Tagged(
        "role",
        {
            "system": operator,
            "developer": operator,
            "user": ObjectShape({"content": content, "name": WORDS, **called, **thoughts}, {"content": ""}),
            "assistant": reply if variant.rules.blank_text else _WithContent(reply),
            "tool": result,
            "function": ObjectShape({"content": content, "name": WORDS, **called, **thoughts}),
        },
        ObjectShape({}),
    )


@cache
def tools_shape(name: str) -> Shape:
    variant = variant_of(name)
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
    variant = variant_of(name)
    known: dict[str, Shape] = dict.fromkeys(_ASKED | (variant.fields or frozenset()), ANY)
    return ObjectShape(
        {**known, "messages": Items(message_shape(name)), "tools": tools_shape(name)},
        closed=variant.fields is not None,
    )


_ASKED = frozenset(
    {"model", "stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop"}
    | {"tool_choice", "functions", "function_call", "parallel_tool_calls", "reasoning_effort"}
)
