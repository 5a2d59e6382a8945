"""The Gemini API as a server serves it. The path names the model, and whether the reply is streamed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from segue.dialects.gemini.errors import encode_error
from segue.dialects.gemini.vertex import vertex_reply
from segue.dialects.gemini.wire import field
from segue.dialects.server_side.references import ReferenceField, name_unless_empty, whole_name
from segue.dialects.server_side.wire_server import (
    EmbeddingRequest,
    Operation,
    ServedModel,
    ServerFacts,
    ServerPath,
    batch_paths,
)
from segue.dialects.streams import sse
from segue.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_HELD: Final = re.compile(r"gs://|files/|https://[^/]+/v1[a-z0-9]*/files/")
"""Addresses of files that Google keeps; others can be fetched by anybody."""


def _file(held: Any) -> str:
    uri = field(held, "fileUri") if isinstance(held, dict) else None
    return uri if isinstance(uri, str) and _HELD.match(uri) else ""


def _tool(tool: Any) -> str:
    """Stores that a tool of Google's searches in."""
    if not isinstance(tool, dict):
        return ""
    return whole_name(field(tool, "fileSearch") or tool.get("retrieval"))


def _cached(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="history",
        names=name_unless_empty,
        message="The cached content {name} is held by the provider that made it, and another one answers here.",
        code="cached_content_not_held",
        hint="Send the contents, the system instruction and the tools themselves.",
    )


def _files(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="file",
        names=_file,
        marks=(b"ile_uri", b"ileUri"),
        message="The file {name} is held by the provider that it was uploaded to, and another one answers here.",
        hint="Send inlineData instead, remove the file, or go back to a model of that provider.",
    )


REFERENCES: Final = (
    *map(_cached, ("cachedContent", "cached_content")),
    *(
        _files(f"{said}.parts[].{inner}{name}")
        for said in ("contents[]", "systemInstruction", "system_instruction")
        for inner in ("", "functionResponse.parts[].", "function_response.parts[].")
        for name in ("fileData", "file_data")
    ),
    ReferenceField(
        place="tools[]",
        stands_for="tools",
        names=_tool,
        message="The tool searches in what only its provider holds, and another one answers here.",
        hint="Remove the tool or offer functions instead, or go back to a model of that provider.",
    ),
)


_PAGE = 50


class _JsonArray:
    """The chunks of a stream as one JSON array: what a client gets that does not ask for events (GEM-50)."""

    stream_type = "application/json; charset=UTF-8"

    def __init__(self) -> None:
        self._frames = sse.FrameDecoder()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._element(frame.data) for frame in self._frames.feed(data))

    def close(self) -> bytes:
        return b"]" if self._begun else b"[]"

    def _element(self, chunk: bytes) -> bytes:
        lead = b",\r\n" if self._begun else b"["
        self._begun = True
        return lead + chunk


class _VertexStream:
    """The chunks of a stream as Vertex writes them."""

    stream_type = "text/event-stream"

    def __init__(self) -> None:
        self._frames = sse.FrameDecoder()

    def feed(self, data: bytes) -> bytes:
        return b"".join([sse.encode(vertex_reply(frame.data)) for frame in self._frames.feed(data)])

    def close(self) -> bytes:
        return b"".join([sse.encode(vertex_reply(frame.data)) for frame in self._frames.close()])


class _VertexReply:
    """A whole reply as Vertex writes it."""

    stream_type = "application/json; charset=UTF-8"

    def feed(self, data: bytes) -> bytes:
        return vertex_reply(data)

    def close(self) -> bytes:
        return b""


def _reframe(operation: Operation, query: Mapping[str, str], *, stream: bool) -> _JsonArray | None:
    return _JsonArray() if operation == "chat" and stream and query.get("alt") != "sse" else None


