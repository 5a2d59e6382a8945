"""Ollama's API as a server serves it: chats, single prompts, embeddings, and the models that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.openai_chat.ollama.reply import ENCODER, encode_error, moment_of
from segue.dialects.server_side.wire_server import (
    EmbeddingRequest,
    Operation,
    ServedModel,
    ServerFacts,
    ServerPath,
)
from segue.dialects.streams.ndjson import LineDecoder
from segue.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STREAM_TYPE = "application/x-ndjson"
_FIRST_DAY = "1970-01-01T00:00:00Z"
_DIGEST = "0" * 64
_DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": [],
    "parameter_size": "",
    "quantization_level": "",
}
_PROMPT = ("prompt", "system", "images", "suffix", "template", "raw", "context")
"""Fields of a single prompt that a chat does not have."""
_AT_ONCE = (0, "0", "0s", "0m")
"""How long a model that is unloaded stays."""


class _Generated:
    """The lines of a chat as lines of a single prompt's reply."""

    stream_type = _STREAM_TYPE

    def __init__(self) -> None:
        self._lines = LineDecoder()

    def feed(self, data: bytes) -> bytes:
        return b"".join(_generated(line) for line in self._lines.feed(data))

    def close(self) -> bytes:
        return b"".join(_generated(line) for line in self._lines.close())


def _generated(line: bytes) -> bytes:
    fields = msgspec.json.decode(line)
    message = fields.pop("message", None)
    if isinstance(message, dict):
        fields["response"] = message.get("content", "")
        if message.get("thinking"):
            fields["thinking"] = message["thinking"]
    return ENCODER.encode(fields) + b"\n"


def _reframe(operation: Operation, query: Mapping[str, str], *, stream: bool) -> _Generated | None:
    del query, stream
    return _Generated() if operation == "generate" else None


def _chat_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """A single prompt as a chat of one message."""
    if "messages" in body:
        return dict(body)
    for name in ("suffix", "raw", "context", "template"):
        if body.get(name):
            raise TranscriptError(
                f"{name} belongs to one model's own template, and another model may answer here.",
                code="unsupported_field",
                path=name,
                hint="Use /api/chat with messages.",
            )
    system, images = body.get("system"), body.get("images")
    message: dict[str, Any] = {"role": "user", "content": body.get("prompt") or ""}
    if images:
        message["images"] = images
    messages = [{"role": "system", "content": system}] if system else []
    return {
        **{name: value for name, value in body.items() if name not in _PROMPT},
        "messages": [*messages, message],
    }


def _encode_loaded(operation: Operation, body: Mapping[str, Any], created: float) -> bytes | None:
    """A chat without messages and a prompt without words load a model, or unload it, and it says nothing."""
    chats = operation == "chat"
    if body.get("messages" if chats else "prompt"):
        return None
    said = {"message": {"role": "assistant", "content": ""}} if chats else {"response": ""}
    reason = "unload" if body.get("keep_alive") in _AT_ONCE else "load"
    done = {"done_reason": reason, "done": True}
    return ENCODER.encode({"model": body.get("model"), "created_at": moment_of(created), **said, **done})


def _abilities(model: ServedModel) -> list[str]:
    if model.embedding:
        return ["embedding"]
    known = (("tools", model.tools), ("vision", model.images), ("thinking", model.reasoning))
    return ["completion", *(name for name, able in known if able)]


def _encode_models(models: Sequence[ServedModel], query: Mapping[str, str]) -> bytes:
    del query
    return ENCODER.encode(
        {
            "models": [
                {
                    "name": model.id,
                    "model": model.id,
                    "modified_at": _FIRST_DAY,
                    "size": 0,
                    "digest": _DIGEST,
                    "details": _DETAILS,
                    "capabilities": _abilities(model),
                }
                for model in models
            ]
        }
    )


def _encode_model(model: ServedModel) -> bytes:
    info: dict[str, Any] = {"general.architecture": "segue"}
    if model.context is not None:
        info["segue.context_length"] = model.context
    return ENCODER.encode(
        {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": _DETAILS,
            "model_info": info,
            "capabilities": _abilities(model),
            "modified_at": _FIRST_DAY,
        }
    )


def _decode_embedding(body: Mapping[str, Any]) -> EmbeddingRequest:
    """`input` of /api/embed, or `prompt` of the older /api/embeddings (OLL-30)."""
    single = "input" not in body and "prompt" in body
    texts, size = body.get("prompt") if single else body.get("input"), body.get("dimensions")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TranscriptError(
            "input is neither a text nor a list of texts.",
            code="bad_embedding",
            path="input",
            hint="Send a text or a list of texts.",
        )
    return EmbeddingRequest(
        texts=tuple(texts), dimensions=size if isinstance(size, int) else None, single=single
    )


def _encode_embeddings(
    request: EmbeddingRequest, vectors: Sequence[Sequence[float]], *, model: str, tokens: int
) -> bytes:
    if request.single:
        return ENCODER.encode({"embedding": vectors[0] if vectors else []})
    return ENCODER.encode({"model": model, "embeddings": vectors, "prompt_eval_count": tokens})


SERVER = ServerFacts(
    paths=(
        ServerPath(operation="chat", pattern="/api/chat"),
        ServerPath(operation="generate", pattern="/api/generate"),
        ServerPath(operation="embed", pattern="/api/embed"),
        ServerPath(operation="embed", pattern="/api/embeddings"),
        ServerPath(operation="list_models", method="GET", pattern="/api/tags"),
        ServerPath(operation="show_model", pattern="/api/show"),
        ServerPath(operation="version", method="GET", pattern="/api/version"),
        ServerPath(operation="hello", method="GET", pattern="/"),
    ),
    prefix="/ollama",
    client_marks=(("user-agent", "ollama"),),
    session_headers=("x-session-id", "session_id"),
    streams_by_default=True,
    stream_type=_STREAM_TYPE,
    error_frame=lambda error: encode_error(error)[1] + b"\n",
    chat_request=_chat_request,
    reframe=_reframe,
    encode_models=_encode_models,
    encode_model=_encode_model,
    encode_loaded=_encode_loaded,
    decode_embedding=_decode_embedding,
    encode_embeddings=_encode_embeddings,
)
