"""What a request came to, without its content: for the access log and for statistics."""

from __future__ import annotations

from msgspec import Struct

from segue.conversation.usage import Usage


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
    repairs: dict[str, int] = {}
    losses: dict[str, int] = {}
    attempts: int = 0
    failovers: int = 0
    client_gone: bool = False
    error: str = ""
    """The code of the error that the client got."""