def _counted_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request whose tokens are asked for: in a field of its own, or these fields themselves (GEM-46)."""
    inner = body.get("generateContentRequest")
    return dict(inner) if isinstance(inner, dict) else dict(body)


def _encode_models(models: Sequence[ServedModel], query: Mapping[str, str]) -> bytes:
    """A page of the list (GEM-45)."""
    start, size = _number(query.get("pageToken"), 0), _number(query.get("pageSize"), _PAGE) or _PAGE
    fields: dict[str, Any] = {"models": [_model(model) for model in models[start : start + size]]}
    if start + size < len(models):
        fields["nextPageToken"] = str(start + size)
    return msgspec.json.encode(fields)


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def _model(model: ServedModel) -> dict[str, Any]:
    chats = ["generateContent", "streamGenerateContent", "countTokens"]
    fields: dict[str, Any] = {
        "name": f"models/{model.id}",
        "version": "001",
        "displayName": model.title or model.id,
        "supportedGenerationMethods": ["embedContent", "batchEmbedContents"] if model.embedding else chats,
        "thinking": model.reasoning,
    }
    if model.context is not None:
        fields["inputTokenLimit"] = model.context
    if model.output is not None:
        fields["outputTokenLimit"] = model.output
    return fields


def _decode_embedding(body: Mapping[str, Any]) -> EmbeddingRequest:
    """One content, or a batch of requests (GEM-47)."""
    batch = body.get("requests")
    requests = batch if isinstance(batch, list) else [body]
    sizes = {one.get("outputDimensionality") for one in requests if isinstance(one, dict)}
    if len(sizes) > 1:
        raise TranscriptError(
            "The requests of this batch ask for different dimensions.",
            code="bad_embedding",
            path="requests",
            hint="Send one batch for each outputDimensionality.",
        )
    size = next(iter(sizes), None)
    return EmbeddingRequest(
        texts=tuple(_text(one, f"requests[{index}]") for index, one in enumerate(requests)),
        dimensions=size if isinstance(size, int) else None,
        single=not isinstance(batch, list),
    )


def _text(request: Any, path: str) -> str:
    content = request.get("content") if isinstance(request, dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    given = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    texts = [text for text in given if isinstance(text, str)]
    if not texts or len(texts) < len(given):
        raise TranscriptError(
            "Only text can be embedded here.",
            code="bad_embedding",
            path=f"{path}.content",
            hint="Send content with parts of text.",
        )
    return " ".join(texts)


def _encode_embeddings(
    request: EmbeddingRequest, vectors: Sequence[Sequence[float]], *, model: str, tokens: int
) -> bytes:
    del model, tokens
    values = [{"values": vector} for vector in vectors]
    return msgspec.json.encode({"embedding": values[0]} if request.single else {"embeddings": values})


_VERSIONS = ("v1beta", "v1", "v1beta1", "v1alpha")
_AT_VERTEX = ("/projects/{project}/locations/{location}/publishers/{publisher}", "/publishers/{publisher}")
"""VTX-01: of a project, and of express mode, which has none."""

_CACHED: Final[tuple[tuple[Operation, str, str], ...]] = (
    ("cache_content", "POST", ""),
    ("cached_content", "GET", ""),
    *(("cached_content", method, "/{id}") for method in ("GET", "PATCH", "DELETE")),
)

SERVER = ServerFacts(
    paths=tuple(
        path
        for version in _VERSIONS
        for model in (
            f"/{version}/models/{{model}}",
            *(f"/{version}{place}/models/{{model}}" for place in _AT_VERTEX),
        )
        for path in (
            ServerPath(
                operation="chat",
                pattern=f"{model}:generateContent",
                stream=False,
                frames=_VertexReply if "publishers" in model else None,
                provider="vertex" if "publishers" in model else "",
            ),
            ServerPath(
                operation="chat",
                pattern=f"{model}:streamGenerateContent",
                stream=True,
                frames=_VertexStream if "publishers" in model else None,
                provider="vertex" if "publishers" in model else "",
            ),
            ServerPath(operation="count_tokens", pattern=f"{model}:countTokens"),
            ServerPath(operation="embed", pattern=f"{model}:embedContent"),
            ServerPath(operation="embed", pattern=f"{model}:batchEmbedContents"),
            ServerPath(operation="show_model", method="GET", pattern=model),
        )
    )
    + tuple(
        ServerPath(operation="list_models", method="GET", pattern=f"/{version}/models")
        for version in _VERSIONS
    )
    + tuple(
        ServerPath(operation=operation, method=method, pattern=f"/{version}/cachedContents{which}")
        for version in _VERSIONS
        for operation, method, which in _CACHED
    )
    + batch_paths(
        *(
            f"{method} /{version}{path}"
            for version in _VERSIONS
            for method, path in (
                ("POST", "/models/{model}:batchGenerateContent"),
                ("GET", "/batches"),
                ("GET", "/batches/{id}"),
                ("DELETE", "/batches/{id}"),
                ("POST", "/batches/{id}:cancel"),
                ("GET", "/files"),
                ("GET", "/files/{id}:download"),
                ("GET", "/files/{id}"),
                ("DELETE", "/files/{id}"),
            )
        ),
        *(f"POST /upload/{version}/files" for version in _VERSIONS),
    ),
    prefix="/gemini",
    client_marks=(("x-goog-api-key", ""), ("x-goog-api-client", "")),
    key_headers=("x-goog-api-key", "authorization"),
    key_query="key",
    forwarded_headers=("x-goog-api-client", "x-goog-user-project"),
    session_headers=("x-session-id", "session_id"),
    model_field="",
    reply_model_field="modelVersion",
    choices_field=("generationConfig", "candidateCount"),
    stream_field="",
    stream_type="text/event-stream",
    error_frame=lambda error: sse.encode(encode_error(error)[1]),
    references=REFERENCES,
    holds_contents=True,
    chat_request=_counted_request,
    reframe=_reframe,
    encode_models=_encode_models,
    encode_model=lambda model: msgspec.json.encode(_model(model)),
    encode_count=lambda tokens: msgspec.json.encode({"totalTokens": tokens}),
    decode_embedding=_decode_embedding,
    encode_embeddings=_encode_embeddings,
)
