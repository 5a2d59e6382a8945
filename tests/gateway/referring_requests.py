"""Requests that refer to what they do not hold: one for each field of each wire that stands for content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gateway.clients import AGENTS

PDF = "application/pdf"
SHORT = {"role": "user", "content": "And now?"}
HELD_HEADERS = {
    "anthropic-beta": "message-threads-2026-08-12,files-api-2025-04-14,mcp-client-2025-11-20,user-profiles-billing-2026-10-01",
    "anthropic-user-profile-id": "uprof_held",
}


class Referring(Struct, frozen=True, kw_only=True):
    """One field, and the words in which a wire refuses what it stands for."""

    name: str
    wire: str
    fields: dict[str, Any]
    """Beside the model."""
    sees: str
    """What the provider's request holds if it has got the field."""
    status: int = 400
    says: tuple[str, ...] = ()
    """Parts of the error object of a refusal, as JSON."""

    def path(self, model: str, *, stream: bool) -> str:
        if self.wire != "gemini":
            return AGENTS[self.wire](None, model).path(model)  # type: ignore[arg-type]
        return f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")

    def body(self, model: str, *, stream: bool) -> dict[str, Any]:
        fields = json.loads(json.dumps(self.fields))
        if self.wire == "gemini":
            return fields  # type: ignore[no-any-return]
        return {"model": model, **fields, **({"stream": True} if stream else {})}

    @property
    def headers(self) -> Mapping[str, str]:
        own = dict(AGENTS[self.wire].headers)
        return {**own, **HELD_HEADERS} if self.wire == "anthropic" else own


def _messages(name: str, sees: str, *says: str, status: int = 400, **fields: Any) -> Referring:
    whole = {"max_tokens": 400, "messages": [SHORT], **fields}
    return Referring(name=name, wire="anthropic", fields=whole, sees=sees, status=status, says=says)


def _block(name: str, block: dict[str, Any], sees: str, *says: str) -> Referring:
    return _messages(
        name, sees, *says, messages=[{"role": "user", "content": [block, {"type": "text", "text": "?"}]}]
    )


def _responses(name: str, sees: str, *says: str, status: int = 400, **fields: Any) -> Referring:
    whole = {"input": [SHORT], **fields}
    return Referring(name=name, wire="openai_responses", fields=whole, sees=sees, status=status, says=says)


def _tool(name: str, sees: str, **tool: Any) -> Referring:
    return _responses(name, sees, '"param": "tools[0]"', tools=[tool])


def _part(name: str, sees: str, **part: Any) -> Referring:
    parts = [part, {"type": "input_text", "text": "?"}]
    return _responses(
        name, sees, '"param": "input[0].content[0]"', input=[{"role": "user", "content": parts}]
    )


def _gemini(name: str, sees: str, *says: str, **fields: Any) -> Referring:
    whole = {"contents": [{"role": "user", "parts": [{"text": "And now?"}]}], **fields}
    says = ('"status": "INVALID_ARGUMENT"', *says)
    return Referring(name=name, wire="gemini", fields=whole, sees=sees, says=says)


def _chat(name: str, wire: str, sees: str, *says: str, status: int = 400, **fields: Any) -> Referring:
    return Referring(
        name=name, wire=wire, fields={"messages": [SHORT], **fields}, sees=sees, status=status, says=says
    )


_HELD = "https://generativelanguage.googleapis.com/v1beta/files/held-1"
_CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
_USED = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}

