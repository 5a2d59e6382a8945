"""Mistral's API as a server serves it. It shares its paths with OpenAI's; the client's name tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects import sse
from segue.dialects.mistral.errors import encode_error
from segue.dialects.mistral.wire import ENCODER
from segue.dialects.openai_lists import decode_embedding, encode_embeddings, model_fields
from segue.dialects.server import EmbeddingRequest, ServedModel, ServerFacts, ServerPath, rate_headers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.errors import SegueError


def _model(model: ServedModel) -> dict[str, Any]:
    """MIS-18."""
    fields = {
        **model_fields(model),
        "name": model.title or model.id,
        "aliases": [],
        "capabilities": {
            "completion_chat": not model.embedding,
            "completion_fim": False,
            "function_calling": model.tools and not model.embedding,
            "fine_tuning": False,
            "vision": model.images,
            "reasoning": model.reasoning,
        },
    }
    return fields if model.context is None else {**fields, "max_context_length": model.context}


def _encode_models(models: Sequence[ServedModel], query: Mapping[str, str]) -> bytes:
    del query
    return ENCODER.encode({"object": "list", "data": [_model(model) for model in models]})


def _encode_model(model: ServedModel) -> bytes:
    return ENCODER.encode(_model(model))


def _decode_embedding(body: Mapping[str, Any]) -> EmbeddingRequest:
    """MIS-17: the wire has its own word for dimensions."""
    return decode_embedding(body, "output_dimension")


def _error_frame(error: SegueError) -> bytes:
    return sse.encode(encode_error(error)[1])


SERVER = ServerFacts(
    paths=(
        ServerPath(operation="chat", pattern="/v1/chat/completions"),
        ServerPath(operation="embed", pattern="/v1/embeddings"),
        ServerPath(operation="list_models", method="GET", pattern="/v1/models"),
        ServerPath(operation="show_model", method="GET", pattern="/v1/models/{model}"),
    ),
    prefix="/mistral",
    client_marks=(("user-agent", "mistral"),),
    standing_headers=rate_headers,
    returned_headers=("x-ratelimit-", "ratelimit"),
    session_headers=("x-session-id", "x-session-affinity", "session_id", "x-affinity"),
    keep_alive=b": keep-alive\n\n",
    stream_ends=(b"data: [DONE]", b'"object":"error"'),
    error_frame=_error_frame,
    request_id_header="mistral-correlation-id",
    encode_models=_encode_models,
    encode_model=_encode_model,
    decode_embedding=_decode_embedding,
    encode_embeddings=encode_embeddings,
)
