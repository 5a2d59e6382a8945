"""Gemini's wire at Google Cloud: what the Developer API takes and Vertex refuses is taken out of a request's bytes.

Vertex does not know ids on calls and results (VTX-02), pairs them by order and name, and takes one stand-in signature
(VTX-03). Some fields exist at the Developer API alone (VTX-04). A field has two spellings, so both are looked for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from segue.dialects.gemini.wire import SENTINELS

STAND_IN: Final = "skip_thought_signature_validator"
_ONLY_THERE: Final = frozenset({"store", "modelConfig", "model_config"})
_PARTS_ONLY_THERE: Final = ("partMetadata", "part_metadata")
_KINDS_ONLY_THERE: Final = ("toolCall", "tool_call", "toolResponse", "tool_response")
_TOOLS_ONLY_THERE: Final = ("fileSearch", "file_search", "mcpServers", "mcp_servers")
_CONFIGS: Final = ("toolConfig", "tool_config")
_SWITCHES_ONLY_THERE: Final = ("includeServerSideToolInvocations", "include_server_side_tool_invocations")
_NAMED: Final = ("functionCall", "function_call", "functionResponse", "function_response")
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")
_MARKS: Final = tuple(
    f'"{name}"'.encode()
    for name in (
        "id",
        *_ONLY_THERE,
        *_PARTS_ONLY_THERE,
        *_KINDS_ONLY_THERE,
        *_TOOLS_ONLY_THERE,
        *_SWITCHES_ONLY_THERE,
        *(SENTINELS - {STAND_IN}),
    )
)
"""Without any of these in its bytes a request needs no change, and is not parsed."""


_ID: Final = b'"id"'
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = msgspec.json.Decoder(list[Raw])
_encode: Final = msgspec.json.encode


def vertex_body(body: bytes) -> bytes:
    """The body of a request as Vertex takes it; values that need no change stay byte for byte."""
    if not any(mark in body for mark in _MARKS):
        return body
    fields = _object(body)
    if fields is None:  # a client's own bytes: Vertex itself says what is wrong with them
        return body
    kept: dict[str, Any] = {name: value for name, value in fields.items() if name not in _ONLY_THERE}
    if (contents := _items(kept.get("contents"))) is not None:
        kept["contents"] = [_content(content) for content in contents]
    elif "contents" in kept:
        kept["contents"] = _content(kept["contents"])
    if (tools := _items(kept.get("tools"))) is not None:
        written = [_without(tool, _TOOLS_ONLY_THERE) for tool in tools]
        kept["tools"] = [tool for tool in written if tool]
        if not kept["tools"]:
            del kept["tools"]
    for name in _CONFIGS:
        if name in kept:
            kept[name] = _without(kept[name], _SWITCHES_ONLY_THERE)
    return _encode(kept)


def vertex_reply(reply: bytes) -> bytes:
    """A reply, or a chunk of one, as Vertex writes it: clients return the ids that they were given, and Vertex refuses them."""
    if _ID not in reply:
        return reply
    fields = _object(reply)
    candidates = _items(fields.get("candidates")) if fields is not None else None
    if fields is None or candidates is None:
        return reply
    return _encode({**fields, "candidates": [_candidate(candidate) for candidate in candidates]})


def _candidate(candidate: Raw) -> Any:
    fields = _object(candidate)
    content = _object(fields.get("content")) if fields is not None else None
    parts = _items(content.get("parts")) if content is not None else None
    if fields is None or content is None or parts is None:
        return candidate
    return {**fields, "content": {**content, "parts": [_part(part) for part in parts]}}


def _content(content: Raw) -> Any:
    fields = _object(content)
    parts = _items(fields.get("parts")) if fields is not None else None
    if fields is None or parts is None:
        return content
    written = [_part(part) for part in parts if not _is_only_there(part)]
    return {
        **fields,
        "parts": written or [{"text": " "}],
    }  # a content needs a part, and a part something in it


def _is_only_there(part: Raw) -> bool:
    return any(name in (_object(part) or {}) for name in _KINDS_ONLY_THERE)


def _part(part: Raw) -> Any:
    fields = _object(part)
    if fields is None:
        return part
    kept: dict[str, Any] = {name: value for name, value in fields.items() if name not in _PARTS_ONLY_THERE}
    for name in _NAMED:
        if name in kept:
            kept[name] = _without(kept[name], ("id",))
    for name in _SIGNATURES:
        if name in kept and bytes(kept[name])[1:-1].decode("utf-8", "replace") in SENTINELS:
            kept[name] = STAND_IN
    return kept


def _object(value: bytes | Raw | None) -> dict[str, Raw] | None:
    try:
        return None if value is None else _OBJECT.decode(value)
    except msgspec.DecodeError:
        return None


def _items(value: Raw | None) -> list[Raw] | None:
    try:
        return None if value is None else _LIST.decode(value)
    except msgspec.DecodeError:
        return None


def _without(value: Raw, names: tuple[str, ...]) -> Any:
    fields = _object(value)
    return value if fields is None else {name: held for name, held in fields.items() if name not in names}