REFERRING = (
    _messages(
        "thread",
        "msg_held_1",
        '"type": "not_found_error"',
        '"error_code": "thread_not_found"',
        status=404,
        thread={"type": "continue", "previous_message_id": "msg_held_1"},
    ),
    _messages(
        "thread with results",
        "msg_held_2",
        '"error_code": "thread_not_found"',
        status=404,
        thread={"type": "continue", "previous_message_id": "msg_held_2"},
        messages=[
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_held", "content": "rain"}],
            }
        ],
    ),
    _messages("container", "container_held", "container: ", container="container_held"),
    _messages(
        "skills",
        "skill_held",
        "container: ",
        container={"skills": [{"type": "custom", "skill_id": "skill_held", "version": "latest"}]},
    ),
    _messages(
        "mcp_servers",
        "mcp.example",
        "mcp_servers: ",
        mcp_servers=[{"type": "url", "url": "https://mcp.example", "name": "m"}],
        tools=[{"type": "mcp_toolset", "mcp_server_name": "m"}],
    ),
    _messages(
        "customer who pays",
        "user_profile",
        "billing_policy: ",
        billing_policy={"type": "billing_policy", "bill_to": "user_profile"},
    ),
    _messages(
        "compaction block",
        "sealed_summary",
        "messages.0.content.0: ",
        messages=[
            {
                "role": "assistant",
                "content": [{"type": "compaction", "content": None, "encrypted_content": "sealed_summary"}],
            },
            SHORT,
        ],
    ),
    _block(
        "image file",
        {"type": "image", "source": {"type": "file", "file_id": "file_held"}},
        "file_held",
        "messages.0.content.0.source: ",
    ),
    _block(
        "document file",
        {"type": "document", "source": {"type": "file", "file_id": "file_held"}},
        "file_held",
        "messages.0.content.0.source: ",
    ),
    _block(
        "upload for a container",
        {"type": "container_upload", "file_id": "file_held"},
        "file_held",
        "messages.0.content.0: ",
    ),
    _block(
        "file in a document",
        {
            "type": "document",
            "source": {
                "type": "content",
                "content": [{"type": "image", "source": {"type": "file", "file_id": "file_held"}}],
            },
        },
        "file_held",
        "messages.0.content.0.source.content.0.source: ",
    ),
    _messages(
        "file in a result",
        "file_held",
        "messages.2.content.0.content.0.source: ",
        tools=[{"name": "look", "input_schema": {"type": "object"}}],
        messages=[
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [_CALL]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "document", "source": {"type": "file", "file_id": "file_held"}}],
                    }
                ],
            },
        ],
    ),
    _responses(
        "previous_response_id",
        "resp_held",
        '"code": "previous_response_not_found"',
        previous_response_id="resp_held",
    ),
    _responses(
        "previous_response_id with outputs",
        "resp_held",
        '"code": "previous_response_not_found"',
        previous_response_id="resp_held",
        input=[{"type": "function_call_output", "call_id": "call_held", "output": "rain"}],
    ),
    _responses("conversation", "conv_held", '"param": "conversation"', status=404, conversation="conv_held"),
    _responses(
        "conversation as an object",
        "conv_held",
        '"param": "conversation"',
        status=404,
        conversation={"id": "conv_held"},
    ),
    _responses(
        "prompt",
        "pmpt_held",
        '"code": "unsupported_parameter"',
        '"param": "prompt"',
        prompt={"id": "pmpt_held", "variables": {"city": "Rome"}},
    ),
    _responses(
        "item_reference",
        "msg_held",
        '"param": "input"',
        status=404,
        input=[{"type": "item_reference", "id": "msg_held"}, SHORT],
    ),
    _responses(
        "compaction item",
        "sealed_summary",
        '"param": "input[0]"',
        input=[{"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed_summary"}, SHORT],
    ),
    _responses(
        "generated image",
        "ig_held",
        '"param": "input[0]"',
        input=[{"type": "image_generation_call", "id": "ig_held", "status": "completed"}, SHORT],
    ),
    _part("input_file", "file-held", type="input_file", file_id="file-held"),
    _part("input_image", "file-held", type="input_image", file_id="file-held", detail="auto"),
    _responses(
        "file in an output",
        "file-held",
        '"param": "input[2].output[0]"',
        input=[
            {"role": "user", "content": "Look."},
            _USED,
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_file", "file_id": "file-held"}],
            },
        ],
        tools=[{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}],
    ),
    _tool("container of a tool", "cntr_held", type="code_interpreter", container="cntr_held"),
    _tool(
        "files of a container",
        "file-held",
        type="code_interpreter",
        container={"type": "auto", "file_ids": ["file-held"]},
    ),
    _tool(
        "container of a shell",
        "cntr_held",
        type="shell",
        environment={"type": "container_reference", "container_id": "cntr_held"},
    ),
    _tool("vector stores", "vs_held", type="file_search", vector_store_ids=["vs_held"]),
    _tool(
        "connector",
        "connector_held",
        type="mcp",
        server_label="mail",
        connector_id="connector_held",
        require_approval="never",
    ),
    _tool(
        "mcp server",
        "mcp.example",
        type="mcp",
        server_label="m",
        server_url="https://mcp.example",
        require_approval="never",
    ),
    _gemini("cachedContent", "cachedContents/held", "cachedContent", cachedContent="cachedContents/held"),
    _gemini("cached_content", "cachedContents/held", cached_content="cachedContents/held"),
    _gemini(
        "fileData",
        "held-1",
        contents=[
            {"role": "user", "parts": [{"fileData": {"mimeType": PDF, "fileUri": _HELD}}, {"text": "?"}]}
        ],
    ),
    _gemini(
        "file_data",
        "gs://held",
        contents=[
            {
                "role": "user",
                "parts": [{"file_data": {"mime_type": PDF, "file_uri": "gs://held/x.pdf"}}, {"text": "?"}],
            }
        ],
    ),
    _tool("mcp server behind a tunnel", "tunnel_held", type="mcp", server_label="m", tunnel_id="tunnel_held"),
    _tool(
        "mask of an image", "file-held", type="image_generation", input_image_mask={"file_id": "file-held"}
    ),
    _responses(
        "tools that are added later",
        "vs_held",
        '"param": "input[0].tools[0]"',
        input=[
            {
                "type": "additional_tools",
                "role": "developer",
                "tools": [{"type": "file_search", "vector_store_ids": ["vs_held"]}],
            },
            SHORT,
        ],
    ),
    _gemini("file search", "stores/held", tools=[{"fileSearch": {"fileSearchStoreNames": ["stores/held"]}}]),
    _chat(
        "file",
        "openai_chat",
        "file-held",
        '"param": "messages[0].content[0].file"',
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "file", "file": {"file_id": "file-held"}},
                    {"type": "text", "text": "?"},
                ],
            }
        ],
    ),
    _chat(
        "spoken reply",
        "openai_chat",
        "audio_held",
        '"param": "messages[1]"',
        messages=[
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "audio": {"id": "audio_held"}},
            SHORT,
        ],
    ),
    _chat("agent", "mistral", "ag_held", "agent_id: ", agent_id="ag_held"),
    _chat(
        "library", "mistral", "lib_held", tools=[{"type": "document_library", "library_ids": ["lib_held"]}]
    ),
    _chat("conversation of Mistral", "mistral", "conv_held", status=404, conversation_id="conv_held"),
    _chat(
        "file of Mistral",
        "mistral",
        "file-held",
        messages=[
            {
                "role": "user",
                "content": [{"type": "file", "file_id": "file-held"}, {"type": "text", "text": "?"}],
            }
        ],
    ),
)
