"""What the Gemini wire takes in a request, place by place: every object has these fields and no others (GEM-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.gemini.wire import camel
from segue.dialects.requests.shapes import UNFIT, Items, ObjectShape, ValueShape
from segue.dialects.requests.value_shapes import (
    ANY,
    ARGUMENTS,
    FLAG,
    OBJECT,
    OPTIONAL_ID,
    SCHEMA,
    WORDS,
    matching,
)

if TYPE_CHECKING:
    from segue.dialects.requests.shapes import Shape


def _fields(known: dict[str, Shape], needed: dict[str, Any] | None = None, **others: Any) -> ObjectShape:
    return ObjectShape(known, needed or {}, closed=True, spelled=camel, **others)


def _text_part(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else UNFIT


def _text_content(value: Any) -> Any:
    if isinstance(value, list):
        return {"parts": value}
    return {"parts": [{"text": value}]} if isinstance(value, str) and value else UNFIT


def _output(value: Any) -> Any:
    return UNFIT if value is None else {"output": value}


SIGNATURE = matching("base64", r"[A-Za-z0-9+/_-]+={0,2}")
_BYTES = matching("base64", r"[A-Za-z0-9+/_-]*={0,2}")
_BLOB = _fields({"mimeType": WORDS, "data": _BYTES, "displayName": WORDS}, {"data": UNFIT})
_FILE = _fields({"mimeType": WORDS, "fileUri": WORDS, "displayName": WORDS}, {"fileUri": UNFIT})
_CALL = _fields({"id": OPTIONAL_ID, "name": WORDS, "args": ARGUMENTS}, {"name": ""})
_RESULT = _fields(
    {
        "id": OPTIONAL_ID,
        "name": WORDS,
        "response": ValueShape("an object", lambda value: isinstance(value, dict), _output),  # GEM-14
        "willContinue": FLAG,
        "scheduling": ANY,
        "parts": Items(_fields({"inlineData": _BLOB, "fileData": _FILE}), wraps=True),
    },
    {"name": ""},
)
_PART = _fields(
    {
        "text": WORDS,
        "inlineData": _BLOB,
        "functionCall": _CALL,
        "functionResponse": _RESULT,
        "fileData": _FILE,
        **dict.fromkeys(("executableCode", "codeExecutionResult", "toolCall", "toolResponse"), OBJECT),
        "thought": FLAG,
        "thoughtSignature": SIGNATURE,
        "videoMetadata": OBJECT,
        "mediaResolution": ANY,
        "partMetadata": OBJECT,
    },
    correct=_text_part,
    some_of=frozenset(
        {"text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode"}
        | {"codeExecutionResult", "toolCall", "toolResponse", "thoughtSignature"}
    ),
)
CONTENT = _fields({"role": WORDS, "parts": Items(_PART, wraps=True)}, correct=_text_content)
SYSTEM = CONTENT
_DECLARATION = _fields(
    {
        "name": WORDS,
        "description": WORDS,
        **dict.fromkeys(("behavior", "parametersJsonSchema", "responseJsonSchema"), ANY),
        **dict.fromkeys(("parameters", "response"), SCHEMA),
    },
    {"name": ""},
)
TOOLS = Items(
    _fields(
        {
            "functionDeclarations": Items(_DECLARATION, wraps=True),
            **dict.fromkeys(
                (
                    *("googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext", "computerUse"),
                    *("fileSearch", "googleMaps", "mcpServers"),
                ),
                ANY,
            ),
        }
    ),
    wraps=True,
)
REQUEST = _fields(
    {
        **dict.fromkeys(("model", "toolConfig", "safetySettings", "generationConfig", "serviceTier"), ANY),
        **dict.fromkeys(("cachedContent", "store", "labels"), ANY),
        "contents": Items(CONTENT, wraps=True),
        "systemInstruction": SYSTEM,
        "tools": TOOLS,
    }
)
