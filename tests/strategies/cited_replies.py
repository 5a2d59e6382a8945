"""Replies with every kind of citation that their wire knows, whole and streamed, as their providers send them."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from segue.dialects.streams.amazon_event_stream import event_frame

TEXT: Final = "Füchse sind rot. They are mammals."
URL: Final = "https://example.org/fox"


class CitedReply(NamedTuple):
    """One reply of a wire. `facts`: what a reader must find of each source; `natives`: as the wire wrote them."""

    wire: str
    whole: bytes
    stream: bytes
    facts: tuple[str, ...]
    natives: tuple[Any, ...]


def _sse(*frames: dict[str, Any], named: bool = False, done: bool = False) -> bytes:
    written = [
        (f"event: {frame['type']}\n" if named else "") + f"data: {json.dumps(frame)}\n\n" for frame in frames
    ]
    return "".join([*written, *(["data: [DONE]\n\n"] if done else [])]).encode()


# The Messages wire

_ANTHROPIC: Final = (
    {
        "type": "web_search_result_location",
        "cited_text": "Foxes are red.",
        "encrypted_index": "Eo8BCioIAhgB",
        "title": "About foxes",
        "url": URL,
    },
    {
        "type": "char_location",
        "cited_text": "The fox is a mammal.",
        "document_index": 0,
        "document_title": "Zoology",
        "file_id": None,
        "start_char_index": 3,
        "end_char_index": 23,
    },
    {
        "type": "page_location",
        "cited_text": "It is small.",
        "document_index": 1,
        "document_title": "Atlas",
        "file_id": None,
        "start_page_number": 4,
        "end_page_number": 5,
    },
    {
        "type": "content_block_location",
        "cited_text": "It barks.",
        "document_index": 2,
        "document_title": "Sounds",
        "file_id": None,
        "start_block_index": 0,
        "end_block_index": 2,
    },
    {
        "type": "search_result_location",
        "cited_text": "It runs.",
        "search_result_index": 0,
        "source": "kb/running",
        "title": "Running",
        "start_block_index": 0,
        "end_block_index": 1,
    },
    {"type": "newer_location", "title": "Newer kind", "shelf": 7},
)
_HEAD: Final = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
_USED: Final = {"input_tokens": 3, "output_tokens": 9}
ANTHROPIC: Final = CitedReply(
    "anthropic",
    json.dumps(
        {
            **_HEAD,
            "content": [{"type": "text", "text": TEXT, "citations": _ANTHROPIC}],
            "stop_reason": "end_turn",
            "usage": _USED,
        }
    ).encode(),
    _sse(
        {"type": "message_start", "message": {**_HEAD, "content": [], "stop_reason": None, "usage": _USED}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "", "citations": []},
        },
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "citations_delta", "citation": citation},
            }
            for citation in _ANTHROPIC
        ),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": _USED,
        },
        {"type": "message_stop"},
        named=True,
    ),
    (URL, "Zoology", "Atlas", "Sounds", "Running", "Newer kind"),
    _ANTHROPIC,
)

# The Responses wire

_RESPONSES: Final = (
    {"type": "url_citation", "url": URL, "title": "About foxes", "start_index": 0, "end_index": 16},
    {"type": "file_citation", "file_id": "file-1", "filename": "zoology.pdf", "index": 16},
    {
        "type": "container_file_citation",
        "container_id": "cntr_1",
        "file_id": "cfile_2",
        "filename": "table.csv",
        "start_index": 17,
        "end_index": 34,
    },
    {"type": "file_path", "file_id": "file-3", "index": 3},
    {"type": "newer_citation", "title": "Newer kind", "shelf": 7},
)
_PART: Final = {"type": "output_text", "text": TEXT, "annotations": _RESPONSES, "logprobs": []}
_ITEM: Final = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
_RESPONSE: Final = {"id": "resp_1", "object": "response", "model": "m", "status": "completed"}
_WHOLE: Final = {**_RESPONSE, "output": [{**_ITEM, "content": [_PART]}], "usage": _USED}
_AT: Final = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
RESPONSES: Final = CitedReply(
    "openai_responses",
    json.dumps(_WHOLE).encode(),
    _sse(
        {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**_ITEM, "content": []}},
        {"type": "response.output_text.delta", **_AT, "delta": TEXT, "logprobs": []},
        *(
            {
                "type": "response.output_text.annotation.added",
                **_AT,
                "annotation_index": number,
                "annotation": annotation,
            }
            for number, annotation in enumerate(_RESPONSES[:3])  # the rest is only in the final state
        ),
        {"type": "response.output_text.done", **_AT, "text": TEXT, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": {**_ITEM, "content": [_PART]}},
        {"type": "response.completed", "response": _WHOLE},
        named=True,
    ),
    (URL, "zoology.pdf", "table.csv", "file-3", "Newer kind"),
    _RESPONSES,
)

# The Chat wire, and what search engines put beside its choices

_CHAT: Final = (
    {
        "type": "url_citation",
        "url_citation": {"url": URL, "title": "About foxes", "start_index": 0, "end_index": 16},
    },
    {"type": "file", "file": {"hash": "h", "name": "zoology.pdf"}},
)


def _chunk(delta: dict[str, Any], reason: str | None = None, **beside: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **beside}


def _completion(message: dict[str, Any], **beside: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**head, "choices": [choice], **beside}).encode()


CHAT: Final = CitedReply(
    "openai_chat",
    _completion({"content": TEXT, "annotations": _CHAT}),
    _sse(
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": TEXT}),
        _chunk({"annotations": _CHAT[:1]}),
        _chunk({"annotations": _CHAT[1:]}),
        _chunk({}, "stop"),
        done=True,
    ),
    (URL, "zoology.pdf"),
    _CHAT,
)
_BESIDE: Final[dict[str, Any]] = {
    "citations": [URL, "https://example.org/wolf"],
    "search_results": [
        {"title": "About foxes", "url": URL, "date": "2026-01-01", "snippet": "Foxes are red."},
        {"title": "About wolves", "url": "https://example.org/wolf"},
    ],
}
PERPLEXITY: Final = CitedReply(
    "openai_compatible",
    _completion({"content": TEXT}, **_BESIDE),
    _sse(
        _chunk({"role": "assistant", "content": TEXT[:9]}, **_BESIDE),
        _chunk({"content": TEXT[9:]}, **_BESIDE),
        _chunk({}, "stop", **_BESIDE),
        done=True,
    ),
    (URL, "https://example.org/wolf"),
    (),
)

# Gemini

_GROUNDING: Final = {
    "webSearchQueries": ["foxes"],
    "searchEntryPoint": {"renderedContent": "<div></div>"},
    "groundingChunks": [
        {"web": {"uri": URL, "title": "example.org"}},
        {"retrievedContext": {"title": "Zoology", "text": "The fox is a mammal."}},
    ],
    "groundingSupports": [
        {
            "segment": {"startIndex": 0, "endIndex": 17, "text": "Füchse sind rot."},
            "groundingChunkIndices": [0],
        }
    ],
}
_COPIED: Final = {"citationSources": [{"startIndex": 0, "endIndex": 9, "uri": "https://example.org/copied"}]}
_BY: Final = {"modelVersion": "m", "responseId": "r1"}


def _candidate(text: str, **beside: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **beside}],
        **_BY,
    }


_LAST: Final = {"finishReason": "STOP", "groundingMetadata": _GROUNDING, "citationMetadata": _COPIED}
GEMINI: Final = CitedReply(
    "gemini",
    json.dumps(_candidate(TEXT, **_LAST)).encode(),
    _sse(_candidate(TEXT[:9]), _candidate(TEXT[9:], **_LAST)),
    (URL, "Zoology", "https://example.org/copied"),
    (_GROUNDING, _COPIED),
)

# Mistral

_REFERENCE: Final = {"type": "reference", "reference_ids": [3, 7]}
_TOOL_REFERENCE: Final = {"type": "tool_reference", "tool": "web_search", "title": "About foxes", "url": URL}
_CHUNKS: Final = [{"type": "text", "text": TEXT}, _REFERENCE, {"type": "text", "text": " More."}]
MISTRAL: Final = CitedReply(
    "mistral",
    _completion({"content": _CHUNKS}),
    _sse(
        _chunk({"role": "assistant", "content": ""}),
        *(_chunk({"content": [chunk]}) for chunk in _CHUNKS),
        _chunk({"content": ""}, "stop"),
        done=True,
    ),
    ("reference",),
    (_REFERENCE,),
)
_FOUND: Final = [{"type": "text", "text": TEXT}, _TOOL_REFERENCE]
MISTRAL_TOOLS: Final = CitedReply(
    "mistral",
    _completion({"content": _FOUND}),
    _sse(*(_chunk({"content": [chunk]}) for chunk in _FOUND), _chunk({"content": ""}, "stop"), done=True),
    (URL,),
    (),
)

# Converse

_CONVERSE: Final = (
    {"title": "About foxes", "location": {"web": {"url": URL, "domain": "example.org"}}},
    {
        "title": "Zoology",
        "sourceContent": [{"text": "The fox is a mammal."}],
        "location": {"documentChar": {"documentIndex": 0, "start": 3, "end": 23}},
    },
    {"title": "Atlas", "location": {"documentPage": {"documentIndex": 1, "start": 4, "end": 5}}},
    {"title": "Sounds", "location": {"documentChunk": {"documentIndex": 2, "start": 0, "end": 2}}},
    {
        "source": "kb/running",
        "location": {"searchResultLocation": {"searchResultIndex": 0, "start": 0, "end": 1}},
    },
)
_CITED: Final = {"citationsContent": {"content": [{"text": TEXT}], "citations": _CONVERSE}}
_METADATA: Final = {"usage": {"inputTokens": 3, "outputTokens": 9, "totalTokens": 12}}


def _frame(kind: str, **fields: Any) -> bytes:
    return event_frame(kind, json.dumps(fields).encode())


CONVERSE: Final = CitedReply(
    "converse",
    json.dumps(
        {
            "output": {"message": {"role": "assistant", "content": [_CITED]}},
            "stopReason": "end_turn",
            **_METADATA,
        }
    ).encode(),
    b"".join(
        [
            _frame("messageStart", role="assistant"),
            _frame("contentBlockDelta", delta={"text": TEXT}, contentBlockIndex=0),
            *(
                _frame("contentBlockDelta", delta={"citation": citation}, contentBlockIndex=0)
                for citation in _CONVERSE
            ),
            _frame("contentBlockStop", contentBlockIndex=0),
            _frame("messageStop", stopReason="end_turn"),
            _frame("metadata", **_METADATA, metrics={"latencyMs": 1}),
        ]
    ),
    (URL, "Zoology", "Atlas", "Sounds", "kb/running"),
    _CONVERSE,
)

CITED_REPLIES: Final = (ANTHROPIC, RESPONSES, CHAT, PERPLEXITY, GEMINI, MISTRAL, MISTRAL_TOOLS, CONVERSE)
