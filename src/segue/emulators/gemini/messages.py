"""The messages of the v1beta API as far as they are looked into: every name that a request may use (GEM-11)."""

from __future__ import annotations

from segue.emulators.gemini.proto import Field, Message

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
