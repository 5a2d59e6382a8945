"""Gemini's Interactions as a server serves them: replies that are kept and named, in the background or not (INT-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.gemini.server import SERVER as GEMINI_SERVER
from segue.dialects.gemini_interactions.errors import error_object
from segue.dialects.gemini_interactions.references import REFERENCES
from segue.dialects.gemini_interactions.wire import ENCODER
from segue.dialects.server_side.continued_ids import continued_by_id
from segue.dialects.server_side.wire_server import ProviderState, ServerFacts, ServerPath
from segue.dialects.streams import sse

if TYPE_CHECKING:
    from segue.errors import SegueError

_VERSIONS = ("v1", "v1beta", "v1beta2")
"""Newer clients use the first, older ones the others."""


def _error_frame(error: SegueError) -> bytes:
    """A stream that is cut ends silently in clients, so this is always sent (INT-09)."""
    return sse.encode(ENCODER.encode({"event_type": "error", "error": error_object(error)[1]}), "error")


def _is_reply(step: Any) -> bool:
    """What is not surely the model's is the client's: it must not be left out (INT-04)."""
    kind = step.get("type") if isinstance(step, dict) else None
    if not isinstance(kind, str) or kind == "function_result":
        return False
    return kind in ("thought", "model_output") or kind.endswith(("_call", "_result"))


_STATE = ProviderState(
    begin={"store": True},
    going_on=lambda reply_id: {"store": True, "previous_interaction_id": reply_id},
    is_reply=_is_reply,
    life=23 * 3600.0,  # INT-07: a day without a paid plan
)

SERVER = ServerFacts(
    paths=tuple(
        path
        for version in _VERSIONS
        for path in (
            ServerPath(operation="chat", pattern=f"/{version}/interactions"),
            ServerPath(operation="get_reply", method="GET", pattern=f"/{version}/interactions/{{id}}"),
            ServerPath(operation="delete_reply", method="DELETE", pattern=f"/{version}/interactions/{{id}}"),
            ServerPath(operation="cancel_reply", pattern=f"/{version}/interactions/{{id}}/cancel"),
        )
    ),
    prefix="/gemini",
    client_marks=GEMINI_SERVER.client_marks,
    key_headers=GEMINI_SERVER.key_headers,
    key_query=GEMINI_SERVER.key_query,
    forwarded_headers=GEMINI_SERVER.forwarded_headers,
    session_headers=GEMINI_SERVER.session_headers,
    agent_field="agent",
    stream_type="text/event-stream",
    error_frame=_error_frame,
    references=REFERENCES,
    obeyed=frozenset({"store", "background"}),
    stores_replies=True,
    state=_STATE,
    continuations=continued_by_id(
        "gemini_interactions", "previous_interaction_id", ("model", "system_instruction", "tools")
    ),
    encode_models=GEMINI_SERVER.encode_models,
    encode_model=GEMINI_SERVER.encode_model,
)
