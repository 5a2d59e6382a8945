"""What Converse takes in a request, place by place: every object has these fields and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.shapes import UNFIT, Items, ObjectShape
from segue.dialects.value_shapes import ANY, ARGUMENTS, FLAG, ID, LIST, OBJECT, SCHEMA, WORDS, word

if TYPE_CHECKING:
    from segue.dialects.shapes import Shape


def _object(needed: dict[str, Any] | None = None, **known: Shape) -> ObjectShape:
    return ObjectShape(known, needed or {}, closed=True)


def _text_block(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else UNFIT


def _text_blocks(value: Any) -> Any:
    return [{"text": value}] if isinstance(value, str) else UNFIT


_POINT = ObjectShape({"type": word("default"), "ttl": word("5m", "1h")}, {"type": "default"}, closed=True)
_SHOWN: dict[str, Shape] = {
    "text": WORDS,
    "image": _object({"format": UNFIT, "source": UNFIT}, format=WORDS, source=OBJECT, error=OBJECT),
    "document": _object(
        {"name": "document", "source": UNFIT},
        format=WORDS,
        name=WORDS,
        source=OBJECT,
        context=WORDS,
        citations=OBJECT,
    ),
    "video": _object({"format": UNFIT, "source": UNFIT}, format=WORDS, source=OBJECT),
    "searchResult": OBJECT,
}
_RESULT_PART = ObjectShape({**_SHOWN, "json": ANY}, closed=True, correct=_text_block, some_of=frozenset({*_SHOWN, "json"}))
_CONTENT: dict[str, Shape] = {
    **_SHOWN,
    "audio": OBJECT,
    "toolUse": _object(
        {"toolUseId": "", "name": "", "input": {}}, toolUseId=ID, name=WORDS, input=ARGUMENTS, type=WORDS
    ),
    "toolResult": _object(
        {"toolUseId": "", "content": []},
        toolUseId=ID,
        content=Items(_RESULT_PART),
        status=word("success", "error"),
        type=WORDS,
    ),
    "guardContent": OBJECT,
    "cachePoint": _POINT,
    "reasoningContent": _object(
        reasoningText=_object({"text": ""}, text=WORDS, signature=WORDS), redactedContent=WORDS
    ),
    "citationsContent": OBJECT,
    "toolAddition": OBJECT,
    "toolRemoval": OBJECT,
}
MESSAGE = ObjectShape(
    {
        "role": ANY,
        "content": Items(
            ObjectShape(_CONTENT, closed=True, correct=_text_block, some_of=frozenset(_CONTENT))
        ),
    },
    {"content": []},
    closed=True,
)
_SYSTEM: dict[str, Shape] = {"text": WORDS, "guardContent": OBJECT, "cachePoint": _POINT}
SYSTEM = Items(ObjectShape(_SYSTEM, closed=True, correct=_text_block, some_of=frozenset(_SYSTEM)))
_TOOL: dict[str, Shape] = {
    "toolSpec": _object(
        {"name": "", "inputSchema": {"json": {"type": "object", "properties": {}}}},
        name=WORDS,
        description=WORDS,
        inputSchema=_object({"json": {"type": "object", "properties": {}}}, json=SCHEMA),
        strict=FLAG,
    ),
    "systemTool": OBJECT,
    "cachePoint": _POINT,
}
TOOLS = Items(ObjectShape(_TOOL, closed=True, some_of=frozenset(_TOOL)))
_ASKED = frozenset(
    {"model", "modelId", "guardrailConfig", "additionalModelRequestFields", "promptVariables"}
    | {"requestMetadata", "performanceConfig", "serviceTier"}
)
REQUEST = ObjectShape(
    {
        **dict.fromkeys(_ASKED, ANY),
        "additionalModelResponseFieldPaths": LIST,
        "inferenceConfig": _object(maxTokens=ANY, temperature=ANY, topP=ANY, stopSequences=LIST),
        "outputConfig": _object(textFormat=OBJECT, effort=WORDS),
        "toolConfig": _object({"tools": UNFIT}, tools=TOOLS, toolChoice=OBJECT),
        "messages": Items(MESSAGE),
        "system": SYSTEM,
    },
    closed=True,
)
