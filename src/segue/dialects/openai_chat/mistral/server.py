"""Mistral's API as a server serves it, and what a request may refer to without holding it. It shares its paths with OpenAI's; what a client sends tells them apart."""

from __future__ import annotations

from functools import partial
from typing import Any

from segue.dialects.openai_chat.mistral.reply import ENCODER, error_frame
from segue.dialects.openai_chat.mistral.request import shown_by
from segue.dialects.server_side.openai_lists import (
    decode_embedding,
    encode_embeddings,
    encode_models,
    model_fields,
)
from segue.dialects.server_side.references import ReferenceField, member_name, text_name
from segue.dialects.server_side.wire_server import (
    ServedModel,
    ServerFacts,
    ServerPath,
    batch_paths,
    rate_headers,
)


def _file(chunk: Any) -> str:
    return member_name("file_id")(chunk) if isinstance(chunk, dict) and chunk.get("type") == "file" else ""


def _history(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="history",
        names=text_name,
        message="The conversation of '{name}' is not held here.",
        status=404,
        code="conversation_not_found",
        hint="Send the whole conversation as messages.",
        members={"type": "not_found"},
    )


_REFERENCES = (
    *map(_history, ("conversation_id", "from_entry_id")),
    ReferenceField(
        place="agent_id",
        stands_for="history",
        names=text_name,
        message="The agent '{name}' is held by the provider that it was made at, and another one answers here.",
        hint="Send its instructions and tools themselves.",
    ),
    ReferenceField(
        place="messages[].content[]",
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message="The file '{name}' is held by the provider that gave this id, and another one answers here.",
        hint="Send an address instead, remove the file, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="tools[]",
        stands_for="tools",
        names=member_name("library_ids", "connector_id"),
        message="The tool works with what only its provider reaches, and another one answers here.",
        hint="Remove the tool or offer functions instead, or go back to a model of that provider.",
    ),
)


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
        *(
            ServerPath(operation="refuse", method=method, pattern=f"/v1/conversations{path}")
            for method, path in (
                ("POST", ""),
                ("GET", ""),
                ("POST", "/{id}"),
                ("GET", "/{id}"),
                ("DELETE", "/{id}"),
                ("POST", "/{id}/restart"),
                ("GET", "/{id}/history"),
                ("GET", "/{id}/messages"),
            )
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
    references=_REFERENCES,
    decode_embedding=partial(decode_embedding, dimensions="output_dimension"),  # MIS-17
    encode_embeddings=encode_embeddings,
)
