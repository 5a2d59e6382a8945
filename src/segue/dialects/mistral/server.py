"""Mistral's API as a server serves it. It shares its paths with OpenAI's; what a client sends tells them apart."""

from __future__ import annotations

from functools import partial
from typing import Any

from segue.dialects.mistral.references import REFERENCES
from segue.dialects.mistral.request import shown_by
from segue.dialects.mistral.stream import error_frame
from segue.dialects.mistral.wire import ENCODER
from segue.dialects.openai_lists import decode_embedding, encode_embeddings, encode_models, model_fields
from segue.dialects.server import ServedModel, ServerFacts, ServerPath, batch_paths, rate_headers


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


SERVER = ServerFacts(
    paths=(
        ServerPath(operation="chat", pattern="/v1/chat/completions"),
        ServerPath(operation="embed", pattern="/v1/embeddings"),
        ServerPath(operation="list_models", method="GET", pattern="/v1/models"),
        ServerPath(operation="show_model", method="GET", pattern="/v1/models/{model}"),
        *batch_paths(
            "POST /v1/files",
            "GET /v1/files",
            "GET /v1/files/{id}",
            "DELETE /v1/files/{id}",
            "GET /v1/files/{id}/content",
            "POST /v1/batch/jobs",
            "GET /v1/batch/jobs",
            "GET /v1/batch/jobs/{id}",
            "DELETE /v1/batch/jobs/{id}",
            "POST /v1/batch/jobs/{id}/cancel",
        ),
    ),
    prefix="/mistral",
    client_marks=(("user-agent", "mistral"),),
    shown_by=shown_by,
    standing_headers=rate_headers,
    returned_headers=("x-ratelimit-", "ratelimit"),
    session_headers=("x-session-id", "session_id"),
    choices_field=("n",),
    keep_alive=b": keep-alive\n\n",
    error_frame=error_frame,
    encode_models=partial(encode_models, fields=_model),
    encode_model=lambda model: ENCODER.encode(_model(model)),
    references=REFERENCES,
    decode_embedding=partial(decode_embedding, dimensions="output_dimension"),  # MIS-17
    encode_embeddings=encode_embeddings,
)
