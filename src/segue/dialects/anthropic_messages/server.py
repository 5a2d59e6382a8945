"""Anthropic's API as a server serves it: messages, token counts and models."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from segue.dialects.anthropic_messages.cache_marks import MOST_MARKS
from segue.dialects.anthropic_messages.errors import encode_error
from segue.dialects.anthropic_messages.invoke_frames import FramedEvents
from segue.dialects.anthropic_messages.threads import CARRIED, THREADS
from segue.dialects.anthropic_messages.wire import ENCODER
from segue.dialects.server_side.references import UNNAMED, ReferenceField, member_name, whole_name
from segue.dialects.server_side.signed_requests import SignedRequests
from segue.dialects.server_side.wire_server import (
    CallerStanding,
    ProviderState,
    ServedModel,
    ServerFacts,
    ServerPath,
    batch_paths,
    error_headers_with_advice,
)
from segue.dialects.streams import sse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_SEND_IT: Final = "Send the content itself, remove the file, or go back to a model of that provider."
_NOT_HELD: Final = "`{name}` is held by the provider that gave this id, and another one answers here."
_file: Final = member_name("file_id")


def _continued(thread: Any) -> str:
    """THR-02: a thread that is created has nothing before it."""
    if isinstance(thread, dict) and thread.get("type") == "create":
        return ""
    previous = thread.get("previous_message_id") if isinstance(thread, dict) else None
    return previous if isinstance(previous, str) and previous else UNNAMED


def _compacted(block: Any) -> str:
    """A summary that only the provider can read; one in words is content like any other, and one without either is void."""
    if not isinstance(block, dict) or block.get("type") != "compaction" or block.get("content"):
        return ""
    return member_name("encrypted_content", "signature")(block)


def _uploaded(block: Any) -> str:
    return _file(block) if isinstance(block, dict) and block.get("type") == "container_upload" else ""


def _paying_customer(policy: Any) -> str:
    """A request bills its sender unless it says otherwise."""
    payer = policy.get("bill_to") if isinstance(policy, dict) else None
    return payer if isinstance(payer, str) and payer != "self" else ""


def _files(place: str) -> ReferenceField:
    return ReferenceField(
        place=place,
        stands_for="file",
        names=_file,
        marks=(b'"file_id"',),
        message=f"File {_NOT_HELD}",
        hint=_SEND_IT,
    )


REFERENCES: Final = (
    ReferenceField(
        place="thread",
        stands_for="history",
        names=_continued,
        message="The thread of the message `{name}` is not held here.",
        status=404,  # THR-16: the only answer that every client survives
        code="thread_not_found",
        hint="Send the whole conversation.",
        members={"error": {"details": {"error_code": "thread_not_found"}}},
        replayed=True,
        fatal=frozenset({"thread_fingerprint_mismatch"}),  # the SDK raises then
    ),
    ReferenceField(
        place="container",
        stands_for="tools",
        names=whole_name,
        message="A container is at the provider that made it, and another one answers here.",
        hint="Send the request without a container, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="mcp_servers",
        stands_for="tools",
        names=whole_name,
        message="The provider that answers here asks no MCP servers, so the model would not have their tools.",
        hint="Offer the tools themselves, or go back to a model of the provider that runs them.",
    ),
    ReferenceField(
        place="billing_policy",
        stands_for="payer",
        names=_paying_customer,
        message="Only the provider that has the customer's profile can bill the customer, and another one answers here.",
        hint="Send the request without a billing policy, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="messages[].content[]",
        stands_for="summary",
        names=_compacted,
        marks=(b'"compaction"',),
        message="Only the provider that compacted this conversation can read the block, and another one answers here.",
        hint="Send the messages themselves, or go back to a model of that provider.",
    ),
    ReferenceField(
        place="messages[].content[]",
        stands_for="file",
        names=_uploaded,
        marks=(b'"file_id"',),
        message=f"File {_NOT_HELD}",
        hint=_SEND_IT,
    ),
    _files("messages[].content[].source"),
    _files("messages[].content[].content[].source"),
    _files("messages[].content[].source.content[].source"),
    _files("messages[].content[].content[].source.content[].source"),
)


STATE: Final = ProviderState(
    begin={"thread": {"type": "create"}},
    going_on=lambda reply_id: {"thread": {"type": "continue", "previous_message_id": reply_id}},
    left_out=frozenset({"system", "tools"}),  # THR-03: a thread has them from its beginning
    usual={
        "tool_choice": {"type": "auto"}
    },  # THR-04: to say it where the first request did not would be a change
    is_reply=lambda message: isinstance(message, dict) and message.get("role") == "assistant",
    header=("anthropic-beta", "message-threads-2026-08-12"),
    life=280.0,  # THR-05: five minutes, and the way there
    fixed=True,  # THR-04
)

_PAGE = 20
_RATE = "anthropic-ratelimit-"
_WARN_AT = (0.75, 0.95)
"""Parts of a budget."""
_FIRST_DAY = "1970-01-01T00:00:00Z"


def _encode_models(models: Sequence[ServedModel], query: Mapping[str, str]) -> bytes:
    """A page of the list (ANT-95)."""
    names = [model.id for model in models]
    start = names.index(query["after_id"]) + 1 if query.get("after_id") in names else 0
    limit = query.get("limit", "")
    size = min(max(int(limit), 1), 1000) if limit.isascii() and limit.isdigit() else _PAGE
    page = models[start : start + size]
    return ENCODER.encode(
        {
            "data": [_model(model) for model in page],
            "has_more": start + size < len(models),
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
    )


def _model(model: ServedModel) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": "model",
        "id": model.id,
        "display_name": model.title or model.id,
        "created_at": _FIRST_DAY,
    }
    if model.context is not None:
        fields["max_input_tokens"] = model.context
    if model.output is not None:
        fields["max_tokens"] = model.output
    return fields


def _standing_headers(standing: CallerStanding) -> dict[str, str]:
    """Limits (ANT-90), and a budget of which little is left in the headers that clients show as a warning."""
    headers: dict[str, str] = {}
    for name, rate in (("requests", standing.requests), ("tokens", standing.tokens)):
        if rate is not None:
            headers[f"{_RATE}{name}-limit"] = str(rate.limit)
            headers[f"{_RATE}{name}-remaining"] = str(rate.left)
            headers[f"{_RATE}{name}-reset"] = _moment(
                int(datetime.now(UTC).timestamp()) + math.ceil(rate.reset)
            )
    share = standing.budget_share
    surpassed = max((part for part in _WARN_AT if share is not None and share >= part), default=None)
    if share is not None and surpassed is not None:
        headers |= {
            f"{_RATE}unified-status": "allowed_warning",
            f"{_RATE}unified-representative-claim": "overage",
            f"{_RATE}unified-overage-utilization": f"{min(share, 1.0):.2f}",
            f"{_RATE}unified-overage-surpassed-threshold": f"{surpassed:g}",
            f"{_RATE}unified-reset": str(math.ceil(standing.budget_reset)),
        }
    return headers


@lru_cache(maxsize=64)
def _moment(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")


_ENVELOPE = ("anthropic_version",)
"""VTX-05, AWS-03."""
_INVOKED = (
    ServerPath(
        operation="chat",
        pattern="/model/{model}/invoke",
        stream=False,
        drops=_ENVELOPE,
        betas_field="anthropic_beta",
        provider="bedrock-invoke",
    ),
    ServerPath(
        operation="chat",
        pattern="/model/{model}/invoke-with-response-stream",
        stream=True,
        drops=_ENVELOPE,
        betas_field="anthropic_beta",
        provider="bedrock-invoke",
        frames=FramedEvents,
    ),
)
"""AWS-04."""
_AT_VERTEX = "/projects/{project}/locations/{location}/publishers/anthropic/models"


def _vertex_paths(version: str) -> tuple[ServerPath, ...]:
    place = version + _AT_VERTEX
    return (
        ServerPath(operation="count_tokens", pattern=f"{place}/count-tokens:rawPredict", drops=_ENVELOPE),
        *(
            ServerPath(
                operation="chat",
                pattern=f"{place}/{{model}}:{method}",
                stream=stream,
                drops=_ENVELOPE,
                provider="vertex-anthropic",
            )
            for method, stream in (("rawPredict", False), ("streamRawPredict", True))
        ),
    )


SERVER = ServerFacts(
    paths=(
        *_vertex_paths("/v1"),
        *_vertex_paths(""),
        *_INVOKED,
        ServerPath(operation="chat", pattern="/v1/messages"),
        ServerPath(operation="count_tokens", pattern="/v1/messages/count_tokens"),
        ServerPath(operation="list_models", method="GET", pattern="/v1/models"),
        ServerPath(operation="show_model", method="GET", pattern="/v1/models/{model}"),
        *batch_paths(
            "POST /v1/messages/batches",
            "GET /v1/messages/batches",
            "GET /v1/messages/batches/{id}",
            "DELETE /v1/messages/batches/{id}",
            "POST /v1/messages/batches/{id}/cancel",
            "GET /v1/messages/batches/{id}/results",
            "POST /v1/files",
            "GET /v1/files",
            "GET /v1/files/{id}",
            "DELETE /v1/files/{id}",
            "GET /v1/files/{id}/content",
        ),
        ServerPath(operation="hello", method="HEAD", pattern="/"),
        ServerPath(operation="hello", method="HEAD", pattern="/api/hello"),
        ServerPath(operation="hello", method="GET", pattern="/api/hello"),
    ),
    prefix="/anthropic",
    client_marks=(("anthropic-version", ""),),
    key_headers=("x-api-key", "authorization"),
    signatures=SignedRequests(),
    beta_headers=("anthropic-beta",),
    forwarded_headers=(
        "anthropic-beta",
        "anthropic-version",
        "anthropic-user-profile-id",
        "anthropic-dangerous-direct-browser-access",
    ),
    standing_headers=_standing_headers,
    returned_headers=("anthropic-ratelimit-", "anthropic-organization-id"),
    counted=b'"cache_control"',  # ANT-85
    most_counted=MOST_MARKS,
    passing_system=("x-anthropic-billing-header:",),
    references=REFERENCES,
    continuations=THREADS,
    state=STATE,
    carried_fields=CARRIED,
    # THR-16: to hold one is a favour; without it the client sends everything again.
    obeyed=frozenset({"thread"}),
    session_headers=(
        "x-claude-code-session-id",
        "x-claude-code-agent-id",  # of a subagent; Claude Code's own requests have none
        "x-session-id",
        "session_id",
    ),
    counts_at_start=True,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    error_frame=lambda error: sse.encode(encode_error(error)[1], "error"),
    error_headers=error_headers_with_advice,
    encode_models=_encode_models,
    encode_model=lambda model: ENCODER.encode(_model(model)),
    encode_count=lambda tokens: ENCODER.encode({"input_tokens": tokens}),
)
