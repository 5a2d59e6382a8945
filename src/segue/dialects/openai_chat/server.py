"""OpenAI's API as a server serves it: chat completions, embeddings and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.dialects.openai_chat.errors import encode_error
from segue.dialects.server_side.openai_lists import (
    decode_embedding,
    encode_embeddings,
    encode_model,
    encode_models,
)
from segue.dialects.server_side.references import ReferenceField, member_name
from segue.dialects.server_side.signed_requests import SignedRequests
from segue.dialects.server_side.wire_server import (
    ServerFacts,
    ServerPath,
    batch_paths,
    error_headers_with_advice,
    rate_headers,
)
from segue.dialects.streams import sse

if TYPE_CHECKING:
    from collections.abc import Mapping


def _file(part: Any) -> str:
    """A file by its id; one that comes along may have an id, too."""
    return member_name("file_id")(part) if isinstance(part, dict) and not part.get("file_data") else ""


def _spoken(message: Any) -> str:
    """A reply that was spoken, of which only the provider has the words; clients may return them with it."""
    if not isinstance(message, dict) or message.get("content"):
        return ""
    return "" if member_name("transcript")(message.get("audio")) else member_name("id")(message.get("audio"))


def _with_words(message: Any, words: str) -> Any:
    return {**message, "content": words}


REFERENCES: Final = (
    ReferenceField(
        place="messages[].content[].file",
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message="The file '{name}' in {path} is held by the provider that gave this id, and another one answers here.",
        hint="Send file_data instead, remove the file, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="messages[]",
        stands_for="file",
        names=_spoken,
        marks=(b'"audio"',),
        fill=_with_words,
        message="The spoken reply '{name}' in {path} is held by the provider that made it, and another one answers here.",
        hint="Send its words as content or as audio.transcript, or go back to a model of that provider.",
    ),
)


def _streams_counts(body: Mapping[str, Any]) -> bool:
    """CHAT-63: the chunk that holds the counts has no choices, so that only those who ask for it expect it."""
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


_PREFIXES = ("/v1", "")
"""Some clients add the version to a base URL, some expect it in there."""

_BATCHES = (
    ("POST", "/files"),
    ("GET", "/files"),
    ("GET", "/files/{id}"),
    ("DELETE", "/files/{id}"),
    ("GET", "/files/{id}/content"),
    ("POST", "/batches"),
    ("GET", "/batches"),
    ("GET", "/batches/{id}"),
    ("POST", "/batches/{id}/cancel"),
)

SERVER = ServerFacts(
    paths=(
        *(
            path
            for prefix in _PREFIXES
            for path in (
                ServerPath(operation="chat", pattern=f"{prefix}/chat/completions"),
                ServerPath(operation="embed", pattern=f"{prefix}/embeddings"),
                ServerPath(operation="complete", pattern=f"{prefix}/completions"),
                ServerPath(operation="moderate", pattern=f"{prefix}/moderations"),
                ServerPath(operation="list_models", method="GET", pattern=f"{prefix}/models"),
                ServerPath(operation="show_model", method="GET", pattern=f"{prefix}/models/{{model}}"),
            )
        ),
        *batch_paths(*(f"{method} {prefix}{path}" for prefix in _PREFIXES for method, path in _BATCHES)),
        # AzureOpenAI of OpenAI's SDK, with its usual api-version; the v1 API has the paths above.
        ServerPath(
            operation="chat", pattern="/deployments/{model}/chat/completions", provider="azure-openai"
        ),
        ServerPath(operation="embed", pattern="/deployments/{model}/embeddings"),
    ),
    prefix="/openai",
    client_marks=(("user-agent", "openai"),),
    key_headers=("authorization", "api-key"),
    signatures=SignedRequests(),
    beta_headers=("openai-beta",),
    forwarded_headers=("openai-beta", "openai-organization", "openai-project"),
    standing_headers=rate_headers,
    returned_headers=("x-ratelimit-", "openai-"),
    session_headers=("x-session-id", "session_id"),
    choices_field=("n",),
    streams_counts=_streams_counts,
    keep_alive=b": keep-alive\n\n",
    error_frame=lambda error: sse.encode(encode_error(error)[1]),
    error_headers=error_headers_with_advice,
    encode_models=encode_models,
    encode_model=encode_model,
    references=REFERENCES,
    obeyed=frozenset({"stream_options", "prompt_cache_key"}),
    decode_embedding=decode_embedding,
    encode_embeddings=encode_embeddings,
)
