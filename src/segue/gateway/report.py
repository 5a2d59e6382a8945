"""What a request came to, without its content: for the access log and for statistics."""

from __future__ import annotations

from msgspec import Struct

from segue.conversation.message import Message
from segue.conversation.usage import Usage


class AttemptReport(Struct, kw_only=True):
    """One request to one route."""

    route: str
    began: float
    """Seconds since 1970."""
    seconds: float = 0.0
    error: str = ""


class RequestReport(Struct, kw_only=True):
    """Filled in while the request is served."""

    request_id: str
    method: str = ""
    path: str = ""
    wire: str = ""
    operation: str = ""
    caller: str = ""
    client: str = ""
    """The User-Agent."""
    asked: str = ""
    """The model's name that the client asked for."""
    route: str = ""
    """provider/model that answered."""
    conversation: str = ""
    status: int = 0
    stream: bool = False
    forwarded: bool = False
    """The bytes went through as they were."""
    seconds: float = 0.0
    first_content: float | None = None
    """Seconds until the provider sent something of the reply."""
    request_bytes: int = 0
    reply_bytes: int = 0
    usage: Usage = Usage()
    dollars: float | None = None
    """What that cost; None if it is not known."""
    repairs: dict[str, int] = {}
    losses: dict[str, int] = {}
    attempts: int = 0
    failovers: int = 0
    client_gone: bool = False
    error: str = ""
    """The code of the error that the client got."""
    began: float = 0.0
    """Seconds since 1970."""
    trace_parent: str = ""
    """The client's `traceparent` header."""
    tries: list[AttemptReport] = []
    restored: int = 0
    """Replies in the client's history whose originals were put back."""
    store_seconds: float = 0.0
    """Remembering the reply."""
    messages: tuple[Message, ...] = ()
    """The content: only for traces that were asked to record it, never for the log."""
    answer: Message | None = None
