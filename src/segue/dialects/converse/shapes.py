"""What Converse takes in a request, place by place: every object has these fields and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from msgspec import Struct

from segue.dialects.converse.rules import DOCUMENT_FORMATS, IMAGE_FORMATS
from segue.dialects.converse.wire import plain_name
from segue.dialects.requests.shapes import UNFIT, Fitting, Items, ObjectShape, Shape, ValueShape
from segue.dialects.requests.value_shapes import ANY, ARGUMENTS, FLAG, ID, LIST, OBJECT, SCHEMA, WORDS, word


def _object(needed: dict[str, Any] | None = None, **known: Shape) -> ObjectShape:
    return ObjectShape(known, needed or {}, closed=True)


@final
class OneOf(Struct, frozen=True):
    """An object with one field, whose name tells what it is. Of several, the first that is known stays."""

    members: Mapping[str, Shape]
    correct: Callable[[Any], Any] = lambda _: UNFIT
    """An object for what is none."""
    wanted: str = "an object with one known field"

    def fit(self, value: Any, path: str, fitting: Fitting) -> Any:
        if not isinstance(value, dict):
            corrected = self.correct(value)
            if corrected is UNFIT:
                return fitting.left(value)
            fitting.note_correction(path, self.wanted)
            value = corrected
        kind = next((name for name in value if name in self.members and value[name] is not None), None)
        if kind is None:  # it may be newer than this table
            return UNFIT if not any(held is not None for held in value.values()) else fitting.left(value)
        for name, held in value.items():
            if name != kind:
                fitting.note_drop(f"{path}.{name}", held, "beside another field there")
        fitted = self.members[kind].fit(value[kind], f"{path}.{kind}", fitting)
        if fitted is UNFIT or (fitted is value[kind] and len(value) == 1):
            return UNFIT if fitted is UNFIT else value
        return {kind: fitted}


def _format(*known: str) -> ValueShape:
    words = frozenset(known)
    return ValueShape(
        f"one of {', '.join(known)}",
        lambda value: isinstance(value, str),
        knows=words.__contains__,
        is_read=True,
    )


def _document_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and plain_name(value) == value


_NAME = ValueShape(
    "a name of letters, digits, spaces, hyphens and brackets",
    _document_name,
    lambda value: (plain_name(value) if isinstance(value, str) else "") or "document",
)


def _text_block(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else UNFIT


_CITATIONS = _object({"enabled": True}, enabled=FLAG)
_FILE = _object({"uri": UNFIT}, uri=WORDS, bucketOwner=WORDS)
_BYTES = ValueShape("some data", lambda value: isinstance(value, str) and bool(value))  # BDR-16
_SOURCE: dict[str, Shape] = {"bytes": _BYTES, "s3Location": _FILE}
_WRITTEN: dict[str, Shape] = {**_SOURCE, "text": WORDS, "content": Items(OneOf({"text": WORDS}, _text_block))}
_POINT = ObjectShape({"type": word("default"), "ttl": word("5m", "1h")}, {"type": "default"}, closed=True)
_SHOWN: dict[str, Shape] = {
    "text": WORDS,
    "image": _object(
        {"format": UNFIT, "source": UNFIT},
        format=_format(*IMAGE_FORMATS.values()),
        source=OneOf(_SOURCE),
        error=OBJECT,
    ),
    "document": _object(
        {"name": "document", "source": UNFIT},
        format=_format(*DOCUMENT_FORMATS.values()),
        name=_NAME,
        source=OneOf(_WRITTEN),
        context=WORDS,
        citations=_CITATIONS,
    ),
    "video": _object({"format": UNFIT, "source": UNFIT}, format=WORDS, source=OneOf(_SOURCE)),
    "searchResult": _object(
        {"source": "", "title": "", "content": []},
        source=WORDS,
        title=WORDS,
        content=Items(_object({"text": ""}, text=WORDS)),
        citations=_CITATIONS,
    ),
}
_TOOL_NAME = _object({"tool": UNFIT}, tool=_object(type=WORDS, name=WORDS, serverName=WORDS))
_RESULT_PART = OneOf({**_SHOWN, "json": ANY}, _text_block)
_CONTENT: dict[str, Shape] = {
    **_SHOWN,
    "audio": _object({"format": UNFIT, "source": UNFIT}, format=WORDS, source=OneOf(_SOURCE), error=OBJECT),
    "toolUse": _object(
        {"toolUseId": "", "name": "", "input": {}},
        toolUseId=ID,
        name=WORDS,
        input=ARGUMENTS,
        type=word("server_tool_use"),
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
    "reasoningContent": OneOf(
        {"reasoningText": _object({"text": ""}, text=WORDS, signature=WORDS), "redactedContent": WORDS}
    ),
    "citationsContent": OBJECT,
    "toolAddition": _TOOL_NAME,
    "toolRemoval": _TOOL_NAME,
}
MESSAGE = ObjectShape(
    {
        "role": ANY,
        "content": Items(OneOf(_CONTENT, _text_block)),
    },
    {"content": []},
    closed=True,
)
_SYSTEM: dict[str, Shape] = {"text": WORDS, "guardContent": OBJECT, "cachePoint": _POINT}
SYSTEM = Items(OneOf(_SYSTEM, _text_block))
_TOOL: dict[str, Shape] = {
    "toolSpec": _object(
        {"name": "", "inputSchema": {"json": {"type": "object", "properties": {}}}},
        name=WORDS,
        description=WORDS,
        inputSchema=_object({"json": {"type": "object", "properties": {}}}, json=SCHEMA),
        strict=FLAG,
    ),
    "systemTool": _object({"name": UNFIT}, name=WORDS),
    "cachePoint": _POINT,
}
TOOLS = Items(OneOf(_TOOL))
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
