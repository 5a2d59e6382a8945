"""Parts that are Google's own affair: its tools, its programs, its files (GEM-19, GEM-41).

One is kept as a text that another model can read, whose seal is the part itself, so that its origin gets it
back as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from segue.conversation.blocks import Code, Seal, Text
from segue.dialects.gemini.wire import camel, field
from segue.transcript.blocks.media import written_out
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Origin

KIND: Literal["encrypted"] = "encrypted"
_OWN = frozenset({"executableCode", "codeExecutionResult", "toolCall", "toolResponse", "fileData"})
_FIELDS = msgspec.json.Decoder(dict[str, Raw])


def seal_part(part: Mapping[str, Any], origin: Origin) -> Text:
    """A part that we have no block for; of an unknown one only the text."""
    payload = json_of(part)
    return Text(
        as_words(part), Seal(origin, payload, KIND) if opaque_part(payload, KIND) is not None else None
    )


def opaque_part(payload: str, kind: str) -> Raw | None:
    """The part that a seal holds; None if it is a seal like any other."""
    if kind != KIND or not payload.startswith("{"):
        return None
    try:
        names = _FIELDS.decode(payload)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    return Raw(payload) if any(camel(name) in _OWN for name in names) else None


def is_opaque(text: Text) -> bool:
    """Whether a text stands for such a part."""
    return text.seal is not None and opaque_part(text.seal.payload, text.seal.kind) is not None


def as_words(part: Mapping[str, Any]) -> str:
    code, result = field(part, "executableCode"), field(part, "codeExecutionResult")
    file = field(part, "fileData")
    if isinstance(code, dict):
        return (
            f"\n{written_out(Code(str(code.get('code', '')), str(code.get('language', '')).lower())).text}\n"
        )
    if isinstance(result, dict):
        return f"\n{written_out(Code(str(result.get('output', '')))).text}\n"
    if isinstance(file, dict):
        return f"[{field(file, 'mimeType') or 'file'} at {field(file, 'fileUri')}]"
    fields = {
        name: value for name, value in part.items() if camel(name) not in ("thoughtSignature", "thought")
    }
    return "".join(f"[{name}: {json_of(value)}]" for name, value in fields.items())
