"""Reading JSON as Google's servers do: into protocol buffers, reporting every field that does not fit at once.

Names may be written in camelCase or snake_case, a single value may stand for a list of one, enum values may be
numbers. What comes out is the same message with snake_case names and real lists, without what did not fit. The
messages of the v1beta API stand below, as far as they are looked into (GEM-11).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

Kind = Literal["string", "bytes", "bool", "number", "whole", "struct", "any", "enum", "message", "map"]
Message = Mapping[str, "Field"]
PACKAGE = "type.googleapis.com/google.ai.generativelanguage.v1beta"
DEEPEST = 60


class Field(Struct, frozen=True):
    """One field: `of` names the message or enum type where there is one."""

    kind: Kind
    of: str = ""
    repeated: bool = False


class Fault(Struct, frozen=True):
    """One thing that does not fit; `path` is where, in the server's spelling."""

    path: str
    problem: str
    unknown: bool = False
    """A name that the message does not have, or has in another form."""
    name: str = ""

    @property
    def line(self) -> str:
        if not self.unknown:
            return f"Invalid value at '{self.path}' {self.problem}"
        where = f" at '{self.path}'" if self.path else ""
        return f'Invalid JSON payload received. Unknown name "{self.name}"{where}: {self.problem}'


class Reader:
    """Reads one request; what did not fit is collected in `faults`, in the order it was met."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def message(self, value: Any, of: str, path: str = "", depth: int = 0) -> dict[str, Any]:
        if not isinstance(value, dict) or depth > DEEPEST:
            self._wrong(path, f"({PACKAGE}.{of})", value)
            return {}
        found: dict[str, Any] = {}
        for key, item in value.items():
            name = snake_case(key)
            field = MESSAGES[of].get(name)
            if field is None:
                self.faults.append(Fault(path, "Cannot find field.", unknown=True, name=key))
            elif item is not None:
                self._field(found, name, key, field, item, path, depth)
        return found

    def _field(
        self, found: dict[str, Any], name: str, key: str, field: Field, item: Any, path: str, depth: int
    ) -> None:
        where = f"{path}.{name}" if path else name
        if field.repeated and isinstance(item, list):
            read = [self._value(field, part, f"{where}[{index}]", depth) for index, part in enumerate(item)]
            found[name] = [part for part in read if part is not None]
        elif isinstance(item, list) and field.kind not in ("any", "struct"):
            problem = "Proto field is not repeating, cannot start list."
            self.faults.append(Fault(path, problem, unknown=True, name=key))
        else:
            read_one = self._value(field, item, where, depth)
            if read_one is not None:
                found[name] = [read_one] if field.repeated else read_one

    def _value(self, field: Field, value: Any, path: str, depth: int) -> Any:
        match field.kind:
            case "any":
                return value
            case "message":
                return self.message(value, field.of, path, depth + 1)
            case "map":
                return self._map(field, value, path, depth)
            case "struct":
                return self._struct(value, path)
            case "enum":
                return self._enum(field, value, path)
            case _:
                return self._scalar(field.kind, value, path)

    def _map(self, field: Field, value: Any, path: str, depth: int) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            self._wrong(path, f"({PACKAGE}.{field.of})", value)
            return None
        return {
            key: self.message(item, field.of, f"{path}[{index}].value", depth + 1)
            for index, (key, item) in enumerate(value.items())
        }

    def _struct(self, value: Any, path: str) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value
        self._wrong(path, "(type.googleapis.com/google.protobuf.Struct)", value)
        return None

    def _enum(self, field: Field, value: Any, path: str) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.upper() in ENUMS[field.of]:
            return value.upper()
        self._wrong(path, f"({PACKAGE}.{field.of})", value)
        return None

    def _scalar(self, kind: str, value: Any, path: str) -> Any:
        accepts, name = SCALARS[kind]
        if not accepts(value):
            self._wrong(path, f"({name})", value)
            return None
        if kind == "bytes" and not is_base64(value):
            self.faults.append(Fault(path, f'({name}), Base64 decoding failed for "{value[:200]}"'))
            return None
        return value

    def _wrong(self, path: str, expected: str, value: Any) -> None:
        shown = msgspec.json.encode(value).decode()[:200]
        self.faults.append(Fault(path, f"{expected}, {shown}"))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), name)


def is_base64(value: str) -> bool:
    """Either alphabet, with or without padding, and a tail of any length: all were seen accepted."""
    return re.fullmatch(r"[A-Za-z0-9+/_-]*={0,2}", value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or value in ("true", "false")


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+(\.\d+)?", value, re.ASCII) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+", value, re.ASCII) is not None
    return _is_number(value) and value % 1 == 0


SCALARS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (_is_text, "TYPE_STRING"),
    "bytes": (_is_text, "TYPE_BYTES"),
    "bool": (_is_flag, "TYPE_BOOL"),
    "number": (_is_number, "TYPE_DOUBLE"),
    "whole": (_is_whole, "TYPE_INT32"),
}


TEXT, FLAG, NUMBER, WHOLE, BYTES = (
    Field("string"),
    Field("bool"),
    Field("number"),
    Field("whole"),
    Field("bytes"),
)
STRUCT, ANY = Field("struct"), Field("any")
TEXTS = Field("string", repeated=True)


def _of(name: str) -> Field:
    return Field("message", name)


def _list(name: str) -> Field:
    return Field("message", name, repeated=True)


def _enum(name: str) -> Field:
    return Field("enum", name)


# GEM-28: these 22 and no others.
SCHEMA: Message = {
    "type": _enum("Type"),
    "format": TEXT,
    "title": TEXT,
    "description": TEXT,
    "nullable": FLAG,
    "enum": TEXTS,
    "max_items": WHOLE,
    "min_items": WHOLE,
    "properties": Field("map", "Schema"),
    "required": TEXTS,
    "min_properties": WHOLE,
    "max_properties": WHOLE,
    "min_length": WHOLE,
    "max_length": WHOLE,
    "pattern": TEXT,
    "example": ANY,
    "any_of": _list("Schema"),
    "property_ordering": TEXTS,
    "default": ANY,
    "items": _of("Schema"),
    "minimum": NUMBER,
    "maximum": NUMBER,
}
PART: Message = {
    "text": TEXT,
    "inline_data": _of("Blob"),
    "function_call": _of("FunctionCall"),
    "function_response": _of("FunctionResponse"),
    "file_data": _of("FileData"),
    "executable_code": STRUCT,
    "code_execution_result": STRUCT,
    "tool_call": STRUCT,
    "tool_response": STRUCT,
    "thought": FLAG,
    "thought_signature": BYTES,
    "video_metadata": STRUCT,
    "media_resolution": ANY,
    "part_metadata": STRUCT,
}
# The alternatives of a part's oneof `data`: one of them is set.
DATA = tuple(PART)[:9]

MESSAGES: dict[str, Message] = {
    "GenerateContentRequest": {
        "model": TEXT,
        "contents": _list("Content"),
        "system_instruction": _of("Content"),
        "tools": _list("Tool"),
        "tool_config": _of("ToolConfig"),
        "safety_settings": Field("any", repeated=True),
        "generation_config": _of("GenerationConfig"),
        "cached_content": TEXT,
        "service_tier": ANY,
        "store": FLAG,
    },
    "CountTokensRequest": {
        "model": TEXT,
        "contents": _list("Content"),
        "generate_content_request": _of("GenerateContentRequest"),
    },
    "EmbedContentRequest": {
        "model": TEXT,
        "content": _of("Content"),
        "task_type": ANY,
        "title": TEXT,
        "output_dimensionality": WHOLE,
        "embed_content_config": STRUCT,
    },
    "BatchEmbedContentsRequest": {"model": TEXT, "requests": _list("EmbedContentRequest")},
    "Content": {"role": TEXT, "parts": _list("Part")},
    "Part": PART,
    "Blob": {"mime_type": TEXT, "data": BYTES, "display_name": TEXT},
    "FileData": {"mime_type": TEXT, "file_uri": TEXT, "display_name": TEXT},
    "FunctionCall": {"id": TEXT, "name": TEXT, "args": STRUCT},
    "FunctionResponse": {
        "id": TEXT,
        "name": TEXT,
        "response": STRUCT,
        "will_continue": FLAG,
        "scheduling": ANY,
        "parts": _list("FunctionResponsePart"),
    },
    "FunctionResponsePart": {"inline_data": _of("Blob"), "file_data": _of("FileData")},
    "Tool": {
        "function_declarations": _list("FunctionDeclaration"),
        **dict.fromkeys(
            (
                "google_search",
                "google_search_retrieval",
                "code_execution",
                "url_context",
                "computer_use",
                "file_search",
                "google_maps",
                "mcp_servers",
            ),
            ANY,
        ),
    },
    "FunctionDeclaration": {
        "name": TEXT,
        "description": TEXT,
        "behavior": ANY,
        "parameters": _of("Schema"),
        "parameters_json_schema": ANY,
        "response": _of("Schema"),
        "response_json_schema": ANY,
    },
    "Schema": SCHEMA,
    "ToolConfig": {
        "function_calling_config": _of("FunctionCallingConfig"),
        "retrieval_config": ANY,
        "include_server_side_tool_invocations": FLAG,
    },
    "FunctionCallingConfig": {
        "mode": _enum("FunctionCallingConfig.Mode"),
        "allowed_function_names": TEXTS,
        "stream_function_call_arguments": FLAG,
    },
    "GenerationConfig": {
        "candidate_count": WHOLE,
        "stop_sequences": TEXTS,
        "max_output_tokens": WHOLE,
        "temperature": NUMBER,
        "top_p": NUMBER,
        "top_k": NUMBER,
        "seed": WHOLE,
        "response_mime_type": TEXT,
        "response_schema": _of("Schema"),
        "response_json_schema": ANY,
        "_response_json_schema": ANY,
        "presence_penalty": NUMBER,
        "frequency_penalty": NUMBER,
        "response_logprobs": FLAG,
        "logprobs": WHOLE,
        "enable_enhanced_civic_answers": FLAG,
        "response_modalities": Field("any", repeated=True),
        "speech_config": ANY,
        "thinking_config": _of("ThinkingConfig"),
        "image_config": ANY,
        "media_resolution": ANY,
    },
    "ThinkingConfig": {
        "include_thoughts": FLAG,
        "thinking_budget": WHOLE,
        "thinking_level": _enum("ThinkingConfig.ThinkingLevel"),
    },
}
ENUMS: dict[str, tuple[str, ...]] = {
    "Type": (
        "TYPE_UNSPECIFIED",
        "STRING",
        "NUMBER",
        "INTEGER",
        "BOOLEAN",
        "ARRAY",
        "OBJECT",
        "NULL",
    ),
    "FunctionCallingConfig.Mode": ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"),
    "ThinkingConfig.ThinkingLevel": (
        "THINKING_LEVEL_UNSPECIFIED",
        "MINIMAL",
        "LOW",
        "MEDIUM",
        "HIGH",
        "XHIGH",
    ),
}
