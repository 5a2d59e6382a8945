"""OpenAI's Responses API as a server serves it: replies that are kept and named, counts and compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.openai_responses.errors import error_object
from segue.dialects.openai_responses.references import REFERENCES
from segue.dialects.openai_responses.wire import ENCODER
from segue.dialects.server_side.continued_ids import continued_by_id
from segue.dialects.server_side.openai_lists import encode_model, encode_models
from segue.dialects.server_side.signed_requests import SignedRequests
from segue.dialects.server_side.wire_server import (
    ProviderState,
    ServerFacts,
    ServerPath,
    error_headers_with_advice,
    rate_headers,
)
from segue.dialects.streams import sse

if TYPE_CHECKING:
    from segue.errors import SegueError


def _error_frame(error: SegueError) -> bytes:
    """RESP-63: the fields stand in the event itself."""
    fields = error_object(error)[1]
    shown = {name: fields[name] for name in ("code", "message", "param")}
    return sse.encode(ENCODER.encode({"type": "error", **shown, "sequence_number": 0}), "error")


def _is_reply(item: Any) -> bool:
    """What is not surely the model's is the client's: it must not be left out."""
    if not isinstance(item, dict):
        return False
    kind = item.get("type", "message")
    return (
        item.get("role") == "assistant"
        if kind == "message"
        else kind == "reasoning" or kind.endswith("_call")
    )


_STATE = ProviderState(
    begin={"store": True},
    going_on=lambda reply_id: {"store": True, "previous_response_id": reply_id},
    is_reply=_is_reply,
    life=29 * 86_400.0,  # RST-02, with a day to spare
)
_PREFIXES = ("/v1", "")
"""Some clients add the version to a base URL, some expect it in there."""

_CONVERSATIONS = (
    ("POST", ""),
    ("GET", "/{id}"),
    ("POST", "/{id}"),
    ("DELETE", "/{id}"),
    ("GET", "/{id}/items"),
    ("POST", "/{id}/items"),
    ("GET", "/{id}/items/{item}"),
    ("DELETE", "/{id}/items/{item}"),
)
"""CNV-01."""

SERVER = ServerFacts(
    has_socket=True,
    paths=tuple(
        path
        for prefix in _PREFIXES
        for path in (
            ServerPath(operation="chat", pattern=f"{prefix}/responses"),
            ServerPath(operation="count_tokens", pattern=f"{prefix}/responses/input_tokens"),
            ServerPath(operation="compact", pattern=f"{prefix}/responses/compact"),
            ServerPath(operation="get_reply", method="GET", pattern=f"{prefix}/responses/{{id}}"),
            ServerPath(operation="delete_reply", method="DELETE", pattern=f"{prefix}/responses/{{id}}"),
            ServerPath(operation="cancel_reply", pattern=f"{prefix}/responses/{{id}}/cancel"),
            ServerPath(
                operation="list_input", method="GET", pattern=f"{prefix}/responses/{{id}}/input_items"
            ),
            *(
                ServerPath(
                    operation="conversation", method=method, pattern=f"{prefix}/conversations{pattern}"
                )
                for method, pattern in _CONVERSATIONS
            ),
        )
    ),
    prefix="/openai",
    key_headers=("authorization", "api-key"),
    signatures=SignedRequests(),
    beta_headers=("openai-beta",),
    forwarded_headers=("openai-beta", "openai-organization", "openai-project"),
    standing_headers=rate_headers,
    returned_headers=("x-ratelimit-", "openai-"),
    conversation_headers=("thread-id", "conversation_id"),  # Codex: a subagent has a thread of its own
    conversation_fields=("conversation",),
    session_headers=("session-id", "session_id", "x-session-id"),
    keep_alive=b": keep-alive\n\n",
    error_frame=_error_frame,
    error_headers=error_headers_with_advice,
    encode_models=encode_models,
    encode_model=encode_model,
    encode_count=lambda tokens: ENCODER.encode({"object": "response.input_tokens", "input_tokens": tokens}),
    references=REFERENCES,
    obeyed=frozenset({"store", "background", "stream_options", "prompt_cache_key"}),
    stores_replies=True,
    state=_STATE,
    continuations=continued_by_id(
        "openai_responses", "previous_response_id", ("model", "instructions", "tools"), beside="conversation"
    ),
    item_marks=(b'"item_reference"', b'"compaction'),
)
