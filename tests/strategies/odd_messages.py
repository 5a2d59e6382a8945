"""Messages that are legal on their wire and that few clients send: media in results, tools of the provider, marks, refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKMSAwIG9iago8PD4+CmVuZG9iagp0cmFpbGVyPDw+Pg=="
_URL = f"data:image/png;base64,{IMAGE}"
_ROME = '{"city": "Rome"}'


def odd_messages(wire: str, number: int) -> Sequence[Any]:
    """One of them; several where they belong together."""
    known = _ODD[wire]
    return known[number % len(known)]


def _called(call_id: str, name: str = "weather") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": _ROME}}


_CHAT: tuple[Sequence[Any], ...] = (
    ({"role": "developer", "content": "Be kind."},),
    ({"role": "assistant", "content": None, "refusal": "I will not."},),
    ({"role": "assistant", "content": None, "refusal": "I will not.", "reasoning_content": "Hm."},),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},),
    ({"role": "assistant", "content": None, "audio": {"id": "audio_odd", "transcript": "So I said."}},),
    ({"role": "system", "name": "Ann", "content": "Be kind."},),
    ({"role": "assistant", "content": "Fine.", "tool_calls": [], "reasoning_content": ""},),
    ({"role": "assistant", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]},),
    ({"role": "user", "name": "Ann", "content": [{"type": "text", "text": "Hi."}]},),
    (
        {"role": "assistant", "content": None, "tool_calls": [_called("call_odd1"), _called("call_odd2")]},
        {"role": "tool", "tool_call_id": "call_odd2", "content": [{"type": "text", "text": "second"}]},
        {"role": "user", "content": "Quick!"},
        {"role": "tool", "tool_call_id": "call_odd1", "content": "first"},
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": _URL}} for _ in range(3)]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": _URL, "detail": "low"}}]},
    ),
)
_PREFIXED = {"role": "assistant", "content": "The", "prefix": True}
_MISTRAL: tuple[Sequence[Any], ...] = (
    (_PREFIXED, {"role": "user", "content": "Go on."}),
    ({"role": "assistant", "content": [{"type": "text", "text": "One."}]},),
    (
        {"role": "assistant", "content": "", "tool_calls": [_called("oddOddOd1")]},
        {"role": "tool", "tool_call_id": "oddOddOd1", "name": "weather", "content": "rain"},
    ),
)
_OLLAMA: tuple[Sequence[Any], ...] = (
    ({"role": "user", "content": "", "images": [IMAGE, IMAGE]},),
    (
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"name": "weather", "arguments": {}}},
                {"function": {"name": "sight", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "rain", "tool_name": "weather"},
        {"role": "user", "content": "Look.", "images": [IMAGE]},
        {"role": "tool", "content": "a tower", "tool_name": "sight"},
    ),
    ({"role": "assistant", "content": "So.", "thinking": ""},),
)
_MARK = {"cache_control": {"type": "ephemeral"}}
_SHOWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
_PAPER = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
_NOTE = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "A note."},
    "title": "n",
}


def _used(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": "Rome"}}


_ANTHROPIC: tuple[Sequence[Any], ...] = (
    ({"role": "user", "content": [{"type": "text", "text": "Marked.", **_MARK}]},),
    ({"role": "user", "content": [_PAPER, _NOTE, {**_SHOWN, **_MARK}, {"type": "text", "text": "What?"}]},),
    (
        {"role": "assistant", "content": [_used("toolu_odd1"), {**_used("toolu_odd2"), **_MARK}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_odd2", "content": [_SHOWN, _SHOWN]},
                {"type": "tool_result", "tool_use_id": "toolu_odd1", "content": [_NOTE], **_MARK},
                {"type": "text", "text": "Both."},
            ],
        },
    ),
    (
        {"role": "assistant", "content": [_used("toolu_odd3")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_odd3", "is_error": True}]},
    ),
    (
        {
            "role": "assistant",
            "content": [
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_odd",
                    "name": "web_search",
                    "input": {"query": "Rome"},
                },
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_odd", "content": []},
                {"type": "text", "text": "Nothing found."},
            ],
        },
    ),
    (
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        },
        {"role": "assistant", "content": "Three."},
    ),
)
_ASKED = {"functionCall": {"name": "weather", "args": {"city": "Rome"}}}
_TOLD = {"functionResponse": {"name": "weather", "response": {"output": "rain"}}}
_GEMINI: tuple[Sequence[Any], ...] = (
    (
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                {"text": "It is one."},
            ],
        },
    ),
    (
        {"role": "model", "parts": [{"text": "I look."}, _ASKED, _ASKED]},
        {"role": "user", "parts": [{"text": "Here:"}, _TOLD, {"text": "and"}, _TOLD]},
    ),
    ({"parts": [{"text": "Without a role."}]},),
    (
        {
            "role": "user",
            "parts": [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}, {"text": "Read."}],
        },
    ),
    (
        {"role": "model", "parts": [_ASKED]},
        {"role": "user", "parts": [{"text": "Wait."}]},
        {"role": "user", "parts": [_TOLD]},
    ),
)


def _item(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": _ROME}


_RESPONSES: tuple[Sequence[Any], ...] = (
    ({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},),
    (
        _item("call_odd1"),
        {"role": "user", "content": "Quick!"},
        _item("call_odd2"),
        {
            "type": "function_call_output",
            "call_id": "call_odd2",
            "output": [{"type": "input_text", "text": "b"}],
        },
        {
            "type": "function_call_output",
            "call_id": "call_odd1",
            "output": [{"type": "input_image", "image_url": _URL, "detail": "auto"} for _ in range(2)],
        },
    ),
    (
        {"type": "custom_tool_call", "call_id": "call_odd3", "name": "shell", "input": "ls\n"},
        {"type": "custom_tool_call_output", "call_id": "call_odd3", "output": "a.txt"},
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
            ],
        },
    ),
)
_POINT = {"cachePoint": {"type": "default"}}
_BYTES = {"image": {"format": "png", "source": {"bytes": IMAGE}}}
_PAGES = {"document": {"format": "pdf", "name": "a page", "source": {"bytes": PDF}}}
_WORDS = {"document": {"format": "txt", "name": "note", "source": {"text": "A note."}, "context": "old"}}


def _use(call_id: str) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": "weather", "input": {"city": "Rome"}}}


_CONVERSE: tuple[Sequence[Any], ...] = (
    ({"role": "user", "content": [{"text": "Marked."}, _POINT]},),
    ({"role": "user", "content": [_PAGES, _WORDS, _BYTES, _POINT, {"text": "What?"}]},),
    (
        {"role": "assistant", "content": [_use("tooluse_odd1"), _use("tooluse_odd2"), _POINT]},
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_odd2", "content": [_BYTES, {"json": {"a": [1]}}]}},
                {"toolResult": {"toolUseId": "tooluse_odd1", "content": [], "status": "success"}},
                _POINT,
                {"text": "Both."},
            ],
        },
    ),
    (
        {"role": "assistant", "content": [_use("tooluse_odd3")]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "tooluse_odd3", "content": [], "status": "error"}}],
        },
    ),
    (
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "So."}}}, _POINT]},
        {"role": "user", "content": [_POINT, {"guardContent": {"text": {"text": "Guarded."}}}]},
    ),
    (
        {
            "role": "assistant",
            "content": [
                {
                    "citationsContent": {
                        "content": [{"text": "Rome."}],
                        "citations": [{"title": "t", "location": {"documentPage": {"documentIndex": 0}}}],
                    }
                },
                {"text": "Two."},
            ],
        },
        {"role": "assistant", "content": [{"text": "Three."}]},
    ),
)
_INTERACTIONS: tuple[Sequence[Any], ...] = (
    ({"type": "user_input", "content": "Hello."},),
    ({"type": "model_output", "content": []},),
    ({"type": "thought", "summary": [{"type": "text", "text": "Hm."}]},),
    ({"type": "model_output", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},),
    (
        {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["a"]}},
        {"type": "google_search_result", "call_id": "s1", "result": [{"title": "b"}]},
    ),
    (
        {"type": "function_call", "id": "odd1", "name": "weather", "arguments": {"city": "Rome"}},
        {"type": "function_result", "call_id": "odd1", "result": {"sky": "blue"}},
    ),
    (
        {"type": "function_call", "id": "odd2", "name": "weather", "arguments": {}},
        {
            "type": "function_result",
            "call_id": "odd2",
            "result": [{"type": "text", "text": "a"}],
            "is_error": True,
        },
    ),
    ({"type": "function_result", "call_id": "nobody", "name": "weather", "result": 7},),
)
_ODD: Mapping[str, tuple[Sequence[Any], ...]] = {
    "openai_chat": _CHAT,
    "mistral": _MISTRAL,
    "ollama": _OLLAMA,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "gemini_interactions": _INTERACTIONS,
    "openai_responses": _RESPONSES,
    "converse": _CONVERSE,
}
